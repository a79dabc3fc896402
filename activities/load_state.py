"""A run at a checkpoint, from the store: to go back to, to fork from, or to take up again."""

from __future__ import annotations

from collections.abc import AsyncIterator

from crewlog.activities.definitions import Definitions
from crewlog.activities.open_run import Probe, lowered
from crewlog.errors import UsageError
from crewlog.ids import RunId
from crewlog.model import Json
from crewlog.state.calls import LoadedState, LoadState
from crewlog.state.journal import Batch, JournalEntry, entry_from_json
from crewlog.state.model import CrewState
from crewlog.state.rewinding import Resumption, resumption, settled
from crewlog.store.loading import load_state as state_at
from crewlog.store.missing import rows_missing
from crewlog.store.protocol import Store

_AHEAD = 300
"""Entries after a checkpoint, and before an end, that tell what belongs to it."""


async def load_state(
    task: LoadState,
    run: RunId,
    batch: Batch,
    store: Store,
    definitions: Definitions,
    search_attributes: Probe,
) -> LoadedState:
    """Stores the batch of the run that asks, and loads the state, with the plan that it had.

    Raises:
        UsageError: the position is no checkpoint, the run is completed, or it never had a crew.
        StoreIncomplete: rows of the run are missing.
        InvalidDefinition: the definition that it had does not hold any more.
    """
    if batch.entries:
        await store.append(run, batch)
    last: dict[str, Json] = {}
    decision = ""
    if task.reopen:
        end = await state_at(store, task.run)
        found = await _resumption(store, end)
        last, decision = end.to_json(), found.decision or ""
        then = await state_at(store, task.run, found.position)
    else:
        then = await state_at(store, task.run, await _settled(store, task.run, task.position))
    if not then.definition:
        raise UsageError(
            f"the run {task.run!r} has no crew at position {then.position}",
            remedy="Start it anew, with its prompt.",
        )
    if task.recipe and then.recipe not in ("", then.definition):
        raise UsageError(
            f"the run {task.run!r} was changed since it was started",
            remedy="Take it up as it was at last (`--from live`), and change it then.",
        )
    given = await store.get_definition(then.definition)
    definition, plan = await lowered(given, store, definitions)
    return LoadedState(
        position=then.position,
        state=then.to_json(),
        definition=definition,
        plan=plan,
        search_attributes=await search_attributes(),
        last=last,
        decision=decision,
    )


async def _settled(store: Store, run: RunId, position: int) -> int:
    """The position of a checkpoint's state."""
    entries = await _entries(store, run, position)
    count = settled(entries)
    if count is None:
        raise await _no_checkpoint(store, run, position)
    return position + count - 1


async def _entries(store: Store, run: RunId, position: int) -> list[JournalEntry]:
    rows = await store.read_journal(run, position - 1, _AHEAD)
    # A fork's journal begins after its base: what is asked for may be before that.
    return [entry_from_json(row.entry) for row in rows if rows[0].position == position]


async def _no_checkpoint(store: Store, run: RunId, position: int) -> UsageError:
    """Why a position is none to go to, with the nearest that are."""
    before = after = 0
    async for checkpoint in _checkpoints(store, run):
        if checkpoint < position:
            before = checkpoint
        elif checkpoint > position:
            after = checkpoint
            break
    near = " and ".join(f"{run}@{each}" for each in (before, after) if each)
    listed = f"`crewlog checkpoints {run}` lists them."
    return UsageError(
        f"position {position} of the run {run!r} is no checkpoint",
        remedy=f"The nearest: {near}. {listed}" if near else listed,
    )


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


async def _resumption(store: Store, end: CrewState) -> Resumption:
    after = max(0, end.position - _AHEAD)
    rows = await store.read_journal(end.run, after, _AHEAD)
    if not rows or rows[-1].position != end.position:
        raise rows_missing(end.run, "its journal")
    return resumption(end.run, [(row.position, entry_from_json(row.entry)) for row in rows])
