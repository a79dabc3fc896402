"""The units whose costs are counted, and how so many of them are brought about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.crews import Crew, fan, lookups, ring, session
from bench.swapping import crew_of, longer
from crewlog.client import Run

if TYPE_CHECKING:
    from tests.costs.measure import Counted, Meter

GATED = "costs:gated"
"""A model whose replies all come at once; see `tests.costs.gate`."""


@dataclass(frozen=True)
class Unit:
    """Something whose cost is counted."""

    name: str
    what: str
    few: int
    """How many of them the smaller of two runs has; 0: they are counted without a difference."""
    many: int
    """How many the larger one has."""
    run: Callable[[Meter, int], Awaitable[Counted]]
    """Brings so many of them about, and counts."""


async def steps(meter: Meter, count: int, model: str = "bench:new") -> Counted:
    """Counts a run of so many plain steps, ten agents in a ring."""
    return await meter.to_its_end(
        _named(f"ring-{model.partition(':')[2]}", ring(count, model), count)
    )


async def _whole(meter: Meter, count: int) -> Counted:
    return await meter.to_its_end(_named("whole", ring(10 * count), 10 * count))


async def _calls(meter: Meter, count: int) -> Counted:
    return await meter.to_its_end(_named("lookups", lookups(count, local=False), count))


async def _local_calls(meter: Meter, count: int) -> Counted:
    return await meter.to_its_end(_named("local", lookups(count, local=True), count))


async def _fan(meter: Meter, count: int) -> Counted:
    crew = fan(count)
    for name, agent in crew["agents"].items():
        if name != "last":
            agent["model"] = GATED
    return await meter.to_its_end(_named("fan", crew, count), gated=count)


async def _swaps(meter: Meter, count: int) -> Counted:
    short = crew_of(2)
    both = (longer(short), short)

    async def ready(run: Run) -> None:
        await run.wait_until(lambda view: bool(view.interrupts))

    async def swap(run: Run, number: int) -> None:
        changed = await run.change(definition=both[number % 2], by="costs")
        assert changed.swap

    return await meter.at_rest(short, ready, swap, before=2, count=count)


async def _exchanges(meter: Meter, count: int) -> Counted:
    async def ready(run: Run) -> None:
        await run.conversation()

    async def send(run: Run, number: int) -> None:
        assert (await run.send(f"message {number:03}")).text

    # The window of 20 messages is full by then.
    return await meter.at_rest(session(), ready, send, before=10, count=count)


def _named(name: str, crew: Crew, count: int) -> Crew:
    return {**crew, "crew": f"{name}-{count:03}"}


UNITS = (
    Unit("run", "a run of ten plain steps, from its start to its end", 0, 1, _whole),
    Unit("step", "a plain step: one model call", 20, 40, steps),
    Unit("late_step", "the same behind 120 others: the transcript is longer", 120, 140, steps),
    Unit("tool_call", "a tool call that is an activity, with its model call", 5, 15, _calls),
    Unit("local_tool_call", "the same tool placed `local`", 5, 15, _local_calls),
    # Both so wide that the journal is stored before the fan-out begins.
    Unit("fan_out_step", "a step of a fan-out", 32, 48, _fan),
    Unit("fan_out", "the same of a run of 32, with what the run has once", 0, 32, _fan),
    Unit("swap", "a graph change of a run that waits for people, with its swap", 0, 4, _swaps),
    Unit("exchange", "an exchange of a conversation: two model calls", 0, 4, _exchanges),
)
