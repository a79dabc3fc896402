"""Prepare a run merge."""

from __future__ import annotations

from pydantic import Field

from crewlog.ids import AgentName, ContentHash, LogName, NodeName, RunId
from crewlog.model import Json, Model
from crewlog.state.components import ComponentChange

READ_OTHER_RUN = "read_other_run"
PREPARE_MERGE = "prepare_merge"


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
    recall: bool = False
    """Whether to search its journal for the outcome of the merge."""


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
    position: int = 0
    """The position of its last state; 0: the last stored one."""
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
    """Each widening against the definition in force; none if it was not judged."""
    warnings: tuple[str, ...] = ()
    """Of a dry run: likely mistakes; see `SwapReport`."""
    refused: str = ""
    """Why the runs cannot merge; empty if they can."""
    remedy: str = ""
