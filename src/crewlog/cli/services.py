"""Connecting, and telling how the local services come up."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from crewlog.cli.screen import Part, Screen, plain, short_path
from crewlog.client import Client, connect
from crewlog.dev.paths import Home
from crewlog.dev.services import Services, temporal_profile
from crewlog.wire import TASK_QUEUE

if TYPE_CHECKING:
    from rich.status import Status

TITLES = {"temporal": "Temporal server", "postgres": "Postgres"}


def is_local() -> bool:
    """Whether the Temporal server is the local one, and not one that the environment names."""
    return not temporal_profile(os.environ).address


class ServiceProgress:
    """A `crewlog.dev.progress.Progress` for a terminal: a moving line while servers start."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._now: dict[str, str] = {}
        self._status: Status | None = None
        self.found: dict[str, str] = {}
        """How each service came to be, in the order they were ready: `1.32.0, running`."""

    @property
    def eventful(self) -> bool:
        """Whether something was started: what merely runs is not worth a line."""
        return any(not text.endswith(", running") for text in self.found.values())

    def begin(self, name: str) -> None:
        """Work on a service begins."""
        self._now[name] = "looking"

    def update(self, name: str, text: str) -> None:
        """What is being done now."""
        self._now[name] = text
        self._show()

    def done(self, name: str, text: str) -> None:
        """The service answers."""
        self._now.pop(name, None)
        self.found.setdefault(name, text)  # the first look tells how it came to be
        if self._now:
            self._show()
        else:
            self.close()

    def close(self) -> None:
        """Take the moving line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _show(self) -> None:
        if not self._screen.tty:
            return
        text = " · ".join(f"{TITLES.get(n, n)}: {plain(t)}" for n, t in self._now.items())
        if self._status is None:
            self._status = self._screen.out.status(text, spinner="dots", spinner_style="cyan")
            self._status.start()
        self._status.update(text)

    def lines(self, ui_url: str | None) -> list[list[Part]]:
        """The services that are ready, a line each."""
        home = Home.default()
        where = {"temporal": ui_url or "", "postgres": short_path(home.postgres)}
        out: list[list[Part]] = []
        for name in sorted(self.found, key=list(TITLES).index):
            version, _, how = self.found[name].partition(", ")
            title = f"{TITLES[name]} {version}" + (" (embedded)" if name == "postgres" else "")
            how = {"embedded": "ready"}.get(how, how) or "ready"
            out.append(
                [
                    ("▸ ", "green"),
                    title,
                    (" …… ", "dim"),
                    how.ljust(10),
                    (f"  {where[name]}", "dim"),
                ]
            )
        width = max((sum(len(_text(p)) for p in line[:-1]) for line in out), default=0)
        for line in out:
            pad = width - sum(len(_text(p)) for p in line[:-1])
            line.insert(-1, " " * pad)
        return out


def _text(part: Part) -> str:
    return part if isinstance(part, str) else part[0]


async def all_services(screen: Screen, progress: ServiceProgress) -> None:
    """Make sure that both services run: a worker needs the store as well."""
    try:
        await Services().ensure(progress)
    finally:
        progress.close()


@asynccontextmanager
async def connected(
    screen: Screen,
    *,
    queue: str = TASK_QUEUE,
    both: bool = False,
    tell: bool = False,
    hint: bool = True,
    allow_unreadable: bool = False,
) -> AsyncGenerator[Client]:
    """A client of the server that the environment names, or of the local one.

    Args:
        screen: Where the services' start is told.
        queue: The task queue of runs that are started.
        both: Whether Postgres must be there, too.
        tell: Whether services that ran already are told as well.
        hint: Whether it is told how to end what was started, which stays when the command ends.
        allow_unreadable: Whether to open the store even if its rows cannot be decrypted.
    """
    progress = ServiceProgress(screen)
    try:
        if both:
            await all_services(screen, progress)
        client = await connect(
            task_queue=queue, progress=progress, allow_unreadable=allow_unreadable
        )
    finally:
        progress.close()
    client.mentions = False
    client.report = lambda text: screen.note(("▸ ", "yellow"), text)
    if progress.eventful or tell:
        for line in progress.lines(client.endpoints.ui_url):
            screen.line(*line)
    if progress.eventful and hint:
        screen.note(("▸ ", "green"), "started the local servers; `crewlog dev --stop` ends them")
    try:
        yield client
    finally:
        progress.close()
        await client.close()
