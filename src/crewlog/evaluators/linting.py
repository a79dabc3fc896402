"""`lint`: what ruff finds in the Python files of the workspace."""

from __future__ import annotations

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
from crewlog.tool_call import current_call

_BROKEN = ("E9", "F63", "F7", "F82")
"""Rules whose findings are faults of the program, and no matter of style: names that are not
defined, code that cannot be run."""


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
        return report("ruff", say, [Signal(type="lint_issue", detail=say, severity="info")])
    argv = [ruff, "check", "--output-format", "json", "--no-cache", "--exit-zero", "--quiet"]
    with Scratch() as scratch:
        ended = await run_program([*argv, *looked], seconds=timeout, scratch=scratch)
    found = list(_findings(ended.output, whose, strict=strict)) if ended.code == 0 else []
    if ended.code != 0:
        found = [no_good_end("ruff", "lint_issue", ended, whose)]
    said = f"{len(found)} finding{'' if len(found) == 1 else 's'}" if found else "nothing found"
    return report("ruff", summary_of(ended, said), found)


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
