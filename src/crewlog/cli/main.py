"""The entry point: parse, run, report, exit."""

from __future__ import annotations

import codecs
import importlib
import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from crewlog.cli import exits
from crewlog.temporal_service.sdk_workarounds import end_process

COMMANDS = (
    "project",
    "prompts",
    "crews",
    "graphing",
    "registered",
    "mcp",
    "memories",
    "run",
    "asking",
    "chatting",
    "look",
    "file_command",
    "lineages",
    "talk",
    "inboxing",
    "changing",
    "editing",
    "rewinding",
    "differing",
    "artifacts",
    "tracing",
    "reporting",
    "permitting",
    "auditing",
    "evaluating",
    "checkpoints",
    "scheduling",
    "deleting",
    "signing",
    "encrypting",
    "surroundings",
)
"""Modules that add commands, in the order of the help; what is slow they import when called."""


def run_cli(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; errors are told, never raised."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    options = argv[: argv.index("--")] if "--" in argv else argv
    _take_any_text()
    try:
        return _run(argv)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return exits.PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the last stop: every error gets a message and a code
        return _reported(error, as_json="--json" in options, debug="--debug" in options)


def _take_any_text() -> None:
    """Lets the output take every text, whatever its encoding: ✓ in a C locale is no failure.

    What it cannot say is escaped as in JSON, so that documents can be read by programs still.
    """
    codecs.register_error("crewlog", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="crewlog")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(json.dumps(each)[1:-1] for each in text), error.end


def _run(argv: list[str]) -> int:
    from crewlog.cli.app import app  # noqa: PLC0415 - parsing needs typer, errors do not

    for module in COMMANDS:
        importlib.import_module(f"crewlog.cli.{module}")
    found = app(argv, prog_name="crewlog", standalone_mode=False)
    code = found if isinstance(found, int) else exits.OK
    sys.stdout.flush()
    return code


def _reported(error: Exception, *, as_json: bool, debug: bool) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error}\n")  # the help
        return exits.USAGE
    if type(error).__name__ == "Abort":
        return exits.INTERRUPTED
    from crewlog.cli.problems import report  # noqa: PLC0415

    try:
        with suppress(BrokenPipeError):
            sys.stdout.flush()
        return report(error, as_json=as_json, debug=debug)
    except BrokenPipeError:
        _drop_output()
        return exits.PIPE_CLOSED


def _drop_output() -> None:
    """Nobody reads any more: what is left must not raise again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def main() -> NoReturn:
    """Run the command line of this process and end it."""
    end_process(run_cli())


if __name__ == "__main__":
    main()
