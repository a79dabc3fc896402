"""Random operations on live crews, the way of a live run, held against a naive model of graphs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from crewlog.activities.changes import ChangePreparer
from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.definitions import Definitions
from crewlog.activities.failures import Effect
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import Operation
from crewlog.errors import ComponentConflict, CrewlogError, InvalidDefinition
from crewlog.graph.engine import Engine
from crewlog.graph.lowering.components import expanded_component
from crewlog.graph.lowering.plans import lower
from crewlog.graph.swap.live_change import change_report
from crewlog.ids import RunId
from crewlog.state.calls import PrepareChange
from crewlog.state.components import ComponentChange, Components, agent_neighbors
from crewlog.store.in_process import InMemoryStore
from state.naive_graphs import Naive
from state.random_graphs import Dice
from state.topologies import Asked, asked, crew_of

PARTS = 4
SEEDS = 100
OPERATIONS = int(os.environ.get("CREWLOG_TOPOLOGIES", "12000"))
"""In all, over the seeds; 100,000 take a minute and a half."""
A_FEW = 50
"""Every so many operations what takes long is looked at, too."""


class Runs:
    """Runs that live, each with its crew, and those that each goes on from."""

    def __init__(self, dice: Dice) -> None:
        self.crews = {id_: crew_of(each) for id_, each in dice.world().items()}
        self.world: Components = {id_: expanded_component(each) for id_, each in self.crews.items()}
        self.family: dict[RunId, set[RunId]] = {id_: set() for id_ in self.crews}

    def away(self, run: RunId) -> set[str]:
        policy = self.crews[run].graph
        return {*policy.away} if policy is not None else set()

    def take(self, done: Asked, run: RunId) -> Components:
        """Goes on with what came of an operation; the graphs that there are then."""
        for id_ in {*done.crews} - {*self.crews}:
            self.family[id_] = {run, *self.family[run]}
        gone = {*self.crews} - {*done.crews}
        for id_ in done.change.new_graph_ids:
            self.family[id_].update(*({each, *self.family[each]} for each in gone))
        self.world = {
            id_: self.world[id_] if crew is self.crews.get(id_) else expanded_component(crew)
            for id_, crew in done.crews.items()
        }
        self.crews = done.crews
        return self.world


def everybody(crews: dict[RunId, CrewDefinition]) -> list[str]:
    """All crews, as the store has them."""
    return [json.dumps(crew.to_json(), sort_keys=True) for crew in crews.values()]


def seen(world: Components, ids: tuple[RunId, ...]) -> dict[str, object]:
    return {
        name: (id_, agent_neighbors(world[id_], name)) for id_ in ids for name in world[id_].agents
    }


def refused(runs: Runs, run: RunId, operation: Operation) -> CrewlogError:
    """Why an operation is refused; it must be."""
    try:
        done = asked(runs.crews, run, operation, "no", runs.family)
    except (InvalidDefinition, ComponentConflict) as why:
        return why
    raise AssertionError(f"{operation!r} was done in {run}: {done.change!r}")


def played(seed: int, operations: int) -> Counter[str]:
    """Operations of one seed, each held against the model: how each came out."""
    dice = Dice(seed)
    runs = Runs(dice)
    naive = Naive(runs.world)
    outcomes: Counter[str] = Counter()
    for number in range(operations):
        run, operation = dice.operation(runs.world)
        looks = number % A_FEW == 0
        before, was = everybody(runs.crews) if looks else [], runs.world
        if naive.refuses(run, operation, runs.away(run)):
            assert refused(runs, run, operation)
            assert not looks or everybody(runs.crews) == before
            outcomes["refused"] += 1
            continue
        touched = {run, getattr(operation, "other", None) or run}
        plain = not any(map(runs.away, touched))
        done = asked(runs.crews, run, operation, f"op{number}", runs.family)
        assert not looks or everybody(runs.crews) == before
        after, change = runs.take(done, run), done.change
        naive.do(run, operation, change, after, plain=plain)
        for id_ in change.new_graph_ids:
            naive.holds(id_, after[id_])
        if looks and not change.renamed:
            old, new = seen(was, change.old_graph_ids), seen(after, change.new_graph_ids)
            told = {name for name in {**old, **new} if old.get(name) != new.get(name)}
            for id_ in change.new_graph_ids if change.kind != "nothing" else ():
                here = after[id_].agents.keys()
                if id_ not in was or was[id_].agents.keys() != here:
                    told |= here
            assert {*change.affected_creatures} == told
        outcomes[change.kind] += 1
        outcomes["renamed"] += bool(change.renamed)
        outcomes["back"] += change.kind == "merge" and not plain
    return outcomes


@pytest.mark.parametrize("part", range(PARTS))
def test_runs_part_and_join_as_a_naive_model_of_their_graphs_does(part: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(part, SEEDS, PARTS):
        outcomes += played(seed, OPERATIONS // SEEDS)
    kinds = ("merge", "split", "nothing", "refused")
    done = sum(outcomes[kind] for kind in kinds)
    assert done == OPERATIONS // PARTS
    # All of it did happen, and often; in long plays few names are left that both sides have.
    assert all(outcomes[kind] > done // 160 for kind in (*kinds, "renamed", "back")), outcomes


async def dry(
    crew: CrewDefinition, run: RunId, operation: Operation, command: str
) -> tuple[Asked, set[RunId]]:
    """What a run is told by its worker and tells of an operation, and the runs that begin by it."""
    store = InMemoryStore()
    worker = ChangePreparer(store, Definitions(store), ModelFactory())
    base = await store.put_definition(run, crew.to_json())
    said = {"op": operation.op, **operation.to_json()}
    task = PrepareChange(run=run, base=base, operations=(said,), command=command)
    made = await worker.run(task, Effect())
    engine = await Engine.begin(lower(crew), run, input_text="", by="eve", at=1)
    report, plan = change_report(engine, made)
    here = (run,)
    change = report.component_change or ComponentChange(old_graph_ids=here, new_graph_ids=here)
    crews = {run: made.definition, **{each.run: each.definition for each in made.split_runs}}
    assert plan.component == expanded_component(CrewDefinition.from_json(made.definition))
    for each in made.split_runs:
        assert each.component == expanded_component(CrewDefinition.from_json(each.definition))
    read = {id_: CrewDefinition.from_json(each) for id_, each in crews.items()}
    return Asked(read, change), {each.run for each in made.split_runs}


async def test_a_dry_run_tells_what_comes_of_it() -> None:
    told: Counter[str] = Counter()
    for seed in range(16):
        dice = Dice(seed)
        runs = Runs(dice)
        for number in range(80):
            run, operation = dice.operation(runs.world)
            try:
                done = asked(runs.crews, run, operation, f"op{number}", runs.family)
            except (InvalidDefinition, ComponentConflict):
                continue
            # What changes the flow, too, is another matter; a union is what `asked` asks for.
            if done.change.kind != "merge" and not runs.world[run].flow:
                found, begun = await dry(runs.crews[run], run, operation, f"op{number}")
                assert found.change == done.change
                assert begun == {*done.change.new_graph_ids} - {run}
                for id_, crew in found.crews.items():
                    assert crew == done.crews[id_]
                told[found.change.kind] += 1
            runs.take(done, run)
    assert min(told["split"], told["nothing"]) > 20, told


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from state.test_topology_random import digest
print(digest())
"""


def digest() -> str:
    """What random operations make of crews, to the order of the keys."""
    written = hashlib.sha256()
    for seed in range(12):
        dice = Dice(seed)
        runs = Runs(dice)
        for number in range(100):
            run, operation = dice.operation(runs.world)
            try:
                done = asked(runs.crews, run, operation, f"op{number}", runs.family)
            except (InvalidDefinition, ComponentConflict) as why:
                written.update(f"{why.message} {why.remedy}".encode())
                continue
            written.update(told(done.change).encode())
            for id_, graph in runs.take(done, run).items():
                crew = runs.crews[id_].model_dump_json()
                written.update(f"{id_} {graph.model_dump_json()} {crew}".encode())
    return written.hexdigest()


def told(change: ComponentChange) -> str:
    return change.model_dump_json()


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
