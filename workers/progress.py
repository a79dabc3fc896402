"""Whether an instance of a workflow has gone ahead of its history, for a query.

A query that comes by itself brings the history as it is: with news that no workflow task has taken,
or that one has whose worker died. The SDK gives them to the workflow before the query. The task
itself may begin at another time, and bring more: were the instance kept, its journal would not be
the one that a replay makes, or its commands stand in an order that no replay can make
(docs/decisions/0053).
"""

from __future__ import annotations

import time

from temporalio.bridge.proto.workflow_activation import WorkflowActivation

ALONE = "legacy_query"
"""The id of a query that comes without a workflow task: its answer completes none."""

AT_ONCE = 0.2
"""Seconds in which a query follows the news that were given for it. One that follows a task which
is done comes later, by at least the way to the server and back."""

_NO_NEWS = frozenset({"query_workflow", "remove_from_cache"})


class Progress:
    """What an instance has taken of its history."""

    def __init__(self) -> None:
        self._length = 0
        """How long the history was at the last news."""
        self._time = 0
        """When their task began, in nanoseconds since the epoch; of early ones, the one before."""
        self._early = False
        """Whether they came before their task began."""
        self._live = 0
        """How many tasks were taken that are not replayed."""
        self._taken = 0.0
        """When the last news were, by the monotonic clock."""

    def note(self, act: WorkflowActivation) -> None:
        """Notes what was taken."""
        if not brings_news(act):
            return
        if act.history_length != self._length:
            began = act.timestamp.ToNanoseconds()
            self._early = began == self._time
            self._length, self._time = act.history_length, began
            self._live += not act.is_replaying
        self._taken = time.monotonic()

    def is_ahead(self, act: WorkflowActivation) -> bool:
        """Whether a query brought news whose task has not begun, for certain."""
        return self._early and self._may_be_for(act)

    def may_be_ahead(self, act: WorkflowActivation) -> bool:
        """Whether a query may have brought news whose task began at a worker that died.

        They look like those of a task that this worker has done. But they are the first live ones
        of their instance, and the query comes at once.
        """
        at_once = time.monotonic() - self._taken < AT_ONCE
        return self._live == 1 and at_once and self._may_be_for(act)

    def _may_be_for(self, act: WorkflowActivation) -> bool:
        """Whether the last news may have come with this query: the history ends with them."""
        return act.history_length == self._length and any(
            job.query_workflow.query_id == ALONE for job in act.jobs
        )


def brings_news(act: WorkflowActivation) -> bool:
    """Whether an activation has more than queries."""
    return any(job.WhichOneof("variant") not in _NO_NEWS for job in act.jobs)
