"""One model call: store its batch, hydrate the view, call the model, and store its message."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast

from cachetools import LRUCache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from temporalio import activity

from crewlog.activities import permissions
from crewlog.activities.ai_messages import build_message, check_complete, to_message
from crewlog.activities.artifacts import Artifacts, find_refused_operations
from crewlog.activities.batches import append_batch, store_batch_and_bodies, store_bodies
from crewlog.activities.built_in_tools import BuiltInTools
from crewlog.activities.call_context import CallTranscripts, Context
from crewlog.activities.chat_models import ModelFactory, with_larger_limit
from crewlog.activities.chunks import (
    ChunkSender,
    StreamingUnsupported,
    prompt_value,
    stream_message,
)
from crewlog.activities.definitions import Definitions, agent_of
from crewlog.activities.failures import Effect
from crewlog.activities.files import Files
from crewlog.activities.heartbeats import Heartbeat
from crewlog.activities.hydrator import Hydrator
from crewlog.activities.inputs import Inputs
from crewlog.activities.model_errors import is_request_rejected, may_be_shorter, model_error
from crewlog.activities.structured_output import ResponseFormats, parse_output
from crewlog.activities.summaries import Summaries
from crewlog.activities.tool_loader import ToolLoader
from crewlog.activities.transcripts import (
    build_prompt,
    with_item,
    with_waking_message,
    without_old_reasoning,
)
from crewlog.activities.usage import compute_usage, with_usage
from crewlog.activities.view_reader import ViewReader
from crewlog.canonical_json import check_depth, hash_json
from crewlog.definition.model import AgentDefinition, CrewDefinition
from crewlog.definition.reading import Form
from crewlog.errors import ModelError, ModelRequestRejected, StoreUnavailable
from crewlog.ids import ContentHash, RunId, StepId
from crewlog.model import Json
from crewlog.redaction import redacted_json
from crewlog.state.calls import (
    CallModel,
    CallModelResult,
    FinalMessage,
    FinalMessageInvalid,
    MessageOutcome,
    MessageUnusable,
    RefusedOperations,
    ToolCallsRequested,
    requested_calls,
)
from crewlog.state.drafts import draft_text
from crewlog.state.excerpt import message_excerpt
from crewlog.state.finish_reason import Ending, finish_reason
from crewlog.state.messages import message_to_json
from crewlog.store.protocol import Store


class CallPreparation:
    """Stores the batch of a call and checks its permissions, each once.

    The history has the batch; the store gets it for its readers. A quick message is stored together
    with it, in one round trip; so the batch is stored alone only if the message takes longer than
    `QUICK_SECONDS`, or what precedes the request longer than `PREPARATION_SECONDS`.

    A delayed call checks the permissions before the model is called; the store also returns their
    position when it stores the batch. For a quick model, a separate check is cheaper than storing
    twice.

    Args:
        store: The store with the journal.
        task: The call.
    """

    def __init__(self, store: Store, task: CallModel) -> None:
        self._store = store
        self._task = task
        self._checked_at = permissions.scheduled_at()
        self._requested_at = 0.0
        self._last_change = 0
        """The last position with a change of permissions, at the last check."""
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._storing: asyncio.Task[bool] | None = None
        self._stored = not task.batch.entries
        """Whether the store has the batch of the call."""
        self._store_after(PREPARATION_SECONDS)

    def _store_after(self, seconds: float) -> None:
        """Stores the batch after some time, unless `finish` or `cancel` is called before."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._stored and self._storing is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._start_storing)

    def _start_storing(self) -> None:
        self._storing = asyncio.ensure_future(self._try_to_store())

    async def _try_to_store(self) -> bool:
        """Stores the batch; false if the store is unavailable: the run sends the batch again."""
        async with self._lock:
            with suppress(StoreUnavailable):
                await self._append()
        return self._stored

    async def check_permissions(self, *, quick: bool) -> None:
        """Checks the permissions right before the request, unless the last check is recent enough.

        Args:
            quick: Whether the model answered its last call within `QUICK_SECONDS`.

        Raises:
            PermissionsChanged: they have changed; the run makes a new view for the call.
            StoreUnavailable: the store does not answer; the model is not called.
        """
        if time.monotonic() - self._checked_at > permissions.FRESH:
            async with self._lock:
                if self._stored or quick:
                    at = time.monotonic()
                    self._last_change = await self._store.last_permission_position(self._task.run)
                    self._checked_at = at
                else:
                    await self._append()
        permissions.check_permissions_unchanged(self._task, self._last_change)
        self._requested_at = time.monotonic()
        self._store_after(QUICK_SECONDS)

    async def _append(self) -> None:
        if self._stored:
            return
        at = time.monotonic()
        self._last_change = await append_batch(self._store, self._task.run, self._task.batch)
        self._checked_at, self._stored = at, True

    @property
    def is_quick(self) -> bool:
        """Whether at most `QUICK_SECONDS` have passed since the request."""
        return time.monotonic() - self._requested_at <= QUICK_SECONDS

    async def finish(self) -> bool | None:
        """Ends the storing; returns whether the store has the batch, None if no write was tried."""
        self._cancel_timer()
        if self._storing is not None:
            return await self._storing
        return self._stored or None

    async def store(self) -> None:
        """Stores the batch now, unless the store is unavailable."""
        if not await self.finish():
            await self._try_to_store()

    async def cancel(self) -> None:
        """Cancels the storing."""
        self._cancel_timer()
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.gather(self._storing, return_exceptions=True)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


