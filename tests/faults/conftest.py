"""One stand for all tests of faults: its services take ten seconds to start."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .stand import Stand, make_stand


@pytest.fixture(scope="session")
async def stand() -> AsyncIterator[Stand]:
    root = Path(tempfile.mkdtemp(prefix="crewlog-faults-"))
    try:
        async with make_stand(root) as made:
            yield made
    finally:
        shutil.rmtree(root, ignore_errors=True)
