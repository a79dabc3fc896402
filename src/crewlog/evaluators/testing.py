"""`run_pytest`: the tests that are in the workspace, run, and what failed in them.

It has passed where a test ran and passed, none failed, and pytest came to its end: the record of a
witness says so (see witness.py), and not the exit code alone. Where nothing ran, or not all did,
that is what failed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

from crewlog.evaluators.common import Found, Owners, no_good_end, summary_of, within
from crewlog.evaluators.programs import Ended, Scratch, run_program
from crewlog.evaluators.signals import Signal, owner, places, report
from crewlog.state.excerpt import excerpt
from crewlog.tool_call import current_call

LARGEST_RECORD = 8 * 1024 * 1024
"""Bytes of the record; what a test says is in it, and a test is a stranger's."""
_WITNESS = Path(__file__).with_name("witness.py")
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_SETTINGS = {
    "pytest.ini": "",
    ".pytest.ini": "",
    "pyproject.toml": "[tool.pytest",
    "tox.ini": "[pytest]",
    "setup.cfg": "[tool:pytest]",
}
"""Where pytest looks for settings, and how they begin there."""
_MOST_LOOKED = 20_000
"""Files and folders among which files of tests are looked for."""
_NO_TESTS = frozenset({"__pycache__", "node_modules", "venv", "build", "dist"})


@dataclass
class _Told:
    """What the witness wrote."""

    now: str = ""
    failed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ended: dict[str, Any] | None = None


@tool(response_format="content_and_artifact")
async def run_pytest(
    paths: list[str] | None = None,
    timeout: float = 60,
    owners: Owners | None = None,
    plugins: list[str] | None = None,
) -> Found:
    """Runs the tests in the workspace and tells which failed and why.

    Args:
        paths: Files or folders with tests, relative to the workspace. Left out: all of them.
        timeout: Seconds that all of them may take together.
        owners: Whose the files are: the folders of each agent, by its name.
        plugins: Plugins of pytest that they need, by their modules: `pytest_asyncio.plugin`.
    """
    whose: Mapping[str, Sequence[str]] = owners or {}
    looked = within(paths or [])
    workspace = current_call().workspace
    named = _test_files(looked, workspace)
    with Scratch() as scratch:
        record = scratch / "record"
        argv = [sys.executable, "-P", str(_WITNESS), str(record)]
        argv += ["-q", "--tb=short", "--color=no", "-p", "no:cacheprovider"]
        argv += [part for name in plugins or () for part in ("-p", name)]
        # Else pytest takes the settings of whatever project the workspace lies in.
        argv += ["--rootdir=.", "--confcutdir=."]
        if not _configured(looked, workspace):
            settings = scratch / "pytest.ini"
            settings.write_text("[pytest]\n")
            argv += ["-c", str(settings)]
        argv += looked
        ended = await run_program(argv, seconds=timeout, scratch=scratch)
        told = _read(record)
    signals = [_failure(each, whose) for each in told.failed]
    if told.ended is None:
        signals.append(_no_end(ended, told.now, whose))
        return report("pytest", summary_of(ended, "it did not come to its end"), signals)
    if not signals:
        signals += _amiss(ended, told.ended, looked, whose)
    signals += _asides(told.ended, named)
    return report("pytest", summary_of(ended, _counted(told.ended)), signals)


def _read(path: Path) -> _Told:
    """What the witness wrote; a line that is none ends it."""
    told = _Told()
    try:
        with path.open("rb") as file:
            lines = file.read(LARGEST_RECORD).splitlines()
        for each in (json.loads(line) for line in lines):
            told.now = each.get("now", told.now)
            told.failed += [each["failed"]] if "failed" in each else []
            told.ended = each.get("ended", told.ended)
    except (OSError, ValueError, AttributeError):
        pass
    return told


def _counted(ended: Mapping[str, Any]) -> str:
    """What came of the tests, in words: `7 tests passed, 1 was skipped`."""
    failed, passed = ended["failed"], ended["passed"]
    ran = failed + passed
    said = f"{failed} of {ran} tests failed" if failed else f"{passed} tests passed"
    said = said.replace("1 tests passed", "1 test passed") if passed == 1 else said
    beside = [
        f"{ended['skipped']} skipped" if ended["skipped"] else "",
        f"{ended['xfailed']} failed as expected" if ended["xfailed"] else "",
    ]
    return ", ".join([said, *filter(None, beside)])


def _no_end(ended: Ended, now: str, owners: Mapping[str, Sequence[str]]) -> Signal:
    """The signal where pytest was ended from within, or from outside."""
    if "No module named 'pytest'" in ended.output:
        ended = Ended(None, "", ended.seconds, ended.bound, error="it is not installed")
    signal = no_good_end("pytest", "test_failure", ended, owners)
    test = now if "::" in now else ""
    if ended.hung or ended.error or (ended.code or 0) < 0:
        return signal.model_copy(update={"where": test})
    where = f"in {test}" if test else now or "before any test ran"
    detail = f"something ended pytest {where}, with the exit code {ended.code}"
    return signal.model_copy(update={"detail": detail, "where": test.partition("::")[0]})


