"""What queries, the web UI and search attributes show: pure functions of the engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from crewlog.graph import timers
    from crewlog.graph.engine import Engine
    from crewlog.graph.plan import GraphPlan
    from crewlog.graph.run_context import RunContext
    from crewlog.ids import AgentName, NodeName, StepId, node_of
    from crewlog.model import Json
    from crewlog.reporting.drawing.mermaid import MermaidDrawing, mermaid
    from crewlog.reporting.permission_matrix.builder import (
        agents_in,
        cells,
        plan_tools,
        remote_agents,
    )
    from crewlog.reporting.wire_views import entry_view, interrupt_view
    from crewlog.state.checkpoints import checkpoint_kind
    from crewlog.state.excerpt import fenced, shortened
    from crewlog.state.frontier import item_agent, step_description
    from crewlog.state.model import CrewState, FrontierStep, Output
    from crewlog.state.run_merge.protocol import merge_description
    from crewlog.wire import (
        CheckpointPage,
        CheckpointView,
        GraphView,
        InterruptView,
        JournalPage,
        Page,
        PermissionsPage,
        PermissionsQuery,
        Response,
        RunResult,
        RunView,
        StepView,
    )

DRAINS = (
    "{steps}: nothing else starts until the calls under way have ended, since the history is long"
)
Flights = Mapping[tuple[StepId, int], str]
"""The calls under way, with what each waits for before it is made again; empty: nothing."""
CHANGES_SHOWN = 5
"""Changes of a run that the web UI shows."""
WAITING_LIMIT = 200
"""Characters of the search attribute `CrewlogWaiting`; a server keeps no longer words."""


def run_view(engine: Engine, flights: Flights, drains_for: Sequence[StepId] = ()) -> RunView:
    """Where the run is."""
    state = engine.state
    steps = tuple(
        StepView(
            step=entry.step,
            node=entry.node,
            status=entry.status,
            waits_for=timers.step_wait_text(entry),
            due=timers.deadline_of(entry),
            doing=tuple(_doing(entry, flights)),
            lacks=_wait_reason(entry, flights),
            agent=item_agent(state, entry.step) or "",
        )
        for entry in state.frontier.values()
    )
    waiting = waiting_for(state, flights, drains_for)
    return RunView(
        run=state.run,
        crew=state.crew or engine.plan.crew,
        status=_status(state, waiting),
        graph_version=state.graph_version,
        execution=state.execution,
        position=state.position,
        started=state.started_at,
        steps=state.steps,
        frontier=steps,
        done=state.routing.completed,
        flags={str(k): v for k, v in state.flags.items()},
        interrupts=tuple(state.interrupts),
        waiting_for=waiting,
        rests=state.idle is not None,
        merging=state.pending_merge.status if state.pending_merge is not None else "",
        usage=state.total_usage,
        error=state.error,
        end_reason=state.end_reason,
    )


def ordered_outputs(
    outputs: Mapping[AgentName, Mapping[str, Output]], plan: GraphPlan
) -> list[tuple[AgentName, Mapping[str, Output]]]:
    """The outputs of agents: whoever said something last comes last, and a graph's root behind all.

    Args:
        outputs: The outputs, by agent.
        plan: The run's plan.
    """
    root = plan.graph.root if plan.graph is not None else None

    def order(item: tuple[AgentName, Mapping[str, Output]]) -> tuple[bool, int]:
        agent, found = item
        text = found.get("text")
        return agent == root and text is not None, text.position if text is not None else 0

    return sorted(outputs.items(), key=order)


def replied(engine: Engine, reply: Response) -> RunResult:
    """What a conversation answers who asks it."""
    state = engine.state
    said: dict[str, Json] = {"text": reply.text}
    return RunResult(
        run=state.run,
        status="waiting",
        outputs={reply.agent: said} if reply.agent is not None else {},
        flags={str(k): v for k, v in state.flags.items()},
        steps=state.steps,
        executions=state.execution,
        usage=state.usage,
        total=state.total_usage,
        position=state.position,
        ms=engine.at - state.started_at,
        warning=reply.warning,
        end_reason=reply.end_reason,
        response=reply,
    )


def waiting_for(state: CrewState, flights: Flights, drains_for: Sequence[StepId] = ()) -> str:
    """Why nothing moves, for people; empty where something does, or the run has ended.

    Args:
        state: The run's state.
        flights: The calls under way.
        drains_for: The steps that end before the run continues as new, where nothing else starts.
    """
    if state.is_ended:
        return ""
    if held := timers.pause_text(state):
        return held
    if flights and all(flights.values()):
        return next(iter(flights.values()))
    if flights and drains_for:
        return DRAINS.format(steps=", ".join(drains_for))
    if flights:
        return ""
    return timers.run_wait_text(state)


def statuses(state: CrewState, nodes: Collection[NodeName]) -> dict[NodeName, str]:
    """What to colour each node as; nodes that were never reached are left out.

    Args:
        state: The run's state.
        nodes: The nodes of its graph: a step may go on, or be done, whose node a change took away.
    """
    found = {node: "done" for node, count in state.routing.completed.items() if count}
    for entry in state.frontier.values():
        found[entry.node] = entry.status
    return {node: status for node, status in found.items() if node in nodes}


def graph_view(engine: Engine) -> GraphView:
    """The graph with the state of its nodes."""
    colours = statuses(engine.state, engine.plan.nodes)
    return GraphView(
        version=engine.state.graph_version,
        plan=engine.plan.to_json(),
        mermaid=mermaid(engine.plan, colours),
        statuses=colours,
    )


def interrupt_views(engine: Engine) -> list[InterruptView]:
    """The open interrupts."""
    prompt = engine.prompt
    compiled = prompt.state if prompt.is_active else None
    return [
        interrupt_view(each, compiled, prompt.definition)
        for each in engine.state.interrupts.values()
    ]


def journal_page(engine: Engine, page: Page) -> JournalPage:
    """A part of this execution's journal."""
    ledger = engine.ledger
    return JournalPage(
        entries=tuple(
            entry_view(position, data) for position, data in ledger.page(page.after, page.limit)
        ),
        first=ledger.first,
        position=engine.state.position,
        base=engine.state.source.position if engine.state.source else 0,
    )


