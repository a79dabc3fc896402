"""Random operations on random worlds, held against a naive model of them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from crewlog.errors import TopologyRefused
from crewlog.state.topology import Operation, World, apply, surroundings
from state.naive_graphs import Naive
from state.random_graphs import Dice

PARTS = 4
SEEDS = 100
OPERATIONS = int(os.environ.get("CREWLOG_TOPOLOGIES", "30000"))
"""In all, over the seeds; 100,000 take half a minute."""
A_FEW = 50
"""Every so many operations what takes long is looked at, too."""


def inside(world: World) -> object:
    """What a world consists of, as it is now: models do not change, but dicts could."""
    return {
        id_: ({**graph.creatures}, {**graph.channels}, graph.flow) for id_, graph in world.items()
    }


def seen(world: World, ids: tuple[str, ...]) -> dict[str, object]:
    return {
        name: (id_, surroundings(world[id_], name)) for id_ in ids for name in world[id_].creatures
    }


def refused(world: World, operation: Operation, command: str) -> TopologyRefused:
    """Why an operation is refused; it must be."""
    try:  # not `pytest.raises`: that costs more than the operation
        done = apply(world, operation, command)
    except TopologyRefused as why:
        return why
    raise AssertionError(f"{operation!r} was done: {done.change!r}")


def played(seed: int, operations: int) -> Counter[str]:
    """Operations of one seed, each held against the model: how each came out."""
    dice = Dice(seed)
    world = dice.world()
    naive = Naive(world)
    outcomes: Counter[str] = Counter()
    for number in range(operations):
        operation = dice.operation(world)
        before = inside(world)
        if naive.refuses(operation):
            assert refused(world, operation, f"op{number}").remedy
            assert inside(world) == before
            outcomes["refused"] += 1
            continue
        after, change = apply(world, operation, f"op{number}")
        assert inside(world) == before
        naive.do(operation, change, after)
        for id_, graph in after.items():
            if world.get(id_) is not graph:
                naive.holds(id_, graph)
        if number % A_FEW == 0 and not change.renamed:
            old, new = seen(world, change.old_graph_ids), seen(after, change.new_graph_ids)
            told = {name for name in {**old, **new} if old.get(name) != new.get(name)}
            assert {*change.affected_creatures} == told
        outcomes[change.kind] += 1
        outcomes["renamed"] += bool(change.renamed)
        world = after
    return outcomes


@pytest.mark.parametrize("part", range(PARTS))
def test_the_world_is_what_a_naive_model_makes_of_random_operations(part: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(part, SEEDS, PARTS):
        outcomes += played(seed, OPERATIONS // SEEDS)
    kinds = ("merge", "split", "nothing", "refused")
    done = sum(outcomes[kind] for kind in kinds)
    assert done == OPERATIONS // PARTS
    # All of it did happen, and often.
    assert all(outcomes[kind] > done // 80 for kind in (*kinds, "renamed")), outcomes


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from state.test_topology_random import digest
print(digest())
"""


def digest() -> str:
    """What random operations make of worlds, to the order of the keys."""
    written = hashlib.sha256()
    for seed in range(12):
        dice = Dice(seed)
        world = dice.world()
        for number in range(200):
            try:
                world, change = apply(world, dice.operation(world), f"op{number}")
            except TopologyRefused as why:
                written.update(f"{why.message} {why.remedy}".encode())
                continue
            written.update(change.model_dump_json().encode())
            for id_, graph in world.items():
                written.update(id_.encode() + graph.model_dump_json().encode())
    return written.hexdigest()


def test_outcomes_and_refusals_are_the_same_whatever_the_hash_seed() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[1])],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("0", "1", "4242")
    ]
    found = [process.communicate(timeout=100)[0].strip() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert found == [digest()] * 3
