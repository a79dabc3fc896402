"""Steps whose nodes a change took away, over going back, forking, and taking up again.

The plan of a checkpoint comes from the store, which lowers definitions. `restore_state` returns
with it what the steps need whose nodes that definition does not have.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from crewlog.activities.crew_activities import CrewActivities
from crewlog.canonical_json import hash_json
from crewlog.client.extract import Place, Told, extract
from crewlog.definition.model import CrewDefinition
from crewlog.graph.engine import Engine
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.graph.restore import fork, reopen, roll_back
from crewlog.ids import RunId
from crewlog.state.calls import (
    RESTORE_STATE,
    PrepareChange,
    PrepareRun,
    RestoreState,
    RestoreStateResult,
)
from crewlog.state.journal import Batch
from crewlog.state.model import CrewState
from crewlog.state.recorder import Journal
from crewlog.state.restore import ReopenPoint
from crewlog.store import InMemoryStore
from graph.crews import crew
from graph.simulation import RUN, Replies, Simulation, final, says

FULL = crew(["a", ["b", "c"], "d"], {"b": {"tools": ["t"]}}, tools={"t": {"run": "m:f"}})
LESS = crew(["a", "c", "d"])


async def without_b(tmp_path: Path, *, abandon: bool) -> tuple[Simulation, RestoreStateResult]:
    """A run that lost `b` in mid-turn, and what the store says of it."""
    sim = await Simulation.begin(lower(FULL), Replies({"b#1": [says("b works", "t")]}))
    await sim.finish("a#1", "b#1")
    del sim.flights["b#1", 2]  # its tool call has not landed
    await sim.change(lower(LESS), abandon=abandon)
    store = InMemoryStore()
    for each in (FULL, LESS):
        await store.put_definition(RUN, each.to_json())
    await store.append(RUN, Batch(first=1, entries=tuple(sim.journal)))
    activities = CrewActivities(store, workspace=tmp_path)
    task = RestoreState(run=RUN, reopen=True)
    local = ActivityEnvironment()
    local.info = replace(local.info, is_local=True)
    return sim, await asyncio.wait_for(local.run(activities.restore_state, task), 60)


async def test_the_store_says_what_steps_need_whose_nodes_are_gone(tmp_path: Path) -> None:
    for abandon in (True, False):
        sim, loaded = await without_b(tmp_path, abandon=abandon)
        assert list(loaded.plan["detached_steps"]) == ["b#1"]
        assert GraphPlan.from_json(loaded.plan) == sim.engine.plan


@pytest.mark.parametrize("abandon", [True, False])
async def test_a_history_has_the_definitions_of_such_steps(abandon: bool, tmp_path: Path) -> None:
    _, loaded = await without_b(tmp_path, abandon=abandon)
    told = extract([Told(Place(RESTORE_STATE, "result", 1), loaded.to_json())])
    assert {hash_json(each.to_json()) for each in (FULL, LESS)} <= told.definitions.keys()


async def test_a_run_that_ended_while_a_removed_agent_worked_goes_on(tmp_path: Path) -> None:
    _, loaded = await without_b(tmp_path, abandon=False)
    then = CrewState.from_json(loaded.state)
    assert then.frontier["b#1"].is_detached  # type: ignore[index]
    found = ReopenPoint(loaded.position)
    engine = reopen(GraphPlan.from_json(loaded.plan), Journal(then), then, found, by="ana", at=9)
    sim = Simulation(engine, final)
    await sim.settle()
    sim.launch()
    assert ("b#1", 2) in sim.flights
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.state.routing.completed["b"] == 1  # type: ignore[index]


@pytest.mark.parametrize("how", ["back", "fork", "reopen"])
async def test_a_step_kept_aside_comes_back_with_its_node(how: str, tmp_path: Path) -> None:
    _, loaded = await without_b(tmp_path, abandon=True)
    plan, then = GraphPlan.from_json(loaded.plan), CrewState.from_json(loaded.state)
    sim = Simulation(begun(how, plan, then), final)
    (step,) = sim.state.detached_steps
    await sim.change(lower(FULL))
    assert list(sim.state.detached_steps) == []
    turn = sim.state.frontier[step].turn
    assert turn is not None
    assert [call.call for call in turn.calls] == [2]  # it goes on where it was
    await sim.run()
    assert sim.state.status == "completed"
    assert step not in sim.ran()


def begun(how: str, plan: GraphPlan, then: CrewState) -> Engine:
    who: dict[str, Any] = {"by": "ana"}
    if how == "fork":
        return fork(plan, then, RunId("other"), at=9, **who)
    if how == "reopen":
        return reopen(plan, Journal(then), then, ReopenPoint(then.position), at=9, **who)
    engine = Engine(lower(LESS), Journal(then))
    roll_back(engine, then.position, then, plan, **who)
    return engine


OLD: dict[str, Any] = {
    "crew": "t",
    "model": "openai:x",
    "agents": {"ann": {"prompt": "p"}, "scout": {"prompt": "p", "listen": ["x"]}},
    "flow": [{"agent": "ann", "phase": "scout"}],
}
"""A crew that no new run may have: a phase has the name of an agent that hears elsewhere."""


async def test_a_run_goes_on_with_a_crew_that_no_new_run_may_have(tmp_path: Path) -> None:
    sim = await (await Simulation.begin(lower(CrewDefinition.from_json(OLD)), final)).run()
    store = InMemoryStore()
    address = await store.put_definition(RUN, OLD)
    await store.append(RUN, Batch(first=1, entries=tuple(sim.journal)))
    activities = CrewActivities(store, workspace=tmp_path)
    local = ActivityEnvironment()
    local.info = replace(local.info, is_local=True)
    loaded = await local.run(activities.restore_state, RestoreState(run=RUN, reopen=True))
    assert GraphPlan.from_json(loaded.plan) == sim.engine.plan
    recipe = PrepareChange(run=RUN, base=address, recipe=True)
    made = await ActivityEnvironment().run(activities.prepare_change, recipe)
    assert made.definition == OLD
    with pytest.raises(ApplicationError, match="the phase 'scout' has the name"):
        await local.run(activities.prepare_run, PrepareRun(run=RunId("new"), crew=OLD))
