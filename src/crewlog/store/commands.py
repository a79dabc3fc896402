"""The outcome of any command that a run ever had: the journal has them all."""

from __future__ import annotations

from crewlog.ids import RunId
from crewlog.state.commands import outcome_of
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CommandOutcome
from crewlog.store.protocol import Store


async def find_command(store: Store, run: RunId, command: str) -> CommandOutcome | None:
    """The outcome of a command as the stored journal has it; none where it has none.

    Args:
        store: The store.
        run: The run.
        command: The command's id.

    Raises:
        StoreUnavailable: the store is away.
    """
    row = await store.find_command(run, command)
    return outcome_of(entry_from_json(row.entry), row.position) if row else None
