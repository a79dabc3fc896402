"""Another graph under a living run: each rule by itself."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.errors import ChangeConflict
from crewlog.graph.joins import counts_at
from crewlog.graph.plan import GraphPlan
from crewlog.graph.swap import live_change
from crewlog.graph.swap.report import SwapReport, permissions_after, swap_report
from crewlog.ids import AgentName, CommandId, NodeName
from crewlog.state import journal as j
from crewlog.state.calls import OutputValue, PrepareChangeResult
from crewlog.state.model import CrewState
from graph.crews import flutter, plan_of
from graph.simulation import RUN, Replies, Simulation, returns, says


async def begun(plan: GraphPlan, script: Any = None, *ended: str, **more: Any) -> Simulation:
    """A run in which these steps have made one call each; the others that may run are at work."""
    sim = await Simulation.begin(plan, *(() if script is None else (script,)), **more)
    await sim.settle()
    sim.launch()
    await sim.finish(*ended)
    return sim


def fates(report: SwapReport) -> dict[str, str]:
    return {fate.step: fate.effect for fate in report.steps}


def statuses(sim: Simulation) -> dict[str, str]:
    return {step: entry.status for step, entry in sim.state.frontier.items()}


def working(*steps: str) -> Replies:
    """These take two model calls and a tool: a change finds them in mid-turn."""
    return Replies({step: [says("wait", "set_flag")] for step in steps})


# -- the story of the Flutter app ------------------------------------------------------------


def without_backend(**audio: Any) -> GraphPlan:
    return plan_of(
        ["ui_designer", "aggregator", {"agent": "audio", "when": "models_ready"} | audio],
        flags={"ok": False, "models_ready": False},
    )


async def test_without_backend_the_aggregator_goes_on_and_audio_asks_for_what_it_requires() -> None:
    sim = await begun(flutter(), working("backend#1"))
    report = await sim.change(without_backend(), abandon=True)
    assert report.removed == ("backend",)
    assert fates(report) == {"ui_designer#1": "kept", "backend#1": "abandoned"}
    (found,) = report.blocked
    assert found.node == "audio"
    assert found.requirement == "models_ready"
    assert found.because == "only backend sets models_ready, and will not run"
    assert found.then == "people are asked"
    await sim.run()
    assert sim.ran() == ["ui_designer#1", "backend#1", "aggregator#1"]
    asked = sim.asked()
    assert asked.kind == "requirement"
    assert "models_ready" in asked.question
    await sim.answer("set")
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran()[-1] == "audio#1"


async def test_without_backend_audio_takes_its_alternative() -> None:
    sim = await begun(flutter(), working("backend#1"))
    report = await sim.change(without_backend(**{"else": "skip"}), abandon=True)
    assert [found.then for found in report.blocked] == ["it is skipped"]
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran() == ["ui_designer#1", "backend#1", "aggregator#1"]


async def test_backend_ends_its_turn_and_still_sets_what_audio_waits_for() -> None:
    replies = {"backend#1": [says("ready", "set_flag")]}
    script = Replies(replies, {"set_flag": returns(flags={"models_ready": True})})
    sim = await begun(flutter(), script)
    report = await sim.change(without_backend())
    assert fates(report) == {"ui_designer#1": "kept", "backend#1": "finishes"}
    assert report.blocked == ()
    await sim.run()
    assert sim.state.status == "completed"
    assert set(sim.ran()) == {"ui_designer#1", "backend#1", "aggregator#1", "audio#1"}
    assert sim.state.flags["models_ready"] is True
    assert [e["source"] for e in sim.facts("NodesReached") if "source" in e].count("backend") == 0


# -- steps -----------------------------------------------------------------------------------


LANES = [["a", "b"], "c"]


async def test_a_step_in_mid_turn_ends_its_turn_with_what_its_agent_had() -> None:
    old = plan_of(LANES, {"b": {"tools": ["read"]}}, tools={"read": {"run": "m:f", "timeout": 7}})
    sim = await begun(old, Replies({"b#1": [says("wait", "read")]}))
    report = await sim.change(plan_of(["a", "c"]))
    assert fates(report) == {"a#1": "detached", "b#1": "finishes"} | fates(report)
    assert sim.state.frontier["b#1"].is_detached
    plan = GraphPlan.from_json(sim.engine.plan.to_json())  # as it is carried
    step = sim.state.frontier["b#1"]
    assert plan.definition_hash_of(step) == old.definition != plan.definition
    tool = plan.plan_tool_of(step, "read")
    assert tool is not None
    assert tool.timeout == 7
    assert plan.plan_agent_of(step, "b") == old.agents["b"]
    await sim.restore()
    assert sim.engine.tools_of("b", "b#1") == ("read",)
    await sim.run()
    assert sim.state.status == "completed"
    assert [e["step"] for e in sim.facts("StepCompleted")].count("b#1") == 1
    assert [e["tool"] for e in sim.facts("ToolCallCompleted")] == ["read"]


async def test_what_is_handed_off_while_leaving_still_goes_there() -> None:
    tools = {"give": returns(goto=("d",))}
    agents = {"b": {"tools": ["give"]}}
    old = plan_of([["a", "b"], "c", "d"], agents, tools={"give": {"run": "m:f"}})
    sim = await begun(old, Replies({"b#1": [says("wait", "give")]}, tools))
    await sim.change(plan_of(["a", "c", "d"]))
    await sim.finish("b#1")
    assert "d#1" in sim.state.frontier


async def test_a_step_that_has_not_begun_is_kept_aside_and_comes_back() -> None:
    old = plan_of(["a", "b", "c"])
    sim = await Simulation.begin(old)
    await sim.settle()
    sim.launch()
    await sim.drain()
    assert statuses(sim) == {"b#1": "ready"}
    report = await sim.change(plan_of(["a", "c"]))
    assert fates(report) == {"b#1": "detached", "c#1": "starts"}
    assert statuses(sim) == {"c#1": "ready"}
    assert list(sim.state.detached_steps) == ["b#1"]
    report = await sim.change(old)
    assert fates(report) == {"b#1": "returns", "c#1": "retracted"}
    assert statuses(sim) == {"b#1": "ready"}
    assert not sim.state.detached_steps
    assert not sim.engine.plan.detached_steps
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "c#1"]


async def test_an_open_question_is_taken_back_with_its_step_and_asked_anew() -> None:
    old = plan_of(["a", {"ask": "Well?", "phase": "q"}, "c"])
    sim = await begun(old, None, "a#1")
    assert sim.asked().id == "i1"
    await sim.change(plan_of(["a", "c"]))
    assert not sim.state.interrupts
    assert statuses(sim) == {"c#1": "ready"}
    await sim.change(old)
    await sim.settle()
    assert sim.asked().id == "i2"
    await sim.answer("approve")
    await sim.run()
    assert sim.ran() == ["a#1", "q#1", "c#1"]


async def test_an_open_question_of_a_kept_node_stays_with_its_id() -> None:
    sim = await begun(plan_of(["a", {"ask": "Well?", "phase": "q"}, "c"]), None, "a#1")
    asked = sim.asked()
    await sim.change(plan_of(["a", {"ask": "Well?", "phase": "q"}, "c", "d"]))
    assert sim.asked() == asked
    await sim.change(plan_of(["a", {"ask": "Really?", "phase": "q"}, "c", "d"]))
    await sim.settle()
    assert sim.asked().question == "Really?"
    assert sim.ran() == ["a#1", "q#1"]


async def test_a_node_with_another_agent_is_another_node() -> None:
    old = plan_of(["a", {"agent": "b", "phase": "x"}, "c"], {"b": {"tools": ["t"]}}, tools=TOOLS)
    sim = await begun(old, Replies({"x#1": [says("wait", "t")]}), "a#1")
    report = await sim.change(plan_of(["a", {"agent": "n", "phase": "x"}, "c"]))
    assert fates(report) == {"x#1": "finishes", "x#2": "starts"}
    assert report.removed == report.added == ("x",)
    await sim.run()
    assert sim.ran() == ["a#1", "x#1", "x#2", "c#1"]
    assert sim.state.status == "completed"


TOOLS = {"t": {"run": "m:f"}}


async def test_items_at_work_end_and_no_others_start() -> None:
    plan = plan_of(
        ["p", {"agent": "m", "for_each": "p.list"}, "z"],
        {"p": {"outputs": ["list"]}, "m": {"tools": ["t"]}},
        tools=TOOLS,
        limits={"parallel": 2},
    )
    made = OutputValue(key="list", value=[1, 2, 3, 4, 5])
    replies = {"p#1": [says("so", "set_output")]} | {f"m#1.{n}": [says("x", "t")] for n in (1, 2)}
    sim = await begun(plan, Replies(replies, {"set_output": returns(outputs=(made,))}), "p#1")
    await sim.finish("p#1", "p#1")
    assert {"m#1", "m#1.1", "m#1.2"} == {*sim.state.frontier}
    report = await sim.change(plan_of(["p", "z"], {"p": {"outputs": ["list"]}}))
    assert fates(report) == {
        "m#1": "finishes",
        "m#1.1": "finishes",
        "m#1.2": "finishes",
        "z#1": "starts",
    }
    await sim.run()
    assert sim.state.status == "completed"
    assert {step for step in sim.ran() if "m#" in step} == {"m#1.1", "m#1.2"}


async def test_a_list_in_flight_is_kept_whole() -> None:
    flow: list[Any] = ["p", {"agent": "m", "for_each": "p.list"}, "z"]
    plan = plan_of(flow, {"p": {"outputs": ["list"]}}, limits={"parallel": 2})
    made = OutputValue(key="list", value=[1, 2, 3, 4, 5])
    script = Replies({"p#1": [says("x", "set_output")]}, {"set_output": returns(outputs=(made,))})
    sim = await begun(plan, script, "p#1")
    await sim.finish("p#1", "p#1", "m#1.2")
    await sim.change(plan_of([*flow, "y"], {"p": {"outputs": ["list"]}}, limits={"parallel": 2}))
    await sim.run()
    assert [step for step in sim.ran() if "m#" in step] == [f"m#1.{n}" for n in range(1, 6)]
    assert sim.ran()[-2:] == ["z#1", "y#1"]


# -- joins -----------------------------------------------------------------------------------


async def test_a_join_half_met_keeps_what_has_come() -> None:
    sim = await begun(plan_of([["a", "b"], "c"]), None, "a#1")
    await sim.change(plan_of([["a", "b", "n"], "c"]))
    assert counts_at(NodeName("c"), "abn", sim.state.routing) == {"a": 1, "b": 1, "n": 0}
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "n#1", "c#1"]


async def test_a_source_that_goes_lets_the_join_fire_and_one_that_comes_back_stops_it() -> None:
    old = plan_of([["a", "b"], "c"])
    sim = await begun(old, Replies({"b#1": [says("x", "t")]}), "a#1")
    report = await sim.change(plan_of(["a", "c"]), abandon=True)
    assert fates(report) == {"b#1": "abandoned", "c#1": "starts"}
    report = await sim.change(old)
    assert fates(report) == {"b#1": "returns", "c#1": "retracted"}
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "c#1"]
    assert sim.state.visits["c"] == 1


async def test_a_join_that_has_fired_does_not_fire_again_for_what_comes_late() -> None:
    old = plan_of([{"parallel": ["a", "b"], "join": "any"}, "c"])
    sim = await begun(old, None, "a#1")
    assert "c#1" in sim.state.frontier
    await sim.change(plan_of([["a", "b"], "c", "d"]))
    await sim.run()
    assert sorted(sim.ran()) == ["a#1", "b#1", "c#1", "d#1"]


async def test_a_node_put_before_one_that_has_not_begun_runs_first() -> None:
    sim = await begun(plan_of(["a", "c"]))
    await sim.drain()
    assert statuses(sim) == {"c#1": "ready"}
    report = await sim.change(plan_of(["a", "n", "c"]))
    assert fates(report) == {"c#1": "retracted", "n#1": "starts"}
    await sim.run()
    assert sim.ran() == ["a#1", "n#1", "c#1"]


async def test_a_node_put_before_one_that_has_begun_is_passed_and_said_to_be() -> None:
    sim = await begun(plan_of(["a", "c", "d"]), None, "a#1")
    report = await sim.change(plan_of(["a", "n", "c", "d"]))
    assert fates(report) == {"c#1": "kept"}
    assert "n does not run: the run has passed it" in report.notes
    await sim.run()
    assert sim.ran() == ["a#1", "c#1", "d#1"]


async def test_a_loop_keeps_its_visits_and_its_count() -> None:
    flow: list[Any] = ["w", "v", {"if": "not ok", "go": "w", "at_most": 3, "phase": "d"}, "z"]
    sim = await begun(plan_of(flow), None, "w#1", "v#1", "w#2")
    await sim.change(plan_of([*flow, "y"]))
    assert sim.state.routing.loops == {"d": 1}
    await sim.run()
    assert sim.ran() == ["w#1", "v#1", "w#2", "v#2", "w#3", "v#3", "w#4", "v#4", "z#1", "y#1"]


async def test_what_can_not_come_any_more_is_asked_about_and_never_passed_over() -> None:
    """A join that waited for one source waits for another one, which has gone elsewhere."""
    old = plan_of([["a", "b"], "c"])
    sim = await begun(old, None, "a#1")
    nodes = dict(old.nodes)
    never = nodes["a"].model_copy(update={"entry": False, "agent": "b"})
    join = nodes["c"].join
    assert join is not None
    waits = nodes["c"].model_copy(update={"join": join.model_copy(update={"of": ("b", "n")})})
    new = old.model_copy(
        update={"nodes": {"a": nodes["a"], "b": nodes["b"], "n": never, "c": waits}}
    )
    report = await sim.change(new)
    assert [(found.node, found.requirement) for found in report.blocked] == [("c", "n")]
    await sim.run()
    assert "c waits for n" in sim.asked().question


# -- rules, permissions, conflicts -----------------------------------------------------------


async def test_the_same_graph_needs_no_swap() -> None:
    tools = {"t": {"run": "m:f"}, "u": {"run": "m:g"}}
    sim = await begun(plan_of(["a", "c"], tools=tools))
    before = sim.state.frontier
    report = await sim.change(
        plan_of(["a", "c"], {"c": {"enabled": False}}, tools=tools, permissions={"u": []}, flags={})
    )
    assert not report.swap
    assert "c is switched off" in report.notes
    assert "nobody may call u" in report.notes
    assert sim.state.graph_version == 1
    assert sim.state.frontier == before
    assert sim.flights, "it did not drain"
    assert sim.engine.tools_of(AgentName("a")) == ("t",)
    (made,) = sim.state.changes
    assert (made.by, made.what, made.graph_version) == ("eve", "another crew", 1)
    await sim.run()
    assert sim.ran() == ["a#1"]


async def test_a_call_that_is_not_made_yet_follows_the_new_permissions() -> None:
    plan = plan_of(["a"], {"a": {"tools": ["t"]}}, tools=TOOLS)
    sim = await begun(plan, Replies({"a#1": [says("x", "t")]}))
    await sim.drain()
    await sim.change(plan_of(["a"], {"a": {"tools": ["t"]}}, tools=TOOLS, permissions={"t": []}))
    await sim.run()
    assert [e["tool"] for e in sim.facts("PermissionDenied")] == ["t"]
    assert ("a#1", 2, 1) not in sim.made


async def test_what_people_permitted_stays_where_the_plans_say_the_same() -> None:
    old = plan_of(["a", "c"], tools=TOOLS, permissions={"t": ["a"]})
    sim = await begun(old)
    sim.engine.record(j.ToolPermissionSet(tool="t", agents=("c",)))
    same = plan_of(["a", "c", "d"], tools=TOOLS, permissions={"t": ["a"]})
    assert permissions_after(old, same, sim.state) == {"t": ("c",)}
    other = plan_of(["a", "c", "d"], tools=TOOLS, permissions={"t": ["d"]})
    assert permissions_after(old, other, sim.state) == {"t": ("d", "c")}


async def test_a_change_of_a_tools_permission_returns_it_to_nobody_that_people_took_it_from() -> (
    None
):
    old = plan_of([["a", "b", "c"]], tools=TOOLS, permissions={"t": ["a", "b", "c"]})
    sim = await begun(old)
    sim.engine.record(j.ToolPermissionSet(tool="t", agents=("a",)))
    less = plan_of([["a", "b"]], tools=TOOLS, permissions={"t": ["a", "b"]})
    assert permissions_after(old, less, sim.state) == {"t": ("a",)}
    more = plan_of([["a", "b", "c", "d"]], tools=TOOLS, permissions={"t": ["a", "b", "d"]})
    assert permissions_after(old, more, sim.state) == {"t": ("a", "d")}
    everyone = plan_of([["a", "b", "c", "d"]], tools=TOOLS)
    assert permissions_after(old, everyone, sim.state) == {"t": ("a", "d")}
    sim.engine.record(j.ToolPermissionSet(tool="t", agents=None))
    assert permissions_after(old, less, sim.state) == {"t": ("a", "b")}


async def test_a_change_that_is_accepted_stands_in_the_way_of_others() -> None:
    sim = await begun(plan_of(["a", "c"]))
    prepared = PrepareChangeResult(plan=plan_of(["a", "b", "c"]).to_json())
    with pytest.raises(ChangeConflict, match="graph version 7, and the run has 1"):
        live_change.change_report(sim.engine, prepared, graph_version=7)
    with pytest.raises(ChangeConflict, match="and not to other"):
        live_change.change_report(sim.engine, prepared, expect="other")
    report, plan = live_change.change_report(sim.engine, prepared, graph_version=1)
    live_change.accept_change(sim.engine, plan, report, what="b is new", command=CommandId("x"))
    with pytest.raises(ChangeConflict, match="another change is pending: b is new"):
        live_change.change_report(sim.engine, prepared)
    assert list(sim.engine.pending_calls(())) == []
    await sim.land(("a#1", 1))
    await sim.settle()
    assert statuses(sim) == {"c#1": "ready"}, "what lands is applied, and nothing starts"
    sim.engine = live_change.swap(sim.engine).engine
    assert sim.state.graph_version == 2
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "c#1"]


async def test_a_swap_that_does_not_fit_leaves_the_run_as_it_was() -> None:
    sim = await begun(plan_of(["a", "c"]))
    prepared = PrepareChangeResult(plan=plan_of(["a", "b", "c"]).to_json())
    report, plan = live_change.change_report(sim.engine, prepared)
    live_change.accept_change(sim.engine, plan, report)
    await sim.drain()
    sim.engine.pending_plan = None
    frontier = sim.state.frontier
    engine = sim.engine
    sim.engine = live_change.swap(sim.engine).engine
    assert sim.engine is engine
    assert "the accepted change has no plan" in sim.facts("SwapFailed")[0]["error"]
    assert sim.state.frontier == frontier
    assert sim.state.pending_change is None
    await sim.run()
    assert sim.ran() == ["a#1", "c#1"]


async def test_a_run_that_ends_while_it_drains_says_that_the_change_did_not_come_about() -> None:
    sim = await begun(plan_of(["a", "c"]))
    report, plan = live_change.change_report(
        sim.engine, PrepareChangeResult(plan=plan_of(["a", "b", "c"]).to_json())
    )
    live_change.accept_change(sim.engine, plan, report)
    await sim.command("stop")
    await sim.settle()
    assert [entry["kind"] for entry in sim.journal][-2:] == ["SwapFailed", "RunStopped"]


async def test_a_paused_run_stays_paused_over_a_swap() -> None:
    sim = await begun(plan_of(["a", "c"]))
    await sim.command("pause")
    await sim.change(plan_of(["a", "b", "c"]))
    assert sim.state.status == "paused"
    assert sim.state.graph_version == 2
    await sim.command("resume")
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "c#1"]


def test_a_report_is_made_of_the_state_and_changes_nothing() -> None:
    report = swap_report(flutter(), flutter(), CrewState(run=RUN))
    assert not report.swap
    assert report.kept == tuple(flutter().nodes)