def checkpoint_page(engine: Engine, page: Page) -> CheckpointPage:
    """Checkpoints of this execution: its start, and the places after each step."""
    ledger = engine.ledger
    tags: dict[int, list[str]] = {}
    for tag, position in engine.state.tags.items():
        tags.setdefault(position, []).append(tag)
    found: list[CheckpointView] = []
    agents: dict[str, AgentName] = {}
    for position, data in ledger.page(page.after, len(ledger.entries)):
        if data["kind"] == "StepStarted" and data.get("agent"):
            agents[data["step"]] = AgentName(data["agent"])
        kind = checkpoint_kind(data["kind"], data.get("source"), data.get("because", ""))
        if kind is None and position in tags:
            kind = "tag"
        if kind is not None and len(found) < page.limit:
            step = StepId(data["step"] if kind == "step" else "")
            node = node_of(step) if step else NodeName("")
            there = engine.plan.nodes.get(node)
            agent = agents.get(step) or (there.agent if there is not None else None)
            found.append(
                CheckpointView(
                    position=position,
                    kind=kind,
                    step=step,
                    exchange=data.get("exchange", 0) if kind == "turn" else 0,
                    node=node,
                    agent=agent,
                    at=data.get("at", 0),
                    tags=tuple(sorted(tags.get(position, ()))),
                )
            )
    return CheckpointPage(
        checkpoints=tuple(found), first=ledger.first, position=engine.state.position
    )


def permissions_page(engine: Engine, asked: PermissionsQuery) -> PermissionsPage:
    """A part of the matrix of agents and tools; a run that has no crew yet has none."""
    plan, state = engine.plan, engine.state
    found, total = cells(
        RunContext(plan, engine.ledger),
        asked.agents,
        asked.tools,
        after=asked.after,
        limit=asked.limit,
        checks=asked.checks,
    )
    return PermissionsPage(
        run=state.run,
        crew=state.crew or plan.crew,
        graph_version=state.graph_version,
        position=state.position,
        agents=agents_in(plan),
        remote_agents=remote_agents(plan),
        tools=plan_tools(plan),
        cells=found,
        total=total,
    )


