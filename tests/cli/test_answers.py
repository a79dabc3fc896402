"""What somebody types to answer, and what the inbox prints."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crewlog.cli.answering import _which
from crewlog.cli.answers import Typed, edited_args, typed
from crewlog.cli.hearing import Heard, heard, heard_before
from crewlog.cli.questions import answer_command
from crewlog.cli.screen import Screen
from crewlog.cli.sight import Sight
from crewlog.errors import InterruptNotOpen, UsageError
from crewlog.ids import InterruptId, RunId
from crewlog.reporting.inbox import InboxInterruptView, inbox_interrupt_view
from crewlog.state.model import Interrupt, InterruptAnswer
from crewlog.wire import InterruptView


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ((None, None, None), Typed(None, None, "")),
        (("approve", None, None), Typed("approve", None, "")),
        (("i1", "approve", None), Typed("i1", "approve", "")),
        (("reject", "too dear", None), Typed("reject", None, "too dear")),
        (("i1", "reject", "too dear"), Typed("i1", "reject", "too dear")),
        (("respond", "ask ann", None), Typed("respond", None, "ask ann")),
        (("i1", "respond", "ask ann"), Typed("i1", "respond", "ask ann")),
        (("i1", "edit", None), Typed("i1", "edit", "")),
        (("any other words", None, None), Typed("any other words", None, "")),
    ],
)
def test_what_an_answer_means(given: tuple[Any, Any, Any], meant: Typed) -> None:
    assert typed(*given) == meant


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("respond", None, None), "needs the words"),
        (("i1", "respond", None), "needs the words"),
        (("approve", "it", None), "too much"),
        (("i1", "approve", "it"), "too much"),
    ],
)
def test_an_answer_that_is_not_whole(given: tuple[Any, Any, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        typed(*given)


def view(**more: Any) -> InterruptView:
    request = {"name": "drop", "args": {"table": "notes"}}
    whole: dict[str, Any] = {
        "id": "i1",
        "kind": "tool_approval",
        "question": "May a#1 call drop?",
        "options": ("approve", "reject", "stop"),
        "action_requests": (request,),
        "review_configs": ({},),
    }
    return InterruptView.model_validate(whole | more)


def test_arguments_are_given_or_read(tmp_path: Path) -> None:
    screen = Screen(as_json=True)
    assert edited_args(screen, view(), '{"table": "old"}') == {"table": "old"}
    file = tmp_path / "args.json"
    file.write_text('{"table": 3}')
    assert edited_args(screen, view(), f"@{file}") == {"table": 3}


@pytest.mark.parametrize(
    ("question", "args", "told"),
    [
        (view(), "{table}", "not JSON"),
        (view(), "[" * 100_000, "not JSON"),
        (view(), "[1]", "not a JSON object"),
        (view(), "@/no/such/file", "cannot be read"),
        (view(), None, "at a terminal"),
        (view(has_excerpts=True), None, "too long"),
        (view(kind="ask"), "{}", "asks about no call"),
    ],
)
def test_arguments_that_are_none(question: InterruptView, args: str | None, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        edited_args(Screen(as_json=True), question, args)


def question(**more: Any) -> InboxInterruptView:
    asked = {"id": "i1", "kind": "ask", "question": "Go on?"} | more
    return inbox_interrupt_view(RunId("r"), 5, Interrupt.from_json(asked))


def test_the_inbox_says_how_a_question_is_answered() -> None:
    assert answer_command("r", question()) == "crewlog answer r i1 approve|reject"
    call = question(
        kind="tool_approval", tool="drop", options=("approve", "reject"), takes_text=True
    )
    assert answer_command("r", call) == "crewlog answer r i1 approve|edit|reject|respond WORDS"
    budget = question(kind="budget", options=("go on", "stop"), takes_text=True)
    assert answer_command("r", budget) == "crewlog answer r i1 'go on'|stop|NUMBER"
    assert call.review_configs[0]["allowed_decisions"] == ["approve", "edit", "reject", "respond"]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("2", Heard("reject")),
        ("APPROVE", Heard("approve")),
        ("edit", Heard("edit")),
        ('edit {"table": "old"}', Heard("edit", args='{"table": "old"}')),
        ("reject not on a Friday", Heard("reject", "not on a Friday")),
        ("reject 'too dear'", Heard("reject", "too dear")),
        ("yes", Heard("approve")),
        ("Y", Heard("approve")),
        ("ok.", Heard("approve")),
        ("no", Heard("reject")),
        ("n", Heard("reject")),
        ("respond ok", Heard("ok")),
        ("not on a Friday", Heard("not on a Friday")),
    ],
)
def test_what_a_line_at_a_call_s_question_means(line: str, meant: Heard) -> None:
    assert heard(view(takes_text=True), line) == meant


@pytest.mark.parametrize(
    "line",
    ["frobnicate", "aprove", "why?", "yes, do it", "approve it", "edit the table", "respond"],
)
def test_a_slip_refuses_no_call(line: str) -> None:
    call = view(takes_text=True)
    with pytest.raises(
        UsageError, match="none of the options: approve, edit, reject, stop"
    ) as told:
        heard(call, line)
    assert "Words refuse the call" in told.value.remedy
    assert heard_before(call, line) is None
    assert ("Did you mean 'approve'?" in told.value.remedy) is line.startswith("ap")


GATE: dict[str, Any] = {"kind": "ask", "takes_text": True, "text_option": "planner"}
TEAM = ("approve", "planner", "reject")
FEATURE = ("go", "planner", "stop")


@pytest.mark.parametrize(
    ("options", "line", "meant"),
    [
        (TEAM, "yes", Heard("approve")),
        (TEAM, "n", Heard("reject")),
        (TEAM, "reject too dear", Heard("reject", "too dear")),
        (TEAM, "less salt please", Heard("less salt please")),
        (TEAM, "respond no", Heard("no")),
        (FEATURE, "ok", Heard("go")),
        (FEATURE, "2", Heard("planner")),
        (FEATURE, "planner, without the docs", Heard("planner, without the docs")),
        (("yes", "no"), "n", Heard("no")),
        (("today", "tomorrow", "never"), "y", Heard("y")),
    ],
)
def test_a_yes_a_no_and_words_for_an_agent(options: Any, line: str, meant: Heard) -> None:
    words = {} if "planner" in options else {"text_option": ""}
    assert heard(view(**{**GATE, **words, "options": options}), line) == meant


@pytest.mark.parametrize("line", ["no", "plannr", "go, it is fine", "yes but", "stop it now"])
def test_what_is_no_wish_is_asked_back(line: str) -> None:
    with pytest.raises(UsageError, match="none of the options: go, planner, stop") as told:
        heard(view(**GATE, options=FEATURE), line)
    assert "Words go to planner" in told.value.remedy
    assert "refuse" not in told.value.remedy


def test_a_yes_answers_nothing_that_the_crew_did_not_ask() -> None:
    failed = view(kind="step_failed", options=("retry", "skip", "stop"))
    assert heard(failed, "yes") == Heard("yes")


def test_words_answer_a_question_that_takes_them() -> None:
    ask = view(kind="ask", options=("yes", "no"), takes_text=True)
    assert heard(ask, "respond later") == Heard("later")
    assert heard(ask, "later") == Heard("later")


@pytest.mark.parametrize(
    ("was", "told"),
    [
        (
            InterruptAnswer(decision="approve", by="ana", at=1000),
            "ana answered i1 'approve' 1970-01-01",
        ),
        (
            InterruptAnswer(decision="escalated", by="policy", expired=True, at=1000),
            r"i1 expired 1970-01-01 .* and was escalated to carla as i2; open now: i2",
        ),
        (InterruptAnswer(decision="reject", expired=True, at=1000), "policy answered 'reject'"),
    ],
)
@pytest.mark.parametrize("decision", ["approve", None])
def test_who_was_first_is_told(was: InterruptAnswer, told: str, decision: str | None) -> None:
    """Also where the id stands alone: it is no word that refuses what is asked now."""
    seen: Any = SimpleNamespace(
        run="r",
        questions=[view(id="i2", takes_text=True, to=("carla",), escalated=was.expired)],
        over=False,
        state=SimpleNamespace(answers={InterruptId("i1"): was}),
    )
    sight: Sight = seen
    with pytest.raises(InterruptNotOpen, match=told):
        _which(sight, "i1", decision)
