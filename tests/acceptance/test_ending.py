"""Temporal's cancel and the signal `stop` reach what runs, at once, and nothing is lost."""

from __future__ import annotations

import asyncio
import time

import pytest
from temporalio.client import WorkflowExecutionStatus

from crewlog.client import Run
from crewlog.errors import RunFailed

from .harness import LIMIT, Site, calls, tool, until


async def at_the_gate(site: Site, *tools: str) -> Run:
    """A run with tools at a closed gate, and an agent beside it whose model takes its time."""
    crew = site.crew(
        {
            "a": [calls(*((name, {"name": "shut"}) for name in tools)), {"text": "never"}],
            "slow": [{"text": "never", "stall": 30}],
            "after": [{"text": "never"}],
        },
        tools={name: tool(name) for name in tools},
        flow=[["a", "slow"], "after"],
    )
    run = await site.start(crew)
    await until(lambda: len(site.ledger(run, "start")) == len(tools), "the tools")
    return run


async def round_trip(run: Run) -> float:
    """Seconds of a question that the server passes on to the worker."""
    began = time.time()
    await run.state()
    return time.time() - began


@pytest.mark.parametrize("how", ["cancel", "stop"])
async def test_running_activities_hear_of_it_within_two_seconds(crews: Site, how: str) -> None:
    run = await at_the_gate(crews, "gate", "blocking_gate")
    answer = await round_trip(run)
    began = time.time()
    if how == "cancel":
        await run.cancel()
        with pytest.raises(RunFailed, match="canceled"):
            await run.result(LIMIT)
    else:
        await run.stop("enough", by="ana")
        result = await run.result(LIMIT)
        assert result.status == "stopped"
        assert "input" not in result.outputs
    took = time.time() - began
    answer = max(answer, await round_trip(run))  # what a busy machine adds to every step of it
    cancelled = crews.ledger(run, "cancelled")
    assert {e["tool"] for e in cancelled} == {"gate", "blocking_gate"}
    assert max(e["at"] for e in cancelled) - began < 2 + 10 * answer
    assert took < 5 + 20 * answer
    description = await crews.temporal.get_workflow_handle(run.id).describe()
    expected = {
        "cancel": WorkflowExecutionStatus.CANCELED,
        "stop": WorkflowExecutionStatus.COMPLETED,
    }
    assert description.status is expected[how]
    kinds = [entry.kind for entry in await crews.entries(run)]
    assert kinds[-3:] == ["StepCancelled", "StepCancelled", "RunStopped"]
    assert "StopRequested" in kinds
    state = await run.state()
    assert state.status == "stopped"
    assert not state.frontier


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_an_end_while_people_are_asked(crews: Site, how: str) -> None:
    crew = crews.crew({"a": [{"text": "A"}], "b": [{"text": "B"}]}, flow=["a", {"ask": "On?"}, "b"])
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    if how == "stop":
        await asyncio.gather(run.stop(id="s1"), run.stop(id="s1"))
        assert (await run.result(LIMIT)).status == "stopped"
    else:
        await run.cancel()
        with pytest.raises(RunFailed, match="canceled"):
            await run.result(LIMIT)
    state = await run.state()
    assert (state.status, state.interrupts, state.visits) == ("stopped", {}, {"a": 1, "ask_1": 1})
    assert len(await crews.entries(run, "StopRequested")) == 1


async def test_a_command_while_the_run_ends_is_refused_on_record(crews: Site) -> None:
    crew = crews.crew({"a": [{"text": "A"}]}, flow=["a", {"ask": "On?"}])
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await run.stop(id="s1")
    # All of these are sent before the run has ended, or are refused by the server.
    late = [run.message(f"late {n}", id=f"late-{n}") for n in range(20)]
    sent = await asyncio.gather(*late, return_exceptions=True)
    assert (await run.result(LIMIT)).status == "stopped"
    state = await run.state()
    taken = [f"late-{n}" for n, outcome in enumerate(sent) if not isinstance(outcome, Exception)]
    assert set(taken) <= set(state.commands)
