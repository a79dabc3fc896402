"""A history that is long enough while a call lasts: nobody is kept waiting for its end."""

from __future__ import annotations

from typing import Any

from crewlog.client import Run

from .harness import LIMIT, Site, calls, tool, until


def two_lanes(site: Site, events: int) -> dict[str, Any]:
    """`a` waits at a gate in mid-turn, beside a question that `c` and `d` come after."""
    gate = [calls(("gate", {"name": "g"})), {"text": "A"}]
    crew = site.crew(
        {"a": gate, "c": [{"text": "C"}], "d": [{"text": "D"}]},
        tools={"gate": tool("gate")},
        limits={"events": events},
    )
    crew["flow"] = [
        {"agent": "a", "after": []},
        {"ask": "Go?", "phase": "q", "after": []},
        {"agent": "c", "after": ["q"]},
        {"agent": "d", "after": ["c"]},
    ]
    return crew


async def begun(site: Site, events: int, length: int) -> Run:
    """A run at its gate, whose history has that many events: what is said to it fills it."""
    run = await site.start(two_lanes(site, events))
    await until(lambda: site.ledger(run, "start"), "the tool")
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    handle = site.temporal.get_workflow_handle(run.id)
    number = 0
    while (await handle.describe()).history_length < length:
        number += 1
        await run.message(f"{number}", id=f"m{number}")
    # A query is answered when all that came before it is applied.
    await run.wait_until(lambda view: view.execution == 1, LIMIT)
    return run


async def check_end(site: Site, run: Run) -> None:
    result = await run.result(LIMIT)
    said = {agent: found["text"] for agent, found in result.outputs.items()}
    assert said == {"a": "A", "c": "C", "d": "D"}
    assert result.executions == 2
    assert len(site.ledger(run, "start")) == 1
    (left,) = await site.entries(run, "ExecutionContinuedAsNew")
    assert left.because == "its history has reached its limit"
    assert (await run.rebuild()).whole


async def test_other_lanes_go_on_beside_a_long_call(crews: Site) -> None:
    run = await begun(crews, events=200, length=205)
    await run.answer("i1", "approve", id="yes")
    view = await run.wait_until(lambda view: view.completed_steps.get("d") == 1, LIMIT)  # type: ignore[call-overload]
    assert (view.execution, view.wait_reason, view.status) == (1, "", "running")
    assert [step.step for step in view.frontier] == ["a#1"]
    crews.open_gate(run, "g")
    await check_end(crews, run)


async def test_a_run_that_drains_for_its_length_takes_commands(crews: Site) -> None:
    run = await begun(crews, events=50, length=80)
    view = await run.status()
    assert view.status == "waiting"
    assert view.wait_reason.startswith("a#1: nothing else starts until")
    await run.answer("i1", "approve", id="yes")
    await run.edit_state({"shared.told": True}, id="edit")
    view = await run.status()
    assert view.execution == 1
    assert view.interrupts == ()
    # What the answer makes possible stands ready, and makes no call.
    doing = {step.step: bool(step.calls) for step in view.frontier}
    assert doing == {"a#1": True, "c#1": False}
    crews.open_gate(run, "g")
    await check_end(crews, run)


async def test_a_run_that_drains_for_its_length_can_be_stopped(crews: Site) -> None:
    run = await begun(crews, events=50, length=80)
    await run.stop()
    result = await run.result(LIMIT)
    assert (result.status, result.executions) == ("stopped", 1)
