"""The ledger: the live state, the journal of this execution, and what is not stored yet.

`record` is the one way to add a fact. The ledger keeps the entries that no finished activity has
stored; every activity's input carries them, so that storing costs no round trip of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from crewlog.canonical_json import canonical, hash_bytes
from crewlog.ids import ContentHash, LogName
from crewlog.model import Json
from crewlog.state.batch_codec import pack
from crewlog.state.body_metadata import body_metadata
from crewlog.state.calls import CallResult
from crewlog.state.fold import fold
from crewlog.state.journal import Batch, JournalEntry, entry_to_json, preceding_position
from crewlog.state.logs import empty_log_head
from crewlog.state.model import CrewState

LARGEST_TOLD = 32 * 1024
"""Bytes of an answer that entries are packed by; less than what is kept outside of histories."""


@dataclass(frozen=True)
class _UnstoredEntry:
    """An entry on its way to the store, and the heads before it that it extends."""

    position: int
    data: dict[str, Json]
    size: int
    heads: dict[LogName, ContentHash]


class Transaction:
    """The transaction that is open, as a re-entrant context: an inner one is part of the outer."""

    __slots__ = ("depth", "first")

    def __init__(self) -> None:
        self.depth = 0
        self.first = 0
        """The position of its first entry; 0: none is recorded yet."""

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if not self.depth:
            self.first = 0


@dataclass
class Journal:
    """A run's state and journal, as one execution holds them."""

    state: CrewState
    entries: list[dict[str, Json]] = field(default_factory=list[dict[str, Json]])
    """The journal of this execution, as JSON."""
    first: int = 1
    """The position from which on all entries are here."""
    _positions: list[int] = field(default_factory=list[int])
    _unstored: list[_UnstoredEntry] = field(default_factory=list[_UnstoredEntry])
    _told: dict[ContentHash, dict[str, Json]] = field(
        default_factory=dict[ContentHash, dict[str, Json]]
    )
    _batch: Batch | None = None

    transaction: Transaction = field(default_factory=Transaction)
    """Makes what is recorded inside of `with journal.transaction:` one transaction."""

    def __post_init__(self) -> None:
        self.first = self.state.position + 1

    @classmethod
    def from_carry(cls, state: CrewState, batch: Batch) -> Journal:
        """A ledger that begins with entries that another execution recorded and did not store.

        Args:
            state: The state after them.
            batch: The entries, whole.
        """
        ledger = cls(state)
        if batch.entries:
            ledger.first = preceding_position(batch.entries[0], batch.first) + 1
            ledger.entries = list(batch.entries)
            ledger._positions = list(batch.positions())
        heads = batch.heads
        for position, data in zip(batch.positions(), batch.entries, strict=True):
            ledger._unstored.append(_UnstoredEntry(position, data, len(canonical(data)), heads))
            heads = {}  # those before the first: what is carried together is stored together
        return ledger

    def record(self, entry: JournalEntry) -> JournalEntry:
        """Adds a new entry: reduces it into the state, and keeps it until it is stored."""
        transaction = self.transaction
        if transaction.first:
            # The entry is new and has no other owner: no copy is needed.
            vars(entry)["transaction"] = transaction.first
            entry.model_fields_set.add("transaction")
        data = entry_to_json(entry)
        encoded = canonical(data)
        before = self.state
        self.state = fold(before, entry, entry_hash=hash_bytes(encoded))
        if transaction.depth and not transaction.first:
            transaction.first = self.state.position
        heads: dict[LogName, ContentHash] = {}
        said = entry.message.logs if entry.message else ()
        for log in (*said, *(join.log for join in entry.log_merges)):
            known = before.messages.get(log)
            heads[log] = known.head if known else empty_log_head(before.run, log)
        self.entries.append(data)
        self._positions.append(self.state.position)
        self._unstored.append(_UnstoredEntry(self.state.position, data, len(encoded), heads))
        self._batch = None
        return entry

    def learn(self, answer: CallResult) -> None:
        """Notes what an answer's body tells: entries about it pack smaller.

        Not of a large one, which may be kept outside of the history: losing it must not lose
        journal entries. And not of one that the store does not have.
        """
        if answer.stored and len(canonical(answer.to_json())) <= LARGEST_TOLD:
            self._told[answer.hash] = body_metadata(answer.body)

    def batch(self) -> Batch:
        """What is not stored yet, packed."""
        if self._batch is None:
            self._batch = pack(self.unpacked_batch(), self._told)
        return self._batch

    def unpacked_batch(self) -> Batch:
        """What is not stored yet, as it is: the packed one leaves out what its history tells."""
        if not self._unstored:
            return Batch.EMPTY
        heads: dict[LogName, ContentHash] = {}
        for entry in self._unstored:
            for log, head in entry.heads.items():
                heads.setdefault(log, head)
        entries = tuple(entry.data for entry in self._unstored)
        return Batch(first=self._unstored[0].position, heads=heads, entries=entries)

    @property
    def unstored_bytes(self) -> int:
        """The size of the batch, about."""
        return sum(entry.size for entry in self._unstored)

    def has_unstored(self, position: int) -> bool:
        """Whether the store may lack an entry up to `position`."""
        return bool(self._unstored) and self._unstored[0].position <= position

    def mark_stored(self, position: int) -> None:
        """Notes that the entries up to `position` are stored."""
        self._unstored = [entry for entry in self._unstored if entry.position > position]
        self._batch = None
        if not self._unstored:
            self._told.clear()

    def page(self, after: int, limit: int) -> list[tuple[int, dict[str, Json]]]:
        """Entries of this execution at positions above `after`, with their positions."""
        start = bisect_right(self._positions, after)
        there = slice(start, start + limit)
        return list(zip(self._positions[there], self.entries[there], strict=True))
