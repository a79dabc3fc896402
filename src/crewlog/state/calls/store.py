"""Store a batch of the journal."""

from __future__ import annotations

from crewlog.ids import ContentHash, RunId
from crewlog.model import Json, Model
from crewlog.state.journal import Batch

STORE_BATCH = "store_batch"


class MergeNotification(Model):
    """Has another run look at what the store has of this one."""

    merge: str
    """The merge."""
    to: RunId
    """The other run."""


class StoreBatch(Model):
    """Store what no activity has stored."""

    run: RunId
    batch: Batch
    definition: ContentHash = ContentHash("")
    state: dict[str, Json] | None = None
    """The state at the batch's end, to be kept as a snapshot."""
    notifications: tuple[MergeNotification, ...] = ()
    """Given once all of it is stored; then the result is a `StoreBatchResult`."""


class StoreBatchResult(Model):
    """What became of the hints of a `StoreBatch`."""

    gone: tuple[RunId, ...] = ()
    """The runs that have ended, or never were."""
    unsent: tuple[MergeNotification, ...] = ()
    """The hints of which nobody knows whether they came."""
