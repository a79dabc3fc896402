"""Changes of the graph, the definition and permissions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.authority.permissions import LivePermission
from crewlog.ids import AgentName, CommandId, ContentHash, CrewName, FlagName, NodeName, StepId
from crewlog.model import Json, Model
from crewlog.state.journal.entry import Entry
from crewlog.state.journal.step import ReachedNode

__all__ = [
    "AgentPermissionSet",
    "ChangeAccepted",
    "ChangeEntry",
    "ComponentEvent",
    "DefinitionChanged",
    "GraphReplacement",
    "GraphSwapped",
    "Remap",
    "SwapFailed",
    "ToolPermissionSet",
]


class ChangeAccepted(Entry):
    """A change that leads to another graph was accepted: the run drains for the swap."""

    kind: Literal["ChangeAccepted"] = "ChangeAccepted"
    graph_version: int
    """The version of the new graph."""
    definition: ContentHash
    """The definition of the new graph."""
    what: str = ""
    """What changes, in a line."""
    abandon: bool = False
    """Whether turns of removed nodes are cancelled."""
    nodes: tuple[NodeName, ...] = ()
    """Of a split: the nodes of the split runs. Only these are drained."""
    basis: ContentHash = ContentHash("")
    """The basis of the new definition; empty if it is a whole one."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class ComponentEvent(Model):
    """The change of an agent with channels, an output wire or a parent link."""

    event: Literal[
        "CREATURE_STARTED",
        "CREATURE_STOPPED",
        "OUTPUT_WIRE_ADDED",
        "OUTPUT_WIRE_REMOVED",
        "PARENT_LINK_CHANGED",
        "SESSION_FORKED",
        "CREATURE_SESSION_ATTACHED",
    ]
    agent: AgentName
    to: str = ""
    """Of a wire: its target; of a parent link: the new parent; of a session: the run."""


class Remap(Model):
    """The changes of the frontier and the routing for another graph."""

    detached_turns: tuple[StepId, ...] = ()
    """Steps in a turn whose nodes are removed: their turns run to the end."""
    detached: tuple[StepId, ...] = ()
    """Other steps whose nodes are removed."""
    reattached: tuple[StepId, ...] = ()
    """Detached steps whose nodes are back."""
    retracted: tuple[StepId, ...] = ()
    """Steps that have not started and whose joins are not met in the new graph; their visit numbers
    are free again."""
    reached: tuple[ReachedNode, ...] = ()
    """Nodes that get a step by the new graph: their joins fire."""
    replaced: tuple[ReachedNode, ...] = ()
    """Nodes that get a step in the place of another node's step that no join started."""
    passed: tuple[NodeName, ...] = ()
    """All nodes that the run has passed: they do not start, and count as done."""
    requirements: dict[StepId, str] = Field(default_factory=dict[StepId, str])
    """The new requirements of steps that have not started; empty: none."""
    generations: dict[NodeName, dict[NodeName, int | None]] = Field(
        default_factory=dict[NodeName, dict[NodeName, int | None]]
    )
    """The changed arrivals of sources at the start of joins' generations."""


class GraphReplacement(Entry):
    """The run has another graph from here on."""

    graph_version: int
    """The version of the new graph."""
    crew: CrewName
    definition: ContentHash
    remap: Remap = Remap()
    permissions: dict[str, tuple[AgentName, ...] | None] = Field(
        default_factory=dict[str, tuple[AgentName, ...] | None]
    )
    """The agents that may call a tool from now on: the whole matrix."""
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    """The first values of new run outputs."""
    coordination_rules: tuple[str, ...] = ()
    """The joins, conditions and branches of the crew, as text."""
    basis: ContentHash = ContentHash("")
    """The basis of the new definition; empty if it is a whole one."""
    what: str = ""
    """What changed, in a line."""
    by: str = ""


class GraphSwapped(GraphReplacement):
    """The run continues with another graph."""

    kind: Literal["GraphSwapped"] = "GraphSwapped"


class SwapFailed(Entry):
    """The swap failed; the run continues with the graph that it had."""

    kind: Literal["SwapFailed"] = "SwapFailed"
    graph_version: int
    """The version that the new graph would have had."""
    error: str


class DefinitionChanged(Entry):
    """The definition changed, and the graph did not; it is in force from the next step on."""

    kind: Literal["DefinitionChanged"] = "DefinitionChanged"
    crew: CrewName
    definition: ContentHash
    permissions: dict[str, tuple[AgentName, ...] | None] = Field(
        default_factory=dict[str, tuple[AgentName, ...] | None]
    )
    """The agents that may call a tool from now on: the whole matrix."""
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    """The first values of new run outputs."""
    coordination_rules: tuple[str, ...] = ()
    """The joins, conditions and branches of the crew, as text."""
    events: tuple[ComponentEvent, ...] = ()
    """The agents with channels that it starts or stops."""
    basis: ContentHash = ContentHash("")
    """The basis of the new definition; empty if it is a whole one."""
    pending_definition: ContentHash = ContentHash("")
    """The definition of the pending change from now on, which has this change, too; empty if none
    is pending."""
    what: str = ""
    """What changed, in a line."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class ToolPermissionSet(Entry):
    """People set the agents that may call a tool, from the next call on."""

    kind: Literal["ToolPermissionSet"] = "ToolPermissionSet"
    tool: str
    agents: tuple[AgentName, ...] | None
    """Null: every agent that has it; an empty list: none."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class AgentPermissionSet(Entry):
    """People set a permission of an agent for a tool, from the next call on."""

    kind: Literal["AgentPermissionSet"] = "AgentPermissionSet"
    tool: str
    agent: str
    """The agent; `*`: every agent."""
    do: LivePermission | None
    """Null: the definition applies again."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


ChangeEntry = (
    ChangeAccepted
    | GraphSwapped
    | SwapFailed
    | DefinitionChanged
    | ToolPermissionSet
    | AgentPermissionSet
)
