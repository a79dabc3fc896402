"""How entries of interrupts change the state."""

from __future__ import annotations

from crewlog.ids import ANY_NODE
from crewlog.state import journal as j
from crewlog.state.answers import ESCALATED, answer_changes, approval_fields, turn_with_model_call
from crewlog.state.fold.handlers import (
    Changes,
    handles,
    turn_of,
    turn_with_call,
    with_item,
    with_step,
    without_item,
)
from crewlog.state.model import CrewState


@handles(j.InterruptRaised)
def _fold_interrupt_raised(state: CrewState, entry: j.InterruptRaised, position: int) -> Changes:
    interrupt = entry.interrupt.model_copy(update={"position": position})
    changes: Changes = {
        "interrupt_count": state.interrupt_count + 1,
        "interrupts": with_item(state.interrupts, interrupt.id, interrupt),
    }
    if interrupt.kind == "manual":
        # A breakpoint interrupts the run once.
        reached = {ANY_NODE}
        if interrupt.step:
            reached.add(state.frontier[interrupt.step].node)
        changes["breakpoints"] = tuple(n for n in state.breakpoints if n not in reached)
    # A call that waits for an MCP approval is repeated without an answer: it is not interrupted.
    if interrupt.step is None or interrupt.kind == "mcp_approval":
        return changes
    # An earlier approval of the call is not valid any more.
    unapproved = {"approved": "", "binding": "", "arguments": interrupt.arguments, "edited": False}
    turn = turn_with_call(
        state,
        interrupt.step,
        interrupt.call,
        status="interrupted",
        **(unapproved if interrupt.kind == "tool_approval" else {}),
    )
    step_changes: Changes = {"turn": turn} if turn else {}
    # A turn with other calls stays running; only this call is interrupted.
    if interrupt.call is None or interrupt.kind == "step_failed":
        step_changes["status"] = "interrupted"
    return {**changes, **with_step(state, interrupt.step, since=position, **step_changes)}


@handles(j.InterruptAnswered)
def _fold_interrupt_answered(
    state: CrewState, entry: j.InterruptAnswered, position: int
) -> Changes:
    interrupt = state.interrupts.get(entry.interrupt)
    changes: Changes = {"interrupts": without_item(state.interrupts, entry.interrupt)}
    if interrupt is not None:
        changes |= answer_changes(state, interrupt, entry)
    current = state.frontier.get(interrupt.step) if interrupt and interrupt.step else None
    if current is None or interrupt is None or interrupt.kind == "mcp_approval":
        return changes
    if interrupt.kind == "tool_approval" and entry.decision in ("approve", "edit"):
        approved = approval_fields(state, interrupt, entry)
        turn = turn_with_call(state, current.step, interrupt.call, status="ready", **approved)
        current = current.model_copy(update={"turn": turn})
        changes["frontier"] = with_item(state.frontier, current.step, current)
    # Any other answer to a low confidence is `again` or a text for the agent: its model is called
    # again. With these, the turn or the run ends, or other people are asked.
    without_new_call = ("withdrawn", ESCALATED, "go on", "stop")
    if interrupt.kind == "low_confidence" and entry.decision not in without_new_call:
        current = current.model_copy(
            update={"turn": turn_with_model_call(turn_of(state, current.step))}
        )
    if current.status != "interrupted":
        return changes
    running = current.turn is not None or current.child_steps is not None
    if interrupt.kind == "ask" and entry.decision in ("withdrawn", ESCALATED):
        running = True  # it has started, and asks again when it continues
    status = "waiting" if current.requirement else "running" if running else "ready"
    after = current.model_copy(update={"status": status, "since": position})
    return {**changes, "frontier": with_item(state.frontier, current.step, after)}


@handles(j.InterruptDeadlineSet)
def _fold_interrupt_deadline_set(
    state: CrewState, entry: j.InterruptDeadlineSet, _position: int
) -> Changes:
    interrupt = state.interrupts.get(entry.interrupt)
    if interrupt is None:
        return {}
    after = interrupt.model_copy(update={"deadline": entry.deadline})
    return {"interrupts": with_item(state.interrupts, interrupt.id, after)}


@handles(j.BreakpointSet)
def _fold_breakpoint_set(state: CrewState, entry: j.BreakpointSet, _position: int) -> Changes:
    if entry.node in state.breakpoints:
        return {}
    return {"breakpoints": (*state.breakpoints, entry.node)}
