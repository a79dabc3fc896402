"""The state of a run at any position: the journal is the truth, and a state is folded from it.

A snapshot is kept where the workflow has its state at hand as JSON: where an execution leaves,
where a run comes to rest with many entries since the last one, and at the end of the run. A state
is folded from the newest snapshot before it, which is at most about one execution. One that is
missing costs time and nothing else.

The outcome of any command that a run ever had: the journal has them all.
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
"""Entries that are read at a time: others wait while the store decodes them, some 3 ms."""
_TURN = 0.004
"""Seconds after which other tasks run: the process may be a worker with calls under way."""
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
    state = await _load_snapshot(store, run, position or _NEWEST)
    state = await _fold(store, state, position or _NEWEST)
    if position and state.position != position:
        raise await _not_there(store, run, state.position, position)
    if not state.position:
        raise missing_rows_error(run, "its journal", position=1)
    return state


async def _load_snapshot(store: Store, run: RunId, position: int) -> CrewState:
    """The newest state that is kept at or before a position; one at 0 where there is none."""
    snapshot = await store.get_snapshot(run, position)
    if snapshot is None:
        return CrewState(run=run)
    try:
        return CrewState.from_json(snapshot.state)
    except ValidationError as error:
        raise _unknown(run, snapshot.position, error) from error


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
            state = _applied(state, row)
            if monotonic() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = monotonic() + _TURN
        if len(rows) < size:
            return state
    return state


def _applied(state: CrewState, row: JournalRow) -> CrewState:
    try:
        entry = entry_from_json(row.entry)
    except ValidationError as error:
        raise _unknown(state.run, row.position, error) from error
    return fold(state, entry, digest=row.hash)


async def _not_there(
    store: Store, run: RunId, reached: int, position: int
) -> StoreIncomplete | UsageError:
    row = await store.get_run(run)
    if row is not None and row.source is not None and position <= row.source_position:
        return UsageError(
            f"the run {run!r} has no state of its own at position {position}: it was forked, and "
            f"begins after position {row.source_position}",
            remedy=f"The run {row.source!r} has it: use {row.source}@{position}.",
        )
    return missing_rows_error(run, "its journal", position=reached + 1)


def _unknown(run: RunId, position: int, error: ValidationError) -> InternalError:
    return InternalError(
        f"position {position} of the run {run!r} is not what this version of Crewlog knows: "
        f"{error.errors()[0]['msg']}",
        remedy="Update Crewlog on the machine that says this.",
    )


async def find_command(store: Store, run: RunId, command: str) -> CommandOutcome | None:
    """The outcome of a command as the stored journal has it; none where it has none.

    What was said to a run that was taken in was said to the one that took it in: its journal counts
    too, and so does that of whoever it had taken in before.

    Args:
        store: The store.
        run: The run.
        command: The command's id.

    Raises:
        StoreUnavailable: the store is away.
    """
    seen: set[RunId] = set()
    here = [run]
    while here:
        seen.update(here)
        for each in here:
            if row := await store.find_command(each, command):
                return outcome_of(entry_from_json(row.entry), row.position)
        came = {t.source for t in await store.lineage_links(here) if t.run in here and t.by_merge}
        here = sorted(came - seen)
    return None
