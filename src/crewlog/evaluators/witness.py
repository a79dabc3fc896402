"""Runs pytest and bears witness: which tests ran, what came of each, and that it came to its end.

    python -P witness.py RECORD ARGUMENTS…

The exit code of pytest says little. What is tested runs in the same process: it may end that with
0, take tests out of it, or change what it reports, and tests that are skipped are no failures. So
what happens is written down while it happens, and what has no last line came to no end:

    {"now": "tests/test_cart.py::test_total"}                 what is under way
    {"failed": {"test": "…", "file": "…", "text": "…"}}       a test, or a file that is none
    {"ended": {"code": 0, "passed": 7, "collected": 7, …}}    once, at the end

Whether a failure is told as one is tried: behind the last test there is one that must fail, and of
which nobody is told. It guards against what goes wrong and against what is tempting; what is
written to betray this very file can, for it is in the same process.

It is run by its path, with pytest and the standard library alone: no file of the workspace stands
in for pytest, or for something that pytest imports.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

SLOT = 1024
"""Bytes at the beginning of the record: what is under way."""
MOST = 200
"""Failures of which the text is kept; all are counted."""
HEAD, TAIL = 12_000, 6_000
"""Characters of a failure's text that are kept, of its beginning and of its end."""
FILES = 5_000
"""Files that are named of those in which tests were found."""
_AFTER = "after the last test"
_OUTCOMES = (pytest.skip.Exception, pytest.fail.Exception, pytest.exit.Exception)
_RANKS = ("skipped", "xfailed", "passed", "failed")
"""What came of a test; of several reports of one test the last of these counts."""


class Record:
    """The file that is written; by this process alone, and not by what it forks."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._end = SLOT
        self._owner = os.getpid()
        self.now("")

    def now(self, what: str) -> None:
        """Says what is under way."""
        if os.getpid() == self._owner:
            line = json.dumps({"now": what[:100]}).encode()
            os.pwrite(self._fd, line.ljust(SLOT - 1) + b"\n", 0)

    def add(self, what: dict[str, Any]) -> None:
        """Adds a line."""
        if os.getpid() == self._owner:
            self._end += os.pwrite(self._fd, json.dumps(what).encode() + b"\n", self._end)


class Witness:
    """A plugin of pytest, the first one."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._came: dict[str, str] = {}
        self._made: dict[tuple[str, str], str] = {}
        self._files: set[str] = set()
        self._failed = 0
        self._deselected = 0
        self._collected = 0
        self._session: pytest.Session | None = None
        self._lies = False
        self._addopts: list[str] = []
        self._stopped = ""

    # -- what is collected ------------------------------------------------------------------

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Remembers the session, whose items are those that are to run."""
        self._session = session
        self._addopts = [str(each) for each in session.config.getini("addopts")]

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Counts a test before anybody can take it away."""
        self._collected += 1
        self._saw(item.nodeid)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Counts tests that were chosen to be left out."""
        self._deselected += len(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Takes what could not be collected, or was skipped as a whole."""
        if report.failed:
            self._saw(report.nodeid)
            self._fails(report.nodeid, report.nodeid, report.longreprtext)
            self._came[report.nodeid] = "failed"
        elif report.skipped:
            self._saw(report.nodeid)
            self._came[report.nodeid] = "skipped"

    # -- what runs --------------------------------------------------------------------------

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Says which test is under way."""
        self._record.now(nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Remembers what a report said when it was made."""
        raised = call.excinfo
        report = yield
        self._made[item.nodeid, call.when] = report.outcome
        self._lies |= report.passed and raised is not None
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes what came of a test."""
        when = report.when or "call"
        self._lies |= report.passed and self._made.pop((report.nodeid, when), "") == "failed"
        if report.failed:
            file = report.location[0] if report.location else ""
            self._fails(report.nodeid, file, report.longreprtext)
            self._comes(report.nodeid, "failed")
        elif report.skipped:
            self._comes(report.nodeid, "xfailed" if hasattr(report, "wasxfail") else "skipped")
        elif report.passed and when == "call":
            self._comes(report.nodeid, "passed")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Remembers who ended it in the middle: `pytest.exit`."""
        self._stopped = str(excinfo.value)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tries whether a failure is told as one, where all is said to be well."""
        self._record.now(_AFTER)
        if "passed" in self._came.values() and not self._failed:
            with contextlib.suppress(Exception, *_OUTCOMES):  # of a hook that is not ready for it
                self._lies |= _hides_failures(session, self._came)

    def ended(self, code: int) -> dict[str, Any]:
        """What came of it all."""
        left = [
            item.nodeid
            for item in getattr(self._session, "items", ())
            if item.nodeid not in self._came
        ]
        count: dict[str, int] = dict.fromkeys(_RANKS, 0)
        for rank in self._came.values():
            count[rank] += 1
        stop = self._stopped or getattr(self._session, "shouldstop", "")
        gone = self._collected - self._deselected - len(getattr(self._session, "items", ()))
        return {
            **count,
            "code": int(code),
            "collected": self._collected,
            "deselected": self._deselected,
            "gone": max(gone, 0),
            "left": len(left),
            "lies": self._lies,
            "files": sorted(self._files)[:FILES],
            "addopts": " ".join(self._addopts)[:300],
            "stopped": str(stop or "")[:300],
        }

    def _saw(self, nodeid: str) -> None:
        self._files.add(nodeid.partition("::")[0])

    def _comes(self, nodeid: str, what: str) -> None:
        before = self._came.get(nodeid, "skipped")
        self._came[nodeid] = max(before, what, key=_RANKS.index)

    def _fails(self, nodeid: str, file: str, text: str) -> None:
        self._failed += 1
        if self._failed <= MOST:
            kept = text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n…\n{text[-TAIL:]}"
            self._record.add({"failed": {"test": nodeid[:500], "file": file[:500], "text": kept}})


def _hides_failures(session: pytest.Session, came: dict[str, str]) -> bool:
    """Whether a test that fails, beside one that passed, is reported as one that passed."""
    beside = next((item for item in session.items if came.get(item.nodeid) == "passed"), None)
    module = beside.getparent(pytest.Module) if beside is not None else None
    if module is None:
        return False
    item = pytest.Function.from_parent(module, name="test_that_must_fail", callobj=_must_fail)
    item.fixturenames.clear()  # nothing of the tests' own is set up for it
    hook = item.ihook
    outcomes: list[str] = []

    def take(when: Literal["setup", "call", "teardown"], do: Callable[[], Any]) -> None:
        call: pytest.CallInfo[Any] = pytest.CallInfo.from_call(do, when=when)  # pyright: ignore[reportUnknownVariableType]
        outcomes.append(hook.pytest_runtest_makereport(item=item, call=call).outcome)

    take("setup", lambda: hook.pytest_runtest_setup(item=item))
    take("call", lambda: hook.pytest_runtest_call(item=item))
    take("teardown", lambda: hook.pytest_runtest_teardown(item=item, nextitem=None))
    return all(outcome == "passed" for outcome in outcomes)


def _must_fail() -> None:
    raise AssertionError("this test must fail, and is told to nobody")


def main() -> int:
    """Runs pytest, and writes down what comes of it."""
    record, *arguments = sys.argv[1:]
    witness = Witness(written := Record(record))
    # As `python -m pytest` has it, but not before pytest itself is there.
    sys.argv[:] = ["pytest", *arguments]
    sys.path.insert(0, str(Path.cwd()))
    code = pytest.main(arguments, plugins=[witness])
    written.add({"ended": witness.ended(code)})
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
