"""What a live run does and what it waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from crewlog.graph import timers
from crewlog.graph.plan import GraphPlan
from crewlog.ids import NodeName, StepId
from crewlog.run_status import RunStatus
from crewlog.state.excerpt import shortened
from crewlog.state.model import CrewState, FrontierStep

DRAINS = (
    "{steps}: nothing else starts until the calls under way have ended, since the history is long"
)
CallsInFlight = Mapping[tuple[StepId, int], str]
"""By step and number of the call: what a call waits for before its next attempt; empty: nothing."""
WAITING_LIMIT = 200
"""Characters of the search attribute `CrewlogWaiting`; a server keeps no longer keyword."""
PHASE_LIMIT = 200
"""Characters of the search attribute `CrewlogPhase`."""


def waiting_reason(
    state: CrewState, calls_in_flight: CallsInFlight, drained_steps: Sequence[StepId] = ()
) -> str:
    """Why the run makes no progress, for people; empty if it does, or has ended.

    Args:
        state: The state of the run.
        calls_in_flight: The calls in flight.
        drained_steps: The steps that the run waits for before it continues as new.
    """
    if state.is_ended:
        return ""
    if paused := timers.pause_text(state):
        return paused
    if calls_in_flight and all(calls_in_flight.values()):
        return next(iter(calls_in_flight.values()))
    if calls_in_flight and drained_steps:
        return DRAINS.format(steps=", ".join(drained_steps))
    if calls_in_flight:
        return ""
    return timers.run_wait_text(state)


def displayed_status(state: CrewState, waiting: str) -> RunStatus:
    """The status of a run: `waiting` if it is running and has a reason to wait."""
    return "waiting" if waiting and state.status == "running" else state.status


def node_statuses(state: CrewState, nodes: Collection[NodeName]) -> dict[NodeName, str]:
    """The status of each node that has a step or had one.

    Args:
        state: The state of the run.
        nodes: The nodes of its graph. The state may have steps of nodes that a change removed.
    """
    found = {node: "done" for node, count in state.routing.completed.items() if count}
    for step in state.frontier.values():
        found[step.node] = step.status
    return {node: status for node, status in found.items() if node in nodes}


def call_texts(step: FrontierStep, calls_in_flight: CallsInFlight) -> Iterator[str]:
    """The calls in flight of a step, each with what it waits for: `read a.txt: a worker`."""
    for call in step.turn.calls if step.turn else ():
        if (reason := calls_in_flight.get((step.step, call.call))) is not None:
            what = f"{call.tool} {call.excerpt}".strip() if call.tool else "model"
            yield f"{what}: {reason}" if reason else what


def call_waiting_reason(step: FrontierStep, calls_in_flight: CallsInFlight) -> str:
    """What the first call of a step that waits waits for; empty if none waits."""
    calls = step.turn.calls if step.turn else ()
    reasons = (calls_in_flight.get((step.step, call.call)) for call in calls)
    return next(filter(None, reasons), "")


def search_attributes(
    plan: GraphPlan,
    state: CrewState,
    calls_in_flight: CallsInFlight,
    *,
    drained_steps: Sequence[StepId] = (),
    quiet: bool = False,
) -> dict[str, Any]:
    """The values of the search attributes.

    Args:
        plan: The plan of the run.
        state: The state of the run.
        calls_in_flight: The calls in flight.
        drained_steps: The steps that the run waits for before it continues as new.
        quiet: Whether to leave out content of the run: search attributes are not encrypted.
    """
    waiting = waiting_reason(state, calls_in_flight, drained_steps)
    text = ", ".join(state.interrupts) or "work" if quiet and waiting else waiting
    nodes = dict.fromkeys(str(step.node) for step in state.frontier.values())
    return {
        "CrewlogCrew": plan.crew,
        "CrewlogPhase": ",".join(nodes)[:PHASE_LIMIT],
        "CrewlogStatus": displayed_status(state, waiting),
        "CrewlogWaiting": shortened(text, WAITING_LIMIT),
    }
