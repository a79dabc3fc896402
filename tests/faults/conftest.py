"""One stand for all tests of faults: its services take ten seconds to start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from .stand import Stand, make_stand


@pytest.fixture(scope="session")
async def stand() -> AsyncIterator[Stand]:
    with TemporaryDirectory(prefix="crewlog-faults-", ignore_cleanup_errors=True) as root:
        async with make_stand(Path(root)) as made:
            yield made
