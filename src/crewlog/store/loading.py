"""The state of a run at any position, and the snapshots that make loading it quick.

The journal is the truth: a state is folded from it. So that no checkpoint needs a long fold,
snapshots are kept at every `EVERY`th position, by whoever appends beyond one: not within the
append, which is one round trip and stays so, but after it. They are at the same positions whoever
makes them, so that a rebuild makes the same rows. One that is missing costs time and nothing else.
"""

from __future__ import annotations

import asyncio

from pydantic import ValidationError

from crewlog.errors import InternalError, StoreIncomplete, UsageError
from crewlog.ids import RunId
from crewlog.state.journal import Batch, entry_from_json
from crewlog.state.model import CrewState
from crewlog.state.reduce import reduce
from crewlog.store.missing import rows_missing
from crewlog.store.projection import begin_of
from crewlog.store.protocol import JournalRow, Snapshot, Store

EVERY = 100
"""Positions between two snapshots: to fold so many entries takes 5 to 10 ms. A step makes some
five, and Postgres compresses a state to a third: one of 8 KB costs a step about 130 bytes."""
_PAGE = 1000
"""Entries that are read at a time."""
_BREATH = 50
"""Entries after which others may run: whoever folds may be a worker with calls under way."""
_NEWEST = 2**53


async def load_state(store: Store, run: RunId, position: int = 0) -> CrewState:
    """The state of a run at a position: what folding its journal up to there gives.

    Args:
        store: The store.
        run: The run.
        position: Any position of its own journal; 0 is the last one that is stored.

    Raises:
        StoreIncomplete: where the store lacks the journal up to there, or a part of it.
        UsageError: where a fork's own journal begins later.
    """
    state = await _nearest(store, run, position or _NEWEST)
    state = await _fold(store, state, position or _NEWEST)
    if position and state.position != position:
        raise await _not_there(store, run, state.position, position)
    if not state.position:
        raise rows_missing(run, "its journal", position=1)
    return state


async def keep_snapshots(store: Store, run: RunId, position: int, *, whole: bool = False) -> None:
    """Keeps the snapshots that there should be up to a position, as far as the journal goes.

    Args:
        store: The store.
        run: The run.
        position: The position.
        whole: Whether those before the newest one are made, too, that are missing; else they are
            taken to be there, or to have been pruned.
    """
    kept = {at for at in await store.list_snapshots(run) if at <= position}
    after = 0 if whole else max(kept, default=0)
    due = [at for at in range(after + EVERY - after % EVERY, position + 1, EVERY) if at not in kept]
    if due:
        begin = await _nearest(store, run, due[0])
        await _fold(store, begin, due[-1], keep=True)


def is_due(batch: Batch) -> bool:
    """Whether a batch has an entry that there should be a snapshot at."""
    return (batch.first - 1) // EVERY < batch.last // EVERY


async def _nearest(store: Store, run: RunId, position: int) -> CrewState:
    """The newest state that is kept at or before a position; one at 0 where there is none."""
    snapshot = await store.get_snapshot(run, position)
    if snapshot is None:
        return CrewState(run=run)
    try:
        return CrewState.from_json(snapshot.state)
    except ValidationError as error:
        raise _unknown(run, snapshot.position, error) from error


async def _fold(store: Store, state: CrewState, to: int, *, keep: bool = False) -> CrewState:
    """The state after the entries up to `to`, or up to the first that is missing."""
    while state.position < to:
        size = min(_PAGE, to - state.position)
        rows = await store.read_journal(state.run, state.position, size)
        if not rows:
            return state
        if not state.position:  # a fork's journal begins after its base
            base = begin_of(rows[0], 0) - 1
            if base >= to:
                return state
            state = state.model_copy(update={"position": base})
        for start in range(0, len(rows), _BREATH):
            for row in rows[start : start + _BREATH]:
                if row.position > to:
                    return state
                state = _applied(state, row)
                if keep and not row.position % EVERY:
                    snapshot = Snapshot(position=row.position, state=state.to_json())
                    await store.put_snapshot(state.run, snapshot, row.digest)
            await asyncio.sleep(0)
        if len(rows) < size:
            return state
    return state


def _applied(state: CrewState, row: JournalRow) -> CrewState:
    try:
        entry = entry_from_json(row.entry)
    except ValidationError as error:
        raise _unknown(state.run, row.position, error) from error
    return reduce(state, entry, digest=row.digest)


async def _not_there(
    store: Store, run: RunId, reached: int, position: int
) -> StoreIncomplete | UsageError:
    row = await store.get_run(run)
    if row is not None and row.source is not None and position <= row.base:
        return UsageError(
            f"the run {run!r} has no state of its own at position {position}: it was forked, and "
            f"begins after position {row.base}",
            remedy=f"The run {row.source!r} has it: use {row.source}@{position}.",
        )
    return rows_missing(run, "its journal", position=reached + 1)


def _unknown(run: RunId, position: int, error: ValidationError) -> InternalError:
    return InternalError(
        f"position {position} of the run {run!r} is not what this version of Crewlog knows: "
        f"{error.errors()[0]['msg']}",
        remedy="Update Crewlog on the machine that says this.",
    )
