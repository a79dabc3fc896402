"""The outcome of any command that a run ever had: the journal has them all."""

from __future__ import annotations

from crewlog.ids import RunId
from crewlog.state.commands import outcome_of
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CommandOutcome
from crewlog.store.protocol import Store


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
        came = {t.source for t in await store.ties(here) if t.run in here and t.taken_in}
        here = sorted(came - seen)
    return None
