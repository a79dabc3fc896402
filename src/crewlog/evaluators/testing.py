"""`run_pytest`: the tests that are in the workspace, run, and what failed in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from langchain_core.tools import tool

from crewlog.evaluators.common import Found, Owners, no_good_end, summary_of, within
from crewlog.evaluators.programs import Ended, Scratch, run_program
from crewlog.evaluators.signals import Signal, owner, places, report
from crewlog.state.brief import brief

LARGEST_REPORT = 8 * 1024 * 1024
"""Bytes of pytest's report; what a test writes is in it, and a test is a stranger's."""
_NOTHING_FOUND = 5
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")


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
    with Scratch() as scratch:
        found = scratch / "report.xml"
        argv = [sys.executable, "-m", "pytest", "-q", "--tb=short", "--color=no"]
        argv += ["-p", "no:cacheprovider", f"--junitxml={found}"]
        argv += [part for name in plugins or () for part in ("-p", name)]
        argv += ["-o", "junit_family=xunit1", "--rootdir=.", *looked]
        ended = await run_program(argv, seconds=timeout, scratch=scratch)
        counted, signals = _read(found, whose)
    if ended.code == _NOTHING_FOUND and not counted:
        say = f"no test was found in {', '.join(looked)}"
        return report("pytest", say, [Signal(type="test_failure", detail=say)])
    if ended.code != 0 and not signals:
        if "No module named pytest" in ended.output:
            ended = Ended(None, "", ended.seconds, ended.bound, error="it is not installed")
        signals = [no_good_end("pytest", "test_failure", ended, whose)]
    failed = f"{len(signals)} of {counted} tests failed" if signals else f"{counted} tests passed"
    return report("pytest", summary_of(ended, failed), signals)


def _read(path: Path, owners: Mapping[str, Sequence[str]]) -> tuple[int, list[Signal]]:
    """How many tests ran, and the signals of those that failed; none where there is no report."""
    try:
        if path.stat().st_size > LARGEST_REPORT:
            return 0, []
        root = ElementTree.parse(path).getroot()  # noqa: S314 - expat bounds what entities grow to
    except (OSError, ElementTree.ParseError):
        return 0, []
    cases = list(root.iter("testcase"))
    return len(cases), [signal for case in cases for signal in _failures(case, owners)]


def _failures(case: ElementTree.Element, owners: Mapping[str, Sequence[str]]) -> Iterator[Signal]:
    file = case.get("file") or (case.get("classname") or "").replace(".", "/") + ".py"
    for bad in (each for kind in ("failure", "error") for each in case.iter(kind)):
        text = bad.text or ""
        named = [place for place in places(text) if not place.startswith("/")]
        # The innermost place is where it broke; a test that only sees it is not to blame.
        inner = [place for place in reversed(named) if place.partition(":")[0] != file]
        files = [place.partition(":")[0] for place in [*inner, *named[::-1]]]
        where = inner[0] if inner else named[-1] if named else file
        syntax = any(f"{each}:" in text for each in _SYNTAX)
        yield Signal(
            agent=owner(owners, [*files, file]),
            type="compile_error" if syntax else "test_failure",
            detail=f"{_name(case, file)}: {_why(bad, text)}",
            where=where,
        )


def _name(case: ElementTree.Element, file: str) -> str:
    name = case.get("name") or ""
    return file if not name or name in file.replace("/", ".") else f"{file}::{name}"


def _why(bad: ElementTree.Element, text: str) -> str:
    """What pytest says is wrong: its lines that begin with `E`; else its message."""
    said = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return brief("; ".join(said) or bad.get("message") or text, 500)
