"""Splits and run merges."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from typing_extensions import override

from crewlog.ids import AgentName, CommandId, ContentHash, NodeName, RunId
from crewlog.model import Json, Model
from crewlog.state.components import Rename
from crewlog.state.journal.change import ComponentEvent, GraphReplacement
from crewlog.state.journal.entry import Entry, LogMerge
from crewlog.state.split import RemainingBudget, SplitContents

__all__ = [
    "ComponentChanged",
    "ComponentEntry",
    "LogsMerged",
    "MergeAccepted",
    "MergeFailed",
    "MergeFrozen",
    "MergeRequested",
    "RunEndedByMerge",
    "RunMerged",
    "SplitRun",
]


class SplitRun(Model):
    """A run that a split makes."""

    run: RunId
    definition: ContentHash
    """Its definition."""
    contents: SplitContents
    """The agents and channels that it gets, with their budget."""


class ComponentChanged(GraphReplacement):
    """The agents or the connections of the component changed."""

    kind: Literal["ComponentChanged"] = "ComponentChanged"
    change: Literal["merge", "split", "nothing"] = "nothing"
    """The kind of the change of components."""
    old_graph_ids: tuple[RunId, ...] = ()
    """The run ids of the components before."""
    new_graph_ids: tuple[RunId, ...] = ()
    """The run ids of the components after."""
    affected_creatures: tuple[AgentName, ...] = ()
    """After a split: the agents whose component has other agents. Else the agents that were added,
    removed, or have other neighbors."""
    events: tuple[ComponentEvent, ...] = ()
    """The changes of agents and connections."""
    split_runs: tuple[SplitRun, ...] = ()
    """Of a split: the new runs. The state of each is its part of this run's state right before."""
    remaining_budget: RemainingBudget = RemainingBudget()
    """Of a split: what the original run may still use."""
    split: str = ""
    """Of a split: the command, whose outcome is `ChangeAccepted`."""
    reason: str = ""
    command: CommandId | None = None


class RunMerged(GraphReplacement):
    """Another run was merged into this one: its agents continue here.

    The entry contains the state of the merged run, so that nothing else is needed to continue. The
    journal of that run ends, and this one continues behind both.
    """

    kind: Literal["RunMerged"] = "RunMerged"
    position: int = Field(gt=0)
    """The position of the entry: behind the last positions of both journals."""
    previous_position: int
    """The position of the entry before it; this run has no entry between the two."""
    change: Literal["merge"] = "merge"
    """The kind of the change of components."""
    old_graph_ids: tuple[RunId, ...] = ()
    """The run ids of the components before."""
    new_graph_ids: tuple[RunId, ...] = ()
    """The run id of the component after."""
    affected_creatures: tuple[AgentName, ...] = ()
    """The agents whose component has other agents."""
    events: tuple[ComponentEvent, ...] = ()
    """The changes of agents and connections."""
    merged_run: RunId
    """The merged run."""
    merged_run_position: int
    """The position in its journal at which it froze: its last state."""
    merged_run_started_at: int
    """When it was started, in milliseconds since the epoch."""
    merge: str
    """The id of the merge."""
    merged_state: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The transferred fields of its last state."""
    renames: tuple[Rename, ...] = ()
    merged_agents: tuple[AgentName, ...] = ()
    """Its agents, by their new names."""
    nodes: dict[NodeName, NodeName] = Field(default_factory=dict[NodeName, NodeName])
    """The nodes at which they are woken, by their former names."""
    new_nodes: tuple[NodeName, ...] = ()
    """Those of these nodes whose visits are counted on from this run's."""
    quotas: dict[str, str] = Field(default_factory=dict[str, str])
    """The new keys of renamed quotas, by their former keys."""
    merged_logs: tuple[LogMerge, ...] = ()
    """Its logs, by their new names."""
    parents: tuple[RunId, ...] = ()
    """The merged run."""
    remaining_budget: RemainingBudget = RemainingBudget()
    """If a split had separated the runs: what both may still use."""
    reason: str = ""

    @property
    @override
    def log_merges(self) -> tuple[LogMerge, ...]:
        return self.merged_logs

    @property
    @override
    def log_source_run_ids(self) -> tuple[RunId, ...]:
        return self.parents

    @override
    def position_after(self, before: int) -> int:
        return self.position


