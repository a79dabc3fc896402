"""The calls to the Temporal server, with Crewlog's errors and repetitions.

Why commands are repeated here. A run lives in a chain of executions, and a command may meet the
seam between two of them: the workflow refuses an update with `Closing`, the server ends an
accepted one with `AcceptedUpdateCompletedWorkflow` and one that a worker left out with
`UnprocessedUpdate`, answers with RESOURCE_EXHAUSTED or FAILED_PRECONDITION, or not in time. None
of these means "not applied". The run carries the outcome of every command id, and an update's id
is its command's id, so the same command is sent again, to whichever execution is the current one,
until there is an outcome.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from temporalio.api.enums.v1 import PendingWorkflowTaskState, TaskQueueType
from temporalio.api.errordetails.v1 import QueryFailedFailure
from temporalio.api.failure.v1 import Failure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import PendingWorkflowTaskInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, GetSystemInfoRequest
from temporalio.client import Client as TemporalClient
from temporalio.client import (
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from crewlog import wire
from crewlog.client.locked import locked, worker_problem
from crewlog.dev.pollers import alive
from crewlog.encryption import purposes
from crewlog.encryption.codec import encrypt_for
from crewlog.encryption.failures import ENCODED
from crewlog.errors import (
    ApprovalMismatch,
    ChangeConflict,
    CommandConflict,
    CommandRejected,
    ComponentConflict,
    ConversationBusy,
    CrewlogError,
    DecryptionFailed,
    InterruptNotOpen,
    InvalidArguments,
    NotPermitted,
    RunAlreadyMerged,
    RunBusy,
    RunFailed,
    RunNotFound,
    TemporalUnavailable,
    UsageError,
    WorkerMissing,
)
from crewlog.failure_details import failure_details
from crewlog.ids import CommandId, RunId
from crewlog.model import Json
from crewlog.payload_storage.converter import external_payloads, payload_hash
from crewlog.state.components import Rename
from crewlog.state.run_merge.renames import renames_description
from crewlog.temporal_service.errors import missing_namespace, namespace_not_found_error
from crewlog.temporal_service.sdk_workarounds import own_cancellation

ANSWER_LIMIT = 2.7
"""Seconds for a worker's answer. A run whose worker was killed moves on after at most two."""
READ_LIMIT = 5.0
"""Seconds for a worker to read what is large; else it is taken not to."""
INLINE_LIMIT = 2 * 1024 * 1024 - 4096
"""Bytes of a command that a history takes: the server's limit, less what it adds."""
BUSY_LIMIT = 10.8
"""The same where a worker polls for the run's tasks: it has a lot to do, or has just died; and of a
run that is over it replays all before it answers."""
FAILING_TRIES = 3
"""Tries of one workflow task, after which it is told that it fails."""
KEPT_UP = 2000
"""Milliseconds between two tasks by which one is known to be kept up: workers do it after four
fifths of what a task may take."""
CALL_LIMIT = 10.0
"""Seconds for an answer of the server itself."""
PROBE_LIMIT = 1.0
"""Seconds for the question whether the server is there at all."""
COMMAND_LIMIT = 30.0
"""Seconds for which a command is repeated."""

SLOW_PAUSE = 0.2
"""The pause between two tries from which on a run is looked at, whether it goes on at all."""

STARTING = "the run is starting"
"""What a query is told before the crew's definition is read."""
_ACCEPTED_AND_CUT_OFF = "AcceptedUpdateCompletedWorkflow"
_NOT_GIVEN = "UnprocessedUpdate"
"""Of the server: a worker completed the task that an update came with, and left the update out."""
SEAM = (wire.CLOSING, _ACCEPTED_AND_CUT_OFF, _NOT_GIVEN)
"""Types of errors of an update that met the seam between two executions, or two tasks."""
_NO_ANSWER = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
PASSING = (RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.FAILED_PRECONDITION)
"""What the server says where it may be otherwise in a moment."""
REFUSALS: dict[str, type[CrewlogError]] = {
    each.__name__: each
    for each in (
        InterruptNotOpen,
        InvalidArguments,
        NotPermitted,
        ApprovalMismatch,
        ChangeConflict,
        CommandConflict,
        ConversationBusy,
        RunAlreadyMerged,
        ComponentConflict,
    )
}
"""The kinds of refusal that clients tell apart."""
_NO_ENTRY = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)

