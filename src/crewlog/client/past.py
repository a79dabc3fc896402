"""A run's state as it was: its journal, folded up to a position."""

from __future__ import annotations

from crewlog.client.journal import JournalReader
from crewlog.errors import UsageError
from crewlog.ids import RunId
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CrewState
from crewlog.state.reduce import reduce

_PAGE = 1000


async def state_at(reader: JournalReader, run: RunId, position: int) -> CrewState:
    """The state of a run at a position; see `Run.state_at`."""
    state = CrewState(run=run)
    while state.position < position:
        size = min(_PAGE, position - state.position)
        page = (await reader.read(state.position, size)).page
        if not page.entries:
            raise UsageError(
                f"the run {run!r} has no position {position}",
                remedy=f"Its journal is at position {page.position}.",
                place=f"run {run!r}",
            )
        for item in page.entries:
            state = reduce(state, entry_from_json(item.entry))
    return state
