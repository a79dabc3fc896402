"""Deleting runs: their executions from the server, their rows from the store.

A run that is open is not ended first: the server ends and deletes it in one go. One that has ended
is deleted once the server has noted that the task of its end is done, which may take it half a
minute (`history.transferProcessorUpdateAckInterval`). What it deletes too early it looks at again
after seconds that grow, so it is told again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from crewlog import wire
from crewlog.client import beginnings
from crewlog.client.gateway import CALL_LIMIT, STATUS_NAMES, pauses
from crewlog.client.run_summary import RunSummary
from crewlog.client.session import Session
from crewlog.definition.findings import did_you_mean, listed
from crewlog.definition.model import parse_duration
from crewlog.errors import RunNotFound, TemporalUnavailable, UsageError
from crewlog.ids import CrewName, RunId
from crewlog.model import Model
from crewlog.run_status import ENDED, OPEN
from crewlog.store.memories import MemoryFilter
from crewlog.store.merged_runs import check_not_merged, find_surviving_runs
from crewlog.store.protocol import GRACE, DeletionResult
from crewlog.temporal_service.errors import is_not_found

_BATCH = 100
"""Runs whose rows are removed at a time."""
_MOST = 100_000
"""Runs that are looked at."""
_ENDED = frozenset({*ENDED, *STATUS_NAMES.values()}) - OPEN
"""The statuses of runs that are over."""
_UNSEEN = 60_000
"""Milliseconds in which a run that has begun is listed: what it has put, and its journal does not
name yet, is kept that long where no run is listed as open."""
_RETENTION = "CREWLOG_RECORD_RETENTION"
"""The environment variable with the retention of records that outlive their run."""
_DEFAULT_RETENTION = "400d"
_SLOWEST = 60.0
"""Seconds in which the server forgets a run."""
_AGAIN = 1.0
"""Seconds until the server is told again."""

Tell = Callable[[str], None]
"""Told what is waited for, in words."""


class ListRuns(Protocol):
    """Lists runs, newest first: `Client.list`."""

    async def __call__(self, *, limit: int = 50) -> Sequence[RunSummary]:
        """At most so many runs."""
        ...


class DeletedRun(Model):
    """A run that was deleted, or would be."""

    run: RunId
    crew: CrewName = CrewName("")
    """The crew's name, where it is known."""
    status: str = ""
    """How it ended."""
    ended: int | None = None
    """Milliseconds since the epoch, where it is known."""


class Deletion(Model):
    """What a deletion removed, or would remove."""

    runs: tuple[DeletedRun, ...] = ()
    rows: DeletionResult = DeletionResult()
    """What went from the store."""
    memories: int = 0
    """What the run had written into its crew's memory, where that went, too."""


def check_ended(statuses: Collection[str]) -> None:
    """Sees to it that runs that are over can have each of these statuses.

    Raises:
        UsageError: they cannot.
    """
    for status in statuses:
        if status in OPEN:
            raise UsageError(
                f"a run that is {status} is under way, and only what ended is deleted by its age",
                remedy=f"One that ended is {listed(sorted(_ENDED), 'or')}.",
            )
        if status not in _ENDED:
            known = f"It is one of {listed(sorted(_ENDED))}."
            raise UsageError(
                f"no run that ended has the status {status!r}",
                remedy=" ".join(filter(None, (did_you_mean(status, _ENDED), known))),
            )


