"""What became of the activities of an execution, by its events: pure, without a server."""

from __future__ import annotations

from collections.abc import Iterable

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from crewlog.errors import PermissionsChanged

_FAILURES = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "activity_task_failed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: "activity_task_timed_out_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: "activity_task_canceled_event_attributes",
}
_ANSWERS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "activity_task_completed_event_attributes",
    **_FAILURES,
}
_CLOSES = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
}


def unanswered(events: Iterable[HistoryEvent]) -> set[str]:
    """The ids of activities without an outcome; none where the execution ended without it."""
    open_: dict[int, str] = {}
    for event in events:
        if event.event_type in _CLOSES:
            return set()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            open_[event.event_id] = scheduled.activity_id
        elif (name := _ANSWERS.get(event.event_type)) is not None:
            open_.pop(getattr(event, name).scheduled_event_id, None)
    return set(open_.values())


def completed(events: Iterable[HistoryEvent]) -> set[str]:
    """The ids of activities that have a result."""
    ids: dict[int, str] = {}
    found: set[str] = set()
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            ids[event.event_id] = scheduled.activity_id
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            done = event.activity_task_completed_event_attributes
            found.add(ids.get(done.scheduled_event_id, ""))
    return found


def uncertain(events: Iterable[HistoryEvent]) -> dict[str, int]:
    """The activities that ended without a result and may have begun: their ids, and when that was.

    The server tells that one began only when it ends; of one that was open when the execution
    ended nobody knows.
    """
    open_: dict[int, str] = {}
    attempts: dict[int, int] = {}
    found: dict[str, int] = {}
    for event in events:
        at = event.event_time.ToMilliseconds()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            open_[event.event_id] = scheduled.activity_id
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            started = event.activity_task_started_event_attributes
            attempts[started.scheduled_event_id] = started.attempt
        elif (name := _ANSWERS.get(event.event_type)) is not None:
            number = getattr(event, name).scheduled_event_id
            activity, attempt = open_.pop(number, ""), attempts.get(number, 0)
            if activity and event.event_type in _FAILURES and attempt > _looks(event):
                found[activity] = at
        elif event.event_type in _CLOSES:
            found |= dict.fromkeys(open_.values(), at)
    return found


def _looks(event: HistoryEvent) -> int:
    """How many tries of an activity are known to have done nothing: one that met a ruling."""
    failure = event.activity_task_failed_event_attributes.failure
    return int(failure.application_failure_info.type == PermissionsChanged.__name__)
