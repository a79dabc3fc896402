"""What an accepted change waits for: the calls under way, told while they last.

A change drains a run before it has the new graph. That takes as long as the longest call does, and
whoever waits for it sees which calls these are, and for how long their steps have been at work.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from crewlog.cli.background import polled
from crewlog.cli.presence import Server, Worker
from crewlog.cli.screen import Part, Screen, lasted, plain, text_of
from crewlog.errors import CrewlogError

if TYPE_CHECKING:
    from rich.status import Status

    from crewlog.client import Client, Run
    from crewlog.ids import StepId
    from crewlog.state.model import FrontierStep, PendingChange
    from crewlog.wire import ChangeResult, StepView

QUIET = 3.0
"""Seconds between two looks at whether anybody polls the run's task queue."""
TICK = 0.5
"""Seconds between two looks at what is waited for; a change that takes less says nothing."""


async def drained(
    screen: Screen, client: Client, run: Run, changed: ChangeResult, queue: str
) -> None:
    """Waits until the run has the graph of an accepted change, and shows what that waits for.

    Args:
        screen: Where to.
        client: Whose server and workers are asked whether they are there.
        run: The run.
        changed: What was accepted.
        queue: The run's task queue.

    Raises:
        CommandRejected: the graph could not be swapped.
    """
    waiting = asyncio.ensure_future(run.swapped(changed))
    showing = _Draining(screen, client, run, queue)
    looking: asyncio.Future[None] | None = None
    try:
        while not (await asyncio.wait({waiting}, timeout=TICK))[0]:
            if screen.as_json:
                continue
            showing.absences()
            if looking is None or looking.done():
                # Beside it: where nobody answers, a look lasts for many seconds.
                looking = asyncio.ensure_future(showing.look())
        waiting.result()
    finally:
        waiting.cancel()
        if looking is not None:
            looking.cancel()
        showing.end()


class _Draining:
    """The line that says what a change waits for: rewritten at a terminal, else told once."""

    def __init__(self, screen: Screen, client: Client, run: Run, queue: str) -> None:
        async def ask() -> bool:
            return await polled(client, queue)

        self._screen = screen
        self._run = run
        self._server = Server(screen, client.gateway.there)
        self._worker = Worker(screen, queue, ask, QUIET)
        self._began: dict[StepId, int] = {}
        """When steps began, in milliseconds since the epoch."""
        self._meant: PendingChange | None = None
        """What was accepted."""
        self._told = ""
        self._status: Status | None = None

    def absences(self) -> None:
        """Says that the server does not answer, and that it does again."""
        said = self._server.look()
        if said is not None:
            self._still()
            self._server.tell(said)
        if self._server.away:
            self._line((self._server.status(), "yellow"))
        elif self._worker.alone:
            self._line("waiting for a worker")

    async def look(self) -> None:
        """Looks at the run and tells what it waits for, and whether anybody is at work on it."""
        if self._server.doubtful:
            return
        if await self._worker.look():
            self._still()
            self._worker.tell()
        if self._worker.alone:
            return
        try:
            view = await self._run.status()
            if any(each.calls and each.step not in self._began for each in view.frontier):
                state = await self._run.state()
                self._meant = state.pending_change
                for entry in state.frontier.values():
                    await self._when(entry)
        except CrewlogError:
            return
        self._show([each for each in view.frontier if each.calls and self._is_waited_for(each)])

    def _is_waited_for(self, step: StepView) -> bool:
        """Whether the change waits for a step: one that parts a graph, for who leaves alone."""
        return self._meant is None or self._meant.drains(step.node)

    async def _when(self, entry: FrontierStep) -> None:
        if entry.step not in self._began:
            found = (await self._run.journal(entry.since - 1, 1)).entries
            self._began[entry.step] = int(found[0].data.get("at", 0)) if found else 0

    def _show(self, steps: list[StepView]) -> None:
        if not steps:
            return
        if not self._screen.tty:
            calls = ", ".join(_named(each) for each in steps)
            if calls != self._told:
                self._told = calls
                self._screen.note(("▸ ", "yellow"), f"waits for {calls}")
            return
        now = int(time.time() * 1000)
        parts: list[Part] = [("waits for ", "dim")]
        for number, each in enumerate(steps):
            since = self._began.get(each.step, 0)
            parts += [", " if number else "", _named(each)]
            parts += [(f" {lasted(since, now)}", "dim")] if since else []
        self._line(*parts)

    def _line(self, *parts: Part) -> None:
        """The line, at a terminal only."""
        if not self._screen.tty:
            return
        text = text_of(*parts)
        text.truncate(max(self._screen.width - 5, 10), overflow="ellipsis")
        if self._status is None:
            self._status = self._screen.out.status(text, spinner_style="cyan")
            self._status.start()
        else:
            self._status.update(text)

    def _still(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def end(self) -> None:
        """Takes the line away, and asks no more."""
        self._still()
        self._server.end()
        self._worker.end()


def _named(step: StepView) -> str:
    """`writer#1 (model)`: a step and its calls under way."""
    return f"{plain(step.step)} ({', '.join(plain(each) for each in step.calls)})"
