"""What people do to a live run besides changing its graph, on the real path."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import EditAgent
from crewlog.errors import CommandRejected

from .harness import LIMIT, Site, calls, tool, until

GATE = {"gate": tool("gate")}


async def asked(run: Run) -> Any:
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (question,) = await run.interrupts()
    return question


async def at_a_gate(site: Site, *, flow: list[Any] | None = None, **more: Any) -> Run:
    """A run whose first agent's tool stands at a gate."""
    crew = site.crew(
        {
            "a": [calls(("gate", {"name": "g"})), {"text": "A"}],
            "b": [{"text": "B"}],
            "c": [{"text": "C"}],
        },
        tools=GATE,
        flow=flow or ["a", "b", "c"],
        **more,
    )
    run = await site.start(crew)
    await until(lambda: site.ledger(run, "start"), "the gate")
    return run


async def started(site: Site, run: Run) -> list[str]:
    return [entry.step for entry in await site.entries(run, "StepStarted")]


@covers("C33")
async def test_an_edit_lets_a_waiting_step_go_on(crews: Site) -> None:
    crew = crews.crew(
        {"a": [{"text": "A"}], "b": [{"text": "B"}]},
        rules={"a": {"writes_flags": ["ready"], "outputs": ["score"]}},
        flow=["a", {"agent": "b", "when": "a.ready and a.score >= 0.5"}],
    )
    run = await crews.start(crew)
    assert (await asked(run)).kind == "requirement"
    with pytest.raises(CommandRejected, match=r"nothing at 'flags.reedy'"):
        await run.edit_state({"flags.reedy": True})
    await run.edit_state({"flags.ready": True}, id="e1", reason="I have seen them")
    assert (await run.interrupts())[0].kind == "requirement"
    large = "long " * 100
    await run.edit_state({"outputs.a.score": 0.75, "outputs.a.text": large}, id="e2")
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert result.outputs["a"] == {"text": large, "score": 0.75}
    assert result.flags["ready"] is True
    assert await started(crews, run) == ["a#1", "b#1"]


@covers("C33")
async def test_a_step_at_work_is_redirected_once_its_turn_is_over(crews: Site) -> None:
    run = await at_a_gate(crews)
    accepted = await run.redirect("c", id="r1")
    again = await run.redirect("c", id="r1")
    assert again.position == accepted.position
    assert crews.ledger(run, "end") == []
    crews.open_gate(run, "g")
    result = await run.result(LIMIT)
    assert await started(crews, run) == ["a#1", "c#1"]
    assert result.outputs["a"]["text"] == "A"
    assert len(await crews.entries(run, "StepRedirected")) == 1


async def test_a_cut_cancels_the_calls_in_flight(crews: Site) -> None:
    run = await at_a_gate(crews)
    await run.redirect("c", cut=True)
    # Nobody opens the gate: the tool is told that it is cancelled.
    await until(lambda: crews.ledger(run, "cancelled"), "the cancellation")
    result = await run.result(LIMIT)
    assert await started(crews, run) == ["a#1", "c#1"]
    assert "a" not in result.outputs
    assert not await crews.entries(run, "ToolCallCompleted")


async def test_a_question_gives_way(crews: Site) -> None:
    crew = crews.crew(
        {"a": [{"text": "A"}], "b": [{"text": "B"}]},
        flow=[{"ask": "Begin?", "phase": "q"}, "a", "b"],
    )
    run = await crews.start(crew)
    question = await asked(run)
    await run.redirect("b", by="ann")
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert await started(crews, run) == ["q#1", "b#1"]
    (answer,) = await crews.entries(run, "InterruptAnswered")
    assert (answer.interrupt, answer.decision) == (question.id, "withdrawn")


async def test_a_waiting_step_gives_way_while_another_works(crews: Site) -> None:
    waits = {"agent": "b", "when": "ok", "after": []}
    run = await at_a_gate(crews, flow=["a", waits, "c"], rules={"a": {"writes_flags": ["ok"]}})
    await run.wait_until(lambda v: any(s.status == "waiting" for s in v.frontier), LIMIT)
    with pytest.raises(CommandRejected, match="2 steps are in the frontier"):
        await run.redirect("c")
    await run.redirect("c", "b#1")
    await run.wait_until(lambda v: v.completed_steps.get("c", 0) == 1, LIMIT)
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "completed"
    assert sorted(await started(crews, run)) == ["a#1", "c#1"]


