"""Corrections of the Temporal SDK in the worker, where it activates instances of workflows.

Each one has its reason, its test, the report to the SDK's authors, and what ends it. Before another
minor version than that of `pyproject.toml` is pinned, try each. `crewlog.workflows.sdk_workarounds`
has those of workflow code.

An instance runs in its own thread. A workflow task that makes no progress for two seconds counts as
a deadlock, so the event loop of the worker does the work. One request waits for its answer, at most
`ANSWER_LIMIT` seconds: `is_task_completed`, after a query. The answer decides whether the instance
is kept, and the SDK may give it the next task at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import CommandType
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
)
from temporalio.bridge.proto.workflow_activation import (
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.service import RPCError
from temporalio.worker import Worker, WorkflowInstance

from crewlog.payload_storage.external_storage import request_payload
from crewlog.workflows.sdk_workarounds import PACKED_SIGNALS, pack_names

ANSWER_LIMIT = 1.0
"""Seconds to wait for the server."""
QUERY_WITHOUT_TASK = "legacy_query"
"""The id of a query without a workflow task: its answer completes no task."""
SAME_QUERY_SECONDS = 5.0
"""Seconds within which a query follows the events that were applied for it. After two seconds
without progress the SDK reports a deadlock."""
ENDED_EARLY = "the execution ended for a query, before these events: the task is retried"
"""Why a workflow task fails if its instance has ended for a query about a refused task."""
CACHED_RUNS_PER_TASK = 16
"""Cached executions for each workflow task that may run at a time."""
LEAST_CACHED_RUNS = 2 * CACHED_RUNS_PER_TASK
"""The SDK runs at least two tasks at a time if it caches executions."""

_JOBS_WITHOUT_EVENTS = frozenset({"query_workflow", "remove_from_cache"})
_ENDING_COMMANDS = frozenset(
    {
        "complete_workflow_execution",
        "fail_workflow_execution",
        "cancel_workflow_execution",
        "continue_as_new_workflow_execution",
    }
)
_SCHEDULE_ACTIVITY = CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK
_VALIDATION_FAILED = "Worker validation failed: "


class LocalActivities:
    """The local activities in flight, during which no query is answered.

    Reason: an answer completes the workflow task. If the local activity has ended meanwhile, its
        marker is part of that task, but the workflow gets the result in the next task, after the
        signals in between. A replay gives the result in the task of the marker, before these
        signals, so the run could no longer be replayed (docs/decisions/0046). The server sends an
        unanswered query again with the next task, or alone.
    Test: `test_a_run_queried_during_a_local_activity_replays` in
        `tests/workers/test_queries_during_local_activities.py`.
    Report: A workflow begins a local activity in its first task, and a query is part of that task.
        The activity ends while the query is answered, and a signal comes. The workflow gets the
        signal first, and its replay the result first. Expected: no query is answered while a local
        activity is in flight, or its marker is part of the next task.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test passes
        without it.
    """

    def __init__(self) -> None:
        self._in_flight: set[int] = set()
        """Their sequence numbers."""

    def forbid_queries(self, act: WorkflowActivation) -> bool:
        """Whether the activation has queries that come with a task of a local activity."""
        return bool(self._in_flight) and any(
            job.HasField("query_workflow") and job.query_workflow.query_id != QUERY_WITHOUT_TASK
            for job in act.jobs
        )

    def record(self, act: WorkflowActivation, completion: WorkflowActivationCompletion) -> None:
        """Records which local activities an activation has started and ended."""
        for command in completion.successful.commands:
            if command.HasField("schedule_local_activity"):
                self._in_flight.add(command.schedule_local_activity.seq)
        if self._in_flight:
            self._in_flight.difference_update(
                job.resolve_activity.seq for job in act.jobs if job.resolve_activity.is_local
            )


class EarlyEnd:
    """Whether an instance has ended its execution, so that it must not get further events.

    Reason: the server refuses the end of an execution if signals have come meanwhile, and a new
        instance repeats the task. An instance that a query made in between has replayed the
        refused task, too, and ended. With the other events, the SDK would send the end that this
        instance made without them, and signals would be lost (docs/decisions/0047). A failed task
        is repeated from the whole history.
    Test: `test_an_execution_that_ended_for_a_query_fails_the_task_that_brings_more` in
        `tests/workers/test_workflow_runner.py`.
    Report: A workflow continues as new, the server refuses it with `UnhandledCommand` since a
        signal came, and a query without a task comes before the task is repeated. The worker
        completes the repeated task with the old command, without giving the signal to the
        workflow. Expected: an instance that has ended is evicted when its task is refused.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the steps of the
        report give what is expected.
    """

    def __init__(self) -> None:
        self._length = 0
        """The length of the history when the execution ended here; 0: it has not."""

    def precedes_events(self, act: WorkflowActivation) -> bool:
        """Whether the activation has events after the end."""
        return 0 < self._length < act.history_length and has_history_events(act)

    def record(self, act: WorkflowActivation, completion: WorkflowActivationCompletion) -> None:
        """Records whether an activation has ended the execution."""
        if _ends(completion):
            self._length = act.history_length


class Progress:
    """How much of its history an instance has processed, and whether a query has brought more.

    Reason: a query without a workflow task brings the current history, with events that no
        completed workflow task has processed. The SDK applies them before the query. Their task
        may start at another time, and bring more events. If the instance were kept, its journal
        would differ from that of a replay, or its commands would be in an order that no replay can
        produce, and the updates of the task would be lost (docs/decisions/0053).
    Test: `test_events_of_a_query_are_processed_by_their_task` in
        `tests/workers/test_early_queries.py`.
    Report: No worker runs. A query is sent, then a signal. The worker that starts answers the
        query with the signal applied, at the time of the task before, and keeps the instance: the
        task of the signal runs without jobs, and `workflow.time()` differs in a replay. An update
        that comes with this task is rejected as `UnprocessedUpdate`. Expected: an instance that has
        applied events without their task is evicted after the query.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test passes
        without it.
    """

    def __init__(self) -> None:
        self._length = 0
        """The length of the history at the last events."""
        self._time = 0
        """The time of the workflow at the last events, in nanoseconds since the epoch: the start of
        their task, or the end of a local activity in it. Early events have the time of the task
        before."""
        self._is_early = False
        """Whether the last events were applied before their task started."""
        self._applied_at = 0.0
        """When the last events were applied, by the monotonic clock."""
        self._completed_length = 0
        """The length of the history when its last task was known to be completed."""

    def record_events(self, act: WorkflowActivation) -> None:
        """Records the events of an activation."""
        if not has_history_events(act):
            return
        now = act.timestamp.ToNanoseconds()
        if act.history_length != self._length:
            self._is_early = now == self._time
        self._length, self._time = act.history_length, now
        self._applied_at = time.monotonic()

    def is_ahead(self, act: WorkflowActivation, workflow: str, worker: WorkerHost) -> bool:
        """Whether a query has brought more events than those of completed workflow tasks.

        Args:
            act: An activation.
            workflow: The workflow's id.
            worker: Its worker, which asks the server if nothing else shows it.
        """
        if not any(job.query_workflow.query_id == QUERY_WITHOUT_TASK for job in act.jobs):
            return False
        if self._is_early and act.history_length == self._length:
            return True
        # Other events look like those of a task that this worker has completed. But a query
        # directly follows its events; and a task may consist of updates only.
        is_old = time.monotonic() - self._applied_at >= SAME_QUERY_SECONDS
        if act.history_length == self._completed_length or (
            is_old and act.history_length == self._length
        ):
            return False
        if worker.is_task_completed(workflow, act.run_id, act.timestamp.ToNanoseconds()):
            self._completed_length = act.history_length
            return False
        return True


class WorkerHost:
    """The worker of instances, which evicts them and asks the server for them.

    Its methods are called in the threads of workflow tasks. Without a worker, in a replay, they do
    nothing.

    Reason: what `Progress` finds is of no use without an eviction, and the SDK has no public call
        for that, only its bridge.
    Test: `test_events_of_a_query_are_processed_by_their_task` in
        `tests/workers/test_early_queries.py`.
    Report: An interceptor or a runner cannot evict an execution from the worker's cache. Expected:
        a public method of `Worker`, as `request_workflow_eviction` of the bridge.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test passes
        without it.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, worker: Worker) -> None:
        """Uses this worker, and the event loop that runs now."""
        self._worker, self._loop = worker, asyncio.get_running_loop()

    def evict(self, execution: str) -> None:
        """Evicts an execution once it has answered the query.

        Args:
            execution: Temporal's id of the execution.
        """
        if self._worker is not None:
            bridge = self._worker._bridge_worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            bridge.request_workflow_eviction(execution)

    def request_payload(self, file: str) -> None:
        """Requests the missing payload of a command, in a thread of the worker's event loop."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(lambda: loop.run_in_executor(None, request_payload, file))

    def is_task_completed(self, workflow: str, execution: str, began: int) -> bool:
        """Whether the workflow task that began at a time is completed.

        Args:
            workflow: The workflow's id.
            execution: Temporal's id of the execution.
            began: When the task began, in nanoseconds since the epoch.

        Returns:
            False if the server does not answer in time.
        """
        if self._worker is None or self._loop is None or self._loop.is_closed():
            return False
        request = asyncio.run_coroutine_threadsafe(
            _describe(self._worker, workflow, execution), self._loop
        )
        try:
            return has_no_pending_task(request.result(ANSWER_LIMIT), began)
        except (RPCError, TimeoutError):
            request.cancel()
            return False


async def _describe(
    worker: Worker, workflow: str, execution: str
) -> DescribeWorkflowExecutionResponse:
    client = worker.client
    return await client.workflow_service.describe_workflow_execution(
        DescribeWorkflowExecutionRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=workflow, run_id=execution),
        )
    )


def has_no_pending_task(description: DescribeWorkflowExecutionResponse, began: int) -> bool:
    """Whether the task that began at a time is completed, in nanoseconds since the epoch.

    While the task is in flight, it is the pending task. If its worker is lost, its next attempt is
    pending. Otherwise no task is pending, or a later one.
    """
    if not description.HasField("pending_workflow_task"):
        return True
    pending = description.pending_workflow_task
    return pending.attempt <= 1 and pending.scheduled_time.ToNanoseconds() > began


def activate_updates_last(
    instance: WorkflowInstance, act: WorkflowActivation
) -> WorkflowActivationCompletion:
    """Activates an instance with the updates after all other jobs.

    Reason: the SDK puts an update first. But a worker that has to replay the history before it gets
        the update in an activation of its own, after the other jobs. So the commands in the history
        could have an order that no replay produces, and the run could not continue
        (docs/decisions/0011).
    Test: `test_updates_are_processed_last` in `tests/workers/test_workflow_runner.py`.
    Report: An activity's result and an update are part of one workflow task, and both issue a
        command. A worker that has the workflow in memory issues the update's command first; a
        worker that replays before this task issues it last, and its history fails every replay
        with a nondeterminism error. Expected: one order in both cases.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the steps of the
        report give what is expected.
    """
    updates = [job for job in act.jobs if job.HasField("do_update")]
    if not updates or len(updates) == len(act.jobs):
        return instance.activate(act)
    rest = [job for job in act.jobs if not job.HasField("do_update")]
    first = instance.activate(with_jobs(act, rest))
    if first.HasField("failed") or _ends(first):
        return first  # the server rejects the updates of an execution that ends
    second = instance.activate(with_jobs(act, updates))
    if second.HasField("failed"):
        return second
    first.successful.MergeFrom(second.successful)
    return first


def with_packed_signals(act: WorkflowActivation) -> WorkflowActivation:
    """Packs the signals of an activation into one, at the position of the first.

    `PACKED_SIGNALS` has the reason. A signal of that name from a client is packed, too.
    """
    signals = [job.signal_workflow for job in act.jobs if job.HasField("signal_workflow")]
    if len(signals) < 2 and not any(each.signal_name == PACKED_SIGNALS for each in signals):
        return act
    one = WorkflowActivationJob()
    one.signal_workflow.signal_name = PACKED_SIGNALS
    one.signal_workflow.originating_event_id = signals[0].originating_event_id
    names = pack_names([(each.signal_name, len(each.input)) for each in signals])
    one.signal_workflow.input.append(names)
    for each in signals:
        one.signal_workflow.input.extend(each.input)
    jobs = [job for job in act.jobs if not job.HasField("signal_workflow")]
    before = next(at for at, job in enumerate(act.jobs) if job.HasField("signal_workflow"))
    return with_jobs(act, [*jobs[:before], one, *jobs[before:]])


def with_jobs(act: WorkflowActivation, jobs: Sequence[WorkflowActivationJob]) -> WorkflowActivation:
    """Returns an activation with other jobs."""
    part = WorkflowActivation()
    part.CopyFrom(act)
    del part.jobs[:]
    part.jobs.extend(jobs)
    return part


def has_history_events(act: WorkflowActivation) -> bool:
    """Whether an activation has more than queries."""
    return any(job.WhichOneof("variant") not in _JOBS_WITHOUT_EVENTS for job in act.jobs)


def _ends(completion: WorkflowActivationCompletion) -> bool:
    """Whether a command ends the execution."""
    return any(
        command.WhichOneof("variant") in _ENDING_COMMANDS
        for command in completion.successful.commands
    )


def limit_cache(most_cached: int, most_tasks: int) -> tuple[int, int]:
    """Returns the most cached executions, and the most workflow tasks at a time.

    Reason: if the cache is full, the SDK evicts the execution that was used longest ago, even
        during its task. A task that waits for a local activity, as the first one of every run
        does, is then lost until it times out. So the cache has many more executions than tasks run
        at a time: while one task waits, the others cannot use so many executions that its own
        becomes the oldest.
    Test: `test_a_waiting_task_is_never_the_oldest_cached_one` in
        `tests/workers/test_cache_limits.py`.
    Report: A worker with `max_cached_workflows=2` and workflows that begin with a local activity of
        a second: with three at a time, tasks time out, since their execution was evicted.
        Expected: an execution whose task is in flight is not evicted.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the steps of the
        report give what is expected.

    Args:
        most_cached: The executions that the operator wants to cache; 0: none.
        most_tasks: The most workflow tasks at a time that the operator wants.
    """
    if not most_cached:
        return 0, 1
    cached = max(most_cached, LEAST_CACHED_RUNS)
    return cached, min(most_tasks, cached // CACHED_RUNS_PER_TASK)


def server_rejection(error: RuntimeError) -> str:
    """Why the server rejected the worker before it polled; empty for any other error.

    Reason: the SDK raises a `RuntimeError` for a server that answers and cannot serve, or lacks the
        namespace, as for any bug.
    Test: `test_a_worker_of_a_missing_namespace_ends_with_the_error` in
        `tests/client/test_namespace.py`.
    Report: `Worker.run` raises `RuntimeError("Worker validation failed: …")` where the server
        rejects it. Expected: an error of a type of its own, with the `RPCError` as its cause.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the steps of the
        report give what is expected.
    """
    text = str(error)
    return text.removeprefix(_VALIDATION_FAILED) if text.startswith(_VALIDATION_FAILED) else ""
