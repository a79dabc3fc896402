"""A place to measure on the session's servers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.site import Site, make_site
from crewlog.client import Endpoints


@pytest.fixture(scope="module")
async def site(server: Endpoints, postgres_dsn: str) -> AsyncIterator[Site]:
    root = Path(tempfile.mkdtemp(prefix="crewlog-bench-"))
    environ = {
        "CREWLOG_HOME": str(root / "home"),
        "TEMPORAL_ADDRESS": server.address,
        "TEMPORAL_NAMESPACE": server.namespace,
        "DATABASE_URL": postgres_dsn,
    }
    made = await make_site(environ, root)
    yield made
    await made.close()
    shutil.rmtree(root, ignore_errors=True)