class MergeRequested(Entry):
    """The run requested a merge with another one."""

    kind: Literal["MergeRequested"] = "MergeRequested"
    merge: str
    """The id of the merge, the same in both runs."""
    other: RunId
    """The other run."""
    status: Literal["requested", "coordinating"]
    """`coordinating`: this run will survive. `requested`: the other one will, and is asked to
    coordinate."""
    operation: Json = None
    """The operation that connects them, with the name of the other run."""
    what: str = ""
    """The same, in a line: `connect a to b over c`."""
    agents: int = 0
    """The number of agents with channels of this run: the larger run survives."""
    has_flow: bool = False
    """Whether this run has a flow: then it survives."""
    request: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The command as it was sent, if it is signed: the other run verifies it, too."""
    expect: str = ""
    """The hash that the definition of both runs must have; empty: any."""
    deadline: int
    """Until when this run must be frozen, or the other one, in milliseconds since the epoch."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class MergeAccepted(Entry):
    """The run entered a merge for which the other run asked it."""

    kind: Literal["MergeAccepted"] = "MergeAccepted"
    merge: str
    """The id of the merge."""
    other: RunId
    """The other run."""
    status: Literal["draining", "coordinating"]
    """`draining`: this run will be merged into the other one. `coordinating`: the other way
    round."""
    deadline: int
    """Until when this run must drain, or the other one must be frozen, in milliseconds since the
    epoch."""
    requester: RunId
    """The run whose command requests the merge."""
    other_position: int
    """The journal position at which the other run entered the merge."""
    other_started_at: int = 0
    """When the other run was started, in milliseconds since the epoch."""
    operation: Json = None
    """The operation that connects the runs."""
    request: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The command that requests the merge, as it was sent, if it is signed."""
    expect: str = ""
    """The hash that the definition of both runs must have; empty: any."""
    agents: int = 0
    """The number of agents with channels of this run."""
    has_flow: bool = False
    """Whether this run has a flow."""
    by: str = ""
    """The principal of the request."""


class MergeFrozen(Entry):
    """The run has drained: the coordinator may merge it.

    From here on it records nothing that changes it, until it has read the outcome in the
    coordinator's journal.
    """

    kind: Literal["MergeFrozen"] = "MergeFrozen"
    merge: str
    """The id of the merge."""
    other: RunId
    """The coordinator, which survives."""


class MergeFailed(Entry):
    """The merge failed: both runs continue alone."""

    kind: Literal["MergeFailed"] = "MergeFailed"
    merge: str
    """The id of the merge."""
    other: RunId
    """The other run."""
    reason: str
    """Why, for people, with a remedy."""
    may_retry: bool = False
    """Whether it failed only because a run was busy: the same request may succeed later."""


class RunEndedByMerge(Entry):
    """The run was merged into another one: it ends, and continues there."""

    kind: Literal["RunEndedByMerge"] = "RunEndedByMerge"
    merge: str
    """The id of the merge."""
    run: RunId
    """The surviving run."""
    position: int
    """The position of `RunMerged` in its journal."""
    renames: tuple[Rename, ...] = ()


class LogsMerged(Entry):
    """Logs of other runs became logs of this run."""

    kind: Literal["LogsMerged"] = "LogsMerged"
    merged_logs: tuple[LogMerge, ...] = ()
    """The logs. A log that several runs have occurs once for each."""
    parents: tuple[RunId, ...] = ()
    """The runs that have them."""

    @property
    @override
    def log_merges(self) -> tuple[LogMerge, ...]:
        return self.merged_logs

    @property
    @override
    def log_source_run_ids(self) -> tuple[RunId, ...]:
        return self.parents


ComponentEntry = (
    ComponentChanged
    | RunMerged
    | MergeRequested
    | MergeAccepted
    | MergeFrozen
    | MergeFailed
    | RunEndedByMerge
    | LogsMerged
)
