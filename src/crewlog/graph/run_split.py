"""A split: the definitions of the runs that one run becomes, and what each split run gets.

    split_definitions(crew, components, run)   by run, its crew

Each run has the whole crew with all permissions; the agents of the other runs are remote agents
there. So an agent that returns by a run merge finds its settings again, and no name is used twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewlog.definition.model import ChannelDefinition, CrewDefinition, GraphPolicy
from crewlog.errors import ComponentConflict
from crewlog.graph.lowering.components import wake_nodes
from crewlog.ids import AgentName, RunId
from crewlog.state.components import Component
from crewlog.state.split import SplitContents


def split_definitions(
    crew: CrewDefinition, components: Mapping[RunId, Component], run: RunId
) -> dict[RunId, CrewDefinition]:
    """The definition of each run that a run becomes; the original run keeps its id.

    Args:
        crew: The crew after the change.
        components: The component of each run.
        run: The original run.
    """
    if len(components) == 1:
        return {run: crew}
    runs = {name: id_ for id_, component in components.items() for name in component.agents}
    return {
        id_: _definition_of(crew, id_, component, runs, run)
        for id_, component in components.items()
    }


def _definition_of(
    crew: CrewDefinition,
    id_: RunId,
    component: Component,
    runs: Mapping[AgentName, RunId],
    original: RunId,
) -> CrewDefinition:
    """The crew with the agents and channels of one run; the flow stays in the original run."""
    policy = crew.graph or GraphPolicy()
    away: dict[str, str] = {**policy.away}
    away |= {str(name): str(run) for name, run in runs.items() if run != id_}
    channels = {
        name: crew.channels.get(name, ChannelDefinition()).model_copy(update={"born": channel.born})
        for name, channel in component.channels.items()
    }
    update: dict[str, Any] = {
        "graph": policy.model_copy(update={"away": dict(sorted(away.items()))}),
        "channels": channels,
    }
    if id_ != original:
        update["flow"] = ()
    return crew.model_copy(update=update)


def split_contents(crew: CrewDefinition, component: Component) -> SplitContents:
    """The agents, nodes and channels of a split run.

    Args:
        crew: The crew of the original run.
        component: The component of the split run.

    Raises:
        ComponentConflict: a phase has the name of an agent, so its wake node would get another
            name in the split run.
    """
    agents = tuple(sorted(component.agents))
    nodes = {name: node for node, name in wake_nodes(crew).items()}
    for name in agents:
        if nodes[name] != str(name):  # in a run without phases, a wake node has its agent's name
            raise ComponentConflict(
                f"cannot move {name!r} to a split run: a phase of the flow has its name",
                remedy="Give the phase another name first: phase: NAME",
            )
    return SplitContents(
        agents=agents,
        nodes=tuple(nodes[name] for name in agents),
        channels=tuple(sorted(component.channels)),
    )
