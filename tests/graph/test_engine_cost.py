"""The same journal in every process, and a cost that does not grow with the run."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from crewlog.state.journal import Batch
from graph.crews import plan_of
from graph.simulation import Simulation, crew_run

SEEDS = range(6)
TESTS = Path(__file__).parents[1]
PROGRAM = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from graph.test_engine_cost import digests
print(asyncio.run(digests()))
"""


async def digests() -> str:
    """A line for each crew: what its journal and its last state hash to."""
    lines: list[str] = []
    for seed in SEEDS:
        sim = await crew_run(seed)
        whole = json.dumps([sim.journal, sim.state.to_json(), sim.engine.plan.to_json()])
        lines.append(f"{seed} {len(sim.journal)} {hashlib.sha256(whole.encode()).hexdigest()}")
    return "\n".join(lines)


def process_of(hash_seed: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(TESTS)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_journals_are_the_same_whatever_the_hash_seed() -> None:
    running = [process_of(seed) for seed in ("1", "4242")]
    found = [process.communicate(timeout=100)[0].strip() for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert found == [await digests()] * 2


LOOP = ["a", {"if": "not ok", "go": "a", "at_most": 1_200}]


async def test_what_is_carried_and_sent_and_how_long_it_takes_does_not_grow() -> None:
    old, young = Steps(await begun()), Steps(await begun())
    for _ in range(900):
        await old.step()
    for _ in range(100):  # in turn: what slows one down slows down the other
        await old.step()
        await young.step()
    # What differs is how many digits the counters have.
    assert old.carried[999] - old.carried[9] <= 60
    assert old.sent[999] - old.sent[9] <= 60
    assert old.sim.state.messages["public"].length == 1_001  # type: ignore[index]
    assert statistics.median(old.took[-100:]) < 1.5 * statistics.median(young.took)


async def begun() -> Simulation:
    sim = await Simulation.begin(plan_of(LOOP))
    await sim.settle()
    return sim


@dataclass
class Steps:
    """A run in a loop, and what each of its steps has cost."""

    sim: Simulation
    carried: list[int] = field(default_factory=list[int])
    """Bytes of the state."""
    sent: list[int] = field(default_factory=list[int])
    """Bytes of the batch."""
    took: list[int] = field(default_factory=list[int])
    """Nanoseconds of the processor."""

    async def step(self) -> None:
        sim = self.sim
        sim.launch()
        began = time.thread_time_ns()
        await sim.land((f"a#{len(self.took) + 1}", 1))
        await sim.settle()
        self.took.append(time.thread_time_ns() - began)
        self.carried.append(_size(sim.state.to_json()))
        self.sent.append(_size(sim.engine.journal.batch().to_json()))
        sim.engine.journal.mark_stored(sim.state.position)
        assert sim.engine.journal.batch() == Batch.EMPTY


def _size(data: object) -> int:
    return len(json.dumps(data))
