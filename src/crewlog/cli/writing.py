"""What models write while they write it: the lines above a terminal's status line."""

from __future__ import annotations

from crewlog.cli.screen import Part, folded, plain
from crewlog.cli.timeline import Timeline
from crewlog.client import Event, TokenEvent
from crewlog.ids import StepId, item_number, node_of
from crewlog.state import journal as j

LINES = 6
"""Lines that all texts together take."""
_KEPT = 2_000
"""Characters of a text that are kept: a terminal shows its end."""


class Writing:
    """The texts under way, by step."""

    def __init__(self) -> None:
        self._texts: dict[StepId, str] = {}

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, event: TokenEvent) -> None:
        """Takes new text."""
        before = "" if event.first else self._texts.get(event.step, "")
        if event.first and event.offset:
            before = "… "  # it was being written before anybody looked
        self._texts[event.step] = (before + event.text)[-_KEPT:]

    def take(self, event: Event) -> None:
        """Takes an event of the journal: a text ends with its call."""
        match event.entry:
            case j.ModelCallCompleted() | j.StepFailed() | j.StepCancelled() | j.StepRetried():
                self._texts.pop(event.entry.step, None)
            case (
                j.RunRolledBack()
                | j.RunReopened()
                | j.RunCompleted()
                | j.RunStopped()
                | j.RunFailed()
            ):
                self._texts.clear()
            case j.RunEndedByMerge():
                self._texts.clear()
            case _:
                pass

    def lines(self, timeline: Timeline, width: int) -> list[list[Part]]:
        """The end of each text beside its node, as lines of at most `width` columns."""
        if not self._texts:
            return []
        room = max(LINES // len(self._texts), 1)
        column = timeline.column(width)
        found: list[list[Part]] = []
        for step, text in list(self._texts.items())[:LINES]:
            item = f" about item {item_number(step)}: " if item_number(step) else ""
            ends = folded(plain(f"{item}{text}"), max(width - column - 14, 12))[-room:]
            for number, end in enumerate(ends):
                node = timeline.fitted(node_of(step) if number == 0 else "", width)
                sign = "✎ " if number == 0 else "  "
                found.append(["        ", *node, "  ", (sign + end, "dim")])
        if len(self._texts) > LINES:
            found.append([(f"        … and {len(self._texts) - LINES} more", "dim")])
        return found
