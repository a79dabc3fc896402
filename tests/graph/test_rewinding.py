"""Going back to checkpoints, forking from them, and taking up what had ended: pure, on many crews.

A step has another name each time it is done, so the outcomes here follow from how often its node
was completed before: the same in a run that went back as in one that did not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from crewlog.errors import CommandRejected, UsageError
from crewlog.graph.engine import Engine
from crewlog.graph.plan import GraphPlan
from crewlog.graph.restore import fork, reopen, roll_back
from crewlog.graph.run_context import CallRequest
from crewlog.graph.swap.live_change import accept_change, change_report
from crewlog.ids import (
    ContentHash,
    RunId,
    child_step_id,
    child_step_log,
    item_number,
    node_of,
    step_id,
)
from crewlog.state import journal as j
from crewlog.state.calls import PrepareChangeResult
from crewlog.state.checkpoints import checkpoint_kind
from crewlog.state.fold import fold, fold_at_positions
from crewlog.state.model import ChildStepProgress, CrewState, FrontierStep, LogHead, Turn
from crewlog.state.recorder import Journal
from crewlog.state.restore import (
    checkpoint_length,
    fork_state,
    reopen_point,
    rollback_state,
    steps_without_interrupt,
)
from graph.crews import plan_of
from graph.simulation import (
    DOES,
    RUN,
    Failure,
    Outcome,
    RandomScript,
    Replies,
    Simulation,
    Witness,
    as_json,
    dice,
    folded,
    random_plan,
    says,
)

CREWS = 28
T = {"t": {"run": "m:f"}}
PLACES = 4
"""Checkpoints of each crew that are gone back to."""


@dataclass
class Logical:
    """A random script that calls a step by how often its node was completed before."""

    script: RandomScript
    sim: Simulation | None = None

    def __call__(self, order: CallRequest) -> Outcome:
        assert self.sim is not None
        node = node_of(order.step)
        visit = step_id(node, self.sim.state.routing.completed.get(node, 0) + 1)
        number = item_number(order.step)
        step = child_step_id(visit, number) if number else visit
        return self.script(order._replace(step=step))


def simulation(plan: GraphPlan, engine: Engine, seed: int) -> Simulation:
    script = Logical(RandomScript(plan, seed))
    # Ids of commands that another simulation of the run has not sent.
    script.sim = sim = Simulation(
        engine, script, dice(seed), _commands=engine.state.position * 1000
    )
    return sim


async def begun(plan: GraphPlan, seed: int) -> Simulation:
    journal = Witness(CrewState(run=RUN))
    engine = await Engine.begin(plan, RUN, input_text="Go.", by="eve", at=1, journal=journal)
    return simulation(plan, engine, seed)


def _next(sim: Simulation) -> tuple[str, int]:
    """The call that lands next: by what the run is, and not by when it was made."""
    ranks = {step: at for at, step in enumerate(sim.state.frontier)}
    return min(sim.flights, key=lambda key: (ranks.get(key[0], -1), key[1]))


async def forward(sim: Simulation, rounds: int = 400) -> list[int]:
    """Goes on to the end; people take the first option that does not ask again.

    Returns the positions between two moves.
    """
    rests: list[int] = []
    for _ in range(rounds):
        await sim.settle()
        sim.launch()
        rests.append(sim.state.position)
        if sim.flights:
            await sim.land(_next(sim))
        elif sim.state.is_ended:
            return rests
        elif sim.state.status == "paused":
            await sim.command("resume")
        elif not sim.state.interrupts:  # time passes
            sim.ring()
        else:
            question = next(iter(sim.state.interrupts.values()))
            elsewhere = {"again", *sim.engine.plan.nodes}  # or it would go round for ever
            choice = next((o for o in question.options if o not in elsewhere), "words")
            await sim.answer(choice, question.id)
    raise AssertionError(f"it does not end: {sim.state.frontier}")


def end_of(state: CrewState) -> str:
    """What a run came to, without names of steps, positions and times."""
    outputs = {
        agent: {
            key: [o.value, o.body, o.items, [(p.value, p.body) for p in o.elements]]
            for key, o in sorted(found.items())
            # What is composed names its step, which has another name then.
            if not (key == "text" and agent.endswith(DOES))
        }
        for agent, found in sorted(state.agent_outputs.items())
    }
    logs = {log: head.length for log, head in state.messages.items() if "#" not in log}
    routing = state.routing.to_json()
    facts = [state.status, state.flags, outputs, logs, routing, state.steps, state.error_type]
    return json.dumps(facts, sort_keys=True, default=str)


def places_of(journal: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """The checkpoints of a journal: their positions, and those of their states."""
    entries = [j.entry_from_json(entry) for entry in journal]
    found: list[tuple[int, int]] = []
    for at in range(len(entries)):
        count = checkpoint_length(entries[at : at + 100])
        if count is not None:
            found.append((at + 1, at + count))
    return found


async def test_an_entry_names_the_first_one_of_its_transaction() -> None:
    kinds: set[str] = set()
    for seed in range(CREWS):
        sim = await begun(random_plan(dice(seed), pooled=seed % 2 == 1, routed=True), seed)
        await forward(sim)
        ids = [entry.get("transaction", at) for at, entry in enumerate(sim.journal, 1)]
        for at, (previous, entry) in enumerate(pairwise(sim.journal), 2):
            assert ids[at - 1] in (at, ids[at - 2]), "a transaction has no gap"
            if entry["kind"] == "NodesReached" and "source" in entry:
                # The state between the two would wait for ever.
                assert ids[at - 1] == ids[at - 2]
                assert previous["kind"] == "StepCompleted"
            if entry["kind"] in ("StepStarted", "ParentStepStarted", "CommandRejected"):
                assert ids[at - 1] == at
            if ids[at - 1] != at:
                kinds.add(entry["kind"])
    assert {"StepCompleted", "NodesReached", "InterruptRaised"} <= kinds


async def test_forward_again_from_any_checkpoint_ends_the_same() -> None:
    kinds: set[str] = set()
    for seed in range(CREWS):
        plan = random_plan(
            dice(seed), does=seed % 2 == 1, pooled=seed % 4 > 1, routed=seed % 5 == 4
        )
        sim = await begun(plan, seed)
        rests = await forward(sim)
        states = sim.engine.journal.states  # type: ignore[attr-defined]
        rng = dice(f"places/{seed}")
        places = places_of(sim.journal)
        assert places[0][0] == 1 + [e["kind"] for e in sim.journal].index("NodesReached")
        chosen = rng.sample(places, min(PLACES, len(places)))
        chosen += [p for p in places if any(map(item_number, states[p[1] - 1].frontier))][:2]
        for to, at in chosen:
            later = [rest for rest in rests if rest >= at and not states[rest - 1].is_ended]
            if not later:
                continue
            now: CrewState = states[rng.choice(later) - 1]
            engine = Engine(plan, Witness(now))
            engine.at = 10_000
            roll_back(engine, to, states[at - 1], plan, by="ana", command="back")
            again = simulation(plan, engine, seed)
            kinds |= {e.status for e in engine.state.frontier.values()}
            kinds |= {"question" for _ in engine.state.interrupts}
            kinds |= {"item" for step in engine.state.frontier if item_number(step)}
            assert engine.state.commands["back"].ok
            assert not set(engine.state.frontier) & set(states[at - 1].frontier)
            await forward(again)
            assert end_of(again.state) == end_of(sim.state), (seed, to)
            assert_visits_are_new(sim.journal[: now.position], again.engine.journal.entries)
            assert_folds([*sim.journal[: now.position], *again.engine.journal.entries], again)
    assert {"running", "question", "item", "ready", "waiting"} <= kinds


def assert_visits_are_new(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    started = [e["step"] for e in before if e["kind"] in ("StepStarted", "StepCompleted")]
    again = [e["step"] for e in after if e["kind"] in ("StepStarted", "StepCompleted")]
    assert not set(started) & set(again)


def assert_folds(journal: list[dict[str, Any]], sim: Simulation) -> None:
    assert as_json(folded(journal)) == as_json(sim.state)


async def test_a_fork_from_any_checkpoint_ends_as_the_run_did() -> None:
    for seed in range(CREWS):
        plan = random_plan(dice(seed), pooled=seed % 3 == 0, routed=seed % 5 == 1)
        sim = await begun(plan, seed)
        await forward(sim)
        states = sim.engine.journal.states  # type: ignore[attr-defined]
        places = places_of(sim.journal)
        for _, at in dice(f"fork/{seed}").sample(places, min(PLACES, len(places))):
            then: CrewState = states[at - 1]
            run = RunId("other")
            journal = Witness(CrewState(run=run, position=at))
            engine = fork(plan, then, run, by="ana", at=10_000, journal=journal)
            made = engine.state
            assert (made.run, made.started_at, made.recipe) == (run, 10_000, then.definition)
            assert made.source is not None
            assert (made.source.run, made.source.position) == (RUN, at)
            assert made.messages == then.messages
            assert list(made.frontier) == list(then.frontier)
            assert not any((made.usage, made.commands, made.tags, made.changes))
            again = simulation(plan, engine, seed)
            await forward(again)
            assert end_of(again.state) == end_of(sim.state), (seed, at)
            state = CrewState(run=run, position=at)
            for entry in engine.journal.entries:
                state = fold(state, j.entry_from_json(json.loads(json.dumps(entry))))
            assert as_json(state) == as_json(again.state)


async def test_a_run_that_was_stopped_anywhere_goes_on_and_ends_the_same() -> None:
    stopped = 0
    for seed in range(CREWS):
        plan = random_plan(dice(seed), pooled=seed % 3 == 0, routed=seed % 5 == 1)
        sim = await begun(plan, seed)
        rests = await forward(sim)
        states = sim.engine.journal.states  # type: ignore[attr-defined]
        rng = dice(f"stop/{seed}")
        for rest in rng.sample(rests, min(PLACES, len(rests))):
            now: CrewState = states[rest - 1]
            if now.is_ended or now.status == "paused":
                continue
            halted = simulation(plan, Engine(plan, Witness(now)), seed)
            question = next(iter(now.interrupts.values()), None)
            if question is not None and "stop" in question.options:
                await halted.answer("stop", question.id)
            else:
                await halted.command("stop")
            await halted.settle()
            assert halted.state.status == "stopped"
            journal = [*sim.journal[:rest], *halted.engine.journal.entries]
            again = taken_up(plan, journal, halted.state, seed)
            assert list(again.state.frontier) == list(now.frontier)
            assert again.state.interrupts == now.interrupts
            assert again.state.execution == now.execution + 1
            await forward(again)
            assert end_of(again.state) == end_of(sim.state), (seed, rest)
            assert_folds([*journal, *again.engine.journal.entries], again)
            stopped += 1
    assert stopped > CREWS


def taken_up(
    plan: GraphPlan, journal: list[dict[str, Any]], ended: CrewState, seed: int
) -> Simulation:
    entries = [j.entry_from_json(entry) for entry in journal]
    found = reopen_point(RUN, list(enumerate(entries, 1))[-300:])
    then = fold_at_positions(folded(journal[: found.position]), found.later_entries)
    engine = reopen(plan, Witness(ended), then, found, by="ana", at=20_000)
    return simulation(plan, engine, seed)


async def test_what_failed_and_ended_the_run_is_tried_once_more() -> None:
    plan = plan_of(["a", "b"], {"b": {"on_error": "fail"}})
    tries: list[int] = []

    def script(order: CallRequest) -> Outcome:
        if order.step == "b#1":
            tries.append(order.call.attempt)
            if order.call.attempt == 1:
                return Failure("no", "ModelRequestRejected")
        return says(f"{order.step} is done")

    sim = await begun(plan, 0)
    sim.script = script
    await forward(sim)
    assert sim.state.status == "failed"
    again = taken_up(plan, sim.journal, sim.state, 0)
    again.script = script
    assert not list(steps_without_interrupt(again.state))
    await forward(again)
    assert (again.state.status, again.state.error) == ("completed", "")
    assert tries == [1, 2]


async def test_people_are_asked_of_a_decision_that_failed_the_run() -> None:
    flow = ["a", {"if": "not ok", "go": "a", "at_most": 1, "else": "fail", "phase": "d"}, "b"]
    plan = plan_of(flow)
    sim = await begun(plan, 0)
    sim.script = lambda order: says(f"{order.step}")
    await forward(sim)
    assert sim.state.status == "failed"
    again = taken_up(plan, sim.journal, sim.state, 0)
    again.script = sim.script
    await again.settle()
    assert again.asked().options == ("continue", "again", "stop")
    await forward(again)
    assert again.state.status == "completed"
    assert again.ran() == ["b#1"]


async def test_a_no_that_ended_the_run_is_asked_again() -> None:
    plan = plan_of(["a", {"ask": "Go on?", "phase": "q"}, "b"])
    sim = await begun(plan, 0)
    sim.script = lambda order: says(f"{order.step}")
    await sim.run()
    await sim.answer("reject", "i1")
    await sim.settle()
    assert sim.state.status == "stopped"
    again = taken_up(plan, sim.journal, sim.state, 0)
    again.script = sim.script
    assert again.asked().id == "i1"
    await forward(again)
    assert again.state.status == "completed"


async def test_what_lands_after_the_answer_that_ends_the_run_is_not_done_again() -> None:
    plan = plan_of([["a", "b"], {"ask": "Go on?", "phase": "q"}], {"b": {"tools": ["t"]}}, tools=T)
    replies = {
        "a#1": [Failure("broke")],
        "b#1": [says("b works", "t"), Failure("broke")],
    }
    sim = await begun(plan, 0)
    sim.script = Replies(replies)
    await sim.finish("a#1", "b#1")
    await sim.answer("stop", "i1")
    await sim.land(("b#1", 2))  # it was too late to cancel it
    await sim.command("message", text="Wait.")
    await sim.settle()
    assert sim.state.status == "stopped"
    again = taken_up(plan, sim.journal, sim.state, 0)
    again.script = Replies({})
    assert list(again.state.interrupts) == ["i1"]
    await again.settle()
    again.launch()
    assert list(again.flights) == [("b#1", 3)]  # its model sees what the tool returned
    assert again.state.messages == sim.state.messages
    await again.answer("retry", "i1")
    await again.run()
    assert again.asked().kind == "ask"
    assert_folds([*sim.journal, *again.engine.journal.entries], again)


async def test_a_call_that_ended_the_run_is_made_again_by_a_yes_of_its_own() -> None:
    crew: dict[str, Any] = {"a": {"tools": ["t"], "on_error": "fail"}}
    plan = plan_of(["a"], crew, tools=T, approvals={"t": None})
    sim = await begun(plan, 0)
    sim.script = Replies({"a#1": [says("", "t")]}, {"t/2": Failure("broke")})
    await sim.run()
    await sim.answer("approve")
    await sim.run()
    assert sim.state.status == "failed"
    again = taken_up(plan, sim.journal, sim.state, 0)
    again.script = Replies({})
    await again.run()
    assert ("a#1", 2, 2) not in again.made
    assert again.asked().kind == "tool_approval"
    await again.answer("approve")
    await again.run()
    assert again.state.status == "completed"


async def test_two_answers_that_end_the_run_are_both_asked_again() -> None:
    flow = [{"parallel": [{"ask": "One?", "phase": "p"}, {"ask": "Two?", "phase": "q"}]}, "b"]
    plan = plan_of(flow)
    sim = await begun(plan, 0)
    await sim.run()
    await sim.answer("reject", "i1")
    await sim.answer("reject", "i2")
    await sim.command("stop")
    await sim.settle()
    again = taken_up(plan, sim.journal, sim.state, 0)
    assert list(again.state.interrupts) == ["i1", "i2"]
    assert list(again.state.frontier) == ["p#1", "q#1"]


async def test_a_change_that_a_run_was_ended_in_has_failed_when_it_is_taken_up() -> None:
    plan = plan_of(["a", "b"])
    sim = await begun(plan, 0)
    await sim.settle()
    sim.launch()
    other = PrepareChangeResult(plan=plan_of(["a", "c", "b"]).to_json())
    report, made = change_report(sim.engine, other)
    accept_change(sim.engine, made, report, by="eve")
    again = taken_up(plan, sim.journal, sim.state, 0)  # it was terminated while it drained
    assert [entry["kind"] for entry in again.journal] == ["SwapFailed", "RunReopened"]
    assert again.state.pending_change is None
    assert_folds([*sim.journal, *again.journal], again)


async def test_a_run_that_is_completed_is_not_taken_up() -> None:
    plan = plan_of(["a"])
    sim = await begun(plan, 0)
    sim.script = lambda order: says(f"{order.step}")
    await forward(sim)
    with pytest.raises(UsageError, match="completed: it has no work left") as refused:
        taken_up(plan, sim.journal, sim.state, 0)
    assert "crewlog fork sim@" in refused.value.remedy


async def test_a_run_without_a_crew_that_ends_or_swaps_does_not_go_back() -> None:
    plan = plan_of(["a", "b"])
    sim = await begun(plan, 0)
    then = sim.state
    await sim.command("stop")
    with pytest.raises(CommandRejected, match="the run is stopping"):
        roll_back(sim.engine, 3, then, plan, by="ana")
    assert sim.facts("RunRolledBack") == []


def test_a_paused_run_stays_paused_and_a_paused_checkpoint_does_not_pause() -> None:
    now = CrewState(run=RUN, position=9, status="paused", commands={})
    then = CrewState(run=RUN, position=5, status="running")
    assert rollback_state(now, then).state.status == "paused"
    assert rollback_state(then, now).state.status == "running"


def test_what_never_goes_back_stays_as_it_is() -> None:
    plan = plan_of(["a", "b"])
    engine = Engine(
        plan, Journal(CrewState(run=RUN, position=9, interrupt_count=4, execution=3, steps=7))
    )
    then = CrewState(
        run=RUN, position=5, interrupt_count=1, definition=engine.state.definition, steps=2
    )
    roll_back(engine, 5, then, plan, by="ana", reason="why", command="c1")
    state = engine.state
    assert (state.position, state.interrupt_count, state.execution, state.steps) == (10, 4, 3, 2)
    assert state.commands["c1"].position == 10
    (mutation,) = state.changes
    assert (mutation.what, mutation.by, mutation.position) == ("rolled back to 5", "ana", 10)


@pytest.mark.parametrize(("flow", "version"), [(["a", "b", "c"], 4), (["a", "b"], 3)])
def test_another_graph_is_another_version_and_other_rules_are_not(
    flow: list[str], version: int
) -> None:
    plan = plan_of(["a", "b"], {"a": {"max_calls": 3}})
    now = CrewState(run=RUN, position=9, graph_version=3, definition=ContentHash("new"))
    then = CrewState(run=RUN, position=5, graph_version=2, definition=ContentHash("old"))
    engine = Engine(plan_of(flow), Journal(now))
    roll_back(engine, 5, then, plan, by="ana")
    assert engine.state.graph_version == version
    assert engine.state.definition == "old"
    assert engine.plan.agents["a"].max_calls == 3  # type: ignore[index]


def test_items_and_what_is_held_go_by_the_new_names() -> None:
    visit, item = step_id("m", 1), child_step_id(step_id("m", 1), 2)  # type: ignore[arg-type]
    held = {
        "kind": "ToolCallCompleted",
        "step": item,
        "ref": {"body": "h", "logs": [child_step_log(item)]},
    }
    turn = Turn.from_json({"calls": [{"call": 3, "status": "buffered", "completion": [held]}]})
    frontier = {
        visit: FrontierStep(
            step=visit, node=node_of(visit), child_steps=ChildStepProgress(of=2, started=2)
        ),
        item: FrontierStep(step=item, node=node_of(item), parent=visit, item=2, turn=turn),
    }
    head = LogHead(head="x", length=2)  # type: ignore[arg-type]
    then = CrewState(
        run=RUN,
        frontier=frontier,
        messages={child_step_log(item): head},
        visits={node_of(visit): 1},
    )
    now = CrewState(run=RUN, visits={node_of(visit): 4})
    state = rollback_state(now, then).state
    assert list(state.frontier) == ["m#5", "m#5.2"]
    assert state.messages == {"private:m#5.2": head}
    calls = state.frontier["m#5.2"].turn.calls  # type: ignore[index, union-attr]
    assert calls[0].completion[0]["step"] == "m#5.2"
    assert calls[0].completion[0]["ref"]["logs"] == ["private:m#5.2"]
    assert state.visits == {"m": 5}
    assert state.frontier["m#5.2"].parent == "m#5"  # type: ignore[index]


def test_a_step_whose_node_is_gone_is_not_taken_up_again() -> None:
    gone = FrontierStep(step="g#1", node="g", status="running", is_detached=True)  # type: ignore[arg-type]
    asked = {"id": "i1", "kind": "step_failed", "question": "?", "step": "g#1"}
    then = CrewState.from_json(
        {"run": RUN, "frontier": {"g#1": gone.to_json()}, "interrupts": {"i1": asked}}
    )
    back = rollback_state(then, then)
    assert (back.state.frontier, back.questions) == ({}, ())


def test_what_was_queued_behind_a_step_that_is_not_taken_up_moves_up() -> None:
    gone = {"step": "g#1", "node": "g", "status": "running", "is_detached": True}
    behind = [{"step": f"g#{n}", "node": "g", "status": "queued"} for n in (2, 3)]
    frontier = {entry["step"]: entry for entry in (gone, *behind)}
    then = CrewState.from_json({"run": RUN, "frontier": frontier, "visits": {"g": 3}})
    for made in (rollback_state(then, then), fork_state(then, RunId("other"))):
        statuses = [entry.status for entry in made.state.frontier.values()]
        assert statuses == ["ready", "queued"]


@pytest.mark.parametrize(
    ("entries", "count"),
    [
        ([], None),
        ([{"kind": "NodesReached"}], 1),
        ([{"kind": "NodesReached", "because": "people started it"}], None),
        ([{"kind": "NodesReached", "source": "a"}], None),
        ([{"kind": "StepStarted", "step": "a#1"}], None),
        ([{"kind": "StepCompleted", "step": "a#1"}], 1),
        ([{"kind": "StepCompleted", "step": "a#1"}, {"kind": "RunCompleted"}], 1),
        (
            [
                {"kind": "StepCompleted", "step": "a#1"},
                {"kind": "NodesReached", "source": "a", "transaction": 7},
                {"kind": "StepStarted", "step": "b#1"},
                {"kind": "StepStarted", "step": "c#1", "transaction": 9},
            ],
            2,
        ),
        (
            [
                {"kind": "StepCompleted", "step": "a#1", "transaction": 6},
                {"kind": "MergeFailed", "merge": "m", "other": "o", "reason": "", "transaction": 6},
                {"kind": "RunFailed", "error": "", "transaction": 6},
            ],
            None,
        ),
        (
            [
                {"kind": "StepCompleted", "step": "a#1", "transaction": 6},
                {"kind": "StopRequested", "transaction": 6},
                {"kind": "RunStopped"},
            ],
            None,
        ),
        (
            [
                {"kind": "RunReopened", "to": 3, "state": {}},
                {"kind": "StepRetried", "step": "b#1", "transaction": 7},
                {"kind": "StepStarted", "step": "b#1"},
            ],
            2,
        ),
    ],
)
def test_a_checkpoint_has_what_follows_from_it(
    entries: list[dict[str, Any]], count: int | None
) -> None:
    assert checkpoint_length([j.entry_from_json(entry) for entry in entries]) == count


def test_whatever_is_listed_as_a_beginning_can_be_gone_back_to() -> None:
    for because in ("", "people started it", "a#1 handed off"):
        entry = j.NodesReached(because=because)
        assert (checkpoint_kind("NodesReached", None, because) is None) == (
            checkpoint_length([entry]) is None
        )


async def test_answers_of_calls_that_were_under_way_are_not_applied() -> None:
    plan = plan_of(["a", "b"])
    sim = await begun(plan, 0)
    sim.script = lambda order: says(f"{order.step}")
    then = sim.state
    await sim.settle()
    sim.launch()
    roll_back(sim.engine, 3, then, plan, by="ana")
    position = sim.state.position
    await sim.land(("a#1", 1))
    assert sim.state.position == position
    await forward(sim)
    assert sim.ran() == ["a#1", "a#2", "b#1"]
    assert sim.made == [("a#1", 1, 1), ("a#2", 1, 1), ("b#1", 1, 1)]
