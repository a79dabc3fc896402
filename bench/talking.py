"""A hub that is talked to for 1,000 turns: the step time of late turns by that of early ones.

Every turn has two steps, the router's and a specialist's. The long session is taken to its last
turns, and these alternate with those of a session that is ten turns old: what the machine does
meanwhile weighs on both. Each turn is timed by the history, from the workflow task
that takes the message to its answer. No execution's history may grow beyond what the crew's limit
of events says.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from statistics import median
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from bench.cases import Bench
from bench.crews import session
from bench.history import IS_STEP, executions_of, ms_between, scheduled
from bench.pairs import Figure, figure
from crewlog.client import Run

TURNS = 1000
BESIDE = 20
"""Turns at the end that alternate with those of the young session."""
WARM = 5
"""Turns of the young session that do not count, which ends with its twenty-fifth."""
ROUNDS = 3
"""Sessions of a whole bench, at most: each is minutes."""
EVENTS = 2_000
"""What the crew allows a history; a turn may end beyond."""
STEPS = 2
"""Steps of a turn."""
LIMIT = timedelta(minutes=30)

_TAKEN = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
_ANSWERED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED


async def run(bench: Bench, turns: int = TURNS) -> list[Figure]:
    """So many sessions, one after the other."""
    rounds = [await _round(bench, turns) for _ in range(min(bench.pairs, ROUNDS))]
    return [
        figure("hub_turn_1000_vs_10", [late / early for late, early, _, _ in rounds]),
        figure("hub_step_ms_1000", [late for late, _, _, _ in rounds]),
        figure("hub_step_ms_10", [early for _, early, _, _ in rounds]),
        figure("hub_longest_history", [events for _, _, events, _ in rounds]),
        figure("hub_carry_bytes_1000", [size for _, _, _, size in rounds]),
    ]


async def _round(bench: Bench, turns: int) -> tuple[float, float, int, int]:
    site = bench.site
    crew = await site.register(session())
    client = site.client((await site.peer("engine")).queue)

    async def opened() -> Run:
        return await client.start(crew, "", execution_timeout=LIMIT)

    long, young = await opened(), await opened()
    for number in range(turns - BESIDE):
        await long.send(f"message {number}")
    for number in range(WARM):
        await young.send(f"message {number}")
    for number in range(BESIDE):
        pair = (long, young) if number % 2 else (young, long)
        for each in pair:
            await each.send(f"message {turns + number}")
    size = len((await long.state()).model_dump_json())
    times: list[float] = []
    longest = 0
    for each in (long, young):
        handle: Any = site.temporal.get_workflow_handle(each.id)
        executions = await executions_of(site, handle)
        longest = max(longest, *map(len, executions))
        found = [ms for events in executions for ms in _step_ms(events)]
        times.append(median(found[-BESIDE:]))
        await each.terminate()
    late, early = times
    assert longest < EVENTS * 1.1, f"an execution has {longest} events"
    bench.told("hub")(1, {f"turn {turns}": late, "turn 10": early})
    return late, early, longest, size


def _step_ms(events: Sequence[HistoryEvent]) -> list[float]:
    """The step time of each turn that an execution answered."""
    calls = scheduled(events, IS_STEP["engine"])
    found: list[float] = []
    for at, event in enumerate(events):
        if event.event_type == _ANSWERED:
            mine = [call for call in calls if call < at][-STEPS:]
            if len(mine) == STEPS:
                taken = max(i for i in range(mine[0]) if events[i].event_type == _TAKEN)
                found.append(ms_between(events[taken], event) / STEPS)
    return found
