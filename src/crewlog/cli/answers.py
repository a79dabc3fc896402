"""What somebody types after `crewlog answer RUN`, and the arguments that are edited."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import NamedTuple

from crewlog.cli.screen import Screen
from crewlog.errors import UsageError
from crewlog.model import Json
from crewlog.wire import InterruptView

VERBS = ("approve", "edit", "reject", "respond")


class Typed(NamedTuple):
    """An answer as it was typed."""

    first: str | None
    """A question's id, or a decision."""
    second: str | None
    """A decision, where the first is an id."""
    words: str
    """What comes after `reject` or `respond`."""


def typed(first: str | None, second: str | None, third: str | None) -> Typed:
    """What the words after a run mean: `[ID] approve|edit|reject|respond [WORDS]`.

    Raises:
        UsageError: words are lacking, or there are too many.
    """
    verb: str | None
    if first in VERBS and third is None:
        verb, found = first, Typed(first, None, second or "")
    else:
        verb, found = second, Typed(first, second, third or "")
    if verb == "respond" and not found.words:
        raise UsageError(
            "'respond' needs the words", remedy="For example: respond 'ask ann first'.", place=_HERE
        )
    if found.words and verb not in ("reject", "respond"):
        raise UsageError(
            f"{found.words!r} is too much: words go with reject and respond",
            remedy="Quote words that are one answer.",
            place=_HERE,
        )
    return found


def edited_args(screen: Screen, question: InterruptView, given: str | None) -> dict[str, Json]:
    """The arguments that a call is approved with: those given, or what an editor leaves.

    Args:
        screen: Where problems with the editor are told.
        question: The question about the call.
        given: JSON, or `@file`; none opens the editor.

    Raises:
        UsageError: they are no JSON object, or nobody can edit them here.
    """
    if question.kind != "tool_approval":
        raise UsageError(
            f"{question.id} asks about no call: there are no arguments to edit",
            remedy=f"Its options are: {', '.join(question.options)}.",
            place=_HERE,
        )
    if given is not None:
        return _object(_read(given[1:]) if given.startswith("@") else given)
    if question.has_excerpts or not screen.asks:
        why = "is too long to be shown here" if question.has_excerpts else "is edited at a terminal"
        raise UsageError(
            f"what {question.id} asks about {why}",
            remedy="Give all arguments: edit --args @FILE, or --args '{…}'.",
            place=_HERE,
        )
    return _in_editor(screen, question)


def _in_editor(screen: Screen, question: InterruptView) -> dict[str, Json]:
    from crewlog.cli.approving import edited  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="crewlog-") as folder:
        file = Path(folder) / f"{question.id}.json"
        args: Json = question.action_requests[0].get("args") or {}
        file.write_text(json.dumps(args, ensure_ascii=False, indent=2) + "\n")
        if not edited(file, screen):
            raise UsageError("nothing was edited", remedy="The question stays open.", place=_HERE)
        return _object(file.read_text())


def _read(file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the file {file!r} cannot be read: {error}",
            remedy="Name a file with a JSON object: --args @args.json.",
            place=_HERE,
        ) from error


def _object(text: str) -> dict[str, Json]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"the arguments are not JSON: {error}",
            remedy='For example: --args \'{"to": "staging"}\', or --args @args.json.',
            place=_HERE,
        ) from error
    if not isinstance(found, dict):
        raise UsageError(
            "the arguments are not a JSON object",
            remedy='For example: --args \'{"to": "staging"}\'.',
            place=_HERE,
        )
    return found  # pyright: ignore[reportUnknownVariableType]


_HERE = "crewlog answer"
