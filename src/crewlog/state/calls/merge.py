"""Ask the other run of a run merge, read it, and prepare the merge."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.ids import AgentName, ContentHash, LogName, NodeName, RunId
from crewlog.model import Json, Model
from crewlog.state.components import ComponentChange

ASK_OTHER_RUN = "ask_other_run"
READ_OTHER_RUN = "read_other_run"
PREPARE_MERGE = "prepare_merge"


class AskOtherRun(Model):
    """Asks the other run of a merge to coordinate it, or to freeze."""

    run: RunId
    """The run that asks."""
    definition: ContentHash
    """The definition of that run."""
    other: RunId
    """The run that is asked."""
    merge: str
    """The id of the merge."""
    to: Literal["coordinate", "freeze"]
    request: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The command that requests the merge, as it was sent, if it is signed; else empty."""


class AskOtherRunResult(Model):
    """The answer of the other run."""

    frozen_position: int = 0
    """The journal position at which it froze; 0: it coordinates, or refuses."""
    refused: str = ""
    """Why it refuses, with a remedy; empty: it does what it was asked."""
    may_retry: bool = False
    """Whether the same request may succeed later."""


class ReadOtherRun(Model):
    """Loads the last stored state of the other run in a merge."""

    run: RunId
    """The run that reads."""
    definition: ContentHash
    """The definition of that run."""
    other: RunId
    """The run to read."""
    merge: str
    """The id of the merge."""
    sure: bool = True
    """Whether the other run is known to be open; else the server is asked whether it has ended."""
    recall_after: int | None = None
    """The journal position after which to search its journal for the outcome of the merge; none:
    its state is enough."""
    find_widenings: bool = False
    """Whether to find out what the merge widens, if that run asks this one to freeze."""


class ReadOtherRunResult(Model):
    """What the store has of the other run."""

    merge: str
    """The id of the merge."""
    state: dict[str, Json] | None = None
    """The part of its last stored state that a merge needs, see
    `crewlog.state.run_merge.protocol.state_for_merge`; none if nothing of it is stored."""
    gone: bool = False
    """Whether it was terminated or does not exist: the store refuses its entries from now on."""
    recalled: bool = False
    """Whether the state contains the outcome of the merge from the journal."""
    widens: tuple[str, ...] | None = None
    """With `find_widenings`: what the merge widens; see `PrepareMergeResult.widens`. None: nothing
    was compared."""
    compared: ContentHash = ContentHash("")
    """The definition of this run that was compared: `ReadOtherRun.definition`."""
    refused: str = ""
    """With `find_widenings`: why the runs cannot merge; empty if they can."""
    at: int = 0
    """When it was read, in milliseconds since the epoch."""


class PrepareMerge(Model):
    """Makes the definition and the plan of the surviving run, without changing either run."""

    run: RunId
    """The surviving run."""
    base: ContentHash
    """Its definition."""
    other: RunId
    """The merged run."""
    merge: str = ""
    """The id of the merge; empty with `decide`."""
    entered_at: int = 0
    """The journal position at which the surviving run entered the merge."""
    started_at: int = 0
    """When the surviving run was started, in milliseconds since the epoch."""
    position: int = 0
    """The position at which it froze; 0 with `decide`: its last stored state."""
    operation: dict[str, Json]
    """The `connect` or `wire` that connects the two, with the names of each run."""
    asks: RunId
    """The run of the sender of the channel, or of the agent with the wire."""
    artifacts: dict[LogName, ContentHash] = Field(default_factory=dict[LogName, ContentHash])
    """The heads of the logs of the surviving run's artifacts, all of them stored."""
    removed: tuple[str, ...] = ()
    """The agents that were removed from the surviving run, or with `decide` from the run that
    asks."""
    decide: bool = False
    """Whether either run may survive: then the result only reports what the merge would do."""
    merged: tuple[str, ...] = ()
    """The merges by which others became part of the run, by its own journal: the stored state of
    those may be older."""


class PrepareMergeResult(Model):
    """The surviving run after the merge."""

    definition: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The definition as canonical JSON. A rebuild of the store needs it in the history."""
    plan: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The `GraphPlan` as JSON."""
    base: ContentHash = ContentHash("")
    """The definition of the surviving run before the merge."""
    merged_run: RunId = RunId("")
    """The merged run."""
    position: int = 0
    """The position of its last state."""
    started_at: int = 0
    """When it was started, in milliseconds since the epoch."""
    adds_budgets: bool = False
    """Whether the remaining quotas and budgets of both are added: both have the same limits and
    come from one run by splits alone, which divided them."""
    state: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The part of the merged run's last state that is transferred; see
    `crewlog.state.run_merge.surviving_state`."""
    change: ComponentChange = ComponentChange()
    """The change of the components, with the renames."""
    agents: tuple[AgentName, ...] = ()
    """The agents of the merged run, by their new names."""
    nodes: dict[NodeName, NodeName] = Field(default_factory=dict[NodeName, NodeName])
    """The nodes at which they are woken, by their former names."""
    new_nodes: tuple[NodeName, ...] = ()
    """Those of these nodes that the surviving run did not have."""
    quotas: dict[str, str] = Field(default_factory=dict[str, str])
    """The new keys of renamed quotas, by their former keys."""
    artifact_heads: dict[LogName, ContentHash] = Field(default_factory=dict[LogName, ContentHash])
    """Of artifacts that both have: the head that the other run's log contains as well."""
    what: str = ""
    """What changes, in a line, for people."""
    widens: tuple[str, ...] | None = None
    """Each widening against the definition of either run. None: nothing was compared, since the
    policy of both is open or they cannot merge."""
    warnings: tuple[str, ...] = ()
    """Of a dry run: likely mistakes; see `SwapReport`."""
    refused: str = ""
    """Why the runs cannot merge; empty if they can."""
    remedy: str = ""
