"""What holds of every swap: random crews, random changes, random moments."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from crewlog.graph.engine import Engine
from crewlog.graph.joins import complete_generations, counts_at
from crewlog.graph.plan import GraphPlan, PlanNode
from crewlog.graph.swap.report import SwapReport
from crewlog.ids import NodeName, node_of
from crewlog.state import journal as j
from crewlog.state.fold import fold
from crewlog.state.model import CrewState
from crewlog.state.recorder import Journal
from graph.other_plans import other_plan
from graph.simulation import RandomScript, Simulation, as_json, dice, folded, random_plan

CREWS = 120
VARIANTS = 8
STARTED = {"StepStarted", "ParentStepStarted"}
_MOMENTS: list[tuple[int, Simulation]] = []


def kinds_of(seed: int) -> dict[str, bool]:
    """What a random crew has; that of many seeds is plain, so they stay the crews they were."""
    few = seed < CREWS
    return {
        "pooled": seed % 3 == 0 and few,
        "does": seed % 4 == 3 and few,
        "routed": seed % 5 == 4 and few,
    }


async def at_some_moment(seed: int, **kinds: bool) -> Simulation | None:
    """A random crew in the middle of its life, all that was under way landed; none if it ended."""
    rng = dice(f"moment/{seed}")
    plan = random_plan(dice(seed), **(kinds or kinds_of(seed)))
    sim = await Simulation.begin(plan, RandomScript(plan, seed), seed=seed, people=True)
    for _ in range(rng.randint(2, 30)):
        if await sim.round():
            return None
    if rng.random() < 0.7:
        await sim.settle()
        sim.launch()
        for _ in range(rng.randint(0, 6)):  # the replies of some turns, whose tools come next
            if sim.flights:
                await sim.land(rng.choice(list(sim.flights)))
    await sim.drain()
    if rng.random() < 0.3:  # else what has landed has not been looked at
        await sim.settle()
    return None if sim.state.is_ended or sim.state.status == "stopping" else sim


async def moments() -> AsyncIterator[tuple[str, Simulation]]:
    """Runs in the middle of their lives, several times each, to be changed in several ways."""
    if not _MOMENTS:
        found = [(seed, await at_some_moment(seed)) for seed in range(CREWS)]
        _MOMENTS.extend((seed, sim) for seed, sim in found if sim is not None)
    for seed, sim in _MOMENTS:
        for variant in range(VARIANTS):
            engine = Engine(sim.engine.plan, Journal(sim.state))
            engine.at = sim.engine.at
            yield f"{seed}/{variant}", Simulation(engine, sim.script, dice(variant), people=True)


async def test_every_step_has_one_fate_and_none_is_lost_or_begun_anew() -> None:
    seen: Counter[str] = Counter()
    async for seed, sim in moments():
        before, old = sim.state, sim.engine.plan
        abandon = seed.endswith("1")
        report = await sim.change(other_plan(dice(f"other/{seed}"), old), abandon=abandon)
        after = sim.state
        assert not sim.facts("SwapFailed"), sim.journal[-1]
        if not report.swap:
            assert after.frontier == before.frontier
            seen["rules"] += 1
            continue
        assert after.pending_change is None
        assert after.graph_version == before.graph_version + 1
        fates = [fate.step for fate in report.steps]
        assert len(set(fates)) == len(fates)
        assert {*before.frontier, *before.detached_steps} <= {*fates}
        for fate in report.steps:
            seen[fate.effect] += 1
            check_fate(fate.effect, fate.step, before, after)
        check_nodes(report, old, sim.engine.plan, before)
        state = before
        for entry in sim.journal:
            state = fold(state, j.entry_from_json(entry))
        assert as_json(state) == as_json(after)
    for fate in ("kept", "finishes", "abandoned", "detached", "starts", "rules"):
        assert seen[fate] >= 3, seen
    assert seen["retracted"]


def check_fate(fate: str, step: Any, before: CrewState, after: CrewState) -> None:
    was, now = before.frontier.get(step), after.frontier.get(step)
    if fate in ("kept", "finishes"):
        assert was is not None
        assert now is not None
        assert (now.turn, now.child_steps, now.item) == (was.turn, was.child_steps, was.item)
        assert now.is_detached == (fate == "finishes")
    elif fate in ("detached", "abandoned"):
        assert now is None
        assert after.detached_steps[step].turn == (was or before.detached_steps[step]).turn
    elif fate == "retracted":
        assert was is not None
        assert was.turn is None
        assert was.child_steps is None
        assert now is None
        assert after.visits.get(node_of(step), 0) < before.visits[node_of(step)]
    elif fate == "starts":
        assert was is None
        assert now is not None
        assert now.turn is None


def check_nodes(report: SwapReport, old: GraphPlan, new: GraphPlan, before: CrewState) -> None:
    assert {*report.kept, *report.removed} == {*old.nodes} | {*report.kept} & {*new.nodes}
    gone = {step for step, entry in before.frontier.items() if entry.node in report.removed}
    told = {
        f.step for f in report.steps if f.effect in ("finishes", "abandoned", "detached", "returns")
    }
    assert gone <= told


async def test_outputs_flags_and_messages_stay_as_they_are() -> None:
    async for seed, sim in moments():
        before = sim.state
        await sim.change(other_plan(dice(f"other/{seed}"), sim.engine.plan))
        after = sim.state
        assert after.agent_outputs == before.agent_outputs
        assert after.messages == before.messages
        assert {k: after.flags[k] for k in before.flags} == before.flags
        assert after.usage == before.usage
        assert after.steps == before.steps


def shape(plan: GraphPlan, state: CrewState) -> dict[str, Any]:
    """Where a run is: what is there again after a change and the change back.

    A question that was taken back is asked anew, and a condition is looked at anew.
    """
    asked = {question.step for question in state.interrupts.values() if question.kind == "ask"}
    return {
        "frontier": {
            step: (step in asked or entry.status == "running", entry.child_steps, entry.is_detached)
            if entry.turn is None
            else (entry.status, entry.turn, entry.child_steps, entry.is_detached)
            for step, entry in state.frontier.items()
        },
        "levels": {
            name: complete_generations(node.join, counts_at(name, node.join.of, state.routing))
            for name, node in plan.nodes.items()
            if node.join is not None
        },
        "firings": {name: state.routing.firings.get(name, 0) for name in plan.nodes},
    }


async def test_there_and_back_is_where_it_was() -> None:
    swapped = 0
    wrong = []
    async for seed, sim in moments():
        plan = sim.engine.plan
        before = sim.state
        report = await sim.change(other_plan(dice(f"other/{seed}"), plan))
        await sim.change(plan)
        swapped += report.swap
        if shape(plan, sim.state) != shape(plan, before):
            wrong.append(seed)
            continue
        asked = {asked.id for asked in before.interrupts.values()}
        withdrawn = {entry["interrupt"] for entry in sim.facts("InterruptAnswered")}
        assert {*sim.state.interrupts} == asked - withdrawn
    assert not wrong
    assert swapped > 50


@pytest.mark.parametrize(
    ("seed", "variant", "kinds"), [(20756, 1, {}), (21114, 0, {"pooled": True, "routed": True})]
)
async def test_a_step_that_a_change_started_is_retracted_with_the_change(
    seed: int, variant: int, kinds: dict[str, bool]
) -> None:
    """Its former source has run, and was redirected: the join cannot fire."""
    sim = await at_some_moment(seed, **kinds)
    assert sim is not None
    plan, before = sim.engine.plan, sim.state
    await sim.change(other_plan(dice(f"other/{seed}/{variant}"), plan))
    await sim.change(plan)
    assert shape(plan, sim.state) == shape(plan, before)


@pytest.mark.parametrize(("seed", "variant"), [(343, 0), (612, 2), (912, 2)])
async def test_visits_of_earlier_generations_come_back_uncounted(seed: int, variant: int) -> None:
    """Queued visits that a loop has left behind: their arrivals are not counted any more."""
    sim = await at_some_moment(seed)
    assert sim is not None
    plan, before = sim.engine.plan, sim.state
    report = await sim.change(other_plan(dice(f"other/{seed}/{variant}"), plan))
    assert report.swap
    await sim.change(plan)
    assert shape(plan, sim.state) == shape(plan, before)


@pytest.mark.parametrize(
    ("seed", "variant", "kinds"),
    [
        # A join of a loop's body gets a source that came before the loop went back.
        (99, 7, {"does": True}),
        (107, 4, {"does": True, "pooled": True}),
        # People sent the run far ahead, and the first node is taken away.
        (2, 1, {"routed": True, "pooled": True}),
        (582, 2, {"does": True, "pooled": True}),
    ],
)
async def test_nothing_starts_that_the_run_is_beyond(
    seed: int, variant: int, kinds: dict[str, bool]
) -> None:
    sim = await at_some_moment(seed, **kinds)
    assert sim is not None
    plan, before = sim.engine.plan, sim.state
    report = await sim.change(other_plan(dice(f"other/{seed}/{variant}"), plan))
    assert "starts" not in [fate.effect for fate in report.steps]
    await sim.change(plan)
    assert shape(plan, sim.state) == shape(plan, before)


def canonical(state: CrewState) -> dict[str, Any]:
    """What a run has come to, without times, versions and positions."""
    data = state.model_dump(mode="json")
    for name in ("graph_version", "definition", "position", "execution_trace", "changes"):
        del data[name]
    for name in (
        "commands",
        "detached_steps",
        "flag_positions",
        "status_reason",
    ):
        del data[name]
    for entry in data["frontier"].values():
        del entry["since"], entry["reached"]
        if entry["turn"]:
            del entry["turn"]["start_position"]
        if entry["child_steps"]:
            entry["child_steps"].pop("position")
    data["messages"] = {log: head["length"] for log, head in data["messages"].items()}
    data["agent_outputs"] = {
        agent: {key: (o["value"], o["body"], len(o["elements"])) for key, o in found.items()}
        for agent, found in data["agent_outputs"].items()
    }
    for told in data["interrupts"].values():
        del told["position"]
    return data


async def alone(seed: int, swap_at: int = -1) -> tuple[Simulation, int]:
    """A crew without people, one call at a time; and how many rounds it took."""
    plan = random_plan(dice(seed), pooled=seed % 3 == 0, routed=seed % 2 == 1)
    sim = await Simulation.begin(plan, RandomScript(plan, seed), seed=seed, parallel=1)
    for number in range(200):
        if number == swap_at:
            report = await sim.change(with_idle_node(plan))
            assert report.swap
        if await sim.round():
            return sim, number
    raise AssertionError("it takes too long")


def with_idle_node(plan: GraphPlan) -> GraphPlan:
    """Another graph in which everything is as it was: one more node, that nothing leads to."""
    idle = PlanNode(kind="agent", agent=next(iter(plan.agents)))
    return plan.model_copy(update={"nodes": {**plan.nodes, NodeName("idle"): idle}})


async def test_a_run_that_is_swapped_anywhere_ends_as_one_that_is_not() -> None:
    for seed in range(12):
        without, rounds = await alone(seed)
        for at in range(0, rounds + 1, max(1, rounds // 8)):
            sim, _ = await alone(seed, at)
            assert canonical(sim.state) == canonical(without.state), (seed, at)


async def test_changed_runs_go_on_to_their_ends() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(CREWS, CREWS + 80):
        plan = random_plan(
            dice(seed), pooled=seed % 3 == 0, does=seed % 4 == 1, routed=seed % 5 == 2
        )
        script = RandomScript(plan, seed)
        sim = await Simulation.begin(
            plan, script, seed=seed, people=True, other=other_plan, restore_at=lambda n: n % 2 == 0
        )
        await sim.run()
        assert sim.state.is_ended
        assert as_json(folded(sim.journal)) == as_json(sim.state)
        kinds.update(entry["kind"] for entry in sim.journal)
        started = Counter(e["step"] for e in sim.journal if e["kind"] in STARTED)
        assert max(started.values(), default=0) <= 1
        ended = Counter(e["step"] for e in sim.facts("StepCompleted"))
        assert max(ended.values(), default=0) <= 1
        assert not sim.facts("SwapFailed") or all(
            e["error"] == "the run ended first" for e in sim.facts("SwapFailed")
        )
    assert min(kinds[kind] for kind in ("GraphSwapped", "DefinitionChanged", "ChangeAccepted")) > 5
