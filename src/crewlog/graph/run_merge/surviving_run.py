"""The surviving run of a run merge: the agents of the merged run continue in it.

    apply_merge(engine, prepared, op=…) ──► RunMerged: in force at once
                                        └──► InterruptRaised: the open interrupts of the merged run

The surviving run does not drain: its flow and its steps stay as they are. Nothing is recorded
before all entries are checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from crewlog.errors import ChangeConflict, ComponentConflict, InternalError
from crewlog.graph.budgets import has_divisible_limits, merged_budget, stricter_budget
from crewlog.graph.engine import Engine
from crewlog.graph.plan import GraphPlan
from crewlog.graph.swap.live_change import (
    check_consistency,
    check_expected,
    new_run_outputs,
    plan_change,
    withdrawals,
)
from crewlog.graph.swap.report import SwapReport, is_same_flow, with_detached_steps
from crewlog.graph.wakes import component_events
from crewlog.ids import AgentName, InterruptId, ToolName
from crewlog.state import journal as j
from crewlog.state.calls import PrepareMergeResult
from crewlog.state.fold import fold
from crewlog.state.model import CrewState, Interrupt
from crewlog.state.run_merge.surviving_state import (
    MergeNames,
    log_merges,
    merged_interrupts,
    merged_state_changes,
    merged_steps,
)
from crewlog.state.split import RemainingBudget

Permissions = dict[str, tuple[AgentName, ...] | None]


def apply_merge(
    engine: Engine,
    prepared: PrepareMergeResult,
    *,
    op: str,
    expect: str = "",
    by: str = "",
    reason: str = "",
) -> None:
    """Merges another run into this one, which continues at once with the agents of both.

    Args:
        engine: The surviving run.
        prepared: The prepared merge.
        op: The merge's id.
        expect: The hash that the definition of both must have; empty: any.
        by: The principal.
        reason: Why.

    Raises:
        ChangeConflict: the run has changed since the merge was prepared, or the definition of both
            is not the expected one.
        ComponentConflict: the two runs cannot be merged.
    """
    if prepared.refused:
        raise ComponentConflict(prepared.refused, remedy=prepared.remedy)
    old, state, plan = engine.plan, engine.state, GraphPlan.from_json(prepared.plan)
    if prepared.base != state.definition or state.pending_change is not None:
        raise ChangeConflict(
            "the crew was changed while the merge was prepared",
            remedy="Prepare the merge again, with the current definition.",
        )
    check_expected(expect, plan.definition)
    if not is_same_flow(old, plan):
        raise InternalError("a merge would change the flow of the surviving run")
    report = plan_change(engine, plan)
    withdrawn: list[j.JournalEntry] = [*withdrawals(engine, report, by)]
    after = state
    for entry in withdrawn:
        after = fold(after, entry)
    other = CrewState.from_json(prepared.state)
    merged = _run_merged(
        engine, plan, prepared, report, after, other, merge=op, by=by, reason=reason
    )
    names = MergeNames.of(merged, after.visits)
    entries: list[j.JournalEntry] = [
        merged,
        *_interrupts_of_merged_run(engine, after.interrupt_count, merged_interrupts(other, names)),
    ]
    for entry in entries:
        after = fold(after, entry)
    plan = with_detached_steps(old, plan, after.frontier, after.detached_steps)
    check_consistency(plan, report.remap, state, after)
    if lost := {*merged_steps(other, names)} - {*after.frontier}:
        raise InternalError(f"the merge would lose {', '.join(sorted(lost))}")
    with engine.journal.transaction:
        for entry in (*withdrawn, *entries):
            engine.journal.record(entry)
    engine.use(plan)


def _run_merged(
    engine: Engine,
    plan: GraphPlan,
    prepared: PrepareMergeResult,
    report: SwapReport,
    state: CrewState,
    other: CrewState,
    **who: str,
) -> j.RunMerged:
    """The entry of a run merge.

    Args:
        engine: The surviving run.
        plan: The plan of both.
        prepared: The prepared merge.
        report: The report of the surviving run.
        state: The state of the surviving run.
        other: The state of the merged run.
        who: `merge`, `by` and `reason` of the entry.
    """
    change = prepared.change
    fields: dict[str, Any] = {
        "at": engine.at,
        "position": max(state.position, prepared.position) + 1,
        "previous_position": state.position,
        "old_graph_ids": change.old_graph_ids,
        "new_graph_ids": change.new_graph_ids,
        "affected_creatures": change.affected_creatures,
        "events": tuple(_events(engine.plan, plan, prepared)),
        "merged_run": prepared.merged_run,
        "merged_run_position": prepared.position,
        "merged_run_started_at": prepared.started_at,
        "merged_state": prepared.state,
        "renames": change.renamed,
        "merged_agents": prepared.agents,
        "nodes": prepared.nodes,
        "new_nodes": prepared.new_nodes,
        "quotas": prepared.quotas,
        "parents": (prepared.merged_run,),
        "graph_version": report.graph_version,
        "crew": plan.crew,
        "definition": plan.definition,
        "remap": report.remap,
        "flags": {
            flag: value
            for flag, value in new_run_outputs(plan, state).items()
            if flag not in other.flags
        },
        "coordination_rules": plan.rules,
        "basis": state.basis or state.definition,
        "what": prepared.what,
        **who,
    }
    names = MergeNames.of(j.RunMerged(**fields), state.visits)
    return j.RunMerged(
        **fields,
        remaining_budget=_remaining_budget(engine, plan, prepared, state, other, names),
        merged_logs=log_merges(state, other, names, prepared.artifact_heads),
        permissions=_permissions(engine, plan, state, other, names),
    )


def _remaining_budget(
    engine: Engine,
    plan: GraphPlan,
    prepared: PrepareMergeResult,
    state: CrewState,
    other: CrewState,
    names: MergeNames,
) -> RemainingBudget:
    """The remaining budget of both runs; empty if the plan has no limits that a split divides."""
    if not has_divisible_limits(plan):
        return RemainingBudget()
    if not prepared.adds_budgets:
        return stricter_budget(state, other)
    both = state.model_copy(update=merged_state_changes(state, other, names))
    return merged_budget(plan, engine.plan, state, other, both, prepared.quotas)


def _events(
    old: GraphPlan, new: GraphPlan, prepared: PrepareMergeResult
) -> Iterator[j.ComponentEvent]:
    """The changes of agents and output wires; the agents of the merged run only change runs."""
    for event in component_events(old, new):
        if event.agent not in prepared.agents:
            yield event
    for name in prepared.agents:
        yield j.ComponentEvent(
            event="CREATURE_SESSION_ATTACHED", agent=name, to=prepared.merged_run
        )


def _interrupts_of_merged_run(
    engine: Engine, count: int, interrupts: tuple[Interrupt, ...]
) -> Iterator[j.InterruptRaised]:
    """The open interrupts of the merged run, with numbers and deadlines of the surviving run."""
    for number, asked in enumerate(interrupts, count + 1):
        policy_fields = {
            "deadline": 0,
            "to": (),
            "escalated": False,
            **engine.interrupt_policy_fields(asked.kind),
        }
        update = {"id": InterruptId(f"i{number}"), "position": 0, **policy_fields}
        yield j.InterruptRaised(at=engine.at, interrupt=asked.model_copy(update=update))


def _permissions(
    engine: Engine, plan: GraphPlan, state: CrewState, other: CrewState, names: MergeNames
) -> Permissions:
    steps = [state.frontier[step] for step in state.detached_turns]
    ending = {agent for step in steps for agent in engine.plan.node_of(step).agents}
    return merged_permissions(engine.plan, plan, state, other, names, ending=ending)


def merged_permissions(
    old: GraphPlan,
    new: GraphPlan,
    state: CrewState,
    other: CrewState,
    names: MergeNames,
    *,
    ending: Collection[AgentName] = (),
) -> Permissions:
    """The agents that may call each tool: those that may by the new definition and in their run.

    A permission that people set on a live run stays for the agents of that run, even if it allows
    more than the definition. For tools without a permission in the merged run, the new definition
    decides.

    Args:
        old: The plan of the surviving run.
        new: The plan of both.
        state: The state of the surviving run.
        other: The state of the merged run.
        names: The renames of the merged run.
        ending: The agents of detached turns in the surviving run, which no definition has any more.
    """
    permissions: Permissions = {}
    removed = sorted({*ending} - {*new.agents})
    known = [*new.agents, *removed]
    for tool in dict.fromkeys((*new.permissions, *state.tool_permissions, *other.tool_permissions)):
        row = new.permissions.get(ToolName(tool))
        own = state.tool_permissions.get(tool)
        others = other.tool_permissions.get(tool)
        if row is None and own is None and others is None:
            if tool in new.permissions:
                permissions[tool] = None
            continue
        is_live = tool in state.tool_permissions and own != old.permissions.get(ToolName(tool))
        is_set_in_other = tool in other.tool_permissions
        allowed = {*known} if own is None else {*own}
        allowed_in_other = {*known} if others is None else {*map(names.agent, others)}
        permissions[tool] = tuple(
            agent
            for agent in known
            if (
                agent in allowed_in_other and (is_set_in_other or row is None or agent in row)
                if agent in names.merged_agents
                else agent in allowed
                and (is_live or row is None or agent in row or agent in removed)
            )
        )
    return permissions
