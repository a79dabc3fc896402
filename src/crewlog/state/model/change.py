"""Changes of a live run."""

from __future__ import annotations

from crewlog.authority.permissions import LivePermission
from crewlog.ids import AgentName, ContentHash, NodeName
from crewlog.model import Model


class PendingChange(Model):
    """An accepted change that leads to another graph: the run drains for the swap."""

    command: str
    """The id of the change command."""
    graph_version: int
    """The version of the new graph."""
    definition: ContentHash
    """The definition of the new graph."""
    what: str = ""
    """What changes, in a line."""
    by: str = ""
    """The principal of the command."""
    position: int = 0
    """The journal position that accepted it."""
    abandon: bool = False
    """Whether turns of removed nodes are cancelled; else they run to their end."""
    nodes: tuple[NodeName, ...] = ()
    """Of a split: the nodes of the split runs. Only these are drained."""
    basis: ContentHash = ContentHash("")
    """The basis of the new definition; see `CrewState.basis`."""

    def drains(self, node: NodeName) -> bool:
        """Whether nothing starts at a node before the swap."""
        return not self.nodes or node in self.nodes


class ChangedPermission(Model):
    """A permission that a change set on the live run."""

    tool: str
    agent: str = ""
    """The agent, `*` for every agent; empty: the permission says which agents may call the tool."""
    do: LivePermission | None = None
    """Of an agent: the permission; None: the definition decides."""
    agents: tuple[AgentName, ...] | None = None
    """Of the tool: the agents that may call it; None: every agent that has it."""


class ChangeRecord(Model):
    """A change that was applied to a live run."""

    position: int
    """The journal position that applied it."""
    at: int = 0
    """When, in milliseconds since the epoch."""
    by: str = ""
    """The principal."""
    what: str
    """What changed, in a line."""
    graph_version: int
    """The graph version from then on."""
    definition: ContentHash
    """The definition from then on."""
    number: int
    """Its number among the changes of the run, from 1."""
    reason: str = ""
    """Of a permission: the reason that the principal gave."""
    permission: ChangedPermission | None = None
    """Of a permission: what it sets."""
