"""Executions that are none of the run's whose id they have: nothing of them is believed.

Whoever reaches the server may start workflows of their own, and have them continue as a crew's run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from crewlog.client import Run
from crewlog.definition.load import load_data
from crewlog.graph.engine import Engine
from crewlog.graph.lowering.plans import lower
from crewlog.ids import AgentName, RunId
from crewlog.model import Model
from crewlog.state.calls import (
    DELETE_REPLACED_RUN,
    END_RUN,
    FIND_COMMAND,
    PREPARE_CHANGE,
    PREPARE_MERGE,
    RESTORE_STATE,
    STORE_BATCH,
    DeleteReplacedRun,
    EndRun,
    FindCommand,
    PrepareChange,
    PrepareMerge,
    RestoreState,
    StoreBatch,
)
from crewlog.state.carry import Carry
from crewlog.state.journal import Batch
from crewlog.wire import WORKFLOW_TYPE, StartRun

from .harness import LIMIT, RUN_LIMIT, SHARED, Site, calls, tool, until
from .test_encryption import send
from .test_graphs_guarded import signed
from .test_merges import A
from .test_principals import client, folder, policy

__all__ = ["folder"]
OWN = "strangers"
"""The task queue of a worker that is nobody's but the stranger's."""


async def _act(queue: str, activity: str, argument: dict[str, Any]) -> None:
    if not activity:
        crew: Any = WORKFLOW_TYPE
        workflow.continue_as_new(argument, workflow=crew, task_queue=queue)
    await workflow.execute_activity(
        activity, argument, task_queue=queue, start_to_close_timeout=timedelta(seconds=20)
    )


@workflow.defn(name="Stranger", sandboxed=False)
class Stranger:
    """Continues as a crew's run, or has one activity done in its name."""

    @workflow.run
    async def run(self, queue: str, activity: str, argument: dict[str, Any]) -> None:
        """Does it."""
        await _act(queue, activity, argument)


@workflow.defn(name=WORKFLOW_TYPE, sandboxed=False)
class Impostor:
    """The same, by the name of what it is not."""

    @workflow.run
    async def run(self, queue: str, activity: str, argument: dict[str, Any]) -> None:
        """Does it."""
        await _act(queue, activity, argument)


@pytest.fixture
async def worker(crews: Site) -> AsyncGenerator[None]:
    runner = UnsandboxedWorkflowRunner()
    async with Worker(
        crews.temporal, task_queue=OWN, workflows=[Stranger, Impostor], workflow_runner=runner
    ):
        yield


