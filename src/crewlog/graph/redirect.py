"""A redirect: people send the run to another node than the next one.

    the step waits, or asks people ──► it is skipped now
    the step runs                  ──► it runs to its end, or ends now (`cut`)

Then the run goes to the node and to no other, as after a handoff: going back to an earlier node
starts a new generation at the joins that follow it. The redirect takes precedence over a handoff
of the step itself.
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
    """Sends the run from a step to `node`; returns a summary for people.

    Args:
        engine: The run.
        node: The target.
        step: The step; none: the only one in the frontier.
        cut: Whether a running step ends now, and its calls are cancelled.
        by: The principal.
        reason: Why, for the journal.
        command: The command's id.

    Raises:
        CommandRejected: there is no such node or step, or the run is stopping.
    """
    if engine.state.status == "stopping":
        raise CommandRejected(
            "cannot redirect: the run is stopping",
            remedy=f"Resume it once it has stopped: `crewlog resume {engine.state.run}`.",
        )
    if node not in engine.plan.nodes:
        nodes = f"Nodes: {', '.join(engine.plan.nodes)}."
        raise CommandRejected(
            f"there is no node {node!r}", remedy=did_you_mean(node, engine.plan.nodes, nodes)
        )
    entry = _find_step(engine, node, step)
    ends_now = cut or not _is_working(entry)
    engine.record(
        j.StepRedirected(step=entry.step, node=node, cut=cut, by=by, reason=reason, command=command)
    )
    if not ends_now:
        return f"{entry.step} runs to its end; then the run goes to {node}"
    by_whom = f" by {by}" if by else ""
    await engine.end_redirected_step(entry.step, because=f"redirected to {node}{by_whom}")
    return f"{entry.step} ends now; the run goes to {node}"


def _find_step(engine: Engine, node: NodeName, step: StepId | None) -> FrontierStep:
    frontier = engine.state.frontier
    steps = [step for step, entry in frontier.items() if not entry.parent]
    if step is None:
        if len(steps) != 1:
            raise _step_required(node, steps)
        step = steps[0]
    entry = frontier.get(step)
    if entry is None:
        in_frontier = f"Steps in the frontier: {', '.join(steps) or 'none'}."
        raise CommandRejected(
            f"cannot redirect {step!r}: it is not in the frontier",
            remedy=did_you_mean(step, steps, in_frontier),
        )
    if entry.parent:
        raise CommandRejected(
            f"cannot redirect {step!r}: it is a child step, and nothing follows it",
            remedy=f"Redirect its parent step: {entry.parent!r}.",
        )
    if entry.is_detached:
        raise CommandRejected(
            f"cannot redirect {step!r}: its node was removed, and nothing follows it",
            remedy="Redirect a step whose node is in the graph; this one ends by itself.",
        )
    return entry


def _step_required(node: NodeName, steps: Sequence[StepId]) -> CommandRejected:
    """The error for a redirect without a step, if the frontier has none or several."""
    if not steps:
        return CommandRejected(
            "cannot redirect: no step is in the frontier",
            remedy="Try again in a moment: the run is between two steps, or has ended.",
        )
    return CommandRejected(
        f"cannot redirect to {node!r}: {len(steps)} steps are in the frontier",
        remedy=f"Name the step with `step`, or --step on the command line: {', '.join(steps)}.",
    )


def _is_working(entry: FrontierStep) -> bool:
    """Whether a step runs, and does not only wait for people."""
    if entry.status != "running":
        return False
    calls = entry.turn.calls if entry.turn is not None else ()
    return not calls or any(call.status == "ready" for call in calls)
