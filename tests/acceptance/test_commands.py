"""Commands on the real path: what people may say, twice, wrongly, and at any time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    WorkflowContinuedAsNewError,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import AddPhase
from crewlog.errors import CommandRejected, InterruptNotOpen
from crewlog.workflows.commands.unauthenticated_signals import MAX_REJECTIONS

from .harness import LIMIT, RUN_LIMIT, SHARED, Site, calls, tool, until

NOT_JSON = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b'{"id": '))
REFUSAL = RawValue(Payload(metadata={"encoding": b"crewlog/refused"}, data=b"[" * 100_000))
"""What the codec puts in the place of what it refuses, with a stranger's content."""


OPTIONS = {"options": ["yes", "later", "no"]}


async def asked(run: Run) -> Any:
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (question,) = await run.interrupts()
    return question


async def at_work(site: Site, **more: Any) -> Run:
    """A run of three agents whose first one stands at a gate."""
    crew = site.crew(
        {
            "a": [calls(("gate", {"name": "g"})), {"text": "A"}],
            "b": [{"text": "B"}],
            "c": [{"text": "C"}],
        },
        tools={"gate": tool("gate")},
        **more,
    )
    run = await site.start(crew)
    await until(lambda: site.ledger(run, "start"), "the gate")
    return run


@covers("C32")
async def test_pause_and_resume(crews: Site) -> None:
    run = await at_work(crews)
    await run.pause(id="p1")
    crews.open_gate(run, "g")
    await run.wait_until(lambda v: v.status == "paused" and not v.frontier[0].calls, LIMIT)
    # Every command once more: repeated ids have no effect, and neither has what makes no sense.
    await run.pause(id="p1")
    await run.pause(id="p2")
    await run.resume(id="r1")
    await run.resume(id="r1")
    await run.result(LIMIT)
    entries = await crews.entries(run, "Paused", "RunResumed", "CommandRejected")
    assert [(e.kind, e.command) for e in entries] == [
        ("Paused", "p1"),
        ("CommandRejected", "p2"),
        ("RunResumed", "r1"),
    ]


@pytest.mark.parametrize(("node", "before"), [("*", "b#1"), ("c", "c#1")])
@covers("C125")
async def test_interrupt_asks_before_a_step(crews: Site, node: str, before: str) -> None:
    run = await at_work(crews)
    await run.interrupt(node, id="x1")
    await run.interrupt(node, id="x1")
    await run.interrupt("nowhere", id="x2")
    crews.open_gate(run, "g")
    question = await asked(run)
    assert (question.kind, question.step) == ("manual", before)
    state = await run.state()
    assert before in state.frontier
    assert state.commands["x2"].ok is False
    await run.answer(question.id, "approve")
    result = await run.result(LIMIT)
    assert result.outputs["c"]["text"] == "C"
    assert len(await crews.entries(run, "InterruptRaised")) == 1


@pytest.mark.parametrize(
    ("decision", "flag", "status"),
    [
        ("approve", True, "completed"),
        ("reject", False, "completed"),
        ("later", "later", "completed"),
        ("only after lunch", "only after lunch", "completed"),
    ],
)
@covers("C6")
async def test_answers_to_a_question(crews: Site, decision: str, flag: Any, status: str) -> None:
    crew = crews.crew(
        {"a": [{"text": "A"}], "b": [{"text": "B"}]},
        flow=["a", {"ask": "Publish?", **OPTIONS, "sets": "ok", "words": True}, "b"],
    )
    run = await crews.start(crew)
    question = await asked(run)
    with pytest.raises(InterruptNotOpen):
        await run.answer("i99", "yes")
    both = await asyncio.gather(*(run.answer(question.id, decision, id="d1") for _ in range(3)))
    assert len({accepted.position for accepted in both}) == 1
    result = await run.result(LIMIT)
    assert (result.flags["ok"], result.status) == (flag, status)
    assert len(await crews.entries(run, "InterruptAnswered")) == 1


