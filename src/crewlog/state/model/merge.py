"""Run merges."""

from __future__ import annotations

from typing import Literal

from crewlog.ids import RunId
from crewlog.model import Json, Model
from crewlog.state.components import Rename

MergeStatus = Literal["requested", "draining", "surviving", "offered"]
"""`requested`: the run has asked the other one. `draining`: it drains, to become part of the other
one. `offered`: it has drained, and waits for the outcome. `surviving`: it waits until the other run
is offered."""


class PendingMerge(Model):
    """A run merge that is not decided; see `crewlog.state.run_merge.protocol`."""

    merge: str
    """The id of the merge, the same in both runs; see `crewlog.ids.merge_id`."""
    other: RunId
    """The other run."""
    status: MergeStatus
    at: int = 0
    """When the status began, in milliseconds since the epoch."""
    deadline: int = 0
    """Until when it may last, in milliseconds since the epoch; 0: without limit."""
    operation: Json = None
    """The operation that connects the runs."""
    agents: int = 0
    """The number of agents with channels of the run that asked, at that time."""
    has_flow: bool = False
    """Whether the run that asked has a flow."""
    priority: tuple[int, RunId]
    """When it was requested, and by which run: the smaller of two requests is served first."""
    position: int
    """The journal position at which this run entered the merge."""
    other_position: int = 0
    """The position at which the other run did; 0 if that is not known."""
    other_started_at: int = 0
    """When the other run was started, in milliseconds since the epoch: a later run with the same id
    is another one."""
    by: str = ""
    """The principal of the request."""

    @property
    def is_draining(self) -> bool:
        """Whether nothing new may start."""
        return self.status in ("draining", "offered")


class MergeOutcome(Model):
    """The outcome of a merge for a run."""

    outcome: Literal["merged", "failed"]
    other: RunId
    """The other run."""
    position: int
    """The journal position of the outcome; of the merged run, that in the surviving run."""
    start_position: int = 0
    """The journal position at which the run entered the merge; 0: it never did."""
    reason: str = ""
    """Why it failed, with a remedy: the start; the journal has all of it."""
    renames: tuple[Rename, ...] = ()
    """Of the merged run: the renames in the surviving run."""
