"""Questions to people: showing them, and hearing an answer without stopping the world."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Sequence

from crewlog.cli.screen import Part, Screen, plain
from crewlog.cli.timeline import shortly
from crewlog.graph.lower import ANY_WORDS
from crewlog.wire import InterruptView

_LONGEST_LINE = 65_536
_CREWS_OWN = frozenset({"ask", "tool_approval", "approval"})
"""The kinds of questions that a crew's author foresaw; the others tell of trouble."""


def show_question(screen: Screen, question: InterruptView, *, numbered: bool = False) -> None:
    """The question, its detail and its options."""
    screen.line("")
    text = shortly(question.question, question.detail)
    named = not question.step or question.step in text
    where = "" if named else f" ({plain(question.step)})"
    screen.line(("  ? ", "bold yellow"), (text, "bold"), (where, "dim"))
    if question.detail and plain(question.detail) != plain(question.question):
        screen.paragraph(question.detail, style="dim", indent=4)
    if numbered:
        parts: list[Part] = ["    "]
        for number, option in enumerate(question.options, 1):
            parts += [(f"{number} ", "cyan"), plain(option), "   "]
        if question.words:
            parts.append((f"or {ANY_WORDS}", "dim"))
        screen.line(*parts)


def answer_line(run: str, question: InterruptView) -> list[Part]:
    """How to answer it from anywhere: `crewlog answer music-7f3a i1 approve|reject`."""
    options = "|".join(shlex.quote(plain(option)) for option in question.options)
    words = f"  (or {ANY_WORDS})" if question.words else ""
    return [("answer:  ", "dim"), f"crewlog answer {run} {question.id} {options}{words}"]


def chosen(question: InterruptView, typed: str) -> str:
    """The decision that somebody typed: an option's number or its start, or words."""
    text = typed.strip()
    options = list(question.options)
    if text.isdigit() and 1 <= int(text) <= len(options):
        return options[int(text) - 1]
    same = [option for option in options if option.lower() == text.lower()]
    begin = [option for option in options if text and option.lower().startswith(text.lower())]
    if same:
        return same[0]
    return begin[0] if len(begin) == 1 else text


def fits(question: InterruptView, answer: str) -> bool:
    """Whether an answer that was given in advance, before the question was known, answers it.

    One of its options by name always does. `approve` and `reject` stand for options, and words for
    an answer, only where the crew itself asks: whoever approves in advance did not mean that a
    step that fails is done again, or that a limit is lifted.
    """
    if answer in question.options:
        return True
    if question.kind not in _CREWS_OWN:
        return False
    return answer in {"approve", "reject"} or (question.words and bool(answer.strip()))


def find_question(
    questions: Sequence[InterruptView], first: str | None, second: str | None
) -> tuple[InterruptView | None, str | None]:
    """What `crewlog answer RUN [INTERRUPT] [DECISION]` means: one open question needs no id."""
    by_id = {str(question.id): question for question in questions}
    if first is not None and second is not None:
        return by_id.get(first), second
    if first is not None and first in by_id:
        return by_id[first], None
    only = questions[0] if len(questions) == 1 else None
    return only, first


class Prompt:
    """A question that is open on the terminal, until a line is typed or somebody else answers."""

    def __init__(self, screen: Screen, question: InterruptView) -> None:
        self.question = question
        self._screen = screen
        self._typed: list[str] = []
        self._buffer = ""
        show_question(screen, question, numbered=True)
        self._ask()
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._readable)

    def heard(self) -> str | None:
        """The answer, once a line was typed."""
        while self._typed:
            line = self._typed.pop(0)
            if line.strip():
                return chosen(self.question, line)
            self._ask()
        return None

    def close(self) -> None:
        """Stop listening."""
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    def _ask(self) -> None:
        self._screen.out.print("    › ", style="bold cyan", end="")  # noqa: RUF001
        self._screen.out.file.flush()

    def _readable(self) -> None:
        # The terminal gives whole lines, so this never waits.
        data = os.read(sys.stdin.fileno(), _LONGEST_LINE)
        if not data:  # Ctrl-D: nobody answers here
            self.close()
            return
        self._buffer += data.decode(errors="replace")
        *lines, self._buffer = self._buffer.split("\n")
        self._typed += lines
