"""Answers that put other arguments in the place of a call's: checked before they are accepted.

The tool is on a worker, so an activity checks them, in the update's handler: the loop waits for
nobody. Whoever else answers meanwhile is first; then this answer is refused, checked or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from crewlog.errors import CommandRejected, InvalidArguments
    from crewlog.graph.engine import Engine
    from crewlog.graph.turns import calls_of
    from crewlog.ids import AgentName, ToolName
    from crewlog.state.calls import CHECK_ARGUMENTS, CheckArguments, CheckArgumentsResult
    from crewlog.state.model import Interrupt
    from crewlog.wire import Respond

from crewlog.workflows.activity_options import EDITING
from crewlog.workflows.command_queue import parse

if TYPE_CHECKING:
    from crewlog.workflows.command_queue import QueuedCommand


async def check_edited_arguments(engine: Engine, incoming: QueuedCommand, queue: str) -> None:
    """Has the arguments checked of an answer that edits a call, where it is one."""
    command = parse("respond", incoming.data)
    if not isinstance(command, Respond) or command.id in engine.state.commands:
        return
    asked = engine.state.interrupts.get(command.interrupt)
    edited = command.decisions[0].edited_action
    if asked is None or asked.kind != "tool_approval" or asked.step is None or edited is None:
        return
    if edited.name != asked.tool:
        return
    incoming.checked = True
    if not _is_open(engine, asked):
        return
    step = engine.state.frontier.get(asked.step)
    rules = engine.plan.plan_tool_of(step, asked.tool)
    try:
        found: CheckArgumentsResult = await workflow.execute_activity(
            CHECK_ARGUMENTS,
            CheckArguments(
                definition=engine.plan.definition_hash_of(step),
                tool=ToolName(asked.tool),
                args=edited.args,
                agent=engine.agent_of(asked.step) or AgentName(""),
            ),
            result_type=CheckArgumentsResult,
            task_queue=(rules.queue if rules is not None else None) or queue or None,
            **EDITING,
        )
    except ActivityError as error:
        incoming.fault = CommandRejected(
            f"the edited arguments of {asked.tool!r} could not be checked: "
            f"{activity_error_text(error)}",
            remedy="The question stays open: send it again, with a new id.",
        )
        return
    if found.fault:
        incoming.fault = InvalidArguments(
            found.fault, remedy="The question stays open: correct them, and answer again."
        )


def activity_error_text(error: ActivityError) -> str:
    """What an activity says that could not check what people put in the place of something."""
    cause = error.cause
    return cause.message if isinstance(cause, ApplicationError) else str(cause or error)


def _is_open(engine: Engine, asked: Interrupt) -> bool:
    """Whether the call is still there that people are asked about."""
    entry = engine.state.frontier.get(asked.step) if asked.step else None
    return any(call.call == asked.call for call in calls_of(entry))
