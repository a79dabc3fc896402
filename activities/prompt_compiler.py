"""One round of reading a prompt: the forms, or one call of a model.

The command line and the activities of a run share this module. A call uses structured output where
LangChain supports it for the model. Where LangChain or the service does not support it, the
instructions contain the schema, and the reply is plain text.

One round of compiling a prompt: the forms, or one call of a model.

At most one model call in an activity, and its answer is the activity's result: so a crash repeats
at most one, and the workflow goes round. The prompt comes with the batch the first time, and is in
the store from then on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from temporalio import activity

from crewlog.activities.ai_messages import check_complete
from crewlog.activities.batches import append
from crewlog.activities.caches import LruCache
from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.definitions import registry_of
from crewlog.activities.failures import Effect
from crewlog.activities.model_errors import is_request_rejected, model_error
from crewlog.activities.usage import counted, usage_of
from crewlog.canonical_json import utf8_text
from crewlog.errors import InvalidDefinition, ModelError, ModelRequestRejected, StoreUnavailable
from crewlog.graph.prompt_compilation import COMPILER, STEP
from crewlog.ids import RunId
from crewlog.model import Json
from crewlog.prompt.compiled import CompiledPrompt, Remark
from crewlog.prompt.model_reader import LARGEST_REPLY, messages, take_reply
from crewlog.prompt.readers import Reader, without_model
from crewlog.prompt.reading import reading_schema
from crewlog.prompt.registry import Registry
from crewlog.state.calls import CompilePrompt, CompilePromptResult
from crewlog.state.finish_reason import finish_reason
from crewlog.state.journal import Batch, PromptReceived, entry_from_json
from crewlog.state.model import NoReading, PromptDiagnostic, PromptReply
from crewlog.store.protocol import Store
from crewlog.usage import Usage

TIMEOUT = 170.0
"""Seconds for one request; a little less than the activity's."""


_PLAIN: LruCache[str, bool] = LruCache(256)
"""Models whose service refused structured output: later calls do not use it."""


async def compile_without_model(
    text: str, registry: Registry, reader: Reader, models: ModelFactory, file: str = "prompt"
) -> CompiledPrompt | None:
    """Compiles a prompt without a model; returns none where a model reads the prompt.

    Args:
        text: The prompt.
        registry: The registry of the prompt.
        reader: The reader.
        models: The factory of chat models.
        file: The name of the prompt in messages.
    """
    there = await has_model(registry, reader, models)
    # In a thread: the forms need a while for a long prompt, and heartbeats must continue.
    return await asyncio.to_thread(
        without_model, text, registry, reader, has_model=there, file=file
    )


async def has_model(registry: Registry, reader: Reader, models: ModelFactory) -> bool:
    """Whether a model reads prompts.

    The reader `model` uses the registry's model, and raises its errors later. The reader `auto`
    uses a model only if the factory can make it: `openai:` needs a key, and a script needs replies
    for the compiler.
    """
    if registry.model is None or reader == "forms":
        return False
    if reader == "model":
        return True
    try:
        chat: Any = await models.ready(registry.model, {}, TIMEOUT)
    except (ModelRequestRejected, InvalidDefinition):  # of a script that cannot be read
        return False
    speaks: Any = getattr(chat, "speaks_for", None)
    return speaks is None or bool(speaks(COMPILER))


async def ask(
    text: str,
    registry: Registry,
    replies: Sequence[PromptReply],
    models: ModelFactory,
    metadata: Mapping[str, Json],
    *,
    model: str | None = None,
) -> tuple[PromptReply, Any]:
    """Calls the registry's model once; returns the text of the reply and the whole message.

    Args:
        text: The prompt.
        registry: The registry of the prompt.
        replies: The earlier replies of the model.
        models: The factory of chat models.
        metadata: The metadata of the call, besides its agent, its step and its number.
        model: The name of the model for the call, where it differs from the registry's: a script
            with its directory, which no message has.

    Raises:
        ModelError: the model gives no reply.
    """
    model = model or str(registry.model)
    chat: Any = await models.ready(model, {}, TIMEOUT)
    call = {"agent": COMPILER, "step": STEP, "call": len(replies) + 1, **metadata}
    config: RunnableConfig = {"metadata": call}
    refused = False
    structured = None if _PLAIN.get(model) else _structured(chat, model)
    if structured is not None:
        said = _messages(text, registry, replies, with_schema=False)
        try:
            return _reply(await _invoke(structured, said, config, model), said)
        except ModelRequestRejected as error:
            if not is_request_rejected(error):
                raise
            refused = True
    said = _messages(text, registry, replies, with_schema=True)
    reply = _reply(await _invoke(chat, said, config, model), said)
    if refused:  # it was the schema that was refused, and not the request
        _PLAIN.put(model, True)
    return reply


def _structured(chat: Any, model: str) -> Any:
    """The model with structured output; none where LangChain does not support it."""
    schema = reading_schema()
    if model.startswith("openai:"):
        form = {"name": "reading", "schema": schema, "strict": True}
        # The client's own parser of replies fails on a reply that is cut off; this passes it by.
        asked = {"response_format": {"type": "json_schema", "json_schema": form}}
        return chat.bind(extra_body=asked)
    try:
        return chat.with_structured_output({"title": "reading", **schema}, include_raw=True)
    except (AttributeError, NotImplementedError):
        return None


