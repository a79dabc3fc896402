"""A prompt read on the command line: the rounds of one reading.

What the model is told and what its answers must hold to is `crewlog.prompt.llm`; which reader reads
is `crewlog.prompt.readers`, and how a model is asked is `crewlog.activities.reading`. In a run the
same rounds are activities, so that a crash repeats at most one; here a person waits, and may type
the command again.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from crewlog.cli.screen import Screen, plain
from crewlog.errors import ModelError
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.readers import Reader, first_reading, needs_model, with_model

if TYPE_CHECKING:
    from crewlog.definition.model import CrewDefinition
    from crewlog.prompt.compiled import CompiledPrompt
    from crewlog.prompt.registry import Registry

_SCRIPTED = "scripted:"


def read(
    text: str,
    registry: Registry,
    *,
    file: str,
    reader: Reader,
    previous: CrewDefinition | None = None,
    directory: Path | None = None,
    as_json: bool = False,
) -> CompiledPrompt:
    """A prompt, compiled by the reader that is asked for.

    Args:
        text: The prompt.
        registry: What it may use; its model is the one that reads.
        file: What the prompt is called in messages.
        reader: Who is to read it.
        previous: The crew of an earlier version of the prompt.
        directory: Where the scripts of scripted models are.
        as_json: Whether a program listens, which is told nothing but JSON.
    """
    found = asyncio.run(
        _read(text, registry, file, reader, directory or Path(), Screen(as_json=as_json))
    )
    if previous is not None and found.reader == "grammar":
        return compile_prompt(text, registry, file=file, previous=previous)
    if previous is None or found.definition is None:
        return found
    from crewlog.prompt.edits import keep_names  # noqa: PLC0415

    return replace(found, definition=keep_names(previous, found.definition))


async def _read(
    text: str, registry: Registry, file: str, reader: Reader, directory: Path, screen: Screen
) -> CompiledPrompt:
    """Reads a prompt; with a model, until its answer holds or its repairs are used up."""
    first = first_reading(text, registry, reader, file)
    if not first.more:
        return first.found or needs_model(text, file)
    from crewlog.activities.models import ModelFactory  # noqa: PLC0415 - slow to import
    from crewlog.activities.reading import ask, has_model  # noqa: PLC0415

    models = ModelFactory()
    placed = registry.model_copy(update={"model": _placed(registry.model, directory)})
    status = screen.err.status(f"{plain(registry.model)} reads the prompt")
    replies: list[str] = []
    try:
        if not await has_model(placed, reader, models):
            return first.found or needs_model(text, file)
        with status if screen.err.is_terminal and not screen.as_json else nullcontext():
            while True:
                reply, _ = await ask(text, placed, replies, models, {"run": "compile"})
                asked = with_model(text, reply, registry, before=len(replies), file=file)
                if asked.compiled is not None:
                    return asked.compiled
                replies.append(reply)
    except ModelError as error:
        if first.found is None:
            raise
        screen.note(("▸ ", "yellow"), f"only the grammar read it: {plain(error.message)}")
        return first.found


def _placed(model: str | None, directory: Path) -> str | None:
    """A model as it is asked for here: a script is looked for beside what names it."""
    if model is None or not model.startswith(_SCRIPTED):
        return model
    return _SCRIPTED + str(directory / model.removeprefix(_SCRIPTED))
