"""Continue-as-new at any place where nothing is in flight: as if it had not been."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest

from graph.simulation import Simulation, as_json, crew_run, dice, run_crew

SEEDS = range(48)
RESTORED: Counter[str] = Counter()


def same(one: Simulation, other: Simulation) -> None:
    assert json.dumps(one.journal) == json.dumps(other.journal)
    assert as_json(one.state) == as_json(other.state)
    assert one.made == other.made
    assert one.landed == other.landed


def sometimes(seed: int) -> Callable[[int], bool]:
    rng = dice(seed)
    return lambda _drain: rng.random() < 0.5


@pytest.mark.parametrize("often", ["always", "sometimes"])
async def test_a_run_that_is_carried_over_ends_as_one_that_is_not(often: str) -> None:
    for seed in SEEDS if often == "always" else list(SEEDS)[:8]:
        restore_at = sometimes(seed) if often == "sometimes" else lambda _drain: True
        carried = await run_crew(seed, restore_at=restore_at)
        same(carried, await crew_run(seed))
        for state in carried.restored:
            _count(state.frontier.values())
            RESTORED["frontier of one"] += len(state.frontier) == 1
            RESTORED["arrivals"] += bool(state.routing.arrivals)
            RESTORED["generations"] += bool(state.routing.generations)
            RESTORED["interrupts"] += bool(state.interrupts)
            RESTORED["break"] += bool(state.breakpoints)
            RESTORED[state.status] += 1


def _count(frontier: object) -> None:
    for entry in frontier:  # type: ignore[attr-defined]
        RESTORED[entry.status] += 1
        RESTORED["mid-map"] += bool(entry.child_steps and entry.child_steps.started)
        for call in entry.turn.calls if entry.turn else ():
            RESTORED[f"{call.status} {'tool' if call.tool else 'model'}"] += 1
        RESTORED["mid-batch"] += bool(entry.turn and 0 < entry.turn.returned < entry.turn.expected)
        RESTORED["handed off"] += bool(entry.turn and entry.turn.goto)


async def test_all_kinds_of_positions_were_carried() -> None:
    """Runs after the test above, which would else be able to miss what it is about."""
    wanted = {"ready", "running", "waiting", "interrupted", "arrivals", "generations"}
    wanted |= {
        "ready tool",
        "ready model",
        "buffered tool",
        "interrupted tool",
        "interrupted model",
        "mid-batch",
    }
    wanted |= {"interrupts", "break", "paused", "mid-map"}
    if not RESTORED:
        pytest.skip("the test above did not run")
    assert not {kind for kind in wanted if not RESTORED[kind]}
