"""One round of the compilation of a prompt: the forms, or one model call.

The command line and the activities of a run share this module. A call uses structured output if
LangChain and the service support it for the model. Otherwise the instructions contain the schema,
and the reply is plain text.

An activity makes at most one model call, whose reply is its result. So a crash repeats at most one
call, and the workflow starts the next round. The prompt is in the batch of the first round, and in
the store from then on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cachetools import LRUCache
from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from temporalio import activity

from crewlog.activities.ai_messages import check_complete
from crewlog.activities.batches import append_batch, read_bodies
from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.definitions import registry_of
from crewlog.activities.failures import Effect
from crewlog.activities.model_errors import is_request_rejected, model_error
from crewlog.activities.usage import compute_usage, with_usage
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
from crewlog.state.calls import CompilePrompt, CompilePromptResult, PrepareChange
from crewlog.state.finish_reason import finish_reason
from crewlog.state.journal import Batch
from crewlog.state.model import NoReading, PromptDiagnostic, PromptReply
from crewlog.store.protocol import Store
from crewlog.usage import Usage

TIMEOUT = 170.0
"""Seconds for one request; a little less than the activity's."""


_PLAIN: LRUCache[str, bool] = LRUCache(256)
"""Models whose service refused structured output: later calls do not use it."""


async def compile_without_model(
    text: str, registry: Registry, reader: Reader, models: ModelFactory
) -> CompiledPrompt | None:
    """Compiles a prompt without a model; None: it needs a model.

    Args:
        text: The prompt.
        registry: The registry of the prompt.
        reader: The reader.
        models: The factory of chat models.
    """
    uses_model = await has_model(registry, reader, models)
    # In a thread: the forms need a while for a long prompt, and heartbeats must continue.
    return await asyncio.to_thread(without_model, text, registry, reader, has_model=uses_model)


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
        chat: Any = await models.get(registry.model, {}, TIMEOUT)
    except (ModelRequestRejected, InvalidDefinition):  # of a script that cannot be read
        return False
    speaks: Any = getattr(chat, "speaks_for", None)
    return speaks is None or bool(speaks(COMPILER))


