# ruff: noqa: E501  (tables of cases: a case is a line)
"""Builders and patterns in their places: what they become, and that it runs as they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from crewlog.definition.builders import Built, Place, build, builders
from crewlog.definition.expand import expand
from crewlog.definition.load import load_data, load_definition
from crewlog.definition.model import AgentPhase, CrewDefinition
from crewlog.definition.phases import phases
from crewlog.definition.validate import check
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.graph.run_context import CallRequest
from crewlog.state.calls import CallModelResult, CallToolResult, OutputValue
from definition.kit import registered
from graph.crews import agents_in
from graph.simulation import Simulation, returns, run, says
from pace import assert_within, growth


def crew(flow: list[Any], agents: Mapping[str, Any] | None = None, **more: Any) -> CrewDefinition:
    return load_data(data(flow, agents, **more))


def data(flow: list[Any], agents: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    names = [*agents_in([f for f in flow if "use" not in f]), *_named(flow), *(agents or {})]
    made = {name: {"prompt": "p"} | (agents or {}).get(name, {}) for name in dict.fromkeys(names)}
    return {"crew": "t", "model": "openai:x", "agents": made, "flow": flow} | more


def _named(flow: list[Any]) -> list[str]:
    found: list[str] = []
    for item in flow:
        if isinstance(item, dict) and "use" in item:
            for key, value in item.get("with", {}).items():
                if key not in {"join", "over", "approved", "else"}:
                    found += value if isinstance(value, list) else [value]
    return [name for name in found if isinstance(name, str)]


class Says:
    """A script in which a step sets outputs and flags: `{"chief#1": {"next": "a"}}`."""

    def __init__(self, sets: Mapping[str, Mapping[str, Any]]) -> None:
        self.sets = sets

    def __call__(self, order: CallRequest) -> CallModelResult | CallToolResult:
        wanted = self.sets.get(order.step, self.sets.get(order.step.partition("#")[0], {}))
        if order.call.tool is None:
            asked = [*wanted] if order.call.call == 1 else []
            return says(str(order.step), *(self._tool(key) for key in asked))
        key, value = list(wanted.items())[order.call.call - 2]
        if key.startswith("!"):
            return returns("ok", flags={key[1:]: value})
        return returns("ok", outputs=(OutputValue(key=key, value=value),))

    def _tool(self, key: str) -> str:
        return "set_flag" if key.startswith("!") else "set_output"


async def ran(
    flow: list[Any],
    sets: Mapping[str, Mapping[str, Any]] | None = None,
    agents: Mapping[str, Any] | None = None,
    **more: Any,
) -> Simulation:
    """The simulation of a crew; flags are written `!flag`."""
    return await run(lower(crew(flow, agents, **more)), Says(sets or {}))


def faults(definition: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = check(CrewDefinition.from_json(definition))
    return [(d.message, d.place, d.remedy) for d in found]


SUPERVISOR = {"use": "supervisor", "with": {"supervisor": "chief", "workers": ["a", "b"]}}
REVIEW = {"use": "review", "with": {"author": "a", "reviewer": "r"}}
SELF = {"w": {"pattern": {"use": "review_loop", "with": {"rounds": 2}}}}


# -- each builder alone ---------------------------------------------------------------------------


async def test_a_supervisor_sends_work_until_it_is_done() -> None:
    turns = {1: "b", 2: "a", 3: "a", 4: "done"}
    sets = {f"supervisor#{n}": {"next": to} for n, to in turns.items()}
    sim = await ran([SUPERVISOR, "z"], sets)
    assert sim.state.status == "completed"
    assert sim.ran() == [
        "supervisor#1", "b#1", "supervisor#2", "a#1", "supervisor#3", "a#2", "supervisor#4", "z#1",
    ]  # fmt: skip


async def test_a_supervisor_that_sends_too_often_asks_people() -> None:
    options = {**SUPERVISOR["with"], "at_most": 2}  # type: ignore[dict-item]
    sim = await ran([{"use": "supervisor", "with": options}, "z"], {"supervisor": {"next": "a"}})
    assert sim.ran() == ["supervisor#1", "a#1", "supervisor#2", "a#2", "supervisor#3"]
    assert sim.asked().question.startswith(
        "chief.next == 'a', and the run went to a 2 times, which"
    )
    await sim.answer("again")
    await sim.run()
    assert sim.ran()[5:7] == ["a#3", "supervisor#4"]


@pytest.mark.parametrize("says_next", [{}, {"next": "somebody"}])
async def test_a_supervisor_that_names_nobody_is_asked_again_and_then_people(
    says_next: dict[str, str],
) -> None:
    sim = await ran([SUPERVISOR, "z"], {"supervisor": says_next})
    assert sim.ran() == [f"supervisor#{n}" for n in (1, 2, 3, 4)]
    await sim.answer("continue")
    await sim.run()
    assert (sim.ran()[-1], sim.state.status) == ("z#1", "completed")


@pytest.mark.parametrize(
    ("join", "first"), [("all", ["a", "b", "c"]), ("any", ["b"]), (2, ["c", "a"])]
)
async def test_parallel_goes_on_when_enough_are_done(join: Any, first: list[str]) -> None:
    part = {"use": "parallel", "with": {"agents": ["a", "b", "c"], "then": "d", "join": join}}
    sim = await Simulation.begin(lower(crew([part, "z"])))
    await sim.finish(*(f"{ {'a': 'parallel'}.get(name, name) }#1" for name in first[:-1]))
    assert "d#1" not in sim.ran()
    await sim.finish(f"{ {'a': 'parallel'}.get(first[-1], first[-1]) }#1")
    assert "d#1" in sim.ran()
    await sim.run()
    assert sim.state.status == "completed"
    assert sorted(sim.ran()) == ["b#1", "c#1", "d#1", "parallel#1", "z#1"]


def test_map_reduce_has_a_step_for_each_item() -> None:
    part = {"use": "map_reduce", "with": {"over": "m.parts", "map": "w", "reduce": "r"}}
    plan = lower(crew(["m", part], {"r": {}, "w": {}}))
    assert plan.nodes["map_reduce"].for_each == "m.parts"  # type: ignore[index]
    assert plan.nodes["r"].join.of == ("map_reduce",)  # type: ignore[index, union-attr]
    assert plan.agents["m"].outputs == ("parts",)  # type: ignore[index]


async def test_a_pipeline_is_one_after_the_other() -> None:
    sim = await ran([{"use": "pipeline", "with": {"agents": ["a", "b", "c"]}}, "z"])
    assert sim.ran() == ["pipeline#1", "b#1", "c#1", "z#1"]


async def test_a_review_goes_back_until_the_flag_is_set() -> None:
    sets = {"r#1": {"!approved": False}, "r#2": {"!approved": True}}
    sim = await ran([REVIEW, "z"], sets)
    assert sim.ran() == ["review#1", "r#1", "review#2", "r#2", "z#1"]


@pytest.mark.parametrize(
    ("last", "status", "end"),
    [("ask_human", "running", "r#3"), ("next", "completed", "z#1"), ("end", "completed", "r#3"),
     ("fail", "failed", "r#3")],
)  # fmt: skip
async def test_a_review_that_never_ends_does_what_it_says(last: str, status: str, end: str) -> None:
    part = {"use": "review", "with": {**REVIEW["with"], "rounds": 2, "else": last}}  # type: ignore[dict-item]
    sim = await ran([part, "z"])
    assert (sim.state.status, sim.ran()[-1]) == (status, end)
    assert sim.ran()[:6] == ["review#1", "r#1", "review#2", "r#2", "review#3", "r#3"]


async def test_plan_execute_asks_for_the_plan_and_has_a_step_for_each() -> None:
    part = {"use": "plan_execute", "with": {"planner": "p", "executor": "e", "approve": True}}
    plan = lower(crew([part, "z"], {"p": {}, "e": {}}))
    assert plan.nodes["e"].for_each == "p.steps"  # type: ignore[index]
    sim = await run(plan)
    assert sim.ran() == ["p#1", "plan_execute.approve#1"]
    await sim.answer("fewer steps, please")
    await sim.run()
    assert sim.ran()[2:] == ["p#2", "plan_execute.approve#2"]
    await sim.answer("approve")
    assert "e#1" in (await sim.run()).ran() or "e" in str(sim.ran())


async def test_plan_execute_in_order_goes_on_while_there_is_more() -> None:
    options = {"planner": "p", "executor": "e", "in_order": True, "at_most": 3}
    sets = {"e#1": {"more": True}, "e#2": {"more": True}, "e#3": {"more": False}}
    sim = await ran([{"use": "plan_execute", "with": options}, "z"], sets, {"p": {}, "e": {}})
    assert sim.ran() == ["plan_execute#1", "e#1", "e#2", "e#3", "z#1"]
    sim = await ran(
        [{"use": "plan_execute", "with": options}, "z"], {"e": {"more": True}}, {"p": {}, "e": {}}
    )
    assert sim.state.interrupts
    assert sim.ran()[-1] == "e#4"


async def test_a_review_loop_inside_an_agent() -> None:
    sets = {"w.review#1": {"content": False}, "w.review#2": {"content": True}}
    sim = await ran(["w", "z"], sets, SELF)
    assert sim.ran() == ["w#1", "w.review#1", "w#2", "w.review#2", "z#1"]
    sim = await ran(["w", "z"], {"w.review": {"content": False}}, SELF)
    assert sim.ran() == ["w#1", "w.review#1", "w#2", "w.review#2", "w#3", "w.review#3", "z#1"]


@pytest.mark.parametrize(
    ("pattern", "steps"),
    [
        ("planner_executor", ["w#1", "w.execute#1", "z#1"]),
        ({"use": "planner_executor", "off": ["plan"]}, ["w#1", "z#1"]),
        ({"use": "review_loop", "off": ["review"]}, ["w#1", "z#1"]),
    ],
)
async def test_steps_of_a_pattern_can_be_off(pattern: Any, steps: list[str]) -> None:
    sim = await ran(["w", "z"], agents={"w": {"pattern": pattern}})
    assert sim.ran() == steps


# -- together -------------------------------------------------------------------------------------


async def test_two_of_a_kind_may_share_agents() -> None:
    second = {"use": "review", "with": {"author": "b", "reviewer": "r"}}
    definition = crew([REVIEW, second, "z"])
    assert [p.name for p in phases(expand(definition).definition)] == [
        "review", "r", "r.verdict", "review_2", "review_2.r", "review_2.r.verdict", "z",
    ]  # fmt: skip
    sets = {"r": {"!approved": True}, "review_2.r#1": {"!approved": False}}
    sim = await run(lower(definition), Says(sets | {"review_2.r#2": {"!approved": True}}))
    assert sim.ran() == [
        "review#1", "r#1", "review_2#1", "review_2.r#1", "review_2#2", "review_2.r#2", "z#1",
    ]  # fmt: skip


async def test_a_part_with_a_name_has_it_before_its_phases() -> None:
    first = {**SUPERVISOR, "phase": "build"}
    sets = {"build#1": {"next": "b"}, "build#2": {"next": "done"}}
    sim = await ran([first, {"agent": "b", "phase": "b"}, "z"], sets)
    assert sim.ran() == ["build#1", "build.b#1", "build#2", "b#1", "z#1"]


async def test_a_part_inside_a_loop_runs_again() -> None:
    back = {"if": "not q.fine", "go": "pipeline", "at_most": 3}
    flow = [{"use": "pipeline", "with": {"agents": ["a", "b"]}}, "q", back, "z"]
    sets = {"q#1": {"fine": False}, "q#2": {"fine": True}}
    sim = await ran(flow, sets, {"q": {"outputs": ["fine"]}})
    assert sim.ran() == ["pipeline#1", "b#1", "q#1", "pipeline#2", "b#2", "q#2", "z#1"]


async def test_a_part_that_begins_with_several_runs_them_all_again() -> None:
    part = {"use": "parallel", "with": {"agents": ["a", "b"], "then": "c"}}
    back = {"if": "not q.fine", "go": "parallel", "at_most": 3}
    sets = {"q#1": {"fine": False}, "q#2": {"fine": True}}
    sim = await ran(["s", part, "q", back, "z"], sets, {"q": {"outputs": ["fine"]}})
    assert sorted(sim.ran()[1:3]) == ["a#1", "b#1"]
    assert sorted(sim.ran()[5:7]) == ["a#2", "b#2"]
    assert sim.ran()[7:] == ["c#2", "q#2", "z#1"]
    assert sim.state.status == "completed"


async def test_a_part_that_is_only_sent_to_begins_whole() -> None:
    part = {"use": "parallel", "with": {"agents": ["a", "b"], "then": "c"}, "after": "go"}
    flow = ["s", {"if": "s.fork", "go": "parallel"}, {"agent": "x"}, part]
    sim = await ran(flow, {"s": {"fork": True}}, {"s": {"outputs": ["fork"]}})
    assert sorted(sim.ran()) == ["a#1", "b#1", "c#1", "s#1"]
    assert sim.state.status == "completed"


async def test_a_supervisor_in_a_loop_and_a_loop_back_to_a_pattern() -> None:
    back = {"if": "not q.fine", "go": "supervisor", "at_most": 2, "else": "w"}
    last = {"if": "not w.ok", "go": "w", "at_most": 1}
    agents = {"q": {"outputs": ["fine"]}, "w": {**SELF["w"], "outputs": ["ok"]}}
    sets = {
        "supervisor#1": {"next": "a"},
        "supervisor#2": {"next": "done"},
        "supervisor#3": {"next": "b"},
        "supervisor#4": {"next": "done"},
        "q#1": {"fine": False},
        "q#2": {"fine": True},
        "w.review": {"content": True},
    }
    sim = await ran([SUPERVISOR, "q", back, "w", last, "z"], sets, agents)
    assert sim.ran() == [
        "supervisor#1", "a#1", "supervisor#2", "q#1", "supervisor#3", "b#1", "supervisor#4", "q#2",
        "w#1", "w.review#1", "w#2", "w.review#2", "z#1",
    ]  # fmt: skip


async def test_a_pattern_beside_another_agent() -> None:
    sets = {"w.review#1": {"content": False}, "w.review#2": {"content": True}}
    for join, first in (("all", None), ("any", "a#1")):
        plan = lower(crew([{"parallel": ["w", "a"], "join": join}, "z"], SELF))
        sim = await Simulation.begin(plan, Says(sets))
        if first:
            await sim.finish(first)
            assert "z#1" in sim.ran()
        await sim.run()
        assert sorted(sim.ran()) == sorted(["w#1", "w.review#1", "w#2", "w.review#2", "a#1", "z#1"])
        assert sim.state.status == "completed"
        assert first or sim.ran()[-1] == "z#1"


async def test_after_a_part_is_after_the_whole_of_it() -> None:
    flow = [SUPERVISOR, {"agent": "x", "after": []}, {"agent": "z", "after": ["supervisor", "x"]}]
    plan = lower(crew(flow))
    assert plan.nodes["z"].join.of == ("chief.again", "x")  # type: ignore[index, union-attr]
    after_one = [SUPERVISOR, {"agent": "z", "after": {"any": ["a", "b"]}}]
    assert lower(crew(after_one)).nodes["z"].join.of == ("a", "b")  # type: ignore[index, union-attr]


async def test_a_worker_of_a_supervisor_may_have_a_pattern() -> None:
    agents = {"a": {"pattern": "review_loop"}}
    sets = {
        "supervisor#1": {"next": "a"}, "a.review": {"content": True},
        "supervisor#2": {"next": "done"},
    }  # fmt: skip
    sim = await ran([SUPERVISOR, {"agent": "z", "after": "supervisor"}], sets, agents)
    assert sim.ran() == ["supervisor#1", "a#1", "a.review#1", "supervisor#2", "z#1"]
    plan = lower(crew([SUPERVISOR, {"agent": "z", "after": "a"}], agents))
    assert plan.nodes["z"].join.of == ("a.verdict",)  # type: ignore[index, union-attr]


async def test_an_agent_with_a_pattern_in_two_phases_has_it_in_both() -> None:
    flow = ["w", {"agent": "w", "phase": "again"}, "z"]
    sim = await ran(flow, {"w.review": {"content": True}, "again.review": {"content": True}}, SELF)
    assert sim.ran() == ["w#1", "w.review#1", "again#1", "again.review#1", "z#1"]


# -- what a phase with a pattern says -------------------------------------------------------------


def pattern_of(phase: dict[str, Any], pattern: Any = "review_loop", **more: Any) -> Any:
    agents = {"w": {"pattern": pattern}, "m": {"outputs": ["list"], "writes_flags": ["ok"]}}
    return crew(["m", {"agent": "w", **phase}, "z"], agents, **more)


async def test_only_if_holds_for_all_of_a_pattern() -> None:
    sim = await run(lower(pattern_of({"only_if": "ok"})))
    assert [e["step"] for e in sim.facts("StepCompleted") if e.get("skipped")] == [
        "w#1", "w.review#1",
    ]  # fmt: skip
    assert sim.state.status == "completed"


async def test_when_is_waited_for_once_and_its_else_leaves_the_whole_pattern() -> None:
    plan = lower(pattern_of({"when": "ok", "else": "skip"}))
    assert plan.nodes["w.review"].when is None  # type: ignore[index]
    sim = await run(plan)
    assert sim.ran() == ["m#1", "z#1"]
    sim = await run(plan, Says({"m": {"!ok": True}, "w.review": {"content": True}}))
    assert sim.ran() == ["m#1", "w#1", "w.review#1", "z#1"]
    sim = await run(lower(pattern_of({"when": "ok", "else": "z"})))
    assert sim.ran() == ["m#1", "z#1"]


def test_needs_are_those_of_every_step() -> None:
    tools = {"t": {"run": "m:t"}}
    plan = lower(pattern_of({"needs": ["t"]}, tools=tools))
    assert [name for name, node in plan.nodes.items() if node.needs] == ["w", "w.review"]


@pytest.mark.parametrize(
    ("pattern", "each"), [("review_loop", ["w"]), ("planner_executor", ["w", "w.execute"])]
)
def test_for_each_is_at_the_steps_that_work(pattern: str, each: list[str]) -> None:
    plan = lower(pattern_of({"for_each": "m.list"}, pattern))
    assert [name for name, node in plan.nodes.items() if node.for_each] == each


# -- what builders of others make -----------------------------------------------------------------


def test_what_begins_and_ends_with_several_is_waited_for_whole() -> None:
    def expand_(options: Any, place: Place) -> list[Any]:
        return [["a", "b"], "c", ["d", "e"]]

    with registered("wide", expand_):
        plan = lower(crew([{"use": "wide"}, "z"], {n: {} for n in "abcde"}))
    assert plan.nodes["z"].join.of == ("wide.done",)  # type: ignore[index, union-attr]
    assert plan.nodes["wide.done"].join.of == ("d", "e")  # type: ignore[index, union-attr]
    assert not [rule for rule in plan.rules if "[]" in rule]


async def test_builders_may_use_builders() -> None:
    def expand_(options: Any, place: Place) -> list[Any]:
        return ["s", {"use": "review", "with": {"author": "a", "reviewer": "r"}}]

    with registered("outer", expand_):
        plan = lower(crew([{"use": "outer"}, "z"], {n: {} for n in "sar"}))
    sim = await run(plan, Says({"outer.review.r": {"!approved": True}}))
    assert sim.ran() == ["outer#1", "outer.review#1", "outer.review.r#1", "z#1"]


def test_a_builder_that_uses_itself_is_told() -> None:
    def expand_(options: Any, place: Place) -> list[Any]:
        return ["a", {"use": "forever"}]

    with registered("forever", expand_):
        found = faults(data([{"use": "forever"}], {"a": {}}))
    assert "is inside 8 other parts" in found[0][0]


def test_questions_and_decisions_without_names_get_those_of_the_part() -> None:
    def expand_(options: Any, place: Place) -> list[Any]:
        return ["a", {"ask": "Well?"}, {"if": "a.x", "go": "a", "at_most": 1}]

    with registered("asking", expand_):
        plan = lower(crew([{"ask": "First?"}, {"use": "asking"}], {"a": {"outputs": ["x"]}}))
    assert [*plan.nodes] == ["ask_1", "asking", "asking.ask_1", "asking.after_ask_1"]


# -- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flow", "message", "place", "remedy"),
    [
        ([{"use": "supervisr"}], "no builder is called 'supervisr'", "flow[0].use", "'supervisor'"),
        ([{"use": "review_loop"}], "is for an agent", "flow[0].use", "there"),
        ([{"use": "pipeline", "with": {"agents": ["a", "q"]}}], "the agent 'q'", "flow[0].with.agents[1]", "under"),
        ([{"use": "pipeline", "with": {"agents": ["a", "a"]}}], "'a' is named twice", "flow[0].with", ""),
        ([{"use": "pipeline", "with": {"agent": ["a"]}}], "needs the option 'agents'", "flow[0].with.agents", "agents"),
        ([{"use": "pipeline", "with": {"agents": []}}], "cannot use 'agents'", "flow[0].with.agents", "Its options"),
        ([{"use": "pipeline", "with": {"agents": ["a"], "agnts": 1}}], "no option 'agnts'", "flow[0].with.agnts", "'agents'"),
        ([{"use": "pipeline", "with": {"agents": ["a"]}, "after": "nope"}], "'pipeline' waits for the phase 'nope'", "flow[0].after", ""),
        ([{"use": "pipeline", "with": {"agents": ["z", "a"]}}, "a"], "the builder 'pipeline' makes one, and the flow has one", "flow[1].phase", "second.a"),
        ([REVIEW, {"use": "pipeline", "with": {"agents": ["z", "r"]}}], "the builder 'review' makes one", "flow[1].use", "phase: second"),
        ([{**SUPERVISOR, "phase": "end"}], "cannot be called 'end'", "flow[0].phase", "another"),
    ],
)  # fmt: skip
def test_faults_are_where_the_builder_is_used(
    flow: list[Any], message: str, place: str, remedy: str
) -> None:
    agents = {n: {} for n in ("a", "b", "r", "z", "chief")}
    given = data(flow, agents)
    given["agents"].pop("q", None)
    found = [f for f in faults(given) if "is in no phase" not in f[0]]
    assert [(message in f[0], f[1], remedy in f[2]) for f in found][:1] == [(True, place, True)], (
        found
    )


@pytest.mark.parametrize(
    ("pattern", "message", "place"),
    [
        ("review_lop", "no builder is called 'review_lop'", "agents.w.pattern.use"),
        ("supervisor", "is for the flow", "agents.w.pattern.use"),
        ({"use": "review_loop", "off": ["plan"]}, "has no step 'plan'", "agents.w.pattern.off"),
        ({"use": "review_loop", "with": {"rounds": 0}}, "cannot use 'rounds'", "agents.w.pattern.with.rounds"),
        ({"use": "planner_executor", "with": {"x": 1}}, "no option 'x'", "agents.w.pattern.with.x"),
    ],
)  # fmt: skip
def test_faults_of_patterns_are_at_the_agent(pattern: Any, message: str, place: str) -> None:
    twice = data(["w", {"agent": "w", "phase": "again"}], {"w": {"pattern": pattern}})
    ((said, where, _),) = faults(twice)
    assert message in said
    assert where == place


def test_what_the_phase_says_is_blamed_there_and_not_at_the_pattern() -> None:
    flow = ["m", {"agent": "w", "only_if": "nope", "needs": ["nix"], "after": "mm"}]
    found = faults(data(flow, {"m": {}, "w": {"pattern": "review_loop"}}))
    assert {place for _, place, _ in found} == {
        "flow[1].only_if", "flow[1].needs[0]", "flow[1].after",
    }  # fmt: skip


def test_a_block_is_blamed_for_its_own_after() -> None:
    block = {"parallel": ["w", "a"], "after": "nope"}
    ((said, place, _),) = faults(data(["m", block], {"w": {"pattern": "review_loop"}}))
    assert ("'nope'" in said, place) == (True, "flow[1].after")


def test_the_place_in_the_text_is_the_option() -> None:
    text = """\
