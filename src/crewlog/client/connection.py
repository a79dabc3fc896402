"""Finds the servers and connects to them.

The Temporal server is the one named by the caller, by the standard environment (`TEMPORAL_*`
variables and the profile file, as `temporalio.envconfig` reads them), or else the local one, which
is started if need be. The store is looked for only when something needs it.
"""

from __future__ import annotations

import os
from typing import Any

from temporalio.envconfig import ClientConfigProfile

from crewlog import wire
from crewlog.client.client import Client
from crewlog.client.session import Endpoints, LazyStore
from crewlog.dev.progress import SILENT, Progress
from crewlog.dev.services import Services, temporal_profile
from crewlog.errors import StoreUnavailable, TemporalUnavailable
from crewlog.payload_storage.settings import environment_converter
from crewlog.store import open_store
from crewlog.store.protocol import Store
from crewlog.temporal_service.connection import NAMESPACE, connect_options, connect_temporal

CLOUD_UI = "https://cloud.temporal.io"


async def connect(
    *,
    address: str | None = None,
    namespace: str | None = None,
    database_url: str | None = None,
    store: Store | None = None,
    task_queue: str = wire.TASK_QUEUE,
    services: bool = True,
    allow_unreadable: bool = False,
    progress: Progress | None = None,
) -> Client:
    """Connects to Temporal: to the server that is named, or to the local one.

    Args:
        address: `host:port`; by default the standard environment's (`TEMPORAL_ADDRESS`, or the
            profile file), else the local server's.
        namespace: By default the environment's, else `default`.
        database_url: Postgres; by default `DATABASE_URL`, else the local one. It is opened when
            it is needed: much works without it.
        store: An open store instead, e.g. `InMemoryStore`; it stays the caller's.
        task_queue: Where started runs find their workers.
        services: Whether to start the local services where they are needed and absent, and to
            start the local Temporal server again where it ends or no longer serves.
        allow_unreadable: Whether to open the store even if its rows cannot be decrypted.
        progress: Told about their start.

    Raises:
        TemporalUnavailable: no server answers; `place` is its address.
        UsageError: the environment's configuration cannot be read, or names a namespace without
            a server.
    """
    told = progress or SILENT
    profile = temporal_profile(os.environ, address=address)
    is_local = address is None and not profile.address
    if is_local:
        endpoints = await _local(services, told)
        options: dict[str, Any] = {}
    else:
        endpoints = _remote(address, profile)
        options = connect_options(profile)
    options["namespace"] = namespace or endpoints.namespace
    endpoints = Endpoints(endpoints.address, options["namespace"], endpoints.ui_url)
    temporal = await connect_temporal(endpoints.address, environment_converter(), options)

    async def opener() -> Store:
        url = await _database(database_url, endpoints, services, told)
        return await open_store(
            url, namespace=endpoints.namespace, allow_unreadable=allow_unreadable
        )

    client = Client(temporal, endpoints, LazyStore(store, opener), task_queue)
    if is_local and services:
        client.supervise(Services())
    return client


async def _local(start: bool, progress: Progress) -> Endpoints:
    if start:
        found = await Services().ensure(progress)
        return Endpoints(found.temporal_address, found.namespace, found.ui_url)
    for record in Services().records():
        if record.name == "temporal" and record.process.alive:
            return Endpoints(record.address, NAMESPACE, record.ui_url)
    raise TemporalUnavailable(
        "no Temporal server is configured, and the local one does not run",
        remedy="Start it with `crewlog dev`, or set TEMPORAL_ADDRESS.",
    )


def _remote(address: str | None, profile: ClientConfigProfile) -> Endpoints:
    chosen = address or str(profile.address)
    return Endpoints(chosen, profile.namespace or NAMESPACE, _ui_of(chosen))


def _ui_of(address: str) -> str | None:
    """The web interface: named by the environment, Temporal Cloud's, or our own local server's."""
    chosen = os.environ.get("CREWLOG_UI_URL")
    if chosen:
        return chosen.rstrip("/")
    host = address.rpartition(":")[0]
    if host.endswith((".tmprl.cloud", ".api.temporal.io")):
        return CLOUD_UI
    for record in Services().records():
        if record.name == "temporal" and record.address == address:
            return record.ui_url
    return None


async def _database(url: str | None, ends: Endpoints, start: bool, progress: Progress) -> str:
    chosen = url or os.environ.get("DATABASE_URL")
    if chosen:
        return chosen
    if start:
        # The Temporal server is there: with its address given, only Postgres is looked after.
        services = Services(environ={**os.environ, "TEMPORAL_ADDRESS": ends.address})
        return (await services.ensure(progress)).database_url
    for record in Services().records():
        if record.name == "postgres" and record.process.alive:
            return record.address
    raise StoreUnavailable(
        "no database is configured, and the local one does not run",
        remedy="Start it with `crewlog dev`, or set DATABASE_URL.",
    )
