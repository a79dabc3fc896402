"""A live run as Markdown, for Temporal's web UI.

Texts of models, tools and people are fenced: people decide by what they read here, and a model
writes the arguments of the calls that it asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crewlog.graph import timers
from crewlog.graph.engine import Engine
from crewlog.ids import StepId
from crewlog.reporting.drawing.mermaid import MermaidDrawing
from crewlog.reporting.live_run.progress import (
    CallsInFlight,
    call_texts,
    displayed_status,
    node_statuses,
    waiting_reason,
)
from crewlog.state.excerpt import fenced
from crewlog.state.frontier import step_description
from crewlog.state.model import CrewState, FrontierStep
from crewlog.state.run_merge.protocol import merge_description

CHANGE_LIMIT = 5
"""The number of changes that are listed."""


def run_markdown(
    engine: Engine, calls_in_flight: CallsInFlight, drained_steps: Sequence[StepId] = ()
) -> str:
    """The status of a run, its frontier, its drawing and its last changes.

    Args:
        engine: The engine of the run.
        calls_in_flight: The calls in flight.
        drained_steps: The steps that the run waits for before it continues as new.
    """
    state = engine.state
    waiting = waiting_reason(state, calls_in_flight, drained_steps)
    crew = state.crew or engine.plan.crew or "a prompt"
    version = f"graph v{state.graph_version} · {state.steps} steps"
    if state.conversation is not None:
        version += f" · exchange {state.conversation.exchange}"
    lines = [
        f"**{crew}** · {displayed_status(state, waiting)} · {version}",
        "",
        *(_step_line(engine, step, calls_in_flight) for step in state.frontier.values()),
        *(f"- `{step}` detached: its node was removed" for step in state.detached_steps),
    ]
    if state.pending_change is not None:
        change = state.pending_change
        lines += [
            "",
            f"Changing to graph v{change.graph_version}{_by(change.by)}: {fenced(change.what)}",
        ]
    if state.pending_merge is not None:
        lines += ["", f"Merging: {fenced(merge_description(state.pending_merge))}"]
    if state.surviving_run is not None:
        lines += ["", f"Merged: it continues as part of {fenced(state.surviving_run)}"]
    if waiting:
        lines += ["", f"Waiting: {fenced(waiting)}"]
    drawing = MermaidDrawing(engine.plan).text(node_statuses(state, engine.plan.nodes))
    return "\n".join([*lines, "", "```mermaid", drawing, "```", *_origin_lines(state)])


def _origin_lines(state: CrewState) -> Iterator[str]:
    """The source of a fork, and the changes of the live run, the last one first."""
    if state.source is not None:
        yield ""
        yield f"Forked from {fenced(f'{state.source.run}@{state.source.position}')}"
    for number, change in enumerate(reversed(state.changes[-CHANGE_LIMIT:])):
        if number == 0:
            yield ""
            yield "Changed at run time:"
            yield ""
        version = f"graph v{change.graph_version}"
        yield f"- `@{change.position}` {version}{_by(change.by)}: {fenced(change.what)}"


def _by(principal: str) -> str:
    return f" by {fenced(principal)}" if principal else ""


def _step_line(engine: Engine, step: FrontierStep, calls_in_flight: CallsInFlight) -> str:
    known = step.node in engine.plan.nodes  # a change may have removed it
    name = step_description(engine.state, step.step, engine.agent_of(step.step) if known else None)
    what = ", ".join(call_texts(step, calls_in_flight))
    if not what and (text := timers.step_wait_text(step)):
        what = f"waits {'for ' if step.requirement else ''}{text}"
    detached = " (node removed: its turn ends, and no step follows)" if step.is_detached else ""
    return f"- `{name}` {step.status}{f': {fenced(what)}' if what else ''}{detached}"
