"""What keeps a run from going on that has work of its own to do: storing, loading, looking up.

Such an activity is tried again for as long as it takes: a run must not fail because its store is
away, or because a row of it cannot be read. The journal says nothing of it, since the journal is
what cannot be stored. The server knows why the last try failed.
"""

from __future__ import annotations

from dataclasses import dataclass

from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import WorkflowExecutionDescription

from crewlog.client.gateway import Gateway
from crewlog.client.pending_calls import failure_of
from crewlog.ids import RunId
from crewlog.state.calls import (
    DELETE_REPLACED_RUN,
    END_RUN,
    FIND_COMMAND,
    PREPARE_CHANGE,
    PREPARE_MERGE,
    RESTORE_STATE,
    STORE_BATCH,
)

TRIES = 3
"""Tries that failed before it is said: what passes by itself within a second is not."""
_DOES = {
    END_RUN: "store its end",
    FIND_COMMAND: "look for an old command",
    STORE_BATCH: "store what happened",
    DELETE_REPLACED_RUN: "remove the rows of the run that it replaces",
    RESTORE_STATE: "load the checkpoint",
    PREPARE_CHANGE: "prepare the change",
    PREPARE_MERGE: "prepare the merge",
}


@dataclass(frozen=True)
class Stalled:
    """Work of a run's own that fails again and again."""

    activity: str
    """Which: `end_run`."""
    error: str
    """The type of the last error, of `crewlog.errors`; empty where it is another."""
    message: str
    """What the last error said."""
    remedy: str = ""
    """What to do."""

    @property
    def words(self) -> str:
        """`cannot store its end: MESSAGE`, for people."""
        return f"cannot {_DOES[self.activity]}: {self.message}"


async def stalled(
    gateway: Gateway, run: RunId, description: WorkflowExecutionDescription | None = None
) -> list[Stalled]:
    """What a run does of its own that fails again and again.

    Args:
        gateway: The server.
        run: The run.
        description: What the server told of the run; by default it is asked.

    Raises:
        RunNotFound: there is no such run.
        TemporalUnavailable: the server is away.
    """
    description = description or await gateway.describe(run)
    return [
        await _told(gateway, run, pending)
        for pending in description.raw_description.pending_activities
        if _is_stalled(pending)
    ]


def _is_stalled(pending: PendingActivityInfo) -> bool:
    does = pending.activity_type.name in _DOES
    return does and pending.attempt > TRIES and pending.HasField("last_failure")


async def _told(gateway: Gateway, run: RunId, pending: PendingActivityInfo) -> Stalled:
    return Stalled(pending.activity_type.name, *await failure_of(gateway, run, pending))
