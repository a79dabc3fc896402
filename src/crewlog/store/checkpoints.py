"""Places in a run's journal to go back to, to fork from, and to go on from after its end."""

from __future__ import annotations

from collections.abc import AsyncIterator

from crewlog.errors import UsageError
from crewlog.ids import RunId
from crewlog.state.checkpoints import checkpoint_kind, nearest, no_checkpoint
from crewlog.state.journal import JournalEntry, entry_from_json
from crewlog.state.rewinding import ENDINGS, Resumption, resumption, settled
from crewlog.store.missing import rows_missing
from crewlog.store.protocol import Store

_AHEAD = 300
"""Entries after a checkpoint, and before an end, that tell what belongs to it."""


async def settled_at(store: Store, run: RunId, position: int) -> int:
    """The position of the state that a checkpoint stands for.

    Raises:
        UsageError: the position is no checkpoint; the remedy names the nearest that are.
    """
    entries = await _entries(store, run, position)
    count = settled(entries)
    if count is None:
        raise await _no_checkpoint(store, run, position, ended=_ends(entries))
    return position + count - 1


async def _entries(store: Store, run: RunId, position: int) -> list[JournalEntry]:
    rows = await store.read_journal(run, position - 1, _AHEAD)
    # A fork's journal begins after its base: what is asked for may be before that.
    return [entry_from_json(row.entry) for row in rows if rows[0].position == position]


def _ends(entries: list[JournalEntry]) -> bool:
    """Whether the first entry ended its run: nothing follows from it that could be gone on with."""
    return (
        len(entries) > 1
        and checkpoint_kind(entries[0].kind, None, " ") is not None
        and entries[1].kind in ENDINGS
    )


async def _no_checkpoint(store: Store, run: RunId, position: int, *, ended: bool) -> UsageError:
    """Why a position is none to go to, with the nearest that are."""
    known = [checkpoint async for checkpoint in _checkpoints(store, run)]
    remedy = nearest(run, position, known)
    if ended:
        return UsageError(
            f"the run {run!r} ended with position {position}: there is nothing to go on with",
            remedy=remedy,
        )
    return UsageError(no_checkpoint(run, position), remedy=remedy)


async def _checkpoints(store: Store, run: RunId) -> AsyncIterator[int]:
    """The places to go to: the run's beginning, and the ends of steps."""
    first = 0
    for row in await store.read_journal(run, 0, 20):
        if not first and settled([entry_from_json(row.entry)]) is not None:
            first = row.position
            yield first
    at = first
    while found := await store.list_checkpoints(run, at):
        for checkpoint in found:
            yield checkpoint.position
        at = found[-1].position


async def resumption_of(store: Store, run: RunId, end: int) -> Resumption:
    """From where a run that has ended goes on.

    Args:
        store: The store.
        run: The run.
        end: The last position of its journal.

    Raises:
        UsageError: it is completed.
        StoreIncomplete: the store lacks the end of its journal.
    """
    rows = await store.read_journal(run, max(0, end - _AHEAD), _AHEAD)
    if not rows or rows[-1].position != end:
        raise rows_missing(run, "its journal", position=end)
    return resumption(run, [(row.position, entry_from_json(row.entry)) for row in rows])
