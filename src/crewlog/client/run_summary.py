"""A run in a list of runs."""

from __future__ import annotations

from dataclasses import dataclass

from crewlog.client.stalled import Stalled
from crewlog.ids import RunId
from crewlog.reporting.trace.view import PendingCall


@dataclass(frozen=True)
class RunSummary:
    """A run in a list."""

    run: RunId
    """The workflow id."""
    crew: str
    """The crew's name, where it is known."""
    status: str
    """A `RunStatus`, or `terminated`, `canceled`, `timed_out`."""
    started: int
    """Milliseconds since the epoch."""
    ended: int | None
    """Milliseconds since the epoch; none while it is open."""
    url: str | None
    """The run in Temporal's web interface."""
    task_queue: str = ""
    """Where it finds its workers; empty where only the store knows the run."""
    wait_reason: str = ""
    """Why nothing of it moves, as it says itself; empty where something does."""
    pending: tuple[PendingCall, ...] = ()
    """Its calls that wait, where they were asked for: without their steps."""
    stalled: tuple[Stalled, ...] = ()
    """What it fails to do of its own, again and again, where that was asked for."""
