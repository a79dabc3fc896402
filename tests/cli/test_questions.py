"""Questions as the command line shows them, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crewlog.cli import exits
from crewlog.cli.follow import Follower, Manner
from crewlog.cli.hearing import Heard, heard_before
from crewlog.cli.questions import answer_line, numbered, show_question
from crewlog.cli.screen import Screen, text_of
from crewlog.client import Event
from crewlog.definition.load import load_data
from crewlog.errors import CommandRejected, NotPermitted
from crewlog.graph.engine import Engine
from crewlog.graph.interrupts import arguments_text as detail_of
from crewlog.graph.lowering.plans import lower
from crewlog.ids import InterruptId, RunId
from crewlog.reporting.live_run.results import interrupt_views
from crewlog.reporting.wire_views import interrupt_view
from crewlog.state.calls import CompilePromptResult, PrepareRunResult
from crewlog.state.carry import PromptCarry
from crewlog.state.journal import entry_from_json
from crewlog.state.model import Interrupt, PromptDiagnostic
from crewlog.wire import InterruptView


def asked(**more: Any) -> Interrupt:
    given = {"id": InterruptId("i1"), "kind": "ask", "question": "Buy?", "options": ("yes", "no")}
    return Interrupt.model_validate({**given, **more})


class Refuses:
    """A run that takes no answer, and remembers the commands' ids."""

    id = "shop"

    def __init__(self) -> None:
        self.commands: list[str] = []

    async def answer(self, interrupt: str, decision: str, *, id: str, **who: Any) -> None:
        self.commands.append(id)
        raise CommandRejected(
            f"{decision!r} is no answer to {interrupt!r}", remedy="Its options are: yes, no."
        )


async def test_a_refused_answer_is_told_once(capsys: Any) -> None:
    run: Any = Refuses()
    follower = Follower(Screen(), run, manner=Manner(ask=True, leave=False))
    await follower._respond(interrupt_view(asked()), "sure")
    said = "✗ 'sure' is no answer to 'i1'. Its options are: yes, no."
    assert capsys.readouterr().out.strip() == said
    for command, told in ((run.commands[0], ""), ("another", "✗ refused an answer by ann: 'sure'")):
        entry = entry_from_json(
            {
                "kind": "CommandRejected",
                "at": 1000,
                "name": "answer",
                "by": "ann",
                "reason": "'sure' is no answer to 'i1'\n    Its options are: yes, no.",
                "command": command,
            }
        )
        follower._take(Event(run=RunId("shop"), position=1, at=1000, entry=entry))
        out = capsys.readouterr().out
        assert told in out
        assert bool(out) is bool(told)


@pytest.mark.parametrize(
    ("kind", "options", "words", "fitting"),
    [
        ("ask", ("yes", "no"), False, ["yes", "approve", "reject"]),
        ("ask", ("yes", "no"), True, ["yes", "approve", "reject", "retry", "later"]),
        ("tool_approval", ("approve", "reject", "stop"), False, ["approve", "reject"]),
        ("step_failed", ("retry", "skip", "stop"), False, ["retry"]),
        ("outcome_unknown", ("done", "retry", "stop"), True, ["retry"]),
        ("requirement", ("set", "skip", "stop"), False, []),
        ("limit", ("go on", "stop"), False, []),
    ],
)
def test_an_answer_in_advance_fits_what_it_was_meant_for(
    kind: str, options: tuple[str, ...], words: bool, fitting: list[str]
) -> None:
    question = interrupt_view(asked(kind=kind, options=options, takes_text=words))
    given = ["yes", "approve", "reject", "retry", "later"]
    assert [answer for answer in given if heard_before(question, answer)] == fitting


def test_a_yes_in_advance_answers_also_where_words_go_to_an_agent() -> None:
    options = ("go", "planner", "stop")
    question = interrupt_view(asked(options=options, takes_text=True, text_option="planner"))
    assert heard_before(question, "approve") == Heard("approve")
    assert heard_before(question, "reject") == Heard("reject")
    assert heard_before(question, "plannr") is None


def test_a_yes_in_advance_prolongs_no_loop() -> None:
    options = ("continue", "again", "stop")
    question = interrupt_view(asked(options=options, limit_reached="retry_budget_exhausted"))
    assert heard_before(question, "approve") is None
    assert heard_before(question, "continue") == Heard("continue")


@pytest.mark.parametrize(
    ("options", "approval", "refusal"),
    [
        (("publish", "discard"), "publish", "discard"),
        (("hold", "approve"), "approve", "approve"),
        (("reject", "hold", "approve"), "approve", "reject"),
        (("approve", "reject", "stop"), "approve", "reject"),
    ],
)
def test_a_yes_and_a_no_are_the_options_of_that_name(
    options: tuple[str, ...], approval: str, refusal: str
) -> None:
    question = asked(options=options)
    assert (question.approval, question.refusal) == (approval, refusal)


class Asks:
    """A run with open questions that closes the ones that are answered."""

    id = "shop"

    def __init__(self, *questions: Interrupt) -> None:
        self.open = [interrupt_view(each) for each in questions]
        self.answers: list[tuple[str, str]] = []

    async def interrupts(self) -> list[InterruptView]:
        return self.open

    async def status(self) -> Any:
        return SimpleNamespace(status="waiting")

    async def answer(self, interrupt: str, decision: str, *, id: str, **who: Any) -> None:
        self.answers.append((interrupt, decision))
        self.open = [each for each in self.open if each.id != interrupt]


