"""The activities of calls: of models, of tools, and of the compilation of a prompt."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from crewlog.errors import InternalError
from crewlog.graph.artifacts import unresolved_calls
from crewlog.graph.engine import Engine
from crewlog.graph.final_messages import truncated_messages
from crewlog.graph.inputs import agent_inputs
from crewlog.graph.prompt_compilation import STEP
from crewlog.graph.run_context import CallRequest
from crewlog.graph.wakes import waking_message
from crewlog.ids import ToolName
from crewlog.state.answers import call_binding
from crewlog.state.batch_codec import pack_view
from crewlog.state.calls import (
    CALL_MODEL,
    CALL_TOOL,
    COMPILE_PROMPT,
    PREPARE_RUN,
    CallModel,
    CallModelResult,
    CallTool,
    CallToolResult,
    CompilePromptResult,
    PrepareRun,
    PrepareRunResult,
)
from crewlog.workflows.activity_options import (
    COMPILE_OPTIONS,
    PREPARE_RUN_OPTIONS,
    local_tool_options,
    model_options,
    tool_options,
)
from crewlog.workflows.context import ExecutionContext


def start_call(context: ExecutionContext, request: CallRequest, *, is_local: bool) -> Any:
    """Starts the activity of a call.

    Args:
        context: What the parts of the execution share.
        request: The call.
        is_local: Whether a tool call is a local activity.

    Returns:
        An awaitable with the result of the activity.
    """
    if request.step == STEP:
        return _compile_call(context, request)
    if request.call.tool:
        return _tool_call(context, request, is_local=is_local)
    return _model_call(context, request)


def _compile_call(context: ExecutionContext, request: CallRequest) -> Any:
    prompt = context.engine.prompt
    if request.call.tool is None:
        return workflow.execute_activity(
            COMPILE_PROMPT,
            prompt.compile_input(),
            result_type=CompilePromptResult,
            task_queue=context.task_queue or None,
            **COMPILE_OPTIONS,
        )
    return workflow.execute_activity(
        PREPARE_RUN,
        PrepareRun(run=context.engine.state.run, crew=prompt.definition or {}),
        result_type=PrepareRunResult,
        **PREPARE_RUN_OPTIONS,
    )


def _model_call(context: ExecutionContext, request: CallRequest) -> Any:
    engine = context.engine
    return workflow.execute_activity(
        CALL_MODEL,
        CallModel(
            tools=engine.tools_of(request.agent, request.step),
            item=engine.child_steps.item(request.step),
            unresolved=unresolved_calls(engine.state, request.step),
            waking_message=waking_message(engine.state, request.step),
            cut=truncated_messages(engine.state, request.step),
            **_step_call(engine, request),
        ),
        result_type=CallModelResult,
        **model_options(engine.plan, engine.state, request, context.task_queue or None),
    )


def _tool_call(context: ExecutionContext, request: CallRequest, *, is_local: bool) -> Any:
    engine, call = context.engine, request.call
    if call.message is None or call.tool is None:
        raise InternalError(f"the call {request.step}/{call.call} names no message")
    quotas = engine.quotas(request.agent, call.tool, request.step)
    task = CallTool(
        tool=ToolName(call.tool),
        id=call.id,
        message=call.message,
        **_approval(engine, request),
        has_live_permission=engine.has_live_permission(request.agent, call.tool, request.step),
        quotas=quotas,
        run_started_at=engine.state.started_at if quotas else 0,
        **_step_call(engine, request),
    )
    plan = engine.plan
    if is_local:
        options = local_tool_options(plan, engine.state, request)
        return workflow.execute_local_activity(
            CALL_TOOL, task, result_type=CallToolResult, **options
        )
    options = tool_options(plan, engine.state, request, context.task_queue or None)
    return workflow.execute_activity(CALL_TOOL, task, result_type=CallToolResult, **options)


def _approval(engine: Engine, request: CallRequest) -> dict[str, Any]:
    """The approval of a call, if there is one that is valid for it."""
    step, call = request.step, request.call
    if not call.approved or not engine.check_approval(step, call).allowed:
        return {}
    binding = call_binding(engine.state.run, step, call)
    return {"approved": call.approved, "approval": binding.approval(call.binding)}


def _step_call(engine: Engine, request: CallRequest) -> dict[str, Any]:
    """The fields of the input of each call; few bytes, since the history keeps each input."""
    batch = engine.journal.batch()
    step = engine.state.frontier[request.step]
    same = str(step.node) == request.agent
    return {
        "step": request.step,
        "call": request.call.call,
        "agent": "" if same else request.agent,
        "definition": engine.plan.definition_hash_of(step),
        "view": pack_view(engine.view(request.agent, request.step), engine.journal.extended_logs),
        "batch": batch,
        "attempt": request.call.attempt,
        "position": 0 if batch.entries else engine.state.position,
        "inputs": agent_inputs(engine, request.agent, request.step),
    }
