"""How the entries of a conversation change the state; `crewlog.state.fold` calls these.

An exchange starts the routing anew: completed nodes, arrivals and counts of branches. Visit numbers
and exchange numbers continue. Run outputs, outputs and the transcript stay. Errors and the lists
that several steps add to are reset, since those of the last exchange are not of this one.
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
"""Where a branch goes at its limit if people may raise that."""


def fold_message_queued(state: CrewState, entry: j.MessageQueued, _position: int) -> Changes:
    """A message waits for its exchange; one whose exchange was rolled back comes first."""
    message = QueuedMessage(
        body=entry.ref.body,
        logs=entry.ref.logs,
        by=entry.by,
        command=entry.command or CommandId(entry.requeued),
    )
    return {
        "message_queue": (message, *state.message_queue)
        if entry.requeued
        else (*state.message_queue, message)
    }


def fold_exchange_started(state: CrewState, entry: j.ExchangeStarted, position: int) -> Changes:
    """An exchange starts."""
    before = state.conversation or Conversation()
    conversation = Conversation(
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
        "conversation": conversation,
        "exchanges": max(state.exchanges, entry.exchange),
        "message_queue": tuple(
            message for message in state.message_queue if message.command != entry.message_command
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
                for key, output in agent_outputs.items()
                if key != ERROR and f"{agent}.{key}" not in entry.outputs
            }
            for agent, agent_outputs in state.agent_outputs.items()
        },
        "flags": {**state.flags, **entry.flags},
        "flag_positions": {
            flag: positions
            for flag, positions in state.flag_positions.items()
            if flag not in entry.flags
        },
    }


def fold_exchange_ended(state: CrewState, entry: j.ExchangeEnded, position: int) -> Changes:
    """An exchange ends; the run waits for the next message."""
    before = state.conversation or Conversation()
    response = Response(
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
        changes["last"] = response
    error = {"error": entry.error} if entry.error else {}
    return {
        "conversation": before.model_copy(update=changes),
        "exchanges": max(state.exchanges, entry.exchange),
        **error,
    }


def fold_idle_deadline_set(state: CrewState, entry: j.IdleDeadlineSet, _position: int) -> Changes:
    """The wait for the next message gets another deadline."""
    if state.conversation is None:
        return {}
    return {"conversation": state.conversation.model_copy(update={"deadline": entry.deadline})}


def fold_branch_target_refused(
    state: CrewState, entry: j.BranchTargetRefused, _position: int
) -> Changes:
    """A branch did not go where the output said: the response of the exchange may report that."""
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
    """What changes when a limit is reached: the run warns of it.

    Args:
        why: Which limit, and by what.
        reason: The end reason; empty if people are asked whether to continue.
        node: The node that reached it.
    """
    changes = {"warning": f"A limit was reached: {why}."}
    return {**changes, "limit_reached": reason, "limit_node": node} if reason else changes


def failed_step_warning(state: CrewState, entry: j.StepFailed) -> Changes:
    """The warning that the run continues without a failed step.

    It does not quote the error, which may contain what only the agent may see.
    """
    if entry.agent is None or entry.has_stand_in:
        return {}
    changes = {
        "warning": f"The run went on without {entry.step}, which failed: {entry.error_type}."
    }
    reason = error_end_reason(entry.error_type)
    node = state.frontier[entry.step].node
    return {**changes, "limit_reached": reason, "limit_node": node} if reason else changes


def exchange_error(state: CrewState, error: str) -> Changes:
    """The last error of an exchange, when a step of a conversation fails."""
    return {} if state.conversation is None else {"error": error}