def _amiss(
    ended: Ended,
    told: Mapping[str, Any],
    looked: Sequence[str],
    owners: Mapping[str, Sequence[str]],
) -> Iterator[Signal]:
    """Why it has not passed, although no test failed; nothing where it has."""
    say = ""
    ran, left, stopped = told["passed"], told["left"], told["stopped"]
    if told["lies"]:
        say = "a test that must fail was reported as passed: what is in the workspace, perhaps a "
        say += "conftest.py, changes what pytest reports"
    elif not ran and not told["collected"] and not told["skipped"]:
        say = f"no test was found in {', '.join(looked)}"
    elif not ran:
        say = f"no test passed, of {max(told['collected'], told['skipped'])} that were found"
        why = {"skipped": "skipped", "xfailed": "expected to fail", "deselected": "left out"}
        parts = [f"{told[key]} {word}" for key, word in why.items() if told[key]]
        say += f": {', '.join(parts)}" if parts else ": none was run"
    elif left:
        say = f"{left} of {ran + left} tests did not run"
        say += f": {stopped}" if stopped else ""
    if say:
        yield Signal(type="test_failure", detail=excerpt(say, 500))
    elif ended.code != 0 or told["code"] != 0:
        yield no_good_end("pytest", "test_failure", ended, owners)


def _asides(told: Mapping[str, Any], named: Sequence[str]) -> Iterator[Signal]:
    """What else there is to know: tests that were left out, and by which configuration."""
    if told["gone"]:
        say = f"{told['gone']} of {told['collected']} tests were taken out of the run by something "
        say += "in the workspace, perhaps a conftest.py"
        yield Signal(type="test_failure", detail=say, severity="warn")
    if told["deselected"]:
        say = f"{told['deselected']} of {told['collected']} tests were left out of the run"
        yield Signal(type="test_failure", detail=say, severity="warn")
    missed = sorted({*named} - {*told["files"]}) if told["collected"] else []
    if missed:
        say = f"in {excerpt(', '.join(missed), 300)} no test was found"
        yield Signal(type="test_failure", detail=say, severity="warn", where=missed[0])
    if told["addopts"]:
        say = f"the workspace configures pytest with {told['addopts']}"
        yield Signal(type="test_failure", detail=excerpt(say, 300), severity="info")


def _configured(looked: Sequence[str], workspace: Path) -> bool:
    """Whether the workspace has settings of pytest, in a folder where these are looked for."""
    places = {workspace, *(part for path in looked for part in (workspace / path).parents)}
    places |= {workspace / path for path in looked}
    return any(
        (folder / name).is_file() and mark in (folder / name).read_text("utf-8", "replace")
        for folder in places
        if folder.is_relative_to(workspace)
        for name, mark in _SETTINGS.items()
    )


def _test_files(looked: Sequence[str], workspace: Path) -> list[str]:
    """The files that are named as files of tests are, relative to the workspace."""
    found: list[str] = []
    seen = 0
    for path in looked:
        top = workspace / path
        for folder, below, files in os.walk(top) if top.is_dir() else ():
            below[:] = [each for each in below if each[0] != "." and each not in _NO_TESTS]
            seen += len(below) + len(files)
            inner = Path(folder).relative_to(workspace)
            found += ((inner / name).as_posix() for name in files if _of_tests(name))
            if seen > _MOST_LOOKED:
                return []
    return found


def _of_tests(name: str) -> bool:
    return name.endswith("_test.py") or (name.startswith("test_") and name.endswith(".py"))


def _failure(bad: Mapping[str, Any], owners: Mapping[str, Sequence[str]]) -> Signal:
    test, text = str(bad["test"]), str(bad["text"])
    file = str(bad["file"]) or test.partition("::")[0]
    named = [place for place in places(text) if not place.startswith("/")]
    # The innermost place is where it broke; a test that only sees it is not to blame.
    inner = [place for place in reversed(named) if place.partition(":")[0] != file]
    files = [place.partition(":")[0] for place in [*inner, *named[::-1]]]
    where = inner[0] if inner else named[-1] if named else file
    syntax = any(f"{each}:" in text for each in _SYNTAX)
    return Signal(
        agent=owner(owners, [*files, file]),
        type="compile_error" if syntax else "test_failure",
        detail=f"{test}: {_why(text)}",
        where=where,
    )


def _why(text: str) -> str:
    """What pytest says is wrong: its lines that begin with `E`; else the end of what it says."""
    said = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return excerpt("; ".join(said) or text[-500:], 500)
