"""Crew files: is it one, and which; and what is told of a prompt in a crew's place."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from crewlog.definition.findings import suggestion
from crewlog.errors import InvalidDefinition, UsageError

if TYPE_CHECKING:
    from crewlog.definition.model import CrewDefinition

LONGEST_PATH = 1000
"""Characters of what may be a file's name."""
SUFFIXES = (".yaml", ".yml", ".json")
TEXT_SUFFIXES = (".md", ".txt")
_CREWS_KEY = re.compile(r"""^[{\s]*["']?crew["']?\s*:""", re.MULTILINE)


def is_file(text: str) -> bool:
    """Whether an argument means a file rather than a name or a run."""
    return text.lower().endswith(SUFFIXES) or "/" in text or is_there(text)


def means_file(value: str) -> bool:
    """Whether a value that may be a file or a text can only be meant as a file.

    One word with a file's suffix or a path's separator is; so is what is there.
    """
    word = value.strip()
    if not word or len(word) > LONGEST_PATH or any(c.isspace() or c in "{}[]\"'" for c in word):
        return is_there(word)
    return word.lower().endswith((*SUFFIXES, *TEXT_SUFFIXES)) or "/" in word or is_there(word)


def is_there(text: str) -> bool:
    """Whether an argument is the name of a file that is there; prose may be too long for a name."""
    if not 0 < len(text) <= LONGEST_PATH or "\n" in text:
        return False
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # the system takes no such name
        return False


def check_there(path: str, place: str, otherwise: str) -> None:
    """Checks that a file is there which a value names.

    Args:
        path: The file's name as it was typed.
        place: Where it was typed.
        otherwise: What to do where no file is meant, as a sentence.

    Raises:
        UsageError: it is not there; what is near in its directory is told.
    """
    file = Path(path)
    if file.is_file():
        return
    what = f"{path!r} is a directory" if file.is_dir() else f"there is no file {path!r}"
    here = file.parent
    near = [each.name for each in here.iterdir()] if here.is_dir() else []
    named = suggestion(file.name, near) if not file.is_dir() else ""
    remedy = f"Did you mean {str(here / named)!r}? " if named else ""
    raise UsageError(what, remedy=f"{remedy}{otherwise}", place=place)


def load_crew(path: str | Path, model: str = "") -> CrewDefinition:
    """The definition in a crew's file.

    Args:
        path: The file.
        model: The model of every agent, in the place of those that the file names.

    Raises:
        UsageError: it cannot be read, or holds a prompt.
        InvalidDefinition: with every fault found.
    """
    from crewlog.definition.load import load_file, text_of  # noqa: PLC0415

    try:
        return load_file(path, model)
    except InvalidDefinition:
        if str(path).lower().endswith(SUFFIXES) or _CREWS_KEY.search(text_of(path)):
            raise
    name = str(path)
    raise UsageError(
        f"{name!r} is a prompt and no crew's file",
        remedy="Make a crew of it, and give that: "
        f"crewlog compile {shlex.quote(name)} --out crew.yaml",
    )


def is_registry(file: Path) -> bool:
    """Whether a file is a registry's: by its first key, or else by its name."""
    try:
        with file.open(encoding="utf-8-sig") as lines:
            words = [line.partition(":")[0].strip("\"' {\t") for line in lines if ":" in line]
    except (OSError, UnicodeDecodeError):
        return False
    keys = [word for word in words if word in {"crew", "registry"}]
    return keys[:1] == ["registry"] or (not keys and file.name == "registry.yaml")
