"""A redirect: people send the run to another node than the next.

    has not begun, or asks people ──► ends now: skipped
    runs                          ──► goes on to its end, or ends now (`cut`)

Then the run goes to the node, and to nothing else that would follow, as after a hand-off: joins
that are behind it begin anew, where it goes back. A turn is not hurried: its tools may hand off
while it goes on, and where people sent the run still wins.
"""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.definition.findings import did_you_mean
from crewlog.errors import CommandRejected
from crewlog.graph.engine import Engine
from crewlog.ids import CommandId, NodeName, StepId
from crewlog.state import journal as j
from crewlog.state.model import FrontierStep


async def redirect(
    engine: Engine,
    node: NodeName,
    step: StepId | None = None,
    *,
    cut: bool = False,
    by: str = "",
    reason: str = "",
    command: CommandId | None = None,
) -> str:
    """Sends the run to `node` in the place of what follows a step; what was done, for people.

    Args:
        engine: The run.
        node: Where it goes.
        step: The step whose place that takes; none where there is only one that is not done.
        cut: Whether a running step ends now, and its calls are cancelled.
        by: Who sends it.
        reason: Why, for the journal.
        command: The command's id.

    Raises:
        CommandRejected: there is no such node or step, or the run is stopping.
    """
    if engine.state.status == "stopping":
        raise CommandRejected("the run is stopping: it goes nowhere any more")
    if node not in engine.plan.nodes:
        nodes = f"Nodes: {', '.join(engine.plan.nodes)}."
        raise CommandRejected(
            f"there is no node {node!r}", remedy=did_you_mean(node, engine.plan.nodes, nodes)
        )
    entry = _chosen(engine, node, step)
    now = cut or not _is_working(entry)
    engine.record(
        j.StepRedirected(step=entry.step, node=node, cut=cut, by=by, reason=reason, command=command)
    )
    if not now:
        return f"{entry.step} goes on to its end; then the run goes to {node}"
    who = f" by {by}" if by else ""
    await engine.end_redirected_step(entry.step, because=f"redirected to {node}{who}")
    return f"{entry.step} gives way to {node}"


def _chosen(engine: Engine, node: NodeName, step: StepId | None) -> FrontierStep:
    frontier = engine.state.frontier
    open_ = [step for step, entry in frontier.items() if not entry.parent]
    listed = f"Not done: {', '.join(open_) or 'nothing'}."
    if step is None:
        if len(open_) != 1:
            raise _which(node, open_)
        step = open_[0]
    entry = frontier.get(step)
    if entry is None:
        raise CommandRejected(
            f"the step {step!r} is not under way", remedy=did_you_mean(step, open_, listed)
        )
    if entry.parent:
        raise CommandRejected(
            f"cannot redirect {step!r}: it is a child step, and nothing follows it",
            remedy=f"Redirect its parent step: {entry.parent!r}.",
        )
    if entry.is_detached:
        raise CommandRejected(f"the node of {step!r} was taken away: nothing follows it")
    return entry


def _which(node: NodeName, open_: Sequence[StepId]) -> CommandRejected:
    """Why the step must be named that gives way, or that there is none."""
    if not open_:
        return CommandRejected(
            "no step is under way that could give way",
            remedy="Look again in a moment: the run is between two steps, or nothing is left.",
        )
    return CommandRejected(
        f"{len(open_)} steps are under way: which one gives way to {node}?",
        remedy=f"Say which by `step`, on the command line --step: {', '.join(open_)}.",
    )


def _is_working(entry: FrontierStep) -> bool:
    """Whether a step is at work, and does more than to ask people."""
    if entry.status != "running":
        return False
    calls = entry.turn.calls if entry.turn is not None else ()
    return not calls or any(call.status == "ready" for call in calls)
