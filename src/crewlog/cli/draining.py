"""What an accepted change waits for: the calls under way, told while they last.

A change drains a run before it has the new graph. That takes as long as the longest call does, and
whoever waits for it sees which calls these are, and for how long their steps have been at work.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from crewlog.cli.screen import Part, Screen, lasted, plain, text_of
from crewlog.errors import CrewlogError

if TYPE_CHECKING:
    from rich.status import Status

    from crewlog.client import Run
    from crewlog.ids import StepId
    from crewlog.state.model import FrontierEntry
    from crewlog.wire import Changed, StepView

TICK = 0.5
"""Seconds between two looks at what is waited for; a change that takes less says nothing."""


async def drained(screen: Screen, run: Run, changed: Changed) -> None:
    """Waits until the run has the graph of an accepted change, and shows what that waits for.

    Raises:
        CommandRejected: the graph could not be swapped.
    """
    waiting = asyncio.ensure_future(run.swapped(changed))
    showing = _Draining(screen, run)
    try:
        while not (await asyncio.wait({waiting}, timeout=TICK))[0]:
            if not screen.as_json:
                await showing.look()
        waiting.result()
    finally:
        waiting.cancel()
        showing.end()


class _Draining:
    """The line that says what a change waits for: rewritten at a terminal, else told once."""

    def __init__(self, screen: Screen, run: Run) -> None:
        self._screen = screen
        self._run = run
        self._began: dict[StepId, int] = {}
        """When steps began, in milliseconds since the epoch."""
        self._told = ""
        self._status: Status | None = None

    async def look(self) -> None:
        """Looks at the run and tells what it waits for; nobody who answers is no news."""
        try:
            view = await self._run.status()
            if any(each.doing and each.step not in self._began for each in view.frontier):
                for entry in (await self._run.state()).frontier.values():
                    await self._when(entry)
        except CrewlogError:
            return
        self._show([each for each in view.frontier if each.doing])

    async def _when(self, entry: FrontierEntry) -> None:
        if entry.step not in self._began:
            found = (await self._run.journal(entry.since - 1, 1)).entries
            self._began[entry.step] = int(found[0].entry.get("at", 0)) if found else 0

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
        text = text_of(*parts)
        text.truncate(max(self._screen.width - 5, 10), overflow="ellipsis")
        if self._status is None:
            self._status = self._screen.out.status(text, spinner_style="cyan")
            self._status.start()
        else:
            self._status.update(text)

    def end(self) -> None:
        """Takes the line away."""
        if self._status is not None:
            self._status.stop()


def _named(step: StepView) -> str:
    """`writer#1 (model)`: a step and its calls under way."""
    return f"{plain(step.step)} ({', '.join(plain(each) for each in step.doing)})"
