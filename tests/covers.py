"""Which capability a test shows: `@covers("C24")`, as docs/capabilities.md numbers them.

    python -m tests.covers            what no test shows; exits with 1 if there is any
    python -m tests.covers --tests    the tests of each as well

A test is marked where it would fail if the capability were lost, and where it sees it as a user
does: on a server, through the command line, the client, the wire or a file. Tests are collected
for their marks, and none runs.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "capabilities.md"
FIRST, LAST = 1, 125
ABSENT = "*Not there*"
"""What the page says of a capability that is lacking, or a part of it."""
_ROW = re.compile(r"^\| C(\d+) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)


def covers(*capabilities: str) -> pytest.MarkDecorator:
    """Marks a test with the capabilities that it shows; an unknown one is an error at once."""
    if not capabilities:
        raise ValueError("covers() names no capability")
    unknown = [each for each in capabilities if number(each) is None]
    if unknown:
        raise ValueError(f"there is no capability {unknown[0]!r}: they are C{FIRST} to C{LAST}")
    return pytest.mark.covers(*capabilities)


def number(capability: str) -> int | None:
    """A capability's number, if there is one of that name."""
    found = re.fullmatch(r"C([1-9]\d*)", capability)
    return int(found[1]) if found and FIRST <= int(found[1]) <= LAST else None


def told() -> dict[int, tuple[str, str]]:
    """What the page says of each: its name, and where it is described."""
    return {int(row[1]): (row[2], row[4]) for row in _ROW.finditer(PAGE.read_text())}


def absent() -> set[int]:
    """The capabilities of which the page says that something is not there: no test shows these."""
    return {n for n, (name, _) in told().items() if ABSENT in name}


class Collected:
    """A plugin of pytest: what each capability is shown by, and what could not be collected."""

    def __init__(self) -> None:
        self.tests: dict[int, set[str]] = {}
        self.faults: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.faults.append(f"{report.nodeid}: {str(report.longrepr).splitlines()[-1]}")

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        for mark in item.iter_markers("covers"):
            for each in mark.args:
                test = item.nodeid.partition("[")[0]
                self.tests.setdefault(int(each[1:]), set()).add(test)


def collect(where: Iterable[str] = ("tests",)) -> Collected:
    """The marks of all tests."""
    found = Collected()
    # Without a terminal's reporter: what it would say of each test is not what is asked for.
    options = ["--collect-only", "--override-ini", "addopts=--import-mode=importlib"]
    options += ["-p", "no:terminal", "-p", "no:cacheprovider"]
    pytest.main([*options, *where], plugins=[found])
    return found


def main() -> int:
    """Prints what is missing, and says by the exit code whether anything is."""
    parser = argparse.ArgumentParser(prog="python -m tests.covers")
    parser.add_argument("--tests", action="store_true", help="the tests of each capability")
    asked = parser.parse_args()
    os.chdir(ROOT)
    found, page = collect(), told()
    lacking = absent()
    without = [n for n in range(FIRST, LAST + 1) if n not in found.tests or n in lacking]
    if asked.tests:
        for n, tests in sorted(found.tests.items()):
            say(n, page)
            print(*(f"        {test}" for test in sorted(tests)), sep="\n")  # noqa: T201
    headed("No test shows", without, page)
    for fault in found.faults:
        print(f"not collected: {fault}", file=sys.stderr)  # noqa: T201
    shown, tests = LAST - len(without), {test for each in found.tests.values() for test in each}
    print(  # noqa: T201
        f"{LAST} capabilities: {shown} shown by {len(tests)} tests, {len(without)} without one"
    )
    return 1 if without or found.faults else 0


def headed(title: str, numbers: list[int], page: dict[int, tuple[str, str]]) -> None:
    """A list of capabilities under its title, if there are any."""
    if numbers:
        print(f"{title}:")  # noqa: T201
    for n in sorted(numbers):
        say(n, page)


def say(n: int, page: dict[int, tuple[str, str]]) -> None:
    """A capability in a line."""
    print(f"  C{n:<4} {page.get(n, ('?', ''))[0]}")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
