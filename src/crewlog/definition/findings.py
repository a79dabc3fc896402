"""What is found wrong in a definition's data, before anybody knows where in a text it stands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from crewlog.errors import Diagnostic

Path = tuple[str | int, ...]
"""A place in the data: `("agents", "checker", "tools", 0)`."""
_RUN = re.compile(r"(?<=\bcrewlog )([a-z-]+(?: [a-z-]+)?) RUN\b")
"""The run in a command that is to be typed, where a definition alone is looked at."""


@dataclass(frozen=True)
class Finding:
    """One fault: where in the data, what, and what to do."""

    path: Path
    message: str
    remedy: str = ""
    at: Literal["value", "key"] = "value"
    """Whether the value or its key is to be underlined."""
    word: str = ""
    """A word inside the value to underline, e.g. a flag in a condition."""
    key: str = ""
    """The flag or `agent.output` that lacks a rule for how its values combine."""
    offset: int | None = None
    """The character of the value (from 0) where the fault is; it wins over `word`."""
    severity: Literal["error", "warning"] = "error"
    """An error keeps the crew from running; a warning does not."""
    other: Path = ()
    """Another place that it is as much about: it is told at the later one, with both lines."""
    quiet: bool = False
    """Whether the text there is not shown: a log of a build is no place for a secret."""
    anew: bool = False
    """Whether it is held against what is handed in only: what was stored and ran goes on."""
    unsound: bool = False
    """Whether the crew could not work as it is meant: an error of a prompt."""
    hides: bool = False
    """Whether it kept checks from being made: once it is mended others may be found."""

    def diagnostic(self) -> Diagnostic:
        """The fault without a text: its place is its path."""
        return Diagnostic(
            message=self.message, path=self.path, remedy=self.remedy, severity=self.severity
        )


def suggestion(word: str, known: Iterable[str]) -> str:
    """The known word that `word` was probably meant to be; empty where none is near."""
    by_folded = {name.casefold().replace("-", "_"): name for name in known}
    folded = word.casefold().replace("-", "_")
    near = difflib.get_close_matches(folded[:80], by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near else ""


def did_you_mean(word: str, known: Iterable[str], else_say: str = "") -> str:
    """`Did you mean 'x'?`, or `else_say` where nothing is near."""
    near = suggestion(word, known)
    return f"Did you mean {near!r}?" if near else else_say


def for_run(text: str, run: str) -> str:
    """What is said of a run's definition, with its id in the commands that are to be typed.

    Args:
        text: What is said, of any run: `crewlog stop RUN`.
        run: The run.
    """
    return _RUN.sub(lambda found: f"{found[1]} {run}", text)


def listed(names: Iterable[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    *front, final = list(names) or [""]
    return f"{', '.join(front)} {last} {final}" if front else final
