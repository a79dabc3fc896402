"""Changing a run while it lives: considering a change, accepting it, and swapping the graph.

    consider ──► accept ──(rules only)──► DefinitionChanged: in force at once
                   └──(another graph)──► ChangeAccepted ──(drained)──► swap ──► GraphSwapped
                                                                         └──► SwapFailed

Between `accept_change` and `swap` the run drains: nothing starts, and calls in flight are applied.
So the report is computed twice: when the change is requested, and when the run has drained. A swap
records nothing before all of its entries are known to fit: one that fails leaves the run as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from crewlog.authority.widening import regained_permissions
from crewlog.canonical_json import hash_json
from crewlog.errors import ChangeConflict, CommandRejected, InternalError
from crewlog.graph.budgets import DIVIDED, divided_budgets, has_divisible_limits
from crewlog.graph.engine import Engine
from crewlog.graph.plan import GraphPlan
from crewlog.graph.swap.report import (
    StepRemap,
    SwapReport,
    check_wake_nodes,
    is_same_flow,
    permissions_after,
    swap_report,
    with_detached_steps,
)
from crewlog.graph.wakes import component_events
from crewlog.ids import CommandId, ContentHash, FlagName, NodeName, RunId, StepId
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.calls import PrepareChangeResult, PreparedSplitRun
from crewlog.state.components import Component, ComponentChange, change_of_components
from crewlog.state.fold import fold
from crewlog.state.model import CrewState, PendingChange
from crewlog.state.run_merge.protocol import check_no_merge
from crewlog.state.split import RemainingBudget


def change_report(
    engine: Engine,
    prepared: PrepareChangeResult,
    *,
    graph_version: int | None = None,
    expect: str = "",
    abandon: bool = False,
) -> tuple[SwapReport, GraphPlan]:
    """What a change would do to a run as it is now, and the plan that it leads to.

    Args:
        engine: The run.
        prepared: What the change leads to.
        graph_version: The version that it was made against; none: any.
        expect: The hash of the definition that must come out; empty: any.
        abandon: Whether steps in mid-turn whose nodes go are cut off.

    Raises:
        ChangeConflict: where the run is another one than the change was made for, or is about to
            be one with another run.
        CommandRejected: turns or phases would be lost by it.
    """
    state = engine.state
    pending = state.pending_change
    if pending is not None:
        raise ChangeConflict(
            f"another change is under way: {pending.what or pending.command}",
            remedy=f"The run goes on with graph version {pending.graph_version} as soon as "
            "what is under way has ended. Look at it then, and decide anew.",
        )
    check_no_merge(state)
    if graph_version is not None and graph_version != state.graph_version:
        raise ChangeConflict(
            f"the change was made against graph version {graph_version}, and the run has "
            f"{state.graph_version}",
            remedy="Look at the graph as it is now, and decide anew.",
        )
    plan = GraphPlan.from_json(prepared.plan)
    if prepared.base and prepared.base != state.definition:
        raise ChangeConflict(
            "the crew was changed while this change was being made",
            remedy="Look at the crew as it is now, and decide anew.",
        )
    if expect and expect != plan.definition:
        raise ChangeConflict(
            f"the change leads to the definition {plan.definition}, and not to {expect}",
            remedy="The crew was changed since the dry run: make another one, and decide anew.",
        )
    if prepared.split_runs:
        return _split_report(engine, plan, prepared.split_runs, abandon=abandon), plan
    return plan_change(engine, plan, abandon=abandon), plan


def plan_change(
    engine: Engine, plan: GraphPlan, *, abandon: bool = False, again: bool = False
) -> SwapReport:
    """What another plan does to a run.

    Args:
        engine: The run.
        plan: The plan that it is to have.
        abandon: Whether steps in mid-turn whose nodes go are cut off.
        again: Whether it goes back to its recipe.

    Raises:
        CommandRejected: turns or phases would be lost by it.
    """
    check_wake_nodes(engine.plan, plan, engine.state, again=again)
    return swap_report(engine.plan, plan, engine.state, abandon=abandon)


def _split_report(
    engine: Engine, plan: GraphPlan, parts: Sequence[PreparedSplitRun], *, abandon: bool = False
) -> SwapReport:
    """What a change does to a run whose graph falls apart by it.

    Raises:
        CommandRejected: the flow is another one, too, or turns would be lost.
    """
    old, state = engine.plan, engine.state
    gone = {node for part in parts for node in part.contents.nodes if node in old.nodes}
    # Those who leave are there until they do: for their steps, nothing is otherwise.
    leaving = {name: node for name, node in old.nodes.items() if name in gone}
    whole = plan.model_copy(update={"nodes": {**plan.nodes, **leaving}})
    if not is_same_flow(old, whole):
        raise CommandRejected(
            "the change is one of the flow, and the graph falls apart by it",
            remedy="Send two changes: first the one of the flow, then what parts the graph.",
        )
    report = plan_change(engine, whole, abandon=abandon)
    graphs = {state.run: plan.topology or Component(), **{p.run: p.topology for p in parts}}
    to = {node: part.run for part in parts for node in part.contents.nodes}
    return report.model_copy(
        update={
            "graph_version": state.graph_version + 1,
            "swap": True,
            "at_once": False,
            "steps": tuple(_goes(fate, to) for fate in report.steps),
            "topology": change_of_components({state.run: old.topology or Component()}, graphs),
        }
    )


def _goes(fate: StepRemap, to: Mapping[NodeName, RunId]) -> StepRemap:
    if fate.node not in to or fate.fate != "kept":
        return fate
    because = f"{fate.node} goes to the run {to[fate.node]}"
    return fate.model_copy(update={"fate": "goes", "because": because})


def accept_change(
    engine: Engine,
    plan: GraphPlan,
    report: SwapReport,
    *,
    what: str = "",
    by: str = "",
    reason: str = "",
    command: CommandId | None = None,
    abandon: bool = False,
    parts: tuple[PreparedSplitRun, ...] = (),
    basis: ContentHash = ContentHash(""),  # noqa: B008 - a string
) -> None:
    """Records that a change was accepted; where the graph stays the same, it is in force.

    Args:
        engine: The run.
        plan: The plan that it is to have, as `consider` gave it.
        report: What `consider` says of it.
        what: What changes, in a line.
        by: Who asked for it.
        reason: Why.
        command: The command that asked for it.
        abandon: Whether steps in mid-turn whose nodes go are cut off.
        parts: Where the graph falls apart: those that other runs are to have.
        basis: The crew that was changed while the run lives; empty where it is a whole one.
    """
    state = engine.state
    if report.swap:
        engine.pending_plan, engine.pending_split_runs = plan, parts
        engine.record(
            j.ChangeAccepted(
                graph_version=report.graph_version,
                definition=plan.definition,
                what=what,
                abandon=abandon,
                nodes=tuple(node for part in parts for node in part.contents.nodes),
                basis=basis,
                by=by,
                reason=reason,
                command=command,
            )
        )
        return
    if report.at_once:
        _apply_component_change(
            engine, plan, report, what=what, by=by, reason=reason, command=command, basis=basis
        )
        return
    old, leaving = engine.plan, _finishing_steps(report)
    engine.use(with_detached_steps(old, plan, state.frontier, state.detached_steps))
    engine.record(
        j.DefinitionChanged(
            crew=plan.crew,
            definition=plan.definition,
            permissions=permissions_after(old, plan, state, leaving),
            flags=new_run_outputs(plan, state),
            coordination_rules=plan.rules,
            events=tuple(component_events(old, plan)),
            basis=basis,
            what=what,
            by=by,
            reason=reason,
            command=command,
        )
    )


def _apply_component_change(
    engine: Engine, plan: GraphPlan, report: SwapReport, **who: Any
) -> None:
    """Puts a plan in force in which other creatures hear, or hear other things.

    Nothing drains: the nodes of a flow, and all that is under way there, are the same.
    """
    old, state = engine.plan, engine.state
    changed, parts = report.topology or ComponentChange(), engine.pending_split_runs
    gone = {step for step, entry in state.frontier.items() if _is_in_split_run(entry.node, parts)}
    gone |= {
        step for step, entry in state.detached_steps.items() if _is_in_split_run(entry.node, parts)
    }
    facts: list[j.JournalEntry] = [*withdrawals(engine, report, who["by"])]
    facts += [
        j.InterruptAnswered(at=engine.at, interrupt=asked.id, decision="withdrawn")
        for asked in state.interrupts.values()
        if asked.step in gone and asked.id not in report.withdrawn
    ]
    bounds = [RemainingBudget()] * (len(parts) + 1)
    leaving = [p.contents.agents for p in parts]
    if parts and has_divisible_limits(plan):
        bounds = divided_budgets(plan, state, leaving)
        # Each part asks for its share then; and an answer to this would be for all of them.
        facts += [
            j.InterruptAnswered(at=engine.at, interrupt=asked.id, decision="withdrawn")
            for asked in state.interrupts.values()
            if asked.budget in DIVIDED
        ]
    elif parts and has_divisible_limits(old):  # a limit that goes may come back
        known = old.model_copy(update={"agents": {**plan.agents, **old.agents}})
        bounds = divided_budgets(known, state, leaving, debts=False)
    facts.append(
        j.ComponentChanged(
            at=engine.at,
            command_hash=engine.digest if who["command"] else "",
            change=changed.kind,
            old_graph_ids=changed.old_graph_ids,
            new_graph_ids=changed.new_graph_ids,
            affected_creatures=changed.affected_creatures,
            events=tuple(component_events(old, plan, {p.run: p.topology for p in parts})),
            graph_version=report.graph_version,
            crew=plan.crew,
            definition=plan.definition,
            remap=report.remap,
            permissions=permissions_after(old, plan, state, _finishing_steps(report)),
            flags=new_run_outputs(plan, state),
            coordination_rules=plan.rules,
            split=changing.command if (changing := state.pending_change) is not None else "",
            split_runs=tuple(
                j.SplitRun(
                    run=p.run,
                    definition=hash_json(p.definition),
                    contents=p.contents.model_copy(update={"remaining_budget": left}),
                )
                for p, left in zip(parts, bounds[1:], strict=True)
            ),
            remaining_budget=bounds[0],
            **who,
        )
    )
    then = state
    for fact in facts:
        then = fold(then, fact)
    after = with_detached_steps(old, plan, then.frontier, then.detached_steps)
    check_consistency(after, report.remap, state, then, gone)
    for fact in facts:
        engine.ledger.record(fact)
    engine.use(after)


def _is_in_split_run(node: NodeName, parts: Sequence[PreparedSplitRun]) -> bool:
    return any(node in part.contents.nodes for part in parts)


def split(engine: Engine) -> Exception | None:
    """Parts the graph, once nothing of those who leave is under way; the runs that they are began.

    Returns:
        Why it could not be, which is a bug of ours: the run goes on as it was, once that is
        recorded. None where it was parted.
    """
    changing, plan = engine.state.pending_change, engine.pending_plan
    if changing is None or plan is None:
        raise InternalError("no split was accepted")
    try:
        report = _split_report(engine, plan, engine.pending_split_runs, abandon=changing.abandon)
        who: dict[str, Any] = {"by": changing.by, "reason": "", "command": None}
        _apply_component_change(
            engine, plan, report, what=changing.what, basis=changing.basis, **who
        )
    # As of a swap: whatever it is, it would fail the workflow's task for ever.
    except Exception as error:  # noqa: BLE001
        return error
    engine.pending_plan, engine.pending_split_runs = None, ()
    return None


def widened_tools(engine: Engine, plan: GraphPlan, report: SwapReport) -> Iterator[str]:
    """Tools that agents may call after a change, and may not now; see `regained`.

    Args:
        engine: The run.
        plan: The plan that it is to have.
        report: What `consider` says of it.
    """
    then = permissions_after(engine.plan, plan, engine.state, _finishing_steps(report))
    return regained_permissions(engine.state.tool_permissions, then, plan.agents)


class SwapResult(NamedTuple):
    """How a swap ended."""

    engine: Engine
    """The engine with the new plan; where that does not fit, the engine as it was."""
    error: Exception | None = None
    """Why it does not fit: a bug of ours, for who reads the log of a worker."""


def swap(engine: Engine) -> SwapResult:
    """Goes on with the graph that was accepted, once all that was under way has landed.

    The journal says whether it did.
    """
    changing = engine.state.pending_change
    if changing is None:
        return SwapResult(engine)
    try:
        after, facts = _swapped(engine, changing)
    except CommandRejected as error:  # for something that has come since it was accepted
        engine.pending_plan = None
        told = f"{error.message}. {error.remedy}"
        engine.record(j.SwapFailed(graph_version=changing.graph_version, error=told[:2000]))
        return SwapResult(engine)
    # Whatever it is, it would fail the workflow's task for ever: the run goes on as it was.
    except Exception as error:  # noqa: BLE001
        error_text = f"{type(error).__name__}: {error}"
        engine.pending_plan = None
        engine.record(j.SwapFailed(graph_version=changing.graph_version, error=error_text[:2000]))
        return SwapResult(engine, error)
    for fact in facts:
        engine.ledger.record(fact)
    return SwapResult(after)


def _swapped(engine: Engine, changing: PendingChange) -> tuple[Engine, list[j.JournalEntry]]:
    """The engine with the new plan, and the facts that make its state; nothing is recorded."""
    old, new, state = engine.plan, engine.pending_plan, engine.state
    if new is None:
        raise InternalError("the plan of the accepted change is not there")
    report = plan_change(engine, new, abandon=changing.abandon, again=not changing.command)
    facts = list(_facts(engine, new, report, changing))
    then = state
    for fact in facts:
        then = fold(then, fact)
    plan = with_detached_steps(old, new, then.frontier, then.detached_steps)
    check_consistency(plan, report.remap, state, then)
    after = Engine(plan, engine.ledger)
    after.at = engine.at
    return after, facts


def _facts(
    engine: Engine, plan: GraphPlan, report: SwapReport, changing: PendingChange
) -> Iterator[j.JournalEntry]:
    state = engine.state
    yield from withdrawals(engine, report, changing.by)
    yield j.GraphSwapped(
        at=engine.at,
        graph_version=changing.graph_version,
        crew=plan.crew,
        definition=plan.definition,
        remap=report.remap,
        permissions=permissions_after(engine.plan, plan, state, _finishing_steps(report)),
        flags=new_run_outputs(plan, state),
        coordination_rules=plan.rules,
        basis=changing.basis,
        what=changing.what,
        by=changing.by,
    )


def withdrawals(engine: Engine, report: SwapReport, by: str) -> Iterator[j.JournalEntry]:
    """Takes back the questions that nobody waits for any more."""
    state = engine.state
    for asked in report.withdrawn:
        yield j.InterruptAnswered(at=engine.at, interrupt=asked, decision="withdrawn")
        question = state.interrupts[asked]
        if question.kind == "manual" and question.step is not None:
            # People asked to be asked: they are, when the step comes back.
            node = state.frontier[question.step].node
            yield j.BreakpointSet(at=engine.at, node=node, by=by)


def _finishing_steps(report: SwapReport) -> list[StepId]:
    return [fate.step for fate in report.steps if fate.fate == "leaves"]


def new_run_outputs(plan: GraphPlan, state: CrewState) -> dict[FlagName, Json]:
    """First values of the flags that a plan has and a run does not."""
    return {flag: value for flag, value in plan.flags.items() if flag not in state.flags}


def check_consistency(
    plan: GraphPlan,
    remap: j.Remap,
    before: CrewState,
    after: CrewState,
    gone: Collection[StepId] = (),
) -> None:
    """Checks that the new state and the new plan fit each other, and that no step is lost.

    Args:
        plan: The new plan.
        remap: What it does to the frontier.
        before: The state before.
        after: The state after.
        gone: The steps that other runs have from then on.

    Raises:
        InternalError: where they do not.
    """
    lost = {*before.frontier, *before.detached_steps} - {
        *after.frontier,
        *after.detached_steps,
        *remap.retracted,
    }
    lost -= {*gone}
    if lost:
        raise InternalError(f"the swap would lose {', '.join(sorted(lost))}")
    for step, entry in after.frontier.items():
        detached = plan.detached_step(entry) is not None
        if not detached if entry.is_detached else entry.node not in plan.nodes:
            raise InternalError(f"the swap would leave {step} without a node")
    for asked in after.interrupts.values():
        if asked.step is not None and asked.step not in after.frontier:
            raise InternalError(f"the swap would leave the question {asked.id} without its step")
