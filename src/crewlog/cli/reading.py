"""A prompt read by a model, where the command line is asked for it: the rounds of one reading.

What the model is told and what its answers must hold to is `crewlog.prompt.llm`; which reader reads
is `crewlog.prompt.readers`. In a run the same rounds are activities, so that a crash repeats at
most one; here a person waits, and may type the command again.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crewlog.cli.screen import Screen, plain
from crewlog.errors import ModelError
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.readers import Reader, with_model, without_model

if TYPE_CHECKING:
    from crewlog.definition.model import CrewDefinition
    from crewlog.prompt.compiled import CompiledPrompt
    from crewlog.prompt.registry import Registry

TIMEOUT = 170.0
"""Seconds for one request."""
_OPENAI = "openai:"
_SCRIPTED = "scripted:"


def read(
    text: str,
    registry: Registry,
    *,
    file: str,
    reader: Reader,
    previous: CrewDefinition | None = None,
    directory: Path | None = None,
) -> CompiledPrompt:
    """A prompt, compiled by the reader that is asked for.

    Args:
        text: The prompt.
        registry: What it may use; its model is the one that reads.
        file: What the prompt is called in messages.
        reader: Who is to read it.
        previous: The crew of an earlier version of the prompt.
        directory: Where the scripts of scripted models are.
    """
    found = without_model(text, registry, reader, has_model=_answers(registry, reader), file=file)
    if found is not None:
        if previous is not None and found.reader == "grammar":
            return compile_prompt(text, registry, file=file, previous=previous)
        return found
    screen = Screen()
    status = screen.err.status(f"{plain(registry.model)} reads the prompt")
    try:
        with status if screen.err.is_terminal else nullcontext():
            found = asyncio.run(_asked(text, registry, file, directory or Path()))
    except ModelError as error:
        if reader == "llm":
            raise
        screen.note(("▸ ", "yellow"), f"only the grammar read it: {plain(error.message)}")
        return compile_prompt(text, registry, file=file, previous=previous)
    if previous is None or found.definition is None:
        return found
    from crewlog.prompt.edits import keep_names  # noqa: PLC0415

    return replace(found, definition=keep_names(previous, found.definition))


def _answers(registry: Registry, reader: Reader) -> bool:
    """Whether there is a model that can be asked now.

    A script answers only where a model is asked for by name: by itself it would read nothing.
    """
    model = registry.model or ""
    if model.startswith(_OPENAI):
        return reader == "llm" or bool(os.environ.get("OPENAI_API_KEY"))
    return bool(model) and (reader == "llm" or not model.startswith(_SCRIPTED))


async def _asked(text: str, registry: Registry, file: str, directory: Path) -> CompiledPrompt:
    """Asks until the answer holds, or its repairs are used up."""
    from crewlog.activities.models import ModelFactory  # noqa: PLC0415

    model = str(registry.model)
    if model.startswith(_SCRIPTED):
        model = _SCRIPTED + str(directory / model.removeprefix(_SCRIPTED))
    chat: Any = await ModelFactory().ready(model, {}, TIMEOUT)
    if model.startswith(_OPENAI):
        from crewlog.prompt.llm import reply_schema  # noqa: PLC0415

        schema = {"name": "reading", "schema": reply_schema()}
        chat = chat.bind(response_format={"type": "json_schema", "json_schema": schema})
    replies: list[str] = []
    while True:
        reply = await _reply(chat, model, text, registry, replies)
        asked = with_model(text, reply, registry, before=len(replies), file=file)
        if asked.compiled is not None:
            return asked.compiled
        replies.append(reply)


async def _reply(chat: Any, model: str, text: str, registry: Registry, replies: list[str]) -> str:
    """One answer of the model."""
    from langchain_core.messages import (  # noqa: PLC0415 - slow to import
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
    )

    from crewlog.activities.model_errors import model_error  # noqa: PLC0415
    from crewlog.content import scrubbed_text  # noqa: PLC0415
    from crewlog.graph.drafting import COMPILER, STEP  # noqa: PLC0415
    from crewlog.prompt.llm import conversation  # noqa: PLC0415
    from crewlog.prompt.reply import LARGEST_REPLY  # noqa: PLC0415

    kinds: dict[str, type[BaseMessage]] = {
        "system": SystemMessage,
        "assistant": AIMessage,
        "user": HumanMessage,
    }
    said = [kinds[each.role](each.text) for each in conversation(text, registry, replies)]
    call = {"agent": COMPILER, "step": STEP, "call": len(replies) + 1, "run": "compile"}
    try:
        answer: Any = await chat.ainvoke(said, {"metadata": call})
    except (asyncio.CancelledError, ModelError):
        raise
    except Exception as error:
        raise model_error(error, model) from error
    return scrubbed_text(str(answer.text))[: LARGEST_REPLY + 1]
