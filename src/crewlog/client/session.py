"""The connection to one namespace and its store, and the key that signs commands.

A client and its runs share a session. What needs a connection, and no more of a client, takes one.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from temporalio.client import Client as TemporalClient
from temporalio.service import RPCError

from crewlog.authority.signatures import APPROVE, EVERYWHERE, START
from crewlog.client.gateway import Gateway
from crewlog.client.key_folder import may_sign
from crewlog.errors import CrewlogError, UsageError
from crewlog.model import Json
from crewlog.payload_storage.file_store import FileStore
from crewlog.store.protocol import Store
from crewlog.wire import TASK_QUEUE, StartRun

if TYPE_CHECKING:
    from crewlog.client.keys import Key

STORE_PAUSE = 5.0
"""Seconds for which a store that was away is not tried again by those who can do without it."""
POLLED_PAUSE = 5.0
"""Seconds between two looks at whether a task queue is polled."""
LOG = logging.getLogger("crewlog.client")


@dataclass(frozen=True)
class Endpoints:
    """Where the Temporal server answers."""

    address: str
    """`127.0.0.1:7233`."""
    namespace: str
    """The Temporal namespace."""
    ui_url: str | None
    """Its web interface, where we know it."""


class LazyStore:
    """Opens the store at its first use, and remembers for a moment that it was away."""

    def __init__(self, store: Store | None, opener: Callable[[], Awaitable[Store]]) -> None:
        self._store = store
        self._own = store is None
        self._opener = opener
        self._lock = asyncio.Lock()
        self._away: tuple[float, CrewlogError] | None = None

    async def get(self) -> Store:
        """The store.

        Raises:
            StoreUnavailable: it is away.
        """
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._store is None:
                if self._away is not None and now - self._away[0] < STORE_PAUSE:
                    raise self._away[1]
                try:
                    self._store = await self._opener()
                except CrewlogError as error:
                    self._away = (now, error)
                    raise
            return self._store

    async def close(self) -> None:
        """Closes the store, unless it was the caller's."""
        if self._own and self._store is not None:
            await self._store.close()
            self._store = None


class Session:
    """A connection to the runs of one namespace."""

    def __init__(
        self, temporal: TemporalClient, endpoints: Endpoints, store: LazyStore, task_queue: str
    ) -> None:
        self.temporal = temporal
        self.endpoints = endpoints
        self.task_queue = task_queue
        self.gateway = Gateway(temporal, endpoints.address)
        self._store = store
        self.mentions = True
        """Whether a missing worker is logged, once; the command line tells it itself."""
        self._key: Key | None = None
        self._key_chosen = False
        self._look_again: dict[str, float] = {}
        """When to look again whether somebody polls a queue."""

    @property
    def user(self) -> str:
        """The default sender of commands: the user of the operating system."""
        return system_user()

    def use_key(self, key: str | None) -> None:
        """Chooses the key that signs commands, in the place of `CREWLOG_KEY`.

        Args:
            key: A name of `crewlog keys list`, or a file; none: nothing is signed.

        Raises:
            UsageError: there is no such key.
        """
        from crewlog.client import keys  # noqa: PLC0415 - slow, and few have keys

        self._key, self._key_chosen = keys.load(key) if key is not None else None, True

    def signed(self, run: str, name: str, content: dict[str, Json]) -> dict[str, Json]:
        """A command, or a start, as it is sent: signed where there is a key.

        Args:
            run: The run's id.
            name: The command's name, or `start`.
            content: The command as JSON.

        Raises:
            UsageError: the key that is chosen cannot be used, or the content not be signed.
        """
        key = self._chosen_key()
        place = EVERYWHERE if name == APPROVE else self.endpoints.namespace
        return key.signed(run, name, content, place) if key is not None else content

    def _chosen_key(self) -> Key | None:
        if not self._key_chosen:
            if may_sign():
                from crewlog.client import keys  # noqa: PLC0415 - slow, and few have keys

                self._key = keys.chosen(self.user)
            self._key_chosen = True
        return self._key

    def signed_start(self, run: str, start: StartRun, name: str = START) -> dict[str, Json]:
        """A start as it is sent; where it is signed, it says where its activities are done.

        Args:
            run: The run's id; of a schedule, its own.
            start: What the run is started with.
            name: `start`, or `schedule`.

        Raises:
            UsageError: the key that is chosen cannot be used, or the content not be signed.
        """
        if self._chosen_key() is not None and not start.queue:
            # Else whoever has the signed start could have the activities done elsewhere.
            start = start.model_copy(update={"queue": self.task_queue})
        return self.signed(run, name, _start_json(start))

    async def store(self) -> Store:
        """The store, opened at the first call.

        Raises:
            StoreUnavailable: it is away.
        """
        return await self._store.get()

    def files(self) -> FileStore:
        """Where the files of messages are; `get` gives the bytes of one.

        Raises:
            UsageError: this client keeps nothing beside the history.
        """
        found = FileStore.of(self.temporal.data_converter)
        if found is None:
            raise UsageError(
                "this client keeps no files: its data converter has no folder for large payloads",
                remedy="Connect with `Client.connect`, with the CREWLOG_PAYLOADS of the workers.",
            )
        return found

    async def mention_no_worker(self, queue: str) -> None:
        """Logs a warning, once per task queue, where no worker polls it."""
        now = time.monotonic()
        if not self.mentions or now < self._look_again.get(queue, 0.0):
            return
        self._look_again[queue] = now + POLLED_PAUSE
        try:
            polled = await self.gateway.polled(queue)
        except RPCError:
            return
        if not polled:
            self._look_again[queue] = math.inf
            LOG.warning(no_worker(queue))

    def url(self, run_id: str) -> str | None:
        """The run in Temporal's web interface, where we know that there is one."""
        base = self.endpoints.ui_url
        if base is None:
            return None
        namespace = quote(self.endpoints.namespace, safe="")
        return f"{base}/namespaces/{namespace}/workflows/{quote(run_id, safe='')}"


def no_worker(queue: str) -> str:
    """`no worker polls 'crewlog': run …`."""
    worker = "crewlog worker"
    if queue != TASK_QUEUE:
        worker += f" --task-queue {queue}"
    return f"no worker polls {queue!r}: run `crewlog dev` (or `{worker}`) in the crew's directory"


def system_user() -> str:
    """The system's user; empty where there is none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a passwd entry
        return ""


def _start_json(start: StartRun) -> dict[str, Json]:
    return start.to_json() | ({"crew": start.crew} if start.crew else {})
