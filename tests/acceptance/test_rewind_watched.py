"""Going back while a change drains; and what who looks at a run sees that went back, is a fork, or
was taken up again: the command line as a process, on the real server."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from crewlog.client import Run
from crewlog.definition.operations import AddAgent
from crewlog.errors import ChangeConflict

from .harness import LIMIT, RUN_LIMIT, SHARED, Site, calls, tool, until

GATED = [calls(("gate", {"name": "g"})), {"text": "B"}]
ADDED = AddAgent(name="c", agent={"prompt": "You are c."}, phase={"after": ["b"]})


async def at_gate(site: Site) -> tuple[Run, int]:
    """A run whose `b` waits at a gate in mid-turn, and the checkpoint before."""
    model = site.script({"a": [{"text": "A"}], "b": GATED, "*": [{"text": "said"}]})
    agents = {"a": [{"text": "A"}], "b": GATED}
    crew = site.crew(agents, tools={"gate": tool("gate")}, flow=["a", "b"], model=model)
    run = await site.start(crew)
    await until(lambda: site.ledger(run, "start"), "the tool")
    return run, (await run.checkpoints()).checkpoints[-1].position


async def test_a_rollback_that_meets_a_change_that_drains_is_a_conflict(crews: Site) -> None:
    run, place = await at_gate(crews)
    await run.change(operations=[ADDED], wait=False)
    with pytest.raises(ChangeConflict, match="is pending, to graph v2"):
        # The gate is shut: an answer comes only if nothing is waited for.
        await asyncio.wait_for(run.rollback(place, id="early"), LIMIT)
    assert (await run.state()).pending_change is not None
    crews.open_gate(run, "g")
    result = await run.result(LIMIT)
    assert (result.status, [*result.outputs]) == ("completed", ["a", "b", "c"])
    told = ("ChangeAccepted", "GraphSwapped", "RunRolledBack", "CommandRejected")
    entries = await crews.entries(run, *told)
    assert [entry.kind for entry in entries] == [
        "ChangeAccepted",
        "CommandRejected",
        "GraphSwapped",
    ]
    assert (await run.rebuild()).whole


async def test_a_rollback_is_there_when_a_drained_call_comes_back(crews: Site) -> None:
    """The other way round: what is under way when a run goes back is nobody's any more."""
    run, place = await at_gate(crews)
    await run.rollback(place)
    changed = await run.change(operations=[ADDED], wait=False)
    assert changed.swap
    crews.open_gate(run, "g")
    result = await run.result(LIMIT)
    assert [*result.outputs] == ["a", "b", "c"]
    ended = [entry.step for entry in await crews.entries(run, "StepCompleted")]
    assert ended == ["a#1", "b#2", "c#1"]


# -- looking ---------------------------------------------------------------------------------


async def said(site: Site, *arguments: str) -> str:
    """What a command prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crewlog.cli.main", *arguments),
        env=site.environ(SHARED) | {"COLUMNS": "120"},
        cwd=site.project,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), LIMIT * 2)
    assert process.returncode == 0, (arguments, out, err)
    return out.decode()


def events(told: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.splitlines()]


async def test_a_run_that_went_back_is_seen_as_it_is(crews: Site) -> None:
    run, place = await at_gate(crews)
    await run.tag(place, "sure")
    await run.rollback("sure", "once more", by="ana")
    page = await said(crews, "show", run.id)
    assert "b#2" in page
    assert f"sure = @{place}" in page
    assert "b#1" not in page
    watching = asyncio.create_task(said(crews, "watch", run.id))
    await until(lambda: len(crews.ledger(run, "start")) == 2, "the tool, once more")
    crews.open_gate(run, "g")
    told = await watching
    back = told.index(f"back to checkpoint {place} by ana (once more)")
    assert "thinking again (visit 2)" in told[back:]
    assert "completed" in await said(crews, "show", run.id)
    lines = events(await said(crews, "watch", run.id, "--json"))
    positions = [line["position"] for line in lines if line["event"] == "journal"]
    assert positions == list(range(1, (await run.state()).position + 1))
    then = json.loads(await said(crews, "show", f"{run.id}@sure", "--json"))
    assert (then["at"], [each["step"] for each in then["frontier"]]) == (place, [])


async def test_a_fork_and_a_run_taken_up_again_are_seen_as_they_are(crews: Site) -> None:
    run, place = await at_gate(crews)
    fork = await run.fork(place, by="ana", execution_timeout=RUN_LIMIT)
    crews.runs.append(fork)
    await until(lambda: crews.ledger(fork, "start"), "the fork's tool")
    assert f"{run.id}@{place}" in await said(crews, "show", fork.id)
    crews.open_gate(fork, "g")
    told = await said(crews, "watch", fork.id)
    assert f"forked from {run.id}@{place} by ana" in told
    await run.terminate("oops")
    assert "terminated" in await said(crews, "show", run.id)
    await run.reopen(by="bob", execution_timeout=RUN_LIMIT)
    crews.open_gate(run, "g")
    again = await said(crews, "watch", run.id)
    assert "taken up again at" in again
    assert "by bob" in again
    assert "completed" in await said(crews, "show", run.id)
