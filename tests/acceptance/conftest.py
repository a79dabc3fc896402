"""One site and its shared workers for all acceptance tests; every run is checked after its test.

With `TEMPORAL_ADDRESS` and `DATABASE_URL` the site is on those servers (`make test-cluster`), with
two shared workers; without them it has servers of its own, and one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from .evidence import evidence
from .harness import SHARED, Site, WorkerProcess, make_site


@pytest.fixture(scope="session")
async def whole_site() -> AsyncIterator[Site]:
    with TemporaryDirectory(prefix="crewlog-acceptance-", ignore_cleanup_errors=True) as root:
        async with make_site(Path(root)) as site:
            yield site


@pytest.fixture
async def site(whole_site: Site) -> AsyncIterator[Site]:
    """The site, without a worker of its own."""
    yield whole_site
    await whole_site.settle()


@pytest.fixture(scope="session")
async def shared_workers(whole_site: Site) -> list[WorkerProcess]:
    workers = [whole_site.spawn(SHARED) for _ in range(whole_site.shared_workers)]
    for worker in workers:
        await worker.ready()
    return workers


@pytest.fixture
async def crews(site: Site, shared_workers: list[WorkerProcess]) -> Site:
    """The site with its shared workers."""
    for worker in shared_workers:
        assert worker.process.poll() is None, worker.said()[-2000:]
    return site


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed tells what its workers said, and where its runs stand."""
    report = yield
    site = getattr(item, "funcargs", {}).get("whole_site")
    if report.failed and isinstance(site, Site):
        report.sections += evidence(site)
    return report
