"""`compile_python` and `compile_with`: whether what is in the workspace compiles."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from langchain_core.tools import tool

from crewlog.errors import ToolFailed
from crewlog.evaluators.common import Found, Owners, no_good_end, summary_of, within
from crewlog.evaluators.programs import Ended, Scratch, run_program
from crewlog.evaluators.signals import Signal, owner, report
from crewlog.state.excerpt import excerpt
from crewlog.tool_call import current_call

_PYTHON = re.compile(
    r"^\*\*\* (?:Error compiling '(?P<file>[^'\n]+)'\.\.\.|"
    r"Sorry: (?P<sorry>[^\n]*))\n?(?P<rest>(?:(?!\*\*\* ).*\n?)*)",
    re.MULTILINE,
)
_LINE = re.compile(r"\bline (\d+)")
_COMPILER = re.compile(
    r"^(?P<file>[^\s:][^:\n]*?)(?::(?P<line>\d+)(?::\d+)?|\((?P<at>\d+),\d+\)):? *(?:-? *)"
    r"(?P<kind>fatal error|error|warning)\b[^:\n]*: *(?P<text>[^\n]*)",
    re.MULTILINE | re.IGNORECASE,
)


@tool(response_format="content_and_artifact")
async def compile_python(
    paths: list[str] | None = None,
    timeout: float = 60,
    owners: Owners | None = None,
) -> Found:
    """Compiles the Python files in the workspace and tells which cannot be.

    Args:
        paths: Files or folders, relative to the workspace. Left out: all of it.
        timeout: Seconds that it may take.
        owners: Whose the files are: the folders of each agent, by its name.
    """
    whose: Mapping[str, Sequence[str]] = owners or {}
    looked = within(paths or [])
    with Scratch() as scratch:
        argv = [sys.executable, "-I", "-X", f"pycache_prefix={scratch}", "-m", "compileall"]
        ended = await run_program([*argv, "-q", "-f", *looked], seconds=timeout, scratch=scratch)
    found = list(_python_faults(ended.output, whose))
    if not found and not _any_python(looked):
        say = f"there is no Python file in {', '.join(looked)}, so nothing was compiled"
        return report("the Python compiler", say, [Signal(type="compile_error", detail=say)])
    return _report("the Python compiler", ended, found, whose)


def _any_python(looked: Sequence[str]) -> bool:
    """Whether there is something to compile, as `compileall` goes through folders."""
    top = current_call().workspace
    return any(name.endswith(".py") for path in looked for name in _names(top / path))


def _names(path: Path) -> Iterator[str]:
    """The names of the files that are there: of that one, or of those of a folder."""
    if not path.is_dir():
        yield path.name
    for _, below, files in os.walk(path):
        below[:] = [each for each in below if each != "__pycache__"]
        yield from files


@tool(response_format="content_and_artifact")
async def compile_with(
    command: list[str],
    timeout: float = 120,
    owners: Owners | None = None,
) -> Found:
    """Runs a compiler in the workspace and tells what it complains of.

    Args:
        command: The compiler and its arguments, e.g. `["cc", "-fsyntax-only", "src/a.c"]`. No shell
            reads it.
        timeout: Seconds that it may take.
        owners: Whose the files are: the folders of each agent, by its name.
    """
    if not command or "/" in command[0]:
        raise ToolFailed(
            "a compiler is named by its name alone",
            remedy='For example: command: ["cc", "-fsyntax-only", "src/a.c"]',
        )
    whose: Mapping[str, Sequence[str]] = owners or {}
    with Scratch() as scratch:
        ended = await run_program(command, seconds=timeout, scratch=scratch)
    return _report(command[0], ended, list(_faults(ended.output, whose)), whose)


def _report(
    what: str, ended: Ended, found: list[Signal], owners: Mapping[str, Sequence[str]]
) -> Found:
    if ended.code != 0 and not any(each.severity == "error" for each in found):
        found.append(no_good_end(what, "compile_error", ended, owners))
    count = sum(each.severity == "error" for each in found)
    said = f"{count} error{'' if count == 1 else 's'}" if count else "everything compiles"
    return report(what, summary_of(ended, said), found)


def _python_faults(output: str, owners: Mapping[str, Sequence[str]]) -> Iterator[Signal]:
    for match in _PYTHON.finditer(output):
        file = (match["file"] or "").removeprefix("./")
        lines = [line for line in match["rest"].splitlines() if line.strip()]
        line = _LINE.search(match["sorry"] or match["rest"])
        said = match["sorry"] or (lines[-1] if lines else "it cannot be compiled")
        yield Signal(
            agent=owner(owners, [file]),
            type="compile_error",
            detail=excerpt(said, 500),
            where=f"{file}:{line[1]}" if line else file,
        )


def _faults(output: str, owners: Mapping[str, Sequence[str]]) -> Iterator[Signal]:
    """What a compiler of the usual kind says: `a.c:3:7: error: …`, `a.ts(3,7): error TS1: …`."""
    for match in _COMPILER.finditer(output):
        file = match["file"].removeprefix("./")
        yield Signal(
            agent=owner(owners, [file]),
            type="compile_error",
            detail=excerpt(match["text"], 500),
            severity="warn" if match["kind"].lower() == "warning" else "error",
            where=f"{file}:{match['line'] or match['at']}",
        )