async def test_an_approval_in_advance_does_not_answer_a_failure(capsys: Any) -> None:
    failure = asked(
        id=InterruptId("i1"), kind="step_failed", options=("retry", "skip", "stop"), question="F?"
    )
    run: Any = Asks(failure, asked(id=InterruptId("i2")))
    manner = Manner(ask=False, leave=True, answers=("approve", "approve"))
    follower = Follower(Screen(), run, manner=manner)
    assert await follower._questions() is None
    assert run.answers == [("i2", "approve")]
    assert await follower._questions() == exits.WAITS
    assert run.answers == [("i2", "approve")]
    told = capsys.readouterr()
    assert told.err.count("does not answer i1 (retry, skip, stop)") == 1
    assert "crewlog answer shop i1 retry|skip|stop" in told.out


def test_a_question_that_takes_words_says_so() -> None:
    for words, line, prompt in (
        (False, "crewlog answer shop i1 yes|no", "1 yes   2 no"),
        (True, "crewlog answer shop i1 yes|no|respond WORDS", "1 yes   2 no   or any words"),
    ):
        question = interrupt_view(asked(takes_text=words))
        assert answer_line("shop", question)[1] == line
        assert text_of(*numbered(question)).plain.strip() == prompt


def test_an_approval_of_a_call_says_that_its_arguments_may_be_edited() -> None:
    call = asked(kind="tool_approval", options=("approve", "reject", "stop"))
    line = "crewlog answer shop i1 approve|edit|reject|stop"
    assert answer_line("shop", interrupt_view(call))[1] == line


def test_a_stored_approval_is_shown_as_the_run_shows_it() -> None:
    """Programs find the definition and its remarks in it, whether a worker is there or not."""
    crew: dict[str, Any] = {
        "crew": "notes",
        "model": "scripted:x",
        "agents": {"a": {"prompt": "p"}},
    }
    definition = load_data(crew)
    draft = PromptCarry(input="go", by="ana", model="scripted:x")
    run = Engine.begin_with_prompt(RunId("r"), "The a writes.", draft, registry="", at=1)
    remark = PromptDiagnostic(code="assumed", message="so it is", line=1, column=5)
    data = definition.to_json()
    run.prompt.apply_result(
        CompilePromptResult(reader="forms", definition=data, diagnostics=(remark,), at=1)
    )
    run.prompt.ask_for_approval(PrepareRunResult(definition=data, plan=lower(definition).to_json()))
    (question,) = run.state.interrupts.values()
    stored = interrupt_view(question, run.state.prompt, data)
    assert [stored] == interrupt_views(run)
    (request,) = stored.action_requests
    assert request["name"] == "run_crew"
    assert request["args"]["definition"] == data
    assert request["args"]["remarks"][0]["message"] == "so it is"
    assert stored.review_configs[0]["allowed_decisions"] == ["approve", "reject", "edit"]


def test_words_are_told_for_what_they_do() -> None:
    told = numbered(interrupt_view(asked(takes_text=True, text_option="planner")))
    assert text_of(*told).plain.endswith("or words, for planner")
    for kind, told in (
        ("tool_approval", "or a sentence, which refuses it"),
        ("budget", "or a number: how much more"),
        ("ask", "or any words"),
    ):
        assert text_of(*numbered(interrupt_view(asked(kind=kind, takes_text=True)))).plain.endswith(
            told
        )


def test_people_are_told_a_command_and_no_hash(capsys: pytest.CaptureFixture[str]) -> None:
    shows = "crewlog trace notes-1 --step a#1 --full shows all that is approved"
    for detail, told in (
        (detail_of({"x": 1}, "HASH", whole=True), ' "x": 1\n    }\n'),
        (detail_of({"x": "…"}, "HASH", whole=False), f"}}\n    Shortened: {shows}\n"),
        ("The message HASH has its arguments, and all of them are approved.", f"    {shows}\n"),
    ):
        call = asked(kind="tool_approval", step="a#1", detail=detail)
        show_question(Screen(), interrupt_view(call), "notes-1")
        out = capsys.readouterr().out
        assert told in out
        assert "HASH" not in out


async def test_who_may_not_answer_is_told_how_others_do_and_is_not_asked_again(capsys: Any) -> None:
    """And the question says whom it is asked of."""

    class Forbids(Asks):
        async def answer(self, interrupt: str, decision: str, *, id: str, **who: Any) -> None:
            raise NotPermitted("'root' may not answer 'i1'", remedy="Let one of them answer.")

    call = asked(kind="tool_approval", options=("approve", "reject", "stop"), to=("carla",))
    run: Any = Forbids(call)
    follower = Follower(Screen(), run, manner=Manner(ask=True, leave=False))
    await follower._respond(run.open[0], "1")
    assert "crewlog answer shop i1 approve|edit|reject|stop --by carla" in capsys.readouterr().out
    assert await follower._questions() is None
    assert follower._prompt is None
    show_question(Screen(), run.open[0], "notes-1")
    assert "asked of carla" in capsys.readouterr().out


async def test_edit_at_the_prompt_edits_the_call() -> None:
    edits: list[Any] = []

    class Edits(Asks):
        async def edit_call(self, interrupt: str, tool: str, args: Any, **who: Any) -> None:
            edits.append((interrupt, tool, args))

    call = asked(
        kind="tool_approval", options=("approve", "reject", "stop"), takes_text=True, tool="drop"
    )
    run: Any = Edits(call)
    follower = Follower(Screen(), run, manner=Manner(ask=True, leave=False))
    await follower._respond(run.open[0], 'edit {"table": "old"}')
    await follower._respond(run.open[0], "edti")
    assert edits == [("i1", "drop", {"table": "old"})]
    assert run.answers == []
