"""Run merges."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.ids import RunId
from crewlog.model import Json, Model
from crewlog.state.components import Rename

MergeStatus = Literal["requested", "coordinating", "draining", "frozen"]
"""`requested`: the run has asked the other one to coordinate. `coordinating`: the run will survive,
and waits until the other one is frozen. `draining`: it drains, to become part of the other one.
`frozen`: it has drained, and waits for the outcome."""


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
    requester: RunId
    """The run whose command requests the merge: this one or the other one."""
    operation: Json = None
    """The operation that connects the runs."""
    request: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The command that requests the merge, as it was sent, if it is signed; else empty."""
    expect: str = ""
    """The hash that the definition of both runs must have; empty: any."""
    agents: int = 0
    """The number of agents with channels of this run when it entered the merge."""
    has_flow: bool = False
    """Whether this run had a flow then."""
    position: int
    """The journal position at which this run entered the merge."""
    frozen_position: int = 0
    """The journal position at which this run froze; 0: it has not."""
    other_position: int = 0
    """The position at which the other run entered the merge; 0 if that is not known."""
    other_started_at: int = 0
    """When the other run was started, in milliseconds since the epoch: a later run with the same id
    is another one."""
    by: str = ""
    """The principal of the request."""

    @property
    def is_draining(self) -> bool:
        """Whether nothing new may start."""
        return self.status in ("draining", "frozen")


class MergeOutcome(Model):
    """The outcome of a merge for a run."""

    outcome: Literal["merged", "failed"]
    other: RunId
    """The other run."""
    position: int
    """The journal position of the outcome; of the merged run, that in the surviving run."""
    start_position: int = 0
    """The journal position at which the run entered the merge; 0: it never did."""
    merged_position: int = 0
    """Of the surviving run: the position at which the merged run froze."""
    merged_started_at: int = 0
    """Of the surviving run: when the merged run was started. Only that run ends by the outcome."""
    reason: str = ""
    """Why it failed, with a remedy: the start; the journal has all of it."""
    may_retry: bool = False
    """Whether it failed only because a run was busy: the same request may succeed later."""
    renames: tuple[Rename, ...] = ()
    """Of the merged run: the renames in the surviving run."""
