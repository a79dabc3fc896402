"""What holds of every swap: random crews, random changes, random moments."""

from __future__ import annotations

from collections import Counter
from typing import Any

from crewlog.graph.plan import GraphPlan
from crewlog.graph.routing import level
from crewlog.graph.swap import SwapReport
from crewlog.ids import node_of
from crewlog.state.model import CrewState, FrontierEntry
from graph.other_plans import other_plan
from graph.simulation import RandomScript, Simulation, as_json, dice, folded, random_plan

CREWS = 150
STARTED = {"StepStarted", "StepMapped"}


async def at_some_moment(seed: int) -> Simulation | None:
    """A random crew in the middle of its life, all that was under way landed; none if it ended."""
    rng = dice(f"moment/{seed}")
    plan = random_plan(dice(seed))
    sim = await Simulation.begin(plan, RandomScript(plan, seed), seed=seed, people=True)
    for _ in range(rng.randint(0, 25)):
        if await sim.round():
            return None
    await sim.drain()
    if rng.random() < 0.5:  # else what has landed has not been looked at
        await sim.settle()
    return None if sim.state.closed or sim.state.status == "stopping" else sim


async def moments() -> list[tuple[int, Simulation]]:
    found = [(seed, await at_some_moment(seed)) for seed in range(CREWS)]
    return [(seed, sim) for seed, sim in found if sim is not None]


def entries(state: CrewState) -> dict[str, FrontierEntry]:
    return {**state.frontier}


async def test_every_step_has_one_fate_and_none_is_lost_or_begun_anew() -> None:
    seen: Counter[str] = Counter()
    for seed, sim in await moments():
        before, old = sim.state, sim.engine.plan
        report = await sim.change(other_plan(dice(f"other/{seed}"), old), abandon=seed % 2 == 0)
        after = sim.state
        if not report.swap:
            assert after.frontier == before.frontier
            seen["rules"] += 1
            continue
        assert after.changing is None
        assert after.graph_version == before.graph_version + 1, sim.journal[-1]
        fates = [fate.step for fate in report.steps]
        assert len(set(fates)) == len(fates)
        assert {*before.frontier, *before.parked} <= set(fates)
        for fate in report.steps:
            seen[fate.fate] += 1
            check_fate(fate.fate, fate.step, before, after)
        check_nodes(report, old, sim.engine.plan, before)
        assert as_json(folded(sim.journal)) == as_json(after)
    print(seen)
    assert min(seen[fate] for fate in ("kept", "leaves", "abandoned", "parked", "retracted")) >= 2
    assert min(seen[fate] for fate in ("starts", "rules")) >= 3


def check_fate(fate: str, step: Any, before: CrewState, after: CrewState) -> None:
    was, now = before.frontier.get(step), after.frontier.get(step)
    if fate in ("kept", "leaves"):
        assert was is not None and now is not None
        assert (now.turn, now.mapped, now.item) == (was.turn, was.mapped, was.item)
        assert now.leaving == (fate == "leaves")
    elif fate in ("parked", "abandoned"):
        assert now is None
        assert after.parked[step].turn == (was or before.parked[step]).turn
    elif fate == "retracted":
        assert was is not None and was.turn is None and was.mapped is None and now is None
        assert after.visits.get(node_of(step), 0) < before.visits[node_of(step)]
    elif fate == "starts":
        assert was is None and now is not None and now.turn is None


def check_nodes(report: SwapReport, old: GraphPlan, new: GraphPlan, before: CrewState) -> None:
    assert {*report.kept, *report.removed} == {*old.nodes} | {*report.kept} & {*new.nodes}
    gone = {step for step, entry in before.frontier.items() if entry.node in report.removed}
    told = {f.step for f in report.steps if f.fate in ("leaves", "abandoned", "parked", "returns")}
    assert gone <= told


async def test_outputs_flags_and_messages_stay_as_they_are() -> None:
    for seed, sim in await moments():
        before = sim.state
        await sim.change(other_plan(dice(f"other/{seed}"), sim.engine.plan))
        after = sim.state
        assert after.agent_outputs == before.agent_outputs
        assert after.messages == before.messages
        assert {k: after.flags[k] for k in before.flags} == before.flags
        assert after.usage == before.usage
        assert after.steps == before.steps


def shape(plan: GraphPlan, state: CrewState) -> dict[str, Any]:
    """Where a run is: what is there again after a change and the change back."""
    asked = {q.step for q in state.interrupts.values() if q.call is None}
    return {
        "frontier": {
            step: (entry.status, entry.turn, entry.mapped, entry.requirement, entry.leaving)
            for step, entry in state.frontier.items()
        },
        "levels": {
            name: level(
                node.join, state.routing.arrivals.get(name, {}), state.routing.base.get(name, ())
            )
            for name, node in plan.nodes.items()
            if node.join is not None
        },
        "asked": asked,
    }


async def test_there_and_back_is_where_it_was() -> None:
    swapped = 0
    for seed, sim in await moments():
        plan = sim.engine.plan
        await quiet(sim)
        before = shape(plan, sim.state)
        report = await sim.change(other_plan(dice(f"other/{seed}"), plan))
        await sim.change(plan.model_copy(update={"left": {}}))
        await quiet(sim)
        swapped += report.swap
        assert shape(plan, sim.state) == before, seed
    assert swapped > 50


async def quiet(sim: Simulation) -> None:
    """Asks what there is to be asked, without starting anything."""
    return


async def test_changed_runs_go_on_to_their_ends() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(CREWS):
        plan = random_plan(dice(seed))
        script = RandomScript(plan, seed)
        sim = await Simulation.begin(
            plan, script, seed=seed, people=True, other=other_plan, restore_at=lambda n: n % 2 == 0
        )
        await sim.run()
        assert sim.state.closed
        assert as_json(folded(sim.journal)) == as_json(sim.state)
        kinds.update(entry["kind"] for entry in sim.journal)
        started = Counter(e["step"] for e in sim.journal if e["kind"] in STARTED)
        assert max(started.values(), default=0) <= 1
        ended = Counter(e["step"] for e in sim.facts("StepCompleted"))
        assert max(ended.values(), default=0) <= 1
        assert not sim.facts("SwapFailed") or all(
            e["error"] == "the run ended first" for e in sim.facts("SwapFailed")
        )
    assert min(kinds[k] for k in ("GraphSwapped", "RulesChanged", "ChangeAccepted")) > 20
