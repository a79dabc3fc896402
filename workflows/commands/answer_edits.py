"""Answers that edit: an activity checks the arguments or the definition first.

The tool is on a worker, so the check is an activity; the loop applies other commands meanwhile.
If another answer is applied first, this one is refused, checked or not.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
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
    """The check that an answer needs; none where it edits nothing that can be checked.

    Args:
        engine: The run's engine.
        incoming: The answer; where the edited call is not open any more, it is prepared already.
        command: The same, parsed.
        queue: The task queue of the run's activities; empty: the workflow's own.
    """
    asked = engine.state.interrupts.get(command.interrupt)
    action = command.decisions[0].edited_action
    if asked is None or action is None:
        return None
    if asked.kind == "approval" and engine.prompt.is_active and action.name == ACTION:
        definition = action.args.get("definition")
        edited: dict[str, Json] = definition if isinstance(definition, dict) else {}  # pyright: ignore[reportUnknownVariableType]
        return _check_definition(engine, edited)
    if asked.kind != "tool_approval" or asked.step is None or action.name != asked.tool:
        return None
    if not _is_open(engine, asked, asked.step):
        incoming.preparation = CheckedArguments()
        return None
    return _check_arguments(engine, asked.step, ToolName(asked.tool), action.args, queue)


async def _check_arguments(
    engine: Engine, step: StepId, tool: ToolName, args: dict[str, Json], queue: str
) -> CheckedArguments | RefusedEdit:
    entry = engine.state.frontier.get(step)
    rules = engine.plan.plan_tool_of(entry, tool)
    try:
        found: CheckArgumentsResult = await workflow.execute_activity(
            CHECK_ARGUMENTS,
            CheckArguments(
                definition=engine.plan.definition_hash_of(entry),
                tool=tool,
                args=args,
                agent=engine.agent_of(step) or AgentName(""),
            ),
            result_type=CheckArgumentsResult,
            task_queue=(rules.queue if rules is not None else None) or queue or None,
            **CHECK_ARGUMENTS_OPTIONS,
        )
    except ActivityError as error:
        return RefusedEdit(
            CommandRejected(
                f"the edited arguments of {tool!r} could not be checked: {_error_text(error)}",
                remedy="The question stays open: send it again, with a new id.",
            )
        )
    if found.fault:
        remedy = "The question stays open: correct them, and answer again."
        return RefusedEdit(InvalidArguments(found.fault, remedy=remedy))
    return CheckedArguments()


async def _check_definition(
    engine: Engine, definition: dict[str, Json]
) -> PrepareRunResult | RefusedEdit:
    draft = engine.prompt.draft
    try:
        found: PrepareRunResult = await workflow.execute_activity(
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
    return found


def _error_text(error: ActivityError) -> str:
    cause = error.cause
    return cause.message if isinstance(cause, ApplicationError) else str(cause or error)


def _is_open(engine: Engine, asked: Interrupt, step: StepId) -> bool:
    """Whether the call that the question is about still waits."""
    return any(call.call == asked.call for call in calls_of(engine.state.frontier.get(step)))