def details(engine: Engine, flights: Flights, drains_for: Sequence[StepId] = ()) -> str:
    """The run in Markdown, for the web UI.

    All that is not the run's own words is fenced: people decide by what they read here, and a model
    that asks for a call writes its arguments.
    """
    state = engine.state
    waiting = waiting_for(state, flights, drains_for)
    crew = state.crew or engine.plan.crew or "a prompt"
    version = f"graph v{state.graph_version} · {state.steps} steps"
    if state.conversation is not None:
        version += f" · turn {state.conversation.exchange}"
    lines = [
        f"**{crew}** · {_status(state, waiting)} · {version}",
        "",
        *(_step_line(engine, entry, flights) for entry in state.frontier.values()),
        *(f"- `{step}` kept aside: its node is gone" for step in state.detached_steps),
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
        lines += ["", f"Merged: it goes on as part of {fenced(state.surviving_run)}"]
    if waiting:
        lines += ["", f"Waiting: {fenced(waiting)}"]
    picture = MermaidDrawing(engine.plan).text(statuses(state, engine.plan.nodes))
    return "\n".join([*lines, "", "```mermaid", picture, "```", *_origin_lines(state)])


def _origin_lines(state: CrewState) -> Iterator[str]:
    """What the run came from, and what was changed while it lived: the last changes first."""
    if state.source is not None:
        yield ""
        yield f"Forked from {fenced(f'{state.source.run}@{state.source.position}')}"
    for number, change in enumerate(reversed(state.changes[-CHANGES_SHOWN:])):
        if number == 0:
            yield ""
            yield "Changed at run time:"
            yield ""
        version = f"graph v{change.graph_version}"
        yield f"- `@{change.position}` {version}{_by(change.by)}: {fenced(change.what)}"


def _by(who: str) -> str:
    return f" by {fenced(who)}" if who else ""


def _step_line(engine: Engine, entry: FrontierStep, flights: Flights) -> str:
    known = entry.node in engine.plan.nodes  # a change may have taken it away
    name = step_description(
        engine.state, entry.step, engine.agent_of(entry.step) if known else None
    )
    what = ", ".join(_doing(entry, flights))
    if not what and (text := timers.step_wait_text(entry)):
        what = f"waits {'for ' if entry.requirement else ''}{text}"
    leaves = " (its node is gone: its turn ends, nothing follows)" if entry.is_detached else ""
    return f"- `{name}` {entry.status}{f': {fenced(what)}' if what else ''}{leaves}"


def _doing(entry: FrontierStep, flights: Flights) -> Iterator[str]:
    for call in entry.turn.calls if entry.turn else ():
        if (why := flights.get((entry.step, call.call))) is not None:
            what = f"{call.tool} {call.excerpt}".strip() if call.tool else "model"
            yield f"{what}: {why}" if why else what


def _wait_reason(entry: FrontierStep, flights: Flights) -> str:
    """What the first of its calls waits for that waits for a worker."""
    calls = entry.turn.calls if entry.turn else ()
    return next(filter(None, (flights.get((entry.step, call.call)) for call in calls)), "")


def _status(state: CrewState, waiting: str) -> str:
    return "waiting" if waiting and state.status == "running" else state.status


def phase(state: CrewState) -> str:
    """The nodes at work, for search."""
    return ",".join(dict.fromkeys(str(e.node) for e in state.frontier.values()))[:200]


def attributes(
    plan: GraphPlan,
    state: CrewState,
    flights: Flights,
    *,
    drains_for: Sequence[StepId] = (),
    quiet: bool = False,
) -> dict[str, Any]:
    """The search attributes' values.

    Args:
        plan: The plan.
        state: The state.
        flights: The calls under way.
        drains_for: What ends before the run continues as new.
        quiet: Whether they say nothing of what the run is about: nobody encrypts them.
    """
    waiting = waiting_for(state, flights, drains_for)
    shown = ", ".join(state.interrupts) or "work" if quiet and waiting else waiting
    return {
        "CrewlogCrew": plan.crew,
        "CrewlogPhase": phase(state),
        "CrewlogStatus": _status(state, waiting),
        "CrewlogWaiting": shortened(shown, WAITING_LIMIT),
    }
