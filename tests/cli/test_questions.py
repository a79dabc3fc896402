"""Questions as the command line shows them, without a server."""

from __future__ import annotations

from typing import Any

from crewlog.cli.questions import answer_line, show_question
from crewlog.cli.screen import Screen
from crewlog.cli.sight import question_of
from crewlog.ids import InterruptId
from crewlog.state.model import Interrupt


def asked(**more: Any) -> Interrupt:
    given = {"id": InterruptId("i1"), "kind": "ask", "question": "Buy?", "options": ("yes", "no")}
    return Interrupt.model_validate({**given, **more})


def test_a_question_that_takes_words_says_so(capsys: Any) -> None:
    for words, line, prompt in (
        (False, "crewlog answer shop i1 yes|no", "1 yes   2 no"),
        (True, "crewlog answer shop i1 yes|no  (or any words)", "1 yes   2 no   or any words"),
    ):
        question = question_of(asked(words=words))
        assert answer_line("shop", question)[1] == line
        show_question(Screen(), question, numbered=True)
        assert capsys.readouterr().out.splitlines()[-1].strip() == prompt
