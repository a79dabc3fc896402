"""What people's answers change in the state, besides the question that is open no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewlog.authority.bindings import Binding
from crewlog.ids import InterruptId, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.excerpt import excerpt
from crewlog.state.model import Call, CrewState, Interrupt, InterruptAnswer, Turn

ESCALATED = "escalated"
"""What answers a question that nobody answered in time, where others are asked the same."""
ANSWERS_KEPT = 10
"""Answered questions that the state tells of: every execution carries them."""
ANSWER_LENGTH = 80
"""Characters of an answer that it tells."""


_MOST = 1e15
"""How much more of tokens and dollars one answer can allow: what is added up must stay a number."""
_MOST_SECONDS = 3660 * 86400.0
"""The same of time: ten years, as for everything that is waited for."""


def answer_changes(
    state: CrewState, asked: Interrupt, entry: j.InterruptAnswered
) -> dict[str, Any]:
    """What an answer changes of the run as a whole."""
    changes: dict[str, Any] = {}
    if entry.by or entry.expired:
        told = InterruptAnswer(
            decision=excerpt(entry.decision, ANSWER_LENGTH),
            by=entry.by,
            expired=entry.expired,
            at=entry.at,
        )
        kept: dict[InterruptId, InterruptAnswer] = {**state.answers, asked.id: told}
        changes["answers"] = dict([*kept.items()][-ANSWERS_KEPT:])
    if asked.kind == "limit" and entry.decision == asked.options[0]:
        changes["step_limit_raises"] = state.step_limit_raises + 1
    if asked.kind == "budget" and (more := budget_extension(asked, entry.decision)):
        changes["added_budgets"] = {
            **state.added_budgets,
            asked.budget: _allowed(state, asked, entry, more),
        }
    return changes


def budget_extension(asked: Interrupt, decision: str) -> float:
    """How much more an answer allows: what was asked for, or the number that it says."""
    if decision == asked.options[0]:
        return asked.more
    try:
        more = float(decision)
    except ValueError:
        return 0
    return more if 0 < more <= (_MOST_SECONDS if asked.budget == "wall" else _MOST) else 0


def _allowed(state: CrewState, asked: Interrupt, entry: j.InterruptAnswered, more: float) -> float:
    if asked.budget == "wall":  # a time: what people took to answer does not count
        return entry.at + round(more * 1000)
    return state.added_budgets.get(asked.budget, 0) + more


def approval(state: CrewState, asked: Interrupt, entry: j.InterruptAnswered) -> dict[str, Any]:
    """What a yes says of its call, sealed."""
    arguments = asked.arguments if entry.arguments is None else entry.arguments
    approved: dict[str, Any] = {
        "approved": asked.id,
        "arguments": arguments,
        "edited": entry.arguments is not None,
        "approver": entry.by,
        "deadline": entry.deadline,
    }
    found = state.frontier.get(asked.step) if asked.step else None
    calls = found.turn.calls if found is not None and found.turn is not None else ()
    for call in calls:
        if call.call == asked.call:
            made = call.model_copy(update=approved)
            return {
                **approved,
                "binding": call_binding(state.run, asked.step or StepId(""), made).hash,
            }
    return approved


def call_binding(run: RunId, step: StepId, call: Call) -> Binding:
    """What a yes to a call must have been bound to, for it to be made now."""
    return Binding.model_validate(
        {
            "run": run,
            "interrupt": call.approved,
            "step": step,
            "call": call.call,
            "tool": call.tool or "",
            "id": call.id,
            "message": call.message or "",
            "arguments": call.arguments,
            "edited": call.edited,
            "by": call.approver,
            "until": call.deadline,
        }
    )


def turn_with_model_call(turn: Turn) -> Turn:
    """A turn that was over, with one more call of its model."""
    following: Mapping[str, Any] = {
        "calls": (*turn.calls, Call(call=turn.next_call)),
        "next_call": turn.next_call + 1,
        "model_calls": turn.model_calls + 1,
        "confidence": None,
        "goto": (),
        "results": (),
    }
    return turn.model_copy(update=following)
