"""One round of reading a prompt: the grammar, or one question to a model.

The command line and a run's activities read prompts alike; here is what they share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from crewlog.activities.model_errors import model_error
from crewlog.activities.models import ModelFactory
from crewlog.activities.prices import counted
from crewlog.content import scrubbed_text
from crewlog.errors import InvalidDefinition, ModelError, ModelRefused
from crewlog.graph.drafting import COMPILER, STEP
from crewlog.model import Json
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.llm import conversation, reply_schema
from crewlog.prompt.readers import Reader, first_reading, needs_model
from crewlog.prompt.registry import Registry
from crewlog.prompt.reply import LARGEST_REPLY

TIMEOUT = 170.0
"""Seconds for one request; a little less than the activity's."""


async def read_without(
    text: str, registry: Registry, reader: Reader, models: ModelFactory, file: str = "prompt"
) -> CompiledPrompt | None:
    """What a prompt comes to without a model; none where one is to be asked.

    Args:
        text: The prompt.
        registry: What it may use.
        reader: Who is to read it.
        models: What makes the registry's model.
        file: What the prompt is called in messages.
    """
    # In a thread: a long prompt takes the grammar a while, and heartbeats must go on.
    first = await asyncio.to_thread(first_reading, text, registry, reader, file)
    if not first.more:
        return first.found
    if await has_model(registry, reader, models):
        return None
    return first.found or needs_model(text, file)


async def has_model(registry: Registry, reader: Reader, models: ModelFactory) -> bool:
    """Whether there is a model that reads prompts.

    Where it was asked for (`llm`), the one that is named; its error is told. By itself (`auto`) one
    that can be made, which for `openai:` takes a key; and a script only if it has something for the
    compiler to say.
    """
    if registry.model is None or reader == "grammar":
        return False
    if reader == "llm":
        return True
    try:
        chat: Any = await models.ready(registry.model, {}, TIMEOUT)
    except (ModelRefused, InvalidDefinition):  # of a script that cannot be read
        return False
    speaks: Any = getattr(chat, "speaks_for", None)
    return speaks is None or bool(speaks(COMPILER))


async def ask(
    text: str,
    registry: Registry,
    replies: Sequence[str],
    models: ModelFactory,
    metadata: Mapping[str, Json],
) -> tuple[str, Any]:
    """Asks the registry's model once: what it says, and its whole message.

    Args:
        text: The prompt.
        registry: What it may use.
        replies: What the model answered before.
        models: What makes the model.
        metadata: What is told of the call besides who makes it.

    Raises:
        ModelError: it cannot be asked.
    """
    model = str(registry.model)
    chat: Any = await models.ready(model, {}, TIMEOUT)
    if model.startswith("openai:"):
        schema = {"name": "reading", "schema": reply_schema()}
        chat = chat.bind(response_format={"type": "json_schema", "json_schema": schema})
    said = [_message(each.role, each.text) for each in conversation(text, registry, replies)]
    call = {"agent": COMPILER, "step": STEP, "call": len(replies) + 1, **metadata}
    config: RunnableConfig = {"metadata": call}
    try:
        answer: Any = await chat.ainvoke(said, config)
    except (asyncio.CancelledError, ModelError):
        raise
    except Exception as exc:
        raise model_error(exc, model) from exc
    answer = counted(answer, said)
    reply = scrubbed_text(str(answer.text))
    return reply[: LARGEST_REPLY + 1], answer  # longer ones are neither read nor kept


def _message(role: str, text: str) -> BaseMessage:
    if role == "assistant":
        return AIMessage(text, name=COMPILER)
    return SystemMessage(text) if role == "system" else HumanMessage(text)