class Deleting:
    """Deletes runs of a client's namespace."""

    def __init__(self, session: Session, runs: ListRuns, tell: Tell | None = None) -> None:
        self._session = session
        self._gateway = session.gateway
        self._runs = runs
        self._tell = tell or _silent

    async def one(self, run: RunId, at: int, *, force: bool, memories: bool = False) -> Deletion:
        """See `Client.delete`."""
        row = await (await self._session.store()).get_run(run)
        status = ""
        try:
            described = await self._gateway.describe(run)
        except RunNotFound:
            if row is None:
                raise
        else:
            if described.workflow_type != wire.WORKFLOW_TYPE:
                raise UsageError(
                    f"{run!r} is a workflow of the type {described.workflow_type!r}, not a crew's "
                    "run",
                    place=self._gateway.address,
                )
            if described.status is WorkflowExecutionStatus.RUNNING:
                if not force:
                    raise _under_way(run)
                status = "terminated"
        await check_not_merged(await self._session.store(), run, "delete")
        crew = row.crew if row else CrewName("")
        ended = row.ended_at if row else None
        status = status or (row.status if row else "")
        await beginnings.await_forks(self._session, [run])
        rows = await self._delete([run], at)
        store = await self._session.store()
        gone = await store.memories.forget(MemoryFilter(run=run)) if memories else 0
        deleted = DeletedRun(run=run, crew=crew, status=status, ended=ended)
        return Deletion(runs=(deleted,), rows=rows, memories=gone)

    async def ended_before(
        self, before: int, at: int, *, statuses: Collection[str], dry_run: bool
    ) -> Deletion:
        """See `Client.delete_ended`."""
        found = [
            DeletedRun(run=each.run, crew=CrewName(each.crew), status=each.status, ended=each.ended)
            for each in await self._runs(limit=_MOST)
            if each.ended is not None
            and each.ended <= before
            and each.status not in OPEN
            and (not statuses or each.status in statuses)
        ]
        starting = await beginnings.list_pending_forks(self._session, [each.run for each in found])
        needed = {fork.source for fork in starting}  # they go the next time
        found = [each for each in found if each.run not in needed]
        surviving = await find_surviving_runs(
            await self._session.store(), [each.run for each in found]
        )
        found = _without_needed(found, surviving)
        if dry_run:
            return Deletion(runs=tuple(found))
        gone = DeletionResult()
        for start in range(0, max(len(found), 1), _BATCH):
            rows = await self._delete([each.run for each in found[start : start + _BATCH]], at)
            gone = DeletionResult(
                entries=gone.entries + rows.entries,
                bodies=gone.bodies + rows.bodies,
                definitions=gone.definitions + rows.definitions,
                unreferenced=rows.unreferenced,
                records=gone.records + rows.records,
            )
        return Deletion(runs=tuple(found), rows=gone)

    async def _delete(self, runs: Sequence[RunId], at: int) -> DeletionResult:
        retention = _record_retention()
        # The server first: what it does not have can store nothing more.
        for run in runs:
            self._tell(f"deletes {run}")
            await self._forget(run)
        store = await self._session.store()
        # Only a run at work can have put what no journal names yet.
        grace = GRACE if await self._anybody(runs) else _UNSEEN
        return await store.delete(runs, at, grace=grace, retention=retention)

    async def _anybody(self, but: Collection[RunId]) -> bool:
        """Whether another run is open; one that has just begun may not be listed yet."""
        query = f"WorkflowType = '{wire.WORKFLOW_TYPE}' AND ExecutionStatus = 'Running'"
        try:
            async for execution in self._gateway.temporal.list_workflows(
                query, rpc_timeout=timedelta(seconds=CALL_LIMIT)
            ):
                if execution.id not in but:
                    return True
        except RPCError as error:
            raise await self._gateway.failed(error, RunId("")) from error
        return False

    async def _forget(self, run: RunId) -> None:
        """Removes all executions of a workflow id from the server, and waits until it has."""
        name = run.replace("\\", "\\\\").replace("'", "\\'")
        ids: set[str] = set()
        try:
            described = await self._gateway.describe(run)
            ids.add(described.run_id or "")
            async for execution in self._gateway.temporal.list_workflows(
                f"WorkflowId = '{name}'", rpc_timeout=timedelta(seconds=CALL_LIMIT)
            ):
                ids.add(execution.run_id)
            for id_ in ids:
                await self._forget_execution(run, id_)
            await self._forgotten(run)
        except RunNotFound:
            return
        except RPCError as error:
            raise await self._gateway.failed(error, run) from error

    async def _forget_execution(self, run: RunId, id_: str) -> None:
        temporal = self._gateway.temporal
        request = DeleteWorkflowExecutionRequest(
            namespace=temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run, run_id=id_),
        )
        try:
            await temporal.workflow_service.delete_workflow_execution(
                request, retry=True, timeout=timedelta(seconds=CALL_LIMIT)
            )
        except RPCError as error:
            if not is_not_found(error):
                raise

    async def _forgotten(self, run: RunId) -> None:
        """Returns by `RunNotFound`, once the server does not know the run any more."""
        began = told = time.monotonic()
        for pause in pauses(0.02, 0.5):
            # The current one: the run may have continued as new since.
            described = await self._gateway.describe(run)
            now = time.monotonic()
            if now - began > _SLOWEST:
                break
            if now - told > _AGAIN:
                told = now
                self._tell(f"the server takes {run} away, which may take it half a minute")
                await self._forget_execution(run, described.run_id or "")
            await asyncio.sleep(pause)
        raise TemporalUnavailable(
            f"the server was told to delete the run {run!r}, and still has it after "
            f"{_SLOWEST:.0f} s",
            remedy=f"`crewlog delete {run}` again goes on.",
            place=self._gateway.address,
        )


def _without_needed(
    found: Sequence[DeletedRun], surviving: Mapping[RunId, RunId]
) -> list[DeletedRun]:
    """The runs that may be deleted together, each surviving run before its merged runs.

    A merged run stays if its surviving run is not among them. That may in turn stay for the run
    into which it was merged.

    Args:
        found: Ended runs.
        surviving: The stored surviving runs, by the merged runs among them.
    """
    left = {each.run: each for each in found}
    ordered: dict[RunId, DeletedRun] = {}
    while ready := [each for run, each in left.items() if surviving.get(run) not in left]:
        for each in ready:
            del left[each.run]
            needed_by = surviving.get(each.run)
            if needed_by is None or needed_by in ordered:
                ordered[each.run] = each
    return list(ordered.values())


def _record_retention() -> int:
    """Milliseconds for which records that outlive their run are kept.

    Raises:
        UsageError: the environment variable is not a duration.
    """
    text = os.environ.get(_RETENTION) or _DEFAULT_RETENTION
    try:
        return int(parse_duration(text) * 1000)
    except ValueError as error:
        raise UsageError(
            f"{_RETENTION}={text!r}: {error}",
            remedy=f"Set a duration, such as {_DEFAULT_RETENTION}.",
        ) from None


def _under_way(run: RunId) -> UsageError:
    return UsageError(
        f"the run {run!r} is under way",
        remedy=f"`crewlog stop {run}` ends it with what is there; `crewlog delete {run} "
        "--force` ends it at once and deletes it.",
    )


def _silent(_: str) -> None:
    """Where nobody wants to be told what is waited for."""
