"""How far an instance of a workflow is, and whether it has gone ahead of its history.

A query that comes by itself brings the history as it is: with what no workflow task has taken yet,
or what one has whose worker died. The SDK makes an instance for the query, which takes that. Were
it kept, it would have learned at one time, and perhaps in two steps, of what a replay tells it at
another, and in one: commands in an order that no replay can make, and a journal that comes out
otherwise than it is stored (docs/decisions/0053).

    is_early        at a query: it has gone ahead; it is evicted, once it has answered
    may_be_early    the same, as far as one can see
    ahead_of        at news: it has, since the history lacks what it made; it fails the task
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from temporalio.bridge.proto.workflow_activation import (
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion

ALONE = "legacy_query"
"""The id of a query that comes without a workflow task: its answer completes none."""

AHEAD = "a query had these events' task begun before it was whole: the task is done again"
"""Why a task fails whose instance has gone ahead of it, for a query."""

AT_ONCE = 0.2
"""Seconds in which a query follows the task that was begun for it. A query that follows a task that
is done comes later, by at least what it takes to tell the server and to hear from it."""

_NO_NEWS = frozenset({"query_workflow", "remove_from_cache"})

_LEFT = frozenset(
    {
        "modify_workflow_properties",
        "request_cancel_external_workflow_execution",
        "schedule_activity",
        "set_patch_marker",
        "signal_external_workflow_execution",
        "start_child_workflow_execution",
        "start_timer",
        "update_response accepted",
        "update_response completed",
        "upsert_workflow_search_attributes",
    }
)
"""The commands that leave an event each; any other may leave none."""

_CALLED_OFF = {
    "cancel_child_workflow_execution": "start_child_workflow_execution",
    "cancel_timer": "start_timer",
    "request_cancel_activity": "schedule_activity",
}
"""Commands that, in one task with what they cancel, leave no event of that."""

_TOLD = frozenset(
    {
        "cancel_workflow",
        "fire_timer",
        "resolve_child_workflow_execution",
        "resolve_child_workflow_execution_start",
        "resolve_request_cancel_external_workflow",
        "resolve_signal_external_workflow",
        "signal_workflow",
    }
)
"""The news that tell of an event each; those of activities: `_told`."""

_OF_A_TASK = 3
"""The events from one task's start to the next one's, besides: completed, scheduled, started."""


class Progress:
    """What an instance has taken of its history, and made since."""

    def __init__(self) -> None:
        self._length = 0
        """How long the history was at the last news."""
        self._time = 0
        """When the task of them began, by the server, in nanoseconds."""
        self._early = False
        """Whether they came before their task: then it has the time of the one before."""
        self._made: list[str] = []
        """The commands since, with the sequence numbers of what can be called off."""
        self._asked = False
        """Whether a query came by itself since."""
        self._new = 0
        """How many tasks were taken that are not replayed."""
        self._taken = 0.0
        """When the last one of them was, by the monotonic clock."""

    def note(self, act: WorkflowActivation, completion: WorkflowActivationCompletion) -> None:
        """Notes what an activation brought, and what was made of it."""
        if not brings_news(act):
            self._asked |= is_asked_alone(act)
            return
        if act.history_length != self._length:
            began = act.timestamp.ToNanoseconds()
            self._early = 0 < began == self._time
            self._length, self._time = act.history_length, began
            self._made, self._asked = [], False
            self._new += not act.is_replaying
        self._taken = time.monotonic()
        self._made += map(_named, completion.successful.commands)

    @property
    def is_early(self) -> bool:
        """Whether the last news came before their task: they were taken for a query."""
        return self._early

    def may_be_early(self) -> bool:
        """Whether they may have been taken for the query that the instance is asked now.

        Where a task began at a worker that died, it looks as if this one had done it. But then it
        is the first that the instance takes, and the query comes at once.
        """
        return self._new == 1 and time.monotonic() - self._taken < AT_ONCE

    def ahead_of(self, act: WorkflowActivation) -> bool:
        """Whether an activation brings news to an instance that has gone ahead of the history.

        A task that has been completed has left its own events: where the history is too short for
        them, it has not been.
        """
        if not self._asked or act.history_length <= self._length or not brings_news(act):
            return False
        told = sum(map(_told, act.jobs))
        return act.history_length < self._length + len(_lasting(self._made)) + told + _OF_A_TASK


def brings_news(act: WorkflowActivation) -> bool:
    """Whether an activation has more than queries."""
    return any(job.WhichOneof("variant") not in _NO_NEWS for job in act.jobs)


def is_asked_alone(act: WorkflowActivation) -> bool:
    """Whether an activation has a query that comes by itself."""
    return any(
        job.HasField("query_workflow") and job.query_workflow.query_id == ALONE for job in act.jobs
    )


def _named(command: WorkflowCommand) -> str:
    """What a command is called, with the number of what it begins or calls off."""
    kind = str(command.WhichOneof("variant"))
    if kind == "cancel_child_workflow_execution":
        return f"{kind} {command.cancel_child_workflow_execution.child_workflow_seq}"
    if kind in _CALLED_OFF or kind in _CALLED_OFF.values():
        return f"{kind} {getattr(command, kind).seq}"
    if kind == "update_response":
        return f"{kind} {command.update_response.WhichOneof('response')}"
    return kind


def _lasting(made: Sequence[str]) -> list[str]:
    """Those of the commands that have left an event for certain."""
    lasting: list[str] = []
    for each in made:
        kind, _, number = each.partition(" ")
        if kind in _CALLED_OFF and (begun := f"{_CALLED_OFF[kind]} {number}") in lasting:
            lasting.remove(begun)
        elif kind in _LEFT or each in _LEFT:
            lasting.append(each)
    return lasting


def _told(job: WorkflowActivationJob) -> int:
    """How many events a job tells of, at the least."""
    kind = str(job.WhichOneof("variant"))
    if kind != "resolve_activity":
        return int(kind in _TOLD)
    result = job.resolve_activity.result
    if job.resolve_activity.is_local or result.HasField("cancelled"):
        return 0  # one that was cancelled may have no event at all
    # That it began is written with its end.
    failed = result.failed.failure.activity_failure_info
    return 1 if result.HasField("failed") and not failed.started_event_id else 2