STATUS_NAMES = {
    WorkflowExecutionStatus.RUNNING: "running",
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "canceled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
    WorkflowExecutionStatus.CONTINUED_AS_NEW: "running",
}


def pauses(first: float, longest: float, factor: float = 1.6) -> Iterator[float]:
    """Waits that grow from `first` to `longest`, for ever."""
    pause = first
    while True:
        yield pause
        pause = min(pause * factor, longest)


class Gateway:
    """One Temporal server as the client sees it."""

    def __init__(self, temporal: TemporalClient, address: str) -> None:
        self.temporal = temporal
        self.address = address

    def handle(self, run: RunId) -> WorkflowHandle[Any, Any]:
        """The workflow of a run, whichever execution is current: no execution is ever pinned."""
        return self.temporal.get_workflow_handle(run)

    async def query(self, run: RunId, name: str, argument: Json = None) -> Json:
        """What a worker answers to a query.

        Raises:
            RunNotFound: there is no such run.
            WorkerMissing: no worker answered in time.
            EncryptionKeyMissing: the run's history is encrypted with a key that nobody here has.
            TemporalUnavailable: the server is away.
        """
        began = time.monotonic()
        deadline = began + ANSWER_LIMIT
        arguments = [] if argument is None else [argument]
        for pause in pauses(0.02, 0.25):
            left = max(deadline - time.monotonic(), 0.1)
            try:
                # The SDK repeats a call that timed out, for up to ten seconds and with pauses of
                # its own, in which the answer of a worker that has come would be waited for.
                async with asyncio.timeout(left):
                    return await self.handle(run).query(
                        name, args=arguments, rpc_timeout=timedelta(seconds=left)
                    )
            except TimeoutError as error:
                late = time.monotonic() + ANSWER_LIMIT > began + BUSY_LIMIT
                if late or not await self._polled(run):
                    raise await self._no_answer(run) from error
                deadline = time.monotonic() + ANSWER_LIMIT
            except ApplicationError as error:
                raise await self.unread(error, run) from error
            except (WorkflowQueryFailedError, WorkflowQueryRejectedError) as error:
                starting = STARTING in str(error)
                if not starting or time.monotonic() + pause > deadline or await self._over(run):
                    raise await self._query_failed(run, name, error) from error
            except RPCError as error:
                if error.status in _NO_ANSWER:
                    raise await self._no_answer(run) from error
                if error.status not in PASSING:
                    raise await self.failed(error, run) from error
                # Nobody polls, or the first task is not done: that may change in a moment.
                if time.monotonic() + pause > deadline:
                    raise await self._no_answer(run) from error
            await asyncio.sleep(pause)
        raise AssertionError

    async def signal(self, run: RunId, name: str, command: dict[str, Json]) -> None:
        """Sends a signal; a repetition has no effect, since the command has an id.

        Raises:
            RunNotFound: there is no such run.
            CommandRejected: the run has ended.
            TemporalUnavailable: the server is away.
            UsageError: it is too large; see `_is_beside`.
        """
        beside = await self._is_beside(run, name, command)
        deadline = time.monotonic() + COMMAND_LIMIT
        for pause in pauses(0.005, 0.25):
            try:
                with external_payloads(beside), encrypt_for(purposes.signal(name)):
                    await self.handle(run).signal(
                        name, command, rpc_timeout=timedelta(seconds=CALL_LIMIT)
                    )
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    raise await self.ended(run, name) from error
                if error.status not in PASSING or time.monotonic() > deadline:
                    raise await self.failed(error, run) from error
            else:
                return
            await asyncio.sleep(pause)

    async def update(
        self,
        run: RunId,
        name: str,
        command: dict[str, Json],
        limit: float | None = None,
        command_hash: str = "",
    ) -> Json:
        """Sends an update until it has an outcome; its id is made of the command's: `update_id`.

        A dry run has one of its own: the server remembers what it answered to an update's id, and
        the change itself would get the answer of its dry run. An execution's server answers a
        repeated update id by itself, whatever comes with it: so the outcome is looked at, whether
        it is this command's.

        Args:
            run: The run.
            name: The update's name.
            command: The command as JSON.
            command_hash: The command's hash; empty: any outcome of its id is taken.
            limit: Seconds for which it is sent again; by default `COMMAND_LIMIT`.

        Raises:
            RunNotFound: there is no such run.
            CommandRejected: the run refused, or has ended.
            CommandConflict: the id was used for another command.
            InterruptNotOpen: the question is not open.
            WorkerMissing: nobody answers; the command may or may not have been applied.
            RunBusy: the run is about to continue as new, and waits for calls under way.
            TemporalUnavailable: the server is away; likewise.
        """
        beside = await self._is_beside(run, name, command)
        deadline = time.monotonic() + (COMMAND_LIMIT if limit is None else limit)
        for pause in pauses(0.005, 0.25):
            late = time.monotonic() > deadline
            try:
                with (
                    external_payloads(beside),
                    encrypt_for(purposes.update(name, update_id(command))),
                ):
                    outcome = await self._update_once(run, name, command)
            except WorkflowUpdateFailedError as error:
                if _at_the_seam(error) and pause >= SLOW_PAUSE and await self._over(run):
                    # The server repeats what the last execution said, for ever.
                    return await self._late_outcome(run, name, command["id"], error, command_hash)
                if not _at_the_seam(error) or late:
                    check_own(command["id"], _command_hash(error), command_hash)
                    raise refusal(error, run, name) from error
            except WorkflowUpdateRPCTimeoutOrCancelledError as error:
                if late or not await self._polled(run):
                    raise await self._no_answer(run, command) from error
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return await self._late_outcome(run, name, command["id"], error, command_hash)
                if late or error.status not in PASSING:
                    raise await self.failed(error, run) from error
                if error.status is RPCStatusCode.FAILED_PRECONDITION and not await self._polled(
                    run
                ):
                    raise await self._no_answer(run, command) from error
            else:
                check_own(command["id"], outcome.get("hash", ""), command_hash)
                return outcome
            await asyncio.sleep(pause)
        raise AssertionError

    async def _is_beside(self, run: RunId, name: str, command: dict[str, Json]) -> bool:
        """Whether a command goes beside the history, since it is large; else it goes into it.

        Beside it only where a worker has just read it from there: a signal that no worker can read
        holds up its run for good.

        Raises:
            UsageError: it is too large for the history, and no worker reads it from beside it.
        """
        converter = self.temporal.data_converter
        [payload] = converter.payload_converter.to_payloads([command])
        size, storage = payload.ByteSize(), converter.external_storage
        if storage is None or size < storage.payload_size_threshold:
            return False
        if await self._is_read(run, command, payload_hash(payload)):
            return True
        if size > INLINE_LIMIT:
            raise UsageError(
                f"{name}: its {size} bytes were not sent: no worker says that it "
                f"reads the payload folder of this client, and a history takes {INLINE_LIMIT}",
                remedy="Set CREWLOG_PAYLOADS here to the folder of the workers, and see that one "
                "of them runs.",
                place=f"run {run!r}",
            )
        return False

    async def _is_read(self, run: RunId, command: dict[str, Json], command_hash: str) -> bool:
        """Whether a worker reads a command from the payload folder, if it is put there."""
        try:
            with external_payloads(True):
                async with asyncio.timeout(READ_LIMIT):
                    told: Json = await self.handle(run).query(
                        wire.PAYLOAD_HASH, command, rpc_timeout=timedelta(seconds=READ_LIMIT)
                    )
        except (TimeoutError, WorkflowQueryFailedError, WorkflowQueryRejectedError, RPCError):
            return False
        return bool(told == command_hash)

    async def _update_once(self, run: RunId, name: str, command: dict[str, Json]) -> Json:
        try:
            # The SDK polls for an accepted update's outcome without a limit of its own.
            async with asyncio.timeout(ANSWER_LIMIT):
                with own_cancellation():
                    return await self.handle(run).execute_update(
                        name,
                        command,
                        id=update_id(command),
                        rpc_timeout=timedelta(seconds=ANSWER_LIMIT),
                    )
        except TimeoutError as error:
            raise WorkflowUpdateRPCTimeoutOrCancelledError from error

    async def _over(self, run: RunId) -> bool:
        return (await self.describe(run)).status is not WorkflowExecutionStatus.RUNNING

    async def failure(self, run: RunId) -> str:
        """Why a failed run failed."""
        try:
            await self.handle(run).result(rpc_timeout=timedelta(seconds=CALL_LIMIT))
        except WorkflowFailureError as error:
            cause = error.cause
            if isinstance(cause, ApplicationError):
                if cause.message == ENCODED and (unread := await locked(self.temporal, run)):
                    return unread.message
                told = failure_details(cause)
                return "\n    ".join(filter(None, [cause.message, told.place, told.remedy]))
            return str(cause)
        except RPCError as error:
            return error.message
        return ""

    async def unread(self, error: ApplicationError, run: RunId) -> CrewlogError:
        """The error for an answer that was refused when it was decoded."""
        found = await locked(self.temporal, run)
        return found or DecryptionFailed(error.message, place=f"run {run!r}")

    async def describe(self, run: RunId) -> WorkflowExecutionDescription:
        """What the server knows of the run's current execution.

        Raises:
            RunNotFound: there is no such run.
            TemporalUnavailable: the server is away.
        """
        try:
            return await self.handle(run).describe(rpc_timeout=timedelta(seconds=CALL_LIMIT))
        except RPCError as error:
            raise await self.failed(error, run) from error

    async def run_ids(self, limit: int = 500) -> list[str]:
        """Ids of runs, newest first; none where the server does not say."""
        found: dict[str, None] = {}
        with suppress(RPCError):
            async for execution in self.temporal.list_workflows(
                f"WorkflowType = '{wire.WORKFLOW_TYPE}'",
                limit=limit,
                rpc_timeout=timedelta(seconds=CALL_LIMIT),
            ):
                found[execution.id] = None
        return list(found)

    async def not_found(self, run: RunId) -> RunNotFound:
        """The error for an unknown run, with the ids that look like it."""
        close = difflib.get_close_matches(run, await self.run_ids(), n=3, cutoff=0.6)
        hint = f"Did you mean {' or '.join(repr(c) for c in close)}? " if close else ""
        return RunNotFound(
            f"there is no run {run!r} in the namespace {self.temporal.namespace!r}",
            remedy=f"{hint}`crewlog ps` lists them.",
            place=self.address,
        )

    async def failed(self, error: RPCError, run: RunId) -> CrewlogError:
        """The error for an RPC that failed."""
        if (namespace := missing_namespace(error)) is not None:
            return namespace_not_found_error(namespace, self.address)
        if error.status is RPCStatusCode.NOT_FOUND:
            return await self.not_found(run)
        if error.status in _NO_ENTRY:
            return TemporalUnavailable(
                f"the Temporal server refuses us: {error.message}",
                remedy="Check TEMPORAL_API_KEY, TEMPORAL_NAMESPACE and the TLS settings.",
                place=self.address,
            )
        if error.status is RPCStatusCode.UNAVAILABLE or error.status in _NO_ANSWER:
            # The same status for a connection that failed and for a server without its database;
            # only of the latter the frontend still answers.
            return self.cannot_serve(error) if await self.there() else self.unavailable()
        return TemporalUnavailable(
            f"the Temporal server refused: {error.message}", place=self.address
        )

    def unavailable(self) -> TemporalUnavailable:
        """The error for a server that does not answer."""
        return TemporalUnavailable(
            "the Temporal server does not answer",
            remedy="Start it with `crewlog dev`, or correct TEMPORAL_ADDRESS; "
            "`crewlog doctor` looks closer. Nothing is lost.",
            place=self.address,
        )

    def cannot_serve(self, error: RPCError) -> TemporalUnavailable:
        """The error for a server that answers, and says that it cannot do its work."""
        return TemporalUnavailable(
            f"the Temporal server cannot serve: {error.message}",
            remedy="It answers, but its own services or its database are away: look at them; "
            "`crewlog doctor` looks closer. Nothing is lost.",
            place=self.address,
        )

    async def there(self) -> bool:
        """Whether the server's frontend answers at all."""
        try:
            await self.temporal.workflow_service.get_system_info(
                GetSystemInfoRequest(), retry=False, timeout=timedelta(seconds=PROBE_LIMIT)
            )
        except RPCError:
            return False
        return True

    async def _polled(self, run: RunId) -> bool:
        """Whether a worker asked lately for the work of the run's task queue."""
        try:
            return await self.polled((await self.describe(run)).task_queue)
        except RPCError as error:
            raise await self.failed(error, run) from error

    async def polled(self, queue: str, pid: int | None = None, *, activities: bool = False) -> bool:
        """Whether a worker asked lately for the work of a task queue.

        Args:
            queue: The task queue.
            pid: Only a worker with this process id on any machine; the SDK names itself `pid@host`.
            activities: Whether it is asked for activities instead of workflow tasks.

        Raises:
            RPCError: the server does not say.
        """
        request = DescribeTaskQueueRequest(
            namespace=self.temporal.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
            if activities
            else TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        found = await self.temporal.workflow_service.describe_task_queue(
            request, timeout=timedelta(seconds=CALL_LIMIT)
        )
        return any(pid is None or each.startswith(f"{pid}@") for each in alive(found.pollers))

    async def _no_answer(self, run: RunId, command: dict[str, Json] | None = None) -> CrewlogError:
        """Nobody answered: is it the server, or is there no worker?"""
        if not await self.there():
            return self.unavailable()
        try:
            execution = await self.describe(run)
        except CrewlogError as error:
            return error
        queue = execution.task_queue
        unsure = _unsure(command) if command else ""
        pending = execution.raw_description.pending_workflow_task
        tries = pending.attempt
        if tries > 1 and (unread := await locked(self.temporal, run)) is not None:
            if command:
                unread.remedy += _unsure(command)
            return unread
        if tries >= FAILING_TRIES:
            return WorkerMissing(
                f"the workers cannot go on with the run {run!r}: its workflow task has failed "
                f"{tries - 1} times, and is tried again",
                remedy="The worker's log says why. Where it is a payload that cannot be read: "
                "the file that it names was put by a client with another CREWLOG_PAYLOADS. "
                f"Copy it from there into the workers' folder, and the run goes on.{unsure}",
                place=f"run {run!r}",
            )
        # A task at work is kept up by new ones while a local activity is under way in it: those
        # that take so long are the ones that ask the store.
        if tries == 1 and _is_kept_up(pending):
            return WorkerMissing(
                f"the run {run!r} waits for what its worker reads from the store",
                remedy=f"Look at the worker's log: it may not reach its store.{unsure}",
                place=f"run {run!r}",
            )
        open_yet = execution.status is WorkflowExecutionStatus.RUNNING
        return WorkerMissing(
            f"no worker answers for the run {run!r} (task queue {queue!r}); "
            f"{'the run is safe and waits' if open_yet else 'it has ended'}",
            remedy=f"Start one: `crewlog worker`.{unsure}",
            place=self.address,
        )

    async def _query_failed(self, run: RunId, name: str, error: Exception) -> CrewlogError:
        message = str(error)
        execution = await self.describe(run)
        if execution.workflow_type != wire.WORKFLOW_TYPE:
            return RunNotFound(
                f"{run!r} is a workflow of the type {execution.workflow_type!r}, not a crew's run",
                remedy="`crewlog ps` lists the runs.",
                place=self.address,
            )
        if execution.status is WorkflowExecutionStatus.FAILED and STARTING in message:
            return RunFailed(await self.failure(run), place=f"run {run!r}")
        if STARTING in message:
            return WorkerMissing(
                f"the run {run!r} has not read its crew yet",
                remedy="Look at the worker's log: it may not reach its store.",
                place=self.address,
            )
        unread = await locked(self.temporal, run) or worker_problem(_query_failure(error), run)
        if unread is not None:
            return unread
        if "failed state" in message or "WorkflowTaskFailed" in message:
            return WorkerMissing(
                f"the workers cannot go on with the run {run!r}: {message}",
                remedy="Look at the worker's log. The run is safe and goes on with a worker that "
                "can continue it.",
                place=self.address,
            )
        return CommandRejected(f"the run {run!r} does not answer the query {name!r}: {message}")

    async def ended(self, run: RunId, name: str) -> CrewlogError:
        """Why a command found no open run: it has ended, or never was."""
        status, result = await self._how_it_ended(run)
        if into := str(result.get("surviving_run") or ""):
            return RunAlreadyMerged(
                f"the run {run!r} is part of {into!r} by now: {name!r} has no effect"
                f"{_named_there(result)}",
                remedy=f"Look at that run, and send it there: {into}",
                place=f"run {run!r}",
            )
        over = status == "completed" and not result.get("is_idle")
        again = "" if over else f", and `crewlog resume {run}` takes it up again"
        return CommandRejected(
            f"the run {run!r} has ended ({status}): {name!r} has no effect",
            remedy=_TO_GO_BACK.format(run=run)
            if name == "rollback"
            else f"`crewlog show {run}` shows how{again}.",
            place=f"run {run!r}",
        )

    async def _how_it_ended(self, run: RunId) -> tuple[str, dict[str, Any]]:
        """The status of a run that has ended: `completed`, `stopped`, `failed`, `terminated`.

        And its result, where it has one. To the server, a run that people stopped is completed: its
        result says how.
        """
        execution = await self.describe(run)
        name = STATUS_NAMES.get(execution.status, "ended") if execution.status else "ended"
        if execution.status is WorkflowExecutionStatus.COMPLETED:
            # The result may be encrypted with a key that is not here any more.
            with suppress(WorkflowFailureError, RPCError, ApplicationError, CrewlogError):
                result = await self.handle(run).result(rpc_timeout=timedelta(seconds=CALL_LIMIT))
                return str(result.get("status", name)), result
        return name.replace("_", " "), {}

    async def _late_outcome(
        self, run: RunId, name: str, command: CommandId, error: Exception, command_hash: str
    ) -> Json:
        """The outcome of a command of a run that has ended: it may have been applied before."""
        ended = await self.ended(run, name)
        outcomes: dict[str, Json] = {}
        with suppress(CrewlogError):
            outcomes = (await self.query(run, "state")).get("commands", {})
        outcome = outcomes.get(command)
        if outcome is None:
            raise ended from error
        check_own(command, outcome.get("hash", ""), command_hash)
        if not outcome.get("ok", True):
            kind = REFUSALS.get(outcome.get("error_type", ""), CommandRejected)
            raise kind(str(outcome.get("detail", ""))) from error
        version = outcome.get("graph_version", 0)
        told = {"graph_version": version, "swap": version > 0} if name == "change" else {}
        return {
            "id": command,
            "position": outcome.get("position", 0),
            "detail": outcome.get("detail", ""),
            **told,
        }


_TO_GO_BACK = (
    "`crewlog fork {run}@POSITION` goes on from a checkpoint in another run; "
    "`crewlog resume {run}` takes up a run that was stopped or has failed."
)


def _named_there(result: dict[str, Any]) -> str:
    """What of a merged run is called otherwise in the other one, as the end of a sentence."""
    found = [Rename.model_validate(each) for each in result.get("renames", ())]
    return f"; {renames_description(found)}" if found else ""


def _query_failure(error: Exception) -> Failure:
    """The failure of a query; empty if the server does not have it."""
    rpc, found = error.__context__, QueryFailedFailure()
    for detail in rpc.grpc_status.details if isinstance(rpc, RPCError) else ():
        if detail.Unpack(found):
            return found.failure
    return Failure()


def update_id(command: dict[str, Json]) -> str:
    """The id of a command's update: its own, but that of a dry run, which leaves it unused.

    A signed one's has a command_hash of its signature, which nobody else can make: else who may do
    nothing could try its id before, and the server would answer it with that one's refusal.

    Args:
        command: The command as it is sent.
    """
    id_ = f"dry-run:{command['id']}" if command.get("dry_run") else str(command["id"])
    proof = command.get("proof")
    if not isinstance(proof, dict):
        return id_
    return f"{id_}:{hashlib.sha256(str(proof['signature']).encode()).hexdigest()[:16]}"  # pyright: ignore[reportUnknownArgumentType]


def _is_kept_up(pending: PendingWorkflowTaskInfo) -> bool:
    """Whether a worker has kept up its workflow task, past most of what one task may take."""
    since, first = pending.scheduled_time, pending.original_scheduled_time
    kept = since.ToMilliseconds() - first.ToMilliseconds() if first.seconds else 0
    at_work = pending.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED
    return at_work and kept > KEPT_UP


def _unsure(command: dict[str, Json]) -> str:
    """What may have come of a command that nobody answered."""
    if command.get("dry_run"):
        return " That only asked what the change would do: nothing was changed yet."
    return (
        f" Whether the command {command['id']!r} was applied is not known; the same id may be sent "
        "again and has one effect."
    )


def check_own(command: CommandId, known: str, own: str) -> None:
    """Checks that the outcome of a command's id is that command's.

    Args:
        command: The id.
        known: The command_hash of the command that has the outcome; empty where nobody kept it.
        own: The command_hash of the command that was sent.

    Raises:
        CommandConflict: it is another command's.
    """
    if known and own and known != own:
        raise CommandConflict(
            f"the id {command!r} was used for another command",
            remedy="Give each command an id of its own; only a repeated command has the same.",
        )


def _command_hash(error: WorkflowUpdateFailedError) -> str:
    """The hash of the rejected command, if its outcome is remembered."""
    return failure_details(error.cause).command_hash


def _at_the_seam(error: WorkflowUpdateFailedError) -> bool:
    cause = error.cause
    return isinstance(cause, ApplicationError) and cause.type in SEAM


def refusal(error: WorkflowUpdateFailedError, run: RunId, name: str) -> CrewlogError:
    """The error for an update that a run refused."""
    cause = error.cause
    if _at_the_seam(error):
        return RunBusy(
            f"the run {run!r} has been about to continue as new for {COMMAND_LIMIT:.0f} s: it "
            "takes no command until the calls under way have ended",
            remedy="Send it again with the same id then; "
            f"`crewlog show {run}` tells what is under way.",
        )
    message = cause.message if isinstance(cause, ApplicationError) else str(cause)
    kind = cause.type if isinstance(cause, ApplicationError) else ""
    remedy = failure_details(cause).remedy
    if kind == wire.BUSY:
        return RunBusy(message, remedy=remedy, place=f"run {run!r}")
    error_type = REFUSALS.get(kind or "", CommandRejected)
    return error_type(message or f"the run {run!r} refused {name!r}", remedy=remedy)
