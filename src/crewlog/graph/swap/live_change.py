"""Changes of a live run: report a change, accept it, and swap the graph.

    change_report ──► accept_change ──(same graph)──► DefinitionChanged: in force at once
                        └──(another graph)──► ChangeAccepted ──(drained)──► swap ──► GraphSwapped
                                                                              └──► SwapFailed

Between `accept_change` and `swap` the run drains: nothing starts, and calls in flight are applied.
So the report is computed twice: when the change is requested, and when the run has drained. A swap
records nothing before all of its entries are checked: one that fails leaves the run as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from crewlog.authority.rights import Touch
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
from crewlog.graph.touches import permission_touches
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
    is_pending_changed: bool = False,
) -> tuple[SwapReport, GraphPlan]:
    """What a change would do to a run now, and the plan of the changed definition.

    Args:
        engine: The run.
        prepared: The changed definition.
        graph_version: The graph version that it was made against; none: any.
        expect: The hash that the changed definition must have; empty: any.
        abandon: Whether running turns whose nodes are removed are cancelled.
        is_pending_changed: Whether the change is made to the pending change, too. It must need no
            swap then.

    Raises:
        ChangeConflict: the run has changed since the change was made, or has a pending run merge.
        CommandRejected: steps would be lost, or phases skipped.
    """
    state = engine.state
    pending = state.pending_change
    if pending is not None and not is_pending_changed:
        raise ChangeConflict(
            f"another change is pending: {pending.what or pending.command}",
            remedy=f"Send the change again once the run has graph version {pending.graph_version}: "
            "it swaps the graph as soon as the calls in flight have completed.",
        )
    check_no_merge(state)
    if graph_version is not None and graph_version != state.graph_version:
        raise ChangeConflict(
            f"the change was made against graph version {graph_version}, and the run has "
            f"{state.graph_version}",
            remedy="Read the current graph, and send the change with its version.",
        )
    plan = GraphPlan.from_json(prepared.plan)
    if prepared.base and prepared.base != state.definition:
        raise ChangeConflict(
            "the crew was changed while this change was being made",
            remedy="Read the current definition, and send the change again.",
        )
    check_expected(expect, plan.definition)
    if prepared.split_runs:
        return _split_report(engine, plan, prepared.split_runs, abandon=abandon), plan
    return plan_change(engine, plan, abandon=abandon), plan


def check_expected(expect: str, definition: str) -> None:
    """Checks that a change leads to the expected definition.

    Args:
        expect: The hash that the definition must have; empty: any.
        definition: Its hash.

    Raises:
        ChangeConflict: it leads to another one.
    """
    if expect and expect != definition:
        raise ChangeConflict(
            f"the change leads to the definition {definition}, and not to {expect}",
            remedy="The crew was changed since the dry run: make another dry run first.",
        )


def plan_change(
    engine: Engine, plan: GraphPlan, *, abandon: bool = False, again: bool = False
) -> SwapReport:
    """What another plan does to a run.

    Args:
        engine: The run.
        plan: The next plan.
        abandon: Whether running turns whose nodes are removed are cancelled.
        again: Whether the run returns to its recipe.

    Raises:
        CommandRejected: steps would be lost, or phases skipped.
    """
    check_wake_nodes(engine.plan, plan, engine.state, again=again)
    return swap_report(engine.plan, plan, engine.state, abandon=abandon)


def _split_report(
    engine: Engine,
    plan: GraphPlan,
    split_runs: Sequence[PreparedSplitRun],
    *,
    abandon: bool = False,
) -> SwapReport:
    """What a change does to a run that it splits.

    Raises:
        CommandRejected: it changes the flow, too, or steps would be lost.
    """
    old, state = engine.plan, engine.state
    runs = {node: each.run for each in split_runs for node in each.contents.nodes}
    # The nodes that move are in the plan until the split: nothing changes for their steps.
    moving = {name: node for name, node in old.nodes.items() if name in runs}
    whole = plan.model_copy(update={"nodes": {**plan.nodes, **moving}})
    if not is_same_flow(old, whole):
        raise CommandRejected(
            "cannot change the flow and split the run in one change",
            remedy="Send two changes: first the one of the flow, then the one that splits the run.",
        )
    report = plan_change(engine, whole, abandon=abandon)
    components = {
        state.run: plan.component or Component(),
        **{each.run: each.component for each in split_runs},
    }
    return report.model_copy(
        update={
            "graph_version": state.graph_version + 1,
            "swap": True,
            "at_once": False,
            "steps": tuple(_with_new_run(remap, runs) for remap in report.steps),
            "component_change": change_of_components(
                {state.run: old.component or Component()}, components
            ),
        }
    )


def _with_new_run(remap: StepRemap, runs: Mapping[NodeName, RunId]) -> StepRemap:
    """What happens to a step, if its node moves to a split run."""
    if remap.node not in runs or remap.effect != "kept":
        return remap
    because = f"{remap.node} moves to the run {runs[remap.node]}"
    return remap.model_copy(update={"effect": "moves", "because": because})


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
    split_runs: tuple[PreparedSplitRun, ...] = (),
    basis: ContentHash = ContentHash(""),  # noqa: B008 - a string
    pending_plan: GraphPlan | None = None,
) -> None:
    """Records that a change was accepted. If the graph stays the same, it is in force at once.

    Args:
        engine: The run.
        plan: The next plan, as `change_report` returned it.
        report: The report of `change_report`.
        what: What changes, in a line.
        by: The principal.
        reason: Why.
        command: The command's id.
        abandon: Whether running turns whose nodes are removed are cancelled.
        split_runs: The split runs, if the change splits the run.
        basis: The definition that operations change; empty for a whole definition.
        pending_plan: The plan of the pending change, to which the change was made, too.
    """
    state = engine.state
    if report.swap:
        engine.pending_plan, engine.pending_split_runs = plan, split_runs
        engine.record(
            j.ChangeAccepted(
                graph_version=report.graph_version,
                definition=plan.definition,
                what=what,
                abandon=abandon,
                nodes=tuple(node for each in split_runs for node in each.contents.nodes),
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
    old, detached_turns = engine.plan, _detached_turns(report)
    engine.use(with_detached_steps(old, plan, state.frontier, state.detached_steps))
    if pending_plan is not None:
        engine.pending_plan = pending_plan
    engine.record(
        j.DefinitionChanged(
            crew=plan.crew,
            definition=plan.definition,
            permissions=permissions_after(old, plan, state, detached_turns),
            flags=new_run_outputs(plan, state),
            coordination_rules=plan.rules,
            events=tuple(component_events(old, plan)),
            basis=basis,
            pending_definition=pending_plan.definition
            if pending_plan is not None
            else ContentHash(""),
            what=what,
            by=by,
            reason=reason,
            command=command,
        )
    )


def _apply_component_change(
    engine: Engine, plan: GraphPlan, report: SwapReport, **who: Any
) -> None:
    """Puts a plan with another component in force; the flow and its steps stay the same."""
    old, state = engine.plan, engine.state
    change, split_runs = report.component_change or ComponentChange(), engine.pending_split_runs
    moved_nodes = {node for each in split_runs for node in each.contents.nodes}
    moved = {step for step, entry in state.frontier.items() if entry.node in moved_nodes}
    moved |= {step for step, entry in state.detached_steps.items() if entry.node in moved_nodes}
    entries: list[j.JournalEntry] = [*withdrawals(engine, report, who["by"])]
    entries += [
        j.InterruptAnswered(at=engine.at, interrupt=asked.id, decision="withdrawn")
        for asked in state.interrupts.values()
        if asked.step in moved and asked.id not in report.withdrawn
    ]
    budgets = [RemainingBudget()] * (len(split_runs) + 1)
    agents = [each.contents.agents for each in split_runs]
    if split_runs and has_divisible_limits(plan):
        budgets = divided_budgets(plan, state, agents)
        # Each run then asks about its own part of the budget.
        entries += [
            j.InterruptAnswered(at=engine.at, interrupt=asked.id, decision="withdrawn")
            for asked in state.interrupts.values()
            if asked.budget in DIVIDED
        ]
    elif split_runs and has_divisible_limits(old):  # a removed limit may be set again
        known = old.model_copy(update={"agents": {**plan.agents, **old.agents}})
        budgets = divided_budgets(known, state, agents, debts=False)
    entries.append(
        j.ComponentChanged(
            at=engine.at,
            command_hash=engine.command_hash if who["command"] else "",
            change=change.kind,
            old_graph_ids=change.old_graph_ids,
            new_graph_ids=change.new_graph_ids,
            affected_creatures=change.affected_creatures,
            events=tuple(
                component_events(old, plan, {each.run: each.component for each in split_runs})
            ),
            graph_version=report.graph_version,
            crew=plan.crew,
            definition=plan.definition,
            remap=report.remap,
            permissions=permissions_after(old, plan, state, _detached_turns(report)),
            flags=new_run_outputs(plan, state),
            coordination_rules=plan.rules,
            split=pending.command if (pending := state.pending_change) is not None else "",
            split_runs=tuple(
                j.SplitRun(
                    run=each.run,
                    definition=hash_json(each.definition),
                    contents=each.contents.model_copy(update={"remaining_budget": budget}),
                )
                for each, budget in zip(split_runs, budgets[1:], strict=True)
            ),
            remaining_budget=budgets[0],
            **who,
        )
    )
    after = state
    for entry in entries:
        after = fold(after, entry)
    plan = with_detached_steps(old, plan, after.frontier, after.detached_steps)
    check_consistency(plan, report.remap, state, after, moved)
    with engine.journal.transaction:
        for entry in entries:
            engine.journal.record(entry)
    engine.use(plan)


def split(engine: Engine) -> Exception | None:
    """Splits a run that has drained, once the split runs are started.

    Returns:
        The error, which is a bug of Crewlog: the caller records it, and the run continues as it
        was. None if the run was split.
    """
    pending, plan = engine.state.pending_change, engine.pending_plan
    if pending is None or plan is None:
        raise InternalError("no split was accepted")
    try:
        report = _split_report(engine, plan, engine.pending_split_runs, abandon=pending.abandon)
        who: dict[str, Any] = {"by": pending.by, "reason": "", "command": None}
        _apply_component_change(engine, plan, report, what=pending.what, basis=pending.basis, **who)
    # As in `swap`: any error would fail the workflow task again and again.
    except Exception as error:  # noqa: BLE001
        return error
    engine.pending_plan, engine.pending_split_runs = None, ()
    return None


def change_touches(engine: Engine, plan: GraphPlan, report: SwapReport) -> Iterator[Touch]:
    """The tools that agents may call after a change, and not now, by `set_permission`.

    Args:
        engine: The run.
        plan: The next plan.
        report: The report of the change.
    """
    after = permissions_after(engine.plan, plan, engine.state, _detached_turns(report))
    yield from permission_touches(engine.state.tool_permissions, after, plan.agents)


class SwapResult(NamedTuple):
    """How a swap ended."""

    engine: Engine
    """The engine with the new plan; if the swap failed, the engine as it was."""
    error: Exception | None = None
    """Why it failed, if that is a bug of Crewlog; for the log of the worker."""


def swap(engine: Engine) -> SwapResult:
    """Swaps the graph of a run that has drained, and records whether that succeeded."""
    pending = engine.state.pending_change
    if pending is None:
        return SwapResult(engine)
    try:
        swapped, entries = _prepare_swap(engine, pending)
    except CommandRejected as error:  # because of something since the change was accepted
        engine.pending_plan = None
        text = f"{error.message}. {error.remedy}"
        engine.record(j.SwapFailed(graph_version=pending.graph_version, error=text[:2000]))
        return SwapResult(engine)
    # Any error would fail the workflow task again and again: the run continues as it was.
    except Exception as error:  # noqa: BLE001
        text = f"{type(error).__name__}: {error}"
        engine.pending_plan = None
        engine.record(j.SwapFailed(graph_version=pending.graph_version, error=text[:2000]))
        return SwapResult(engine, error)
    with engine.journal.transaction:
        for entry in entries:
            engine.journal.record(entry)
    return SwapResult(swapped)


def _prepare_swap(engine: Engine, pending: PendingChange) -> tuple[Engine, list[j.JournalEntry]]:
    """The engine with the new plan, and the entries to record."""
    old, new, state = engine.plan, engine.pending_plan, engine.state
    if new is None:
        raise InternalError("the accepted change has no plan")
    report = plan_change(engine, new, abandon=pending.abandon, again=not pending.command)
    entries = list(_swap_entries(engine, new, report, pending))
    after = state
    for entry in entries:
        after = fold(after, entry)
    plan = with_detached_steps(old, new, after.frontier, after.detached_steps)
    check_consistency(plan, report.remap, state, after)
    swapped = Engine(plan, engine.journal)
    swapped.at = engine.at
    return swapped, entries


def _swap_entries(
    engine: Engine, plan: GraphPlan, report: SwapReport, pending: PendingChange
) -> Iterator[j.JournalEntry]:
    state = engine.state
    yield from withdrawals(engine, report, pending.by)
    yield j.GraphSwapped(
        at=engine.at,
        graph_version=pending.graph_version,
        crew=plan.crew,
        definition=plan.definition,
        remap=report.remap,
        permissions=permissions_after(engine.plan, plan, state, _detached_turns(report)),
        flags=new_run_outputs(plan, state),
        coordination_rules=plan.rules,
        basis=pending.basis,
        what=pending.what,
        by=pending.by,
    )


def withdrawals(engine: Engine, report: SwapReport, by: str) -> Iterator[j.JournalEntry]:
    """The entries that withdraw the interrupts of a report."""
    state = engine.state
    for id_ in report.withdrawn:
        yield j.InterruptAnswered(at=engine.at, interrupt=id_, decision="withdrawn")
        asked = state.interrupts[id_]
        if asked.kind == "manual" and asked.step is not None:
            # The step is interrupted again when its node is back.
            node = state.frontier[asked.step].node
            yield j.BreakpointSet(at=engine.at, node=node, by=by)


def _detached_turns(report: SwapReport) -> list[StepId]:
    return [fate.step for fate in report.steps if fate.effect == "finishes"]


def new_run_outputs(plan: GraphPlan, state: CrewState) -> dict[FlagName, Json]:
    """The first values of run outputs that are in a plan and not in the state."""
    return {flag: value for flag, value in plan.flags.items() if flag not in state.flags}


def check_consistency(
    plan: GraphPlan,
    remap: j.Remap,
    before: CrewState,
    after: CrewState,
    moved: Collection[StepId] = (),
) -> None:
    """Checks that the new state fits the new plan, and that no step is lost.

    Args:
        plan: The new plan.
        remap: The remap of the swap.
        before: The state before.
        after: The state after.
        moved: The steps that move to split runs.

    Raises:
        InternalError: the state does not fit, or a step is lost.
    """
    lost = {*before.frontier, *before.detached_steps} - {
        *after.frontier,
        *after.detached_steps,
        *remap.retracted,
    }
    lost -= {*moved}
    if lost:
        raise InternalError(f"the swap would lose {', '.join(sorted(lost))}")
    for step, entry in after.frontier.items():
        if entry.is_detached:
            has_node = plan.detached_step(entry) is not None
        else:
            has_node = entry.node in plan.nodes
        if not has_node:
            raise InternalError(f"the swap would leave {step} without a node")
    for asked in after.interrupts.values():
        if asked.step is not None and asked.step not in after.frontier:
            raise InternalError(f"the swap would leave the interrupt {asked.id} without its step")
