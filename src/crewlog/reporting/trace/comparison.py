"""Two traces side by side, step by step."""

from __future__ import annotations

from crewlog.json_diff import differences
from crewlog.model import Json
from crewlog.reporting.trace.view import StepPair, StepTrace, TraceDiffView, TraceView


def trace_diff(one: TraceView, other: TraceView) -> TraceDiffView:
    """The steps of two traces side by side.

    A step that a rollback brought back counts as it ended the last time.
    """
    ours = {step.step: step for step in one.all_steps()}
    theirs = {step.step: step for step in other.all_steps()}
    steps = (*ours, *(step for step in theirs if step not in ours))
    pairs = tuple(
        StepPair(
            step=step,
            one=(mine := ours.get(step)),
            other=(its := theirs.get(step)),
            differences=_step_diff(mine, its),
        )
        for step in steps
    )
    parts_at = next((pair.step for pair in pairs if pair.differences), None)
    return TraceDiffView(runs=(one.run, other.run), first_difference=parts_at, steps=pairs)


def _step_diff(one: StepTrace | None, other: StepTrace | None) -> tuple[str, ...]:
    if one is None or other is None:
        return ("only in one",)
    mine, its = _compared(one), _compared(other)
    if not (one.agent and other.agent):
        mine["agent"] = its["agent"] = None
    return tuple(each.path[0] for each in differences(mine, its, depth=1))


def _compared(step: StepTrace) -> dict[str, Json]:
    return {
        "status": step.status,
        "agent": step.agent,
        "items": step.item_count,
        "calls": [(call.tool or "model", call.arguments) for call in step.calls],
        "results": [(call.result, call.ok) for call in step.calls],
        "values": step.values,
        "answers": [(asked.kind, asked.decision) for asked in step.interrupts],
        "errors": [*step.errors, *(error for call in step.calls for error in call.errors)],
        "next_nodes": step.next_nodes,
    }
