"""One site for the tests of size, and the table of what they measured."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from acceptance.harness import Site, make_site

from .measure import FIGURES


@pytest.fixture(scope="session")
async def size_site() -> AsyncIterator[Site]:
    root = Path(tempfile.mkdtemp(prefix="crewlog-size-"))
    try:
        async with make_site(root) as site:
            yield site
    finally:
        shutil.rmtree(root, ignore_errors=True)


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
