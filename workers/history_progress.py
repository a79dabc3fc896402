"""Whether an instance of a workflow is ahead of its history because of a query.

A query without a workflow task brings the current history, with events that no completed workflow
task has processed. The SDK applies them before the query. Their task may start at another time, and
bring more events. If the instance were kept, its journal would differ from that of a replay, or its
commands would be in an order that no replay can produce, and the updates of the task would be lost
(docs/decisions/0053).
"""

from __future__ import annotations

import time

from temporalio.bridge.proto.workflow_activation import WorkflowActivation

QUERY_WITHOUT_TASK = "legacy_query"
"""The id of a query without a workflow task: its answer completes no task."""

SAME_QUERY_SECONDS = 5.0
"""Seconds within which a query follows the events that were applied for it. After two seconds
without progress the SDK reports a deadlock."""

_JOBS_WITHOUT_EVENTS = frozenset({"query_workflow", "remove_from_cache"})


class Progress:
    """How much of its history an instance has processed."""

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

    def is_ahead(self, act: WorkflowActivation) -> bool:
        """Whether a query is known to have brought events whose task has not started."""
        return self._is_early and act.history_length == self._length and _is_alone(act)

    def may_be_ahead(self, act: WorkflowActivation) -> bool:
        """Whether a query may have brought events of a task that has started and is not completed.

        Such events look like those of a task that this worker has completed. But a query directly
        follows its events; and a task may consist of updates only, so that no event was applied.
        """
        if not _is_alone(act) or act.history_length == self._completed_length:
            return False
        at_once = time.monotonic() - self._applied_at < SAME_QUERY_SECONDS
        return at_once or act.history_length != self._length

    def record_completed_task(self, act: WorkflowActivation) -> None:
        """Records that the last task of the history is completed."""
        self._completed_length = act.history_length


def _is_alone(act: WorkflowActivation) -> bool:
    return any(job.query_workflow.query_id == QUERY_WITHOUT_TASK for job in act.jobs)


def has_history_events(act: WorkflowActivation) -> bool:
    """Whether an activation has more than queries."""
    return any(job.WhichOneof("variant") not in _JOBS_WITHOUT_EVENTS for job in act.jobs)