crew: t
model: openai:x
agents: {a: {prompt: p}, chief: {prompt: p}}
flow:
  - use: supervisor
    with: {supervisor: chief, workers: [a, bb]}
"""
    with pytest.raises(InvalidDefinition) as raised:
        load_definition(text)
    (fault,) = raised.value.diagnostics
    assert (fault.line, fault.column) == (6, 44)
    assert "the agent 'bb'" in fault.message


def test_other_faults_are_told_beside_those_of_builders() -> None:
    given = data([{"use": "nix"}, "a"], {"a": {"tools": ["hammer"]}}, model="nonsense")
    said = " ".join(message for message, _, _ in faults(given))
    for part in ("no builder is called 'nix'", "the tool 'hammer'", "the model 'nonsense'"):
        assert part in said


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda o, p: 1 / 0, "failed: ZeroDivisionError"),
        (lambda o, p: [7], "returns what is no part of a flow: item 0"),
        (lambda o, p: [], "makes no phase"),
        (lambda o, p: None, "failed: TypeError"),
        (lambda o, p: Built([AgentPhase(agent="a")], last="b"), "has no phase 'b'"),
    ],
)
def test_a_builder_that_breaks_is_a_fault_of_its_own(made: Any, message: str) -> None:
    with registered("odd", made):
        found = faults(data([{"use": "odd"}], {"a": {}}))
    assert message in found[0][0]
    assert found[0][1] == "flow[0].use"


# -- size -----------------------------------------------------------------------------------------


def test_five_hundred_phases_are_expanded_in_a_fraction_of_a_second() -> None:
    def planners(count: int) -> CrewDefinition:
        agents = {f"a{i}": {"pattern": "planner_executor"} for i in range(count)}
        return CrewDefinition.from_json(data([*agents], agents))

    half, whole = planners(125), planners(250)
    assert len(expand(whole).definition.flow) == 500
    assert_within(0.3, lambda: expand(whole))
    # Twice as many should take twice as long; a square would be four times.
    assert growth(lambda: expand(half), lambda: expand(whole), tries=5) < 3.3


def test_every_builder_says_what_it_is_and_has_a_model() -> None:
    for builder in builders().values():
        assert builder.about
        assert builder.options.model_json_schema()["type"] == "object"
    assert build.__doc__
