"""One site for the tests of size, and the table of what they measured."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from acceptance.harness import Site, make_site

from .measure import FIGURES


@pytest.fixture(scope="session")
async def size_site() -> AsyncIterator[Site]:
    with TemporaryDirectory(prefix="crewlog-size-", ignore_cleanup_errors=True) as root:
        async with make_site(Path(root)) as site:
            yield site


@pytest.fixture
async def site(size_site: Site) -> AsyncIterator[Site]:
    """The site; workers that a test starts end with it."""
    yield size_site
    await size_site.settle()
    size_site.end_workers()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured, whether or not the tests hold it to a limit."""
    if FIGURES:
        terminalreporter.section("size")
        for name, value in FIGURES:
            terminalreporter.line(f"{name:<64} {value}")
