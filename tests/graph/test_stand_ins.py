"""Stand-ins: a step that fails, or that takes too long, and the phase that runs in its place."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_data
from crewlog.definition.model import AgentPhase
from crewlog.definition.operations import EditPhase, RemovePhase
from crewlog.definition.phases import phases
from crewlog.definition.write import to_yaml
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.compiler import compile_plan
from crewlog.graph.plan import GraphPlan, PlanNode
from crewlog.graph.timers import TIMEOUT
from crewlog.ids import AgentName, NodeName, item_number
from crewlog.reporting.diff.plan import plan_diff
from crewlog.reporting.drawing.mermaid import mermaid
from crewlog.reporting.drawing.terminal import terminal_drawing
from crewlog.reporting.explanation import explain
from graph.crews import crew, plan_of
from graph.simulation import (
    Failure,
    RandomScript,
    Replies,
    Simulation,
    as_json,
    dice,
    folded,
    random_plan,
    returns,
    run,
    says,
)

MINUTE = 60_000
AFTER = {"agent": "printer", "after": {"any": ["vendor", "archive"]}}
ARCHIVE: dict[str, Any] = {"agent": "archive", "after": "go"}
ASKS = {"vendor": {"tools": ["ask_it"], "outputs": ["price"]}}
TOOL = {"ask_it": {"run": "m:f"}}


def flow(**more: Any) -> list[Any]:
    """`vendor`, for which `archive` stands in, and `printer` after either of them."""
    return [{"agent": "vendor", "on_error": "archive"} | more, ARCHIVE, AFTER]


async def hanging(items: list[Any], script: Any = None, **more: Any) -> Simulation:
    """A run in which the first call of `vendor` is under way and does not end."""
    sim = await Simulation.begin(plan_of(items, **more), script or Replies({}), timers=False)
    await sim.settle()
    return sim


def fails() -> Replies:
    """The first step of `vendor` fails for good."""
    return Replies({"vendor#1": [Failure("gone", "ModelRequestRejected")]})


# -- a step that fails ---------------------------------------------------------------------------


async def test_a_stand_in_runs_where_a_step_fails() -> None:
    sim = await run(plan_of(flow()), fails())
    assert sim.ran() == ["vendor#1", "archive#1", "printer#1"]
    assert sim.state.status == "completed"
    (failed,) = sim.facts("StepFailed")
    assert (failed["step"], failed["error_type"]) == ("vendor#1", "ModelRequestRejected")
    (ended, *_) = sim.facts("StepCompleted")
    assert (ended["step"], ended["because"]) == ("vendor#1", "failed: gone")
    routed = next(each for each in sim.facts("NodesReached") if each.get("source") == "vendor")
    assert (routed["outcome"], routed.get("arrived", [])) == (["archive"], [])
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_no_stand_in_runs_where_no_step_fails() -> None:
    sim = await run(plan_of(flow()))
    assert sim.ran() == ["vendor#1", "printer#1"]
    assert not sim.facts("TimerStarted"), "a step without a timeout sets no timer"


async def test_the_error_is_an_output_and_its_readers_are_told() -> None:
    items = flow()
    items[2] = AFTER | {"only_if": "vendor.error"}
    sim = await run(plan_of(items), fails())
    assert sim.ran()[-1] == "printer#1"
    output = sim.state.agent_outputs["vendor"]["error"]  # type: ignore[index]
    assert output.value == "gone"
    (said,) = (m for m in sim.facts("MessageAdded") if m["by"] == "crew")
    assert said["ref"]["inline"]["content"] == "vendor failed: ModelRequestRejected"


@pytest.mark.parametrize(
    ("policy", "status", "ran", "kinds"),
    [
        ("ask", "running", ["vendor#1"], ["step_failed"]),
        ("fail", "failed", ["vendor#1"], []),
        ("continue", "completed", ["vendor#1", "printer#1"], []),
    ],
)
async def test_a_phase_has_a_policy_of_its_own(
    policy: str, status: str, ran: list[str], kinds: list[str]
) -> None:
    other = {"ask": "continue", "fail": "continue", "continue": "fail"}[policy]
    items = [{"agent": "vendor", "on_error": policy}, "printer"]
    sim = await run(plan_of(items, {"vendor": {"on_error": other}}), fails())
    assert (sim.state.status, sim.ran()) == (status, ran)
    assert [asked.kind for asked in sim.state.interrupts.values()] == kinds


async def test_a_phase_without_a_policy_has_that_of_its_agent() -> None:
    sim = await run(plan_of(["vendor", "printer"], {"vendor": {"on_error": "continue"}}), fails())
    assert sim.ran() == ["vendor#1", "printer#1"]


async def test_what_an_earlier_visit_set_does_not_count() -> None:
    """The second visit of `vendor` fails: the price of the first one is null then."""
    items = [*flow(), {"if": "not ok", "go": "vendor", "at_most": 1}]
    offers = {"set_it": returns(outputs=({"key": "price", "value": 5},))}
    script = Replies({"vendor#1": [says("", "set_it")], "vendor#2": [Failure("gone")]}, offers)
    agents = {"vendor": {"outputs": ["price"], "tools": ["set_it"]}}
    sim = await run(plan_of(items, agents, tools={"set_it": {"run": "m:f"}}), script)
    assert sim.ran() == ["vendor#1", "printer#1", "vendor#2", "archive#1", "printer#2"]
    assert sim.state.agent_outputs["vendor"]["price"].value is None  # type: ignore[index]
    assert sim.state.status == "completed"


async def test_one_item_that_fails_fails_the_visit() -> None:
    """The other items are cancelled, and the stand-in runs once."""
    items = [
        "maker",
        {"agent": "vendor", "for_each": "maker.list", "on_error": "archive"},
        ARCHIVE,
        AFTER,
    ]
    lists = {"put": returns(outputs=({"key": "list", "value": [1, 2, 3]},))}
    script = Replies({"maker#1": [says("", "put")], "vendor#1.2": [Failure("gone")]}, lists)
    agents = {"maker": {"outputs": ["list"], "tools": ["put"]}}
    merge = {"vendor.text": "append"}
    plan = plan_of(items, agents, tools={"put": {"run": "m:f"}}, merge=merge)
    sim = await Simulation.begin(plan, script)
    await sim.finish("maker#1", "maker#1", "maker#1")
    await sim.finish("vendor#1.1", "vendor#1.2")
    cancelled = [each["step"] for each in sim.facts("StepCancelled")]
    assert cancelled == ["vendor#1.2", "vendor#1.3"]
    await sim.run()
    assert sim.ran()[-2:] == ["archive#1", "printer#1"]
    assert sim.state.status == "completed"
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_a_stand_in_for_a_step_within_a_pattern() -> None:
    """A pattern makes several steps: where one fails, the stand-in runs, and no further step."""
    plan = plan_of(flow(), {"vendor": {"pattern": "planner_executor"}})
    first, *_ = (name for name in plan.nodes if str(name).startswith("vendor"))
    sim = await run(plan, Replies({f"{first}#1": [Failure("gone")]}))
    assert sim.ran() == [f"{first}#1", "archive#1", "printer#1"]
    assert sim.state.status == "completed"


# -- a step that takes too long ------------------------------------------------------------------


async def test_a_step_that_takes_too_long_gives_way() -> None:
    sim = await hanging(flow(timeout="10m"))
    sim.launch()
    entry = sim.state.frontier["vendor#1"]  # type: ignore[index]
    (set_,) = sim.facts("TimerStarted")
    assert (entry.status, entry.deadline, set_["deadline"]) == (
        "running",
        set_["at"] + 10 * MINUTE,
        entry.deadline,
    )
    assert sim.engine.timers.next_deadline() == entry.deadline
    sim.ring()
    await sim.settle()
    (failed,) = sim.facts("StepFailed")
    assert failed["error_type"] == TIMEOUT
    assert failed["error"] == "it took longer than its timeout of 10m"
    assert not sim.engine.waits_for_calls("vendor#1"), "its calls are cancelled"  # type: ignore[arg-type]
    await sim.run()
    assert sim.ran() == ["vendor#1", "archive#1", "printer#1"]
    assert sim.state.status == "completed"
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_a_step_that_ends_in_time_stops_its_timer() -> None:
    sim = await hanging(flow(timeout="10m"))
    await sim.finish("vendor#1")
    assert sim.engine.timers.next_deadline() is None
    assert (await sim.run()).ran() == ["vendor#1", "printer#1"]


async def test_people_are_asked_about_a_late_step_and_its_calls_are_made_again() -> None:
    sim = await hanging([{"agent": "vendor", "timeout": "10m"}, "printer"])
    sim.launch()
    sim.ring()
    await sim.settle()
    assert sim.asked().question == "vendor#1 failed: it took longer than its timeout of 10m"
    assert not sim.flights
    assert sim.engine.timers.next_deadline() is None, "no time runs while people think"
    await sim.answer("retry")
    await sim.settle()
    assert len(sim.facts("TimerStarted")) == 2, "the second try has all of the time again"
    sim.launch()
    assert sim.made == [("vendor#1", 1, 1), ("vendor#1", 1, 1)]
    sim.ring()
    await sim.settle()
    await sim.answer("skip")
    assert (await sim.run()).ran() == ["vendor#1", "printer#1"]
    assert sim.state.status == "completed"


@pytest.mark.parametrize(("policy", "status"), [("fail", "failed"), ("continue", "completed")])
async def test_a_late_step_takes_its_policy(policy: str, status: str) -> None:
    sim = await hanging([{"agent": "vendor", "timeout": "1m", "on_error": policy}, "printer"])
    sim.launch()
    sim.ring()
    await sim.run()
    assert sim.state.status == status


async def test_the_time_goes_on_while_people_approve_a_call() -> None:
    script = Replies({"vendor#1": [says("", "ask_it")]})
    items = flow(timeout="10m")
    sim = await hanging(items, script, agents=ASKS, tools=TOOL, approvals={"ask_it": None})
    await sim.finish("vendor#1")
    assert sim.asked().kind == "tool_approval"
    sim.ring()
    await sim.run()
    assert sim.facts("InterruptAnswered")[0]["decision"] == "withdrawn"
    assert not sim.state.interrupts
    assert sim.ran() == ["vendor#1", "archive#1", "printer#1"]


async def test_each_item_has_the_whole_time() -> None:
    items = [
        "maker",
        {"agent": "vendor", "for_each": "maker.list", "timeout": "1m", "on_error": "continue"},
        "printer",
    ]
    lists = {"put": returns(outputs=({"key": "list", "value": [1, 2]},))}
    agents = {"maker": {"outputs": ["list"], "tools": ["put"]}}
    plan = plan_of(items, agents, tools={"put": {"run": "m:f"}}, merge={"vendor.text": "append"})
    sim = await Simulation.begin(plan, Replies({"maker#1": [says("", "put")]}, lists), timers=False)
    await sim.finish("maker#1", "maker#1", "maker#1")
    assert [each["step"] for each in sim.facts("TimerStarted")] == ["vendor#1.1", "vendor#1.2"]
    await sim.finish("vendor#1.2")
    sim.ring()
    await sim.run()
    assert [each["step"] for each in sim.facts("StepFailed")] == ["vendor#1.1"]
    assert sim.ran()[-1] == "printer#1"
    assert sim.state.status == "completed"


# -- what a timer survives -----------------------------------------------------------------------


async def test_a_restored_run_keeps_the_time_of_a_step() -> None:
    sim = await hanging(flow(timeout="10m"))
    due = sim.state.frontier["vendor#1"].deadline  # type: ignore[index]
    sim.engine.timers.fire(due)  # rung in an execution that ends before it could say so
    await sim.restore()
    await sim.settle()
    assert sim.engine.timers.next_deadline() == due
    sim.ring()
    await sim.run()
    assert sim.ran() == ["vendor#1", "archive#1", "printer#1"]
    assert len(sim.facts("TimerStarted")) == 1


async def test_a_paused_run_fails_a_late_step_once_it_is_resumed() -> None:
    sim = await hanging(flow(timeout="10m"))
    await sim.command("pause")
    sim.ring()
    await sim.settle()
    assert not sim.facts("StepFailed")
    await sim.command("resume")
    await sim.settle()
    assert sim.facts("StepFailed")[0]["error_type"] == TIMEOUT


async def test_a_change_keeps_the_time_of_a_step_and_may_take_it_away() -> None:
    sim = await hanging(flow(timeout="10m"))
    due = sim.state.frontier["vendor#1"].deadline  # type: ignore[index]
    report = await sim.change(plan_of([*flow(timeout="1m"), "last"]))
    assert {each.effect for each in report.steps} == {"kept"}
    await sim.settle()
    assert sim.engine.timers.next_deadline() == due, "the time that was set stays"
    await sim.change(plan_of([*flow(), "last"]))
    await sim.settle()
    assert sim.engine.timers.next_deadline() is None


async def test_a_change_gives_a_step_at_work_a_time_and_a_stand_in() -> None:
    """The way to the stand-in is in the graph that the run goes on with."""
    sim = await hanging(["vendor", "printer"])
    await sim.change(plan_of(flow(timeout="10m")))
    await sim.settle()
    assert sim.engine.timers.next_deadline() is not None
    sim.launch()
    sim.ring()
    await sim.run()
    assert sim.ran() == ["vendor#1", "archive#1", "printer#1"]
    assert sim.state.status == "completed"


SEEDS = range(40)


def standing(seed: int) -> GraphPlan:
    """A crew at random, some of whose steps may take only so long and have a stand-in."""
    rng, plan = dice(f"stands/{seed}"), random_plan(dice(seed), pooled=seed % 3 == 0)
    spare = NodeName("spare")
    policies = ["spare", "spare", "ask", "continue", ""]
    nodes = {
        name: node.model_copy(
            update={"timeout": rng.choice([None, 0.002, 60.0]), "on_error": rng.choice(policies)}
        )
        if node.kind == "agent"
        else node
        for name, node in plan.nodes.items()
    }
    stand_in = PlanNode(kind="agent", agent=AgentName("last"))
    return plan.model_copy(update={"nodes": {**nodes, spare: stand_in}})


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_runs_with_stand_ins_end_and_fold_to_their_state(seed: int) -> None:
    plan, rng = standing(seed), dice(f"time/{seed}")
    script = RandomScript(plan, seed)
    sim = await Simulation.begin(
        plan, script, seed=seed, people=True, restore_at=lambda drain: drain % 2 == 0
    )
    for _ in range(400):
        if (
            sim.state.status == "running"
            and sim.engine.timers.next_deadline()
            and rng.random() < 0.2
        ):
            sim.ring()
        if await sim.round():
            break
    else:
        await sim.command("stop")
        await sim.settle()
    assert sim.state.is_ended
    assert as_json(folded(sim.journal)) == as_json(sim.state)
    ended = [each["step"] for each in sim.facts("StepCompleted") + sim.facts("StepCancelled")]
    assert len(ended) == len(set(ended)), "no step ends twice"


async def test_the_random_runs_use_stand_ins_and_timeouts() -> None:
    """The seeds above have each of what this file is about."""
    found: set[str] = set()
    for seed in SEEDS:
        plan, rng = standing(seed), dice(f"time/{seed}")
        sim = await Simulation.begin(plan, RandomScript(plan, seed), seed=seed, people=True)
        for _ in range(200):
            if (
                sim.state.status == "running"
                and sim.engine.timers.next_deadline()
                and rng.random() < 0.2
            ):
                sim.ring()
            if await sim.round():
                break
        late = [each for each in sim.facts("StepFailed") if each["error_type"] == TIMEOUT]
        found |= {"late item" if item_number(each["step"]) else "late step" for each in late}
        found |= {"stands in" for step in sim.ran() if step.startswith("spare#")}
        found |= {"again" for each in sim.facts("StepRetried") if each.get("call") is None}
    assert found == {"late item", "late step", "stands in", "again"}


# -- definitions ---------------------------------------------------------------------------------


def test_what_is_written_is_read_again() -> None:
    definition = crew(flow(timeout="10m"))
    text = to_yaml(definition)
    assert "{agent: vendor, timeout: 10m, on_error: archive}" in text
    assert load_data(definition.to_json()) == definition


@pytest.mark.parametrize(
    ("items", "place", "message", "remedy"),
    [
        (flow(on_error="archiv"), "flow[0].on_error", "names the phase 'archiv', which is not in",
         "Did you mean 'archive'?"),
        (flow(on_error="vendor"), "flow[0].on_error", "cannot stand in for itself", "'retry'"),
        (flow(on_error="skip"), "flow[0].on_error", "cannot be 'skip'", "on_error: continue"),
        (flow(on_error="ask_human"), "flow[0].on_error", "cannot be 'ask_human'", "on_error: ask"),
        ([flow()[0], "archive", "printer"], "flow[0].on_error", "which waits for vendor",
         "Add 'after: go' to archive"),
        ([flow()[0], ARCHIVE | {"on_error": "vendor"}, AFTER], "flow[1].on_error",
         "goes back to 'vendor' without a bound", "Name a phase from which"),
        ([*flow()[:2], {"agent": "printer", "after": ["vendor", "archive"]}], "flow[2].after",
         "never come together", "Wait for the first of them"),
    ],
)  # fmt: skip
def test_faults_name_the_place_and_the_remedy(
    items: list[Any], place: str, message: str, remedy: str
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        crew(items)
    told = [each for each in caught.value.diagnostics if each.place == place]
    assert any(message in each.message and remedy in each.remedy for each in told), caught.value


def test_a_timeout_of_several_steps_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match="works by a pattern"):
        crew(flow(timeout="10m"), {"vendor": {"pattern": "review_loop"}})


def test_the_way_to_a_stand_in_is_drawn_compiled_and_explained() -> None:
    definition = crew(flow(timeout="10m"))
    plan = plan_of(flow(timeout="10m"))
    assert "vendor fails where a step of it takes more than 10m" in plan.rules
    assert "where vendor fails, archive runs instead" in plan.rules
    assert 'n0 -.->|"on error"| n1' in mermaid(plan)
    assert "vendor: where it fails, archive runs instead" in terminal_drawing(plan)
    drawn = compile_plan(plan).compile().get_graph()
    assert ("vendor", "archive") in {(edge.source, edge.target) for edge in drawn.edges}
    told = explain(definition, "vendor").model_dump_json()
    assert explain(definition, "vendor").limits["on_error"] == "archive", "the phase's own policy"
    assert "where it fails, archive runs instead" in told
    assert "fails where a step takes more than 10m" in told


def test_a_difference_tells_the_way_and_the_time() -> None:
    before = plan_of(["vendor", {"agent": "archive", "after": "vendor"}, AFTER])
    found = plan_diff(before, plan_of(flow(timeout="10m")))
    assert ("vendor", "archive", "on_error") in found.edges_added
    assert found.changed["vendor"] == ("timeout", "on_error")  # type: ignore[index]


def test_a_stand_in_that_is_removed_leaves_the_policy_of_the_agent() -> None:
    items = [*flow(), {"agent": "archive", "phase": "filing"}]
    without = apply_operations(crew(items), [RemovePhase(name="archive")])
    assert [item.stand_in for item in without.flow if isinstance(item, AgentPhase)] == [None] * 3
    assert [phase.name for phase in phases(without)] == ["vendor", "printer", "filing"]


def test_a_stand_in_that_is_renamed_still_stands_in() -> None:
    edited = apply_operations(crew(flow()), [EditPhase(name="archive", set={"phase": "old"})])
    assert edited.to_json()["flow"][0]["on_error"] == "old"  # type: ignore[index]
