"""What is done to runs: kills, freezes, restarts, outages. Each is a function of a drill."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from .drill import Drill
from .ledger import Halt
from .points import POINTS
from .report import FROZEN
from .victims import Victim

Faults = Callable[[Drill], Awaitable[None]]

SPREAD = 0.9
"""Faults are spread over this much of the work; then what is missing is made up for."""
TAKEOVER_LIMIT = 60.0
"""Seconds for another worker to take over from a frozen one, on a busy machine."""
FREEZE_POINTS = (
    "call_tool.end",
    "effect.before",
    "call_model.end",
    "claim.after",
    "effect.after",
    "append.after",
    "store_batch.end",
    "bodies.after",
    "task.schedules",
    "end_run.end",
)
_ANYWHERE = "anywhere"


def kill_workers(kills: int, points: Sequence[str] = POINTS) -> Faults:
    """SIGKILLs of workers: half of them at labelled points, half at random moments.

    They are paced by the work, not by the clock: so they hit runs and not an idle machine.
    """

    async def faults(drill: Drill) -> None:
        rng, fleet = drill.rng, drill.fleet
        labelled = [points[n % len(points)] for n in range(kills // 2)]
        plan = [*labelled, *[_ANYWHERE] * (kills - len(labelled))]
        rng.shuffle(plan)
        for number, point in enumerate(plan):
            gate = SPREAD * number / kills
            await drill.until(lambda gate=gate: drill.progress() >= gate, "more work")
            if point == _ANYWHERE:
                await asyncio.sleep(rng.uniform(0, 0.3))
                fleet.kill_any(rng)
            else:
                drill.points.order(point, passage=rng.randint(1, 3))
        await drill.until(
            lambda: fleet.kills.total() >= kills or drill.progress() > (1 + SPREAD) / 2,
            "the last kills",
        )
        drill.points.withdraw()
        while fleet.kills.total() < kills:  # an order can die with a worker that was killed first
            before = fleet.kills.total()
            if fleet.kill_any(rng):
                await drill.until(lambda n=before: fleet.kills.total() > n, "a death")
            await asyncio.sleep(rng.uniform(0.2, 1.0))

    return faults


def freeze_workers(freezes: int, points: Sequence[str] = FREEZE_POINTS) -> Faults:
    """Workers that stop past their heartbeat and go on when another has taken over.

    What they return then is too late, and the server must refuse it.
    """

    async def faults(drill: Drill) -> None:
        for number in range(freezes):
            gate = SPREAD * number / freezes
            await drill.until(lambda gate=gate: drill.progress() >= gate, "more work")
            await _freeze(drill, points[number % len(points)])

    return faults


async def _freeze(drill: Drill, point: str) -> None:
    ledger, fleet = drill.stand.ledger, drill.fleet
    known = {(halt.pid, halt.at) for halt in ledger.halts()}

    def frozen() -> list[Halt]:
        return [
            halt
            for halt in ledger.halts()
            if (halt.pid, halt.at) not in known
            and halt.run.startswith(f"{drill.name}-")
            and fleet.is_frozen(halt.pid)
        ]

    drill.points.order(point, "freeze")
    await drill.until(lambda: bool(frozen()), f"a worker at {point}", TAKEOVER_LIMIT)
    [halt] = frozen()
    drill.report.faults[f"freeze {point}"] += 1
    begun = time.monotonic()
    try:
        await drill.until(
            lambda: _taken_over(drill, halt), f"another worker for {halt}", TAKEOVER_LIMIT
        )
    except TimeoutError as error:
        drill.report.violations.append(str(error))
    seconds = round(time.monotonic() - begun, 1)
    if halt.what:
        drill.report.notes[FROZEN] = drill.report.notes.get(FROZEN, 0) + 1
    waits = drill.report.notes.setdefault("seconds until another took over", {})
    waits[point] = max(seconds, waits.get(point, 0))
    fleet.thaw(halt.pid)
    await drill.until(lambda: not fleet.is_frozen(halt.pid), "the worker that goes on")


def _taken_over(drill: Drill, halt: Halt) -> bool:
    """Whether the frozen worker's activity, or its run, has gone on elsewhere."""
    activity, _, attempt = halt.what.partition("/")
    calls = [c for c in drill.stand.ledger.calls(halt.run) if c.event == "begin"]
    if halt.what:
        mine = {c.execution for c in calls if c.activity == activity and c.pid == halt.pid}
        return any(
            c.activity == activity and c.execution in mine and c.attempt > int(attempt)
            for c in calls
        )
    last = max((n for n, c in enumerate(calls) if c.pid == halt.pid), default=-1)
    return any(c.pid != halt.pid for c in calls[last + 1 :])


def restart(victims: Sequence[Victim], times: int, longest: float = 2.0) -> Faults:
    """Kills a service and starts it again, `times` times for each, in a random order."""

    async def faults(drill: Drill) -> None:
        plan = [victim for victim in victims for _ in range(times)]
        drill.rng.shuffle(plan)
        for number, victim in enumerate(plan):
            gate = SPREAD * number / len(plan)
            await drill.until(lambda gate=gate: drill.progress() >= gate, "more work")
            await victim.kill()
            await asyncio.sleep(drill.rng.uniform(0, longest))
            await victim.start()
            drill.report.faults[f"restart {victim.name}"] += 1

    return faults


def restart_postgres(
    victim: Victim, minutes: float, every: tuple[float, float], at_least: int = 1
) -> Faults:
    """Restarts Postgres every few seconds, for some minutes; runs go on being started."""

    async def faults(drill: Drill) -> None:
        until = time.monotonic() + minutes * 60
        counted = drill.report.faults
        while time.monotonic() < until or counted.total() < at_least:
            await asyncio.sleep(drill.rng.uniform(*every))
            await victim.kill()
            await victim.start()
            counted[f"restart {victim.name}"] += 1

    return faults


def take_away(victim: Victim, minutes: float, after: float = 0.3) -> Faults:
    """Takes the store away for some minutes in the middle of the work."""

    async def faults(drill: Drill) -> None:
        await drill.until(lambda: drill.progress() >= after, "some work")
        await victim.kill()
        try:
            begun = drill.stand.ledger.progress(drill.name)
            await asyncio.sleep(minutes * 60)
            done = drill.stand.ledger.progress(drill.name) - begun
        finally:
            await victim.start()
        drill.report.faults[f"{victim.name} away"] += 1
        drill.report.notes["seconds away"] = round(minutes * 60, 1)
        drill.report.notes["effects begun meanwhile"] = done

    return faults
