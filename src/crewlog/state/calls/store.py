"""Store entries, and notify other runs of a run merge."""

from __future__ import annotations

from crewlog.ids import ContentHash, RunId
from crewlog.model import Json, Model
from crewlog.state.journal import Batch

STORE_BATCH = "store_batch"


class MergeNotification(Model):
    """Confirms the outcome of a merge: the other run reads the stored state of this one."""

    merge: str
    """The id of the merge."""
    to: RunId
    """The other run."""


class StoreBatch(Model):
    """Stores entries that no activity has stored."""

    run: RunId
    batch: Batch
    definition: ContentHash = ContentHash("")
    state: dict[str, Json] | None = None
    """The state after the batch, to be stored as a snapshot; none: no snapshot."""
    notifications: tuple[MergeNotification, ...] = ()
    """Sent once the batch is stored. If there are any, the result is a `StoreBatchResult`."""


class StoreBatchResult(Model):
    """The result of the notifications of a `StoreBatch`."""

    unsent: tuple[MergeNotification, ...] = ()
    """The notifications that may not have arrived."""
