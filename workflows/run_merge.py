"""Run merges, in the workflow: what a run asks and answers, reads, records and confirms.

    requests  updates of other runs; for each, a local activity reads the stored state of that run
    ask       an activity asks the other run to coordinate, or to freeze, and waits for its answer
    prepare   an activity of the coordinator makes the definition of both, and one entry merges them
    confirm   a signal tells the other run that the outcome is stored; that run reads it

`crewlog.state.run_merge.protocol` decides what follows. The content of updates and signals is not
trusted. The activities run beside the loop, so that the run continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError

from crewlog.authority.principals import CommandAuthorization
from crewlog.errors import CommandRejected, CrewlogError, NotPermitted, RunAlreadyMerged
from crewlog.graph.engine import Engine
from crewlog.graph.run_merge.surviving_run import apply_merge
from crewlog.ids import RunId, merge_id
from crewlog.model import Json, is_object
from crewlog.state import journal as j
from crewlog.state.calls import (
    ASK_OTHER_RUN,
    PREPARE_MERGE,
    READ_OTHER_RUN,
    AskOtherRun,
    AskOtherRunResult,
    MergeNotification,
    PrepareMerge,
    PrepareMergeResult,
    ReadOtherRun,
    ReadOtherRunResult,
    StoreBatchResult,
)
from crewlog.state.model import CrewState, PendingMerge
from crewlog.state.run_merge.protocol import (
    Refusal,
    RunSize,
    answer_request,
    find_outcome,
    may_merge,
    merge_failed,
    next_entry,
    next_read_at,
)
from crewlog.state.run_merge.renames import renamed_log, renames_description
from crewlog.state.run_merge.surviving_state import artifact_heads, removed_agents
from crewlog.wire import NOTIFY_MERGE, Change
from crewlog.workflows import authorization
from crewlog.workflows.activity_options import PREPARE_CHANGE_OPTIONS, STORE_OPTIONS
from crewlog.workflows.commands.changes import merge_operation
from crewlog.workflows.commands.queue import Failed, QueuedCommand, parse_command
from crewlog.workflows.local_activity import execute_activity, execute_local_activity_or_fallback

PREPARE_TIMEOUT = timedelta(seconds=60)
"""The timeout for making the definition of both runs. The other run is frozen meanwhile."""
MAX_REQUESTS = 4
"""The most updates of other runs that may wait for an answer. A server allows ten open updates in
an execution, and commands need some."""

Store = Callable[[Sequence[MergeNotification]], Awaitable[StoreBatchResult | None]]
"""Stores the rest of the journal, then sends notifications; none if there was no rest."""


@dataclass
class MergeRequest:
    """An update by which another run asks this one to coordinate a merge, or to freeze for it."""

    merge: str
    run: RunId
    """The run that sent it."""
    must_read: bool = True
    """Whether the stored state of that run is still to be read."""
    answer: AskOtherRunResult | None = None


@dataclass
class _Activity:
    """An activity of a merge, in flight."""

    merge: str
    task: asyncio.Task[AskOtherRunResult | ReadOtherRunResult | PrepareMergeResult] = field(
        repr=False
    )
    is_local: bool


class RunMerge:
    """The run's part in run merges.

    Args:
        state: The state with which the execution begins.
    """

    def __init__(self, state: CrewState) -> None:
        self._requests: list[MergeRequest] = []
        """The updates that wait for an answer."""
        self._read: _Activity | None = None
        """The read of another run."""
        self._own: _Activity | None = None
        """The activity that asks the other run, or prepares the merge."""
        self._asked = ""
        """The merge and status in which this execution has asked the other run."""
        pending = state.pending_merge
        self._must_read_outcome = pending is not None and pending.status == "frozen"
        """Whether the outcome may be in the other run's journal. The execution before may have got
        the confirmation."""
        self._read_at = 0
        """When the other run was last read, in milliseconds since the epoch."""
        self._coordinated: PendingMerge | None = None
        """The merge that this run coordinates, until its outcome is confirmed."""
        self._sending: set[asyncio.Task[None]] = set()
        self.markers = 0
        """How many local activities were started. Each leaves an event in the history."""

    @property
    def is_local(self) -> bool:
        """Whether a local activity is in flight: the loop stores nothing meanwhile."""
        return any(each.is_local for each in (self._read, self._own) if each is not None)

    @property
    def is_full(self) -> bool:
        """Whether no further update of another run can wait for an answer."""
        return len(self._requests) >= MAX_REQUESTS

    def add_request(self, merge: str, run: RunId) -> MergeRequest:
        """Adds an update of another run; the loop sets its answer."""
        request = MergeRequest(merge, run)
        self._requests.append(request)
        return request

    def add_notification(self, state: CrewState, data: Any) -> None:
        """Handles the signal that confirms an outcome; one of another merge is ignored."""
        pending = state.pending_merge
        if pending is not None and is_object(data) and data.get("op") == pending.merge:
            self._must_read_outcome = True

    def refuse_requests(self, reason: str) -> None:
        """Refuses all updates of other runs for now."""
        for request in self._requests:
            _refuse(request, Refusal(reason, may_retry=True))
        self._requests.clear()

    def has_work(self, state: CrewState) -> bool:
        """Whether the loop must call `advance`."""
        if state.is_ended:
            return False
        if self._own is not None and self._own.task.done():
            return True
        if self._read is not None:
            return self._read.task.done()
        return any(each.must_read for each in self._requests) or self._must_read_now(state)

    def _must_read_now(self, state: CrewState) -> bool:
        """Whether the outcome must be read in the journal of the coordinator."""
        pending = state.pending_merge
        is_waiting = pending is not None and pending.status != "coordinating"
        return self._must_read_outcome and is_waiting

    def next_deadline(self, state: CrewState) -> int | None:
        """When the pending merge must continue, in milliseconds since the epoch; None: never."""
        pending = state.pending_merge
        if pending is None or (self._read is not None and pending.status == "frozen"):
            return None
        return next_read_at(state, max(self._read_at, pending.at))

    async def advance(self, engine: Engine, store: Store, *, is_drained: bool) -> None:
        """Continues the merges of the run until they must wait.

        Args:
            engine: The engine of the run.
            store: Stores the rest of the journal.
            is_drained: Whether no call and no detached turn of the run is in flight.
        """
        state = engine.state
        is_active = self._requests or self._coordinated or self._own or self._read
        if not (is_active or state.pending_merge):
            return
        before = state.position
        self._apply_results(engine)
        entry = next_entry(
            engine.state,
            engine.at,
            has_drained=is_drained,
            ending_turns=engine.state.detached_turns if engine.is_finishing_detached_turns else (),
        )
        if entry is not None:
            engine.record(entry)
        if engine.state.is_ended:
            return
        ask = self._next_ask(engine.state)
        notifications = self.take_notifications(engine.state)
        if before != engine.state.position or ask is not None:
            # Whatever an answer, a question or a confirmation refers to is stored before it.
            result = await store(notifications)
            for each in notifications if result is None else result.unsent:
                self.notify(engine.state.run, each)
        self._answer_requests(engine.state)
        self._start_read(engine)
        if ask is not None:
            self._start_ask(engine, ask)

    # -- results -----------------------------------------------------------------------------

    def _apply_results(self, engine: Engine) -> None:
        """Applies the results of the activities that have completed."""
        if self._read is not None and (result := _result(self._read)) is not None:
            merge, self._read = self._read.merge, None
            if isinstance(result, ReadOtherRunResult):
                self._apply_read(engine, result)
            elif isinstance(result, ActivityError):
                self._refuse_unread(engine.state.run, merge, result)
        if self._own is not None and (result := _result(self._own)) is not None:
            merge, self._own = self._own.merge, None
            self._apply_own(engine, merge, result)

    def _refuse_unread(self, run: RunId, merge: str, error: ActivityError) -> None:
        """Refuses the requests of a merge, since the other run could not be read."""
        for request in self._requests:
            if request.merge == merge and not request.must_read:
                reason = f"{run!r} cannot read the state of {request.run!r}: {error.cause or error}"
                remedy = "see the log of its worker, and retry"
                _refuse(request, Refusal(f"{reason}: {remedy}", may_retry=True))

    def _apply_read(self, engine: Engine, read: ReadOtherRunResult) -> None:
        """Records what follows from the stored state of the other run."""
        engine.at = max(engine.at, read.at)
        other = CrewState.from_json(read.state) if read.state is not None else None
        pending = engine.state.pending_merge
        if pending is not None and pending.merge == read.merge:
            outcome = find_outcome(engine.state, other, gone=read.gone, recalled=read.recalled)
            if outcome == "recall":
                after = pending.other_position
                self._start_reading(
                    engine, read.merge, pending.other, sure=False, recall_after=after
                )
            elif outcome is not None:
                engine.record(outcome)
        for request in self._requests:
            if request.merge == read.merge and not request.must_read and request.answer is None:
                self._apply_request(engine, request, other, read)

    def _apply_request(
        self,
        engine: Engine,
        request: MergeRequest,
        other: CrewState | None,
        read: ReadOtherRunResult,
    ) -> None:
        """Accepts what another run asks, or refuses it."""
        if engine.plan.component is None:
            _refuse(request, Refusal(f"{engine.state.run!r} has no agents with channels"))
            return
        entries = answer_request(
            engine.state, other, request.merge, engine.at, RunSize.of(engine.plan.component)
        )
        if isinstance(entries, Refusal):
            _refuse(request, entries)
            return
        for entry in entries:
            if isinstance(entry, j.MergeAccepted):
                try:
                    _check_request(engine, entry, read)
                except CommandRejected as error:
                    _refuse(request, Refusal(str(error)))
                    return
        for entry in entries:
            engine.record(entry)

    def _apply_own(
        self,
        engine: Engine,
        merge: str,
        result: AskOtherRunResult | ReadOtherRunResult | PrepareMergeResult | ActivityError,
    ) -> None:
        """Continues after the answer of the other run, or after the preparation."""
        pending = engine.state.pending_merge
        if pending is None or pending.merge != merge:
            return
        if isinstance(result, ActivityError):
            self._apply_error(engine, pending, result)
        elif isinstance(result, PrepareMergeResult):
            self._apply_merge(engine, pending, result)
        elif isinstance(result, AskOtherRunResult):
            if result.refused:
                _give_up(engine, Refusal(result.refused, result.may_retry))
            elif pending.status == "coordinating" and result.frozen_position:
                self._prepare_merge(engine, pending, result.frozen_position)

    def _apply_error(self, engine: Engine, pending: PendingMerge, error: ActivityError) -> None:
        if error.activity_type == PREPARE_MERGE:
            reason = f"the definition of both runs could not be made: {error.cause or error}"
            _give_up(engine, Refusal(reason))
            return
        reason = f"{pending.other!r} did not answer in time: check that it has a worker, and retry"
        _give_up(engine, Refusal(reason, may_retry=True))

    def _apply_merge(
        self, engine: Engine, pending: PendingMerge, prepared: PrepareMergeResult
    ) -> None:
        """Merges the other run, or records that the merge failed."""
        if not may_merge(engine.state, pending.merge):
            return
        try:
            checked = authorize_merge(engine, pending)
            authorization.check_widening(checked, prepared.widens, "the merge")
            apply_merge(engine, prepared, op=pending.merge, expect=pending.expect, by=pending.by)
        # Any other handling would fail the workflow task forever. Both runs continue unchanged.
        except Exception as error:  # noqa: BLE001
            if not isinstance(error, CommandRejected):
                text = "the run %s could not be merged: both runs continue unchanged"
                workflow.logger.error(text, pending.other, exc_info=error)
            reason = str(error) if isinstance(error, CrewlogError) else repr(error)
            _give_up(engine, Refusal(reason))

    # -- messages to other runs --------------------------------------------------------------

    def take_notifications(self, state: CrewState) -> tuple[MergeNotification, ...]:
        """Returns the notification of the outcome that this run has recorded and not confirmed."""
        merge, pending = self._coordinated, state.pending_merge
        is_coordinating = pending is not None and pending.status == "coordinating"
        self._coordinated = pending if is_coordinating else None
        if merge is None or (pending is not None and pending.merge == merge.merge):
            return ()
        return (MergeNotification(merge=merge.merge, to=merge.other),)

    def notify(self, run: RunId, notification: MergeNotification) -> None:
        """Sends another run a notification, once the journal is stored."""
        task = asyncio.create_task(self._send(run, notification))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    @staticmethod
    async def _send(run: RunId, notification: MergeNotification) -> None:
        handle: workflow.ExternalWorkflowHandle[Any] = workflow.get_external_workflow_handle(
            notification.to
        )
        with suppress(FailureError):  # the run has ended, or does not exist
            await handle.signal(NOTIFY_MERGE, {"op": notification.merge, "run": run})

    def _answer_requests(self, state: CrewState) -> None:
        """Answers the updates that can be answered now; what the answers refer to is stored."""
        pending = state.pending_merge
        for request in self._requests:
            outcome = state.merges.get(request.merge)
            if pending is not None and pending.merge == request.merge:
                if pending.status == "coordinating":
                    request.answer = AskOtherRunResult()
                elif pending.status == "frozen":
                    request.answer = AskOtherRunResult(frozen_position=pending.frozen_position)
            elif request.answer is None and outcome is not None:
                reason = outcome.reason or f"{state.run!r} has merged already"
                _refuse(request, Refusal(reason, outcome.may_retry))
        self._requests = [each for each in self._requests if each.answer is None]

    # -- activities --------------------------------------------------------------------------

    def _start_read(self, engine: Engine) -> None:
        """Starts to read another run, if there is a reason to."""
        state = engine.state
        pending, deadline = state.pending_merge, self.next_deadline(state)
        if self._read is not None:
            return
        if pending is not None and self._must_read_now(state):
            self._must_read_outcome = False
            self._start_reading(engine, pending.merge, pending.other, sure=True)
            return
        if pending is not None and pending.status == "frozen" and (deadline or 0) <= engine.at:
            self._start_reading(engine, pending.merge, pending.other, sure=False)
            return
        request = next((each for each in self._requests if each.must_read), None)
        if request is not None:
            request.must_read = False
            policy = engine.plan.policy
            # Also for a merge that this run requested: since then the other run may have changed.
            find_widenings = policy is not None and policy.signed
            self._start_reading(
                engine, request.merge, request.run, sure=True, find_widenings=find_widenings
            )

    def _start_reading(
        self,
        engine: Engine,
        merge: str,
        other: RunId,
        *,
        sure: bool,
        recall_after: int | None = None,
        find_widenings: bool = False,
    ) -> None:
        self._read_at = engine.at
        task = ReadOtherRun(
            run=engine.state.run,
            definition=engine.plan.definition,
            other=other,
            merge=merge,
            sure=sure,
            recall_after=recall_after,
            find_widenings=find_widenings,
        )
        options = {**STORE_OPTIONS, "summary": f"reads {other}"}
        self.markers += sure
        execute = execute_local_activity_or_fallback if sure else execute_activity
        activity = execute(READ_OTHER_RUN, task, ReadOtherRunResult, options)
        self._read = _Activity(merge, asyncio.create_task(activity), is_local=sure)

    def _next_ask(self, state: CrewState) -> PendingMerge | None:
        """The pending merge for which this execution has not asked the other run yet.

        An activity for a merge that is no longer pending is cancelled.
        """
        pending = state.pending_merge
        if self._own is not None and (pending is None or self._own.merge != pending.merge):
            # Retrieves the exception, which asyncio would log otherwise.
            self._own.task.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._own.task.cancel()
            self._own = None
        if pending is None or self._own is not None:
            return None
        if pending.status not in ("requested", "coordinating"):
            return None
        return pending if self._asked != f"{pending.merge} {pending.status}" else None

    def _start_ask(self, engine: Engine, pending: PendingMerge) -> None:
        """Starts to ask the other run to coordinate, or to freeze."""
        self._asked = f"{pending.merge} {pending.status}"
        task = AskOtherRun(
            run=engine.state.run,
            definition=engine.plan.definition,
            other=pending.other,
            merge=pending.merge,
            to="coordinate" if pending.status == "requested" else "freeze",
            request=pending.request,
        )
        left = timedelta(milliseconds=max(pending.deadline - engine.at, 1))
        options = {
            **STORE_OPTIONS,
            "schedule_to_close_timeout": left,
            "summary": f"asks {pending.other} to {task.to}",
        }
        activity = execute_activity(ASK_OTHER_RUN, task, AskOtherRunResult, options)
        self._own = _Activity(pending.merge, asyncio.create_task(activity), is_local=False)

    def _prepare_merge(self, engine: Engine, pending: PendingMerge, position: int) -> None:
        """Starts to make the definition of both runs."""
        task = PrepareMerge(
            run=engine.state.run,
            base=engine.plan.definition,
            other=pending.other,
            merge=pending.merge,
            entered_at=pending.position,
            started_at=engine.state.started_at,
            position=position,
            operation=pending.operation if is_object(pending.operation) else {},
            asks=pending.requester,
            artifacts=artifact_heads(engine.state),
            removed=removed_agents(engine.state, engine.plan.agents),
        )
        options = {**PREPARE_CHANGE_OPTIONS, "schedule_to_close_timeout": PREPARE_TIMEOUT}
        activity = execute_local_activity_or_fallback(
            PREPARE_MERGE, task, PrepareMergeResult, options
        )
        self.markers += 1
        self._own = _Activity(pending.merge, asyncio.create_task(activity), is_local=True)


def _result(
    activity: _Activity,
) -> AskOtherRunResult | ReadOtherRunResult | PrepareMergeResult | ActivityError | None:
    """The result of an activity that has completed, or its error; None: it is in flight.

    Raises:
        ActivityError: another execution is the run now.
    """
    if not activity.task.done():
        return None
    try:
        return activity.task.result()
    except ActivityError as error:
        if authorization.foreign_execution_error(error) is not None:
            raise
        workflow.logger.warning("an activity of a run merge failed: %s", error.cause)
        return error


def _refuse(request: MergeRequest, refusal: Refusal) -> None:
    request.answer = AskOtherRunResult(refused=refusal.reason[:2000], may_retry=refusal.may_retry)


def _give_up(engine: Engine, refusal: Refusal) -> None:
    if (entry := merge_failed(engine.state, refusal)) is not None:
        engine.record(entry)


# -- authorization -----------------------------------------------------------------------------


def check_request(engine: Engine, content: Any) -> None:
    """Checks an update of another run before it is accepted.

    If the policy is signed, the update contains the command that requests the merge, sent to one of
    the two runs. The loop then compares it with what that run has stored.

    Raises:
        CommandRejected: it is not valid.
        NotPermitted: the policy does not permit the command.
    """
    request = content.get("request") if is_object(content) else None
    if (
        not is_object(content)
        or not is_object(request)
        or not all(isinstance(content.get(key), str) for key in ("merge", "run"))
    ):
        raise CommandRejected(
            "a request to merge needs the texts 'merge' and 'run', and the object 'request'",
            remedy="Connect an agent with one of another run: runs send this update themselves.",
        )
    own, other = engine.state.run, RunId(str(content["run"]))
    results = {
        run: authorization.authenticate_request(engine, "change", request, run=run, at=None)
        for run in (other, own)
    }
    checked = {run: each for run, each in results.items() if each is not None}
    allowed = [run for run, each in checked.items() if each.allowed]
    if checked and not allowed:
        raise authorization.not_permitted(checked[other])
    merge, runs = str(content["merge"]), {own, other}
    if checked and not any(_requests_merge(request, merge, run, runs) for run in allowed):
        raise _another_merge_error()


def _requests_merge(request: dict[str, Json], merge: str, run: RunId, runs: set[RunId]) -> bool:
    """Whether a command that was sent to a run requests this merge of the two runs."""
    command = parse_command("change", request)
    requested = merge_operation(command) if isinstance(command, Change) else None
    return (
        requested is not None
        and {run, requested.other} == runs
        and merge == merge_id(run, command.id)
    )


def _check_request(engine: Engine, entry: j.MergeAccepted, read: ReadOtherRunResult) -> None:
    """Checks that the policy of this run permits a merge that another run's command requests.

    The coordinator checks what it widens once the definition of both runs is made.

    Raises:
        CommandRejected: it does not.
    """
    checked = authorize_merge(engine, entry, at=read.at)
    if checked is not None and entry.status == "draining":
        if read.refused:
            raise CommandRejected(read.refused)
        widenings = read.widens if read.compared == engine.plan.definition else None
        authorization.check_widening(checked, widenings, "the merge")


def authorize_merge(
    engine: Engine, merge: j.MergeAccepted | PendingMerge, *, at: int | None = None
) -> CommandAuthorization | None:
    """The authorization of the command that requests a run merge; None if the policy is open.

    Args:
        engine: The engine of this run, whose policy decides.
        merge: The merge, with the command as it was sent to the run that requests it.
        at: When it arrived here, in milliseconds since the epoch; None: its expiry was checked.

    Raises:
        NotPermitted: the policy does not permit the command, or it requests another merge.
    """
    own, requester = engine.state.run, merge.requester
    checked = authorization.authenticate_request(
        engine, "change", merge.request, run=requester, at=at
    )
    if checked is None:
        return None
    if not checked.allowed:
        raise authorization.not_permitted(checked)
    command = parse_command("change", merge.request)
    requested = merge_operation(command) if isinstance(command, Change) else None
    if (
        not isinstance(command, Change)
        or requested is None
        or requested.other != (merge.other if requester == own else own)
        or {"op": requested.op, **requested.to_json()} != merge.operation
        or command.expect != merge.expect
    ):
        raise _another_merge_error()
    return checked


def _another_merge_error() -> NotPermitted:
    return NotPermitted(
        "the signed command requests another merge",
        remedy="Connect an agent with one of the other run: runs send this update themselves.",
    )


async def forward(state: CrewState, incoming: QueuedCommand, *, signed: bool = False) -> None:
    """Handles a command to a merged run: forwards a message, rejects an update.

    Other signals are ignored: a stop is meant for this run only, and interrupts have other numbers
    in the surviving run.

    Args:
        state: The final state of the merged run.
        incoming: The command. The error for an update has the id of the surviving run.
        signed: Whether commands are signed. Then the message is forwarded unchanged, and the
            surviving run applies the renames, which its state has.
    """
    into = state.surviving_run
    assert into is not None  # noqa: S101 - it is merged
    if incoming.is_update:
        renames = renames_description(state.surviving_run_renames)
        text = f"the run {state.run!r} was merged into {into!r}"
        incoming.outcome = Failed(
            RunAlreadyMerged(
                f"{text}; {renames}" if renames else text,
                remedy=f"Send the command to {into!r}.",
            )
        )
    elif incoming.name == "message":
        handle: workflow.ExternalWorkflowHandle[Any] = workflow.get_external_workflow_handle(into)
        with suppress(FailureError):  # the surviving run has ended, too
            forwarded = _with_original_run if signed else _with_new_name
            await handle.signal(incoming.name, forwarded(state, incoming.data))


def _with_original_run(state: CrewState, content: Any) -> Any:
    """The message with the run that it was first sent to, which its signature names."""
    if not is_object(content):
        return content
    return {**content, "original_run": content.get("original_run") or state.run}


def _with_new_name(state: CrewState, data: Any) -> Any:
    """The message with the new name of its receiver; another agent may have the old name now."""
    to = data.get("to") if is_object(data) else None
    if not isinstance(to, str) or (new := renamed_log(to, state.surviving_run_renames)) == to:
        return data
    return {**data, "to": new, "original_to": data.get("original_to") or to}
