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
from crewlog.state.conversation import Response, Said, Talk
from crewlog.state.frontier import ERROR
from crewlog.state.model import CrewState, Routing

Changes = dict[str, Any]
ASK_HUMAN = "ask_human"
"""Where a route goes whose bound people may let it pass."""


def fold_message_queued(state: CrewState, entry: j.MessageQueued, _position: int) -> Changes:
    """A message waits for its turn; one whose turn was undone is the first again."""
    said = Said(
        body=entry.ref.body,
        logs=entry.ref.logs,
        by=entry.by,
        command=entry.command or CommandId(entry.again),
    )
    return {"queue": (said, *state.queue) if entry.again else (*state.queue, said)}


def began(state: CrewState, entry: j.ExchangeStarted, position: int) -> Changes:
    """A turn begins."""
    before = state.talk or Talk()
    talk = Talk(
        turn=entry.turn,
        message=entry.said,
        by=entry.by,
        body=entry.body,
        began=position,
        at=entry.at,
        steps=state.steps,
        last=before.last,
    )
    return {
        "talk": talk,
        "turns": max(state.turns, entry.turn),
        "queue": tuple(said for said in state.queue if said.command != entry.said),
        "routing": Routing(),
        "execution_count": {},
        "error": "",
        "warning": "",
        "bound": "",
        "extensions": 0,
        "allowed": {key: value for key, value in state.allowed.items() if key != "wall"},
        "agent_outputs": {
            agent: {
                key: output
                for key, output in found.items()
                if key != ERROR and f"{agent}.{key}" not in entry.outputs
            }
            for agent, found in state.agent_outputs.items()
        },
        "flags": {**state.flags, **entry.flags},
        "flag_places": {
            flag: places for flag, places in state.flag_places.items() if flag not in entry.flags
        },
    }


def ended(state: CrewState, entry: j.ExchangeEnded, position: int) -> Changes:
    """A turn is over; the run waits for the next message."""
    before = state.talk or Talk()
    answer = Response(
        turn=entry.turn,
        message=before.message,
        response=entry.ref.body if entry.ref is not None else entry.response,
        agent=entry.agent,
        error=entry.error,
        warning=entry.warning,
        end_reason=entry.end_reason,
        position=position,
    )
    changes: Changes = {"turn": entry.turn, "resting": True, "due": entry.due}
    if entry.turn:
        changes["last"] = answer
    error = {"error": entry.error} if entry.error else {}
    return {
        "talk": before.model_copy(update=changes),
        "turns": max(state.turns, entry.turn),
        **error,
    }


def fold_idle_deadline_set(state: CrewState, entry: j.IdleDeadlineSet, _position: int) -> Changes:
    """How long it waits for the next message is counted anew."""
    if state.talk is None:
        return {}
    return {"talk": state.talk.model_copy(update={"due": entry.due})}


def warned(state: CrewState, entry: j.BranchTargetRefused, _position: int) -> Changes:
    """A route did not go where the output said: the answer of the turn may say so."""
    changes: Changes = {}
    if entry.used_up:
        reason: EndReason = "" if entry.goes == ASK_HUMAN else "route_limit_reached"
        changes = bounded(entry.because, reason, state.frontier[entry.step].node)
    if entry.tried is not None:
        count = state.execution_count.get(entry.tried, 0) + 1
        changes["execution_count"] = {**state.execution_count, entry.tried: count}
    if state.talk is not None:
        changes["talk"] = state.talk.model_copy(update={"warning": entry.because})
    return changes


def bounded(why: str, reason: EndReason, node: NodeName) -> Changes:
    """A bound was used up: who asked is told so, whoever answers.

    Args:
        why: Which bound, and by what.
        reason: The same, for programs; empty where people are asked whether it holds.
        node: The node that came to it.
    """
    told = {"warning": f"A limit was reached: {why}."}
    return {**told, "bound": reason, "bound_at": node} if reason else told


def without(state: CrewState, entry: j.StepFailed) -> Changes:
    """A step failed, and the run goes on without its result: who asked is told so.

    Not with the words of the error: they may hold what only its agent may see.
    """
    if entry.agent is None or entry.stood_in:
        return {}
    told = {"warning": f"The run went on without {entry.step}, which failed: {entry.error_type}."}
    reason = error_end_reason(entry.error_type)
    node = state.frontier[entry.step].node
    return {**told, "bound": reason, "bound_at": node} if reason else told


def failing(state: CrewState, error: str) -> Changes:
    """A step failed: the turn of a conversation keeps the last error."""
    return {} if state.talk is None else {"error": error}
