"""Calls of group tools, in the workflow: an agent changes its own component.

    call  the activity of the tool returns operations; another activity prepares the change
    loop  applies it like any change, and returns its outcome as the result of the call

If the definition has changed since the preparation, the call gets no result and is made again. The
change and the result are one transaction, so that a call changes the component once, even if the
worker is lost. The result does not wait for the drain, which waits for the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from crewlog.workflows.commands import changes
from crewlog.workflows.commands.queue import QueuedCommand, RefusedCommand


@dataclass(frozen=True)
class GroupToolChange:
    """The prepared change of a call."""

    request: CallRequest
    command: Change
    incoming: QueuedCommand
    prefix: str = ""
    """The start of the result: that people edited the arguments, if they did."""


async def prepare(
    engine: Engine,
    request: CallRequest,
    operations: Sequence[dict[str, Json]],
    text: str,
    queue: str,
) -> GroupToolChange:
    """Prepares the change of a call; if it is rejected, the result has the error.

    Args:
        engine: The engine of the run, which continues meanwhile.
        request: The call.
        operations: The operations that its tool returned.
        text: The message of the tool.
        queue: The task queue of the run's activities; empty: the workflow's own.
    """
    command = Change.model_validate(
        {
            "id": group_command_id(request.step, request.call.call),
            "by": request.agent,
            "operations": operations,
            "reason": f"{request.step} called {request.call.tool}",
        }
    )
    incoming = QueuedCommand("change", {})
    if command.id not in engine.state.commands:
        try:
            incoming.preparation = await changes.prepare(incoming, command, engine, queue)
        except CrewlogError as error:
            incoming.preparation = RefusedCommand(error)
    return GroupToolChange(request, command, incoming, text.removesuffix(PENDING_ANSWER))


async def apply(engine: Engine, change: GroupToolChange) -> None:
    """Applies the change of a call, and records the result of the call.

    Args:
        engine: The engine of the run.
        change: The change.
    """
    request, turns = change.request, engine.turns
    call = turns.unanswered_call(request.step, request.call.call)
    if call is None:
        return
    decision = authorize_group_change(
        engine, request.step, request.agent, change.command.operations
    )
    if not decision.allowed:
        await turns.deny_call(request.step, call, decision)
        return
    ok = True
    try:
        text = _apply_change(engine, change.incoming, change.command)
    except CrewlogError as error:
        text, ok = change_rejection_text(error), False
    if text:
        await turns.answer_call(request.step, call, change.prefix + text, ok=ok)


def _apply_change(engine: Engine, incoming: QueuedCommand, command: Change) -> str:
    """Applies a change; returns the text of its outcome, empty if it must be prepared again.

    Raises:
        CrewlogError: it is rejected.
    """
    if command.id in engine.state.commands:
        return "Done before."
    if isinstance(incoming.preparation, RefusedCommand):
        raise incoming.preparation.error
    if engine.state.pending_change is not None:
        raise ChangeConflict(
            "another change of the graph is pending", remedy="Try again in a moment."
        )
    applied = changes.apply(engine, incoming, command)
    return "" if applied is None else change_result_text(applied.result.detail, applied.report)
