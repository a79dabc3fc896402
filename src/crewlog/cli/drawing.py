"""What `crewlog graph FILE|RUN` does: a picture of a graph, as it is or as it was."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from crewlog.cli import exits

if TYPE_CHECKING:
    from crewlog.cli.sight import Sight


@asynccontextmanager
async def _without_position(target: str) -> AsyncGenerator[None]:
    """Tells of a run that there is not that its name has a position or a tag behind it.

    Raises:
        UsageError: it has.
    """
    from crewlog.client.places import split  # noqa: PLC0415
    from crewlog.errors import RunNotFound, UsageError  # noqa: PLC0415

    try:
        yield
    except RunNotFound as error:
        run, at = split(target)
        if not at:
            raise
        raise UsageError(
            f"`graph` takes no position: {target!r} has one",
            remedy=f"An earlier graph of the run: crewlog graph {run} --version N. The run as it "
            f"was there: crewlog show {target}.",
            place="crewlog graph",
        ) from error


async def draw_graph(target: str, *, mermaid: bool, version: int | None, as_json: bool) -> int:
    """Draw the graph of a crew's file, or of a run.

    Args:
        target: A file or a run's id.
        mermaid: Whether as Mermaid text.
        version: Of a run: an earlier graph.
        as_json: Whether a program reads.
    """
    from crewlog.cli.files import is_file, load_crew  # noqa: PLC0415
    from crewlog.cli.pictures import show_picture  # noqa: PLC0415
    from crewlog.cli.screen import Screen, write  # noqa: PLC0415
    from crewlog.cli.told_creatures import show_channels, show_creatures  # noqa: PLC0415
    from crewlog.errors import UsageError  # noqa: PLC0415
    from crewlog.graph.plan import GraphPlan  # noqa: PLC0415
    from crewlog.reporting.drawing.view import graph_drawing  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    number, url, statuses, over = 1, None, {}, ""
    plan: GraphPlan | None
    if is_file(target):
        from crewlog.graph.lowering.plans import lower  # noqa: PLC0415

        if version is not None:
            raise UsageError(
                f"--version asks for an earlier graph of a run, and {target!r} is a file",
                remedy="A file has one graph: leave --version out, or name a run.",
                place="crewlog graph",
            )

        plan = lower(load_crew(target))
    else:
        from crewlog.cli.services import connected  # noqa: PLC0415
        from crewlog.cli.sight import see  # noqa: PLC0415

        async with connected(screen, both=True) as client, _without_position(target):
            url = client.url(target)
            if version is None:
                sight: Sight = await see(client, target)
                plan, number, statuses = sight.plan, sight.state.graph_version, sight.statuses
                over = _over(sight)
            else:
                from crewlog.cli.sight import statuses_of  # noqa: PLC0415
                from crewlog.cli.versions import version_of  # noqa: PLC0415

                there = await version_of(client, target, version)
                plan, number, statuses = there.plan, version, statuses_of(there.state)
    if plan is None:
        raise UsageError(
            f"the run {target!r} has no graph yet: its prompt is not compiled",
            remedy=f"`crewlog show {target}` shows where it is.",
        )
    found = graph_drawing(plan, statuses, version=number, url=url)
    if as_json:
        screen.document(found.model_dump(mode="json"))
    elif mermaid:
        write(found.mermaid.rstrip("\n"))
    else:
        if over:
            screen.line(("■ ", "yellow"), over)
            screen.line("")
        show_picture(screen, plan, statuses)
        if plan.component is not None and any(
            not node.is_wake_node for node in plan.nodes.values()
        ):
            screen.line("")
            show_creatures(screen, plan, statuses)
        show_channels(screen, plan)
    return exits.OK


def _over(sight: Sight) -> str:
    """How a run has ended; nothing of one that goes on."""
    from crewlog.cli.screen import plain  # noqa: PLC0415

    if not sight.over:
        return ""
    run = plain(sight.run)
    if into := sight.state.surviving_run:
        return f"{run} is merged into {plain(into)}: nobody lives here any more"
    return f"{run} has ended ({sight.status}): this is its graph as it was at last"
