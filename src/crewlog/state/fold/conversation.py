"""How entries of a conversation change the state.

An exchange starts the routing anew: completed nodes, arrivals and counts of branches. Visit numbers
and exchange numbers continue. Run outputs, outputs and the transcript stay. Errors and the lists
that several steps add to are reset, since those of the last exchange are not of this one.
"""

from __future__ import annotations

from crewlog.ids import CommandId
from crewlog.state import journal as j
from crewlog.state.conversation import Conversation, QueuedMessage, Response
from crewlog.state.fold.handlers import Changes, handles
from crewlog.state.fold.step import add_steps
from crewlog.state.frontier import ERROR
from crewlog.state.model import CrewState, Idle, Routing, WakingMessage


@handles(j.MessageAdded)
def _fold_message_added(_state: CrewState, entry: j.MessageAdded, _position: int) -> Changes:
    return {"request": entry.ref.body} if entry.asks else {}


@handles(j.AgentsWoken)
def _fold_agents_woken(state: CrewState, entry: j.AgentsWoken, position: int) -> Changes:
    frontier, visits = dict(state.frontier), dict(state.visits)
    message = WakingMessage(log=entry.log, body=entry.body, by=entry.by)
    add_steps(frontier, visits, [j.ReachedNode(node=node) for node in entry.to], position, message)
    for node in entry.also:
        waiting = [e for e in frontier.values() if e.node == node and e.waking_message is not None]
        if waiting and (last := waiting[-1].waking_message) is not None:
            waking_message = last.model_copy(update={"more": last.more + 1})
            frontier[waiting[-1].step] = waiting[-1].model_copy(
                update={"waking_message": waking_message}
            )
    return {"frontier": frontier, "visits": visits, "idle": None}


@handles(j.IdleStarted)
def _fold_idle_started(_state: CrewState, entry: j.IdleStarted, position: int) -> Changes:
    return {"idle": Idle(deadline=entry.deadline, position=position)}


@handles(j.MessageQueued)
def _fold_message_queued(state: CrewState, entry: j.MessageQueued, _position: int) -> Changes:
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


@handles(j.ExchangeStarted)
def _fold_exchange_started(state: CrewState, entry: j.ExchangeStarted, position: int) -> Changes:
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


@handles(j.ExchangeEnded)
def _fold_exchange_ended(state: CrewState, entry: j.ExchangeEnded, position: int) -> Changes:
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


@handles(j.IdleDeadlineSet)
def _fold_idle_deadline_set(state: CrewState, entry: j.IdleDeadlineSet, _position: int) -> Changes:
    """The wait for the next message gets another deadline."""
    if state.conversation is None:
        return {}
    return {"conversation": state.conversation.model_copy(update={"deadline": entry.deadline})}
