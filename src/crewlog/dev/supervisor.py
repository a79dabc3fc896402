"""Starts the local Temporal server again, on the same data, when it ends or no longer serves.

Every process that is connected to the local server supervises it, and no process does nothing else:
wherever something waits for the server, somebody restarts it. Of several processes that notice, the
one that holds the home's start lock restarts it, on the ports that all of them know. A server that
`crewlog dev --stop` ended has no record any more, and stays down. A server that `TEMPORAL_ADDRESS`
names is never supervised.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress

from temporalio.client import Client

from crewlog.dev import temporal_server
from crewlog.dev.processes import ProcessRecord
from crewlog.dev.registry import ServiceRecord
from crewlog.dev.services import Services
from crewlog.errors import CrewlogError

PAUSE = 1.0
"""Seconds between two looks at the server."""
ANSWER_LIMIT = 4.0
"""Seconds for its answer."""
FAILURES = 2
"""Looks in a row without an answer, at least, after which it is taken for wedged: one may have
failed because this process itself stood still."""
SILENCE = 8.0
"""Seconds without an answer, at least, likewise."""
RETRY_PAUSE = 5.0
"""Seconds between two attempts to start a server that does not start."""
STABLE = 10.0
"""Seconds for which a restarted server runs; one that ends earlier is restarted after a pause."""
LONGEST_PAUSE = 30.0
"""Seconds of that pause, at most. It doubles each time that the server ends early again."""

Report = Callable[[str], None]
"""Told in a line what happened to the server."""


class Supervisor:
    """Supervises the local server for as long as it is open; made in a running event loop.

    Args:
        services: The services of the home that the server belongs to.
        client: A client of the server.
        report: Told about each restart, and where one fails.
    """

    def __init__(self, services: Services, client: Client, report: Report) -> None:
        self._services = services
        self._client = client
        self._report = report
        self._known = self._record()
        self._since: float | None = None
        """When the first of the looks that failed in a row began."""
        self._failures = 0
        self._complaint = ""
        self._restarted_at = float("-inf")
        self._early_ends = 0
        self._delayed: ProcessRecord | None = None
        """The server whose restart was delayed last, if need be."""
        self._task = asyncio.create_task(self._supervise())

    async def close(self) -> None:
        """Supervise no more; the server stays."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    def _record(self) -> ServiceRecord | None:
        try:
            return self._services.temporal()
        except CrewlogError:  # the home is gone, or cannot be read now
            return None

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(PAUSE)
            record, known = self._record(), self._known
            if record is None or known is None:
                self._take(record)
            elif record.process != known.process:
                self._restarted("was restarted", record)
            elif not record.process.alive:
                await self._delay_restart(record)
                await self._restart("ended", record)
            elif await self._is_silent():
                since = time.monotonic() - (self._since or 0.0)
                await self._restart(f"did not answer for {since:.0f} s", record)

    async def _delay_restart(self, ended: ServiceRecord) -> None:
        """Waits where a server ended soon after a restart, once for each server."""
        if ended.process == self._delayed:
            return
        self._delayed = ended.process
        if time.monotonic() - self._restarted_at >= STABLE:
            self._early_ends = 0
            return
        self._early_ends += 1
        pause = min(math.ldexp(PAUSE, self._early_ends), LONGEST_PAUSE)
        if self._early_ends > 1:  # the first pause is short
            self._tell(f"the local Temporal server ended again; restarting it in {pause:.0f} s")
        await asyncio.sleep(pause)

    async def _is_silent(self) -> bool:
        """Whether the server has not served for so long that it is taken for wedged."""
        began = time.monotonic()
        if not await temporal_server.fault(self._client, ANSWER_LIMIT):
            self._since, self._failures = None, 0
            return False
        self._since = began if self._since is None else self._since
        self._failures += 1
        return self._failures >= FAILURES and time.monotonic() - self._since >= SILENCE

    async def _restart(self, why: str, known: ServiceRecord) -> None:
        try:
            record = await self._services.restart_temporal(known)
        except Exception as error:  # noqa: BLE001 - supervision continues
            # Not the text of a CrewlogError: its remedy may quote a log that changes.
            complaint = error.message if isinstance(error, CrewlogError) else repr(error)
            if complaint != self._complaint:
                self._complaint = complaint
                cause = str(error) or repr(error)
                self._tell(f"the local Temporal server {why}, and does not start again: {cause}")
            await asyncio.sleep(RETRY_PAUSE)
            return
        if record is None or record.process == known.process:
            self._take(record)
        else:
            self._restarted(f"{why}; restarted it", record)

    def _restarted(self, how: str, record: ServiceRecord) -> None:
        moved = self._known is not None and record.address != self._known.address
        self._take(record)
        self._restarted_at = time.monotonic()
        where = f", at {record.address}: start this command again" if moved else ""
        self._tell(f"the local Temporal server {how} on the same data{where}")

    def _tell(self, line: str) -> None:
        # A report that fails, for instance on a closed pipe, must not end the supervision.
        with suppress(Exception):
            self._report(line)

    def _take(self, record: ServiceRecord | None) -> None:
        self._known, self._since, self._failures, self._complaint = record, None, 0, ""
