"""Calls of group tools, in the workflow: an agent's change of its own graph.

    flight   the tool's activity says which operations; then another one prepares the change
    loop     looks at it as at every change, and answers the call with what came of it

A call that lands when the run has another crew than it was prepared for is neither applied nor
answered: it is made again, for the crew that there is. What is applied is answered at once: a call
changes the graph once, whatever dies in between. And no call waits for a drain, which waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from crewlog.errors import ChangeConflict, CrewlogError
    from crewlog.graph.engine import Engine
    from crewlog.graph.group_tools import (
        PENDING_ANSWER,
        authorize_group_change,
        change_rejection_text,
        change_result_text,
        group_command_id,
    )
    from crewlog.graph.run_context import CallRequest
    from crewlog.model import Json
    from crewlog.wire import Change

from crewlog.workflows import changes
from crewlog.workflows.command_queue import QueuedCommand


@dataclass(frozen=True)
class GroupToolChange:
    """A call's change of its agent's graph, prepared."""

    order: CallRequest
    command: Change
    incoming: QueuedCommand
    before: str = ""
    """What the answer begins with: that people edited the arguments, where they did."""


async def prepare(
    engine: Engine,
    order: CallRequest,
    operations: Sequence[dict[str, Json]],
    text: str,
    queue: str,
) -> GroupToolChange:
    """Prepares the change that a call asks for, or notes why it is rejected.

    Args:
        engine: The run's engine; the run may move on meanwhile.
        order: The call.
        operations: The operations that its tool returned.
        text: The message of the tool.
        queue: The task queue of the run's activities; empty: the workflow's own.
    """
    command = Change.model_validate(
        {
            "id": group_command_id(order.step, order.call.call),
            "by": order.agent,
            "operations": operations,
            "reason": f"{order.step} called {order.call.tool}",
        }
    )
    incoming = QueuedCommand("change", {})
    if command.id not in engine.state.commands:
        try:
            await changes.prepare(incoming, command, engine, queue)
        except CrewlogError as error:
            incoming.refusal = error
    return GroupToolChange(order, command, incoming, text.removesuffix(PENDING_ANSWER))


async def apply(engine: Engine, asked: GroupToolChange) -> None:
    """Applies a call's change, and answers the call.

    Args:
        engine: The run's engine.
        asked: The change.
    """
    order, turns = asked.order, engine.turns
    call = turns.unanswered_call(order.step, order.call.call)
    if call is None:
        return
    decision = authorize_group_change(engine, order.step, order.agent, asked.command.operations)
    if not decision.allowed:
        await turns.deny_call(order.step, call, decision)
        return
    ok = True
    try:
        text = _changed(engine, asked.incoming, asked.command)
    except CrewlogError as error:
        text, ok = change_rejection_text(error), False
    if text:
        await turns.answer_call(order.step, call, asked.before + text, ok=ok)


def _changed(engine: Engine, incoming: QueuedCommand, command: Change) -> str:
    """What came of a change; empty where it must be prepared anew.

    Raises:
        CrewlogError: it is refused.
    """
    if command.id in engine.state.commands:
        return "Done before."
    if incoming.refusal is not None:
        raise incoming.refusal
    if engine.state.pending_change is not None:
        raise ChangeConflict(
            "the graph is being changed by somebody else", remedy="Try it again in a moment."
        )
    applied = changes.apply(engine, incoming, command)
    return "" if applied is None else change_result_text(applied.result.detail, applied.report)
