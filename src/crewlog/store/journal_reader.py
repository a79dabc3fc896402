"""Reads the journal: the state of a run at any position, and the outcome of any command.

A state is folded from the newest snapshot before it. The workflow stores snapshots when it
continues as new, when the run becomes idle with many entries since the last one, and at the end of
the run. So a fold covers about one execution. A missing snapshot only costs time.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from pydantic import ValidationError

from crewlog.errors import InternalError, StoreIncomplete, UsageError
from crewlog.ids import RunId
from crewlog.state.command_outcomes import outcome_of
from crewlog.state.fold import fold
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CommandOutcome, CrewState
from crewlog.store.missing_rows import missing_rows_error
from crewlog.store.projection import first_position
from crewlog.store.protocol import JournalRow, Store

_PAGE = 500
"""Entries in one read. The store decodes them in about 3 ms, in which no other task runs."""
_TURN = 0.004
"""Seconds of folding after which other tasks may run: the process may be a worker."""
_NEWEST = 2**53


async def load_state(store: Store, run: RunId, position: int = 0) -> CrewState:
    """The state of a run at a position, folded from its journal.

    Args:
        store: The store.
        run: The run.
        position: Any position of its own journal; 0: the last stored one.

    Raises:
        StoreIncomplete: the store lacks a part of the journal up to there.
        UsageError: the run is a fork whose own journal begins later.
    """
    state = await _load_snapshot(store, run, position or _NEWEST)
    state = await _fold(store, state, position or _NEWEST)
    if position and state.position != position:
        raise await _missing_position_error(store, run, state.position, position)
    if not state.position:
        raise missing_rows_error(run, "its journal", position=1)
    return state


async def _load_snapshot(store: Store, run: RunId, position: int) -> CrewState:
    """The newest snapshot at or before a position; an empty state if there is none."""
    snapshot = await store.get_snapshot(run, position)
    if snapshot is None:
        return CrewState(run=run)
    try:
        return CrewState.from_json(snapshot.state)
    except ValidationError as error:
        raise _unknown_entry_error(run, snapshot.position, error) from error


async def _fold(store: Store, state: CrewState, to: int) -> CrewState:
    """The state after the entries up to `to`, or up to the first that is missing."""
    while state.position < to:
        size = min(_PAGE, to - state.position)
        rows = await store.read_journal(state.run, state.position, size)
        if not rows:
            return state
        if not state.position:  # a fork's journal begins after its base
            base = first_position(rows[0], 0) - 1
            if base >= to:
                return state
            state = state.model_copy(update={"position": base})
        turn_ends = monotonic() + _TURN
        for row in rows:
            if row.position > to:
                return state
            state = _fold_row(state, row)
            if monotonic() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = monotonic() + _TURN
        if len(rows) < size:
            return state
    return state


def _fold_row(state: CrewState, row: JournalRow) -> CrewState:
    try:
        entry = entry_from_json(row.entry)
    except ValidationError as error:
        raise _unknown_entry_error(state.run, row.position, error) from error
    return fold(state, entry, entry_hash=row.hash)


async def _missing_position_error(
    store: Store, run: RunId, reached: int, position: int
) -> StoreIncomplete | UsageError:
    row = await store.get_run(run)
    if row is not None and row.source is not None and position <= row.source_position:
        return UsageError(
            f"the run {run!r} has no state of its own at position {position}: it is a fork that "
            f"begins after position {row.source_position}",
            remedy=f"Use {row.source}@{position}: its source has that state.",
        )
    return missing_rows_error(run, "its journal", position=reached + 1)


def _unknown_entry_error(run: RunId, position: int, error: ValidationError) -> InternalError:
    return InternalError(
        f"this version of Crewlog cannot read position {position} of the run {run!r}: "
        f"{error.errors()[0]['msg']}",
        remedy="Update Crewlog on this machine.",
    )


async def find_command(store: Store, run: RunId, command: str) -> CommandOutcome | None:
    """The outcome of a command in the stored journal; None if it has none.

    Commands to merged runs count as commands to the surviving run, so their journals are searched,
    too.

    Args:
        store: The store.
        run: The run.
        command: The command's id.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    seen: set[RunId] = set()
    runs = [run]
    while runs:
        seen.update(runs)
        for each in runs:
            if row := await store.find_command(each, command):
                return outcome_of(entry_from_json(row.entry), row.position)
        links = await store.lineage_links(runs)
        merged = {link.source for link in links if link.run in runs and link.by_merge}
        runs = sorted(merged - seen)
    return None
