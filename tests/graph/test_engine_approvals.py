"""Calls of tools that wait for a person's yes: none is made without it, and each is asked once."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.canonical_json import canonical, hash_json
from crewlog.errors import CommandRejected
from crewlog.graph.interrupts import MOST_BYTES, shorten_arguments
from crewlog.graph.plan import GraphPlan
from crewlog.reporting.wire_views import interrupt_view
from crewlog.state.calls import CallModelResult, RequestedToolCall, ToolCallsRequested
from crewlog.workflows.commands.queue import Applied
from graph.crews import plan_of
from graph.simulation import Failure, Replies, Simulation, as_json, folded, run, says

TOOLS = {name: {"run": "m:f"} for name in ("act", "read")}


def guarded(**more: Any) -> GraphPlan:
    return plan_of(["a", "b"], tools=TOOLS, **{"approvals": {"act": None}, **more})


def asks(*tools: str) -> Replies:
    return Replies({"a#1": [says("", *tools)]})


async def asked(*tools: str, **more: Any) -> Simulation:
    """A run whose calls wait, with everything else landed."""
    sim = await run(guarded(**more), asks(*tools))
    assert sim.state.interrupts
    return sim


def answers(sim: Simulation) -> list[tuple[int, bool, str]]:
    return [(e["call"], e.get("ok", True), e["excerpt"]) for e in sim.facts("ToolCallCompleted")]


async def test_a_call_waits_and_is_made_once_it_is_approved() -> None:
    sim = await asked("act")
    assert sim.made == [("a#1", 1, 1)]
    question = sim.asked()
    assert (question.kind, question.step, question.call) == ("tool_approval", "a#1", 2)
    assert question.options == ("approve", "reject", "stop")
    await sim.answer("approve")
    await sim.run()
    assert sim.made == [("a#1", 1, 1), ("a#1", 2, 1), ("a#1", 3, 1), ("b#1", 1, 1)]
    assert sim.state.status == "completed"
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_the_call_knows_by_which_question_it_was_approved() -> None:
    sim = await asked("act")
    await sim.answer("approve")
    (order,) = sim.engine.pending_calls(())
    assert order.call.approved == "i1"


@pytest.mark.parametrize(
    ("decision", "reason", "told"),
    [
        ({"type": "reject", "message": "too dear"}, "", "Refused by eve: too dear"),
        ({"type": "reject"}, "not today", "Refused by eve: not today"),
        ({"type": "reject"}, "", "Refused by eve."),
        ({"type": "reject", "message": "approve"}, "", "Refused by eve: approve"),
        ({"type": "respond", "message": "reject"}, "", "Refused by eve."),
        ({"type": "respond", "message": "ask ann first"}, "", "Refused by eve: ask ann first"),
    ],
)
async def test_a_call_that_is_refused_is_never_made_and_the_model_is_told_why(
    decision: Any, reason: str, told: str
) -> None:
    sim = await asked("act")
    answer = await sim.command("answer", interrupt="i1", decisions=[decision], reason=reason)
    assert isinstance(answer.outcome, Applied)
    assert answer.outcome.result.detail == "reject"
    await sim.run()
    assert answers(sim) == [(2, False, told)]
    assert ("a#1", 2, 1) not in sim.made
    assert sim.state.status == "completed"
    (entry,) = sim.facts("InterruptAnswered")
    assert (entry["decision"], entry["by"]) == ("reject", "eve")


@pytest.mark.parametrize("word", ["yes", "Approve", "aprove", "ok", "no", "rejct", " "])
async def test_a_word_that_is_almost_an_option_is_no_answer(word: str) -> None:
    sim = await asked("act")
    answer = await sim.answer(word)
    assert isinstance(answer.error, CommandRejected)
    assert sim.state.interrupts


async def test_it_is_answered_once() -> None:
    sim = await asked("act")
    await sim.answer("approve")
    again = await sim.answer("reject", "i1")
    assert "not open" in str(again.error)
    await sim.run()
    assert [m for m in sim.made if m[1] == 2] == [("a#1", 2, 1)]


async def test_the_other_calls_of_the_turn_go_on_and_wait_for_their_turn() -> None:
    sim = await asked("read", "act", "read")
    assert [made[1] for made in sim.made] == [1, 2, 4]
    assert [call for call, *_ in answers(sim)] == [2]
    assert len(sim.facts("CompletionBuffered")) == 1
    await sim.answer("reject")
    assert [call for call, *_ in answers(sim)] == [2, 3, 4]
    await sim.run()
    assert sim.state.status == "completed"


async def test_each_call_is_asked_about_by_itself() -> None:
    sim = await asked("act", "act")
    assert [q.call for q in sim.state.interrupts.values()] == [2, 3]
    await sim.answer("approve", "i2")
    await sim.run()
    assert not answers(sim), "the first one is not answered yet"
    await sim.answer("reject", "i1")
    await sim.run()
    assert [(call, ok) for call, ok, _ in answers(sim)] == [(2, False), (3, True)]


@pytest.mark.parametrize(
    ("who", "waits"), [(None, True), (["a"], True), (["b"], False), ([], False)]
)
async def test_it_holds_for_the_agents_that_it_names(who: Any, waits: bool) -> None:
    sim = await run(guarded(approvals={"act": who}), asks("act"))
    assert bool(sim.state.interrupts) is waits


async def test_what_is_not_permitted_is_refused_and_not_asked() -> None:
    sim = await run(guarded(permissions={"act": ["b"]}), asks("act"))
    assert not sim.facts("InterruptRaised")
    assert [e["tool"] for e in sim.facts("PermissionDenied")] == ["act"]


async def test_stop_ends_the_run() -> None:
    sim = await asked("act")
    await sim.answer("stop")
    await sim.run()
    assert (sim.state.status, sim.state.interrupts) == ("stopped", {})
    assert len(sim.made) == 1


async def test_a_pause_holds_what_is_approved() -> None:
    sim = await asked("act")
    await sim.command("pause")
    await sim.answer("approve")
    await sim.run()
    assert len(sim.made) == 1
    await sim.command("resume")
    await sim.run()
    assert sim.state.status == "completed"


async def test_it_stays_open_where_the_run_continues_as_new() -> None:
    sim = await asked("read", "act", "read")
    before = as_json(sim.state)
    await sim.restore()
    assert as_json(sim.state) == before
    await sim.answer("approve")
    await sim.run()
    assert [call for call, *_ in answers(sim)] == [2, 3, 4]


async def test_a_step_that_ends_otherwise_closes_the_question() -> None:
    plan = guarded()
    script = Replies({"a#1": [says("", "act", "read")]}, {"read/3": Failure("broke")})
    sim = await run(plan, script)
    assert [q.kind for q in sim.state.interrupts.values()] == ["tool_approval", "step_failed"]
    await sim.answer("skip", "i2")
    await sim.run()
    assert sim.state.status == "completed"
    assert [(e["interrupt"], e["decision"]) for e in sim.facts("InterruptAnswered")] == [
        ("i2", "skip"), ("i1", "withdrawn"),
    ]  # fmt: skip


async def test_another_call_that_failed_is_still_asked_about() -> None:
    script = Replies({"a#1": [says("", "act", "read")]}, {"read/3": Failure("broke")})
    sim = await run(guarded(), script)
    await sim.answer("approve", "i1")
    await sim.run()
    assert [q.kind for q in sim.state.interrupts.values()] == ["step_failed"]
    assert [call for call, *_ in answers(sim)] == [2]


@pytest.mark.parametrize("failure", ["OutcomeUnknown", "ToolFailed"])
async def test_an_approved_call_is_tried_again_by_a_yes_of_its_own(failure: str) -> None:
    script = Replies({"a#1": [says("", "act")]}, {"act/2": Failure("gone", failure)})
    sim = await run(guarded(), script)
    await sim.answer("approve")
    await sim.run()
    await sim.answer("retry")
    await sim.run()
    assert [made for made in sim.made if made[1] == 2] == [("a#1", 2, 1)]
    question = sim.asked()
    assert (question.kind, question.id, question.call) == ("tool_approval", "i3", 2)
    await sim.answer("approve")
    (order,) = sim.engine.pending_calls(())
    assert (order.call.attempt, order.call.approved) == (2, "i3")
    assert as_json(folded(sim.journal)) == as_json(sim.state)


# -- approvals that a change adds ---------------------------------------------------------------

RISKY = {**TOOLS, "act": {"run": "m:f", "risk": "high"}}
LATER = [
    {"tools": TOOLS, "approvals": {"act": None}},
    {"tools": TOOLS, "rules": [{"tool": "act", "do": "ask"}]},
    {"tools": RISKY, "interrupts": {"approve_risk": "high"}},
]


async def permitted(flow: list[str], **later: Any) -> Simulation:
    """A run whose crew is changed when a call is permitted and has not begun."""
    sim = await Simulation.begin(plan_of(["a", "b"], tools=TOOLS), asks("act"))
    await sim.settle()
    sim.launch()
    await sim.land(("a#1", 1))
    await sim.change(plan_of(flow, **later))
    await sim.settle()
    sim.launch()
    return sim


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("flow", [["a", "b"], ["c", "a", "b"], ["c", "b"]])
async def test_approvals_that_a_change_adds_hold_for_calls_that_have_not_begun(
    flow: list[str], later: dict[str, Any]
) -> None:
    # The agent's node may be gone: its step ends its turn, and that asks no less.
    sim = await permitted(flow, **later)
    assert ("a#1", 2, 1) not in sim.made
    question = sim.asked()
    assert (question.kind, question.step, question.call) == ("tool_approval", "a#1", 2)
    await sim.answer("approve")
    (order, *_) = sim.engine.pending_calls(())
    assert (order.call.call, order.call.approved) == (2, question.id)
    await sim.run()
    assert [made for made in sim.made if made[:2] == ("a#1", 2)] == [("a#1", 2, 1)]
    assert len(sim.facts("InterruptRaised")) == 1
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_a_call_that_a_change_has_people_asked_about_may_be_refused() -> None:
    sim = await permitted(["a", "b"], **LATER[0])
    await sim.answer("reject")
    await sim.run()
    assert ("a#1", 2, 1) not in sim.made
    assert answers(sim) == [(2, False, "Refused by eve.")]


# -- what people are shown ---------------------------------------------------------------------


def reply(args: Any, *, invalid: bool = False) -> CallModelResult:
    call = {"id": "c0", "name": "act", "args": args}
    body = {"type": "ai", "content": ""} | (
        {"invalid_tool_calls": [call]} if invalid else {"tool_calls": [call]}
    )
    asked = RequestedToolCall(id="c0", tool="act", excerpt="notes/a.md")
    outcome = ToolCallsRequested(calls=(asked,))
    return CallModelResult(body=body, hash=hash_json(body), outcome=outcome)


async def test_people_are_shown_the_call_with_its_arguments_and_its_message() -> None:
    args = {"path": "notes/a.md", "size": 3}
    result = reply(args)
    sim = await run(guarded(), Replies({"a#1": [result]}))
    question = sim.asked()
    assert question.question == "May a#1 call act with notes/a.md?"
    assert '"path": "notes/a.md"' in question.detail
    assert result.hash in question.detail
    assert (question.tool, question.args, question.message) == ("act", args, result.hash)
    view = interrupt_view(question)
    assert view.action_requests == (
        {"name": "act", "args": args, "description": f"{question.question}\n{question.reason}"},
    )
    assert view.review_configs == (
        {"action_name": "act", "allowed_decisions": ["approve", "edit", "reject", "respond"]},
    )


async def test_nobody_is_asked_about_arguments_that_cannot_be_read() -> None:
    script = Replies({"a#1": [reply('{"path": ', invalid=True)]})
    sim = await run(guarded(), script)
    assert not sim.facts("InterruptRaised")
    assert ("a#1", 2, 1) not in sim.made
    assert sim.state.status == "completed"


@pytest.mark.parametrize(
    "args",
    [
        {"text": "x" * 1_000_000},
        {"rows": list(range(100_000))},
        {f"key{n}": "y" * 50 for n in range(5_000)},
        {"a": {"b": [{"c": "z" * 5_000}] * 50}},
        {"x" * 10_000: 1},
    ],
)
async def test_long_arguments_are_shortened_and_said_to_be(args: Any) -> None:
    found, whole = shorten_arguments(args)
    assert not whole
    assert len(canonical(found)) <= MOST_BYTES
    sim = await run(guarded(), Replies({"a#1": [reply(args)]}))
    assert "Shortened: the message" in sim.asked().detail
    assert len(sim.asked().detail) < 4 * MOST_BYTES


def test_what_is_shortened_still_shows_how_it_begins() -> None:
    found, _ = shorten_arguments(
        {"path": "notes.md", "text": "delete " * 100_000, "rows": list(range(9_000))}
    )
    assert isinstance(found, dict)
    assert found["path"] == "notes.md"
    assert found["text"].startswith("delete delete delete ")
    assert found["text"].endswith("… (700000 characters)")
    assert found["rows"][:3] == [0, 1, 2]
    assert found["rows"][-1] == "… (9000 in all)"


def test_short_arguments_are_shown_as_they_are() -> None:
    args = {"text": "x" * 4_000, "n": None}
    assert shorten_arguments(args) == (args, True)
