"""`Fault`: one thing that does not hold in a reading, with its clauses, its place and a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from crewlog.definition.findings import Path

Code = Literal[
    "empty",
    "too_large",
    "not_understood",
    "not_stated",
    "obligation",
    "contradiction",
    "unknown_agent",
    "unknown_tool",
    "not_offered",
    "unsound",
    "invalid",
    "model_failed",
    "assumed",
]
"""What kind of thing a fault or a note says; names are stable.

`not_understood`: no form or part has the clause. `not_stated`: a part says what its clauses do not.
`obligation`: a clause obliges, and no part says so. `unsound`: the crew could not work as it is.
`assumed`: a note, and no fault: what the prompt leaves open and how it was read.
"""


@dataclass(frozen=True)
class Fault:
    """One thing that does not hold in a reading."""

    code: Code
    message: str
    remedy: str = ""
    clauses: tuple[int, ...] = ()
    """The clauses that it is about; empty where it is about the whole prompt."""
    path: Path = ()
    """Where in the reading: `("rights", 2, "tools", 0)`."""