async def call_model(
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
    chat: Any = await models.get(model, {}, TIMEOUT)
    call = {"agent": COMPILER, "step": STEP, "call": len(replies) + 1, **metadata}
    config: RunnableConfig = {"metadata": call}
    rejected = False
    structured = None if _PLAIN.get(model) else _with_structured_output(chat, model)
    if structured is not None:
        prompt = _build_messages(text, registry, replies, with_schema=False)
        try:
            return _parse_reply(await _call_chat_model(structured, prompt, config, model), prompt)
        except ModelRequestRejected as error:
            if not is_request_rejected(error):
                raise
            rejected = True
    prompt = _build_messages(text, registry, replies, with_schema=True)
    reply = _parse_reply(await _call_chat_model(chat, prompt, config, model), prompt)
    if rejected:  # the service rejected the schema, and not the request
        _PLAIN[model] = True
    return reply


def _with_structured_output(chat: Any, model: str) -> Any:
    """Returns the model with structured output; None: LangChain does not support it."""
    schema = reading_schema()
    if model.startswith("openai:"):
        json_schema = {"name": "reading", "schema": schema, "strict": True}
        # In `extra_body`, since the client's own parser fails on a reply that is cut off.
        body = {"response_format": {"type": "json_schema", "json_schema": json_schema}}
        return chat.bind(extra_body=body)
    try:
        return chat.with_structured_output({"title": "reading", **schema}, include_raw=True)
    except (AttributeError, NotImplementedError):
        return None


async def _call_chat_model(
    chat: Any, prompt: list[BaseMessage], config: RunnableConfig, model: str
) -> Any:
    try:
        output: Any = await chat.ainvoke(prompt, config)
    except (asyncio.CancelledError, ModelError):
        raise
    except Exception as exc:
        raise model_error(exc, model) from exc
    message: Any = output["raw"] if isinstance(output, dict) else output  # pyright: ignore[reportUnknownVariableType]
    return check_complete(message, model)  # pyright: ignore[reportUnknownArgumentType]


def _parse_reply(message: Any, prompt: list[BaseMessage]) -> tuple[PromptReply, Any]:
    """Returns the text of a reply, or the arguments of its only tool call; and the message.

    An incomplete reply is never a reading.
    """
    message = with_usage(message, prompt)
    ending = finish_reason(message)
    if ending not in ("complete", "broken"):
        return NoReading(ending=ending), message
    text = str(message.text)
    if not text.strip() and message.tool_calls:
        text = json.dumps(message.tool_calls[0]["args"], ensure_ascii=False)
    return utf8_text(text)[: LARGEST_REPLY + 1], message  # no reader reads more


def _build_messages(
    text: str, registry: Registry, replies: Sequence[PromptReply], *, with_schema: bool
) -> list[BaseMessage]:
    parts = messages(text, registry, replies, with_schema=with_schema)
    return convert_to_messages(
        {
            "role": each.role,
            "content": each.text,
            "name": COMPILER if each.role == "assistant" else None,
        }
        for each in parts
    )


ATTEMPTS = 5
"""The attempts of an activity, as in `workflows.activity_options.COMPILING`."""


class Round(NamedTuple):
    """The result of one round."""

    compiled: CompiledPrompt | None
    """The compiled prompt; None: the model must be called once more."""
    reply: PromptReply | None = None
    """The reply of the model; None: no model was called."""
    errors: int = 0
    """The number of errors in the reply."""
    model: str = ""
    """The model that replied, by the name that it gives itself."""
    usage: Usage = Usage()
    """The usage of the call."""


async def compile_round(
    text: str,
    registry: Registry,
    task: CompilePrompt | PrepareChange,
    models: ModelFactory,
    effect: Effect,
    number: int,
) -> Round:
    """Makes one round in an activity.

    Args:
        text: The prompt.
        registry: The registry of the prompt.
        task: The input of the activity, with the reader and the earlier replies of the model.
        models: The worker's chat models.
        effect: Records that a model call has begun.
        number: The number of the call, with those that people asked for.
    """
    if not task.replies:
        compiled = await compile_without_model(text, registry, task.reader, models)
        if compiled is not None:
            return Round(compiled)
    effect.started = True
    attempt = (number - 1) * ATTEMPTS + activity.info().attempt
    run = activity.info().workflow_id or ""
    metadata: dict[str, Json] = {"run": run, "attempt": attempt, "asked": number}
    reply, message = await call_model(text, registry, task.replies, models, metadata)
    reading = await asyncio.to_thread(take_reply, text, [*task.replies, reply], registry)
    model = str(registry.model)
    name = str(message.response_metadata.get("model_name") or model)
    usage = await compute_usage(message, model)
    return Round(reading.compiled, reply, reading.faults, name, usage)


async def compile_prompt(
    run: RunId,
    task: CompilePrompt,
    batch: Batch,
    store: Store,
    models: ModelFactory,
    effect: Effect,
) -> CompilePromptResult:
    """Makes one round for the prompt that a run was started with.

    Args:
        run: The run.
        task: The prompt and the earlier replies.
        batch: The complete batch of the task.
        store: The store with registries, and with prompts after the first round.
        models: The worker's chat models.
        effect: Records that a model call has begun.
    """
    journaled = True
    try:
        if batch.entries:
            await append_batch(store, run, batch)
    except StoreUnavailable:
        journaled = False  # the run sends it again
    text = str((await read_bodies(store, batch, [task.prompt]))[task.prompt])
    registry = await registry_of(store, task.registry, task.model)
    done = await compile_round(text, registry, task, models, effect, task.attempt)
    fields = done._asdict()
    compiled: CompiledPrompt | None = fields.pop("compiled")
    if compiled is None:
        return CompilePromptResult(reader="model", again=True, journaled=journaled, **fields)
    definition = compiled.definition.to_json() if compiled.ok and compiled.definition else None
    return CompilePromptResult(
        reader=compiled.reader,
        definition=definition,
        diagnostics=tuple(map(prompt_diagnostic, compiled.remarks)),
        requirements=compiled.requirements,
        journaled=journaled,
        **fields,
    )


def prompt_diagnostic(remark: Remark) -> PromptDiagnostic:
    """Returns a remark in the form of the journal."""
    diagnostic = remark.diagnostic
    return PromptDiagnostic(
        code=remark.code,
        severity=remark.severity,
        message=diagnostic.message,
        remedy=diagnostic.remedy,
        line=diagnostic.line,
        column=diagnostic.column,
    )
