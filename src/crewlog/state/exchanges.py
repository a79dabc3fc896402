"""What the entries of a conversation do to the state; `crewlog.state.fold` finds these here.

A turn begins the routing anew: what was done, what arrived where, and how often the run went where.
The numbers of visits and of turns go on. Flags, outputs and the transcript stay, but for what
several steps put together, and errors: those of the last turn would be taken for this one's.
"""

from __future__ import annotations

from typing import Any

from crewlog.ids import CommandId, NodeName
from crewlog.run_status import EndReason, error_end_reason
from crewlog.state import journal as j
from crewlog.state.conversation import Conversation, QueuedMessage, Response
from crewlog.state.frontier import ERROR
from crewlog.state.model import CrewState, Routing

Changes = dict[str, Any]
ASK_HUMAN = "ask_human"
"""Where a route goes whose bound people may let it pass."""


def fold_message_queued(state: CrewState, entry: j.MessageQueued, _position: int) -> Changes:
    """A message waits for its turn; one whose turn was undone is the first again."""
    said = QueuedMessage(
        body=entry.ref.body,
        logs=entry.ref.logs,
        by=entry.by,
        command=entry.command or CommandId(entry.requeued),
    )
    return {
        "message_queue": (said, *state.message_queue)
        if entry.requeued
        else (*state.message_queue, said)
    }


def fold_exchange_started(state: CrewState, entry: j.ExchangeStarted, position: int) -> Changes:
    """A turn begins."""
    before = state.conversation or Conversation()
    talk = Conversation(
        exchange=entry.exchange,
        message=entry.message_command,
        by=entry.by,
        body=entry.body,
        start_position=position,
        at=entry.at,
        steps=state.steps,
        last=before.last,
    )
    return {
        "conversation": talk,
        "exchanges": max(state.exchanges, entry.exchange),
        "message_queue": tuple(
            said for said in state.message_queue if said.command != entry.message_command
        ),
        "routing": Routing(),
        "execution_count": {},
        "error": "",
        "warning": "",
        "limit_reached": "",
        "step_limit_raises": 0,
        "added_budgets": {
            key: value for key, value in state.added_budgets.items() if key != "wall"
        },
        "agent_outputs": {
            agent: {
                key: output
                for key, output in found.items()
                if key != ERROR and f"{agent}.{key}" not in entry.outputs
            }
            for agent, found in state.agent_outputs.items()
        },
        "flags": {**state.flags, **entry.flags},
        "flag_positions": {
            flag: places for flag, places in state.flag_positions.items() if flag not in entry.flags
        },
    }


def fold_exchange_ended(state: CrewState, entry: j.ExchangeEnded, position: int) -> Changes:
    """A turn is over; the run waits for the next message."""
    before = state.conversation or Conversation()
    answer = Response(
        exchange=entry.exchange,
        message=before.message,
        response=entry.ref.body if entry.ref is not None else entry.response,
        agent=entry.agent,
        error=entry.error,
        warning=entry.warning,
        end_reason=entry.end_reason,
        position=position,
    )
    changes: Changes = {"exchange": entry.exchange, "is_idle": True, "deadline": entry.deadline}
    if entry.exchange:
        changes["last"] = answer
    error = {"error": entry.error} if entry.error else {}
    return {
        "conversation": before.model_copy(update=changes),
        "exchanges": max(state.exchanges, entry.exchange),
        **error,
    }


def fold_idle_deadline_set(state: CrewState, entry: j.IdleDeadlineSet, _position: int) -> Changes:
    """How long it waits for the next message is counted anew."""
    if state.conversation is None:
        return {}
    return {"conversation": state.conversation.model_copy(update={"deadline": entry.deadline})}


def fold_branch_target_refused(
    state: CrewState, entry: j.BranchTargetRefused, _position: int
) -> Changes:
    """A route did not go where the output said: the answer of the turn may say so."""
    changes: Changes = {}
    if entry.used_up:
        reason: EndReason = "" if entry.goes == ASK_HUMAN else "route_limit_reached"
        changes = limit_changes(entry.because, reason, state.frontier[entry.step].node)
    if entry.tried is not None:
        count = state.execution_count.get(entry.tried, 0) + 1
        changes["execution_count"] = {**state.execution_count, entry.tried: count}
    if state.conversation is not None:
        changes["conversation"] = state.conversation.model_copy(update={"warning": entry.because})
    return changes


def limit_changes(why: str, reason: EndReason, node: NodeName) -> Changes:
    """A bound was used up: who asked is told so, whoever answers.

    Args:
        why: Which bound, and by what.
        reason: The same, for programs; empty where people are asked whether it holds.
        node: The node that came to it.
    """
    told = {"warning": f"A limit was reached: {why}."}
    return {**told, "limit_reached": reason, "limit_node": node} if reason else told


def failed_step_warning(state: CrewState, entry: j.StepFailed) -> Changes:
    """A step failed, and the run goes on without its result: who asked is told so.

    Not with the words of the error: they may hold what only its agent may see.
    """
    if entry.agent is None or entry.has_stand_in:
        return {}
    told = {"warning": f"The run went on without {entry.step}, which failed: {entry.error_type}."}
    reason = error_end_reason(entry.error_type)
    node = state.frontier[entry.step].node
    return {**told, "limit_reached": reason, "limit_node": node} if reason else told


def exchange_error(state: CrewState, error: str) -> Changes:
    """A step failed: the turn of a conversation keeps the last error."""
    return {} if state.conversation is None else {"error": error}
