"""What a change makes of graphs of creatures: which become one or part, and whom it affects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from crewlog.cli.screen import Screen, counted, plain
from crewlog.definition.creatures import INBOX
from crewlog.definition.findings import listed
from crewlog.graph.plan import GraphPlan
from crewlog.ids import RunId
from crewlog.wire import ComponentChangeView

if TYPE_CHECKING:
    from crewlog.wire import ChangeResult


def tell_graphs(
    screen: Screen,
    run: str,
    changed: ChangeResult,
    seen: ChangeResult | None,
    before: GraphPlan | None,
) -> None:
    """Tells what becomes of the graphs of a run; nothing where they stay as they are.

    Args:
        screen: Where to.
        run: The run that was asked.
        changed: What came of the change, or a dry run of it.
        seen: A dry run of it, which knows who lives in the run then.
        before: The plan that the run had, where it is known.
    """
    report = changed.report
    if report is None or report.component_change is None:
        return
    stays: list[str] = []
    leaves: list[str] = []
    plan = GraphPlan.model_validate(seen.plan, extra="ignore") if seen and seen.plan else None
    if plan is not None and plan.component is not None and before is not None:
        lived = before.component.agents if before.component is not None else ()
        # Who comes and is connected with nobody is affected, and never was in the run's own plan.
        there = {*map(str, lived), *map(_creature, report.added)}
        there |= {*map(str, report.component_change.affected_creatures)}
        there -= {*map(_creature, report.removed)}
        stays = sorted(plan.component.agents)
        leaves = sorted(there - {*stays})
    # The ids of a dry run's parts are not those that they would have.
    known = not changed.plan
    for head, text in graph_lines(RunId(run), report.component_change, stays, leaves, known=known):
        screen.wrapped(head, text, indent=sum(len(part[0]) for part in head))


def _creature(node: str) -> str:
    return node.removesuffix(INBOX)


def graph_lines(
    run: RunId, change: ComponentChangeView, stays: list[str], leaves: list[str], *, known: bool
) -> Iterator[tuple[list[tuple[str, str]], str]]:
    """Lines with a head each: how graphs part or become one, and whom that affects.

    Args:
        run: The run that was asked.
        change: What becomes of the graphs.
        stays: Who lives in the run then, where that is known.
        leaves: Who lives in others.
        known: Whether the other graphs have the ids that the change names.
    """
    if change.kind == "split":
        yield from _parts(run, change, stays, leaves, known=known)
    elif change.kind == "merge":
        yield from _union(change)
    who = listed(map(plain, change.affected_creatures)) or "nobody"
    yield [("  ", ""), ("~ ", "yellow")], f"affects {who}; no turn is disturbed"


def _parts(
    run: RunId, change: ComponentChangeView, stays: list[str], leaves: list[str], *, known: bool
) -> Iterator[tuple[list[tuple[str, str]], str]]:
    new = [each for each in change.new_graph_ids if each != run]
    graphs = counted(len(change.new_graph_ids), "graph")
    yield [("  ", ""), ("⑂ ", "bold yellow")], f"parts into {graphs}"
    inside = [("    ", "")]
    yield inside, f"{plain(run)} keeps its id{_with(stays)}"
    runs = listed(map(plain, new)) if known else "a new run" if len(new) == 1 else "new runs"
    yield inside, f"{runs}{_with(leaves)}"


def _with(creatures: list[str]) -> str:
    return f", with {listed(map(plain, creatures))}" if creatures else ""


def _union(change: ComponentChangeView) -> Iterator[tuple[list[tuple[str, str]], str]]:
    graphs = listed(map(plain, change.old_graph_ids))
    stays = listed(map(plain, change.new_graph_ids))
    yield [("  ", ""), ("⋈ ", "bold yellow")], f"{graphs} become one: {stays} keeps its id"
    for each in change.renames:
        said = f"the {each.kind} {plain(each.was)} of {plain(each.run)} is {plain(each.now)} then"
        yield [("    ", "")], said
