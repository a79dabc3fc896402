"""`lint`: what ruff finds in the Python files of the workspace.

The rules are those that the workspace configures, which is what agents write, too. So it is looked
at twice more: at which files there are for it, without the workspace's configuration and with it,
and for faults of the program, which no configuration and no `noqa` hides. What is switched off is
told as a warning; where nothing was looked at, it has not passed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

from crewlog.evaluators.common import Found, Owners, no_good_end, summary_of, within
from crewlog.evaluators.programs import Scratch, run_program
from crewlog.evaluators.signals import Signal, owner, report
from crewlog.state.excerpt import excerpt
from crewlog.tool_call import current_call

_BROKEN = ("E9", "F63", "F7", "F82")
"""Rules whose findings are faults of the program, and no matter of style: names that are not
defined, code that cannot be run."""
_VERSION = f"py3{sys.version_info.minor}"
_PYTHON = (".py", ".pyi", ".ipynb")


@tool(response_format="content_and_artifact")
async def lint(
    paths: list[str] | None = None,
    timeout: float = 60,
    owners: Owners | None = None,
    strict: bool = False,
) -> Found:
    """Looks for faults in the Python files of the workspace without running them, with ruff.

    Args:
        paths: Files or folders, relative to the workspace. Left out: all of it.
        timeout: Seconds that it may take.
        owners: Whose the files are: the folders of each agent, by its name.
        strict: Whether every finding is an error; else matters of style are warnings.
    """
    whose: Mapping[str, Sequence[str]] = owners or {}
    looked = within(paths or [])
    ruff = shutil.which("ruff", path=Path(sys.executable).parent) or shutil.which("ruff")
    if ruff is None:
        say = "ruff is not installed here, so nothing was looked at"
        return report("ruff", say, [Signal(type="lint_issue", detail=say)])
    check = [ruff, "check", "--no-cache", "--quiet", "--no-fix"]
    rules = [*check, "--output-format", "json", "--exit-zero"]
    plain = ["--isolated", "--no-respect-gitignore", "--target-version", _VERSION]
    runs = (
        [*rules, *looked],
        [*rules, *plain, "--ignore-noqa", "--select", ",".join(_BROKEN), *looked],
        [*check, "--show-files", *looked],
        [*check, *plain, "--show-files", *looked],
    )
    with Scratch() as scratch:
        whole = [run_program(each, seconds=timeout, scratch=scratch) for each in runs]
        ended, bare, chosen, there = await asyncio.gather(*whole)
    for each in (ended, bare, chosen, there):
        if each.code != 0:
            bad = [no_good_end("ruff", "lint_issue", each, whose)]
            return report("ruff", summary_of(each, "it came to no good end"), bad)
    found = list(_findings(ended.output, whose, strict=strict))
    known = {(each.where, each.detail) for each in found}
    hidden = [
        each.model_copy(
            update={
                "detail": f"{each.detail} (a configuration or a comment in the workspace hides it)",
                "severity": "error" if strict else "warn",
            }
        )
        for each in _findings(bare.output, whose, strict=strict)
        if (each.where, each.detail) not in known
    ]
    some = _files(chosen.output)
    # A list that is cut says nothing of what is missing in it.
    every = some if chosen.cut or there.cut else _files(there.output)
    unseen = list(_unseen(some, every, looked))
    said = f"{len(found)} finding{'' if len(found) == 1 else 's'}" if found else "nothing found"
    said += f" in {len(some)} file{'' if len(some) == 1 else 's'}"
    return report("ruff", summary_of(ended, said), [*unseen, *found, *hidden])


def _files(output: str) -> set[str]:
    """The Python files that ruff lists."""
    top = current_call().workspace.resolve()
    listed = (Path(line) for line in output.splitlines() if line.startswith("/"))
    return {
        each.relative_to(top).as_posix()
        for each in listed
        if each.is_relative_to(top) and each.suffix in _PYTHON
    }


def _unseen(some: set[str], there: set[str], looked: Sequence[str]) -> Iterator[Signal]:
    """What was not looked at; where that is everything, it is an error."""
    if not some:
        say = f"no Python file was looked at in {', '.join(looked)}"
        say += f": the workspace's configuration leaves out {len(there)}" if there else ""
        yield Signal(type="lint_issue", detail=say)
    elif left := sorted(there - some):
        say = f"the workspace's configuration leaves out {len(left)} of {len(there)} Python files: "
        say += excerpt(", ".join(left), 300)
        yield Signal(type="lint_issue", detail=say, severity="warn", where=left[0])


def _findings(
    output: str, owners: Mapping[str, Sequence[str]], *, strict: bool
) -> Iterator[Signal]:
    try:
        found: list[dict[str, Any]] = json.loads(output)
    except ValueError:
        say = "ruff wrote more than is kept: look at fewer files"
        yield Signal(type="lint_issue", detail=say, severity="error")
        return
    top = current_call().workspace.resolve()
    for each in found:
        code = each.get("code") or "invalid-syntax"
        file = Path(each.get("filename") or "")
        name = file.relative_to(top).as_posix() if file.is_relative_to(top) else file.name
        location: dict[str, Any] = each.get("location") or {}
        line = location.get("row")
        broken = code == "invalid-syntax" or code.startswith(_BROKEN)
        yield Signal(
            agent=owner(owners, [name]),
            type="compile_error" if code == "invalid-syntax" else "lint_issue",
            detail=f"{code} {each.get('message') or ''}".rstrip(),
            severity="error" if strict or broken else "warn",
            where=f"{name}:{line}" if line else name,
        )
