"""Items of a visit that wait for each other, and errors that a run goes on without.

Which visit of a node is under way, and which wait behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewlog.ids import AgentName, NodeName, StepId, item_number, node_of, visit_of
from crewlog.state.excerpt import brief
from crewlog.state.journal import StepFailed
from crewlog.state.model import ChildStepProgress, CrewState, FrontierStep, Output, Part, StepError
from crewlog.state.reducers import output_with_value, place_of


def queued(
    frontier: Mapping[StepId, FrontierStep], position: int, *, only: NodeName | None = None
) -> dict[StepId, FrontierStep]:
    """The frontier with one visit of each node under way, and the others queued behind it.

    Only a change of the graph can make two of one: a visit that comes back may find another. And
    only where a visit is gone without an end can one be queued behind none.
    """
    after = dict(frontier)
    visits = [e for e in frontier.values() if not item_number(e.step) and only in (None, e.node)]
    # A timer that is set goes on: its visit has begun, and waits for nothing else.
    timed = {e.step for e in visits if e.status == "waiting" and e.due and not e.requirement}
    active = {e.node for e in visits if e.status in ("running", "asking") or e.step in timed}
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


def item_agent(state: CrewState, step: StepId) -> AgentName | None:
    """The agent that the item of a step names; none where it names none, or there is no item."""
    number = item_number(step)
    if not number:
        return None
    visit = visit_of(step)
    found = state.frontier.get(visit) or state.parked.get(visit)
    return found.mapped.agent(number) if found is not None and found.mapped is not None else None


def step_description(state: CrewState, step: StepId, agent: AgentName | None) -> str:
    """A step for people: `writer#2`, or `workers#1.3 (writer, item 3 of 5)`.

    Args:
        state: The run's state.
        step: The step.
        agent: Whose it is; it is said where the step has another name.
    """
    said = [str(agent)] if agent and str(agent) != str(node_of(step)) else []
    visit = state.frontier.get(visit_of(step)) or state.parked.get(visit_of(step))
    if (number := item_number(step)) and visit is not None and visit.mapped is not None:
        said.append(f"item {number} of {visit.mapped.of}")
    return f"{step} ({', '.join(said)})" if said else str(step)


def items_description(mapped: ChildStepProgress) -> str:
    """How far a visit is with its items, for people: `4 of 12 items are done, 1 of them failed`."""
    failed = f", {mapped.failed} of them failed" if mapped.failed else ""
    return f"{mapped.done} of {mapped.of} items are done{failed}"


def child_step_started(state: CrewState, step: StepId, number: int) -> dict[str, Any]:
    """What changes in the position of a visit's items where one of them begins."""
    visit = state.frontier.get(visit_of(step))
    if visit is None or visit.mapped is None or not visit.mapped.after:
        return {"started": number}  # in the order of the list
    left = tuple(each for each in visit.mapped.left if each != number)
    return {"started": visit.mapped.started + 1, "left": left}


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
    error = brief(entry.error, LONGEST_ERROR)
    there = state.agent_outputs.get(entry.agent, {})
    number = item_number(entry.step)
    if number:
        place = place_of(state, entry.step, position)
        part = Part(value=error, place=place, logs=entry.logs)
        output = output_with_value(there.get(ERROR), part, position)
    else:
        output = Output(value=error, position=position, logs=entry.logs)
    told = StepError(step=entry.step, agent=entry.agent, error=error, position=position)
    changes: dict[str, Any] = {
        "agent_outputs": {**state.agent_outputs, entry.agent: {**there, ERROR: output}},
        "errors": (*state.errors, told)[-ERRORS_KEPT:],
    }
    visit = frontier.get(visit_of(entry.step))
    if number and visit is not None and visit.mapped is not None:
        mapped = visit.mapped.model_copy(update={"failed": visit.mapped.failed + 1})
        changes["frontier"] = {
            **frontier,
            visit.step: visit.model_copy(update={"mapped": mapped}),
        }
    return changes