async def refused(site: Site, kind: str, run: str, activity: str, argument: dict[str, Any]) -> str:
    """Why a stranger's workflow under a run's id failed."""
    handle = await site.temporal.start_workflow(
        kind,
        args=[SHARED, activity, argument],
        id=run,
        task_queue=OWN,
        execution_timeout=RUN_LIMIT,
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    cause = failed.value.cause
    cause = cause.cause if isinstance(cause, ActivityError) else cause
    assert isinstance(cause, ApplicationError), cause
    assert cause.type == "NotPermitted", cause
    return cause.message


async def forged(crew: dict[str, Any], run: str, position: int, *, by: str) -> dict[str, Any]:
    """What an execution would carry that was one of the run."""
    engine = await Engine.begin(lower(load_data(crew)), RunId(run), input_text="go", by=by, at=1)
    batch = engine.journal.unpacked_batch() if not position else Batch.EMPTY
    state = engine.state.to_json() | ({"position": position} if position else {})
    carry = Carry(plan=engine.plan.to_json(), state=state, batch=batch)
    return {"carry": carry.to_json()}


def simple(site: Site, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A signed crew that may call nothing, and an open one of its name that calls a tool."""
    quiet = site.crew({"a": [{"text": "A"}]}, tools={"echo": tool("echo")}, flow=["a"])
    script = [calls(("echo", {"text": "forged"})), {"text": "E"}]
    other = site.crew({"a": script}, tools={"echo": tool("echo")}, flow=["a"])
    other["crew"] = quiet["crew"]
    return quiet | {"policy": policy(folder), "permissions": {"echo": []}}, other


async def ended(site: Site, folder: Path, crew: dict[str, Any]) -> Run:
    run = await client(site, folder, "ada").start(crew, "go", execution_timeout=RUN_LIMIT)
    assert (await run.result(LIMIT)).status == "completed"
    return run


@pytest.mark.usefixtures("worker")
async def test_a_signed_run_is_continued_by_nobody_else(crews: Site, folder: Path) -> None:
    signed, other = simple(crews, folder)
    await crews.store.put_definition(
        RunId("other"), load_data(other).to_json()
    )  # as an open run does
    run = await ended(crews, folder, signed)
    journal, row = await crews.journal(run), await crews.store.get_run(run.id)
    for crew in (other, signed):
        carry = await forged(crew, run.id, journal[-1][0], by="ada")
        for kind in ("Stranger", WORKFLOW_TYPE):
            assert "does not belong to the run" in await refused(crews, kind, run.id, "", carry)
    entry = {"kind": "RunStopped", "because": "I say so"}
    flush = StoreBatch(run=run.id, batch=Batch(first=journal[-1][0] + 1, entries=(entry,)))
    told = await refused(crews, WORKFLOW_TYPE, run.id, STORE_BATCH, flush.to_json())
    assert "does not belong to the run" in told
    forget = DeleteReplacedRun(run=run.id).to_json()
    assert "in a local activity alone" in await refused(
        crews, WORKFLOW_TYPE, run.id, DELETE_REPLACED_RUN, forget
    )
    assert not crews.ledger(run)
    assert await crews.journal(run) == journal
    assert await crews.store.get_run(run.id) == row


@pytest.mark.usefixtures("worker")
async def test_nobody_makes_a_signed_run_that_was_never_started(crews: Site, folder: Path) -> None:
    signed, _ = simple(crews, folder)
    await crews.store.put_definition(RunId("other"), load_data(signed).to_json())
    run = f"{signed['crew']}-never"
    carry = await forged(signed, run, 0, by="ada")
    for kind in ("Stranger", WORKFLOW_TYPE):
        assert "does not belong to the run" in await refused(crews, kind, run, "", carry)
    assert await crews.store.get_run(RunId(run)) is None


@pytest.mark.usefixtures("worker")
async def test_a_workflow_on_another_queue_is_told_nothing_of_a_run(
    crews: Site, folder: Path
) -> None:
    """Neither its state, nor what it said, nor its definition, by the hashes of these."""
    signed, _ = simple(crews, folder)
    run = await ended(crews, folder, signed)
    state = await run.state()
    (body,) = state.agent_outputs[AgentName("a")]["text"].bodies
    asks: list[tuple[str, Model]] = [
        (RESTORE_STATE, RestoreState(run=run.id, position=state.position)),
        (END_RUN, EndRun(run=RunId("x"), batch=Batch.EMPTY, state={}, outputs=(body,))),
        (
            PREPARE_CHANGE,
            PrepareChange(run=RunId("x"), base=state.definition, operations=({"op": "x"},)),
        ),
    ]
    for activity, task in asks:
        me = f"{run.id}-{activity}"
        argument = task.to_json()
        if activity != RESTORE_STATE:
            argument["run"] = me
        assert await refused(crews, WORKFLOW_TYPE, me, activity, argument)


async def test_a_fork_that_is_refused_keeps_nobody_from_deleting(crews: Site, folder: Path) -> None:
    signed, _ = simple(crews, folder)
    run = await ended(crews, folder, signed)
    place = (await run.checkpoints()).checkpoints[0].position
    fork = f"{run.id}-fork"
    handle = await crews.temporal.start_workflow(
        WORKFLOW_TYPE,
        {"fork": {"run": run.id, "position": place}},
        id=fork,
        task_queue=SHARED,
        execution_timeout=RUN_LIMIT,
    )
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert not await crews.store.list_pending_forks([run.id])
    blocker = await crews.temporal.start_workflow(
        WORKFLOW_TYPE, {}, id=fork, task_queue="nobody", execution_timeout=RUN_LIMIT
    )
    try:
        assert (await crews.client().delete(run.id)).rows.entries
    finally:
        await blocker.terminate()


async def test_a_run_of_an_id_begins_anew_only_where_it_says_so(crews: Site, folder: Path) -> None:
    """Proofs that were never used are of the run as it was when they were made."""
    signed, other = simple(crews, folder)
    run = await ended(crews, folder, signed)
    ada = client(crews, folder, "ada")
    first = (await crews.temporal.get_workflow_handle(run.id).describe()).run_id
    starts = {
        "the start does not replace it": StartRun(crew=signed),
        "has a signed run": StartRun(crew=other),
        "has continued since": StartRun(crew=signed, replace=True, replaced_executions=(first,)),
        "continued since this start": StartRun(reopen="live", replaced_executions=(first,)),
    }
    unused = {why: ada.signed_start(run.id, start) for why, start in starts.items()}
    await ada.start(signed, "go", id=run.id, existing="replace", execution_timeout=RUN_LIMIT)
    assert (await run.result(LIMIT)).status == "completed"
    journal = await crews.journal(run)
    for why, start in unused.items():
        handle = await crews.temporal.start_workflow(
            WORKFLOW_TYPE, start, id=run.id, task_queue=SHARED, execution_timeout=RUN_LIMIT
        )
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
        cause = failed.value.cause
        assert isinstance(cause, ApplicationError)
        assert (cause.type, why in cause.message) == ("NotPermitted", True), cause
    assert await crews.journal(run) == journal


async def test_what_goes_on_from_a_signed_run_is_known(crews: Site, folder: Path) -> None:
    """Also of a run that was open until it had another graph."""
    script = [calls(("gate", {"name": "g"})), {"text": "A"}]
    whole = crews.crew({"a": script, "b": [{"text": "B"}]}, tools={"gate": tool("gate")})
    crew = whole | {"agents": {"a": whole["agents"]["a"]}, "flow": ["a"]}
    run = await client(crews, folder, "ada").start(crew, "go", execution_timeout=RUN_LIMIT)
    crews.runs.append(run)
    await until(lambda: crews.ledger(run, "start"), "the gate")
    assert not await crews.store.accepted_executions(run.id), "nobody asks for it of an open run"
    changed = await run.change(definition=whole | {"policy": policy(folder)}, wait=False)
    assert changed.swap
    crews.open_gate(run, "g")
    result = await run.result(LIMIT)
    assert (result.status, result.executions) == ("completed", 2)
    assert await crews.store.accepted_executions(run.id)


@pytest.mark.usefixtures("worker")
async def test_an_impostor_reads_nothing_of_a_signed_run(crews: Site, folder: Path) -> None:
    """A preview of a merge returns the definition and the state of the other run."""
    victim = await signed(crews, folder, A)
    await crews.stored(victim)
    base = (await victim.state()).definition
    preview = PrepareMerge(
        run=RunId(f"aaa-{victim.id}"),
        base=base,
        other=RunId(victim.id),
        operation={"op": "connect", "sender": "ann", "listener": "bob", "other": victim.id},
        asks=RunId(f"aaa-{victim.id}"),
        decide=True,
    )
    told = await refused(crews, WORKFLOW_TYPE, preview.run, PREPARE_MERGE, preview.to_json())
    assert "does not belong to the run" in told
    await victim.stop()
    await victim.result(LIMIT)
    crews.runs.remove(victim)  # its id is the impostor's from here on
    find = FindCommand(run=RunId(victim.id), command="c").to_json()
    told = await refused(crews, WORKFLOW_TYPE, victim.id, FIND_COMMAND, find)
    assert "does not belong to the run" in told


async def test_a_signal_that_says_it_is_encrypted_stops_no_run(crews: Site, folder: Path) -> None:
    """Of workers without keys: the task that reads it would fail for good."""
    crew = crews.crew({"a": [{"text": "A"}]}, flow=["a", {"ask": "Go on?"}])
    owner = client(crews, folder, "ada")
    run = await owner.start(crew | {"policy": policy(folder)}, "go", execution_timeout=RUN_LIMIT)
    crews.runs.append(run)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    for about in ({}, {"crewlog-key": b"made up"}):
        await send(crews, run, Payload(metadata={"encoding": b"binary/encrypted", **about}))
    await run.message("hello")
    await run.answer("i1", "approve")
    assert (await run.result(LIMIT)).status == "completed"
    assert len(await crews.entries(run, "CommandRejected")) == 2