async def _invoke(chat: Any, said: list[BaseMessage], config: RunnableConfig, model: str) -> Any:
    try:
        answer: Any = await chat.ainvoke(said, config)
    except (asyncio.CancelledError, ModelError):
        raise
    except Exception as exc:
        raise model_error(exc, model) from exc
    # LangChain types none of them.
    reply: Any = answer["raw"] if isinstance(answer, dict) else answer  # pyright: ignore[reportUnknownVariableType]
    return check_complete(reply, model)


def _reply(answer: Any, said: list[BaseMessage]) -> tuple[PromptReply, Any]:
    """The text of a reply, or the arguments of its one call; and the message.

    A reply that did not end well is no reading, whatever stands in it.
    """
    answer = counted(answer, said)
    ending = finish_reason(answer)
    if ending not in ("complete", "broken"):
        return NoReading(ending=ending), answer
    text = str(answer.text)
    if not text.strip() and answer.tool_calls:
        text = json.dumps(answer.tool_calls[0]["args"], ensure_ascii=False)
    return utf8_text(text)[: LARGEST_REPLY + 1], answer  # no reader reads more


def _messages(
    text: str, registry: Registry, replies: Sequence[PromptReply], *, with_schema: bool
) -> list[BaseMessage]:
    told = messages(text, registry, replies, with_schema=with_schema)
    return [_message(each.role, each.text) for each in told]


def _message(role: str, text: str) -> BaseMessage:
    if role == "assistant":
        return AIMessage(text, name=COMPILER)
    return SystemMessage(text) if role == "system" else HumanMessage(text)


TRIES = 5
"""The tries of one asking, as `workflows.activity_options.COMPILING` has them."""


class PromptCompiler:
    """Compiles prompts on a worker.

    Args:
        store: Where registries are, and prompts after the first round.
        models: The worker's chat models.
    """

    def __init__(self, store: Store, models: ModelFactory) -> None:
        self._store = store
        self._models = models

    async def run(
        self, run: RunId, task: CompilePrompt, batch: Batch, effect: Effect
    ) -> CompilePromptResult:
        """Makes one round.

        Args:
            run: The run.
            task: What to compile.
            batch: The task's batch, whole.
            effect: Told when a model is asked.
        """
        journaled = await self._append(run, batch)
        text = _told(task, batch)
        if text is None:
            text = str((await self._store.get_bodies([task.prompt]))[task.prompt])
        registry = await registry_of(self._store, task.registry, task.model)
        if not task.replies:
            found = await compile_without_model(text, registry, task.reader, self._models)
            if found is not None:
                return _result(found, journaled=journaled)
        effect.started = True
        reply, usage, name = await self._ask(run, task, text, registry)
        replies = [*task.replies, reply]
        asked = await asyncio.to_thread(take_reply, text, replies, registry)
        told: dict[str, Any] = {
            "reply": reply,
            "errors": asked.faults,
            "model": name,
            "usage": usage,
            "journaled": journaled,
        }
        if asked.compiled is None:
            return CompilePromptResult(reader="model", again=True, **told)
        return _result(asked.compiled, **told)

    async def _append(self, run: RunId, batch: Batch) -> bool:
        """Stores what led to the call; false where the store is away: the run sends it again."""
        try:
            if batch.entries:
                await append(self._store, run, batch)
        except StoreUnavailable:
            return False
        return True

    async def _ask(
        self, run: RunId, task: CompilePrompt, text: str, registry: Registry
    ) -> tuple[PromptReply, Usage, str]:
        metadata: dict[str, Json] = {
            "run": run,
            "attempt": (task.attempt - 1) * TRIES + activity.info().attempt,
            "asked": task.attempt,
        }
        reply, answer = await ask(text, registry, task.replies, self._models, metadata)
        model = str(registry.model)
        usage = await usage_of(answer, model)
        return reply, usage, str(answer.response_metadata.get("model_name") or model)


def _told(task: CompilePrompt, batch: Batch) -> str | None:
    """The prompt, where the batch brings it."""
    for data in batch.entries:
        if data["kind"] == PromptReceived.__name__:
            entry = entry_from_json(data)
            if isinstance(entry, PromptReceived) and entry.prompt == task.prompt:
                return entry.inline
    return None


def _result(found: CompiledPrompt, **more: Any) -> CompilePromptResult:
    definition = found.definition.to_json() if found.ok and found.definition else None
    return CompilePromptResult(
        reader=found.reader,
        definition=definition,
        diagnostics=tuple(map(prompt_diagnostic, found.remarks)),
        requirements=found.requirements,
        **more,
    )


def prompt_diagnostic(remark: Remark) -> PromptDiagnostic:
    """A remark as a run keeps it."""
    told = remark.diagnostic
    return PromptDiagnostic(
        code=remark.code,
        severity=remark.severity,
        message=told.message,
        remedy=told.remedy,
        line=told.line,
        column=told.column,
    )
