"""Arguments of a start that no start can have: told by name, with what they may be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition
from crewlog.errors import UsageError

_PLACE = "start"


def check_crew(crew: object) -> None:
    """Checks that a crew is of a type that crews have.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(crew, str | Path | Mapping | CrewDefinition):
        raise UsageError(
            f"the crew cannot be {_brief(crew)}",
            remedy="Give a registered name, a file, a definition or a prompt.",
            place=_PLACE,
        )


def check_text(name: str, value: object, remedy: str) -> None:
    """Checks that an argument is a text, or left out.

    Args:
        name: The argument's name.
        value: What it is.
        remedy: What it should be, as a sentence.

    Raises:
        UsageError: it is neither.
    """
    if value is not None and not isinstance(value, str):
        raise UsageError(
            f"{name!r} cannot be {_brief(value)}: it is a text", remedy=remedy, place=_PLACE
        )


def check_existing(existing: object, allowed: object, id: str | None) -> None:
    """Checks what is to be done where there is a run of that id already.

    Args:
        existing: What was said.
        allowed: The literal type of what may be said.
        id: The run's id.

    Raises:
        UsageError: it is not one of them, or there is no id that it could be about.
    """
    names: tuple[str, ...] = get_args(allowed)
    if existing not in names:
        raise UsageError(
            f"'existing' cannot be {_brief(existing)}",
            remedy=f"It is {listed(map(repr, names), 'or')}.",
            place=_PLACE,
        )
    if existing != "reject" and id is None:
        raise UsageError(
            f"existing={existing!r} needs the id of a run",
            remedy="Say which run: id='notes-1'.",
            place=_PLACE,
        )


def _brief(value: object) -> str:
    said = repr(value)
    return said if len(said) <= 60 else f"{said[:60]}…"
