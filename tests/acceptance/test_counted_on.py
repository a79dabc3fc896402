"""No quota begins anew because agents come and go: not in a run, and not over runs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from crewlog.client import Run
from crewlog.definition.operations import AddAgent, Connect, Disconnect, EditRule, SetGroup
from crewlog.ids import AgentName, RunId

from .harness import LIMIT, Site, calls, tool
from .test_creatures import rested
from .test_splits import part_of, until_begun

EDGES = {
    "ann": {"listen": ["x"], "send": ["b"]},
    "bob": {"listen": ["x"]},
    "eve": {"listen": ["b"]},
}
CALL = calls(("echo", {"text": "x"}))


def crew_of(site: Site, ann: list[Any], **more: Any) -> dict[str, Any]:
    says = [{"text": "said"}] * 5
    script = {"ann": ann, "bob": says, "eve": says}
    return site.crew(script, rules=EDGES, tools={"echo": tool("echo")}, graph={}) | more


async def say(run: Run) -> None:
    """Has ann and bob hear something."""
    before = (await run.state()).steps
    await run.message("work", to="channel:x", by="dot")
    await run.wait_until(lambda view: view.steps >= before + 2 and view.is_idle, LIMIT)


async def apart(site: Site, run: Run) -> Run:
    await run.change(operations=[Disconnect(sender="ann", listener="eve")], id="cut")
    part = part_of(site, run, "cut", "eve")
    await until_begun(part)
    await rested(part)
    return part


async def tied(run: Run, part: Run) -> Run:
    """The run that both are again."""
    tie = Connect(
        sender=AgentName("ann"), listener=AgentName("eve"), channel="b", other=RunId(part.id)
    )
    stays = await run.merged(await run.change(operations=[tie], id="tie", wait=False))
    found = run if stays == run.id else part
    await found.wait_until(lambda view: view.is_idle and not view.merge_status, LIMIT)
    return found


def made(site: Site, *runs: Run) -> int:
    return sum(len(site.ledger(run, "start", tool="echo")) for run in runs)


@pytest.mark.parametrize("per", ["run", "day"])
async def test_a_creature_renews_no_quota_by_removing_who_shares_it(crews: Site, per: str) -> None:
    gone = calls(("group_remove_node", {"name": "w"}))
    script = {"root": [CALL, CALL, gone, CALL, CALL, {"text": "Over."}], "w": [{"text": "w"}]}
    rules = [{"tool": "echo", "agents": ["root", "w"], "quota": f"1 per {per}"}]
    crew = crews.crew(
        script,
        rules={"w": {"listen": ["p"]}, "root": {"send": ["p"]}},
        tools={"echo": tool("echo")},
        graph={"root": "root"},
    ) | {"crew": f"counted-{per}-{time.time_ns()}", "rules": rules}
    run = await crews.start(crew, "Go.")
    await run.wait_until(lambda view: view.is_idle and view.steps == 1, LIMIT)
    assert "w" not in (await run.graph()).plan["agents"]
    assert made(crews, run) == 1


async def test_a_quota_is_not_renewed_where_parts_are_one_again(crews: Site) -> None:
    rules = [{"tool": "echo", "agents": ["ann", "eve"], "quota": "2 per run"}]
    ann = [CALL, CALL, CALL, {"text": "1"}, CALL, CALL, {"text": "2"}]
    run = await crews.start(crew_of(crews, ann, rules=rules), "")
    await rested(run)
    await say(run)
    assert made(crews, run) == 2
    part = await apart(crews, run)
    await part.change(operations=[EditRule(place=0, set={"reason": "Be thrifty."})], id="why")
    stays = await tied(run, part)
    await say(stays)
    assert made(crews, run, part) == 2


async def test_a_quota_of_which_nothing_is_used_is_there_where_parts_are_one_again(
    crews: Site,
) -> None:
    rules = [{"tool": "echo", "agents": ["group:g"], "quota": "4 per run"}]
    crew = crew_of(crews, [CALL, {"text": "1"}], rules=rules, groups={"g": ["ann", "eve"]})
    run = await crews.start(crew, "")
    await rested(run)
    part = await apart(crews, run)
    fay = AddAgent(name="fay", agent={"prompt": "You are fay.", "beside": "eve"})
    wide = SetGroup(name="g", agents=("ann", "eve", "fay"))
    await part.change(operations=[fay, wide], id="fay")
    stays = await tied(run, part)
    await say(stays)
    assert made(crews, run, part) == 1
