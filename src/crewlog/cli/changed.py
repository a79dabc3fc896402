"""What a change does to a run, as people see it: before it is made, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from crewlog.cli.pictures import show_picture
from crewlog.cli.screen import Part, Screen, plain
from crewlog.cli.told_graphs import tell_graphs
from crewlog.definition.findings import listed
from crewlog.definition.operations import DisableAgent, EnableAgent, Operation
from crewlog.graph.plan import GraphPlan
from crewlog.ids import NodeName

if TYPE_CHECKING:
    from crewlog.cli.sight import Sight
    from crewlog.wire import ChangeReport, ChangeResult, StepChange

_FATES: Mapping[str, str] = {
    "kept": "goes on as it is",
    "moves": "goes on there",
    "finishes": "its turn finishes first; nothing follows it",
    "abandoned": "is cut off",
    "detached": "is kept aside",
    "returns": "comes back where it was",
    "retracted": "waits again",
    "starts": "starts",
}
_TOLD = ("kept", "moves", "finishes", "abandoned")
"""Fates whose cause the line above says: the node goes, or stays."""
_WIDEST = 24


def show_change(screen: Screen, sight: Sight, changed: ChangeResult) -> None:
    """What a change would do: nodes, steps, what is blocked, and the graph before and after."""
    report = changed.report
    old = sight.state.graph_version
    other = changed.swap or (report is not None and report.at_once)
    head = f"  graph v{old} → v{changed.graph_version}" if other else f"  graph v{old} stays"
    if (
        report is not None
        and report.component_change is not None
        and report.component_change.kind == "merge"
    ):
        head = f"  graph v{old} becomes one with another"
    screen.wrapped([(head, "bold"), "  "], plain(changed.detail), indent=4)
    for remark in changed.remarks:
        said, *how = remark.splitlines()
        screen.wrapped(["  ", ("· ", "yellow")], plain(said), indent=4)
        for line in how:
            screen.wrapped(["      "], plain(line), indent=6, style="dim")
    if report is not None:
        _nodes(screen, report)
        _steps(screen, report)
        _blocked(screen, report)
        tell_graphs(screen, sight.run, changed, changed, sight.plan)
        tell_warnings(screen, report)
        for note in report.notes:
            screen.line("  ", ("· ", "dim"), plain(note))
    if changed.swap and sight.plan is not None and changed.plan:
        _pictures(screen, sight, GraphPlan.model_validate(changed.plan, extra="ignore"), report)


def tell_warnings(screen: Screen, report: ChangeReport | None, *, shown: bool = False) -> None:
    """What whoever changes may not have meant, each with what to do about it.

    Args:
        screen: Where to.
        report: What the change does; none where that is not known any more.
        shown: Whether they were shown before, with the question whether to change it.
    """
    for warning in report.warnings if report is not None and not shown else ():
        said, _, remedy = warning.partition("\n")
        screen.wrapped(["  ", ("! ", "bold yellow")], plain(said), indent=4)
        if remedy:
            screen.wrapped(["      "], plain(remedy), indent=6, style="dim")


def _nodes(screen: Screen, report: ChangeReport) -> None:
    fates = {fate.node: fate for fate in report.steps}
    width = min(max((len(n) for n in (*report.added, *report.removed)), default=0), _WIDEST)
    for node in report.removed:
        fate = fates.get(node)
        said = _doing(fate) if fate is not None else ""
        screen.line("  ", ("– ", "red"), f"{plain(node):<{width}}", f"  {said}")  # noqa: RUF001
    for node in report.added:
        screen.line("  ", ("+ ", "green"), f"{plain(node):<{width}}", _said(fates.get(node)))
    same = [node for node in report.kept if node not in report.changed]
    if report.changed:
        what = "keep their state, and wait or decide otherwise"
        one = "keeps its state, and waits or decides otherwise"
        _list(screen, ("~ ", "yellow"), report.changed, what, one)
    if same and report.swap:
        _list(screen, ("= ", "dim"), same, "keep their state", "keeps its state")


def _list(screen: Screen, sign: Part, nodes: Iterable[NodeName], many: str, one: str) -> None:
    names = [plain(node) for node in nodes]
    text = f"{', '.join(names)} {one if len(names) == 1 else many}"
    screen.wrapped(["  ", sign], text, indent=4)


def _said(fate: StepChange | None) -> str:
    return f"  {_doing(fate)}" if fate is not None else ""


def _doing(fate: StepChange) -> str:
    """`running: 1 call under way; its turn finishes first; nothing follows it`."""
    if fate.effect == "kept" and fate.because:
        return plain(fate.because)
    because = "" if fate.effect in _TOLD else fate.because
    return plain("; ".join(part for part in (fate.progress, _FATES[fate.effect], because) if part))


def _steps(screen: Screen, report: ChangeReport) -> None:
    """How the frontier maps: the steps of nodes that stay."""
    told = {*report.removed, *report.added}
    steps = [fate for fate in report.steps if fate.node not in told]
    if not steps:
        return
    screen.line(("  steps", "dim"))
    width = min(max(len(fate.step) for fate in steps), _WIDEST)
    for fate in steps:
        screen.line("    ", f"{plain(fate.step):<{width}}", f"  {_doing(fate)}")


def _blocked(screen: Screen, report: ChangeReport) -> None:
    for each in report.blocked:
        why = f": {plain(each.because)}" if each.because else ""
        say = f"{plain(each.node)} waits for {plain(each.requirement)}{why}"
        screen.wrapped(["  ", ("! ", "bold yellow")], say, indent=4)
        screen.wrapped(["      → "], plain(each.then), indent=8)
    if report.withdrawn:
        screen.line("  ", ("! ", "yellow"), f"withdrawn: {listed(map(plain, report.withdrawn))}")


def _pictures(screen: Screen, sight: Sight, plan: GraphPlan, report: ChangeReport | None) -> None:
    kept = set(report.kept) if report is not None else set[NodeName]()
    after = {node: status for node, status in sight.statuses.items() if node in kept}
    if sight.plan is not None:
        screen.line("")
        screen.line((f"  graph v{sight.state.graph_version}", "dim"))
        show_picture(screen, sight.plan, sight.statuses)
    screen.line("")
    screen.line((f"  graph v{sight.state.graph_version + 1}", "dim"))
    show_picture(screen, plan, after)
    screen.line("")


def tell_change(
    screen: Screen,
    run: str,
    changed: ChangeResult,
    *,
    waited: bool,
    operations: Sequence[Operation] = (),
) -> None:
    """How a change ended.

    Args:
        screen: Where to.
        run: The run that was changed.
        changed: What came of it.
        waited: Whether it was waited for.
        operations: What was to be changed, where that is known.
    """
    what = f": {plain(changed.detail)}" if changed.detail else ""
    at_once = changed.report is not None and changed.report.at_once
    if changed.merge:
        then = "is one graph with another run now" if waited else "asks another run to be one graph"
        say = f"{plain(run)} {then}{what}"
    elif not changed.swap and not at_once:
        say = _switched(run, operations) or f"{plain(run)} goes by other rules from now on{what}"
    elif at_once:
        was, now = changed.graph_version - 1, changed.graph_version
        say = f"{plain(run)} has graph v{now}, before v{was}{what}"
    elif waited:
        say = f"{plain(run)} has graph v{changed.graph_version}{what}"
    else:
        when = "as soon as what is under way has ended"
        say = f"{plain(run)} gets graph v{changed.graph_version} {when}{what}"
    screen.line("  ", ("✓ ", "green"), say, (f" (position {changed.position})", "dim"))


def _switched(run: str, operations: Sequence[Operation]) -> str:
    """That agents are switched on or off, where no more than that was to be changed."""
    said: list[str] = []
    for kind, how in ((DisableAgent, "off"), (EnableAgent, "on")):
        names = [plain(each.name) for each in operations if isinstance(each, kind)]
        if names:
            said.append(f"{listed(names)} {'is' if len(names) == 1 else 'are'} switched {how}")
    alone = all(isinstance(each, DisableAgent | EnableAgent) for each in operations)
    return f"{' and '.join(said)} in {plain(run)}" if said and alone else ""
