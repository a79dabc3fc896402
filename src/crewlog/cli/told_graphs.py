"""What a change makes of graphs of creatures: which become one or part, and whom it affects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from crewlog.cli.screen import Screen, counted, plain
from crewlog.definition.findings import listed
from crewlog.graph.plan import GraphPlan
from crewlog.ids import RunId
from crewlog.state.topology import Topology, TopologyChange, components, part_id

if TYPE_CHECKING:
    from crewlog.wire import Changed


def tell_graphs(screen: Screen, run: str, changed: Changed, seen: Changed | None) -> None:
    """Tells what becomes of the graphs of a run; nothing where they stay as they are.

    Args:
        screen: Where to.
        run: The run that was asked.
        changed: What came of the change, or a dry run of it.
        seen: A dry run of it, which knows who lives where then.
    """
    change = changed.report.topology if changed.report is not None else None
    if change is None:
        return
    plan = GraphPlan.model_validate(seen.plan, extra="ignore") if seen and seen.plan else None
    topology = plan.topology if plan is not None else None
    command = None if changed.plan else changed.id  # a dry run's parts would have other ids
    for head, text in graph_lines(RunId(run), change, topology, command):
        screen.wrapped(head, text, indent=sum(len(part[0]) for part in head))


def graph_lines(
    run: RunId, change: TopologyChange, topology: Topology | None, command: str | None
) -> Iterator[tuple[list[tuple[str, str]], str]]:
    """Lines with a head each: how graphs part or become one, and whom that affects.

    Args:
        run: The run that was asked.
        change: What becomes of the graphs.
        topology: Its creatures and channels as they are connected then, where that is known.
        command: The command that does it, of whose id the ids of parts are made; none where it is
            only looked at.
    """
    if change.kind == "split":
        yield from _parts(run, change, topology, command)
    elif change.kind == "merge":
        yield from _union(change)
    who = listed(map(plain, change.affected_creatures)) or "nobody"
    yield [("  ", ""), ("~ ", "yellow")], f"affects {who}; no turn is disturbed"


def _parts(
    run: RunId, change: TopologyChange, topology: Topology | None, command: str | None
) -> Iterator[tuple[list[tuple[str, str]], str]]:
    parts = components(topology) if topology is not None else []
    count = max(len(parts), len(change.new_graph_ids))
    yield [("  ", ""), ("⑂ ", "bold yellow")], f"parts into {counted(count, 'graph')}"
    inside = ("    ", "")
    if len(parts) != count:  # who lives where is not known
        for id_ in change.new_graph_ids:
            yield [inside], f"{plain(id_)}{' keeps its id' if id_ == run else ''}"
        return
    for number, names in enumerate(parts):
        who = listed(map(plain, names))
        if not number:
            yield [inside], f"{plain(run)} keeps its id, with {who}"
        elif command is None:
            yield [inside], f"a new run, with {who}"
        else:
            yield [inside], f"{plain(part_id(run, command, names[0]))}, with {who}"


def _union(change: TopologyChange) -> Iterator[tuple[list[tuple[str, str]], str]]:
    graphs = listed(map(plain, change.old_graph_ids))
    stays = listed(map(plain, change.new_graph_ids))
    yield [("  ", ""), ("⋈ ", "bold yellow")], f"{graphs} become one: {stays} keeps its id"
    for each in change.renamed:
        said = f"the {each.kind} {plain(each.was)} of {plain(each.graph)} is {plain(each.now)} then"
        yield [("    ", "")], said
