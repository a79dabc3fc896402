"""What a graph that falls apart leads to: the definitions of its parts, and what goes with each.

    definitions(crew, graphs, run)   by graph, the crew that lives there

Each part has the whole crew, with all of its rules; agents of the other parts are *away* there. So
who comes back comes back to what it had, no name is given twice, and nothing that is said of an
agent is lost because it is somewhere else for a while.
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


def definitions(
    crew: CrewDefinition, graphs: Mapping[RunId, Component], run: RunId
) -> dict[RunId, CrewDefinition]:
    """The crews of the graphs that one is now, by id; the first keeps the run's.

    Args:
        crew: The crew, as an operation left it.
        graphs: The graphs that it is, by id, as `topology.parts_of` gives them.
        run: The run.
    """
    if len(graphs) == 1:
        return {run: crew}
    homes = {name: id_ for id_, graph in graphs.items() for name in graph.creatures}
    return {id_: _part(crew, id_, graph, homes, run) for id_, graph in graphs.items()}


def _part(
    crew: CrewDefinition,
    id_: RunId,
    graph: Component,
    homes: Mapping[AgentName, RunId],
    run: RunId,
) -> CrewDefinition:
    """The crew, where only those of a graph live, with its channels; and the flow, where it is."""
    policy = crew.graph or GraphPolicy()
    away: dict[str, str] = {**policy.away}
    away |= {str(name): str(home) for name, home in homes.items() if home != id_}
    said = crew.channels
    channels = {
        name: said.get(name, ChannelDefinition()).model_copy(update={"born": channel.born})
        for name, channel in graph.channels.items()
    }
    update: dict[str, Any] = {
        "graph": policy.model_copy(update={"away": dict(sorted(away.items()))}),
        "channels": channels,
    }
    if id_ != run:
        update["flow"] = ()
    return crew.model_copy(update=update)


def split_run_of(crew: CrewDefinition, graph: Component) -> SplitContents:
    """What goes with a part of a graph.

    Args:
        crew: The crew of which all live in it.
        graph: The part.

    Raises:
        ComponentConflict: one of them would hear at another node there, since a phase has its name.
    """
    creatures = tuple(sorted(graph.creatures))
    nodes = {name: node for node, name in wake_nodes(crew).items()}
    for name in creatures:
        if nodes[name] != str(name):  # where there are no phases, each hears at one of its own name
            raise ComponentConflict(
                f"{name!r} would leave for a run of its own, and a phase of the flow has its name",
                remedy="Give the phase another name first: phase: NAME",
            )
    return SplitContents(
        agents=creatures,
        nodes=tuple(nodes[name] for name in creatures),
        channels=tuple(sorted(graph.channels)),
    )
