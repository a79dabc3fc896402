"""What readers of one sentence that stands for itself have in common: the sentence, and mentions."""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.prompt.ast import Words
from crewlog.prompt.grammar.moves import Scan
from crewlog.prompt.grammar.phrase import Unit
from crewlog.prompt.grammar.state import State


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
