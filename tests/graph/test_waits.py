"""Nodes that wait for a time, and conditions that are waited for so long and no longer."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.load import load_data
from crewlog.definition.times import duration_words, milliseconds, moment_words, parse_time
from crewlog.definition.write import to_yaml
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import Wait
from crewlog.graph.swap.report import swap_report
from crewlog.reporting.drawing.mermaid import mermaid
from crewlog.reporting.dry_run.runner import dry_run
from crewlog.reporting.explanation import explain
from graph.crews import crew, plan_of
from graph.simulation import Replies, Simulation, as_json, folded, returns, run, says

HOUR = 3_600_000
WAITS = ["a", {"wait": "2h"}, "b"]
READY: dict[str, Any] = {"a": {"writes_flags": ["ready"]}}


def bounded(**more: Any) -> list[Any]:
    """`b` waits an hour at most for a flag that `a` may set, which takes two."""
    late = {"agent": "b", "after": [], "when": "ready", "within": "1h"} | more
    return [{"wait": "2h", "phase": "pause"}, "a", late]


async def begin(flow: list[Any], agents: Any = None, **more: Any) -> Simulation:
    """A run up to where nothing but time goes on."""
    sim = await Simulation.begin(plan_of(flow, agents, **more), timers=False)
    return await sim.run()


def test_a_wait_is_a_node_of_its_own() -> None:
    nodes = plan_of(WAITS).nodes
    assert list(nodes) == ["a", "wait_1", "b"]
    assert nodes["wait_1"].kind == "wait"  # type: ignore[index]
    assert nodes["wait_1"].wait == Wait(seconds=7200)  # type: ignore[index]
    assert plan_of(WAITS).rules == (
        "a starts with the run",
        "wait_1 waits for a and 2h",
        "b waits for wait_1",
    )


def test_a_time_keeps_its_zone() -> None:
    until = {"wait_until": "2026-12-01T09:00:00+01:00", "phase": "morning"}
    (rule, *_) = lower(crew([until, "b"])).rules
    assert rule == "morning waits for 2026-12-01 09:00 +01:00"
    assert milliseconds("2026-12-01T09:00:00+01:00") == milliseconds("2026-12-01T08:00:00Z")
    assert moment_words(milliseconds("2026-12-01T09:00:00+01:00")) == "2026-12-01 08:00 UTC"
    assert parse_time("2026-12-01 09:00+00:00") == "2026-12-01T09:00:00Z"
    assert milliseconds("1900-01-01T00:00:00Z") == 1, "0 means that nothing is waited for"


@pytest.mark.parametrize(
    ("seconds", "words"), [(90, "90s"), (120, "2m"), (7200, "2h"), (86400, "1d"), (0.25, "0.25s")]
)
def test_durations_are_told_as_people_write_them(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


def test_what_is_written_is_read_again() -> None:
    flow = [
        {"wait": "2h"},
        ["a", {"wait_until": "2026-12-01T09:00:00+01:00", "phase": "morning", "only_if": "ok"}],
        {"agent": "b", "when": "ok", "within": "90m", "else": "skip"},
    ]
    definition = crew(flow)
    text = to_yaml(definition)
    assert "wait: 2h" in text
    assert "within: 90m" in text
    assert load_data(definition.to_json()) == definition


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"wait": "2h", "wait_until": "2026-12-01T09:00:00Z"}, "an item does one thing"),
        ({"wait": "tomorrow"}, "a duration is a number of seconds"),
        ({"wait": 0}, "longer than zero"),
        ({"wait": "5000d"}, "longer than ten years"),
        ({"wait_until": "2026-12-01T09:00:00"}, "it has no zone"),
        ({"wait_until": "09:00"}, "a time is like"),
        ({"wait_until": 9}, "a time is like"),
        ({"wait": None}, "exactly one of"),
        ({"agent": "b", "within": "2h"}, "there is no 'when'"),
    ],
)
def test_faults_say_what_is_wrong(item: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidDefinition, match=message):
        crew(["a", item])


async def test_a_wait_holds_what_follows_until_its_time() -> None:
    sim = await begin(WAITS)
    entry = sim.state.frontier["wait_1#1"]  # type: ignore[index]
    assert entry.status == "waiting"
    assert entry.deadline == sim.facts("StepStarted")[-1]["at"] + 2 * HOUR
    assert sim.ran() == ["a#1", "wait_1#1"]
    sim.ring()
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran() == ["a#1", "wait_1#1", "b#1"]
    assert [e["step"] for e in sim.facts("TimerFired")] == ["wait_1#1"]
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_the_timer_that_is_due_first_rings_first() -> None:
    flow = [{"parallel": [{"wait": "2h"}, {"wait": "1h"}, "a"], "join": "any"}, "b"]
    sim = await begin(flow)
    assert sim.state.routing.completed["b"] == 1, "nobody waits for a neighbour's timer"  # type: ignore[index]
    sim.ring()
    await sim.run()
    assert [e["step"] for e in sim.facts("TimerFired")] == ["wait_2#1"]
    sim.ring()
    await sim.run()
    assert sim.state.status == "completed"


async def test_a_time_that_is_over_is_rung_at_once() -> None:
    sim = await begin(["a", {"wait_until": "1970-01-01T00:00:00Z"}, "b"])
    assert sim.engine.timers.next_deadline() == 1, (
        "by a timer all the same: a replay must do the same"
    )
    sim.ring()
    assert (await sim.run()).state.status == "completed"


async def test_a_wait_that_does_not_hold_is_skipped() -> None:
    sim = await run(plan_of(["a", {"wait": "2h", "only_if": "ok"}, "b"]))
    assert not sim.facts("TimerStarted")
    assert sim.facts("StepCompleted")[1] | {"at": 0} == {
        "kind": "StepCompleted",
        "at": 0,
        "step": "wait_1#1",
        "because": "ok does not hold",
        "skipped": True,
    }


async def test_a_loop_waits_anew_each_time() -> None:
    flow = ["a", {"wait": "1h"}, {"if": "not ok", "go": "a", "at_most": 2}, "b"]
    sim = await run(plan_of(flow))
    dues = [e["deadline"] for e in sim.facts("TimerStarted")]
    assert len(dues) == 3
    assert dues[1] > dues[0] + HOUR


async def test_a_paused_run_goes_on_where_a_timer_ran_out() -> None:
    sim = await begin(WAITS)
    await sim.command("pause")
    sim.ring()
    await sim.settle()
    assert not sim.facts("TimerFired")
    assert sim.engine.timers.next_deadline() is None, "a timer that is over is not set again"
    await sim.command("resume")
    await sim.run()
    assert sim.state.status == "completed"


async def test_a_timer_survives_a_restore() -> None:
    sim = await begin(WAITS)
    due = sim.state.frontier["wait_1#1"].deadline  # type: ignore[index]
    sim.engine.timers.fire(due)  # rung in an execution that ends before it could say so
    await sim.restore()
    assert sim.engine.timers.next_deadline() == due
    sim.ring()
    await sim.run()
    assert sim.state.status == "completed"
    assert len(sim.facts("TimerStarted")) == len(sim.facts("TimerFired")) == 1


async def test_a_bound_ends_what_is_waited_for() -> None:
    sim = await begin(bounded(**{"else": "skip"}), READY)
    sim.ring()
    await sim.run()
    ended = sim.facts("StepCompleted")[0]
    assert ended["step"] == "b#1"
    assert ended["because"] == "ready did not come true within 1h"
    sim.ring()
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran() == ["pause#1", "a#1"]
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_a_bound_leads_to_an_alternative() -> None:
    flow = [*bounded(**{"else": "c"}), {"agent": "c", "after": "go"}]
    sim = await begin(flow, READY)
    sim.ring()
    await sim.run()
    assert "c#1" in sim.ran()
    assert "b#1" not in sim.ran()


async def test_a_bound_asks_people_and_the_condition_may_still_come() -> None:
    sim = await Simulation.begin(
        plan_of(bounded(), READY | {"b": {}}),
        Replies({"a#1": [says("", "set_flag")]}, {"set_flag": returns(flags={"ready": True})}),
        timers=False,
    )
    await sim.run()
    sim.ring()
    await sim.run()
    assert sim.asked().question == "b waits for ready, which did not come true within 1h."
    sim.ring()
    await sim.run()
    assert sim.facts("InterruptAnswered")[0]["decision"] == "withdrawn"
    assert sim.state.status == "completed"
    assert sim.ran() == ["pause#1", "a#1", "b#1"]


async def test_a_condition_that_comes_in_time_stops_the_clock() -> None:
    flow = [{"wait": "1m"}, "a", {"agent": "b", "after": [], "when": "ready", "within": "1h"}]
    sim = await Simulation.begin(
        plan_of(flow, READY),
        Replies({"a#1": [says("", "set_flag")]}, {"set_flag": returns(flags={"ready": True})}),
    )
    await sim.run()
    assert sim.state.status == "completed"
    assert [e["step"] for e in sim.facts("TimerFired")] == ["wait_1#1"]


async def test_people_can_send_the_run_on() -> None:
    sim = await begin(WAITS)
    sent = await sim.command("redirect", node="b")
    assert sent.error is None
    await sim.run()
    assert sim.state.status == "completed"
    assert not sim.facts("TimerFired")
    assert sim.ran() == ["a#1", "wait_1#1", "b#1"]


async def test_another_graph_keeps_a_wait_and_its_time() -> None:
    sim = await begin(WAITS)
    longer = swap_report(sim.engine.plan, plan_of(["a", {"wait": "2h"}, "b", "c"]), sim.state)
    (fate,) = longer.steps
    assert (fate.step, fate.effect) == ("wait_1#1", "kept")
    assert fate.progress.startswith("waits until 1970-01-01 02:00")
    assert not longer.remap.requirements
    without = swap_report(sim.engine.plan, plan_of(["a", "b"]), sim.state)
    (fate,) = (each for each in without.steps if each.step == "wait_1#1")
    assert fate.effect == "detached"


async def test_a_timer_that_is_set_goes_on_over_a_swap() -> None:
    sim = await begin(["a", {"wait": "1h"}, "b"])
    sim.timers = False
    await sim.run()
    (before,) = sim.state.frontier.values()
    await sim.change(plan_of(["a", {"wait": "1h"}, "b", "c"]))
    (entry,) = sim.state.frontier.values()
    assert (entry.status, entry.deadline, entry.since) == ("waiting", before.deadline, before.since)
    await sim.run()
    assert sim.engine.timers.next_deadline() == before.deadline
    assert len(sim.facts("TimerStarted")) == 1
    assert sim.ran() == ["a#1", entry.step]


async def test_a_dry_run_lets_time_pass() -> None:
    told = await dry_run(plan_of(WAITS))
    assert [step.node for step in told.steps] == ["a", "wait_1", "b"]
    assert told.end == "completed"


def test_pictures_and_explanations_say_how_long() -> None:
    assert '(["wait_1: 2h"])' in mermaid(plan_of(WAITS), {})
    assert explain(crew(WAITS), "wait_1").conditions == ("it waits 2h",)
    (told,) = explain(crew(bounded(), READY), "b").conditions
    assert told.startswith("once reached, it waits for at most 1h until ready")
