"""How run merges and splits change the state."""

from __future__ import annotations

from typing import cast

from crewlog.state import journal as j
from crewlog.state.excerpt import excerpt
from crewlog.state.fold.change import replace_graph
from crewlog.state.fold.handlers import REASON_LENGTH, Changes, handles
from crewlog.state.model import CrewState, MergeOutcome, PendingMerge
from crewlog.state.run_merge.protocol import outcome_changes
from crewlog.state.run_merge.renames import merged_runs_after
from crewlog.state.run_merge.surviving_state import MergeNames, merged_state_changes
from crewlog.state.split import original_run_changes


@handles(j.MergeRequested)
def _fold_merge_requested(state: CrewState, entry: j.MergeRequested, position: int) -> Changes:
    pending = PendingMerge(
        merge=entry.merge,
        other=entry.other,
        status=entry.status,
        at=entry.at,
        deadline=entry.deadline,
        requester=state.run,
        operation=entry.operation,
        request=entry.request,
        expect=entry.expect,
        agents=entry.agents,
        has_flow=entry.has_flow,
        position=position,
        by=entry.by,
    )
    return {"pending_merge": pending}


@handles(j.MergeAccepted)
def _fold_merge_accepted(state: CrewState, entry: j.MergeAccepted, position: int) -> Changes:
    own = state.pending_merge  # of a run that asked the other one to coordinate
    pending = PendingMerge(
        merge=entry.merge,
        other=entry.other,
        status=entry.status,
        at=entry.at,
        deadline=entry.deadline,
        requester=entry.requester,
        operation=entry.operation,
        request=entry.request,
        expect=entry.expect,
        agents=entry.agents,
        has_flow=entry.has_flow,
        position=own.position if own is not None and own.merge == entry.merge else position,
        other_position=entry.other_position,
        other_started_at=entry.other_started_at,
        by=entry.by,
    )
    return {"pending_merge": pending}


@handles(j.MergeFrozen)
def _fold_merge_frozen(state: CrewState, entry: j.MergeFrozen, position: int) -> Changes:
    if state.pending_merge is None:
        return {}
    changes = {"status": "frozen", "at": entry.at, "deadline": 0, "frozen_position": position}
    return {"pending_merge": state.pending_merge.model_copy(update=changes)}


@handles(j.MergeFailed)
def _fold_merge_failed(state: CrewState, entry: j.MergeFailed, position: int) -> Changes:
    outcome = MergeOutcome(
        outcome="failed",
        other=entry.other,
        position=position,
        reason=excerpt(entry.reason, REASON_LENGTH),
        may_retry=entry.may_retry,
    )
    return outcome_changes(state, entry.merge, outcome)


@handles(j.RunEndedByMerge)
def _fold_run_ended_by_merge(state: CrewState, entry: j.RunEndedByMerge, _position: int) -> Changes:
    outcome = MergeOutcome(
        outcome="merged", other=entry.run, position=entry.position, renames=entry.renames
    )
    changes: Changes = {"status": "merged", "interrupts": {}, "status_reason": None}
    return {**outcome_changes(state, entry.merge, outcome), **changes}


@handles(j.ComponentChanged)
def _fold_component_changed(state: CrewState, entry: j.ComponentChanged, position: int) -> Changes:
    changes = cast("Changes", replace_graph(state, entry, position))
    for split_run in entry.split_runs:
        changes |= original_run_changes(state.model_copy(update=changes), split_run.contents)
        changes["rollback_floor"] = position
    return changes | entry.remaining_budget.state_changes(state)


@handles(j.RunMerged)
def _fold_run_merged(state: CrewState, entry: j.RunMerged, position: int) -> Changes:
    merged = CrewState.from_json(entry.merged_state)
    changes = merged_state_changes(state, merged, MergeNames.of(entry, state.visits))
    both = state.model_copy(update=changes)
    outcome = MergeOutcome(
        outcome="merged",
        other=entry.merged_run,
        position=position,
        merged_position=entry.merged_run_position,
        merged_started_at=entry.merged_run_started_at,
    )
    return {
        **changes,
        **replace_graph(both, entry, position),
        **outcome_changes(state, entry.merge, outcome),
        **entry.remaining_budget.state_changes(both),
        "rollback_floor": position,
        "merged_runs": merged_runs_after(state, merged, entry.merged_run, entry.renames),
    }
