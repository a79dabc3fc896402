"""The results of the queries, and of a conversation's exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crewlog.graph import timers
from crewlog.graph.engine import Engine
from crewlog.graph.plan import GraphPlan
from crewlog.graph.run_context import RunContext
from crewlog.ids import AgentName, NodeName, StepId, node_of
from crewlog.model import Json
from crewlog.reporting.drawing.mermaid import mermaid
from crewlog.reporting.live_run.progress import (
    CallsInFlight,
    call_texts,
    call_waiting_reason,
    displayed_status,
    node_statuses,
    waiting_reason,
)
from crewlog.reporting.permission_matrix.builder import (
    agents_in,
    cells,
    plan_tools,
    remote_agents,
)
from crewlog.reporting.wire_views import entry_view, interrupt_view
from crewlog.state.checkpoints import checkpoint_kind
from crewlog.state.frontier import item_agent
from crewlog.state.model import Output
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


def run_view(
    engine: Engine, calls_in_flight: CallsInFlight, drained_steps: Sequence[StepId] = ()
) -> RunView:
    """The result of the query `status`.

    Args:
        engine: The engine of the run.
        calls_in_flight: The calls in flight.
        drained_steps: The steps that the run waits for before it continues as new.
    """
    state = engine.state
    steps = tuple(
        StepView(
            step=step.step,
            node=step.node,
            status=step.status,
            wait_reason=timers.step_wait_text(step),
            deadline=timers.deadline_of(step),
            calls=tuple(call_texts(step, calls_in_flight)),
            failure=call_waiting_reason(step, calls_in_flight),
            agent=item_agent(state, step.step) or "",
        )
        for step in state.frontier.values()
    )
    waiting = waiting_reason(state, calls_in_flight, drained_steps)
    return RunView(
        run=state.run,
        crew=state.crew or engine.plan.crew,
        status=displayed_status(state, waiting),
        graph_version=state.graph_version,
        execution=state.execution,
        position=state.position,
        started_at=state.started_at,
        steps=state.steps,
        frontier=steps,
        completed_steps=state.routing.completed,
        flags={str(k): v for k, v in state.flags.items()},
        interrupts=tuple(state.interrupts),
        wait_reason=waiting,
        is_idle=state.idle is not None,
        merge_status=state.pending_merge.status if state.pending_merge is not None else "",
        usage=state.total_usage,
        error=state.error,
        end_reason=state.end_reason,
    )


def graph_view(engine: Engine) -> GraphView:
    """The result of the query `graph`."""
    statuses = node_statuses(engine.state, engine.plan.nodes)
    return GraphView(
        version=engine.state.graph_version,
        plan=engine.plan.to_json(),
        mermaid=mermaid(engine.plan, statuses),
        statuses=statuses,
    )


def interrupt_views(engine: Engine) -> list[InterruptView]:
    """The result of the query `interrupts`."""
    prompt = engine.prompt
    compiled = prompt.state if prompt.is_active else None
    return [
        interrupt_view(each, compiled, prompt.definition)
        for each in engine.state.interrupts.values()
    ]


def journal_page(engine: Engine, page: Page) -> JournalPage:
    """The result of the query `journal`."""
    journal = engine.journal
    return JournalPage(
        entries=tuple(
            entry_view(position, data) for position, data in journal.page(page.after, page.limit)
        ),
        first=journal.first,
        position=engine.state.position,
        base=engine.state.source.position if engine.state.source else 0,
    )


def checkpoint_page(engine: Engine, page: Page) -> CheckpointPage:
    """The result of the query `checkpoints`."""
    journal = engine.journal
    tags: dict[int, list[str]] = {}
    for tag, position in engine.state.tags.items():
        tags.setdefault(position, []).append(tag)
    found: list[CheckpointView] = []
    agents: dict[str, AgentName] = {}
    for position, data in journal.page(page.after, len(journal.entries)):
        if data["kind"] == "StepStarted" and data.get("agent"):
            agents[data["step"]] = AgentName(data["agent"])
        kind = checkpoint_kind(data["kind"], data.get("source"), data.get("because", ""))
        if kind is None and position in tags:
            kind = "tag"
        if kind is not None and len(found) < page.limit:
            step = StepId(data["step"] if kind == "step" else "")
            name = node_of(step) if step else NodeName("")
            node = engine.plan.nodes.get(name)
            found.append(
                CheckpointView(
                    position=position,
                    kind=kind,
                    step=step,
                    exchange=data.get("exchange", 0) if kind == "exchange" else 0,
                    node=name,
                    agent=agents.get(step) or (node.agent if node is not None else None),
                    at=data.get("at", 0),
                    tags=tuple(sorted(tags.get(position, ()))),
                )
            )
    return CheckpointPage(
        checkpoints=tuple(found), first=journal.first, position=engine.state.position
    )


def permissions_page(engine: Engine, query: PermissionsQuery) -> PermissionsPage:
    """The result of the query `permissions`: no cells as long as the run has no crew."""
    plan, state = engine.plan, engine.state
    found, total = cells(
        RunContext(plan, engine.journal),
        query.agents,
        query.tools,
        after=query.after,
        limit=query.limit,
        checks=query.checks,
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


def exchange_result(engine: Engine, response: Response) -> RunResult:
    """The result of the update `ask`: the run after an exchange."""
    state = engine.state
    outputs: dict[str, Json] = {"text": response.text}
    return RunResult(
        run=state.run,
        status="waiting",
        outputs={response.agent: outputs} if response.agent is not None else {},
        flags={str(k): v for k, v in state.flags.items()},
        steps=state.steps,
        executions=state.execution,
        usage=state.usage,
        total=state.total_usage,
        position=state.position,
        ms=engine.at - state.started_at,
        warning=response.warning,
        end_reason=response.end_reason,
        response=response,
    )


def ordered_outputs(
    outputs: Mapping[AgentName, Mapping[str, Output]], plan: GraphPlan
) -> list[tuple[AgentName, Mapping[str, Output]]]:
    """The outputs by agent, in the order of the final messages; the root of a component is last.

    Args:
        outputs: The outputs by agent.
        plan: The plan of the run.
    """
    root = plan.graph.root if plan.graph is not None else None

    def order(item: tuple[AgentName, Mapping[str, Output]]) -> tuple[bool, int]:
        agent, found = item
        text = found.get("text")
        return agent == root and text is not None, text.position if text is not None else 0

    return sorted(outputs.items(), key=order)
