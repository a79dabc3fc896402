"""Errors, as people and programs see them: what, where, what to do; a traceback only on demand."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from crewlog.cli import exits
from crewlog.errors import CrewlogError, Diagnostic, InvalidDefinition

Described = dict[str, Any]


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
    """An error as data: `type`, `message`, `place`, `remedy`, `exit_code`, and `diagnostics`."""
    if isinstance(error, InvalidDefinition):
        return {
            **_described(error),
            "diagnostics": [_diagnostic(each) for each in error.diagnostics],
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


def _diagnostic(found: Diagnostic) -> Described:
    return {
        "place": found.place,
        "file": found.file,
        "line": found.line,
        "column": found.column,
        "length": found.length,
        "message": found.message,
        "remedy": found.remedy,
        "path": list(found.path),
    }


def _is_usage(error: BaseException) -> bool:
    # Typer carries its own copy of click, older versions import it: their errors have this method.
    return hasattr(error, "format_message")


def _usage(error: Any) -> Described:
    context = getattr(error, "ctx", None)
    command = str(getattr(context, "command_path", "") or "crewlog")
    message = str(error.format_message()).strip().rstrip(".")
    message, _, hint = message.partition(" Did you mean ")
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


def _last_place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _show(error: BaseException, described: Described) -> None:
    from crewlog.cli.screen import Screen, plain, plain_lines  # noqa: PLC0415 - rich is slow

    err = Screen().err
    from rich.text import Text  # noqa: PLC0415

    out = Text()
    if isinstance(error, InvalidDefinition):
        for number, found in enumerate(error.diagnostics):
            out.append("\n\n" if number else "")
            _append_diagnostic(out, found)
        err.print(out, soft_wrap=True)
        return
    if described["place"]:
        out.append(f"{plain(described['place'])}  ", "bold")
    out.append(plain_lines(described["message"]), "red")
    for line in plain_lines(described["remedy"]).splitlines():
        out.append(f"\n    {line}")
    err.print(out, soft_wrap=True)


def _append_diagnostic(out: Any, found: Diagnostic) -> None:
    from crewlog.cli.screen import plain, plain_lines  # noqa: PLC0415

    out.append(f"{plain(found.place)}  ", "bold")
    out.append(plain(found.message), "red")
    if found.excerpt:
        out.append(f"\n    {plain_lines(found.excerpt)}", "dim")
        out.append(f"\n    {' ' * ((found.caret or found.column) - 1)}")
        out.append("^" * found.length, "bold red")
    if found.remedy:
        out.append(f"\n    {plain(found.remedy)}")
