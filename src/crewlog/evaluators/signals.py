"""What evaluators find: signals, in words for models and people, and as data for a flow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from crewlog.model import Model
from crewlog.state.excerpt import shortened

Kind = Literal["compile_error", "test_failure", "lint_issue", "review_comment"]
Severity = Literal["info", "warn", "error"]
_WEIGHTS: dict[str, int] = {"error": 0, "warn": 1, "info": 2}
MOST = 20
"""Signals of one evaluator; how many there are is said in any case."""
LONGEST = 600
"""Characters of what one of them says."""


class Signal(Model):
    """Something that an evaluator, or a reviewer, found."""

    agent: str = ""
    """Whose work it is about; empty where nobody can say."""
    type: Kind
    """What kind of thing."""
    detail: str
    """What it is."""
    severity: Severity = "error"
    """`error` is to be mended, `warn` should be, `info` is to be known."""
    where: str = ""
    """The file, and the line: `src/cart.py:12`."""


def report(what: str, summary: str, found: Sequence[Signal]) -> tuple[str, dict[str, Any]]:
    """What a tool returns: words, and `{signals, passed, summary}`.

    Args:
        what: The evaluator.
        summary: What came of it, in a line.
        found: What it found.
    """
    found = sorted(found, key=lambda each: _WEIGHTS[each.severity])  # errors before all else
    shown = [_shown(each) for each in found[:MOST]]
    more = len(found) - len(shown)
    passed = not any(each.severity == "error" for each in found)
    lines = [f"{what}: {summary}"]
    lines += (f"- {words(each)}" for each in shown)
    lines += [f"- and {more} more"] if more else []
    data = {"signals": [each.model_dump() for each in shown], "passed": passed, "summary": summary}
    return "\n".join(lines), data


def _shown(signal: Signal) -> Signal:
    """A signal in one line each: names of files and tests are a stranger's."""
    detail = shortened(_plain(signal.detail), LONGEST)
    return signal.model_copy(
        update={"detail": detail, "where": shortened(_plain(signal.where), 300)}
    )


def _plain(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def words(signal: Signal) -> str:
    """A signal in words: `error test_failure (backend) src/cart.py:12: 10 is not 12`."""
    whose = f" ({signal.agent})" if signal.agent else ""
    where = f" {signal.where}:" if signal.where else ":"
    return f"{signal.severity} {signal.type}{whose}{where} {signal.detail}"


_PLACE = re.compile(r"(?<![\w/.-])((?:[\w.+-]+/)*[\w+-]+\.[A-Za-z0-9]{1,8}):(\d+)")


def places(text: str) -> list[str]:
    """The places in files that a text names, in its order: `src/cart.py:12`."""
    return [f"{path}:{line}" for path, line in _PLACE.findall(text)]


def owner(owners: Mapping[str, Sequence[str]], paths: Iterable[str]) -> str:
    """Whose files some paths are: of the first that is anybody's, who has the longest prefix."""
    for path in paths:
        having = [
            (len(folder), name)
            for name, folders in owners.items()
            for folder in (each.removeprefix("./").rstrip("/") for each in folders)
            if folder in ("", ".") or path == folder or path.startswith(f"{folder}/")
        ]
        if having:
            return max(having)[1]
    return ""
