"""Throwaway services for tests: a home of their own, free ports, nothing left behind.

At the end of the block everything is stopped. If the process is killed before, its watchdog (see
`crewlog.dev.watchdog`) does it. Data need not survive the machine, so PostgreSQL does not sync.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from crewlog.dev.paths import Home
from crewlog.dev.processes import Watchdog
from crewlog.dev.progress import SILENT, Progress
from crewlog.dev.services import Endpoints, Services

NOT_INHERITED = ("TEMPORAL_", "DATABASE_URL", "CREWLOG_HOME")
"""What would lead to servers that are not ours."""


@dataclass(frozen=True)
class Ephemeral:
    """Running throwaway services."""

    endpoints: Endpoints
    """Where they answer."""
    services: Services
    """Lists them, stops them, starts them again."""
    home: Home
    """Where their files are."""

    @property
    def environ(self) -> dict[str, str]:
        """Variables with which a child process uses these services."""
        return {
            "CREWLOG_HOME": str(self.home.root),
            "TEMPORAL_ADDRESS": self.endpoints.temporal_address,
            "TEMPORAL_NAMESPACE": self.endpoints.namespace,
            "DATABASE_URL": self.endpoints.database_url,
        }


def own_environ() -> dict[str, str]:
    """This process's environment without what names other servers or homes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    # A profile of the user's would have an address, too.
    return {**kept, "TEMPORAL_CONFIG_FILE": os.devnull}


@asynccontextmanager
async def ephemeral(root: Path, *, progress: Progress = SILENT) -> AsyncGenerator[Ephemeral]:
    """Services in the directory `root` for the length of the block.

    Args:
        root: The home to be; the caller removes it.
        progress: Told about the start.

    Raises:
        ServiceError: They cannot be started.
    """
    home = Home.at(root)
    watchdog = await asyncio.to_thread(Watchdog)
    services = Services(home, environ=own_environ(), watchdog=watchdog)
    try:
        yield Ephemeral(await services.ensure(progress), services, home)
    finally:
        try:
            await asyncio.shield(services.stop_all())
        finally:
            await asyncio.to_thread(watchdog.close)
