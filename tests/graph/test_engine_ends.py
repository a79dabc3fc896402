"""Nothing ends silently: what cannot come asks, and every answer does what it says."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.errors import CommandRejected, CrewlogError, InterruptNotOpen
from crewlog.graph.answers import answer, find_interrupt
from crewlog.graph.interrupts import StopAnswer, check_answer
from crewlog.graph.plan import GraphPlan
from crewlog.state import journal as j
from graph.crews import plan_of
from graph.simulation import Failure, Replies, Simulation, returns, run, says

ACT = {"act": {"run": "m:f"}}
WHEN: list[Any] = [{"agent": "a", "when": "ok"}, "b"]


async def waiting(plan: GraphPlan, script: Any = None) -> Simulation:
    """A run that has asked."""
    sim = await run(plan, script or Replies({}))
    assert sim.state.status == "running"
    assert len(sim.state.interrupts) == 1
    return sim


def lost() -> Replies:
    return Replies({"a#1": [says("", "act")]}, {"act/2": Failure("gone", "OutcomeUnknown")})


async def question(kind: str) -> Simulation:
    """A run that asks a question of that kind."""
    if kind == "requirement":
        return await waiting(plan_of(WHEN))
    if kind == "join":
        handoff = Replies({"a#1": [says("", "act")]}, {"act": returns(goto=("z",))})
        flow: list[Any] = [["a", "b"], "c", {"if": "ok", "go": "z"}, "end_"]
        return await waiting(plan_of([*flow, {"agent": "z", "after": "go"}], tools=ACT), handoff)
    if kind == "step_failed":
        return await waiting(plan_of(["a", "b"]), Replies({"a#1": [Failure("broke")]}))
    if kind == "outcome_unknown":
        return await waiting(plan_of(["a", "b"], tools=ACT), lost())
    if kind == "limit":
        return await waiting(plan_of(["a", "b", "c"], limits={"steps": 1}))
    if kind == "manual":
        sim = await Simulation.begin(plan_of(["a", "b"]))
        await sim.command("interrupt", node="b")
        return await sim.run()
    if kind == "decide":
        back = {"if": "not ok", "go": "a", "at_most": 1, "else": "ask_human"}
        return await waiting(plan_of(["a", back, "b"]))
    if kind == "flag":
        return await waiting(plan_of(["a", {"ask": "Ok?", "sets": "ok", "words": True}, "b"]))
    options = {"options": ["yes", "a", "no"]} if kind == "ask with a node" else {}
    return await waiting(plan_of(["a", {"ask": "Ok?"} | options, "b"]))


ANSWERS = [
    # kind of question, answer, status after it, steps after it
    ("requirement", "set", "completed", ["a#1", "b#1"]),
    ("requirement", "skip", "completed", ["b#1"]),
    ("requirement", "stop", "stopped", []),
    ("join", "go on", "completed", ["c#1", "end_#1"]),
    ("join", "end", "completed", []),
    ("join", "stop", "stopped", []),
    ("step_failed", "retry", "completed", ["b#1"]),
    ("step_failed", "skip", "completed", ["b#1"]),
    ("step_failed", "stop", "stopped", []),
    ("outcome_unknown", "done", "completed", ["b#1"]),
    ("outcome_unknown", "retry", "running", []),
    ("outcome_unknown", "in words", "completed", ["b#1"]),
    ("outcome_unknown", "stop", "stopped", []),
    ("limit", "go on", "running", ["b#1"]),
    ("limit", "stop", "stopped", []),
    ("manual", "go on", "completed", ["b#1"]),
    ("manual", "stop", "stopped", []),
    ("decide", "continue", "completed", ["b#1"]),
    ("decide", "again", "running", ["a#3"]),
    ("decide", "stop", "stopped", []),
    ("flag", "approve", "completed", ["b#1"]),
    ("flag", "reject", "completed", ["b#1"]),
    ("flag", "in words", "completed", ["b#1"]),
    ("flag", "b", "completed", ["b#1"]),
    ("flag", "stop", "stopped", []),
    ("ask", "approve", "completed", ["b#1"]),
    ("ask", "reject", "stopped", []),
    ("ask with a node", "yes", "completed", ["b#1"]),
    ("ask with a node", "a", "running", ["a#2", "ask_1#2"]),
    ("ask with a node", "no", "stopped", []),
]


@pytest.mark.parametrize(("kind", "decision", "status", "ran"), ANSWERS)
async def test_every_answer_to_every_question(
    kind: str, decision: str, status: str, ran: list[str]
) -> None:
    sim = await question(kind)
    before, asked = len(sim.ran()), sim.asked()
    taken = await sim.answer(decision)
    assert taken.error is None
    assert asked.id not in sim.state.interrupts
    await sim.run()
    assert (sim.state.status, sim.ran()[before:]) == (status, ran)
    if status == "running":
        assert sim.state.interrupts, "it goes on until it asks again"
    if status == "stopped":
        assert not sim.state.frontier


def test_every_option_has_an_answer_above() -> None:
    tried = {(kind, decision) for kind, decision, _, _ in ANSWERS}
    options = {
        "requirement": ("set", "skip", "stop"),
        "join": ("go on", "end", "stop"),
        "step_failed": ("retry", "skip", "stop"),
        "outcome_unknown": ("done", "retry", "stop"),
        "limit": ("go on", "stop"),
        "manual": ("go on", "stop"),
        "decide": ("continue", "again", "stop"),
    }
    assert {(kind, option) for kind, found in options.items() for option in found} <= tried


@pytest.mark.parametrize("kind", sorted({kind for kind, *_ in ANSWERS}))
async def test_questions_have_the_options_that_are_tested(kind: str) -> None:
    sim = await question(kind)
    tried = {decision for of, decision, _, _ in ANSWERS if of == kind}
    assert set(sim.asked().options) <= tried


@pytest.mark.parametrize(
    ("decision", "value"), [("approve", True), ("reject", False), ("words", "words")]
)
async def test_a_flag_takes_the_answer(decision: str, value: Any) -> None:
    sim = await question("flag")
    await sim.answer(decision)
    assert sim.state.flags["ok"] is value or sim.state.flags["ok"] == "words"  # type: ignore[index]
    assert sim.facts("RunOutputSet")[0]["by"] == "eve"


async def test_an_answer_in_words_that_is_the_name_of_a_node_does_not_lead_there() -> None:
    """It was no option, so it has no way: the branch would end without a word."""
    sim = await question("flag")
    await sim.answer("a")
    await sim.run()
    assert sim.ran() == ["a#1", "ask_1#1", "b#1"]


@pytest.mark.parametrize(("close", "meant"), [("aprove", "approve"), ("REJECT!", None)])
async def test_a_wrong_option_says_which_there_are(close: str, meant: str | None) -> None:
    sim = await question("ask")
    with pytest.raises(CommandRejected, match=f"{close!r} is no answer to 'i1'") as caught:
        check_answer(sim.asked(), close)
    assert "Its options are: approve, reject." in caught.value.remedy
    assert (f"Did you mean {meant!r}?" in caught.value.remedy) == (meant is not None)
    taken = await sim.answer(close)
    assert isinstance(taken.error, CommandRejected)
    assert sim.asked().id == "i1"


async def test_words_are_welcome_only_where_something_takes_them() -> None:
    for kind in ("requirement", "step_failed", "limit", "manual", "decide", "ask"):
        sim = await question(kind)
        with pytest.raises(CommandRejected):
            check_answer(sim.asked(), "some words")
    for kind in ("flag", "outcome_unknown"):
        sim = await question(kind)
        check_answer(sim.asked(), "some words")
        with pytest.raises(CommandRejected):
            check_answer(sim.asked(), "  ")


async def test_a_closed_question_says_which_are_open() -> None:
    sim = await question("decide")
    with pytest.raises(InterruptNotOpen, match="'i7' is not open") as caught:
        find_interrupt(sim.engine, "i7")
    assert "Open now: i1." in caught.value.remedy
    await sim.answer("continue")
    taken = await sim.answer("continue", "i1")
    assert isinstance(taken.error, InterruptNotOpen)
    assert "eve answered 'continue'" in str(taken.error)
    assert "Open now: none." in str(taken.error)
    assert len(sim.facts("InterruptAnswered")) == 1


async def test_stop_is_the_callers_to_do() -> None:
    sim = await question("ask")
    with pytest.raises(StopAnswer):
        await answer(sim.engine, sim.asked(), "reject", by="eve", command=None)
    assert sim.state.status == "running"
    assert sim.facts("StepCompleted")[-1]["because"] == "eve said 'reject'"


async def test_a_requirement_names_what_is_missing() -> None:
    plan = plan_of(
        [["ui", "backend"], {"agent": "audio", "when": "backend.models_ready"}],
        {"backend": {"writes_flags": ["models_ready"]}},
    )
    sim = await run(plan)
    assert sim.asked().question == (
        "audio waits for backend.models_ready, which nothing is left to set."
    )
    await sim.answer("set")
    assert sim.state.flags["models_ready"] is True  # type: ignore[index]
    assert (await sim.run()).ran()[-1] == "audio#1"


async def test_what_a_compound_requirement_asks_for_is_waived_not_set() -> None:
    sim = await run(plan_of([{"agent": "a", "when": "ok and ready"}], flags={"ok": 0, "ready": 0}))
    await sim.answer("set")
    await sim.run()
    assert sim.ran() == ["a#1"]
    assert sim.state.flags == {"ok": 0, "ready": 0}
    assert sim.facts("RequirementMet")[0]["waived"] is True


@pytest.mark.parametrize(("otherwise", "ran"), [("skip", ["b#1"]), ("z", ["z#1"])])
async def test_an_unmet_requirement_takes_its_alternative(otherwise: str, ran: list[str]) -> None:
    flow = [{"agent": "a", "when": "ok", "else": otherwise}, {"agent": "b", "after": "a"}]
    sim = await run(plan_of([*flow, {"agent": "z", "after": "b"}]))
    assert sim.ran()[:1] == ran
    assert sim.state.status == "completed"


async def test_an_alternative_may_bring_what_another_node_waits_for() -> None:
    """Both wait, and `fixer`, which `a` gives way to, sets what `b` waits for."""
    flow: list[Any] = [
        "x",
        [{"agent": "a", "when": "ok", "else": "fixer"}, {"agent": "b", "when": "ready"}],
        {"agent": "fixer", "after": "go"},
    ]
    plan = plan_of(
        flow,
        {"fixer": {"writes_flags": ["ready"]}},
        tools=ACT,
        flags={"ok": False, "ready": False},
    )
    script = Replies({"fixer#1": [says("", "act")]}, {"act": returns(flags={"ready": True})})
    sim = await run(plan, script)
    assert sim.ran() == ["x#1", "fixer#1", "b#1"]
    assert not sim.facts("InterruptRaised")


async def test_a_join_that_cannot_fill_names_what_is_missing() -> None:
    sim = await question("join")
    assert sim.asked().question == "c waits for a, which will not come. Go on without?"
    assert sim.asked().step is None


async def test_a_join_that_cannot_fill_in_a_later_generation_asks_too() -> None:
    flow: list[Any] = [
        "x",
        ["a", "b"],
        "c",
        {"if": "not ok", "go": "x", "at_most": 1, "phase": "d", "else": "z"},
        {"agent": "z", "after": "go"},
    ]
    script = Replies({"a#2": [says("", "act")]}, {"act": returns(goto=("z",))})
    sim = await waiting(plan_of(flow, tools=ACT), script)
    assert sim.asked().question == "c waits for a, which will not come. Go on without?"
    await sim.answer("go on")
    await sim.run()
    assert sim.ran()[-2:] == ["c#2", "z#2"]
    assert sim.state.status == "completed"


async def test_going_back_by_hand_never_ends_the_run_in_silence() -> None:
    """An answer that goes back to one of two sources: the join lacks the other."""
    flow: list[Any] = [["a", "b"], "c", {"ask": "Ok?", "options": ["yes", "a", "no"]}]
    sim = await waiting(plan_of(flow))
    await sim.answer("a")
    await sim.run()
    assert "a#2" in sim.ran()
    assert sim.state.interrupts, "either c runs and it asks again, or it asks about c"


async def test_a_node_that_was_sent_to_does_not_wait_for_its_join() -> None:
    flow: list[Any] = [
        ["a", {"agent": "b", "when": "ok", "else": "c"}],
        "c",
    ]
    sim = await run(plan_of(flow))
    assert sim.ran() == ["a#1", "c#1"]
    assert sim.state.status == "completed"


async def test_the_limit_of_steps_asks_each_time_it_is_reached() -> None:
    sim = await run(plan_of(["a", "b", "c", "d", "e"], limits={"steps": 2}))
    assert sim.ran() == ["a#1", "b#1"]
    assert "taken 2 steps" in sim.asked().question
    await sim.answer("go on")
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "c#1", "d#1"]
    assert "taken 4 steps" in sim.asked().question
    await sim.answer("go on")
    assert (await sim.run()).state.status == "completed"


async def test_a_decision_that_fails_the_run_says_why() -> None:
    back = {"if": "not ok", "go": "a", "at_most": 2, "else": "fail"}
    sim = await run(plan_of(["a", back]))
    assert sim.state.status == "failed"
    assert sim.state.error == "after_a: went to a 2 times, which is the most"


async def test_a_question_about_a_step_that_went_on_is_withdrawn() -> None:
    script = Replies(
        {"a#1": [says("", "act", "act")]},
        {"act/2": Failure("gone", "OutcomeUnknown"), "act/3": Failure("broke")},
    )
    plan = plan_of(["a", "b"], {"a": {"on_error": "continue"}}, tools=ACT)
    sim = await Simulation.begin(plan, script)
    await sim.finish("a#1", "a#1")
    assert sim.asked().kind == "outcome_unknown"
    await sim.run()
    assert sim.state.status == "completed"
    assert [e["decision"] for e in sim.facts("InterruptAnswered")] == ["withdrawn"]


async def test_a_break_asks_before_the_next_step_once() -> None:
    sim = await Simulation.begin(plan_of([["a", "b"], "c"]))
    await sim.command("interrupt")
    await sim.run()
    assert sim.asked().step == "a#1"
    await sim.answer("go on")
    assert (await sim.run()).state.status == "completed"
    assert len(sim.facts("InterruptRaised")) == 1


async def test_nothing_starts_while_a_run_is_paused_and_what_runs_is_applied() -> None:
    sim = await Simulation.begin(plan_of([["a", "b"], "c"]))
    await sim.finish("a#1")
    await sim.command("pause", reason="lunch")
    await sim.land(("b#1", 1))
    await sim.run()
    assert sim.ran() == ["a#1", "b#1"]
    assert [(e.step, e.status) for e in sim.state.frontier.values()] == [("c#1", "ready")]
    assert isinstance((await sim.command("pause")).error, CrewlogError)
    await sim.command("resume")
    assert (await sim.run()).state.status == "completed"


async def test_a_stop_cancels_what_is_left() -> None:
    sim = await Simulation.begin(plan_of([["a", "b"], "c"]))
    await sim.finish("a#1")
    await sim.command("stop", reason="enough")
    await sim.run()
    assert [e["step"] for e in sim.facts("StepCancelled")] == ["b#1"]
    assert sim.state.status == "stopped"
    assert sim.journal[-1]["kind"] == j.RunStopped.__name__
