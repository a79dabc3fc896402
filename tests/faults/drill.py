"""One scenario under way: runs, workers, an operator who answers, and faults; then the audit."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from crewlog.client import Run
from crewlog.errors import (
    CrewlogError,
    InterruptNotOpen,
    RunAlreadyExists,
    RunFailed,
    ServiceError,
    StoreUnavailable,
    TemporalUnavailable,
)
from crewlog.ids import StepId, idempotency_key
from crewlog.state.model import Interrupt
from crewlog.store.protocol import InterruptRow

from .audit import audit
from .crew import FaultCrew
from .report import Report
from .stand import Stand

LOOK = 0.1
"""Seconds between two looks at how far the runs are."""
TELL = 5.0
"""Seconds between two lines of progress."""
AUDITS = 4
"""Audits at a time: each has a worker replay its run."""

Tell = Callable[[str], None]


class Drill:
    """Runs of a crew under faults.

    Args:
        stand: The services.
        name: The scenario's name; runs and the task queue are named after it.
        seed: Everything random follows from it, but for what time does.
        crew: The crew, and what its runs must come to.
        runs: How many runs there are at least: more are started while the faults go on.
        at_once: How many of them are open at a time.
        workers: How many workers are alive.
        limit: Seconds after which a run that has not ended counts as lost.
        tell: Told how far it is.
    """

    def __init__(
        self,
        stand: Stand,
        name: str,
        seed: int,
        crew: FaultCrew,
        *,
        runs: int,
        at_once: int = 25,
        workers: int = 3,
        limit: float = 3600.0,
        tell: Tell = lambda _: None,
    ) -> None:
        self.stand = stand
        self.name = f"{name}-{seed}"
        self.rng = random.Random(f"{name}/{seed}")  # noqa: S311 - repeatable, not secret
        self.crew = crew
        self.runs = runs
        self.report = Report(name, seed)
        self.fleet = stand.fleet(self.name, workers)
        self.points = self.fleet.points
        self.begun = 0.0
        self.started = 0
        """How many runs there are so far; it grows beyond `runs` while the faults go on."""
        self._client = stand.client(self.name)
        self._at_once = at_once
        self._limit = limit
        self._tell = tell
        self._ended: dict[str, tuple[Run, str]] = {}
        self._open: set[asyncio.Task[None]] = set()
        self._answering: set[tuple[str, str]] = set()
        self._answers: set[asyncio.Task[None]] = set()
        self._items = sum(len(items) for items in crew.expected.items.values())

    # -- how far it is -----------------------------------------------------------------------

    def progress(self) -> float:
        """How much of the work that `runs` runs have was begun, from 0 to 1 and beyond."""
        return self.stand.ledger.progress(self.name) / (self.runs * self._items)

    async def until(self, condition: Callable[[], bool], what: str, limit: float = 0.0) -> None:
        """Waits for a condition; what it waits for is said where it does not come."""
        deadline = time.monotonic() + (limit or self._limit)
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} did not come")
            await asyncio.sleep(LOOK)

    # -- the drill ---------------------------------------------------------------------------

    async def perform(self, faults: Callable[[Drill], Awaitable[None]]) -> Report:
        """Starts runs, does faults to them, waits for all to end, and audits each of them."""
        self.begun = time.monotonic()
        await self.fleet.open()
        helpers = [asyncio.create_task(self._operate()), asyncio.create_task(self._say())]
        doing = asyncio.ensure_future(faults(self))
        try:
            await self._feed(doing)
            failed = doing.exception() if doing.done() else None
            if failed is not None and not isinstance(failed, TimeoutError):
                raise failed  # runs that wait for what was not started again would hide it
            self.points.withdraw()
            for worker in self.fleet.workers:
                if self.fleet.is_frozen(worker.pid):
                    self.fleet.thaw(worker.pid)
            await asyncio.gather(*self._open)
            try:
                await doing
            except TimeoutError as error:
                self.report.violations.append(f"the faults stopped: {error}")
            self._tell(f"{self.name}: auditing {len(self._ended)} runs")
            await self._audit()
        finally:
            for task in (doing, *helpers, *self._open, *self._answers):
                task.cancel()
            await self.fleet.close()
        self.report.violations += self.fleet.deserters
        for point, count in self.fleet.kills.items():
            self.report.faults[f"kill {point}"] += count
        self.report.seconds = time.monotonic() - self.begun
        return self.report

    async def _feed(self, doing: asyncio.Future[None]) -> None:
        """Keeps `at_once` runs open until there were enough and the faults are over."""
        while self.started < self.runs or not doing.done():
            while len(self._open) < self._at_once and (
                self.started < self.runs or not doing.done()
            ):
                self.started += 1
                task = asyncio.create_task(self._one(f"{self.name}-{self.started}"))
                self._open.add(task)
            done, self._open = await asyncio.wait(
                self._open, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
            if doing.done() and doing.exception() is not None:
                self.runs = min(self.runs, self.started)

    async def _one(self, id_: str) -> None:
        run = await self._start(id_)
        try:
            result = await run.result(self._limit)
            ended = result.status
        except RunFailed as error:
            ended = f"failed: {error}"
        except TimeoutError:
            ended = f"did not end within {self._limit:g} s"
            with suppress(CrewlogError):
                ended += f"; at last {await run.status()}"
            with suppress(CrewlogError):
                await run.terminate("the drill is over")
        self._ended[id_] = (run, ended)

    async def _start(self, id_: str) -> Run:
        while True:
            try:
                return await self._client.start(
                    self.crew.definition,
                    "go",
                    id=id_,
                    by="drill",
                    execution_timeout=timedelta(seconds=self._limit * 2),
                )
            except TemporalUnavailable:
                await asyncio.sleep(LOOK)
            except RunAlreadyExists:  # the answer to an earlier try was lost with the server
                return self._client.run(id_)

    async def _audit(self) -> None:
        room = asyncio.Semaphore(AUDITS)

        async def look(run: Run, ended: str) -> None:
            async with room:
                try:
                    evidence = await self.stand.evidence(run, ended)
                except Exception as error:
                    self.report.findings.lost += 1
                    self.report.violations.append(f"{run.id} cannot be looked at: {error!r}")
                    return
                self.report.findings.add(audit(evidence, self.crew.expected))

        await asyncio.gather(*(look(run, ended) for run, ended in self._ended.values()))

    async def _say(self) -> None:
        while True:
            await asyncio.sleep(TELL)
            self._tell(self.so_far())

    def so_far(self) -> str:
        """How far it is, for people: of all the runs there are, also those beyond `runs`."""
        seconds = time.monotonic() - self.begun
        runs = max(self.runs, self.started)
        extra = f" ({runs - self.runs} extra, as the faults go on)" if runs > self.runs else ""
        begun = self.progress() * self.runs / runs if runs else 0.0
        faults = self.report.faults.total() + self.fleet.kills.total()
        return (
            f"{self.name}: {seconds:.0f} s, {len(self._ended)} of {runs} runs ended{extra}, "
            f"{begun:.0%} of the work begun, {faults} faults"
        )

    # -- the operator ------------------------------------------------------------------------

    async def _operate(self) -> None:
        """Answers what runs ask, as an operator does who looks at the world first."""
        while True:
            await asyncio.sleep(LOOK * 3)
            try:
                rows = await self.stand.site.store.list_interrupts()
            except StoreUnavailable:
                continue
            for row in rows:
                key = (str(row.run), str(row.id))
                if row.run.startswith(f"{self.name}-") and key not in self._answering:
                    decision = self._decide(row)
                    if decision:
                        self._answering.add(key)
                        task = asyncio.create_task(self._answer(row, decision))
                        self._answers.add(task)
                        task.add_done_callback(self._answers.discard)

    def _decide(self, row: InterruptRow) -> str:
        """The answer; empty where it cannot be known yet, because somebody is still at it."""
        asked = Interrupt.from_json(row.interrupt)
        if asked.kind != "outcome_unknown":
            return "retry" if "retry" in asked.options else "approve"
        key = idempotency_key(row.run, StepId(str(asked.step)), asked.call or 0)
        ledger = self.stand.ledger
        if ledger.was_sent(key):
            return "done"
        busy = (
            pid
            for pid in ledger.holders(key)
            if self.fleet.alive(pid) and ledger.is_at_work(row.run, pid)
        )
        return "" if any(busy) else "retry"

    async def _answer(self, row: InterruptRow, decision: str) -> None:
        run = self._client.run(row.run)
        command = f"answer-{row.id}"
        while True:
            try:
                await run.answer(row.id, decision, by="operator", id=command)
            except InterruptNotOpen:
                return
            except ServiceError:
                await asyncio.sleep(LOOK)
            except CrewlogError as error:
                self.report.violations.append(f"{row.run}: the answer was refused: {error}")
                return
            else:
                return
