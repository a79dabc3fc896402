"""`report`: what came of a run, from its plan to its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug, RunPlaceArgument

if TYPE_CHECKING:
    from crewlog.cli.sight import Sight
    from crewlog.reporting.report.view import ReportView

LOOK = "Look"


@app.command(rich_help_panel=LOOK)
def report(
    run: RunPlaceArgument,
    markdown: Annotated[
        bool, typer.Option("--md", help="As Markdown, for a file or a pull request.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Report what came of a run: plan, steps, decisions, agents, results, errors and usage."""
    return go(_report(run, markdown=markdown, as_json=as_json), debug=debug)


def as_seen(found: ReportView, sight: Sight) -> ReportView:
    """The report with what only a client knows: the status, and how to answer interrupts."""
    from crewlog.cli.questions import answer_command  # noqa: PLC0415

    answers = {each.id: answer_command(sight.run, each) for each in sight.questions}
    asked = tuple(
        each.model_copy(update={"answer_command": answers.get(each.id, "")})
        for each in found.interrupts
    )
    return found.model_copy(update={"status": sight.status, "interrupts": asked})


async def _report(target: str, *, markdown: bool, as_json: bool) -> int:
    from crewlog.cli.reported import in_markdown, show_report  # noqa: PLC0415
    from crewlog.cli.screen import Screen, write  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.cli.sight import see_at  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        sight = await see_at(client, target)
        found = as_seen(await client.run(sight.run).report(sight.at), sight)
    if as_json:
        screen.document(found.model_dump(mode="json"))
    elif markdown:
        for line in in_markdown(found):
            write(line)
    else:
        show_report(screen, found)
    return exits.OK
