"""The application object, and how a command's coroutine is run."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

import typer

from crewlog.cli import exits

HELP = """Crews of LLM agents as durable Temporal workflows.

A run survives anything: Ctrl-C, a killed worker, a reboot. Start with `crewlog init my-crew`."""

app = typer.Typer(
    name="crewlog",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 run failed, 2 usage or definition, 3 run waits for people, "
    "4 no such run, 5 services away, 6 run stopped, 130 Ctrl-C. docs/cli.md has the rest.",
)


def go(main: Coroutine[Any, Any, int], *, debug: bool = False) -> int:
    """Run a command's coroutine; Ctrl-C and SIGTERM cancel it, and it tidies up."""
    if debug:
        import logging  # noqa: PLC0415

        logging.basicConfig(level=logging.INFO)
    ended_by: list[int] = []

    async def guarded() -> int:
        task = asyncio.current_task()

        def end(number: int) -> None:
            ended_by.append(number)
            if task is not None and len(ended_by) == 1:
                task.cancel()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end, int(number))
        return await main

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        if not ended_by:
            raise
        return exits.INTERRUPTED if ended_by[0] == signal.SIGINT else exits.TERMINATED
