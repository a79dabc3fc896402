"""Load a state for a rollback, a fork or a reopen."""

from __future__ import annotations

from pydantic import Field

from crewlog.authority.rights import Touch
from crewlog.definition.policy import Policy
from crewlog.ids import ContentHash, LogName, RunId
from crewlog.model import Json, Model
from crewlog.state.calls.run import SignedStart
from crewlog.state.journal import Batch
from crewlog.state.model import LogHead

RESTORE_STATE = "restore_state"


class RestoreState(Model):
    """Loads the state of a run at a checkpoint, with the plan of that time."""

    run: RunId
    """The run; for a fork another one than the run that asks."""
    position: int = 0
    """The position of the checkpoint."""
    reopen: bool = False
    """Whether an ended run is reopened: then the state right before its end is loaded."""
    recipe: bool = False
    """With `reopen`: whether the run is reopened with its recipe, so that agents may return to
    it."""
    split_after: int | None = None
    """Of a run that a split made of `run`: the position in the journal of `run` after which the
    split is recorded."""
    executions: tuple[str, ...] = ()
    """With `reopen`: the ended executions whose activities may still store something: that is
    refused from here on."""
    batch: Batch = Batch.EMPTY
    """The entries of the run that asks which no completed activity has stored."""
    against: ContentHash = ContentHash("")
    """The definition in force, against which widening is judged; by default the last one of the
    loaded run."""
    use: SignedStart | None = None
    """The start of the run that asks; none for a rollback."""


class RestoreStateResult(Model):
    """A run at a checkpoint."""

    position: int
    """The position of the state: the checkpoint's, or that of the routing that follows from it."""
    state: dict[str, Json]
    definition: dict[str, Json]
    """Its definition there."""
    plan: dict[str, Json]
    """Its `GraphPlan` there."""
    search_attributes: bool = False
    """Whether the server has Crewlog's search attributes."""
    last: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Of a reopened run: the `CrewState` at the end of its journal."""
    decision: str = ""
    """Of a reopened run: the branch step that ended it."""
    widens: tuple[str, ...] | None = None
    """Each widening of the definition there against the one in force; none if it was not judged."""
    touches: tuple[Touch, ...] = ()
    """Of a fork or a reopened run: what else needs a further right; see `TOUCHES`."""
    policy: Policy | None = None
    """The policy in force of the loaded run, whatever it was at the checkpoint."""
    compared: ContentHash = ContentHash("")
    """The definition in force that it was compared with: `RestoreState.against`."""
    split: str = ""
    """Of a split run: the command that split the original run."""
    by: str = ""
    """Of a split run: the principal of that command."""
    former_logs: dict[LogName, LogHead] = Field(default_factory=dict[LogName, LogHead])
    """Of a run that is reopened with its recipe: the logs of the agents that a split moved to other
    runs, at the split."""
    begins: bool = True
    """Whether the policy allows the start."""
    older: tuple[dict[str, Json], ...] = ()
    """The definitions of detached steps. A rebuild of a fork needs them in the history."""
