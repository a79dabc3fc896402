"""A run's state as it was: from the store, and what that does not have yet from the run itself."""

from __future__ import annotations

from crewlog.client.journal import JournalReader, OpenStore
from crewlog.errors import StoreIncomplete, StoreUnavailable, UsageError
from crewlog.ids import RunId
from crewlog.state.fold import fold
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CrewState
from crewlog.store.journal_reader import load_state

_PAGE = 1000


async def state_at(reader: JournalReader, store: OpenStore, run: RunId, position: int) -> CrewState:
    """The state of a run at a position; see `Run.state_at`."""
    state = await _stored(store, run, position)
    while state.position < position:
        size = min(_PAGE, position - state.position)
        page = (await reader.read(state.position, size)).page
        first = page.entries[0].position if page.entries else 0
        if not state.position and first > 1:  # a fork's journal begins after its base
            state = state.model_copy(update={"position": first - 1})
        if not page.entries or first > position:
            raise UsageError(
                f"the run {run!r} has no position {position}",
                remedy=f"Its journal is at position {page.position}.",
                place=f"run {run!r}",
            )
        for item in page.entries[: position - state.position]:
            state = fold(state, entry_from_json(item.data))
    return state


async def _stored(open_store: OpenStore, run: RunId, position: int) -> CrewState:
    """The state at a position, or the last one before it that the store has."""
    try:
        store = await open_store()
        try:
            return await load_state(store, run, position)
        except StoreIncomplete:
            last = await load_state(store, run)
            return last if last.position <= position else CrewState(run=run)
    except (StoreIncomplete, StoreUnavailable):
        return CrewState(run=run)  # the run itself may have its whole journal
