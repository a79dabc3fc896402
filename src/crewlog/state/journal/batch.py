"""Batches of entries on their way to the store."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import ClassVar

from pydantic import Field

from crewlog.ids import ContentHash, LogName
from crewlog.model import Json, Model
from crewlog.state.journal.union import entry_position

__all__ = ["Batch"]

_KIND = itemgetter("kind")


class Batch(Model):
    """Consecutive entries on their way to the store, with the heads that they extend.

    The links of logs follow from the entries and the heads, and are not sent. In the inputs of
    activities the entries are packed, see `crewlog.state.batch_codec`.
    """

    EMPTY: ClassVar[Batch]

    first: int = 1
    """The position of the first entry."""
    at: int | None = None
    """The time of the first entry, if the entries are packed."""
    heads: dict[LogName, ContentHash] = Field(default_factory=dict[LogName, ContentHash])
    """The heads of the extended logs before the batch."""
    entries: tuple[dict[str, Json], ...] = ()
    """The entries, as `entry_to_json` makes them."""

    @property
    def last(self) -> int:
        """The position of the last entry; of an empty batch, the one before `first`."""
        positions = self.positions()
        return positions[-1] if positions else self.first - 1

    def positions(self) -> Sequence[int]:
        """The positions of the entries, in order."""
        if "RunMerged" not in map(_KIND, self.entries):
            return range(self.first, self.first + len(self.entries))
        found: list[int] = []
        at = self.first - 1
        for entry in self.entries:
            at = entry_position(entry, at)
            found.append(at)
        return found


Batch.EMPTY = Batch()
