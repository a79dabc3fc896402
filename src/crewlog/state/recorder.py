"""The state and the journal of a run, as one execution holds them.

`record` is the only way to add an entry. Entries that no completed activity has stored are part of
the input of every activity, so storing them needs no call of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field

from crewlog.canonical_json import canonical, hash_bytes
from crewlog.ids import ContentHash, LogName
from crewlog.model import Json
from crewlog.state.batch_codec import pack
from crewlog.state.body_metadata import body_metadata
from crewlog.state.calls import CallResult
from crewlog.state.fold import fold
from crewlog.state.journal import Batch, JournalEntry, entry_to_json, preceding_position
from crewlog.state.logs import empty_log_head, extended_logs
from crewlog.state.model import CrewState

LARGEST_PACKED_RESULT = 32 * 1024
"""The most bytes of a call result whose metadata packs entries: larger ones may be kept in external
storage."""


@dataclass(frozen=True)
class _UnstoredEntry:
    """An entry that is not stored, and the heads that it extends."""

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
    """The state and the journal of a run, as one execution holds them."""

    state: CrewState
    entries: list[dict[str, Json]] = field(default_factory=list[dict[str, Json]])
    """The entries of this execution, as JSON."""
    first: int = 1
    """The position from which on all entries are here."""
    _positions: list[int] = field(default_factory=list[int])
    _unstored: list[_UnstoredEntry] = field(default_factory=list[_UnstoredEntry])
    _metadata: dict[ContentHash, dict[str, Json]] = field(
        default_factory=dict[ContentHash, dict[str, Json]]
    )
    _batch: Batch | None = None
    _extended_logs: Collection[LogName] = ()

    transaction: Transaction = field(default_factory=Transaction)
    """Makes what is recorded inside of `with journal.transaction:` one transaction."""

    def __post_init__(self) -> None:
        self.first = self.state.position + 1

    @classmethod
    def from_carry(cls, state: CrewState, batch: Batch) -> Journal:
        """A journal that starts with entries that the last execution did not store.

        Args:
            state: The state after them.
            batch: The entries, unpacked.
        """
        journal = cls(state)
        if batch.entries:
            journal.first = preceding_position(batch.entries[0], batch.first) + 1
            journal.entries = list(batch.entries)
            journal._positions = list(batch.positions())
        heads = batch.heads
        for position, data in zip(batch.positions(), batch.entries, strict=True):
            journal._unstored.append(_UnstoredEntry(position, data, len(canonical(data)), heads))
            heads = {}  # the heads before the first entry: a carried batch is stored as one
        return journal

    def record(self, entry: JournalEntry) -> JournalEntry:
        """Adds an entry: folds it into the state, and keeps it until it is stored."""
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
        message_logs = entry.message.logs if entry.message else ()
        for log in (*message_logs, *(merge.log for merge in entry.log_merges)):
            log_head = before.messages.get(log)
            heads[log] = log_head.head if log_head else empty_log_head(before.run, log)
        self.entries.append(data)
        self._positions.append(self.state.position)
        self._unstored.append(_UnstoredEntry(self.state.position, data, len(encoded), heads))
        self._batch = None
        return entry

    def learn(self, result: CallResult) -> None:
        """Keeps the metadata of a call's message: entries about it pack smaller.

        Not if the store does not have the message. Nor that of a large one: it may be in external
        storage, whose loss must not lose entries.
        """
        if result.stored and len(canonical(result.to_json())) <= LARGEST_PACKED_RESULT:
            self._metadata[result.hash] = body_metadata(result.body)

    def batch(self) -> Batch:
        """The entries that are not stored, packed."""
        if self._batch is None:
            whole = self.unpacked_batch()
            self._batch = pack(whole, self._metadata)
            self._extended_logs = extended_logs(whole)
        return self._batch

    @property
    def extended_logs(self) -> Collection[LogName]:
        """The logs that the batch extends."""
        self.batch()
        return self._extended_logs

    def unpacked_batch(self) -> Batch:
        """The entries that are not stored. Unpacking the packed ones needs the history."""
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
        """The approximate size of the batch."""
        return sum(entry.size for entry in self._unstored)

    def has_unstored(self, position: int) -> bool:
        """Whether an entry up to `position` may not be stored."""
        return bool(self._unstored) and self._unstored[0].position <= position

    def mark_stored(self, position: int) -> None:
        """Records that the entries up to `position` are stored."""
        self._unstored = [entry for entry in self._unstored if entry.position > position]
        self._batch = None
        if not self._unstored:
            self._metadata.clear()

    def page(self, after: int, limit: int) -> list[tuple[int, dict[str, Json]]]:
        """Entries of this execution at positions above `after`, with their positions."""
        start = bisect_right(self._positions, after)
        selected = slice(start, start + limit)
        return list(zip(self._positions[selected], self.entries[selected], strict=True))
