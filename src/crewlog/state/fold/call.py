"""How entries of calls change the state."""

from __future__ import annotations

from crewlog.ids import PUBLIC, AgentName, ContentHash
from crewlog.state import journal as j
from crewlog.state.answers import turn_with_model_call
from crewlog.state.excerpt import excerpt
from crewlog.state.finish_reason import ACCEPTED_FAULTS
from crewlog.state.fold.handlers import (
    Changes,
    handles,
    limit_changes,
    node_of_step,
    turn_of,
    turn_with_call,
    with_item,
    with_step,
)
from crewlog.state.fold.output import find_output, outputs_with
from crewlog.state.model import Call, CrewState, ListElement, Output
from crewlog.state.reducers import element_position, output_with_value
from crewlog.usage import Usage


@handles(j.ModelCallCompleted)
def _fold_model_call_completed(
    state: CrewState, entry: j.ModelCallCompleted, position: int
) -> Changes:
    turn = turn_of(state, entry.step)
    changes: Changes = {
        "usage": with_item(
            state.usage, entry.agent, state.usage.get(entry.agent, Usage()) + entry.usage
        ),
    }
    rest = tuple(c for c in turn.calls if c.call != entry.call)
    after = turn.model_copy(
        update={
            "calls": rest + entry.calls,
            "next_call": turn.next_call + len(entry.calls),
            "expected": len(entry.calls),
            "returned": 0,
            "unresolved": (),
            "cut": turn.cut + 1 if entry.ending == "cut" else 0,
            "refusal": entry.excerpt if entry.ending == "refused" else "",
        }
    )
    if entry.draft is not None:
        after = after.model_copy(update={"draft": entry.draft})
    if not entry.calls and not entry.refused:
        changes["agent_outputs"] = _outputs_with_text(state, entry, entry.ref.body, position)
        changes |= _accepted_reply_warning(state, entry)
    return {**changes, **with_step(state, entry.step, turn=after)}


def _accepted_reply_warning(state: CrewState, entry: j.ModelCallCompleted) -> Changes:
    """A warning that an accepted final message is not usable.

    An agent that a message woke may reply with nothing.
    """
    step = state.frontier.get(entry.step)
    is_woken = step is not None and step.waking_message is not None
    silent = entry.ending == "empty" and is_woken
    if not entry.ending or silent:
        return {}
    fault = ACCEPTED_FAULTS[entry.ending]
    return {"warning": f"The reply of {entry.agent!r} is taken as it is: {fault}."}


def _outputs_with_text(
    state: CrewState,
    entry: j.ModelCallCompleted | j.TurnLimitReached,
    body: ContentHash,
    position: int,
) -> dict[AgentName, dict[str, Output]]:
    """The outputs with an agent's final message as its text."""
    message_logs = entry.ref.logs if entry.ref is not None else ()
    logs = () if PUBLIC in message_logs else message_logs
    text = Output(body=body, position=position, logs=logs)
    if entry.append:
        element_at = element_position(state, entry.step, position)
        element = ListElement(body=body, position=element_at, logs=logs)
        text = output_with_value(find_output(state, entry.agent, "text"), element, position)
    return outputs_with(state, entry.agent, "text", text)


@handles(j.StructuredOutputParsed)
def _fold_structured_output_parsed(
    state: CrewState, entry: j.StructuredOutputParsed, _position: int
) -> Changes:
    confidence: Changes = {} if entry.confidence is None else {"confidence": entry.confidence}
    turn = turn_of(state, entry.step).model_copy(update={"refused": 0, "faults": (), **confidence})
    return with_step(state, entry.step, turn=turn)


@handles(j.StructuredOutputRejected)
def _fold_structured_output_rejected(
    state: CrewState, entry: j.StructuredOutputRejected, _position: int
) -> Changes:
    turn = turn_of(state, entry.step)
    turn = turn if entry.ref is None else turn_with_model_call(turn)
    faults = (*turn.faults, excerpt("; ".join(entry.errors)))
    changes: Changes = {"refused": entry.attempt, "faults": faults}
    return with_step(state, entry.step, turn=turn.model_copy(update=changes))


@handles(j.TurnLimitReached)
def _fold_turn_limit_reached(state: CrewState, entry: j.TurnLimitReached, position: int) -> Changes:
    turn = turn_of(state, entry.step).model_copy(update={"calls": (), "draft": None})
    changes = with_step(state, entry.step, turn=turn)
    if entry.ref is not None:
        changes["agent_outputs"] = _outputs_with_text(state, entry, entry.ref.body, position)
    most = "model call is its" if entry.calls == 1 else "model calls are its"
    return {
        **changes,
        **limit_changes(
            f"{entry.agent} was cut off, since {entry.calls} {most} most",
            "call_limit_reached",
            node_of_step(state, entry.step),
        ),
    }


@handles(j.ToolCallCompleted)
def _fold_tool_call_completed(
    state: CrewState, entry: j.ToolCallCompleted, _position: int
) -> Changes:
    turn = turn_of(state, entry.step)
    calls = tuple(c for c in turn.calls if c.call != entry.call)
    after: Changes = {
        "calls": calls,
        "returned": turn.returned + 1,
        "goto": turn.goto + entry.goto,
    }
    if entry.confidence is not None:
        after["confidence"] = entry.confidence
    if entry.result is not None:
        after["results"] = (*turn.results, entry.result)
    if entry.model_next:
        after["calls"] = (*calls, Call(call=turn.next_call))
        after["next_call"] = turn.next_call + 1
        after["model_calls"] = turn.model_calls + 1
    usage = state.usage.get(entry.agent, Usage()) + Usage(tool_calls=1)
    return {
        "usage": with_item(state.usage, entry.agent, usage),
        **with_step(state, entry.step, turn=turn.model_copy(update=after)),
    }


@handles(j.CompletionBuffered)
def _fold_completion_buffered(
    state: CrewState, entry: j.CompletionBuffered, _position: int
) -> Changes:
    turn = turn_with_call(
        state, entry.step, entry.call, status="buffered", completion=list(entry.entries)
    )
    return with_step(state, entry.step, turn=turn) if turn else {}


@handles(j.QuotaConsumed)
def _fold_quota_consumed(state: CrewState, entry: j.QuotaConsumed, _position: int) -> Changes:
    return _with_counted_call(state, entry, entry.quotas, 1)


@handles(j.QuotaReleased)
def _fold_quota_released(state: CrewState, entry: j.QuotaReleased, _position: int) -> Changes:
    return _with_counted_call(state, entry, (), -1)


def _with_counted_call(
    state: CrewState,
    entry: j.QuotaConsumed | j.QuotaReleased,
    counted_by: tuple[str, ...],
    change: int,
) -> Changes:
    """The state after quotas start or stop counting a call.

    Args:
        state: The state before.
        entry: The entry.
        counted_by: The quotas that count the call from now on.
        change: 1 or -1, for the quotas of the entry.
    """
    turn = turn_with_call(state, entry.step, entry.call, quotas=counted_by)
    quotas = {**state.quotas}
    for key in entry.quotas:
        quotas[key] = max(0, quotas.get(key, 0) + change)
    return {
        "quotas": quotas,
        **with_step(state, entry.step, **({} if turn is None else {"turn": turn})),
    }
