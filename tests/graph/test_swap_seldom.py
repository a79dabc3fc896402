"""Another graph under a living run: rules that seldom matter, each by itself."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from temporalio import workflow

from crewlog.graph.swap import live_change
from crewlog.graph.swap.report import permissions_after, swap_report
from crewlog.ids import AgentName, StepId
from crewlog.state import journal as j
from crewlog.state.calls import OutputValue, PrepareChangeResult, StructuredOutput
from crewlog.workflows.execution import Execution
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, returns, says
from graph.test_swap import begun, fates, statuses, working

TOOLS = {"t": {"run": "m:f"}}
LINE = ["a", "b", "c", "d"]


def after(agent: str, *sources: str) -> dict[str, object]:
    return {"agent": agent, "after": list(sources)}


# -- joins -----------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
async def test_what_comes_before_a_node_that_has_begun_does_not_run_it_again(known: bool) -> None:
    """Whether the node that is put before it is new, or was there and has not run."""
    sim = await begun(plan_of([after("a"), after("c"), *([after("b", "a")] if known else [])]))
    prepared = PrepareChangeResult(
        plan=plan_of([after("a"), after("b", "a"), after("c", "b")]).to_json()
    )
    report, plan = live_change.change_report(sim.engine, prepared)
    live_change.accept_change(sim.engine, plan, report)
    sim.engine, error = live_change.swap(sim.engine)  # both have begun, as after a cut
    assert error is None
    assert statuses(sim) == {"a#1": "running", "c#1": "running"}
    await sim.run()
    assert sim.ran() == ["a#1", "c#1", "b#1"]


@pytest.mark.parametrize("always", [True, False])
async def test_what_comes_again_before_a_node_that_has_run_runs_it_again(always: bool) -> None:
    """As it would if the node had come after it from the beginning."""
    lanes = [after("a"), after("b", "a"), after("c", *(["b"] if always else [])), after("x")]
    sim = await begun(plan_of(lanes), None, "a#1", "b#1")
    await sim.settle()
    sim.launch()
    await sim.finish("c#1")
    await sim.command("redirect", node="b", step="x#1", cut=True)
    await sim.settle()
    sim.launch()
    assert statuses(sim) == {"b#2": "running"}
    prepared = PrepareChangeResult(
        plan=plan_of([after("a"), after("b", "a"), after("c", "b")]).to_json()
    )
    report, plan = live_change.change_report(sim.engine, prepared)
    live_change.accept_change(sim.engine, plan, report)
    sim.engine = live_change.swap(sim.engine).engine
    await sim.run()
    assert sorted(sim.ran()) == ["a#1", "b#1", "b#2", "c#1", "c#2", "x#1"]


async def test_a_visit_that_people_sent_for_does_not_wait_for_the_new_join() -> None:
    sim = await begun(plan_of([after("a"), after("c"), after("d", "a")]), None, "a#1")
    await sim.settle()
    sim.launch()
    await sim.command("redirect", node="d", step="c#1", cut=True)
    assert statuses(sim) == {"d#1": "running", "d#2": "queued"}
    report = swap_report(
        sim.engine.plan, plan_of([after("b"), after("a"), after("d", "b")]), sim.state
    )
    assert fates(report) == {"d#1": "kept", "d#2": "kept", "b#1": "starts"}


# -- permissions -----------------------------------------------------------------------------


async def test_who_ends_a_turn_may_call_what_it_could_until_then() -> None:
    agents = {name: {"tools": ["t"]} for name in ("a", "b")}
    old = plan_of([["a", "b"]], agents, tools=TOOLS, permissions={"t": ["b"]})
    new = plan_of(["a"], agents, tools=TOOLS, permissions={"t": ["a"]})
    sim = await begun(old)
    leaving = [StepId("b#1")]
    assert permissions_after(old, new, sim.state, leaving) == {"t": ("a", "b")}
    assert permissions_after(old, new, sim.state) == {"t": ("a",)}
    sim.engine.record(j.ToolPermissionSet(tool="t", agents=("a",)))
    assert permissions_after(old, new, sim.state, leaving) == {"t": ("a",)}


async def test_what_people_permitted_to_who_is_long_gone_is_dropped() -> None:
    """At the first change the agent may still end a turn; at the next one nobody knows it."""
    agents = {name: {"tools": ["t"]} for name in LINE}
    rules = {"tools": TOOLS, "permissions": {"t": ["a"]}}
    sim = await begun(plan_of(["a", "b", "c"], agents, **rules))
    sim.engine.record(j.ToolPermissionSet(tool="t", agents=(AgentName("b"), AgentName("c"))))
    await sim.change(plan_of(["a", "c"], agents, **rules))
    assert sim.state.tool_permissions == {"t": ("b", "c")}
    await sim.change(plan_of(["a", "c", "d"], agents, **rules))
    assert sim.state.tool_permissions == {"t": ("c",)}


# -- questions -------------------------------------------------------------------------------


async def test_who_asked_to_be_asked_is_asked_when_the_node_comes_back() -> None:
    sim = await Simulation.begin(plan_of(["a", "b", "c"]))
    await sim.command("interrupt", node="b")
    await sim.run()
    assert (sim.asked().kind, sim.asked().step) == ("manual", "b#1")
    await sim.change(plan_of(["a", "c"]))
    assert [e["decision"] for e in sim.facts("InterruptAnswered")] == ["withdrawn"]
    assert sim.state.breakpoints == ("b",)
    await sim.change(plan_of(["a", "b", "c"]))
    await sim.settle()
    assert (sim.asked().kind, sim.asked().step) == ("manual", "b#1")


# -- where a run was sent --------------------------------------------------------------------


async def test_where_people_sent_a_run_may_be_gone_and_is_told() -> None:
    sim = await begun(plan_of(LINE), working("b#1"), "a#1")
    await sim.command("redirect", node="d")
    without = plan_of(["a", "b", "c"])
    told = "b#1: people redirected the run to d, which was removed; the run continues without it"
    assert swap_report(sim.engine.plan, without, sim.state).notes == (told,)
    # Its last model call is not made yet when the graph is swapped.
    await sim.land(("b#1", 1))
    report = await sim.change(without)
    assert report.notes == (told,)
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "c#1"]
    (ended,) = [e for e in sim.facts("StepCompleted") if e["step"] == "b#1"]
    (went,) = [e for e in sim.facts("NodesReached") if e.get("source") == "b"]
    assert (
        ended["because"] == went["because"] == "people redirected the run to d, which was removed"
    )


async def test_where_people_sent_a_run_counts_again_once_it_is_back() -> None:
    sim = await begun(plan_of(LINE), working("b#1"), "a#1")
    await sim.command("redirect", node="d")
    await sim.land(("b#1", 1))
    await sim.change(plan_of(["a", "b", "c"]))
    report = await sim.change(plan_of(LINE))
    assert report.notes == ()
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "d#1"]


async def test_where_a_tool_handed_off_may_be_gone_and_is_told() -> None:
    agents = {"b": {"tools": ["t", "u"]}}
    tools = TOOLS | {"u": {"run": "m:g"}}
    script = Replies({"b#1": [says("", "t", "u")]}, {"t": returns(goto=("d",))})
    sim = await begun(plan_of(LINE, agents, tools=tools), script, "a#1", "b#1")
    await sim.land(("b#1", 2))  # the other tool is still under way
    without = plan_of(["a", "b", "c"], agents, tools=tools)
    (told,) = swap_report(sim.engine.plan, without, sim.state).notes
    assert told.startswith("b#1: it handed off to d, which was removed")
    prepared = PrepareChangeResult(plan=without.to_json())
    report, plan = live_change.change_report(sim.engine, prepared)
    live_change.accept_change(sim.engine, plan, report)
    sim.engine = live_change.swap(sim.engine).engine
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "c#1"]
    (ended,) = [e for e in sim.facts("StepCompleted") if e["step"] == "b#1"]
    assert "it handed off to d, which was removed" in ended["because"]


FORM = {
    "type": "object",
    "properties": {"notes": {"type": "array"}, "verdict": {"type": "string"}},
}
MAKES = {"reply": {"schema": FORM, "tagged": {"notes": "to"}}, "tools": ["t"]}


@pytest.mark.parametrize(
    ("then", "now", "shares"),
    [
        ({"shares": ["public"]}, {"shares": ["public"]}, ()),
        ({"shares": ["public"]}, {"shares": []}, ("private:b",)),
        ({"shares": ["public"]}, {"shares": ["group:g"]}, ("private:b",)),
        ({"shares": ["group:g", "public"]}, {"shares": ["group:g"]}, ("group:g", "private:b")),
        ({"shares": []}, {"shares": ["public"]}, ("private:b",)),
        ({}, {"writes": ["group:g"]}, ("private:b",)),
        ({}, {"reply": None, "writes": []}, ("private:b",)),
        ({"shares": ["public"], "writes": ["group:g"]}, {"shares": ["public"], "writes": []}, ()),
        ({"shares": [], "writes": ["public", "group:g"]}, {"shares": []}, ("private:b",)),
    ],
)
async def test_what_lands_late_is_shared_as_the_crew_says_now(
    then: dict[str, Any], now: dict[str, Any], shares: tuple[str, ...]
) -> None:
    """All that a step sets whose node is gone: also what it hands on to all."""
    assert await landed(then, now) == {shares}


async def landed(then: dict[str, Any], now: dict[str, Any]) -> set[tuple[str, ...]]:
    """Whom what an agent says of a form is for, as it lands after its node has gone."""
    named = {"tools": TOOLS, "groups": {"g": ["a", "b"]}}
    outputs = (
        OutputValue(key="notes", value="for all", recipients=("all",)),
        OutputValue(key="verdict", value="good"),
    )
    script = Replies({"b#1": [says("", "t"), says("{}", reply=StructuredOutput(outputs=outputs))]})
    sim = await begun(plan_of([["a", "b"], "c"], {"b": MAKES | then}, **named), script)
    rules = {key: value for key, value in (MAKES | now).items() if value is not None}
    await sim.change(plan_of(["a", "c", {"agent": "b", "phase": "later"}], {"b": rules}, **named))
    assert sim.state.frontier[StepId("b#1")].is_detached
    await sim.finish("b#1", "b#1")
    facts = [each for each in sim.facts("OutputSet") if each["key"] in FORM["properties"]]
    assert [each.get("value") for each in facts] == [[], "for all", "good"]
    return {tuple(each.get("logs", ())) for each in facts}


# -- bugs ------------------------------------------------------------------------------------


async def test_why_a_swap_does_not_fit_is_logged_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sim = await begun(plan_of(["a", "c"]))
    report, plan = live_change.change_report(
        sim.engine, PrepareChangeResult(plan=plan_of(["a", "b", "c"]).to_json())
    )
    live_change.accept_change(sim.engine, plan, report)
    await sim.drain()

    def broken(*_: object, **__: object) -> None:
        raise KeyError("no such thing")

    monkeypatch.setattr(live_change, "swap_report", broken)
    monkeypatch.setattr(workflow.logger, "log_during_replay", True)  # what replays, a worker knows
    execution = Execution(sim.engine, [], task_queue="", search_attributes=False)
    with caplog.at_level(logging.ERROR):
        assert not execution._changes.swap()  # pyright: ignore[reportPrivateUsage]
    (said,) = [each for each in caplog.records if "could not be swapped for v2" in each.message]
    assert said.exc_info is not None
    assert "in broken" in (caplog.text)
    (failed,) = sim.facts("SwapFailed")
    assert failed["error"] == "KeyError: 'no such thing'"
    assert execution.engine is sim.engine


async def test_a_question_in_other_words_is_asked_anew() -> None:
    flow = [{"ask": "Go on?", "phase": "gate"}, "a"]
    sim = await (await Simulation.begin(plan_of(flow))).run()
    reworded = plan_of([{"ask": "Really?", "phase": "gate"}, "a"])
    report = swap_report(sim.engine.plan, reworded, sim.state)
    (fate,) = report.steps
    assert (fate.effect, fate.because, report.withdrawn) == ("kept", "is asked anew", ("i1",))
    other = swap_report(sim.engine.plan, plan_of([*flow, "b"]), sim.state)
    assert ([f.because for f in other.steps], other.withdrawn) == ([""], ())


# -- what is done ----------------------------------------------------------------------------

LOOP: list[Any] = [["a", "b"], "c", {"if": "not ok", "go": "a", "at_most": 2, "phase": "d"}, "e"]


async def test_a_join_fires_if_its_last_source_in_a_loop_goes() -> None:
    """`b` counts as done since the loop went back, and nothing else would make `c` run."""
    sim = await begun(plan_of(LOOP), working("a#2"), "a#1", "b#1", "c#1")
    assert statuses(sim) == {"a#2": "running"}
    without_a = ["b", "c", {"if": "not ok", "go": "b", "at_most": 2, "phase": "d"}, "e"]
    report = await sim.change(plan_of(without_a))
    assert fates(report) == {"a#2": "finishes", "c#2": "starts"}
    report = await sim.change(plan_of(LOOP))
    assert fates(report) == {"a#2": "returns", "c#2": "retracted"}


async def test_each_step_of_a_replaced_node_has_a_step_in_its_place() -> None:
    """Also the one that people sent the run to, for which no join has fired."""
    sim = await begun(plan_of(["x", {"agent": "b", "after": []}, {"agent": "c", "after": []}]))
    await sim.command("redirect", node="b", step="c#1", cut=True)
    assert statuses(sim) == {"x#1": "running", "b#1": "running", "b#2": "queued"}
    other = {"agent": "n", "phase": "b", "after": []}
    report = await sim.change(plan_of(["x", other, {"agent": "c", "after": []}]))
    assert [step for step, fate in fates(report).items() if fate == "starts"] == ["b#3", "b#4"]


async def test_a_passed_node_counts_as_done_only_while_it_is_passed() -> None:
    sim = await begun(plan_of(["a", "c", "d"]), None, "a#1")
    await sim.change(plan_of(["a", "n", "c", "d"]))
    assert (sim.state.routing.passed, sim.state.routing.arrivals["n"]) == (("n",), 1)
    await sim.change(plan_of(["a", "c", ["n", "d"]]))
    assert (sim.state.routing.passed, sim.state.routing.arrivals["n"]) == ((), 0)
    await sim.run()
    assert sorted(sim.ran()) == ["a#1", "c#1", "d#1", "n#1"]
