"""`dev`, `worker`, `doctor`, `rebuild`: the servers, workers and rows that runs stand on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug, Queue, RunArgument
from crewlog.errors import InvalidDefinition, UsageError

if TYPE_CHECKING:
    from crewlog.dev.doctor import Check

SURROUNDINGS = "Surroundings"
_CREW = "crew.yaml"
"""The crew that `doctor` looks at where none is named."""


@app.command(rich_help_panel=SURROUNDINGS)
def dev(
    stop: Annotated[
        bool,
        typer.Option(
            "--stop", help="End the servers and workers in the background; runs are kept."
        ),
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Leave the worker in the background and return.")
    ] = False,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Only the servers.")] = False,
    task_queue: Queue = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Start Temporal, Postgres and a worker for this directory, and show the worker's log.

    Ctrl-C ends the worker; the servers stay up until `crewlog dev --stop`. A `crew.yaml` that is
    here is registered under its name.
    """
    from crewlog.cli.developing import develop, stop_all  # noqa: PLC0415

    if stop and (detach or no_worker):
        raise UsageError(
            "--stop does not go with --detach or --no-worker",
            remedy="First `crewlog dev --stop`, then `crewlog dev --detach`.",
            place="crewlog dev",
        )
    if stop:
        return go(stop_all(as_json=as_json), debug=debug)
    return go(
        develop(
            detach=detach or no_worker, worker=not no_worker, queue=task_queue, as_json=as_json
        ),
        debug=debug,
    )


@app.command(rich_help_panel=SURROUNDINGS)
def worker(
    task_queue: Queue = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="In the background, until `crewlog dev --stop`.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Run a worker for this directory's tools, until Ctrl-C or SIGTERM; it finishes what it has.

    CREWLOG_* in the environment sets its limits: see docs/cli.md.
    """
    from crewlog.cli.developing import work  # noqa: PLC0415

    return go(work(queue=task_queue, detach=detach, as_json=as_json), debug=debug)


@app.command(rich_help_panel=SURROUNDINGS)
def doctor(
    crew: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="A crew's file, whose models and MCP servers are looked at; by default crew.yaml, "
            "if it is here.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Look at everything that Crewlog stands on: what is wrong, and what to do.

    Of each model of the crew: whether its provider is installed here, can be reached, and takes
    the key. Providers are asked for the list of their models, which costs nothing. Of each MCP
    server of the crew: whether it answers, and offers the crew's tools.

    It changes nothing, and starts nothing but MCP servers that are programs, which it ends.
    Exit code 5 where something fails.
    """
    from crewlog.cli.files import is_there  # noqa: PLC0415

    file = crew or (_CREW if is_there(_CREW) else None)
    return go(_doctor(file, as_json=as_json), debug=debug)


async def _doctor(file: str | None, *, as_json: bool) -> int:
    from crewlog.cli.screen import Part, Screen, plain  # noqa: PLC0415
    from crewlog.dev.doctor import examine  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    checks = await examine()
    if file is not None:
        checks = [each for each in checks if each.name != "Model key"] + await _crew(file)
    failed = any(check.status == "fail" for check in checks)
    if as_json:
        screen.document({"ok": not failed, "checks": [vars(check) for check in checks]})
        return exits.AWAY if failed else exits.OK
    signs = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "bold red")}
    width = max(len(check.name) for check in checks) + 2
    for check in checks:
        parts: list[Part] = ["  ", signs[check.status], " ", (check.name.ljust(width), "bold")]
        detail = plain(check.detail)
        screen.wrapped(parts, detail, indent=width + 4)
        if check.remedy:
            screen.wrapped([" " * (width + 4)], check.remedy, indent=width + 4, style="yellow")
    bad = sum(check.status == "fail" for check in checks)
    screen.line("")
    if bad:
        screen.line(f"  {bad} of {len(checks)} checks failed.")
    else:
        screen.line(
            "  ",
            ("Ready.", "green"),
            " What is missing starts with the next command that needs it.",
        )
    return exits.AWAY if failed else exits.OK


async def _crew(file: str) -> list[Check]:
    """What is found of the models and the MCP servers of a crew's file."""
    from crewlog.cli.files import load_crew  # noqa: PLC0415
    from crewlog.cli.preflight import models_used  # noqa: PLC0415
    from crewlog.dev.doctor import Check  # noqa: PLC0415
    from crewlog.dev.reachability import check_models  # noqa: PLC0415

    try:
        definition = load_crew(file)
    except InvalidDefinition as error:
        return [
            Check("Crew", "fail", f"{each.place}: {each.message}", each.remedy)
            for each in error.diagnostics
        ]
    used = [(each.model, each.settings) for each in models_used(definition)]
    found = await check_models(used, Path(file).parent)
    if not definition.mcp:
        return found
    from crewlog.dev.tool_servers import check_servers  # noqa: PLC0415 - slow to import

    return [*found, *await check_servers(definition)]


@app.command(rich_help_panel=SURROUNDINGS)
def rebuild(
    run: RunArgument,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Remove rows of another history first: the run was reset, say."
        ),
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Make a run's rows in the store again, from the histories that Temporal has.

    The run may be under way. Exit code 5 where a part cannot be made again; it is named.
    """
    from crewlog.cli.rebuilding import rebuild_run  # noqa: PLC0415

    return go(rebuild_run(run, replace=replace, as_json=as_json), debug=debug)
