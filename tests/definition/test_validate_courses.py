# ruff: noqa: E501  (tables of cases: a case is a line)
"""Joins that can be met, ends that can be reached, keys with one writer: told where so, only there.

The properties are checked by running: flows at random, every combination of what decides them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from crewlog.definition.model import CrewDefinition
from crewlog.definition.validate import all_findings, check, warnings
from crewlog.graph.joins import missing_sources
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from graph.crews import agents_in
from graph.simulation import Simulation, dice

SEEN: Counter[str] = Counter()


def crew(flow: list[Any], agents: dict[str, Any] | None = None, **more: Any) -> CrewDefinition:
    names = dict.fromkeys([*agents_in(flow), *(agents or {})])
    made = {name: {"prompt": "p"} | (agents or {}).get(name, {}) for name in names}
    return CrewDefinition.from_json(
        {"crew": "t", "model": "openai:x", "agents": made, "flow": flow} | more
    )


def told(definition: CrewDefinition) -> list[tuple[str, str, str]]:
    return [
        (each.severity, each.message, each.diagnostic().place) for each in all_findings(definition)
    ]


SETS = {"a": {"writes_flags": ["x", "y"]}}
GO_C = {"if": "x", "go": "c"}
SENT = {"agent": "c", "after": "go"}


@pytest.mark.parametrize(
    ("flow", "severity", "message", "place"),
    [
        (["a", GO_C, "b", SENT, {"agent": "d", "after": ["b", "c"]}], "error", "'d' waits for b and c, which never come together: 'after_a' goes only one way", "flow[4].after"),
        (["a", GO_C, ["b", "e"], SENT, {"agent": "d", "after": {"quorum": 3, "of": ["b", "c", "e"]}}], "error", "'d' waits for b, c and e, which never", "flow[4].after"),
        (["a", {"if": "x", "go": "c"}, {"if": "y", "go": "e"}, "b", SENT, {"agent": "e", "after": "go"}, {"agent": "d", "after": {"quorum": 2, "of": ["b", "c", "e"]}}], "error", "waits for 2 of b, c and e, which never come together", "flow[6].after"),
        (["a", {"ask": "Which?", "options": ["b", "c", "stop"]}, {"agent": "b", "after": "go"}, SENT, {"agent": "d", "after": ["b", "c"]}], "error", "never come together: 'ask_1'", "flow[4].after"),
        (["a", {"parallel": ["b", "e"]}, {"if": "x", "go": "end", "after": "b", "phase": "gate"}, {"agent": "d", "after": ["gate", "e"]}], "warning", "'d' waits for gate, which may not come: 'gate' perhaps ends this branch", "flow[3].after"),
        (["a", {"if": "x", "go": "c"}, SENT, {"agent": "b", "after": "a"}, {"agent": "d", "after": ["b", "c"]}], "warning", "'d' waits for c, which may not come", "flow[4].after"),
        (["a", "b", {"if": "x", "go": "b", "at_most": 2, "phase": "gate"}, {"agent": "d", "after": ["a", "b"]}], "warning", "waits for b, which the loop of 'gate' repeats, and for a, which may come less often", "flow[3].after"),
        (["a", {"ask": "Again?", "options": ["a"]}], "warning", "no answer to 'ask_1' leads to the end", "flow[1].options"),
        (["a", "b", {"ask": "Which?", "options": ["a", "b"]}], "warning", "no answer to 'ask_1'", "flow[2].options"),
    ],
)  # fmt: skip
def test_what_cannot_be_met(flow: list[Any], severity: str, message: str, place: str) -> None:
    ((how, said, where),) = told(crew(flow, SETS))
    assert (how, where) == (severity, place)
    assert message in said
    assert len(check(crew(flow, SETS))) + len(warnings(crew(flow, SETS))) == 1


@pytest.mark.parametrize(
    "flow",
    [
        ["a", GO_C, "b", SENT, {"agent": "d", "after": {"any": ["b", "c"]}}],
        ["a", GO_C, ["b", "e"], SENT, {"agent": "d", "after": {"quorum": 1, "of": ["b", "c"]}}],
        ["a", ["b", "c"], "d", {"if": "x", "go": "b", "at_most": 2}, "e"],
        ["a", GO_C, "b", "c", ["d", "e"], "f"],
        ["a", {"ask": "Well?", "options": ["yes", "a"]}, "b"],
        ["a", {"ask": "Well?", "options": ["a", "stop"]}, "b"],
        ["a", {"if": "x", "go": "end"}, ["b", "c"], "d"],
    ],
)
def test_what_can_be_met_is_not_told(flow: list[Any]) -> None:
    assert told(crew(flow, SETS)) == []


# -- two writers ----------------------------------------------------------------------------------

TWO = {"b": {"writes_flags": ["ok"]}, "c": {"writes_flags": ["ok"]}, "a": {"writes_flags": ["x"]}}


def test_two_who_may_set_one_flag_at_once_need_a_merge() -> None:
    ((how, said, where),) = told(crew(["a", ["b", "c"], "d"], TWO))
    assert (how, where) == ("error", "flow[1][1]")
    assert said == "'b' and 'c' may run side by side, and both may set the flag 'ok'"
    for rule in ("last", "append"):
        assert told(crew(["a", ["b", "c"], "d"], TWO, merge={"ok": rule})) == []


@pytest.mark.parametrize(
    "flow",
    [
        ["a", "b", "c", "d"],
        ["a", ["b", "d"], "c"],
        ["a", {"if": "x", "go": "c"}, "b", {"if": "x", "go": "end"}, {"agent": "c", "after": "go"}],
        ["a", {"parallel": ["b", "d"], "join": "any"}, {"agent": "c", "after": "b"}],
    ],
)
def test_those_who_come_one_after_the_other_or_instead_of_it_need_none(flow: list[Any]) -> None:
    assert [t for t in told(crew(flow, TWO)) if "side by side" in t[1]] == []


def test_a_step_for_each_item_that_sets_something_needs_a_merge() -> None:
    agents = {"a": {"outputs": ["parts"]}, "b": {"outputs": ["sum"], "writes_flags": ["ok"]}}
    flow = ["a", {"agent": "b", "for_each": "a.parts"}]
    found = told(crew(flow, agents))
    assert [(how, where) for how, _, where in found] == [("error", "flow[1].for_each")] * 2
    assert "each may set the flag 'ok'" in found[0][1]
    assert "each may set the output 'b.sum'" in found[1][1]
    assert told(crew(flow, agents, merge={"ok": "last", "b.sum": "append"})) == []


def test_one_agent_in_two_phases_side_by_side_has_one_output() -> None:
    flow = ["a", [{"agent": "b", "phase": "one"}, {"agent": "b", "phase": "two"}], "c"]
    ((_, said, _),) = told(crew(flow, {"b": {"outputs": ["sum"]}}))
    assert said == "'one' and 'two' may run side by side, and both may set the output 'b.sum'"


def test_a_merge_of_what_is_not_there() -> None:
    flow, agents = ["a"], {"a": {"writes_flags": ["ready"], "outputs": ["sum"]}}
    for key, remedy in (("redy", "'ready'"), ("a.sun", "'a.sum'")):
        (fault,) = check(crew(flow, agents, merge={key: "last"}))
        assert f"'merge' names {key!r}" in fault.message
        assert remedy in fault.remedy
        assert fault.place == f"merge.{key}"


# -- by running -----------------------------------------------------------------------------------

FLAGS = [f"f{i}" for i in range(4)]


def random_flow(rng: random.Random, *, loops: bool) -> list[Any]:
    """Flows with forks, joins of all kinds, sent-only phases; perhaps questions and loops."""
    count = rng.randint(3, 8)
    names = [f"p{i}" for i in range(count)]
    flow: list[Any] = []
    before: list[str] = []
    flags = iter(FLAGS)
    for i, name in enumerate(names):
        kinds = ["next", "next", "after", "any", "quorum", "go", "lanes"]
        kind = rng.choice(kinds) if before else "next"
        if kind in {"after", "any", "quorum"}:
            of = rng.sample(before, min(len(before), rng.randint(1, 3)))
            after: Any = {"after": of, "any": {"any": of}}.get(kind)
            if after is None:
                after = {"quorum": rng.randint(1, len(of)), "of": of}
            flow.append({"agent": name, "after": after})
        elif kind == "go":
            flow.append({"agent": name, "after": "go"})
        elif kind == "lanes":
            flow.append({"parallel": [name, f"{name}x"], "join": rng.choice(["all", "any"])})
            before.append(f"{name}x")
        else:
            flow.append(name)
        before.append(name)
        flag = next(flags, None) if rng.random() < 0.34 else None
        if flag is not None:
            later = [*names[i + 1 :], "end"]
            go = rng.choice([*later, *(before if loops else [])])
            gate: dict[str, Any] = {"if": flag, "go": go, "phase": f"d{i}"}
            if go in before:
                gate |= {"at_most": rng.randint(1, 2)}
                gate |= {"else": rng.choice(["next", "ask_human", "end"])}
            flow.append(gate)
            before.append(f"d{i}")
        elif loops and rng.random() < 0.15:
            options = ["yes", rng.choice(names), "no"]
            flow.append({"ask": "Well?", "options": options, "sets": "said", "phase": f"q{i}"})
            before.append(f"q{i}")
    return flow


def definition_of(flow: list[Any]) -> CrewDefinition:
    first = agents_in(flow)[0]
    return crew(flow, {first: {"writes_flags": FLAGS}})


def plans(definition: CrewDefinition) -> Iterator[GraphPlan]:
    """The plan with every combination of flags that its decisions look at."""
    plan = lower(definition)
    used = [f for f in FLAGS if any(f in rule for rule in plan.rules)]
    for values in product([False, True], repeat=len(used)):
        yield plan.model_copy(update={"flags": dict(zip(used, values, strict=True))})


async def ended(plan: GraphPlan, seed: int) -> Simulation:
    """A run that people answer, until it ends or asks what nobody declared."""
    sim = await Simulation.begin(plan, seed=seed)
    rng = dice(seed)
    for _ in range(25):
        await sim.run()
        if sim.state.is_ended:
            return sim
        for asked in list(sim.state.interrupts.values()):
            if asked.kind == "requirement":
                return sim
            options = [option for option in asked.options if option not in {"stop", "again"}]
            await sim.answer(rng.choice(options), asked.id)
    return sim


def unmet(sim: Simulation) -> list[str]:
    """The joins that a run that stands still waits for in vain."""
    if not any(asked.kind == "requirement" for asked in sim.state.interrupts.values()):
        return []
    plan, routing = sim.engine.plan, sim.state.routing
    return [name for name in plan.nodes if missing_sources(plan, name, routing)]


@pytest.mark.parametrize("seed", range(120))
async def test_without_findings_a_run_ends_or_asks_what_it_says(seed: int) -> None:
    flow = random_flow(dice(seed), loops=True)
    definition = definition_of(flow)
    if [each for each in all_findings(definition) if not each.unsound]:
        SEEN["found"] += 1
        return
    SEEN["clean"] += 1
    for plan in plans(definition):
        for more in range(2):
            sim = await ended(plan, seed + more)
            assert unmet(sim) == [], sim.ran()


@pytest.mark.parametrize("seed", range(200))
async def test_what_is_told_of_joins_happens(seed: int) -> None:
    """Where it may not be met, a run asks about it; where it never is, it is never met."""
    definition = definition_of(random_flow(dice(f"joins {seed}"), loops=False))
    found = all_findings(definition)
    errors = [each for each in found if each.severity == "error"]
    warned = {each.message.split("'")[1] for each in found if "may not come" in each.message}
    never = {each.message.split("'")[1] for each in errors if "never come" in each.message}
    if len(errors) > len(never) or not (warned or never):
        return
    SEEN["joins"] += 1
    asked: set[str] = set()
    fired: set[str] = set()
    for plan in plans_unchecked(definition) if never else plans(definition):
        sim = await ended(plan, seed)
        asked.update(unmet(sim))
        routed = [r for r in sim.facts("NodesReached") if r.get("source")]
        fired |= {
            reached["node"]
            for entry in routed
            for reached in entry.get("to", ())
            if reached["node"] not in entry.get("outcome", ())
        }
    assert not never & fired
    SEEN["warned"] += len(warned)
    SEEN["asked"] += len(warned & asked)


def plans_unchecked(definition: CrewDefinition) -> Iterator[GraphPlan]:
    """As `plans`, of a definition that is refused."""
    from unittest import mock

    with mock.patch("crewlog.graph.lowering.plans.standing", return_value=[]):
        yield from list(plans(definition))


def test_enough_was_looked_at() -> None:
    assert SEEN["clean"] > 45, SEEN
    assert SEEN["joins"] > 20, SEEN
    assert SEEN["asked"] > 0.9 * SEEN["warned"], SEEN
