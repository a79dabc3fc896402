"""Prepare a run merge."""

from __future__ import annotations

from pydantic import Field

from crewlog.ids import AgentName, ContentHash, LogName, NodeName, RunId
from crewlog.model import Json, Model
from crewlog.state.components import ComponentChange

READ_OTHER_RUN = "read_other_run"
PREPARE_MERGE = "prepare_merge"


class ReadOtherRun(Model):
    """Load the last stored state of another run, for one that is to be one graph with it."""

    run: RunId
    """The run that looks."""
    definition: ContentHash
    """The definition that it has."""
    other: RunId
    """Whom to look at."""
    merge: str
    """The merge."""
    sure: bool = True
    """Whether it is there for certain; else the server is asked whether it has ended."""
    recall: bool = False
    """Whether its journal is searched for the merge's outcome."""


class ReadOtherRunResult(Model):
    """What the store has of another run."""

    merge: str
    """The merge."""
    state: dict[str, Json] | None = None
    """Of its last `CrewState` what the merge needs, see
    `crewlog.state.run_merge.protocol.glimpse`; none: nothing of it is stored."""
    gone: bool = False
    """Whether it was ended from outside, or never was: the store takes nothing more of it."""
    recalled: bool = False
    """Whether the state tells of the merge as the journal does."""
    at: int = 0
    """When it was looked at, in milliseconds since the epoch."""


class PrepareMerge(Model):
    """Make the definition and the plan of two runs that become one; nothing is changed yet."""

    run: RunId
    """The run that stays."""
    base: ContentHash
    """The definition that it has."""
    other: RunId
    """The run that joins."""
    position: int = 0
    """The position of its last state, at which it rests; 0: the last one that is stored."""
    operation: dict[str, Json]
    """The `connect` or `wire` that is to tie the two, by the names of each."""
    asks: RunId
    """The run of its sender, or of the agent that is wired."""
    artifacts: dict[LogName, ContentHash] = Field(default_factory=dict[LogName, ContentHash])
    """The heads of the artifacts' logs that the run which stays has, all of them stored."""
    removed: tuple[str, ...] = ()
    """The agents that the run had which stays, or with `decide` the one that asks, and that were
    removed there."""
    decide: bool = False
    """Whether either may be the one that stays, as comes out: then it is told what would be."""
    merged: tuple[str, ...] = ()
    """The merges by which others became part of the run, by its own journal: what is stored of
    those may not say it yet."""


class PrepareMergeResult(Model):
    """Two runs as one."""

    definition: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The definition as canonical JSON: the history must have it, to rebuild the store from."""
    plan: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The `GraphPlan` as JSON."""
    base: ContentHash = ContentHash("")
    """The definition of the run that stays, of which it is a change."""
    merged_run: RunId = RunId("")
    """The run that joins."""
    position: int = 0
    """The position of its last state."""
    adds_budgets: bool = False
    """Whether what each has left of quotas and budgets is put together: both bound the same by the
    same, and come of one run by splits alone, which have divided it."""
    state: dict[str, Json] = Field(default_factory=dict[str, Json])
    """What is taken over of that; see `crewlog.state.run_merge.surviving_state`."""
    change: ComponentChange = ComponentChange()
    """What becomes of the graphs, with what is called otherwise."""
    agents: tuple[AgentName, ...] = ()
    """The creatures that come, as they are called now."""
    nodes: dict[NodeName, NodeName] = Field(default_factory=dict[NodeName, NodeName])
    """Where they hear from now on, by where they did."""
    new_nodes: tuple[NodeName, ...] = ()
    """Those of these nodes that the run that stays did not know."""
    quotas: dict[str, str] = Field(default_factory=dict[str, str])
    """The keys of quotas that are called otherwise."""
    artifact_heads: dict[LogName, ContentHash] = Field(default_factory=dict[LogName, ContentHash])
    """Of artifacts that both have: the head that the other one's log goes on from, or has, too."""
    what: str = ""
    """What changes, in a line, for people."""
    widens: tuple[str, ...] | None = None
    """By what it gives somebody more than the definition in force; none where nobody has looked."""
    warnings: tuple[str, ...] = ()
    """Where it is only asked for: what whoever asks may not have meant, as `SwapReport` has it."""
    refused: str = ""
    """Why the two cannot be one; empty: they can."""
    remedy: str = ""
