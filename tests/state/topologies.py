"""Graphs as tests write them down, and what the product makes of an operation on them.

`asked` goes the way of a live run, without the server: the operation on the crew's definition, the
graph that comes out, the parts that it is in, and the crews of these; or the crew of two runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from crewlog.definition.apply import apply_operations
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import AddAgent, Connect, Operation, Wire
from crewlog.definition.validate import check
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.components import expanded_component
from crewlog.graph.run_merge.definition import merged_definition
from crewlog.graph.run_split import split_definitions
from crewlog.ids import RunId
from crewlog.state.components import (
    Channel,
    ChannelAgent,
    Component,
    ComponentChange,
    Components,
    change_of_components,
    split_components,
    surviving_run_id,
)

Crews = Mapping[RunId, CrewDefinition]


def graph(*channels: str, flow: tuple[str, ...] = (), **creatures: Any) -> Component:
    return Component(
        agents={name: ChannelAgent(**edges) for name, edges in creatures.items()},
        channels={name: Channel() for name in sorted(channels)},
        flow=flow,
    )


def talk(*names: str, over: str = "talk", **edges: Any) -> dict[str, Any]:
    """Creatures that all listen to one channel."""
    return {name: {"listen": [over], **edges} for name in names}


def crew_of(graph: Component) -> CrewDefinition:
    """A crew whose graph is a given one."""
    agents = {name: {"prompt": name, **each.to_json()} for name, each in graph.agents.items()}
    data = {
        "crew": "t",
        "model": "openai:x",
        "agents": agents,
        "channels": {name: each.to_json() for name, each in graph.channels.items()},
        "flow": list(graph.flow),
        "graph": {},
    }
    return CrewDefinition.model_validate(data)


class Asked(NamedTuple):
    """What came of an operation."""

    crews: dict[RunId, CrewDefinition]
    """The crews of the runs that there are then."""
    change: ComponentChange


def asked(
    crews: Crews,
    run: RunId,
    operation: Operation,
    command: str = "op",
    family: Mapping[RunId, Collection[RunId]] | None = None,
) -> Asked:
    """What the product makes of an operation on a run.

    Raises:
        InvalidDefinition: it refuses the operation.
        ComponentConflict: it refuses a union.
    """
    others = {id_: crew for id_, crew in crews.items() if id_ != run}
    if isinstance(operation, Connect | Wire) and operation.other is not None:
        del others[operation.other]
        return _one(crews, run, operation, others, family or {})
    crew = apply_operations(crews[run], [operation])
    graphs = split_components(run, expanded_component(crew), command)
    change = change_of_components({run: expanded_component(crews[run])}, graphs)
    return Asked({**others, **split_definitions(crew, graphs, run)}, change)


def _one(
    crews: Crews,
    run: RunId,
    edge: Connect | Wire,
    others: Crews,
    family: Mapping[RunId, Collection[RunId]],
) -> Asked:
    pair = {id_: crews[id_] for id_ in (run, edge.other) if id_ is not None}
    stays = surviving_run_id({id_: expanded_component(crew) for id_, crew in pair.items()})
    (joins,) = {*pair} - {stays}
    made = merged_definition(
        pair[stays],
        pair[joins],
        surviving=stays,
        merged=joins,
        edge={"op": edge.op, **edge.to_json()},
        asks=run,
        family=family.get(joins, ()),
    )
    if faults := check(made.definition):
        raise InvalidDefinition(faults)
    return Asked({**others, stays: made.definition}, made.change)


class Applied(NamedTuple):
    """The graphs after an operation, and what that did."""

    world: dict[RunId, Component]
    change: ComponentChange


def do(world: Components, kind: type, on: str = "g", command: str = "op", **said: Any) -> Applied:
    """What the product makes of an operation on crews of these graphs."""
    crews = {id_: crew_of(each) for id_, each in world.items()}
    if kind is AddAgent:
        said["agent"] = {"prompt": said["name"], **said.get("agent", {})}
    done = asked(crews, RunId(on), kind(**said), command)
    after = {
        id_: world[id_] if crews.get(id_) is crew else expanded_component(crew)
        for id_, crew in done.crews.items()
    }
    return Applied(after, done.change)


def members(world: Components) -> dict[str, str]:
    return {id_: "".join(each.agents) for id_, each in world.items()}


def told(applied: Applied) -> tuple[str, tuple[str, ...], tuple[str, ...], str]:
    change = applied.change
    names = "".join(change.affected_creatures)
    return change.kind, change.old_graph_ids, change.new_graph_ids, names