@covers("C10")
async def test_a_permission_is_in_force_for_the_next_call(crews: Site) -> None:
    crew = crews.crew(
        {
            "a": [
                calls(("gate", {"name": "g"})),
                calls(("echo", {"text": "one"})),
                calls(("gate", {"name": "h"})),
                calls(("echo", {"text": "two"})),
                {"text": "A"},
            ],
        },
        tools={**GATE, "echo": tool("echo")},
    )
    run = await crews.start(crew)
    await until(lambda: crews.ledger(run, "start", gate="g"), "the first gate")
    await run.set_permission("echo", [], reason="not now")
    crews.open_gate(run, "g")
    await until(lambda: crews.ledger(run, "start", gate="h"), "the second gate")
    await run.set_permission("echo", None)
    crews.open_gate(run, "h")
    assert (await run.result(LIMIT)).status == "completed"
    assert [e["text"] for e in crews.ledger(run, "start", tool="echo")] == ["two"]
    (denied,) = await crews.entries(run, "PermissionDenied")
    assert "permissions do not let 'a' call 'echo'" in denied.reason
    (told,) = [e for e in await crews.entries(run, "ToolCallCompleted") if not e.ok]
    assert "Refused" in told.excerpt


async def test_what_people_rule_is_in_the_store_when_they_are_answered(crews: Site) -> None:
    run = await at_a_gate(crews)
    await run.set_permission("gate", ["a"])
    assert len(await crews.entries(run, "ToolPermissionSet")) == 1
    await run.deny("b", "gate")
    assert len(await crews.entries(run, "AgentPermissionSet")) == 1
    await run.change(operations=[EditAgent(name="b", set={"reads": []})])
    assert len(await crews.entries(run, "DefinitionChanged")) == 1
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "completed"


async def test_each_has_one_outcome_over_continue_as_new(crews: Site) -> None:
    """Sent again in a later execution, a command says what it did in an earlier one."""
    rounds = [calls(("nap", {"seconds": 0.02})) for _ in range(12)]
    crew = crews.crew(
        {
            "a": [
                calls(("gate", {"name": "g"})),
                *rounds,
                calls(("gate", {"name": "h"})),
                {"text": "A"},
            ],
            "b": [{"text": "B"}],
            "c": [{"text": "C"}],
        },
        tools={**GATE, "nap": tool("nap")},
        flags={"ok": False},
        limits={"events": 50},
    )
    run = await crews.start(crew)
    await until(lambda: crews.ledger(run, "start", gate="g"), "the gate")

    async def signals(position: int) -> None:
        await run.pause(id="pause")
        await run.resume(id="resume")
        await run.interrupt("b", id="interrupt")
        await run.tag(position, "edited", id="tag")

    async def all_of_them() -> list[int]:
        done = await asyncio.gather(
            run.edit_state({"flags.ok": True}, id="e"),
            run.redirect("c", id="r"),
            run.set_permission("nap", ["a"], id="p"),
        )
        return [accepted.position for accepted in done]

    first = await all_of_them()
    (beginning, *_) = (await run.checkpoints()).checkpoints
    await signals(beginning.position)
    crews.open_gate(run, "g")
    await until(lambda: crews.ledger(run, "start", gate="h"), "the second gate")
    view = await run.wait_until(lambda v: v.execution > 1, LIMIT)
    assert view.execution > 1
    assert await all_of_them() == first
    await signals(beginning.position)
    crews.open_gate(run, "h")
    result = await run.result(LIMIT)
    assert result.executions > 1
    assert await started(crews, run) == ["a#1", "c#1"]
    kinds = ["StateEdited", "StepRedirected", "ToolPermissionSet", "CheckpointTagged"]
    kinds += ["Paused", "RunResumed", "BreakpointSet"]
    found = await crews.entries(run, *kinds, "CommandRejected")
    assert sorted(e.kind for e in found) == sorted(kinds)
    assert (await run.state()).tags == {"edited": beginning.position}
