"""Two traces side by side, step by step."""

from __future__ import annotations

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
            differs=_step_diff(mine, its),
        )
        for step in steps
    )
    parts_at = next((pair.step for pair in pairs if pair.differs), None)
    return TraceDiffView(runs=(one.run, other.run), parts_at=parts_at, steps=pairs)


def _step_diff(one: StepTrace | None, other: StepTrace | None) -> tuple[str, ...]:
    if one is None or other is None:
        return ("only in one",)
    pairs: dict[str, tuple[object, object]] = {
        "status": (one.status, other.status),
        "agent": (one.agent, other.agent) if one.agent and other.agent else (None, None),
        "items": (one.of, other.of),
        "calls": (_call_texts(one), _call_texts(other)),
        "results": (_results(one), _results(other)),
        "sets": (one.sets, other.sets),
        "answers": (_answers(one), _answers(other)),
        "errors": (_errors(one), _errors(other)),
        "went": (one.went, other.went),
    }
    return tuple(name for name, (a, b) in pairs.items() if a != b)


def _call_texts(step: StepTrace) -> list[tuple[str, str]]:
    return [(call.tool or "model", call.arguments) for call in step.calls]


def _results(step: StepTrace) -> list[tuple[str, bool | None]]:
    return [(call.result, call.ok) for call in step.calls]


def _answers(step: StepTrace) -> list[tuple[str, str]]:
    return [(asked.kind, asked.decision) for asked in step.asked]


def _errors(step: StepTrace) -> list[str]:
    return [*step.errors, *(error for call in step.calls for error in call.errors)]
