"""The graph of a crew as a typed view: its plan, its Mermaid text, and agents with channels."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from crewlog.definition.audiences import CHANNEL
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName, NodeName, RunId
from crewlog.model import Json, Model
from crewlog.reporting.drawing.mermaid import mermaid
from crewlog.state.components import Component


class ChannelAgentView(Model):
    """An agent with channels."""

    name: str
    wake_channels: tuple[str, ...]
    """Channels in which a message wakes the agent."""
    writable_channels: tuple[str, ...]
    """Channels that the agent may write to."""
    output_wires: tuple[str, ...]
    """Output wires: agents, or `channel:NAME`."""
    parent: str | None
    """The parent agent."""
    beside: str | None
    """The agent beside which this one was added to the component."""
    root: bool
    """Whether the agent receives the run input."""
    privileged: bool
    """Whether the agent has the group tools."""
    enabled: bool
    in_flow: bool
    """Whether the agent also has steps of the flow."""
    status: str
    """The status of the agent's node, as in `statuses`; empty if it was never reached."""


class ChannelView(Model):
    """A channel of a component."""

    name: str
    senders: tuple[str, ...]
    """Agents that may write to it."""
    wire_sources: tuple[str, ...]
    """Agents with an output wire to it."""
    listeners: tuple[str, ...]
    """Agents that a message in it wakes."""


class GraphDrawingView(Model):
    """A graph: of a definition, or of a run at one of its graph versions."""

    crew: str
    version: int
    """The graph version, from 1."""
    plan: dict[str, Json]
    """The plan, as the query `graph` has it."""
    statuses: dict[NodeName, str]
    """`done`, `running`, `ready`, `waiting` or `failed`, by node; nodes never reached are left
    out."""
    mermaid: str
    """The graph as a Mermaid flowchart, with the statuses as colours."""
    url: str | None
    """The page of the run in the Temporal UI; none for a definition."""
    channel_agents: tuple[ChannelAgentView, ...] = ()
    """The agents with channels, by name."""
    channels: tuple[ChannelView, ...] = ()
    remote_agents: dict[AgentName, RunId] = Field(default_factory=dict[AgentName, RunId])
    """The agents that a split moved to other runs, with these runs."""


def graph_drawing(
    plan: GraphPlan,
    statuses: Mapping[NodeName, str],
    *,
    version: int = 1,
    url: str | None = None,
) -> GraphDrawingView:
    """The view of a plan.

    Args:
        plan: The plan.
        statuses: `done`, `running`, `waiting`, `ready` or `failed`, by node.
        version: The graph version.
        url: The page of the run in the Temporal UI.
    """
    return GraphDrawingView(
        crew=plan.crew,
        version=version,
        plan=plan.to_json(),
        statuses=dict(statuses),
        mermaid=mermaid(plan, statuses),
        url=url,
        channel_agents=_channel_agents(plan, statuses),
        channels=channel_views(plan.component) if plan.component is not None else (),
        remote_agents={AgentName(name): RunId(run) for name, run in plan.away.items()},
    )


def _channel_agents(
    plan: GraphPlan, statuses: Mapping[NodeName, str]
) -> tuple[ChannelAgentView, ...]:
    component = plan.component
    if component is None:
        return ()
    root = plan.graph.root if plan.graph is not None else None
    return tuple(
        ChannelAgentView(
            name=name,
            wake_channels=agent.listen,
            writable_channels=agent.send,
            output_wires=agent.wires,
            parent=agent.parent,
            beside=agent.beside,
            root=name == root,
            privileged=agent.privileged,
            enabled=plan.agents[name].enabled,
            in_flow=name in component.flow,
            status=statuses.get(node, "") if (node := plan.wake_node_of(name)) else "",
        )
        for name, agent in sorted(component.agents.items())
    )


def channel_views(component: Component) -> tuple[ChannelView, ...]:
    """The channels of a component by name, with their writers and readers."""
    agents = sorted(component.agents.items())
    named = {name for _, agent in agents for name in agent.channels}
    return tuple(
        ChannelView(
            name=name,
            senders=tuple(each for each, agent in agents if name in agent.send),
            wire_sources=tuple(each for each, agent in agents if CHANNEL + name in agent.wires),
            listeners=component.listeners(name),
        )
        for name in sorted({*component.channels, *named})
    )
