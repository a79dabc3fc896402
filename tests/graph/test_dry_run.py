"""Dry runs: the real engine on an empty state, and the account of what it did."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from crewlog.errors import UsageError
from crewlog.graph.plan import GraphPlan
from crewlog.ids import NodeName
from crewlog.reporting.dry_run.runner import STEP_LIMIT, dry_run
from crewlog.reporting.dry_run.view import DryRunStepView, DryRunView
from graph.crews import flows, flutter, plan_of

LOOP = [
    "collector",
    "writer",
    "checker",
    {"if": "not approved", "go": "writer", "at_most": 2, "else": "ask_human"},
    {"agent": "publisher", "only_if": "approved"},
]
CHECKER: dict[str, Any] = {"checker": {"writes_flags": ["approved"], "outputs": ["score"]}}


def visits(found: DryRunView) -> list[str]:
    return [str(step.step) for step in found.steps]


def step(found: DryRunView, name: str) -> DryRunStepView:
    return next(each for each in found.steps if each.step == name)


async def test_each_visit_says_what_was_done_before_it() -> None:
    found = await dry_run(flutter())
    assert visits(found) == ["ui_designer#1", "backend#1", "aggregator#1", "audio#1"]
    assert [each.reason for each in found.steps] == [
        "starts with the run",
        "starts with the run",
        "ui_designer and backend are done",
        "aggregator is done",
    ]
    (waiting,) = found.steps[0].incomplete_joins
    assert (waiting.node, waiting.missing) == ("aggregator", ("backend",))
    assert found.end == "completed"
    assert not found.unreached_nodes


async def test_a_requirement_that_nothing_met_says_what_happens_then() -> None:
    found = await dry_run(flutter())
    (unmet,) = found.unmet_requirements
    assert unmet.requirement == "backend.models_ready"
    assert unmet.alternative == "people are asked: set it, skip this, or stop"
    (looked,) = step(found, "audio#1").conditions
    assert (looked.kind, looked.holds) == ("when", False)
    assert looked.values == {"backend.models_ready": None}
    (asked,) = found.interrupts
    assert (asked.kind, asked.step, asked.answer) == ("requirement", "audio#1", "set")


async def test_a_requirement_that_is_assumed_holds() -> None:
    found = await dry_run(flutter(), flags={"models_ready": True})
    assert not found.unmet_requirements
    assert not found.interrupts
    assert step(found, "backend#1").values == {"models_ready": True}
    (looked,) = step(found, "audio#1").conditions
    assert (looked.holds, looked.values) == (True, {"backend.models_ready": True})


async def test_a_requirement_that_is_not_met_may_skip_its_node() -> None:
    found = await dry_run(plan_of(["a", {"agent": "b", "when": "ok", "else": "skip"}, "c"]))
    assert found.unmet_requirements[0].alternative == "it is skipped, and what waits for it goes on"
    assert step(found, "b#1").outcome == "skipped"
    assert step(found, "c#1").reason == "b is done"
    assert not found.interrupts


async def test_another_node_takes_the_place_where_a_requirement_is_not_met() -> None:
    flow = [
        "a",
        {"agent": "b", "when": "ok", "else": "plan_b"},
        {"agent": "plan_b", "after": "go"},
        {"agent": "c", "after": {"any": ["b", "plan_b"]}},
    ]
    found = await dry_run(plan_of(flow))
    assert found.unmet_requirements[0].alternative == "plan_b runs in its place"
    assert step(found, "plan_b#1").reason == "in the place of b"
    found = await dry_run(plan_of(flow), flags={"ok": True})
    (never,) = found.unreached_nodes
    assert (never.node, never.reason) == ("plan_b", "it runs only in the place of b")


async def test_a_loop_ends_by_its_bound_and_asks() -> None:
    found = await dry_run(plan_of(LOOP, CHECKER))
    writers = [each for each in found.steps if each.node == "writer"]
    assert [each.reason for each in writers] == [
        "collector is done",
        "after_checker sends the run here",
        "after_checker sends the run here",
    ]
    decisions = [each for each in found.steps if each.kind == "decide"]
    assert [each.because for each in decisions[:2]] == ["time 1 of 2", "time 2 of 2"]
    assert [each.to for each in decisions] == [("writer",), ("writer",), ("publisher",)]
    assert all(each.conditions[0].values == {"approved": None} for each in decisions)
    (asked,) = found.interrupts
    assert (asked.step, asked.answer) == ("after_checker#3", "continue")
    skipped = step(found, "publisher#1")
    assert skipped.outcome == "skipped"
    assert not skipped.conditions[0].holds


async def test_what_is_assumed_decides() -> None:
    found = await dry_run(plan_of(LOOP, CHECKER), flags={"approved": True})
    assert "writer#2" not in visits(found)
    (looked,) = step(found, "after_checker#1").conditions
    assert (looked.holds, looked.values) == (False, {"approved": True})
    (looked,) = step(found, "publisher#1").conditions
    assert (looked.kind, looked.holds) == ("only_if", True)
    flow = ["checker", {"if": "checker.score < 0.8", "go": "checker", "at_most": 1}]
    found = await dry_run(plan_of(flow, CHECKER), outputs={"checker": {"score": 0.9}})
    assert visits(found) == ["checker#1", "after_checker#1"]
    assert step(found, "after_checker#1").conditions[0].values == {"checker.score": 0.9}


async def test_a_flag_that_no_agent_writes_is_there_from_the_start() -> None:
    plan = plan_of([{"agent": "a", "only_if": "ok"}])
    assert (await dry_run(plan)).steps[0].outcome == "skipped"
    assert (await dry_run(plan, flags={"ok": True})).steps[0].outcome == "done"


@pytest.mark.parametrize(
    ("assumed", "message", "remedy"),
    [
        ({"flags": {"aproved": True}}, "no flag 'aproved'", "Did you mean 'approved'?"),
        ({"outputs": {"chekcer": {"score": 1}}}, "no agent 'chekcer'", "Did you mean 'checker'?"),
        ({"outputs": {"checker": {"sore": 1}}}, "no output 'sore'", "Did you mean 'score'?"),
    ],
)
async def test_what_the_crew_does_not_have_cannot_be_assumed(
    assumed: dict[str, Any], message: str, remedy: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        await dry_run(plan_of(LOOP, CHECKER), **assumed)
    assert caught.value.remedy == remedy


STANDS_IN: list[Any] = [
    {"agent": "vendor", "timeout": "10m", "on_error": "archive"},
    {"agent": "archive", "after": "go"},
    {"agent": "printer", "after": {"any": ["vendor", "archive"]}},
]


async def test_a_step_that_is_assumed_to_fail_shows_what_stands_in() -> None:
    plan = plan_of(STANDS_IN)
    found = await dry_run(plan, errors={"vendor": "timeout"})
    assert visits(found) == ["vendor#1", "archive#1", "printer#1"]
    vendor, archive, printer = found.steps
    assert (vendor.outcome, vendor.because, vendor.to) == (
        "failed",
        "failed: timeout",
        ("archive",),
    )
    assert archive.reason == "in the place of vendor, which failed"
    assert printer.reason == "archive is done, the first of vendor and archive"
    assert found.errors == {"vendor": "timeout"}
    assert found.end == "completed"
    assert not found.interrupts


async def test_a_stand_in_is_not_reached_where_nothing_fails() -> None:
    found = await dry_run(plan_of(STANDS_IN))
    assert visits(found) == ["vendor#1", "printer#1"]
    (never,) = found.unreached_nodes
    assert (never.node, never.reason) == ("archive", "it runs only where vendor fails")


async def test_a_step_that_fails_is_asked_about_and_skipped() -> None:
    found = await dry_run(plan_of(["a", "b"]), errors={"a": "gone"})
    (asked,) = found.interrupts
    assert (asked.kind, asked.step, asked.answer) == ("step_failed", "a#1", "skip")
    assert visits(found) == ["a#1", "b#1"]
    failing = await dry_run(
        plan_of([{"agent": "a", "on_error": "fail"}, "b"]), errors={"a": "gone"}
    )
    assert (failing.end, failing.because) == ("failed", "a#1: gone")


async def test_a_phase_or_all_phases_of_an_agent_are_assumed_to_fail() -> None:
    flow = ["a", {"agent": "a", "phase": "again", "on_error": "continue"}, "b"]
    plan = plan_of(flow, {"a": {"on_error": "continue"}})
    found = await dry_run(plan, errors={"again": "gone"})
    assert [each.outcome for each in found.steps] == ["done", "failed", "done"]
    found = await dry_run(plan, errors={"a": "gone"})
    assert [each.outcome for each in found.steps] == ["failed", "failed", "done"]
    with pytest.raises(UsageError, match="no step 'again_' that could fail") as refused:
        await dry_run(plan, errors={"again_": "gone"})
    assert refused.value.remedy == "Did you mean 'again'?"


async def test_joins_say_who_came_first() -> None:
    flow = [{"parallel": ["a", "b", "c"], "join": "any"}, "d"]
    found = await dry_run(plan_of(flow))
    assert step(found, "d#1").reason == "a is done, the first of a, b and c"
    assert step(found, "b#1").incomplete_joins[0].missing == ()
    flow = [{"parallel": ["a", "b", "c"], "join": 2}, "d"]
    found = await dry_run(plan_of(flow))
    assert step(found, "d#1").reason == "a and b are done, 2 of 3"


async def test_questions_get_their_first_answer_and_a_way_back_is_taken_once() -> None:
    flow = ["a", {"ask": "Again?", "options": ["a", "go on", "stop"], "phase": "gate"}, "b"]
    found = await dry_run(plan_of(flow))
    assert [(each.node, each.answer) for each in found.interrupts] == [
        ("gate", "a"),
        ("gate", "go on"),
    ]
    assert visits(found) == ["a#1", "gate#1", "a#2", "gate#2", "b#1"]
    assert step(found, "a#2").reason == "the answer to gate sends the run here"


async def test_what_is_never_reached_has_a_reason() -> None:
    flow = [
        "a",
        {"if": "ok", "go": "fix", "at_most": 1, "phase": "look"},
        "b",
        {"if": "not ok", "go": "end", "phase": "leave"},
        "c",
        {"agent": "fix", "after": "go"},
        {"agent": "d", "after": {"any": ["c", "fix"]}},
    ]
    found = await dry_run(plan_of(flow))
    assert {each.node: each.reason for each in found.unreached_nodes} == {
        "c": "leave went elsewhere",
        "fix": "look sends the run here only where ok",
        "d": "waits for c and fix; c is never reached; fix is never reached",
    }


async def test_a_run_that_fails_and_one_that_is_cut_off_say_so() -> None:
    failing = ["a", {"if": "not ok", "go": "a", "at_most": 1, "else": "fail"}, "b"]
    found = await dry_run(plan_of(failing))
    assert found.end == "failed"
    assert "went to a 1 times" in found.because
    assert [each.node for each in found.unreached_nodes] == ["b"]
    assert found.unreached_nodes[0].reason == "after_a went elsewhere"
    loops = ["a", {"if": "not ok", "go": "a", "at_most": 100_000}]
    found = await dry_run(plan_of(loops), step_limit=20)
    assert (found.end, found.because) == ("cut", "it goes on after 20 steps")


MAP = ["planner", {"agent": "worker", "for_each": "planner.topics"}, "merge"]
PLANNER: dict[str, Any] = {"planner": {"outputs": ["topics"]}}


async def test_a_list_that_nobody_sets_is_a_requirement() -> None:
    found = await dry_run(plan_of(MAP, PLANNER))
    (unmet,) = found.unmet_requirements
    assert (unmet.node, unmet.requirement) == ("worker", "planner.topics")
    (asked,) = found.interrupts
    assert (asked.options[0], asked.answer) == ("again", "skip")
    assert visits(found) == ["planner#1", "worker#1", "merge#1"]


async def test_a_list_that_is_assumed_has_a_step_for_each_item() -> None:
    topics = {"planner": {"topics": ["a", "b", "c"]}}
    found = await dry_run(plan_of(MAP, PLANNER), outputs=topics)
    assert step(found, "worker#1").items == 3
    assert step(found, "merge#1").reason == "worker is done"
    assert (found.end, found.interrupts) == ("completed", ())
    none = await dry_run(plan_of(MAP, PLANNER), outputs={"planner": {"topics": []}})
    assert step(none, "worker#1").because == "planner.topics is empty"


async def test_what_is_switched_off_or_lacks_its_tools_is_skipped_with_the_reason() -> None:
    agents = {"b": {"tools": ["deploy"]}, "c": {"enabled": False}}
    more: dict[str, Any] = {"tools": {"deploy": {"run": "t:d"}}, "permissions": {"deploy": []}}
    found = await dry_run(plan_of(["a", {"agent": "b", "needs": ["deploy"]}, "c"], agents, **more))
    skipped = {each.node: each.because for each in found.steps if each.outcome == "skipped"}
    assert skipped["b"].startswith("it needs deploy: ")
    assert skipped["c"] == "c is switched off"


@given(flow=flows())
@settings(max_examples=60, deadline=None)
async def test_every_crew_has_a_bounded_dry_run_that_tells_of_every_node(flow: list[Any]) -> None:
    plan = plan_of(flow)
    found = await dry_run(plan)
    told(plan, found)
    assert await dry_run(plan) == found


def told(plan: GraphPlan, found: DryRunView) -> None:
    reached = {each.node for each in found.steps}
    never: set[NodeName] = {each.node for each in found.unreached_nodes}
    assert reached | never == set(plan.nodes)
    assert not reached & never
    assert all(each.reason for each in (*found.steps, *found.unreached_nodes))
    assert len([each for each in found.steps if each.kind == "agent"]) <= STEP_LIMIT + 64
    for each in found.steps:
        assert each.outcome != "open" or found.end != "completed"


def test_a_dry_run_is_json() -> None:
    import asyncio

    found = asyncio.run(dry_run(flutter()))
    assert DryRunView.model_validate_json(found.model_dump_json()) == found
