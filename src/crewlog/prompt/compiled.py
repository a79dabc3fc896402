"""What compiling a prompt gives: a definition, where its parts came from, what was left over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from crewlog.definition.content import definition_hash
from crewlog.definition.findings import Path
from crewlog.definition.model import CrewDefinition
from crewlog.errors import Diagnostic
from crewlog.ids import ContentHash
from crewlog.prompt.ast import PromptAst, Words

Code = Literal[
    "empty",
    "too_large",
    "not_understood",
    "read_as_words",
    "assumed",
    "unknown_agent",
    "unknown_tool",
    "not_offered",
    "contradiction",
    "unused",
    "invalid",
    "model_failed",
]
"""What kind of thing a diagnostic says; names are stable."""


@dataclass(frozen=True)
class Remark:
    """Something to know about a prompt.

    `not_understood`: words that are in no part of the definition. `read_as_words`: words that look
    like a rule and were taken as part of an agent's task. `assumed`: what the prompt leaves open
    and how it was read.
    """

    code: Code
    severity: Literal["error", "warning"]
    """With an error there is no definition that may run; a warning is for people to look at."""
    diagnostic: Diagnostic
    """What, where (line and column) and what to do."""
    words: tuple[Words, ...] = ()
    """Where in the prompt; a contradiction has both places."""

    @property
    def error(self) -> bool:
        """Whether it keeps the definition from running."""
        return self.severity == "error"


What = Literal[
    "agent",
    "phase",
    "dependency",
    "decision",
    "question",
    "gate",
    "permission",
    "visibility",
    "limit",
    "setting",
]
"""What kind of part of a definition it is."""


@dataclass(frozen=True)
class Provenance:
    """A part of the definition and the words that it came from."""

    what: What
    text: str
    """The part in a line: `checker: not approved → writer (≤ 3), else ask`."""
    path: Path
    """Where in the definition, e.g. `("flow", 3)`."""
    words: tuple[Words, ...]
    """Where in the prompt."""


@dataclass(frozen=True)
class CompiledPrompt:
    """A prompt, compiled."""

    text: str
    """The prompt."""
    file: str
    """What it is called in messages."""
    reader: Literal["grammar", "llm"]
    """Which reader made it."""
    ast: PromptAst
    definition: CrewDefinition | None
    """The crew; none where an error keeps it from being one."""
    remarks: tuple[Remark, ...] = ()
    """Errors and warnings, in the order of the prompt."""
    provenance: tuple[Provenance, ...] = ()
    """Every part of the definition that the prompt speaks of."""
    requirements: tuple[str, ...] = ()
    """`audio depends on backend.models_ready`."""
    rounds: int = field(default=0)
    """How often a model had to repair what it had made."""

    @property
    def ok(self) -> bool:
        """Whether there is a definition that may run, once it is approved."""
        return self.definition is not None and not any(r.error for r in self.remarks)

    @property
    def understood(self) -> bool:
        """Whether every sentence is in the definition."""
        return self.ok and not any(r.code == "not_understood" for r in self.remarks)

    @property
    def hash(self) -> ContentHash | None:
        """The definition's address: what is approved is this, and nothing else."""
        return None if self.definition is None else definition_hash(self.definition)

    def words_of(self, words: Words) -> tuple[int, int]:
        """The numbers of the first and the last word of a stretch, from 1."""
        before = len(self.text[: words.start].split())
        first = before + (0 if _inside_word(self.text, words.start) else 1)
        last = len(self.text[: words.end].split())
        return first, max(first, last)

    def lines_of(self, words: Words) -> tuple[int, int]:
        """The numbers of the first and the last line of a stretch, from 1."""
        first = self.text.count("\n", 0, words.start) + 1
        return first, first + self.text.count("\n", words.start, max(words.start, words.end - 1))


def _inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and not text[at - 1].isspace() and not text[at].isspace()
