"""A pool over a planned list, on real servers: who does what, after what, and two at a time."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import AddAgent
from crewlog.errors import ServiceError
from crewlog.ids import RunId, item_number
from crewlog.state.fold import fold
from crewlog.state.journal import RunRolledBack, StepCompleted
from crewlog.state.model import CrewState

from .harness import LIMIT, Site, calls, tool, until

QUEUE = "pools"
NAP = {"nap": tool("nap")}
SLEEPS = [calls(("nap", {"seconds": 0.25})), {"text": "built"}]


def planned(
    site: Site, items: list[Any], work: dict[str, Any], said: dict[str, list[Any]], **more: Any
) -> dict[str, Any]:
    """A planner that hands on a list, and a phase whose items name their agents."""
    set_list = calls(("set_output", {"key": "steps", "value": items}))
    agents = {"planner": [set_list, {"text": "planned"}], **said, "lead": [{"text": "reviewed"}]}
    pool = {"phase": "work", "for_each": "planner.steps", "by": "agent", "among": [*said]}
    rules = {"planner": {"outputs": ["steps"]}} | more.pop("rules", {})
    return site.crew(agents, rules=rules, flow=["planner", {**pool, **work}, "lead"], **more)


async def started(site: Site, run: Run) -> list[Any]:
    return [e for e in await site.entries(run, "StepStarted") if "." in e.step]


@covers("C48", "C49")
async def test_five_steps_with_a_cap_of_two_all_run_and_the_peak_is_two(crews: Site) -> None:
    items = [{"id": f"s{n}", "agent": "ab"[n % 2]} for n in range(5)]
    crew = planned(crews, items, {"at_once": 2}, {"a": SLEEPS, "b": SLEEPS}, tools=NAP)
    run, result = await crews.finish(crew)
    assert result.status == "completed"
    at_work = peak = 0
    for each in sorted(crews.ledger(run), key=lambda line: line["at"]):
        at_work += 1 if each["event"] == "start" else -1
        peak = max(peak, at_work)
    assert peak == 2
    steps = await started(crews, run)
    assert [(e.step, e.agent) for e in steps] == [
        (f"work#1.{n}", "ab"[(n - 1) % 2]) for n in range(1, 6)
    ]


@covers("C49")
@pytest.mark.timeout(300)
async def test_a_plan_goes_on_in_its_order_when_the_worker_is_killed(site: Site) -> None:
    items = [
        {"id": "page", "agent": "web", "after": ["api", "db"], "task": "x" * 300},
        {"id": "api", "agent": "back", "after": ["db"]},
        {"id": "db", "agent": "back"},
        {"id": "logo", "agent": "web"},
    ]
    pays = [calls(("pay", {"name": "g", "amount": 1})), {"text": "built"}]
    rules = {name: {"retry": {"first": 0.05, "attempts": 50}} for name in ("web", "back")}
    crew = planned(
        site,
        items,
        {},
        {"web": pays, "back": pays},
        tools={"pay": tool("pay", "keyed", effects="external")},
        rules=rules,
        limits={"events": 50},
    )
    await site.start_worker(QUEUE)
    run = await site.start(crew, queue=QUEUE)
    await until(lambda: len(site.ledger(run, "paid")) == 2, "the first two")
    for dead in site.workers[QUEUE]:
        dead.kill()
    site.open_gate(run, "g")
    await site.start_worker(QUEUE)
    result = await run.result(LIMIT)
    assert (result.status, result.steps) == ("completed", 6)
    assert result.executions > 1
    steps = [(e.step.partition("#1.")[2], e.agent) for e in await started(site, run)]
    assert steps == [("3", "back"), ("4", "web"), ("2", "back"), ("1", "web")]
    done = Counter(e.step for e in await site.entries(run, "StepCompleted"))
    assert set(done.values()) == {1}
    # What its own agent said of the item that it waited for is shown, and of no other.
    (shown,) = [p for p in site.prompted(run) if (p["step"], p["call"]) == ("work#1.2", 1)]
    texts = [m["content"] for m in shown["messages"]]
    assert texts.count("[back] built") == 1


@covers("C48", "C49")
@pytest.mark.timeout(300)
async def test_no_item_is_lost_or_done_twice_through_a_change_a_rollback_and_a_kill(
    site: Site,
) -> None:
    """Five items, two at a time; whatever happens, it happens while some of them are at work."""
    names = [f"w{n}" for n in range(1, 6)]
    said = {name: [calls(("gate", {"name": name})), {"text": name}] for name in names}
    retry = {name: {"retry": {"first": 0.05, "attempts": 50}} for name in names}
    crew = planned(
        site,
        [{"agent": name} for name in names],
        {"at_once": 2},
        said,
        tools={"gate": tool("gate")},
        rules=retry,
        merge={f"{name}.text": "last" for name in names},
    )

    def at_gates() -> set[str]:
        return {each["gate"] for each in site.ledger(run, "start")}

    async def kill_and_start() -> None:
        for dead in site.workers[QUEUE]:
            dead.kill()
        await site.start_worker(QUEUE)

    site.end_workers(QUEUE)
    await site.start_worker(QUEUE)
    run = await site.start(crew, queue=QUEUE)
    await until(lambda: at_gates() == {"w1", "w2"}, "two at work")
    site.open_gate(run, "w1")
    await kill_and_start()
    await until(lambda: at_gates() == {"w1", "w2", "w3"}, "the next one")
    more = AddAgent(name="x", agent={"prompt": "You are x."}, phase={"after": ["lead"]})
    changed = await run.change(operations=[more], wait=False)
    assert changed.swap
    site.open_gate(run, "w2")
    site.open_gate(run, "w3")
    await until(lambda: at_gates() == {*names}, "all that is left, in the other graph")
    journal = dict(await site.journal(run))
    swapped = max(at for at, e in journal.items() if e.kind == "GraphSwapped")
    shown = await run.checkpoints(0, 1000)
    found = [each.position for each in shown.checkpoints if each.position < swapped]
    going = asyncio.create_task(run.rollback(found[-1], id="back"))
    await asyncio.sleep(0)
    await kill_and_start()
    with suppress(ServiceError):
        await going
    await run.rollback(found[-1], id="back")  # the same command: it is done once
    site.open_gate(run, "w4")
    site.open_gate(run, "w5")
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert [result.outputs[name]["text"] for name in names] == names
    entries = await site.journal(run)
    (back,) = [at for at, e in entries if isinstance(e, RunRolledBack)]
    ends = [
        e.step
        for at, e in entries
        if isinstance(e, StepCompleted) and at not in range(found[-1] + 1, back)
    ]
    items = [item_number(step) for step in ends if item_number(step)]
    assert sorted(items) == [1, 2, 3, 4, 5]
    state, peak = CrewState(run=RunId(run.id)), 0
    for _, entry in entries:
        state = fold(state, entry)
        peak = max(peak, len([step for step in state.frontier if item_number(step)]))
    assert peak == 2
    site.end_workers(QUEUE)


@covers("C49")
async def test_a_plan_that_a_model_replies_is_worked_on_as_it_says(crews: Site) -> None:
    steps = [
        {"id": "page", "agent": "web", "task": "the page", "after": ["api"]},
        {"id": "api", "agent": "back", "task": "long " * 60},
    ]
    agents: dict[str, Any] = {
        "planner": [{"text": json.dumps({"steps": steps, "rationale": "so"})}],
        "web": [{"text": "W"}],
        "back": [{"text": "B"}],
    }
    among = ["web", "back"]
    crew = crews.crew(
        agents,
        rules={"planner": {"reply": {"decision": "plan", "among": among}}},
        flow=[
            "planner",
            {"phase": "work", "for_each": "planner.steps", "by": "agent", "among": among},
        ],
    )
    run, result = await crews.finish(crew)
    assert result.status == "completed"
    assert [(e.step, e.agent) for e in await started(crews, run)] == [
        ("work#1.2", "back"), ("work#1.1", "web"),
    ]  # fmt: skip
    (shown,) = [p for p in crews.prompted(run) if p["agent"] == "web"]
    assert "[back] B" in [m["content"] for m in shown["messages"]]


async def test_a_plan_that_cannot_be_worked_on_is_told_and_can_be_corrected(crews: Site) -> None:
    items = [{"id": "x", "agent": "a", "after": ["y"]}, {"id": "y", "agent": "c", "after": ["x"]}]
    crew = planned(crews, items, {"at_once": 1}, {"a": [{"text": "A"}], "b": [{"text": "B"}]})
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (asked,) = await run.interrupts()
    assert (asked.kind, asked.options) == ("requirement", ("again", "skip", "stop"))
    assert "item 2 ('y') names the agent 'c', which is none of its phase: it may be a or b" in (
        asked.question
    )
    assert "in a cycle" in asked.question
    circle = [items[0], {**items[1], "agent": "b"}]
    await run.edit_state({"outputs.planner.steps": circle})
    (asked,) = await run.interrupts()
    assert "items wait for each other in a cycle: 'x' after 'y' after 'x'" in asked.question
    good = [{"id": "x", "agent": "a", "after": ["y"]}, {"id": "y", "agent": "b"}]
    await run.edit_state({"outputs.planner.steps": good})
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert [e.agent for e in await started(crews, run)] == ["b", "a"]
    refused = await crews.entries(run, "ItemsRefused")
    assert [len(each.errors) for each in refused] == [2, 1], "what is wrong is told at once"


@covers("C49", "C50")
async def test_one_failed_worker_does_not_lose_the_others_and_who_follows_is_told(
    crews: Site,
) -> None:
    items = [{"agent": "a"}, {"agent": "b"}, {"agent": "a"}]
    broken = [{"fail": "refused"}]
    found = calls(("set_output", {"key": "found", "value": {"a": 1}}))
    crew = planned(
        crews,
        items,
        {"at_once": 2},
        {"a": [found, {"text": "A"}], "b": broken},
        rules={"b": {"on_error": "continue"}, "a": {"outputs": ["found"]}},
        merge={"a.found": "update"},
    )
    run, result = await crews.finish(crew)
    assert result.status == "completed"
    assert result.outputs["a"]["found"] == {"a": 1}
    (error,) = result.outputs["b"]["error"]
    assert "refused" in error
    done = {e.step: e.because for e in await crews.entries(run, "StepCompleted")}
    assert done["work#1"] == "3 items: 2 done, 1 failed"
    (last,) = [p for p in crews.prompted(run) if p["agent"] == "lead"]
    assert any("b failed on item 2: " in m["content"] for m in last["messages"])


@covers("C50")
async def test_workers_that_disagree_are_a_conflict_that_the_flow_and_people_see(
    crews: Site,
) -> None:
    def votes(value: str) -> list[Any]:
        return [calls(("set_flag", {"flag": "verdict", "value": value})), {"text": value}]

    said = {"a": votes("ship"), "b": votes("wait")}
    crew = crews.crew(
        {**said, "judge": [{"text": "ship"}], "last": [{"text": "done"}]},
        rules={name: {"writes_flags": ["verdict"]} for name in said},
        flow=[
            ["a", "b"],
            {"if": "conflicts > 0", "go": "judge"},
            "last",
            {"agent": "judge", "after": "go"},
        ],
        merge={"verdict": "agree"},
    )
    run, result = await crews.finish(crew)
    assert result.status == "completed"
    assert "judge" in result.outputs
    assert "last" not in result.outputs
    (conflict,) = await crews.entries(run, "WriteRefused")
    assert {conflict.kept, conflict.refused} == {"ship", "wait"}
    assert (conflict.key, conflict.because) == ("verdict", "the two are not the same")
