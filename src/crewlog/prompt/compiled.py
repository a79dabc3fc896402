"""What compiling a prompt gives: a crew, what became of each clause, what does not hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from crewlog.definition.content import definition_hash
from crewlog.definition.model import CrewDefinition
from crewlog.definition.text import Source as Text
from crewlog.errors import Diagnostic
from crewlog.ids import ContentHash
from crewlog.prompt.clauses import Clauses
from crewlog.prompt.faults import Code, Fault
from crewlog.prompt.lower import Source
from crewlog.prompt.reading import Reading

ReaderName = Literal["forms", "model"]


@dataclass(frozen=True)
class Remark:
    """A fault or a note at its place in the prompt."""

    code: Code
    severity: Literal["error", "warning"]
    """A fault is an error: the prompt is not understood. A note says what was assumed."""
    diagnostic: Diagnostic
    """What, where (line and column) and what to do."""
    clauses: tuple[int, ...] = ()

    @property
    def error(self) -> bool:
        """Whether it is a fault."""
        return self.severity == "error"


@dataclass(frozen=True)
class CompiledPrompt:
    """A prompt, compiled."""

    clauses: Clauses
    file: str
    """What the prompt is called in messages."""
    reader: ReaderName
    """Which reader made the reading."""
    reading: Reading
    definition: CrewDefinition | None
    """The crew, as far as there is one: with faults it is shown, and never runs by itself."""
    faults: tuple[Fault, ...] = ()
    notes: tuple[Fault, ...] = ()
    sources: tuple[Source, ...] = ()
    """Every part of the definition that the prompt speaks of, with its clauses."""
    requirements: tuple[str, ...] = ()
    """`audio depends on backend.models_ready`."""
    rounds: int = field(default=0)
    """How often a model had to repair its reading."""

    @property
    def text(self) -> str:
        """The prompt."""
        return self.clauses.text

    @property
    def ok(self) -> bool:
        """Whether there is a crew, and everything is understood."""
        return self.definition is not None and not self.faults

    @property
    def understood(self) -> bool:
        """Whether every clause is used, talk, data or withdrawn, and there is no fault."""
        return self.ok

    @property
    def partial(self) -> bool:
        """Whether there is a crew that could run, though not all of the prompt is in it."""
        bad = {"invalid", "not_offered"}
        return self.definition is not None and not any(f.code in bad for f in self.faults)

    @property
    def hash(self) -> ContentHash | None:
        """The definition's address: what is approved is this, and nothing else."""
        return None if self.definition is None else definition_hash(self.definition)

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """Faults and notes with their places, in the order of the prompt."""
        found = [(self._remark(fault, "error"), fault) for fault in self.faults]
        found += [(self._remark(note, "warning"), note) for note in self.notes]
        found.sort(key=lambda each: each[1].clauses[:1] or (0,))
        return tuple(remark for remark, _ in found)

    def _remark(self, fault: Fault, severity: Literal["error", "warning"]) -> Remark:
        text = Text(self.text, self.file)
        number = fault.clauses[0] if fault.clauses else 0
        if 1 <= number <= len(self.clauses):
            place = self.clauses[number].span
            at = text.span(place.start, place.end)
            told = text.diagnostic(fault.message, at, fault.remedy)
        else:  # it is about the whole prompt
            told = Diagnostic(fault.message, remedy=fault.remedy, file=self.file)
        return Remark(fault.code, severity, told, fault.clauses)
