"""Reads a prompt for a command: the rounds of one reading.

`crewlog.prompt.model_reader` has the messages to a model and the checks of its replies.
`crewlog.activities.prompt_compiler` sends the messages. A run makes each round an activity, so
that a crash repeats at most one round. Here a person waits, and can type the command again.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from crewlog.cli.screen import Screen, plain
from crewlog.errors import ModelRequestRejected, UsageError
from crewlog.prompt.model_reader import take_reply
from crewlog.prompt.readers import Reader, without_model

if TYPE_CHECKING:
    from crewlog.activities.chat_models import ModelFactory
    from crewlog.definition.model import CrewDefinition
    from crewlog.model import Json
    from crewlog.prompt.compiled import CompiledPrompt
    from crewlog.prompt.registry import Registry
    from crewlog.state.model import PromptReply

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
    """Compiles a prompt with a reader.

    Args:
        text: The prompt.
        registry: The registry of the prompt; its model reads the prompt.
        file: The name of the prompt in messages.
        reader: The reader.
        previous: The crew of an earlier version of the prompt.
        directory: The directory of the scripts of scripted models.
        as_json: Whether a program reads the output, which is then JSON alone.

    Raises:
        ModelError: the reader is a model, and the model gives no reply.
    """
    found = asyncio.run(
        _read(text, registry, file, reader, directory or Path(), Screen(as_json=as_json))
    )
    if previous is None or found.definition is None:
        return found
    from crewlog.prompt.renaming import keep_names  # noqa: PLC0415

    return replace(found, definition=keep_names(previous, found.definition))


async def _read(
    text: str, registry: Registry, file: str, reader: Reader, directory: Path, screen: Screen
) -> CompiledPrompt:
    """Reads a prompt; with a model, until a reading has no fault or all repairs are used."""
    if reader == "forms" or registry.model is None:
        found = without_model(text, registry, reader, has_model=False, file=file)
        if found is not None:
            return found
    from crewlog.activities.chat_models import ModelFactory  # noqa: PLC0415 - slow to import
    from crewlog.activities.prompt_compiler import call_model, has_model  # noqa: PLC0415

    models = ModelFactory()
    # Only the calls use the path on this machine: neither the crew nor a message has it.
    placed = _placed(registry.model, directory)
    there = await has_model(registry.model_copy(update={"model": placed}), reader, models)
    if there and placed is not None:
        await _check_model(registry.model or "", placed, models)
    found = without_model(text, registry, reader, has_model=there, file=file)
    if found is not None:
        return found
    status = screen.err.status(f"{plain(registry.model)} reads the prompt")
    replies: list[PromptReply] = []
    with status if screen.err.is_terminal and not screen.as_json else nullcontext():
        while True:
            told: dict[str, Json] = {"run": "compile"}
            reply, _ = await call_model(text, registry, replies, models, told, model=placed)
            replies.append(reply)
            done = take_reply(text, replies, registry, file=file).compiled
            if done is not None:
                return done


async def _check_model(name: str, placed: str, models: ModelFactory) -> None:
    """Refuses a model that cannot be asked at all.

    Raises:
        UsageError: there is no such model, it has no key, or a script has no replies for it.
    """
    from crewlog.activities.prompt_compiler import TIMEOUT  # noqa: PLC0415
    from crewlog.graph.prompt_compilation import COMPILER  # noqa: PLC0415

    try:
        chat = await models.get(placed, {}, TIMEOUT)
    except ModelRequestRejected as error:
        remedy = f"{error.remedy} Or use the forms: --reader forms."
        raise UsageError(error.message, remedy=remedy, place="--reader model") from error
    speaks = getattr(chat, "speaks_for", None)
    if speaks is not None and not speaks(COMPILER):
        raise UsageError(
            f"the script {name!r} has no replies for the agent {COMPILER!r}, which reads prompts",
            remedy=f"Add them under `{COMPILER}:`, or use the forms: --reader forms.",
            place="--reader model",
        )


def _placed(model: str | None, directory: Path) -> str | None:
    """The name of a model for calls from this machine: of a script with its directory."""
    if model is None or not model.startswith(_SCRIPTED):
        return model
    return _SCRIPTED + str(directory / model.removeprefix(_SCRIPTED))
