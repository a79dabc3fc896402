"""The processor of commands: it parses, authorizes, prepares and applies each of them once.

    handler      validates the shape, appends the command to the queue, and waits for its outcome
    processor    takes one command after the other: it authorizes it by the policy in force, checks
                 whether its id has an outcome already, and applies it
    preparation  a change, a rollback or an answer that edits needs an activity first. It runs
                 beside the loop, and the command returns to the queue with its result

A preparation blocks nothing: the loop applies other commands meanwhile. If the graph has changed
since, the command is prepared again. If the run continues as new, the command is returned, and its
client sends it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

from crewlog.errors import ChangeConflict, CommandRejected, CrewlogError
from crewlog.state.calls import FIND_COMMAND, FindCommand, FindCommandResult
from crewlog.wire import NOTIFY_MERGE, Answer, Change, Rollback
from crewlog.workflows import authorization, restore
from crewlog.workflows.activity_options import LOCAL_OPTIONS
from crewlog.workflows.commands import answer_edits, changes
from crewlog.workflows.commands.effects import apply_command, id_to_look_up
from crewlog.workflows.commands.queue import (
    NotPrepared,
    Preparation,
    QueuedCommand,
    RefusedCommand,
    Returned,
    Unrecorded,
    decode_payload,
)
from crewlog.workflows.commands.unauthenticated_signals import UnauthenticatedSignals
from crewlog.workflows.context import ExecutionContext
from crewlog.workflows.run_merge import RunMerge, forward

FOR_CREWS = ("message", "interrupt")
"""Commands that are deferred until the run has a crew."""

MAX_BLOCKED = 4
"""The most commands that wait for a pending change whose calls may take hours."""


class CommandProcessor:
    """Applies the commands of an execution.

    Args:
        context: What the parts of the execution share.
        queue: The queue, to which the handlers append.
        run_merge: The run's part in run merges.
        has_calls: Whether calls are in flight.
        start_drain: Limits the time of the calls in flight for an accepted change; takes seconds.
    """

    def __init__(
        self,
        context: ExecutionContext,
        queue: list[QueuedCommand],
        run_merge: RunMerge,
        *,
        has_calls: Callable[[], bool],
        start_drain: Callable[[float], None],
    ) -> None:
        self.queue = queue
        self.unauthenticated = UnauthenticatedSignals()
        self._context = context
        self._run_merge = run_merge
        self._has_calls = has_calls
        self._start_drain = start_drain
        self._deferred: list[QueuedCommand] = []
        """Commands for a crew that the run does not have yet, or while it is frozen for a merge."""
        self._blocked: list[QueuedCommand] = []
        """Commands that wait for a pending change."""
        self._preparing: list[tuple[QueuedCommand, asyncio.Task[None]]] = []
        self._bug: Exception | None = None

    @property
    def has_work(self) -> bool:
        """Whether there is a command to apply or to return."""
        if self.queue or self._bug is not None:
            return True
        if self._context.is_closing:
            return bool(self._preparing or self._blocked)
        return bool(self._blocked) and self._context.engine.state.pending_change is None

    def requeue_deferred(self) -> None:
        """Puts the deferred commands at the end of the queue."""
        self.queue += self.take_deferred()

    def take_deferred(self) -> list[QueuedCommand]:
        """Removes the deferred commands, and returns them in their order."""
        deferred, self._deferred = self._deferred, []
        return deferred

    async def apply_all(self) -> None:
        """Applies every command of the queue.

        Raises:
            Exception: a preparation failed with a bug. It fails the workflow task.
        """
        if self._bug is not None:
            raise self._bug
        if self._context.is_closing:
            self._return_unprepared()
        elif self._blocked and self._context.engine.state.pending_change is None:
            self.queue += self._blocked
            self._blocked = []
        while self.queue:
            if self.unauthenticated.must_pause(self.queue[0]):
                self._context.events += 1  # its marker
                await authorization.record_time()
            await self._take(self.queue.pop(0))

    async def _take(self, incoming: QueuedCommand) -> None:
        self._context.advance_clock(incoming.queued_at)
        if await self._is_for_loop(incoming):
            await self._execute(incoming)

    async def _is_for_loop(self, incoming: QueuedCommand) -> bool:
        """Decodes a command; returns whether the loop is to apply it now, authorized."""
        engine = self._context.engine
        is_notification = incoming.name == NOTIFY_MERGE
        if not is_notification and self.unauthenticated.count_undecoded(engine, incoming):
            return False
        decode_payload(incoming)
        if is_notification:
            self._run_merge.add_notification(engine.state, incoming.data)
            return False
        if self._is_deferred(incoming):
            self._deferred.append(incoming)
            return False
        if engine.state.status == "merged" and incoming.name != "ask":
            policy = engine.plan.policy
            await forward(engine.state, incoming, signed=policy is not None and policy.signed)
            return False
        await authorization.authorize(engine, incoming)
        return not self.unauthenticated.count(engine, incoming)

    async def _execute(self, incoming: QueuedCommand) -> None:
        """Prepares or applies a command, or records that it is not permitted."""
        engine = self._context.engine
        if incoming.authorization is None or incoming.authorization.allowed:
            if incoming.name == "ask":  # it waits for the result, and records nothing
                incoming.outcome = Unrecorded()
                return
            if incoming.preparation is None:
                await self._find_known_outcome(incoming)
                await restore.prepare_tag(engine, incoming)
                if self._start_preparation(incoming):
                    return
        had_pending_change = engine.state.pending_change is not None
        await apply_command(engine, incoming)
        if incoming.outcome is None:
            incoming.discard_preparation()
            self.queue.append(incoming)
            return
        self.unauthenticated.add_rejection(incoming)
        if engine.state.pending_change is not None and not had_pending_change:
            command = incoming.parse()
            if isinstance(command, Change) and command.drain_timeout is not None:
                self._start_drain(command.drain_timeout)

    def _is_deferred(self, incoming: QueuedCommand) -> bool:
        state, prompt = self._context.engine.state, self._context.engine.prompt
        if incoming.name in FOR_CREWS and prompt.is_active and not state.is_ended:
            return True
        return self._context.is_merge_frozen and incoming.name != "ask"

    async def _find_known_outcome(self, incoming: QueuedCommand) -> None:
        """Looks for the outcome of an earlier command with this id, in a run of this run's id.

        In an open run with fewer commands than its state remembers, no activity is needed.
        """
        engine = self._context.engine
        if incoming.name in authorization.USED_ONCE:
            await authorization.use_command(engine, incoming)
        command = id_to_look_up(engine, incoming)
        if not command:
            return
        self._context.events += 1  # its marker
        result: FindCommandResult = await workflow.execute_local_activity(
            FIND_COMMAND,
            FindCommand(run=engine.state.run, command=command),
            result_type=FindCommandResult,
            **LOCAL_OPTIONS,
        )
        incoming.known_outcome = result.outcome

    # -- preparation -------------------------------------------------------------------------

    def _start_preparation(self, incoming: QueuedCommand) -> bool:
        """Starts the preparation of a command if it needs one; returns whether it must wait."""
        engine = self._context.engine
        is_refused = isinstance(incoming.preparation, RefusedCommand)
        if not incoming.is_update or incoming.known_outcome is not None or is_refused:
            return False
        try:
            command = incoming.parse()
        except CommandRejected:
            return False
        if command.id in engine.state.commands or engine.state.is_ended:
            return False
        work: Coroutine[Any, Any, Preparation] | None
        if isinstance(command, Change | Rollback):
            if self._context.is_closing:
                _return(incoming)
                return True
            if self._is_blocked(incoming, command):
                return True
            if incoming.preparation is not None:
                return False
            if isinstance(command, Change):
                work = changes.prepare(incoming, command, engine, self._context.task_queue)
            else:
                work = restore.prepare(engine, command)
        elif isinstance(command, Answer):
            work = answer_edits.prepare(engine, incoming, command, self._context.task_queue)
        else:
            return False
        if work is None:
            return False
        self._context.events += 1
        self._preparing.append((incoming, asyncio.create_task(self._prepare(incoming, work))))
        return True

    def _is_blocked(self, incoming: QueuedCommand, command: Change | Rollback) -> bool:
        """Whether a command waits for a pending change. If it may not wait, it is refused.

        A server allows ten updates in flight: further waiting commands would keep out all others. A
        rollback does not wait for calls: they would be undone.
        """
        engine = self._context.engine
        if engine.state.pending_change is None:
            return False
        try:
            if isinstance(command, Change) and changes.may_need_no_swap(engine, incoming, command):
                return False
            changes.check_pending_change(engine, command)
            may_wait = isinstance(command, Change) and len(self._blocked) < MAX_BLOCKED
            if self._has_calls() and not may_wait:
                changes.check_no_pending_change(engine, command)
        except ChangeConflict as error:
            incoming.preparation = RefusedCommand(error)
            return False
        self._blocked.append(incoming)
        return True

    async def _prepare(
        self, incoming: QueuedCommand, work: Coroutine[Any, Any, Preparation]
    ) -> None:
        preparation: Preparation | None = NotPrepared()
        try:
            preparation = await work
        except asyncio.CancelledError:
            return
        except CrewlogError as error:
            preparation = RefusedCommand(error)
            command = incoming.parse()
            if isinstance(command, Change) and changes.may_need_no_swap(
                self._context.engine, incoming, command
            ):  # it does not fit the graph now, and may fit that of the pending change
                incoming.waits_for_swap = True
                preparation = None
        except FailureError as error:  # raised by the loop, it would end the run
            preparation = RefusedCommand(
                CommandRejected(
                    f"{incoming.name!r} could not be prepared: {error.cause or error}",
                    remedy="Send it again with a new id.",
                )
            )
        except Exception as error:  # noqa: BLE001 - it must fail the workflow task, not only this coroutine
            self._bug = error
        if incoming.outcome is not None:  # its activity was cancelled; its client sends it again
            return
        self._preparing = [each for each in self._preparing if each[0] is not incoming]
        incoming.preparation = preparation
        self.queue.append(incoming)

    def _return_unprepared(self) -> None:
        """Returns the commands that are not prepared when the execution closes."""
        for incoming, task in self._preparing:
            _return(incoming)
            task.cancel()
        for incoming in self._blocked:
            _return(incoming)
        self._preparing, self._blocked = [], []


def _return(incoming: QueuedCommand) -> None:
    incoming.outcome = Returned()
