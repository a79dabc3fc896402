"""How activities store batches: as the execution that they work for."""

from __future__ import annotations

from collections.abc import Mapping

from temporalio import activity

from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.state.journal import Batch
from crewlog.store.protocol import Store


async def append(
    store: Store, run: RunId, batch: Batch, bodies: Mapping[ContentHash, Json] | None = None
) -> int:
    """Stores a batch and bodies; see `Store.append`.

    A run may have been replaced, or reset, while an activity of its was at work: what it stores
    then is of a history that does not count any more, and is refused.

    Returns:
        The last position at which the run's stored journal says who may call what.

    Raises:
        HistoryConflict: the run has another history.
        StoreUnavailable: the store is away.
    """
    return await store.append(run, batch, bodies, execution=current_execution_id())


def current_execution_id() -> str:
    """Temporal's run id of the execution that the activity works for; empty where there is none."""
    return (activity.info().workflow_run_id or "") if activity.in_activity() else ""
