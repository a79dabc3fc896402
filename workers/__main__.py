"""`python -m crewlog.workers`: a worker process for the servers that the environment names."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio.client import Client

from crewlog.errors import StoreUnavailable, TemporalUnavailable
from crewlog.payload_storage.settings import environment_converter
from crewlog.store import open_store
from crewlog.store.protocol import Store
from crewlog.temporal_service.connection import connect_options, connect_temporal, load_profile
from crewlog.workers.process import run_process
from crewlog.workers.settings import WorkerSettings


@asynccontextmanager
async def connect(_: WorkerSettings) -> AsyncGenerator[tuple[Client, Store]]:
    """Connects to the servers of `TEMPORAL_*` and `DATABASE_URL`, whatever the worker's settings.

    Raises:
        TemporalUnavailable: No Temporal server is configured, or it does not answer.
        StoreUnavailable: No database is configured, or it does not answer.
        UsageError: The Temporal configuration cannot be read.
    """
    profile = load_profile(os.environ)
    if not profile.address:
        raise TemporalUnavailable(
            "no Temporal server is configured",
            remedy="Set TEMPORAL_ADDRESS, or use `crewlog worker`, which starts a local server.",
        )
    url = os.environ.get("DATABASE_URL")
    if not url:
        raise StoreUnavailable(
            "no database is configured",
            remedy="Set DATABASE_URL, or use `crewlog worker`, which starts a local database.",
        )
    options = connect_options(profile)
    temporal = await connect_temporal(profile.address, environment_converter(), options)
    store = await open_store(url, namespace=options["namespace"])
    try:
        yield temporal, store
    finally:
        await store.close()


if __name__ == "__main__":
    run_process(connect)