async def test_a_no_that_nothing_takes_stops_the_run(crews: Site) -> None:
    run = await crews.start(crews.crew({"a": [{"text": "A"}]}, flow=[{"ask": "Begin?"}, "a"]))
    question = await asked(run)
    with pytest.raises(CommandRejected, match="no answer"):
        await run.answer(question.id, "perhaps")
    await run.answer(question.id, "reject")
    assert (await run.result(LIMIT)).status == "stopped"
    assert not crews.prompted(run)


async def test_malformed_and_unknown_signals_are_journaled(crews: Site) -> None:
    run = await at_work(crews)
    handle = crews.temporal.get_workflow_handle(run.id)
    await handle.signal("pause", NOT_JSON)
    await handle.signal("pause", RawValue(Payload(metadata={"encoding": b"x/unknown"}, data=b"1")))
    await handle.signal("pause", REFUSAL)
    await handle.signal("pause")
    await handle.signal("pause", args=[{"id": "one"}, {"id": "two"}])
    await handle.signal("pause", {"by": "nobody"})
    await handle.signal("pause", {"id": "p", "when": "now"})
    await handle.signal("message", {"id": "m", "text": "hi", "to": "private:nobody"})
    await handle.signal("dance", {"id": "d"})
    await handle.signal("change", {"id": "c", "operations": [{"op": "remove_phase", "name": "c"}]})
    crews.open_gate(run, "g")
    result = await run.result(LIMIT)
    assert result.status == "completed"
    rejected = await crews.entries(run, "CommandRejected")
    told = [
        "not JSON",
        "not JSON",
        "not readable",
        "0 arguments",
        "2 arguments",
        "'id' is missing",
        "'when' is unknown",
        "nobody reads",
        "'dance'",
        "not as a signal",
    ]
    assert len(rejected) == len(told)
    for entry, words in zip(rejected, told, strict=True):
        assert words in entry.reason
    assert [e.command for e in rejected] == [None] * 6 + ["p", "m", "d", "c"]


@pytest.mark.parametrize("name", ["dance", "pause"])
async def test_an_update_that_is_no_update_is_rejected(crews: Site, name: str) -> None:
    run = await at_work(crews)
    handle = crews.temporal.get_workflow_handle(run.id)
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await handle.execute_update(name, {"id": "u"}, id="u")
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "CommandRejected"
    assert f"there is no update {name!r}" in str(caught.value.cause)
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "completed"
    assert await crews.entries(run, "CommandRejected") == []
    assert await crews.entries(run, "Paused") == []


async def test_many_malformed_signals_are_counted(crews: Site) -> None:
    run = await at_work(crews)
    handle = crews.temporal.get_workflow_handle(run.id)
    for first in range(0, MAX_REJECTIONS + 40, 20):
        odd = [{"by": "nobody"}, ["no", "object"], {"id": f"x{first}", "proof": 1}, {"id": 7}]
        await asyncio.gather(*(handle.signal("pause", each) for each in odd * 5))
    await run.pause(id="good")
    await run.wait_until(lambda view: view.status == "paused", LIMIT)
    await run.resume()
    await run.message("still heard", id="m")
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "completed"
    told = await crews.entries(run, "CommandRejected")
    assert [each.name for each in told] == ["pause"] * MAX_REJECTIONS + ["signals"]
    assert told[-1].reason == "and 40 more signals that are no commands"
    assert [each.command for each in await crews.entries(run, "Paused")] == ["good"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([{}], "id"),
        ([NOT_JSON], "not JSON"),
        ([], "argument"),
        ([{}, {}], "argument"),
        ([{"id": "u", "interrupt": "i1", "decisions": []}], "decisions"),
    ],
    ids=["empty", "not_json", "none", "two", "undecided"],
)
async def test_malformed_updates_are_refused(crews: Site, args: list[Any], words: str) -> None:
    run = await crews.start(crews.crew({"a": [{"text": "A"}]}, flow=[{"ask": "Begin?"}, "a"]))
    await asked(run)
    handle = crews.temporal.get_workflow_handle(run.id)
    with pytest.raises(Exception, match="update") as caught:
        await asyncio.wait_for(handle.execute_update("answer", args=args), LIMIT)
    assert words in str(caught.value.__cause__)
    await run.answer("i1", "approve")
    assert (await run.result(LIMIT)).status == "completed"


