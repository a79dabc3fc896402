"""One tool call: it is authorized again, made, and answered with a message for the model.

An error has one of four sources, which decides what follows:
- the model (invalid arguments, an unknown tool, no permission): an error message to the model;
- the tool (it raised): the same, or a failed step if the tool has `on_error: fail`;
- a transient error (connections, timeouts): a retry by Temporal, if the tool may be repeated;
- the worker (it cannot import the tool): a failure before any effect, which people can repair.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolInvocationError
from temporalio import activity

from crewlog.activities.ai_messages import json_error
from crewlog.activities.approvals import (
    check_approval,
    edit_error,
    load_arguments,
    with_edit_notice,
)
from crewlog.activities.arguments import (
    allowlist_error,
    argument_names,
    check_error,
    find_unknown_check,
    invalid_arguments_message,
    schema_error,
    validation_faults,
)
from crewlog.activities.artifacts import (
    Artifacts,
    InvalidOperations,
    build_artifact_changes,
    find_denials,
    parse_operations,
    with_text,
)
from crewlog.activities.batches import append_batch, store_bodies
from crewlog.activities.built_in_tools import SET_FLAG, SET_OUTPUT, BuiltInTools
from crewlog.activities.definitions import Definitions, agent_of
from crewlog.activities.event_loops import CANCEL_TIMEOUT, CHECK_INTERVAL, EventLoopBlocked
from crewlog.activities.failures import Effect
from crewlog.activities.files import Files
from crewlog.activities.heartbeats import Heartbeat
from crewlog.activities.hydrator import Hydrator
from crewlog.activities.inputs import Inputs, Values, declared_names, tool_inputs
from crewlog.activities.permissions import (
    CallDenied,
    check_permissions_unchanged,
    count_call,
    may_have_started,
    recheck_permissions,
    release_if_not_started,
    release_quotas,
)
from crewlog.activities.start_records import check_not_started, write_start_record
from crewlog.activities.structured_output import output_value
from crewlog.activities.tool_loader import BUILT_IN, Tool, ToolLoader
from crewlog.activities.tool_node import Outcome, ToolRunner, ToolState, with_outputs
from crewlog.activities.tool_results import NotJson, ToolValidationError
from crewlog.activities.view_reader import ViewReader
from crewlog.activities.workspaces import Workspaces
from crewlog.authority.permissions import is_always_asked
from crewlog.canonical_json import hash_json, utf8_json, utf8_text
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import AgentDefinition, CrewDefinition, ToolDefinition
from crewlog.definition.reaching import mcp_tool
from crewlog.errors import (
    CrewlogError,
    InternalError,
    OutcomeUnknown,
    PermissionsChanged,
    ToolFailed,
    ToolMissing,
    error_text,
    flat_errors,
    joined_error_text,
)
from crewlog.ids import ContentHash, idempotency_key
from crewlog.model import Json
from crewlog.redaction import redacted_json, redacted_text
from crewlog.secrets import resolve
from crewlog.state.artifacts import Content
from crewlog.state.calls import (
    CallTool,
    CallToolResult,
    CheckArguments,
    GraphOperationsReturned,
    OutputValue,
    SentMessage,
    ToolCallDenied,
    ToolCallInvalid,
    ToolReturned,
    attempt_owner,
)
from crewlog.state.excerpt import excerpt
from crewlog.state.messages import message_to_json
from crewlog.store.protocol import Store
from crewlog.tool_call import ToolCall, calling, workspace_of

_LONGEST_ERROR = 4_000
_LONGEST_REASON = 1_000
_TRANSIENT_MODULES = frozenset({"httpx", "httpx2", "httpcore", "requests", "aiohttp", "urllib3"})
_TRANSIENT_NAMES = frozenset(
    {"TransportError", "Timeout", "ConnectionError", "ClientConnectionError"}
)


class _TransientToolFailed(ToolFailed):
    """A tool raised a transient error, and may be repeated."""

    retryable = True


class _ModelMistakeError(Exception):
    """The call is not valid; the model gets the error, and may repair it."""


@dataclass
class _Context:
    """A call that is ready to be made."""

    task: CallTool
    definition: ToolDefinition
    tool: Tool
    args: dict[str, Any]
    crew: CrewDefinition
    seen: dict[str, Content] = field(default_factory=dict[str, Content])
    """The artifacts that the agent sees, as of the view of the call."""
    inputs: Values = field(default_factory=list[Any])
    """The inputs of the agent that are set."""

    @property
    def agent(self) -> AgentDefinition:
        """The agent that makes the call."""
        return agent_of(self.crew, self.task.agent)


class ToolCalls:
    """Runs tool calls on a worker.

    Args:
        store: The store with the messages.
        definitions: The cache of definitions.
        hydrator: The cache of transcripts.
        registry: The loader of tools.
        built_in: The built-in tools.
        workspace: The directory with one directory for each run.
        artifacts: The cache of artifacts.
        files: The store of the files of messages.
    """

    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        hydrator: Hydrator,
        registry: ToolLoader,
        built_in: BuiltInTools,
        workspace: Path,
        artifacts: Artifacts,
        files: Files,
    ) -> None:
        self._store = store
        self._files = files
        self._definitions = definitions
        self._hydrator = hydrator
        self._registry = registry
        self._built_in = built_in
        self._workspace = workspace
        self._workspaces = Workspaces(workspace, store)
        self._runner = ToolRunner()
        self._view_reader = ViewReader(store, definitions, hydrator, artifacts)
        self._inputs = Inputs(store, definitions, self._view_reader)

    async def run(self, task: CallTool, effect: Effect, heartbeat: Heartbeat) -> CallToolResult:
        """Makes the call and stores its message."""
        # A local activity runs before its workflow task is in the history. If the task is repeated,
        # the journal may differ: store bodies, which are named by their hash, and no entries.
        local = activity.info().is_local
        checked_at = time.monotonic()
        if local:
            self._hydrator.add_batch(task.run, task.batch)
            last_permission = await self._store.last_permission_position(task.run)
        else:
            last_permission = await append_batch(self._store, task.run, task.batch)
        crew = await self._definitions.get(task.definition)
        try:
            check_permissions_unchanged(task, last_permission)
        except PermissionsChanged:
            await self._check_not_started(task, crew)
            raise
        message = await self._hydrator.read_message(task.run, task.message)
        started_at = time.monotonic()
        quota_periods: dict[str, str] = {}
        try:
            context = await self._prepare(task, message, crew)
            quota_periods = await count_call(self._store, task)
            call, state = await self._begin(context, heartbeat, checked_at)
        except PermissionsChanged:
            await self._check_not_started(task, crew)
            await release_if_not_started(self._store, task, quota_periods)
            raise
        except (CallDenied, _ModelMistakeError) as error:
            await self._check_not_started(task, crew)
            quota_periods = await release_if_not_started(self._store, task, quota_periods)
            outcome = _error_outcome(task, str(error))
            outcome.result = _not_made(task, error)
        else:
            try:
                outcome = await self._execute(context, call, state, effect)
            except ToolInvocationError as exc:
                await release_quotas(self._store, task)
                outcome, quota_periods = _error_outcome(task, _invalid_arguments_text(exc)), {}
                outcome.result = ToolCallInvalid(unmade=not may_have_started(task))
            if task.approval is not None and task.approval.edited:
                notice = with_edit_notice(outcome.message, context.args)
                outcome = replace(outcome, message=cast("ToolMessage", notice))
        if (agent := agent_of(crew, task.agent)).does:
            outcome = with_outputs(outcome, agent)
        ms = int((time.monotonic() - started_at) * 1000)
        result = await self._result(task, outcome, ms)
        if quota_periods:
            result = result.model_copy(
                update={"quota_periods": quota_periods, "run_started_at": task.run_started_at}
            )
        return result.model_copy(update={"journaled": False}) if local else result

    async def _prepare(self, task: CallTool, message: Any, crew: CrewDefinition) -> _Context:
        """Finds the call and the tool, and authorizes the call again."""
        if not isinstance(message, AIMessage):
            raise InternalError(f"the message {task.message!r} is not a model's reply")
        agent = agent_of(crew, task.agent)
        for invalid in message.invalid_tool_calls:
            if invalid["id"] == task.id:
                text = invalid["args"] or ""
                raise _ModelMistakeError(
                    f"The arguments of {invalid['name']!r} cannot be used: {json_error(text)}: "
                    f"{excerpt(text, 200)!r}. Call it again with valid arguments."
                )
        call = next((c for c in message.tool_calls if c["id"] == task.id), None)
        if call is None:
            raise InternalError(f"the message {task.message!r} has no call {task.id!r}")
        if call["name"] not in (*crew.callable_tools, SET_FLAG, SET_OUTPUT):
            offered = crew.tools if agent.tools is None else agent.tools
            near = did_you_mean(
                call["name"], offered, f"There are: {', '.join(offered) or 'none'}."
            )
            raise _ModelMistakeError(f"There is no tool {call['name']!r}. {near}")
        # The workflow authorized a tool by name and an agent: the message must have the same.
        if not task.permitted or call["name"] != task.tool or message.name != task.agent:
            raise CallDenied(f"You may not use the tool {call['name']!r}.", "tools")
        if is_always_asked(crew, task.agent, task.tool) and not (
            task.approved or task.has_live_permission
        ):
            raise CallDenied(f"Nobody has approved this call of {call['name']!r}.", "approvals")
        definition = crew.tools.get(task.tool, BUILT_IN)
        tool = await self._tool(task, crew, definition)
        args = await load_arguments(self._store, task, call["args"])
        if fault := schema_error(tool, args):
            raise _ModelMistakeError(fault)
        # A failed check of the definition is a denial, which the journal records.
        workspace = workspace_of(self._workspace, task.run)
        if fault := check_error(tool, args) or await allowlist_error(tool, args, workspace):
            raise CallDenied(fault, "checks")
        return _Context(task, definition, tool, args, crew)

    async def _check_not_started(self, task: CallTool, crew: CrewDefinition) -> None:
        """Checks that no attempt has begun a call with the retry mode `never`.

        A denial says that the call was not made, so that must be certain.
        """
        if crew.tools.get(task.tool, BUILT_IN).repeat == "never":
            await check_not_started(self._store, task)

    async def check_arguments(self, task: CheckArguments) -> str:
        """Returns what is wrong with edited arguments; empty: nothing."""
        crew = await self._definitions.get(task.definition)
        if task.tool in crew.tools:
            return edit_error(await self._registry.load(task.tool, crew), task.args)
        built_in = task.agent in crew.agents and self._built_in.tool(task.tool, crew, task.agent)
        if not built_in:
            return f"the crew no longer has the tool {task.tool!r}, or anything to use it on"
        return edit_error(built_in, task.args)

    async def _tool(self, task: CallTool, crew: CrewDefinition, definition: ToolDefinition) -> Tool:
        if definition is not BUILT_IN:
            tool = await self._registry.load(task.tool, crew, for_call=True)
            return check_argument_names(tool)
        built_in = self._built_in.tool(task.tool, crew, task.agent)
        if built_in is None:
            raise _ModelMistakeError(f"There is nothing for you to use {task.tool!r} on.")
        return built_in

    async def _begin(
        self, context: _Context, heartbeat: Heartbeat, checked_at: float
    ) -> tuple[ToolCall, ToolState]:
        """Prepares the call, and then authorizes it for the last time."""
        task = context.task
        state: ToolState = {"run": task.run, "step": task.step, "agent": task.agent}
        if context.tool.reads_state:
            state["messages"] = await self._view_reader.read_transcript(task, complete=False)
        context.seen = await self._view_reader.read_artifacts(task)
        context.inputs = await self._inputs.values(task, context.agent)
        execution = activity.info().workflow_run_id or ""
        folder = await self._workspaces.make(task.run, execution)
        call = self._call(context, heartbeat, folder)
        for reference in context.definition.secrets.values():
            resolve(reference)  # a missing secret is found before the call begins
        check_approval(task)
        if context.definition.repeat == "never":
            info = activity.info()
            owner = attempt_owner(info.workflow_run_id or "", info.activity_id, info.attempt)
            await write_start_record(self._store, task, owner)
        else:
            await recheck_permissions(self._store, task, checked_at)
        return call, state

    async def _execute(
        self, context: _Context, call: ToolCall, state: ToolState, effect: Effect
    ) -> Outcome:
        task = context.task
        effect.started = True
        try:
            with calling(call):
                running = self._runner.run(context.tool, task.id, context.args, state)
                outcome = await _run_cancellable(running, context.tool, call.stop)
                _check_server_error(context, outcome.message)
                return _with_artifact_changes(context, outcome)
        except ToolInvocationError:
            raise
        except (NotJson, InvalidOperations) as exc:
            # The tool ran: neither a retry nor a failed step helps.
            return _error_outcome(task, _error_text(exc))
        except Exception as exc:
            if isinstance(exc, EventLoopBlocked):
                call.stop.set()  # the tool may still run, and read this
            unknown = (each for each in flat_errors(exc) if isinstance(each, OutcomeUnknown))
            if context.definition.repeat == "never" and isinstance(exc, EventLoopBlocked):
                raise OutcomeUnknown(exc.message, remedy=exc.remedy) from exc
            if context.definition.repeat == "never" and (first := next(unknown, None)):
                # People are asked: a model that gets an error would make the call again.
                raise first from exc
            return self._handle_error(context, exc)

    def _call(self, context: _Context, heartbeat: Heartbeat, workspace: Path) -> ToolCall:
        task = context.task
        return ToolCall(
            run=task.run,
            step=task.step,
            call=task.call,
            key=idempotency_key(task.run, task.step, task.call),
            id=task.id,
            agent=task.agent,
            tool=task.tool,
            attempt=task.attempt + activity.info().attempt - 1,
            timeout=context.definition.timeout,
            workspace=workspace,
            paths=context.definition.paths,
            hosts=context.definition.hosts,
            secrets=context.definition.secrets,
            artifacts={name: content.value for name, content in context.seen.items()},
            inputs=tool_inputs(context.inputs),
            declared=declared_names(context.agent),
            beat=heartbeat.beat,
            stop=threading.Event(),
        )

    def _handle_error(self, context: _Context, exc: Exception) -> Outcome:
        definition = context.definition
        retries = (
            _is_transient(exc)
            and definition.repeat != "never"
            and activity.info().attempt < definition.policy.attempts
        )
        if not retries and definition.on_error == "model":
            return _error_outcome(context.task, _error_text(exc))
        error = _TransientToolFailed if retries else ToolFailed
        raise error(
            f"the tool {context.task.tool!r} raised {_error_text(exc)}",
            remedy="See the worker's log for where it was raised.",
            place=f"step {context.task.step}, call {context.task.call}",
        ) from exc

    async def _result(self, task: CallTool, outcome: Outcome, ms: int) -> CallToolResult:
        message = outcome.message.model_copy(
            update={
                "tool_call_id": task.id,
                "name": str(task.tool),
                "id": f"{task.step}/{task.call}",
            }
        )
        if type(message.content) is list:
            message = await self._files.store_files(message)
        body = cast("dict[str, Json]", redacted_json(message_to_json(message)))
        hash_ = hash_json(body)
        bodies: dict[ContentHash, Json] = {hash_: body}
        outputs = [
            output_value(utf8_text(redacted_text(name)), redacted_json(utf8_json(value)))
            for name, value in outcome.outputs.items()
        ]
        bodies |= {each.body: each.content for each in outputs if each.body is not None}
        bodies |= {change.body: change.content for change in outcome.changes}
        stored = await store_bodies(self._store, task.run, bodies)
        self._hydrator.add_body(task.run, hash_, body)
        return CallToolResult(
            body=body,
            hash=hash_,
            ok=message.status == "success",
            ms=ms,
            outcome=outcome.result or _returned_outcome(outcome, outputs),
            stored=stored,
        )


def _returned_outcome(
    outcome: Outcome, outputs: Sequence[OutputValue]
) -> ToolReturned | GraphOperationsReturned:
    """Returns the outcome of a call whose tool ran, as the workflow applies it."""
    if outcome.graph_changes:
        operations = cast("list[dict[str, Json]]", redacted_json(utf8_json(outcome.graph_changes)))
        return GraphOperationsReturned(operations=tuple(operations))
    return ToolReturned(
        flags={
            utf8_text(redacted_text(k)): redacted_json(utf8_json(v))
            for k, v in outcome.flags.items()
        },
        outputs=tuple(outputs),
        operations=outcome.changes,
        sends=tuple(
            SentMessage(channel=each["channel"], text=utf8_text(redacted_text(each["text"])))
            for each in outcome.sends
        ),
        goto=tuple(outcome.goto),
    )


def _not_made(
    task: CallTool, error: CallDenied | _ModelMistakeError
) -> ToolCallDenied | ToolCallInvalid:
    """Returns the outcome of a call that is not made."""
    if isinstance(error, CallDenied):
        reason = excerpt(utf8_text(redacted_text(str(error))), _LONGEST_REASON)
        return ToolCallDenied(reason=reason, rule=error.rule)
    return ToolCallInvalid(unmade=not may_have_started(task))


def check_argument_names(tool: Tool) -> Tool:
    """Returns the tool, if it has every argument that its definition checks.

    A misspelt name must not disable a check.

    Raises:
        ToolMissing: it lacks an argument.
    """
    if tool.definition.checks and (name := find_unknown_check(tool)):
        known = argument_names(tool, name)
        raise ToolMissing(
            f"the tool {tool.tool.name!r} has no argument {name!r}, which its definition checks",
            remedy=did_you_mean(name, known, f"It has: {', '.join(known) or 'none'}."),
            place=f"tool {tool.tool.name!r}",
        )
    return tool


async def _run_cancellable(
    running: Coroutine[Any, Any, Outcome], tool: Tool, stop: threading.Event
) -> Outcome:
    """Waits for a tool so that a cancellation reaches it, in a coroutine or in a thread."""
    work = asyncio.ensure_future(running)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        if tool.runs_in_thread:  # a thread must read `stop`; its result is discarded
            await asyncio.wait({work}, timeout=CANCEL_TIMEOUT)
        work.cancel()
        # A tool that does not end within the timeout is abandoned, which takes a moment more.
        await asyncio.wait({work}, timeout=CANCEL_TIMEOUT + CHECK_INTERVAL)
        if work.done() and not work.cancelled():
            work.exception()  # retrieved, so that asyncio logs no warning
        raise


def _check_server_error(context: _Context, message: ToolMessage) -> None:
    """Checks that an MCP server returned no error, if errors of the tool fail the step.

    Raises:
        ToolFailed: it returned one.
    """
    definition = context.definition
    answers = mcp_tool(definition.run) is not None and message.status == "error"
    if answers and definition.on_error == "fail":
        raise ToolFailed(str(message.text))


def _with_artifact_changes(context: _Context, outcome: Outcome) -> Outcome:
    """Returns the outcome with the artifact operations of its `Command` or its message.

    Raises:
        ToolFailed: the operations are not valid.
    """
    crew, task, message = context.crew, context.task, outcome.message
    operations = list(outcome.operations)
    artifact: Any = message.artifact
    if crew.artifacts and isinstance(artifact, dict) and "operations" in artifact:
        rest: dict[str, Any] = dict(artifact)  # pyright: ignore[reportUnknownArgumentType]
        operations += parse_operations(task.tool, rest.pop("operations"))
        message = message.model_copy(update={"artifact": rest or None})
    if not operations:
        return outcome
    changes = build_artifact_changes(task, crew, operations, context.seen)
    if reasons := find_denials(crew, task.agent, changes):
        message = with_text(message, "Refused: " + "; ".join(reasons) + ".")
    return replace(outcome, message=message, changes=changes)


def _error_outcome(task: CallTool, text: str) -> Outcome:
    return Outcome(ToolMessage(text, tool_call_id=task.id, name=str(task.tool), status="error"))


def _invalid_arguments_text(exc: ToolInvocationError) -> str:
    return invalid_arguments_message(
        exc.tool_name, validation_faults(list(exc.filtered_errors or exc.source.errors()))
    )


def _error_text(exc: Exception) -> str:
    """Returns the text of an error for the model, without a traceback."""
    # Redacted before it is truncated: half a secret is still one. A file name may not be UTF-8.
    text = utf8_text(redacted_text(joined_error_text(exc, _cause_text)))
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


def _cause_text(exc: BaseException) -> str:
    if isinstance(exc, CrewlogError):
        return f"{exc.message}. {exc.remedy}" if exc.remedy else exc.message
    return error_text(exc.cause if isinstance(exc, ToolValidationError) else exc)


def _is_transient(exc: BaseException) -> bool:
    """Whether a retry may succeed; of an error group, whether all of its errors are transient."""
    if isinstance(exc, BaseExceptionGroup):
        errors = flat_errors(cast("BaseExceptionGroup[BaseException]", exc))
        return all(map(_is_transient, errors))
    if isinstance(exc, CrewlogError):
        return exc.retryable
    if isinstance(exc, ConnectionError | TimeoutError):
        return True
    return any(
        c.__module__.partition(".")[0] in _TRANSIENT_MODULES and c.__name__ in _TRANSIENT_NAMES
        for c in type(exc).__mro__
    )
