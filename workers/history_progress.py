"""Whether an instance of a workflow has gone ahead of its history, for a query.

A query that comes by itself brings the history as it is: with news that no workflow task has taken,
or that one has which is under way, or whose worker died. The SDK gives them to the workflow before
the query. The task itself may begin at another time, and bring more: were the instance kept, its
journal would not be the one that a replay makes, or its commands stand in an order that no replay
can make. And updates that come with the task would be lost (docs/decisions/0053).
"""

from __future__ import annotations

import time

from temporalio.bridge.proto.workflow_activation import WorkflowActivation

ALONE = "legacy_query"
"""The id of a query that comes without a workflow task: its answer completes none."""

AT_ONCE = 5.0
"""Seconds in which a query follows the news that were given for it; an instance that takes two for
them is taken for a deadlock."""

_NO_NEWS = frozenset({"query_workflow", "remove_from_cache"})


class Progress:
    """What an instance has taken of its history."""

    def __init__(self) -> None:
        self._length = 0
        """How long the history was at the last news."""
        self._time = 0
        """What time it was for the workflow at the last news, in nanoseconds since the epoch: when
        their task began, or when a local activity of it ended; of early ones, that of the task
        before."""
        self._is_early = False
        """Whether they came before their task began."""
        self._taken = 0.0
        """When the last news were, by the monotonic clock."""
        self._done = 0
        """How long the history was when its last task was known to be completed."""

    def note(self, act: WorkflowActivation) -> None:
        """Notes what was taken."""
        if not has_history_events(act):
            return
        now = act.timestamp.ToNanoseconds()
        if act.history_length != self._length:
            self._is_early = now == self._time
        self._length, self._time = act.history_length, now
        self._taken = time.monotonic()

    def is_ahead(self, act: WorkflowActivation) -> bool:
        """Whether a query brought news whose task has not begun, for certain."""
        return self._is_early and act.history_length == self._length and _is_alone(act)

    def may_be_ahead(self, act: WorkflowActivation) -> bool:
        """Whether a query may have brought a task that has begun, and is not completed.

        It looks like one that this worker has done. But where it came with the query, the query
        follows at once; or the task has nothing for the workflow but what comes beside its
        history, and nothing was taken at all.
        """
        if not _is_alone(act) or act.history_length == self._done:
            return False
        at_once = time.monotonic() - self._taken < AT_ONCE
        return at_once or act.history_length != self._length

    def record_completed_task(self, act: WorkflowActivation) -> None:
        """Notes that the last task of the history is completed."""
        self._done = act.history_length


def _is_alone(act: WorkflowActivation) -> bool:
    return any(job.query_workflow.query_id == ALONE for job in act.jobs)


def has_history_events(act: WorkflowActivation) -> bool:
    """Whether an activation has more than queries."""
    return any(job.WhichOneof("variant") not in _NO_NEWS for job in act.jobs)