QUICK_SECONDS = 0.05
"""The longest time from the request that a batch waits to be stored together with the message."""
PREPARATION_SECONDS = 0.5
"""The longest time from the start of the activity that a batch waits for the request."""


class _ModelMessage(NamedTuple):
    """The message of a model, with all that is needed to store it."""

    model: str
    message: AIMessage
    context: Context
    """The context that the model got."""
    form: Form | None
    """The structured output that a final message must have."""
    may_end: bool
    """Whether the turn may end with the text of a message that is not final."""


class _Request(NamedTuple):
    """The common part of all requests of a call."""

    name: str
    agent: AgentDefinition
    task: CallModel
    heartbeat: Heartbeat
    config: RunnableConfig


class ModelCalls:
    """Makes model calls on a worker.

    Args:
        store: The store with the messages.
        definitions: The cache of definitions.
        hydrator: The cache of transcripts.
        models: The factory of chat models.
        registry: The loader of tools.
        built_in: The built-in tools.
        artifacts: The cache of artifacts.
        files: The store of the files of messages.
    """

    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        hydrator: Hydrator,
        models: ModelFactory,
        registry: ToolLoader,
        built_in: BuiltInTools,
        artifacts: Artifacts,
        files: Files,
    ) -> None:
        self._store = store
        self._files = files
        self._definitions = definitions
        self._hydrator = hydrator
        self._models = models
        self._registry = registry
        self._built_in = built_in
        self._view_reader = ViewReader(store, definitions, hydrator, artifacts)
        self._context = CallTranscripts(
            self._view_reader,
            Inputs(store, definitions, self._view_reader),
            Summaries(store, models),
        )
        self._silent: LRUCache[str, bool] = LRUCache(256)
        """Models that did not stream a message."""
        self._doublings: LRUCache[tuple[RunId, StepId], int] = LRUCache(256)
        """The most doublings of the output limit in steps whose provider rejected a larger one."""
        self._formats = ResponseFormats()
        self._quick: LRUCache[str, bool] = LRUCache(256)
        """Whether models answered their last call at once."""

    async def run(self, task: CallModel, effect: Effect, heartbeat: Heartbeat) -> CallModelResult:
        """Calls the model, streams its chunks, and stores its message."""
        preparation = CallPreparation(self._store, task)
        try:
            reply = await self._call(task, preparation, effect, heartbeat)
        except asyncio.CancelledError:
            await preparation.cancel()
            raise
        except Exception:
            await preparation.store()
            raise
        name, message, context, form, may_end = reply
        self._quick[name] = preparation.is_quick
        journaled = await preparation.finish()
        ending = finish_reason(message)
        ai_message = build_message(
            message, task.agent, task.step, task.call, model=name, ending=ending
        )
        if type(ai_message.content) is list:
            ai_message = await self._files.store_files(ai_message)
        body = cast("dict[str, Json]", redacted_json(message_to_json(ai_message)))
        _check_depth(body, name)
        hash_ = hash_json(body)
        outcome, parts = await _outcome(ai_message, body, ending, form, may_end=may_end)
        bodies = {hash_: body, **parts}
        if journaled is None:
            stored = journaled = await store_batch_and_bodies(
                self._store, task.run, task.batch, bodies
            )
        else:
            stored = await store_bodies(self._store, task.run, bodies)
        self._hydrator.add_body(task.run, hash_, body)
        # The message still has the metadata that prices depend on.
        usage = await compute_usage(message, name) + context.usage
        result = CallModelResult(
            body=body,
            hash=hash_,
            usage=usage,
            window=context.window,
            refused_operations=await self._find_refused_operations(task),
            stored=stored,
            journaled=journaled,
        )
        return result if outcome is None else result.model_copy(update={"outcome": outcome})

    async def _find_refused_operations(self, task: CallModel) -> tuple[RefusedOperations, ...]:
        """Returns the operations of the turn that did not apply after those of other agents."""
        if not task.unresolved:
            return ()
        return find_refused_operations(
            task.step, task.unresolved, await self._view_reader.read_artifacts(task)
        )

    async def _call(
        self, task: CallModel, preparation: CallPreparation, effect: Effect, heartbeat: Heartbeat
    ) -> _ModelMessage:
        """Calls the model."""
        crew = await self._definitions.get(task.definition)
        agent = agent_of(crew, task.agent)
        name = _model_name(crew, agent, task)
        context = await self._context.build(task, crew, agent, name)
        transcript = context.transcript
        timeout = _request_timeout(agent.timeout)
        models: list[tuple[int, Any]] = await self._models_for(
            task, name, agent.model_settings, timeout
        )
        if schemas := await self._schemas(task, crew):
            models = [(doublings, model.bind_tools(schemas)) for doublings, model in models]
        instruction = await self._definitions.task(task.definition, task.step)
        if (item := await self._view_reader.read_item(task)) is not None:
            transcript = with_item(transcript, item, task.step, task.view.former_steps)
        transcript = without_old_reasoning(transcript, task.step, task.view.former_steps)
        if task.waking_message is not None:
            message = await self._hydrator.read_message(task.run, task.waking_message.body)
            transcript = with_waking_message(transcript, message, task.waking_message, task.step)
        form = await self._definitions.form(task.definition, task.agent)
        output_instructions = form.instructions if form is not None else ""
        awareness = await self._definitions.awareness(task.definition, task.agent)
        prompt = build_prompt(
            task.agent, agent, task.tools, transcript, instruction, output_instructions, awareness
        )
        sent = prompt
        # One call, however long the transcript is.
        if list in {type(each.content) for each in prompt}:
            sent = await self._files.load_files(prompt)
        # After all slow work, right before the call.
        await preparation.check_permissions(quick=self._quick.get(name) or False)
        effect.started = True
        request = _Request(
            name, agent, task, heartbeat, _config(agent, task, context.preceding_texts)
        )
        reply: Any = None
        for doublings, model in models:
            try:
                reply = await self._call_with_format(model, sent, form, request)
                break
            except ModelRequestRejected as exc:
                if not doublings or not may_be_shorter(exc):
                    raise
                self._doublings[task.run, task.step] = doublings - 1
        return _ModelMessage(name, with_usage(reply, prompt), context, form, agent.on_cap == "end")

    async def _models_for(
        self, task: CallModel, name: str, settings: Mapping[str, Json], timeout: float
    ) -> list[tuple[int, BaseChatModel]]:
        """Yields chat models with smaller output limits until the provider accepts one.

        This worker does not use a limit again that the provider rejected in the step.
        """
        most = self._doublings.get((task.run, task.step))
        found: list[tuple[int, BaseChatModel]] = []
        for doublings in range(task.cut if most is None else min(task.cut, most), 0, -1):
            larger = with_larger_limit(settings, 2**doublings)
            if larger is None:
                break
            found.append((doublings, await self._models.get(name, larger, timeout)))
        return [*found, (0, await self._models.get(name, settings, timeout))]

    async def _call_with_format(
        self, model: Any, prompt: list[BaseMessage], form: Form | None, request: _Request
    ) -> Any:
        """Calls the model for a structured output; without one if the provider rejects that."""
        formats, (name, agent, task, _, _) = self._formats, request
        options = formats.of(name, agent, form, task.tools) if form is not None else None
        if not options:
            return await self._invoke(model, prompt, request)
        try:
            return await self._invoke(model.bind(**options), prompt, request)
        except ModelRequestRejected as exc:
            if not is_request_rejected(exc):
                raise
        reply = await self._invoke(model, prompt, request)
        formats.disable(name)
        return reply

    async def _invoke(
        self,
        model: Any,
        prompt: list[BaseMessage],
        request: _Request,
    ) -> Any:
        name, agent, task, heartbeat, config = request
        writing = ChunkSender(heartbeat, task)
        silent = False
        try:
            if agent.model_settings.get("streaming") is not False and not self._silent.get(name):
                try:
                    # The timeout of the client is for one chunk; this one is for the whole message.
                    async with asyncio.timeout(_request_timeout(agent.timeout)):
                        return check_complete(
                            await stream_message(model, prompt, config, writing.add), name
                        )
                except StreamingUnsupported as exc:
                    silent = exc.ever
            reply = to_message(await model.ainvoke(prompt_value(model, prompt), config))
            if silent:  # the provider rejected streaming, and not the request
                self._silent[name] = True
            return check_complete(reply, name)
        except (asyncio.CancelledError, ModelError):
            raise
        except Exception as exc:
            raise model_error(exc, name) from exc
        finally:
            writing.close()

    async def _schemas(self, task: CallModel, crew: CrewDefinition) -> list[dict[str, Json]]:
        out: list[dict[str, Json]] = []
        for name in task.tools:
            if name in crew.tools:
                out.append(await self._registry.schema(name, crew))
            elif built_in := self._built_in.tool(name, crew, task.agent):
                out.append(built_in.schema)
        return out


