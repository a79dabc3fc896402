"""Graphs as tests write them down, and operations on them."""

from __future__ import annotations

from typing import Any

from crewlog.state.topology import Applied, Channel, Creature, Topology, World, apply


def graph(*channels: str, flow: tuple[str, ...] = (), **creatures: Any) -> Topology:
    return Topology(
        creatures={name: Creature(**edges) for name, edges in creatures.items()},
        channels={name: Channel() for name in channels},
        flow=flow,
    )


def talk(*names: str, over: str = "talk", **edges: Any) -> dict[str, Any]:
    """Creatures that all listen to one channel."""
    return {name: {"listen": [over], **edges} for name in names}


def do(world: World, operation: type, on: str = "g", command: str = "op", **said: Any) -> Applied:
    return apply(world, operation(graph=on, **said), command)


def members(world: World) -> dict[str, str]:
    return {id_: "".join(each.creatures) for id_, each in world.items()}


def told(applied: Applied) -> tuple[str, tuple[str, ...], tuple[str, ...], str]:
    change = applied.change
    names = "".join(change.affected_creatures)
    return change.kind, change.old_graph_ids, change.new_graph_ids, names
