"""What readers of one sentence that stands for itself have in common: the sentence, and mentions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crewlog.prompt.ast import Words
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.moves import Scan, ways
from crewlog.prompt.grammar.phrase import Unit
from crewlog.prompt.grammar.state import State
from crewlog.prompt.grammar.times import lapse_at

NAME = re.compile(r"[A-Za-z][\w.-]{0,62}\w|[A-Za-z]")
NO_PERSON = word_set(
    "i me we us you he she it they them who which nobody somebody someone anyone anybody everyone "
    "everybody people person human humans a an the and or agents agent one"
)
"""Words that are no name of a person."""


class Reading:
    """One sentence, and how far it is read.

    Args:
        state: What the reader knows.
        units: The sentence.
    """

    def __init__(self, state: State, units: Sequence[Unit]) -> None:
        self.state = state
        self.units = units
        self.scan = Scan([unit.text for unit in units])
        self.words = (Words(start=units[0].start, end=units[-1].end),)

    def mentioned_group(self) -> str:
        """Reads the mention of a group that is at hand: its name."""
        self.scan.at += 1
        return self.state.groups.of_sign(self.scan.words[self.scan.at - 1])

    def over(self) -> bool:
        """Whether the sentence is at its end."""
        return not self.scan.word

    def raw(self, unit: Unit) -> str:
        """A word as it is written."""
        return self.state.text[unit.start : unit.end]

    def agents(self) -> tuple[str, ...]:
        """Reads the agents that are next."""
        return self.state.names(" ".join(self.scan.agents()))

    def lapse(self) -> float | None:
        """Reads a duration: its seconds."""
        found = lapse_at(self.scan.words, self.scan.at) if self.scan.word else None
        if found is None or not found.seconds:
            return None
        self.scan.at = found.end
        return found.seconds

    def person(self) -> str | None:
        """A person's name, as it is written."""
        scan = self.scan
        if not scan.word or scan.word in NO_PERSON:
            return None
        raw = self.raw(self.units[scan.at])
        if scan.word[0] in "@#$&~" or not NAME.fullmatch(raw):
            return None
        scan.at += 1
        return raw

    def people(self) -> tuple[str, ...]:
        """Reads people's names, one or several."""
        found: list[str] = []
        while (name := self.person()) is not None:
            found.append(name)
            if not self.scan.takes(ways(", and|, or|,|and|or")):
                break
        return tuple(dict.fromkeys(found))

    def only_these(self, people: Sequence[str]) -> None:
        """Remarks that only these people may answer, which a crew says of every question."""
        self.state.remark(
            "assumed",
            f"only {' and '.join(people)} may answer, whatever is asked",
            list(self.words),
            "Say who else may, e.g. 'Only ana and bob may answer.'",
        )
