"""Taking in another run: its creatures live in this one from now on, and go on where they were.

    take_in(engine, prepared, op=…) ──► RunMerged: in force at once
                                    └──► InterruptRaised: what was asked there is asked here

Nothing drains: nodes of a flow, and all that is under way here, stay as they are. Nothing is
recorded before all of it is known to fit.
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
    merged_state_changes,
    merged_steps,
    questions,
)
from crewlog.state.split import RemainingBudget

Permissions = dict[str, tuple[AgentName, ...] | None]


def apply_merge(
    engine: Engine, prepared: PrepareMergeResult, *, op: str, by: str = "", reason: str = ""
) -> None:
    """Records that another run is a part of this one, which goes on with both at once.

    Args:
        engine: The run that stays.
        prepared: What the two lead to.
        op: The merge's id.
        by: Who asked for it.
        reason: Why.

    Raises:
        ChangeConflict: the run is another one than the merge was prepared for: prepare it anew.
        ComponentConflict: the two cannot be one.
    """
    if prepared.refused:
        raise ComponentConflict(prepared.refused, remedy=prepared.remedy)
    old, state, plan = engine.plan, engine.state, GraphPlan.from_json(prepared.plan)
    if prepared.base != state.definition or state.pending_change is not None:
        raise ChangeConflict(
            "the crew was changed while the merge was being made",
            remedy="Prepare the merge with the crew as it is now.",
        )
    if not is_same_flow(old, plan):
        raise InternalError("a merge would change the flow of the run that stays")
    report = plan_change(engine, plan)
    facts: list[j.JournalEntry] = [*withdrawals(engine, report, by)]
    then = state
    for fact in facts:
        then = fold(then, fact)
    part = CrewState.from_json(prepared.state)
    merged = _merged(engine, plan, prepared, report, then, part, merge=op, by=by, reason=reason)
    names = MergeNames.of(merged, then.visits)
    last: list[j.JournalEntry] = [
        merged,
        *_interrupts_asked_again(engine, then.interrupt_count, questions(part, names)),
    ]
    for fact in last:
        then = fold(then, fact)
    after = with_detached_steps(old, plan, then.frontier, then.detached_steps)
    check_consistency(after, report.remap, state, then)
    if lost := {*merged_steps(part, names)} - {*then.frontier}:
        raise InternalError(f"the merge would lose {', '.join(sorted(lost))}")
    for fact in (*facts, *last):
        engine.ledger.record(fact)
    engine.use(after)


def _merged(
    engine: Engine,
    plan: GraphPlan,
    prepared: PrepareMergeResult,
    report: SwapReport,
    then: CrewState,
    part: CrewState,
    **who: str,
) -> j.RunMerged:
    change = prepared.change
    fields: dict[str, Any] = {
        "at": engine.at,
        "position": max(then.position, prepared.position) + 1,
        "previous_position": then.position,
        "old_graph_ids": change.old_graph_ids,
        "new_graph_ids": change.new_graph_ids,
        "affected_creatures": change.affected_creatures,
        "events": tuple(_events(engine.plan, plan, prepared)),
        "merged_run": prepared.merged_run,
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
            flag: v for flag, v in new_run_outputs(plan, then).items() if flag not in part.flags
        },
        "coordination_rules": plan.rules,
        "basis": then.basis or then.definition,
        "what": prepared.what,
        **who,
    }
    names = MergeNames.of(j.RunMerged(**fields), then.visits)
    return j.RunMerged(
        **fields,
        remaining_budget=_bounds(engine, plan, prepared, then, part, names),
        joined=log_merges(then, part, names, prepared.artifact_heads),
        permissions=_permissions(engine, plan, then, part, names),
    )


def _bounds(
    engine: Engine,
    plan: GraphPlan,
    prepared: PrepareMergeResult,
    then: CrewState,
    part: CrewState,
    names: MergeNames,
) -> RemainingBudget:
    """What both may use still, where that is not only what they used."""
    if not has_divisible_limits(plan):
        return RemainingBudget()
    if not prepared.adds_budgets:
        return stricter_budget(then, part)
    both = then.model_copy(update=merged_state_changes(then, part, names))
    return merged_budget(plan, engine.plan, then, part, both, prepared.quotas)


def _events(
    old: GraphPlan, new: GraphPlan, prepared: PrepareMergeResult
) -> Iterator[j.ComponentEvent]:
    """What becomes of creatures and wires: those who come have not started by that."""
    for event in component_events(old, new):
        if event.creature not in prepared.agents:
            yield event
    for name in prepared.agents:
        yield j.ComponentEvent(
            event="CREATURE_SESSION_ATTACHED", creature=name, to=prepared.merged_run
        )


def _interrupts_asked_again(
    engine: Engine, asked: int, open_: tuple[Interrupt, ...]
) -> Iterator[j.InterruptRaised]:
    """What was asked in the other run, with numbers of this one."""
    for number, question in enumerate(open_, asked + 1):
        anew = {
            "deadline": 0,
            "to": (),
            "escalated": False,
            **engine.interrupt_policy_fields(question.kind),
        }
        update = {"id": InterruptId(f"i{number}"), "position": 0, **anew}
        again = question.model_copy(update=update)
        yield j.InterruptRaised(at=engine.at, interrupt=again)


def _permissions(
    engine: Engine, plan: GraphPlan, state: CrewState, part: CrewState, names: MergeNames
) -> Permissions:
    """Who may call a tool with the crew of both."""
    steps = [state.frontier[step] for step in state.detached_turns]
    going = {agent for step in steps for agent in engine.plan.node_of(step).agents}
    return merged_permissions(engine.plan, plan, state, part, names, going=going)


def merged_permissions(
    old: GraphPlan,
    new: GraphPlan,
    state: CrewState,
    part: CrewState,
    names: MergeNames,
    *,
    going: Collection[AgentName] = (),
) -> Permissions:
    """Who may call a tool: each agent that has it by the new crew, and might in its own run.

    What people have said while a run lived holds for those who lived there, also where that is
    more than its crew says. What the run that joins says nothing of, the new crew does.

    Args:
        old: The plan of the run that stays.
        new: The plan of both.
        state: The run that stays.
        part: The run that joins.
        names: What it called otherwise.
        going: Those who end a turn in the run that stays, though they were removed from it: no crew
            says anything of them any more.
    """
    found: Permissions = {}
    ending = sorted({*going} - {*new.agents})
    known = [*new.agents, *ending]
    for tool in dict.fromkeys((*new.permissions, *state.tool_permissions, *part.tool_permissions)):
        row = new.permissions.get(ToolName(tool))
        mine = state.tool_permissions.get(tool)
        theirs = part.tool_permissions.get(tool)
        if row is None and mine is None and theirs is None:
            if tool in new.permissions:
                found[tool] = None
            continue
        said = tool in state.tool_permissions
        ruled = said and mine != old.permissions.get(ToolName(tool))
        theirs_alone = tool in part.tool_permissions
        here = {*known} if mine is None else {*mine}
        there = {*known} if theirs is None else {*map(names.agent, theirs)}
        found[tool] = tuple(
            agent
            for agent in known
            if (
                agent in there and (theirs_alone or row is None or agent in row)
                if agent in names.comes
                else agent in here and (ruled or row is None or agent in row or agent in ending)
            )
        )
    return found
