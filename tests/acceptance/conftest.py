"""One site and one shared worker for all acceptance tests; every run is checked after its test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .harness import SHARED, Site, WorkerProcess, make_site


@pytest.fixture(scope="session")
async def whole_site() -> AsyncIterator[Site]:
    root = Path(tempfile.mkdtemp(prefix="crewlog-acceptance-"))
    try:
        async with make_site(root) as site:
            yield site
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
async def site(whole_site: Site) -> AsyncIterator[Site]:
    """The site, without a worker of its own."""
    yield whole_site
    await whole_site.settle()


@pytest.fixture(scope="session")
async def shared_worker(whole_site: Site) -> WorkerProcess:
    return await whole_site.start_worker(SHARED)


@pytest.fixture
async def crews(site: Site, shared_worker: WorkerProcess) -> Site:
    """The site with its shared worker."""
    assert shared_worker.process.poll() is None, shared_worker.said()[-2000:]
    return site
