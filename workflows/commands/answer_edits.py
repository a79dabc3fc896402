"""Answers that edit: an activity checks the arguments or the definition first.

The tool is on a worker, so the check is an activity; the loop applies other commands meanwhile.
If another answer is applied first, this one is rejected.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from crewlog.errors import CommandRejected, InvalidArguments
from crewlog.graph.engine import Engine
from crewlog.graph.interrupts import ACTION
from crewlog.graph.turns import calls_of
from crewlog.ids import AgentName, StepId, ToolName
from crewlog.model import Json
from crewlog.state.calls import (
    CHECK_ARGUMENTS,
    PREPARE_RUN,
    CheckArguments,
    CheckArgumentsResult,
    PrepareRun,
    PrepareRunResult,
)
from crewlog.state.model import Interrupt
from crewlog.wire import Answer
from crewlog.workflows.activity_options import CHECK_ARGUMENTS_OPTIONS, PREPARE_RUN_OPTIONS
from crewlog.workflows.commands.queue import (
    CheckedArguments,
    Preparation,
    QueuedCommand,
    RefusedEdit,
)


def prepare(
    engine: Engine, incoming: QueuedCommand, command: Answer, queue: str
) -> Coroutine[Any, Any, Preparation] | None:
    """The check that an answer needs; none if it has no edit that can be checked.

    Args:
        engine: The run's engine.
        incoming: The answer. If the edited call has ended, this sets its preparation.
        command: The same, parsed.
        queue: The task queue of the run's activities; empty: the workflow's own.
    """
    interrupt = engine.state.interrupts.get(command.interrupt)
    action = command.decisions[0].edited_action
    if interrupt is None or action is None:
        return None
    if interrupt.kind == "approval" and engine.prompt.is_active and action.name == ACTION:
        value = action.args.get("definition")
        definition: dict[str, Json] = value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]
        return _check_definition(engine, definition)
    step = interrupt.step
    if interrupt.kind != "tool_approval" or step is None or action.name != interrupt.tool:
        return None
    if not _is_call_open(engine, interrupt, step):
        incoming.preparation = CheckedArguments()
        return None
    return _check_arguments(engine, step, ToolName(interrupt.tool), action.args, queue)


async def _check_arguments(
    engine: Engine, step: StepId, tool: ToolName, args: dict[str, Json], queue: str
) -> CheckedArguments | RefusedEdit:
    entry = engine.state.frontier.get(step)
    plan_tool = engine.plan.plan_tool_of(entry, tool)
    try:
        result: CheckArgumentsResult = await workflow.execute_activity(
            CHECK_ARGUMENTS,
            CheckArguments(
                definition=engine.plan.definition_hash_of(entry),
                tool=tool,
                args=args,
                agent=engine.agent_of(step) or AgentName(""),
            ),
            result_type=CheckArgumentsResult,
            task_queue=(plan_tool.queue if plan_tool is not None else None) or queue or None,
            **CHECK_ARGUMENTS_OPTIONS,
        )
    except ActivityError as error:
        return RefusedEdit(
            CommandRejected(
                f"the edited arguments of {tool!r} could not be checked: {_error_text(error)}",
                remedy="The question stays open: send the answer again, with a new id.",
            )
        )
    if result.fault:
        remedy = "The question stays open: correct the arguments, and answer again."
        return RefusedEdit(InvalidArguments(result.fault, remedy=remedy))
    return CheckedArguments()


async def _check_definition(
    engine: Engine, definition: dict[str, Json]
) -> PrepareRunResult | RefusedEdit:
    draft = engine.prompt.draft
    try:
        result: PrepareRunResult = await workflow.execute_activity(
            PREPARE_RUN,
            PrepareRun(
                run=engine.state.run,
                crew=definition,
                edited=True,
                registry=engine.prompt.state.registry,
                model=draft.model if draft is not None else "",
            ),
            result_type=PrepareRunResult,
            **PREPARE_RUN_OPTIONS,
        )
    except ActivityError as error:
        return RefusedEdit(
            CommandRejected(
                f"the edited crew is not valid:\n{_error_text(error)}",
                remedy="The question stays open: correct the definition, and answer again.",
            )
        )
    return result


def _error_text(error: ActivityError) -> str:
    cause = error.cause
    return cause.message if isinstance(cause, ApplicationError) else str(cause or error)


def _is_call_open(engine: Engine, interrupt: Interrupt, step: StepId) -> bool:
    """Whether the call of an interrupt still waits."""
    return any(call.call == interrupt.call for call in calls_of(engine.state.frontier.get(step)))
