"""What an answer changes in the state, besides closing its interrupt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewlog.authority.bindings import Binding
from crewlog.ids import InterruptId, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.excerpt import excerpt
from crewlog.state.model import Call, CrewState, Interrupt, InterruptAnswer, Turn

ESCALATED = "escalated"
"""The answer to an expired interrupt that is raised again for other people."""
ANSWERS_KEPT = 10
"""The most answered interrupts that the state keeps: every execution carries them."""
ANSWER_LENGTH = 80
"""Characters of an answer that it keeps."""


_MOST = 1e15
"""The most tokens or dollars that one answer may add: the sum must stay a number."""
_MOST_SECONDS = 3660 * 86400.0
"""The most time that one answer may add: ten years, as for every timer."""


def answer_changes(
    state: CrewState, interrupt: Interrupt, entry: j.InterruptAnswered
) -> dict[str, Any]:
    """What an answer changes of the run as a whole."""
    changes: dict[str, Any] = {}
    if entry.by or entry.expired:
        answer = InterruptAnswer(
            decision=excerpt(entry.decision, ANSWER_LENGTH),
            by=entry.by,
            expired=entry.expired,
            at=entry.at,
        )
        answers: dict[InterruptId, InterruptAnswer] = {**state.answers, interrupt.id: answer}
        changes["answers"] = dict([*answers.items()][-ANSWERS_KEPT:])
    if interrupt.kind == "limit" and entry.decision == interrupt.options[0]:
        changes["step_limit_raises"] = state.step_limit_raises + 1
    if interrupt.kind == "budget" and (more := budget_increase(interrupt, entry.decision)):
        changes["added_budgets"] = {
            **state.added_budgets,
            interrupt.budget: _added_budget(state, interrupt, entry, more),
        }
    return changes


def budget_increase(interrupt: Interrupt, decision: str) -> float:
    """How much an answer adds to a budget: the suggested amount, or the number that it says."""
    if decision == interrupt.options[0]:
        return interrupt.more
    try:
        more = float(decision)
    except ValueError:
        return 0
    return more if 0 < more <= (_MOST_SECONDS if interrupt.budget == "wall" else _MOST) else 0


def _added_budget(
    state: CrewState, interrupt: Interrupt, entry: j.InterruptAnswered, more: float
) -> float:
    if interrupt.budget == "wall":  # a time: what people took to answer does not count
        return entry.at + round(more * 1000)
    return state.added_budgets.get(interrupt.budget, 0) + more


def approval_fields(
    state: CrewState, interrupt: Interrupt, entry: j.InterruptAnswered
) -> dict[str, Any]:
    """The fields of an approved call, with the binding of the approval."""
    arguments = interrupt.arguments if entry.arguments is None else entry.arguments
    fields: dict[str, Any] = {
        "approved": interrupt.id,
        "arguments": arguments,
        "edited": entry.arguments is not None,
        "approver": entry.by,
        "deadline": entry.deadline,
    }
    step = state.frontier.get(interrupt.step) if interrupt.step else None
    calls = step.turn.calls if step is not None and step.turn is not None else ()
    for call in calls:
        if call.call == interrupt.call:
            approved_call = call.model_copy(update=fields)
            return {
                **fields,
                "binding": call_binding(
                    state.run, interrupt.step or StepId(""), approved_call
                ).hash,
            }
    return fields


def call_binding(run: RunId, step: StepId, call: Call) -> Binding:
    """What the approval of a call must be bound to, for the call to be made now."""
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
    """The turn with one more model call, after its last one."""
    changes: Mapping[str, Any] = {
        "calls": (*turn.calls, Call(call=turn.next_call)),
        "next_call": turn.next_call + 1,
        "model_calls": turn.model_calls + 1,
        "confidence": None,
        "goto": (),
        "results": (),
    }
    return turn.model_copy(update=changes)
