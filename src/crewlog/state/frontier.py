"""Items of a visit that wait for each other, and errors that a run goes on without.

Which visit of a node is under way, and which wait behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewlog.ids import AgentName, NodeName, StepId
from crewlog.state.excerpt import excerpt
from crewlog.state.journal import StepFailed
from crewlog.state.model import (
    ChildStepProgress,
    CrewState,
    FrontierStep,
    ListElement,
    Output,
    StepError,
)
from crewlog.state.reducers import element_position, output_with_value


def with_queued_steps(
    frontier: Mapping[StepId, FrontierStep], position: int, *, only: NodeName | None = None
) -> dict[StepId, FrontierStep]:
    """The frontier with one visit of each node under way, and the others queued behind it.

    Only a change of the graph can make two of one: a visit that comes back may find another. And
    only where a visit is gone without an end can one be queued behind none.
    """
    after = dict(frontier)
    visits = [e for e in frontier.values() if not e.parent and only in (None, e.node)]
    # A timer that is set goes on: its visit has begun, and waits for nothing else.
    timed = {e.step for e in visits if e.status == "waiting" and e.deadline and not e.requirement}
    active = {e.node for e in visits if e.status in ("running", "interrupted") or e.step in timed}
    for entry in sorted(visits, key=lambda e: e.status == "queued"):
        if entry.status not in ("ready", "waiting", "queued") or entry.step in timed:
            continue
        status = "waiting" if entry.requirement else "ready"
        if entry.node in active:
            status = "queued"
        active.add(entry.node)
        if status != entry.status:
            changes = {"status": status, "since": position, "reached": position}
            after[entry.step] = entry.model_copy(update=changes)
    return after


ERROR = "error"
"""The output of an agent that has the error of a step that the run goes on without."""
ERRORS_KEPT = 20
"""Errors that the state tells of, at most; the journal has them all."""
LONGEST_ERROR = 200
"""Characters of such an error: it is an output that conditions look at."""


def find_step(state: CrewState, step: StepId) -> FrontierStep | None:
    """A step that is not done, also one whose node was removed; none for any other id."""
    return state.frontier.get(step) or state.detached_steps.get(step)


def parent_of(
    steps: Mapping[StepId, FrontierStep], child: FrontierStep | None
) -> FrontierStep | None:
    """The parent step of a child step, among some steps; none where it has none."""
    return steps.get(child.parent) if child is not None and child.parent is not None else None


def child_steps_of(
    steps: Mapping[StepId, FrontierStep], parent: StepId
) -> dict[StepId, FrontierStep]:
    """The child steps of a parent step, among some steps."""
    return {step: entry for step, entry in steps.items() if entry.parent == parent}


def item_agent(state: CrewState, step: StepId) -> AgentName | None:
    """The agent that the item of a child step names.

    None where the item names no agent, and for any other step.
    """
    child = find_step(state, step)
    if child is None or child.parent is None:
        return None
    parent = find_step(state, child.parent)
    if parent is None or parent.child_steps is None:
        return None
    return parent.child_steps.agent(child.item)


def step_description(state: CrewState, step: StepId, agent: AgentName | None) -> str:
    """A step for people: `writer#2`, or `workers#1.3 (writer, item 3 of 5)`.

    Args:
        state: The run's state.
        step: The step.
        agent: Whose it is; it is said where the step has another name.
    """
    found = find_step(state, step)
    node = found.node if found is not None else ""
    details = [str(agent)] if agent and str(agent) != node else []
    parent = find_step(state, found.parent) if found is not None and found.parent else None
    if found is not None and parent is not None and parent.child_steps is not None:
        details.append(f"item {found.item} of {parent.child_steps.of}")
    return f"{step} ({', '.join(details)})" if details else str(step)


def items_description(mapped: ChildStepProgress) -> str:
    """How far a visit is with its items, for people: `4 of 12 items are done, 1 of them failed`."""
    failed = f", {mapped.failed} of them failed" if mapped.failed else ""
    return f"{mapped.done} of {mapped.of} items are done{failed}"


def child_step_started(progress: ChildStepProgress, number: int) -> dict[str, Any]:
    """What changes in the progress of a parent step when the child step of an item starts."""
    if not progress.after:
        return {"started": number}  # in the order of the list
    left = tuple(each for each in progress.unstarted if each != number)
    return {"started": progress.started + 1, "unstarted": left}


def failed_step_changes(
    state: CrewState, entry: StepFailed, position: int, frontier: Mapping[StepId, FrontierStep]
) -> dict[str, Any]:
    """What changes where a run goes on without a step that failed.

    Args:
        state: The run before it.
        entry: The failure; one whose agent it does not name is asked about, or ends the run.
        position: Its position.
        frontier: The steps as they are after it.
    """
    if entry.agent is None:
        return {}
    error = excerpt(entry.error, LONGEST_ERROR)
    there = state.agent_outputs.get(entry.agent, {})
    parent = parent_of(frontier, frontier.get(entry.step))
    if parent is not None:
        place = element_position(state, entry.step, position)
        part = ListElement(value=error, position=place, logs=entry.logs)
        output = output_with_value(there.get(ERROR), part, position)
    else:
        output = Output(value=error, position=position, logs=entry.logs)
    told = StepError(step=entry.step, agent=entry.agent, error=error, position=position)
    changes: dict[str, Any] = {
        "agent_outputs": {**state.agent_outputs, entry.agent: {**there, ERROR: output}},
        "errors": (*state.errors, told)[-ERRORS_KEPT:],
    }
    if parent is not None and parent.child_steps is not None:
        mapped = parent.child_steps.model_copy(update={"failed": parent.child_steps.failed + 1})
        changes["frontier"] = {
            **frontier,
            parent.step: parent.model_copy(update={"child_steps": mapped}),
        }
    return changes
