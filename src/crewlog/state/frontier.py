"""The frontier: queued steps, parent and child steps, and failed steps."""

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
)
from crewlog.state.reducers import element_position, output_with_value


def with_queued_steps(
    frontier: Mapping[StepId, FrontierStep], position: int, *, only: NodeName | None = None
) -> dict[StepId, FrontierStep]:
    """The frontier with one active step per node, and the others queued behind it.

    Most frontiers are like that already. A reattached step may find another one at its node, and a
    step that is removed without an end leaves the one queued behind it.
    """
    after = dict(frontier)
    steps = [each for each in frontier.values() if not each.parent and only in (None, each.node)]
    # A timer keeps running: its step has started, and waits for nothing else.
    with_timer = {
        each.step
        for each in steps
        if each.status == "waiting" and each.deadline and not each.requirement
    }
    busy_nodes = {
        each.node
        for each in steps
        if each.status in ("running", "interrupted") or each.step in with_timer
    }
    for step in sorted(steps, key=lambda each: each.status == "queued"):
        if step.status not in ("ready", "waiting", "queued") or step.step in with_timer:
            continue
        status = "waiting" if step.requirement else "ready"
        if step.node in busy_nodes:
            status = "queued"
        busy_nodes.add(step.node)
        if status != step.status:
            changes = {"status": status, "since": position, "reached": position}
            after[step.step] = step.model_copy(update=changes)
    return after


ERROR = "error"
"""The output with the error of an agent's failed step."""
LONGEST_ERROR = 200
"""Characters of such an error: it is an output that conditions read."""


def find_step(state: CrewState, step: StepId) -> FrontierStep | None:
    """A step that is not done, also a detached one; none for any other id."""
    return state.frontier.get(step) or state.detached_steps.get(step)


def parent_of(
    steps: Mapping[StepId, FrontierStep], child: FrontierStep | None
) -> FrontierStep | None:
    """The parent step of a child step, among some steps; none if it has none."""
    return steps.get(child.parent) if child is not None and child.parent is not None else None


def child_steps_of(
    steps: Mapping[StepId, FrontierStep], parent: StepId
) -> dict[StepId, FrontierStep]:
    """The child steps of a parent step, among some steps."""
    return {step: entry for step, entry in steps.items() if entry.parent == parent}


def item_agent(state: CrewState, step: StepId) -> AgentName | None:
    """The agent that the item of a child step names.

    None if the item names no agent, and for any other step.
    """
    step_ = find_step(state, step)
    if step_ is None or step_.parent is None:
        return None
    parent = find_step(state, step_.parent)
    if parent is None or parent.child_steps is None:
        return None
    return parent.child_steps.agent(step_.item)


def step_description(state: CrewState, step: StepId, agent: AgentName | None) -> str:
    """A step for people: `writer#2`, or `workers#1.3 (writer, item 3 of 5)`.

    Args:
        state: The run's state.
        step: The step.
        agent: Its agent, which is named if the node has another name.
    """
    entry = find_step(state, step)
    node = entry.node if entry is not None else ""
    details = [str(agent)] if agent and str(agent) != node else []
    parent = find_step(state, entry.parent) if entry is not None and entry.parent else None
    if entry is not None and parent is not None and parent.child_steps is not None:
        details.append(f"item {entry.item} of {parent.child_steps.of}")
    return f"{step} ({', '.join(details)})" if details else str(step)


def items_description(progress: ChildStepProgress) -> str:
    """The progress of a parent step: `4 of 12 items are done, 1 of them failed`."""
    failed = f", {progress.failed} of them failed" if progress.failed else ""
    return f"{progress.done} of {progress.of} items are done{failed}"


def child_step_started(progress: ChildStepProgress, number: int) -> dict[str, Any]:
    """What changes in the progress of a parent step when the child step of an item starts."""
    if not progress.after:
        return {"started": number}  # in the order of the list
    unstarted = tuple(each for each in progress.unstarted if each != number)
    return {"started": progress.started + 1, "unstarted": unstarted}


def failed_step_changes(
    state: CrewState, entry: StepFailed, position: int, frontier: Mapping[StepId, FrontierStep]
) -> dict[str, Any]:
    """What changes when a run continues without a failed step.

    Args:
        state: The state before the failure.
        entry: The failure; without an agent, it leads to an interrupt or ends the run.
        position: Its position.
        frontier: The frontier after it.
    """
    if entry.agent is None:
        return {}
    error = excerpt(entry.error, LONGEST_ERROR)
    outputs = state.agent_outputs.get(entry.agent, {})
    parent = parent_of(frontier, frontier.get(entry.step))
    if parent is not None:
        element_at = element_position(state, entry.step, position)
        element = ListElement(value=error, position=element_at, logs=entry.logs)
        output = output_with_value(outputs.get(ERROR), element, position)
    else:
        output = Output(value=error, position=position, logs=entry.logs)
    changes: dict[str, Any] = {
        "agent_outputs": {**state.agent_outputs, entry.agent: {**outputs, ERROR: output}},
    }
    if parent is not None and parent.child_steps is not None:
        progress = parent.child_steps.model_copy(update={"failed": parent.child_steps.failed + 1})
        changes["frontier"] = {
            **frontier,
            parent.step: parent.model_copy(update={"child_steps": progress}),
        }
    return changes
