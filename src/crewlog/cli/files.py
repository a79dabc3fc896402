"""Crew files: is it one, and which; and what is told of a prompt in a crew's place."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from crewlog.errors import InvalidDefinition, UsageError

if TYPE_CHECKING:
    from crewlog.definition.model import CrewDefinition

SUFFIXES = (".yaml", ".yml", ".json")
_CREWS_KEY = re.compile(r"""^[{\s]*["']?crew["']?\s*:""", re.MULTILINE)


def is_file(text: str) -> bool:
    """Whether an argument means a file rather than a name or a run."""
    return text.lower().endswith(SUFFIXES) or Path(text).is_file() or "/" in text


def load_crew(path: str | Path) -> CrewDefinition:
    """The definition in a crew's file.

    Raises:
        UsageError: it cannot be read, or holds a prompt.
        InvalidDefinition: with every fault found.
    """
    from crewlog.definition.load import load_file, text_of  # noqa: PLC0415

    try:
        return load_file(path)
    except InvalidDefinition:
        if str(path).lower().endswith(SUFFIXES) or _CREWS_KEY.search(text_of(path)):
            raise
    name = str(path)
    raise UsageError(
        f"{name!r} is a prompt and no crew's file",
        remedy="Make a crew of it, and give that: "
        f"crewlog compile {shlex.quote(name)} --out crew.yaml",
    )
