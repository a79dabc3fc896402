"""The state of a run at any position: the newest snapshot before it, and the journal since."""

from __future__ import annotations

from crewlog.ids import RunId
from crewlog.state.journal import Forked, entry_from_json
from crewlog.state.model import CrewState
from crewlog.state.reduce import reduce
from crewlog.store.missing import rows_missing
from crewlog.store.protocol import Store

_PAGE = 1000
_NEWEST = 2**53


async def load_state(store: Store, run: RunId, position: int = 0) -> CrewState:
    """The state of a run at a position: what folding its journal up to there gives.

    Args:
        store: The store.
        run: The run.
        position: Any position of its own journal; 0 is the last one that is stored.

    Raises:
        StoreIncomplete: where the store lacks the journal up to there, or a part of it.
    """
    to = position or _NEWEST
    snapshot = await store.get_snapshot(run, to)
    state = CrewState.from_json(snapshot.state) if snapshot else CrewState(run=run)
    while state.position < to:
        rows = await store.read_journal(run, state.position, min(_PAGE, to - state.position))
        if not rows:
            break
        for row in rows:
            entry = entry_from_json(row.entry)
            if isinstance(entry, Forked) and not state.position:
                state = CrewState(run=run, position=entry.to)
            state = reduce(state, entry)
    if not state.position or (position and state.position != position):
        raise rows_missing(run, "its journal")
    return state
