"""Errors, as people and programs see them: what, where, what to do; a traceback only on demand."""

from __future__ import annotations

import json
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

from crewlog.cli import exits
from crewlog.errors import CrewlogError, Diagnostic, InvalidDefinition

if TYPE_CHECKING:
    from crewlog.cli.screen import Screen

Described = dict[str, Any]
_LEAST = 30
"""Columns that a line of a file has at least."""


def report(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Tell an error on standard error; what the command exits with."""
    if debug and not _is_usage(error):
        traceback.print_exception(error, file=sys.stderr)
    described = describe(error)
    if as_json:
        sys.stderr.write(json.dumps({"error": described}, ensure_ascii=False) + "\n")
    else:
        _show(error, described)
    code: int = described["exit_code"]
    return code


def describe(error: BaseException) -> Described:
    """An error as data: `type`, `message`, `place`, `remedy`, `exit_code`; of faults more."""
    if isinstance(error, InvalidDefinition):
        return {
            **_described(error),
            "diagnostics": [fields_of(each) for each in error.diagnostics],
            "note": error.note,
            "more_may_follow": error.more_may_follow,
        }
    if isinstance(error, CrewlogError):
        return _described(error)
    if _is_usage(error):
        return _usage(error)
    return {
        "type": "InternalError",
        "message": f"{type(error).__name__}: {error}",
        "place": _last_place(error),
        "remedy": "This is a bug in Crewlog. Run the command again with --debug, and report what "
        "it prints; no run is lost by it.",
        "exit_code": exits.INTERNAL,
    }


def _described(error: CrewlogError) -> Described:
    return {
        "type": type(error).__name__,
        "message": error.message,
        "place": error.place,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }


def fields_of(found: Diagnostic) -> Described:
    """A diagnostic as data."""
    return {
        "place": found.place,
        "file": found.file,
        "line": found.line,
        "column": found.column,
        "length": found.length,
        "message": found.message,
        "remedy": found.remedy,
        "path": list(found.path),
        "severity": found.severity,
    }


def _is_usage(error: BaseException) -> bool:
    # Typer carries its own copy of click, older versions import it: their errors have this method.
    return hasattr(error, "format_message")


def _usage(error: Any) -> Described:
    context = getattr(error, "ctx", None)
    command = str(getattr(context, "command_path", "") or "crewlog")
    message = _said(error).strip().rstrip(".")
    message = re.sub(r"\s*\(Possible options?: .*\)$", "", message)
    message, _, hint = message.partition(" Did you mean ")
    if command == "crewlog" and (of_graph := _graph_command(message)):
        hint = f"`crewlog graph {of_graph}`?"
    possible = [str(each) for each in getattr(error, "possibilities", None) or ()]
    if possible and not hint:
        hint = " or ".join(f"'{each}'" for each in possible[:3]) + "?"
    hint = hint if not hint or hint.endswith("?") else f"{hint}?"
    see = f"`{command} --help` lists what there is."
    return {
        "type": "UsageError",
        "message": message[:1].lower() + message[1:].rstrip(". "),
        "place": command,
        "remedy": f"Did you mean {hint} {see}" if hint else see,
        "exit_code": exits.USAGE,
    }


def _graph_command(message: str) -> str:
    """The command of `crewlog graph` that was typed without it."""
    from crewlog.cli.graphing import graph  # noqa: PLC0415

    typed = re.search(r"o such command ['\"]([\w-]+)['\"]", message)
    names = {each.name for each in graph.registered_commands}
    return typed[1] if typed and typed[1] in names else ""


def _said(error: Any) -> str:
    """What typer says; of a value that pydantic refused for it, in our words."""
    from pydantic import ValidationError  # noqa: PLC0415 - slow, and few errors need it

    from crewlog.validation_errors import rule_of_field_error  # noqa: PLC0415

    said = str(error.format_message())
    if not isinstance(error.__cause__, ValidationError):
        return said
    fault = error.__cause__.errors(include_url=False)[0]
    # Whatever is typed is a text.
    rule = rule_of_field_error(fault).replace(", not the text ", ", not ")
    return said.replace(str(error.message), rule)


def _last_place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _show(error: BaseException, described: Described) -> None:
    from crewlog.cli.screen import Screen, plain, plain_lines  # noqa: PLC0415 - rich is slow

    screen = Screen()
    if isinstance(error, InvalidDefinition):
        for number, found in enumerate(error.diagnostics):
            if number:
                screen.complain([], "")
            show_diagnostic(screen, found)
        if error.note:
            screen.complain([], "")
            screen.complain(["  "], error.note, indent=2)
        return
    place = plain(described["place"])
    named = place.removeprefix("run ") in described["message"]
    # A run's name once is enough.
    head = f"{place}  " if place and not (named and place.startswith("run ")) else ""
    message = described["message"]
    if head.startswith("run "):
        message = message.removeprefix("the run ")
    first, *others = plain_lines(message).splitlines() or [""]
    screen.complain([(head, "bold")], first, style="red", indent=4)
    for line in others:
        screen.complain([], line, style="red")
    for line in plain_lines(described["remedy"]).splitlines():
        screen.complain(["    "], line, indent=4)


def excerpt(found: Diagnostic, room: int, style: str) -> list[tuple[str, str]]:
    """The source line and its underline in `style`, each with its style, no wider than `room`."""
    from crewlog.cli.screen import plain_lines  # noqa: PLC0415

    if not found.excerpt:
        return []
    line = plain_lines(found.excerpt)
    caret = (found.caret or found.column) - 1
    first = 0
    if len(line) > room:
        first = max(0, min(caret - room // 4, len(line) - room + 1))
        cut = line[first : first + room - (1 if first else 0)]
        line = ("…" if first else "") + cut
        line = line if len(line) < room else line[: room - 1] + "…"
        caret -= first - (1 if first else 0)
    length = max(1, min(found.length, len(line) - caret))
    return [(line, "dim"), (" " * caret + "^" * length, f"bold {style}")]


def show_diagnostic(screen: Screen, found: Diagnostic) -> None:
    """Tell a diagnostic on standard error, with the line that it is about."""
    from crewlog.cli.screen import plain  # noqa: PLC0415

    warns = found.severity == "warning"
    style = "yellow" if warns else "red"
    message = f"warning: {plain(found.message)}" if warns else plain(found.message)
    screen.complain([(f"{plain(found.place)}  ", "bold")], message, style=style, indent=4)
    for line, look in excerpt(found, max(_LEAST, screen.err.width - 4), style):
        screen.complain([], f"    {line}", style=look)
    if found.remedy:
        screen.complain(["    "], plain(found.remedy), indent=4)