@pytest.mark.parametrize("deep", [195, 150])
async def test_what_is_nested_too_deep_to_be_carried_is_refused(crews: Site, deep: int) -> None:
    run = await crews.start(crews.crew({"a": [{"text": "A"}]}, flow=[{"ask": "Begin?"}, "a"]))
    await asked(run)
    edit = {"id": "e", "set": {"shared.x": json.loads("[" * deep + "]" * deep)}}
    handle = crews.temporal.get_workflow_handle(run.id)
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await asyncio.wait_for(handle.execute_update("edit_state", edit, id="e"), LIMIT)
    assert "100 levels" in str(caught.value.__cause__)
    await run.change(operations=[AddPhase(phase={"ask": "More?"})])
    for question in ("i1", "i2"):
        await run.wait_until(lambda view, id_=question: view.interrupts == (id_,), LIMIT)
        await run.answer(question, "approve")
    assert (await run.result(LIMIT)).status == "completed"


@pytest.mark.parametrize("given", [{"carry": {"plan": {}, "state": {}}}, {"crew": "nobody"}])
async def test_what_the_server_starts_anew_by_itself_is_refused(crews: Site, given: Any) -> None:
    name = f"cron-{next(iter(given))}"
    started = await crews.temporal.start_workflow(
        "CrewRun", given, id=name, task_queue=SHARED, cron_schedule="@every 1s"
    )
    execution = started.first_execution_run_id
    try:
        for _ in range(2):  # to the second, the first looks like one that continued as new
            handle = crews.temporal.get_workflow_handle(name, run_id=execution)
            with pytest.raises(WorkflowContinuedAsNewError) as caught:
                await asyncio.wait_for(handle.result(follow_runs=False), LIMIT)
            execution = caught.value.new_execution_run_id
            handle = crews.temporal.get_workflow_handle(name, run_id=execution)
            first, *_ = (await handle.fetch_history()).events
            failure = first.workflow_execution_started_event_attributes.continued_failure
            assert failure.application_failure_info.type == "InvalidStart"
    finally:
        await crews.temporal.get_workflow_handle(name).terminate()


@pytest.mark.parametrize(
    ("args", "kind", "words"),
    [
        (["crew.yaml"], "InvalidStart", "mapping"),
        ([None], "InvalidStart", ""),
        ([NOT_JSON], "InvalidStart", "not JSON"),
        ([], "InvalidStart", "arguments"),
        ([{"crew": "x"}, {"more": 1}], "InvalidStart", "arguments"),
        ([{"crew": 5}], "InvalidStart", "crew"),
        ([{"crew": "x", "speed": 3}], "InvalidStart", "speed"),
        ([{"crew": "nobody-knows"}], "InvalidDefinition", "nobody-knows"),
        ([{"crew": {"crew": "x", "agents": {}}}], "InvalidDefinition", "agents"),
        ([{"carry": {}}], "InvalidStart", "carry"),
        ([{"carry": "x"}], "InvalidStart", "carry"),
    ],
    ids=[
        "text",
        "null",
        "not_json",
        "none",
        "two",
        "number",
        "key",
        "name",
        "wrong",
        "carry",
        "carried",
    ],
)
async def test_a_malformed_start_fails_the_run(
    crews: Site, args: list[Any], kind: str, words: str, request: pytest.FixtureRequest
) -> None:
    handle = await crews.temporal.start_workflow(
        "CrewRun",
        args=args,
        id=f"bad-{request.node.callspec.id}",
        task_queue=SHARED,
        execution_timeout=RUN_LIMIT / 15,
    )
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(handle.result(), LIMIT)
    cause = caught.value.cause
    assert isinstance(cause, ApplicationError), cause
    assert (cause.type, cause.non_retryable) == (kind, True)
    assert words in str(cause)
