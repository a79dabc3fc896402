"""Runs that do not begin with a crew: forks, runs that go on after their end, and replaced ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Literal

from pydantic import ValidationError
from temporalio.client import WorkflowExecutionStatus
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError

from crewlog.client import forking
from crewlog.client.catalog import definition_of
from crewlog.client.gateway import CALL_LIMIT, pauses
from crewlog.client.others import Others
from crewlog.client.recipes import Recipe, Written, edited
from crewlog.client.session import Session
from crewlog.client.starting import begin, policy_of_run
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import Operation
from crewlog.errors import (
    CommandRejected,
    RunNotFound,
    ServiceError,
    StoreUnavailable,
    UsageError,
)
from crewlog.ids import RunId
from crewlog.model import Json
from crewlog.store.checkpoints import checkpoint_state_position, load_last_state, load_reopen_state
from crewlog.store.claims import EndedExecutions
from crewlog.store.deletion import pending_fork_error
from crewlog.store.missing_rows import missing_rows_error
from crewlog.store.protocol import PendingFork, RunRow, Store
from crewlog.validation_errors import validation_error_text
from crewlog.wire import WORKFLOW_TYPE, ForkSource, StartRun

STORED_WITHIN = 3.0
"""Seconds until what a run has recorded is in the store."""
STOPPED_WITHIN = 10.0
"""Seconds for a run that is replaced to end by itself; then it is ended from outside."""
BEGUN_WITHIN = 10.0
"""Seconds for a fork to begin, before its source is refused to be deleted."""
ASKED_WITHIN = 60.0
"""Seconds between the note of a fork and its start: what is not there by then was never started."""
_OPEN = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)


async def fork(
    session: Session,
    source: RunId,
    position: int,
    *,
    id: str | None,
    operations: Sequence[Operation],
    definition: dict[str, Json] | None,
    by: str,
    execution_timeout: timedelta | None,
) -> RunId:
    """Starts a run that goes on from a checkpoint of another one; see `Run.fork`."""
    crew = await _checked(session, source, position)
    await forked_crew(session, source, position, operations, definition)
    try:
        checkpoint = ForkSource(
            run=source, position=position, operations=tuple(operations), definition=definition
        )
        payload = StartRun(fork=checkpoint, by=by)
    except ValidationError as error:
        raise UsageError(f"the fork cannot be started: {validation_error_text(error)}") from error
    policy = await policy_of_run(session, source)
    return await begin(session, id, crew or "fork", payload, execution_timeout, policy=policy)


async def forked_crew(
    session: Session,
    source: RunId,
    position: int,
    operations: Sequence[Operation],
    definition: dict[str, Json] | None,
) -> CrewDefinition | None:
    """The crew that a fork goes on with, checked; see `Run.forked_crew`."""
    if not operations and definition is None:
        return None
    await _checked(session, source, position)
    try:
        store = await session.store()
        base = await forking.crew_at(store, source, position)
        return await forking.forked_crew(store, base, operations, definition)
    except ServiceError:
        return None  # a worker judges it, when the store is there again


async def _checked(session: Session, source: RunId, position: int) -> str:
    """The crew's name, once the store has the checkpoint; empty where the store is away.

    Raises:
        UsageError: there is no such checkpoint.
        RunNotFound: there is no such run.
    """
    row: RunRow | None = None
    deadline = time.monotonic() + STORED_WITHIN
    for pause in pauses(0.05, 0.5):
        try:
            store = await session.store()
            row = await store.get_run(source)
            if row is None:
                await session.gateway.describe(source)  # is there such a run at all?
            await checkpoint_state_position(store, source, position)
        except ServiceError:
            return ""
        except UsageError:
            # What the run has recorded last may not be stored yet.
            if (row and row.ended_at) or time.monotonic() > deadline:
                raise
        else:
            return row.crew if row else ""
        await asyncio.sleep(pause)
    raise AssertionError


async def await_forks(session: Session, sources: Sequence[RunId]) -> None:
    """Waits until the forks of some runs have begun that were asked for.

    Raises:
        UsageError: one of them has not, and may still.
    """
    deadline = time.monotonic() + BEGUN_WITHIN
    for pause in pauses(0.02, 0.5):
        starting = await list_pending_forks(session, sources)
        if not starting:
            return
        if time.monotonic() > deadline:
            raise pending_fork_error(starting[0])
        await asyncio.sleep(pause)


async def list_pending_forks(session: Session, sources: Sequence[RunId]) -> list[PendingFork]:
    """The forks of some runs that were asked for and may still begin; notes of others are voided.

    Raises:
        StoreUnavailable: the store is away.
        TemporalUnavailable: the server is away.
    """
    store = await session.store()
    found: list[PendingFork] = []
    for each in await store.list_pending_forks(sources):
        if await _may_begin(session, each):
            found.append(each)
        else:
            await store.remove_pending_fork(each.source, each.fork)
    return found


async def _may_begin(session: Session, fork: PendingFork) -> bool:
    try:
        found = await session.gateway.describe(fork.fork)
    except RunNotFound:
        return _now_ms() - fork.at < ASKED_WITHIN * 1000  # it may be about to be started
    return found.workflow_type == WORKFLOW_TYPE and found.status in _OPEN


def check_recipe(from_: Literal["recipe", "live"] | None, recipe: Written | None) -> None:
    """Checks that a recipe is given for a run that is to go on from one.

    Raises:
        UsageError: it is to go on as it is.
    """
    if recipe is not None and from_ != "recipe":
        raise UsageError(
            "a recipe is given for a run that is to go on as it is",
            remedy='Leave it out, or say `from_="recipe"`.',
        )


def check_no_command(run: RunId, id: str | None) -> None:
    """Checks that a run that is to begin again is not sent a command of an id.

    Raises:
        UsageError: it is.
    """
    if id is not None:
        raise UsageError(
            f"the command's id {id!r} has no effect: a run that has ended takes no command",
            remedy="Leave it out: a run that goes on is not begun again.",
            place=f"run {run!r}",
        )


async def reopen(
    session: Session,
    run: RunId,
    from_: Literal["recipe", "live"],
    *,
    by: str,
    execution_timeout: timedelta | None,
    ended_executions: EndedExecutions,
    recipe: Written | None = None,
    reason: str = "",
) -> RunId:
    """Lets a run go on that has ended; see `Run.resume`."""
    check_recipe(from_, recipe)
    description = await session.gateway.describe(run)
    if description.workflow_type != WORKFLOW_TYPE:
        raise RunNotFound(
            f"{run!r} is a workflow of the type {description.workflow_type!r}, not a crew's run",
            remedy="`crewlog ps` lists the runs.",
            place=session.gateway.address,
        )
    if description.status in _OPEN:
        raise CommandRejected(
            f"the run {run!r} has not ended", remedy=f"`crewlog resume {run}` resumes a paused one."
        )
    crew, written = "", None if recipe is None else Recipe(definition_of(recipe).to_json())
    with suppress(StoreUnavailable):  # without a store, the run itself tells
        store = await session.store()
        row = await store.get_run(run)
        if row is None and (start := await _start_of_part(session, run, description.run_id)):
            await _check_never_began(session, store, run, start)
            start = start.model_copy(update={"by": by})
            return await begin(session, run, "", start, execution_timeout, again=True)
        await load_reopen_state(store, run, await load_last_state(store, run), ended_executions)
        if row is not None:
            crew = row.crew
            if from_ == "recipe":
                written = await edited(store, row.crew, row.recipe, recipe)
    ended = tuple(filter(None, [description.run_id]))
    given = written.definition if written is not None else ""
    payload = StartRun(reopen=from_, crew=given, replaced_executions=ended, by=by, reason=reason)
    policy = await policy_of_run(session, run)
    return await begin(session, run, crew, payload, execution_timeout, again=True, policy=policy)


async def _start_of_part(session: Session, run: RunId, execution: str | None) -> StartRun | None:
    """What a run was started with that was to begin as a part of another one; none of another run.

    Nothing of it is stored, so it never began. Started again, it waits once more for that one's
    word, which alone decides whether there is such a part.
    """
    handle = session.temporal.get_workflow_handle(run, run_id=execution)
    converter = session.temporal.data_converter.with_context(
        WorkflowSerializationContext(session.temporal.namespace, run)
    )
    limit = timedelta(seconds=CALL_LIMIT)
    try:
        async for event in handle.fetch_history_events(page_size=1, rpc_timeout=limit):
            began = event.workflow_execution_started_event_attributes
            [given] = await converter.decode(began.input.payloads)
            start = StartRun.model_validate(given)
            return start if start.split is not None else None
    except RPCError as error:
        raise await session.gateway.failed(error, run) from error
    except (ValidationError, ValueError):
        return None  # whatever it was started with, it is no part
    return None


async def _check_never_began(session: Session, store: Store, run: RunId, start: StartRun) -> None:
    """Checks that nothing of a part is stored since it never began, and not since it was lost.

    Raises:
        StoreIncomplete: its history says that it began, or cannot be read.
    """
    source = start.split.run if start.split is not None else run
    heard = await Others(session.gateway, store, source, lambda _: None).begun(run)
    if heard.word not in ("open", "never"):
        raise missing_rows_error(run, "all that it did as a part")


async def end(session: Session, run: RunId) -> tuple[str, ...]:
    """Ends a run that is to be replaced, gracefully where it can.

    Returns:
        Its last executions: activities of theirs may be at work all the same.
    """
    description = await session.gateway.describe(run)
    handle = session.gateway.handle(run)
    ids = {description.run_id}
    if description.status in _OPEN:
        with suppress(RPCError):
            if await session.gateway.polled(description.task_queue):
                await handle.cancel(rpc_timeout=timedelta(seconds=CALL_LIMIT))
                await _ended(session, run)
        with suppress(RPCError):  # it has ended
            await handle.terminate("replaced", rpc_timeout=timedelta(seconds=CALL_LIMIT))
        ids.add((await session.gateway.describe(run)).run_id)
    return tuple(sorted(filter(None, ids)))


async def _ended(session: Session, run: RunId) -> None:
    """Waits until a run has ended, for a while."""
    deadline = time.monotonic() + STOPPED_WITHIN
    for pause in pauses(0.02, 0.5):
        now = (await session.gateway.describe(run)).status
        if now not in _OPEN or time.monotonic() > deadline:
            return
        await asyncio.sleep(pause)


def _now_ms() -> int:
    return int(time.time() * 1000)
