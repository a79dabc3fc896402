"""Load a state for a rollback, a fork or a reopen."""

from __future__ import annotations

from pydantic import Field

from crewlog.definition.policy import Policy
from crewlog.ids import ContentHash, LogName, RunId
from crewlog.model import Json, Model
from crewlog.state.calls.run import SignedStart
from crewlog.state.journal import Batch
from crewlog.state.model import LogHead

RESTORE_STATE = "restore_state"


class RestoreState(Model):
    """Load the state of a run at a checkpoint, with the plan that it had there."""

    run: RunId
    """Whose: for a fork another run than the one that asks."""
    position: int = 0
    """The checkpoint."""
    reopen: bool = False
    """Whether the run has ended and goes on: then its state is wanted right before what ended
    it."""
    recipe: bool = False
    """With `reopen`: whether it goes on with its recipe, to which creatures may come back."""
    split_after: int | None = None
    """Set where the run that asks was parted from it: its journal says so above this position."""
    executions: tuple[str, ...] = ()
    """With `reopen`: the executions that have ended, whose activities may be storing still: that is
    refused from here on."""
    batch: Batch = Batch.EMPTY
    """What no finished activity has stored yet, of the run that asks."""
    against: ContentHash = ContentHash("")
    """The definition in force, whose authority the state's is compared with; by default the last
    one of the run that is loaded."""
    use: SignedStart | None = None
    """The start of the run that asks, which goes on from what is loaded; none for a rollback."""


class RestoreStateResult(Model):
    """A run at a checkpoint."""

    position: int
    """The position that the state is of: the checkpoint's, with the routing that belongs to it."""
    state: dict[str, Json]
    """The `CrewState`."""
    definition: dict[str, Json]
    """The definition that it had there."""
    plan: dict[str, Json]
    """The `GraphPlan` that it had there."""
    search_attributes: bool = False
    """Whether the server knows Crewlog's search attributes."""
    last: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Of a run that goes on after its end: the `CrewState` at the end of its journal."""
    decision: str = ""
    """Of such a run: the step of the decision that ended it."""
    widens: tuple[str, ...] | None = None
    """By what the definition that it had there gives somebody more than the one in force does; none
    where nobody has looked."""
    policy: Policy | None = None
    """The policy in force of the run that is loaded, whatever it was at the checkpoint."""
    compared: ContentHash = ContentHash("")
    """The definition in force that it was compared with: `RestoreState.against`."""
    split: str = ""
    """Of a part of another run: the command that parted them."""
    by: str = ""
    """Of the same: who gave it."""
    former_logs: dict[LogName, LogHead] = Field(default_factory=dict[LogName, LogHead])
    """Of a run that goes on with its recipe: the logs of those who left it for runs of their own,
    as they were then."""
    begins: bool = True
    """Whether the policy lets the start in."""
    older: tuple[dict[str, Json], ...] = ()
    """The definitions of steps whose nodes a change took away: the history must have them, to
    rebuild a fork from that alone."""
