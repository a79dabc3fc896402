"""The pytest plugin: `crewlog_local`, and the server below it. Loaded in every pytest session.

The fixtures are plain functions, and the worker has a loop of its own, so they work whichever way
a project runs its asynchronous tests. Nothing is imported before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from crewlog.testing.local import CrewlogLocal, LocalServer


@pytest.fixture(scope="session")
def crewlog_server() -> Iterator[LocalServer]:
    """A throwaway Temporal server for the session, or the one of `CREWLOG_TEST_SERVER`."""
    from crewlog.testing.local import LocalServer  # noqa: PLC0415 - see the docstring

    with LocalServer() as server:
        yield server


@pytest.fixture
def crewlog_local(crewlog_server: LocalServer) -> Iterator[CrewlogLocal]:
    """Crews in a test: a worker in this process with a store in memory, both the test's own."""
    from crewlog.testing.local import CrewlogLocal  # noqa: PLC0415

    with CrewlogLocal(crewlog_server) as local:
        yield local
