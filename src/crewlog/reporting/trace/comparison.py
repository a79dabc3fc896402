"""Two traces side by side, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from crewlog.ids import (
    StepId,
)
from crewlog.reporting.trace.view import StepTrace, Trace

# -- two runs ---------------------------------------------------------------------------------


@dataclass
class Pair:
    """A step of two traces."""

    step: StepId
    one: StepTrace | None
    other: StepTrace | None
    differs: tuple[str, ...] = ()
    """In what: `fate`, `calls`, `results`, `went`, …; empty where it does not."""


def align(one: Trace, other: Trace) -> list[Pair]:
    """The steps of two traces side by side, in the order of the first, then of the second.

    A visit that a rollback brought back counts as it was at last.
    """
    ours = {step.step: step for step in one.all_steps()}
    theirs = {step.step: step for step in other.all_steps()}
    return [
        Pair(step, ours.get(step), theirs.get(step), _step_diff(ours.get(step), theirs.get(step)))
        for step in (*ours, *(step for step in theirs if step not in ours))
    ]


def _step_diff(one: StepTrace | None, other: StepTrace | None) -> tuple[str, ...]:
    if one is None or other is None:
        return ("only in one",)
    pairs: dict[str, tuple[object, object]] = {
        "fate": (one.fate, other.fate),
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
