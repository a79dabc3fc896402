"""The application object, and how a command's coroutine is run."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from crewlog.cli import exits

HELP = """Crews of LLM agents as durable Temporal workflows.

A run survives anything: Ctrl-C, a killed worker, a reboot. Start with `crewlog init my-crew`."""

FIRST = ("init", "run", "demo", "compile", "validate", "explain", "graph")
"""What most people look for, before the others of its section."""


class Grouped(TyperGroup):
    """Commands by what they are for, in plain text: rich's panels cost half a second."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands to the help, a section for each panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        order = {name: place for place, name in enumerate(FIRST)}
        for name in sorted(self.commands, key=lambda name: order.get(name, len(order))):
            command = self.commands[name]
            panel = getattr(command, "rich_help_panel", None)
            title = panel if isinstance(panel, str) else "Commands"
            panels.setdefault(title, []).append((name, command.get_short_help_str(100)))
        longest = max(len(name) for name in self.commands)
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), about) for name, about in rows])


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - reads files: only on demand

        sys.stdout.write(f"crewlog {version('crewlog')}\n")
        raise typer.Exit


app = typer.Typer(
    name="crewlog",
    cls=Grouped,
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 run failed, 2 usage or definition, 3 run waits for people, "
    "4 no such run, 5 services away, 6 run stopped, 130 Ctrl-C. docs/cli.md has the rest.",
)


@app.callback()
def crewlog(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What comes before the command."""
    del version


_ended_by: list[int] = []
"""The signals that ended this process's command, the first one first."""


def interrupted() -> int:
    """What a command exits with that is being cancelled: which signal it was tells."""
    return exits.TERMINATED if _ended_by[:1] == [signal.SIGTERM] else exits.INTERRUPTED


def _keep_sdk_quiet(*, debug: bool) -> None:
    """Keep the SDK's core from writing to our output: what fails, our own errors tell.

    With `--debug` its warnings come as lines of `logging`.
    """
    # Slow, and only commands that connect come here.
    from temporalio.runtime import Runtime, TelemetryConfig  # noqa: PLC0415

    from crewlog.temporal_service.sdk_workarounds import sdk_logging  # noqa: PLC0415

    telemetry = TelemetryConfig(logging=sdk_logging() if debug else None)
    with suppress(RuntimeError):  # whoever calls us in a process of theirs may have one already
        Runtime.set_default(Runtime(telemetry=telemetry))


def go(main: Coroutine[Any, Any, int], *, debug: bool = False) -> int:
    """Run a command's coroutine; Ctrl-C and SIGTERM cancel it, and it tidies up."""
    if debug:
        import logging  # noqa: PLC0415

        from crewlog.redaction import filter_logs  # noqa: PLC0415

        logging.basicConfig(level=logging.INFO)
        filter_logs()
    _keep_sdk_quiet(debug=debug)
    _ended_by.clear()

    async def guarded() -> int:
        task = asyncio.current_task()

        def end(number: int) -> None:
            _ended_by.append(number)
            if task is not None and len(_ended_by) == 1:
                task.cancel()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end, int(number))
        return await main

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        if not _ended_by:
            raise
        return interrupted()
