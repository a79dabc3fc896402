"""`report`: what came of a run, from its plan to its results."""

from __future__ import annotations

from typing import Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug, RunPlaceArgument

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


async def _report(target: str, *, markdown: bool, as_json: bool) -> int:
    from crewlog.cli.reported import in_markdown, show_report  # noqa: PLC0415
    from crewlog.cli.screen import Screen, write  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.client.places import place_of  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        run, position = await place_of(client, target)
        found = await client.run(run).report(position)
    if as_json:
        screen.document(found.model_dump(mode="json"))
    elif markdown:
        for line in in_markdown(found):
            write(line)
    else:
        show_report(screen, found)
    return exits.OK
