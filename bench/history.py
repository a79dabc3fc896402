"""What a run cost, read from its history: time, events and bytes between its first and last step.

From the event that schedules the first step to the one that schedules the last, divided by the
number of steps less one: so many whole steps lie between them. What a run costs once, to be opened
and to end, is not in it. A run of several executions counts as one sequence of events: what
continuing as new takes is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle

from crewlog.state.calls import CALL_MODEL

_SCHEDULED = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
_COMPLETED = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
_CONTINUED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW

IsStep = Callable[[str], bool]
"""Whether an activity of that name is a step."""
IS_STEP: dict[str, IsStep] = {
    "engine": lambda name: name == CALL_MODEL,
    "bare": lambda name: name == "say",
    "tuned": lambda name: name == "say",
    "plugin": lambda name: name.startswith("ring."),
}


@dataclass(frozen=True)
class StepCost:
    """What one step cost, on average over a run."""

    ms: float
    events: float
    bytes: float
    steps: int
    """How many steps the run had."""


class Connected(Protocol):
    """What has a client of the server on which runs are."""

    @property
    def temporal(self) -> Client:
        """The client."""
        ...


async def is_idle(site: Connected, id: str) -> bool:
    """Whether a run has no activity and no workflow task pending."""
    found = (await site.temporal.get_workflow_handle(id).describe()).raw_description
    return not found.pending_activities and not found.HasField("pending_workflow_task")


async def events_of(site: Connected, handle: WorkflowHandle[Any, Any]) -> list[HistoryEvent]:
    """The events of all executions of a run, in order."""
    executions = await executions_of(site, handle)
    return [event for execution in executions for event in execution]


async def executions_of(
    site: Connected, handle: WorkflowHandle[Any, Any]
) -> list[list[HistoryEvent]]:
    """The events of each execution of a run, in order."""
    found: list[list[HistoryEvent]] = []
    execution = handle.first_execution_run_id or await _first_execution(handle)
    while execution:
        one = site.temporal.get_workflow_handle(handle.id, run_id=execution)
        found.append([event async for event in one.fetch_history_events(page_size=1000)])
        last = found[-1][-1]
        attributes = last.workflow_execution_continued_as_new_event_attributes
        execution = attributes.new_execution_run_id if last.event_type == _CONTINUED else ""
    return found


async def _first_execution(handle: WorkflowHandle[Any, Any]) -> str:
    described = await handle.describe()
    return described.raw_description.workflow_execution_info.first_run_id


def step_cost(events: Sequence[HistoryEvent], is_step: IsStep, steps: int) -> StepCost:
    """What a step of a run cost.

    Raises:
        AssertionError: the run did not have as many steps.
    """
    at = scheduled(events, is_step)
    assert len(at) == steps, f"{len(at)} steps, not {steps}"
    between = events[at[0] : at[-1]]
    whole = steps - 1
    return StepCost(
        ms=ms_between(events[at[0]], events[at[-1]]) / whole,
        events=len(between) / whole,
        bytes=sum(event.ByteSize() for event in between) / whole,
        steps=steps,
    )


def scheduled(events: Sequence[HistoryEvent], is_step: IsStep) -> list[int]:
    """Where steps are scheduled."""
    return [
        index
        for index, event in enumerate(events)
        if event.event_type == _SCHEDULED
        and is_step(event.activity_task_scheduled_event_attributes.activity_type.name)
    ]


def makespan_ms(events: Sequence[HistoryEvent], is_step: IsStep) -> float:
    """From where the first step is scheduled to where the last one is completed."""
    marks = _marks(events, is_step)
    return ms_between(marks[0][1], marks[-1][1])


def gaps_ms(events: Sequence[HistoryEvent], is_step: IsStep) -> list[float]:
    """For steps one after the other: from each one's completion until the next is scheduled."""
    return [
        ms_between(before, after)
        for (began, before), (begins, after) in pairwise(_marks(events, is_step))
        if begins and not began
    ]


def _marks(events: Sequence[HistoryEvent], is_step: IsStep) -> list[tuple[bool, HistoryEvent]]:
    """Where steps are scheduled (true) and completed (false), of one execution."""
    ids: set[int] = set()
    marks: list[tuple[bool, HistoryEvent]] = []
    for event in events:
        if event.event_type == _SCHEDULED:
            if is_step(event.activity_task_scheduled_event_attributes.activity_type.name):
                ids.add(event.event_id)
                marks.append((True, event))
        elif (
            event.event_type == _COMPLETED
            and event.activity_task_completed_event_attributes.scheduled_event_id in ids
        ):
            marks.append((False, event))
    return marks


def ms_between(before: HistoryEvent, after: HistoryEvent) -> float:
    """Milliseconds from one event to another."""
    return (after.event_time.ToNanoseconds() - before.event_time.ToNanoseconds()) / 1e6
