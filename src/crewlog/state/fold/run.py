"""How entries of a run change the state."""

from __future__ import annotations

from crewlog.state import journal as j
from crewlog.state.fold.handlers import REASON_LENGTH, Changes, handles
from crewlog.state.model import CrewState, StatusReason


@handles(j.RunStarted)
def _fold_run_started(_state: CrewState, entry: j.RunStarted, _position: int) -> Changes:
    return {
        "crew": entry.crew,
        "definition": entry.definition,
        "recipe": entry.definition,
        "flags": dict(entry.flags),
        "tool_permissions": dict(entry.permissions),
        "coordination_rules": entry.coordination_rules,
        "started_at": entry.started_at or entry.at,
    }


@handles(j.Paused)
def _fold_paused(_state: CrewState, entry: j.Paused, position: int) -> Changes:
    reason = StatusReason(reason=entry.reason[:REASON_LENGTH], by=entry.by, position=position)
    return {"status": "paused", "status_reason": reason}


@handles(j.RunResumed)
def _fold_run_resumed(_state: CrewState, _entry: j.RunResumed, _position: int) -> Changes:
    return {"status": "running", "status_reason": None}


@handles(j.StopRequested)
def _fold_stop_requested(_state: CrewState, entry: j.StopRequested, position: int) -> Changes:
    reason = StatusReason(
        reason=entry.reason[:REASON_LENGTH],
        by=entry.by,
        position=position,
        end_reason=entry.end_reason,
    )
    return {"status": "stopping", "status_reason": reason}


@handles(j.ExecutionContinuedAsNew)
def _fold_execution_continued_as_new(
    _state: CrewState, entry: j.ExecutionContinuedAsNew, _position: int
) -> Changes:
    return {"execution": entry.execution}


@handles(j.RunCompleted)
def _fold_run_completed(_state: CrewState, entry: j.RunCompleted, _position: int) -> Changes:
    return {"status": "completed", "end_reason": entry.end_reason, "status_reason": None}


@handles(j.RunStopped)
def _fold_run_stopped(_state: CrewState, entry: j.RunStopped, _position: int) -> Changes:
    return {"status": "stopped", "end_reason": entry.end_reason, "interrupts": {}}


@handles(j.RunFailed)
def _fold_run_failed(_state: CrewState, entry: j.RunFailed, _position: int) -> Changes:
    return {
        "status": "failed",
        "end_reason": entry.end_reason,
        "error": entry.error,
        "error_type": entry.error_type,
        "interrupts": {},
    }