def _config(
    agent: AgentDefinition, task: CallModel, preceding_texts: tuple[tuple[str, str], ...] = ()
) -> RunnableConfig:
    # For scripted models, which depend on the caller, and for traces.
    return {
        "metadata": {
            # A script counts the messages that a window leaves out.
            **({"earlier": preceding_texts} if preceding_texts else {}),
            "agent": task.agent,
            "run": task.run,
            "step": task.step,
            "call": task.call,
            # The attempts of earlier calls, and those of this one.
            "attempt": (task.attempt - 1) * agent.retry.attempts + activity.info().attempt,
            "asked": task.attempt,
        }
    }


async def _outcome(
    message: BaseMessage,
    body: dict[str, Json],
    ending: Ending,
    form: Form | None,
    *,
    may_end: bool,
) -> tuple[MessageOutcome | None, Mapping[ContentHash, Json]]:
    """Finds the outcome of a call that returned a message, and the other bodies that it names.

    The outcome is none if it follows from the message alone.

    Args:
        message: The message.
        body: The same, as it is stored.
        ending: Its finish reason.
        form: The form of its agent's structured output; none: it has none.
        may_end: Whether its text may be what the turn ends with.
    """
    if body.get("tool_calls") or body.get("invalid_tool_calls"):
        if not may_end or not message_excerpt(body):
            return None, {}
        text = draft_text(body)
        draft = hash_json(text)
        return ToolCallsRequested(calls=requested_calls(body), draft=draft), {draft: text}
    # Also the text of an unusable message is parsed: its agent may accept it.
    read: FinalMessage | FinalMessageInvalid | None = None
    bodies: Mapping[ContentHash, Json] = {}
    if form is not None:
        read, bodies = await parse_output(form, message)
    if ending == "complete" or ending == "broken":
        return read, bodies
    if read is None:
        return MessageUnusable(ending=ending), bodies
    return MessageUnusable(ending=ending, accepted=read), bodies


def _model_name(crew: CrewDefinition, agent: AgentDefinition, task: CallModel) -> str:
    name = agent.model or crew.model
    if name is None:
        raise ModelRequestRejected(
            f"the agent {task.agent!r} has no model",
            remedy="Give the agent or the crew a `model`, e.g. openai:gpt-5-mini.",
        )
    return name


def _check_depth(body: Json, model: str) -> None:
    try:
        check_depth(body)
    except ValueError as exc:
        raise ModelRequestRejected(
            f"the model {model!r} answered with arguments of a tool that no run can keep: {exc}",
            remedy="Ask it again, or let the tool take a text.",
        ) from exc


def _request_timeout(timeout: float) -> float:
    """Returns a timeout below that of the activity, so that the error names the model."""
    return max(timeout * 0.9, timeout - 5.0)
