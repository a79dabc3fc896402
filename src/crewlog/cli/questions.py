"""Questions to people: showing them, and hearing an answer without stopping the world."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Sequence

from crewlog.cli.hearing import is_id, options_of
from crewlog.cli.screen import Part, Screen, plain, text_of
from crewlog.cli.timeline import shortly
from crewlog.cli.typed import Keys, Typed, columns, rows_of
from crewlog.definition.times import moment_words
from crewlog.graph.interrupts import reason_text
from crewlog.graph.lowering.coordination_rules import ANY_WORDS
from crewlog.wire import InterruptView

_LONGEST_LINE = 65_536
_SIGN = "    › "  # noqa: RUF001
BUDGET = "budget"
"""The kind of question that is answered by how much more."""
_WORDS = {BUDGET: "a number: how much more", "tool_approval": "a sentence, which refuses it"}
"""What else is an answer, where it is not just anything."""
_SOURCE = re.compile(r"\nof the message \S+\Z")
_REST = re.compile(r"(\A|\nShortened: )[Tt]he message \S+ has [^\n]* approved\.\Z")


def show_question(screen: Screen, question: InterruptView, run: str) -> None:
    """The question of a run, and its detail."""
    screen.line("")
    text = shortly(question.question, question.detail)
    named = not question.step or question.step in text
    where = "" if named else f" ({plain(question.step)})"
    screen.wrapped([("  ? ", "bold yellow")], f"{text}{where}", indent=4, style="bold")
    if asked := whom(question):
        screen.paragraph(" · ".join(asked), style="dim", indent=4)
    if because := reason_text(question.reason, question.risk, question.rule):
        screen.paragraph(f"because {because}", style="dim", indent=4)
    if question.exhausted_quota:
        screen.paragraph(question.exhausted_quota, style="yellow", indent=4)
    detail = _told(question, run)
    if detail and plain(detail) != plain(question.question):
        screen.paragraph(detail, style="dim", indent=4)


def whom(question: InterruptView) -> list[str]:
    """Who may answer a question, and until when; nothing where everyone may, at any time."""
    told: list[str] = []
    if question.to:
        told.append(
            f"{'escalated to' if question.escalated else 'asked of'} {', '.join(question.to)}"
        )
    if question.deadline:
        over = question.deadline <= time.time() * 1000
        told.append(f"{'expired' if over else 'expires'} {moment_words(question.deadline)}")
    return told


def _told(question: InterruptView, run: str) -> str:
    """The detail for people: a command that shows all of it, where it has a message's hash."""
    if question.kind != "tool_approval":
        return question.detail
    shows = f"crewlog trace {run} --step {question.step} --full shows all that is approved"
    told = _SOURCE.sub("", question.detail)
    return _REST.sub(lambda found: found[1] + shows, told)


def numbered(question: InterruptView) -> list[Part]:
    """The options as somebody may type them: `1 approve   2 reject   or any words`.

    A call's `edit` has no number: it is none of the question's options, and has arguments.
    """
    parts: list[Part] = ["    "]
    for number, option in enumerate(question.options, 1):
        parts += [(f"{number} ", "cyan"), plain(option), "   "]
    if question.kind == "tool_approval":
        parts += [("edit", "cyan"), "   "]
    if question.takes_text:
        words = f"words, for {plain(question.text_option)}" if question.text_option else ANY_WORDS
        parts.append((f"or {_WORDS.get(question.kind, words)}", "dim"))
    return parts


def answer_line(run: str, question: InterruptView) -> list[Part]:
    """How to answer it from anywhere: `crewlog answer music-7f3a i1 approve|edit|reject`."""
    return [("answer:  ", "dim"), answer_command(run, question)]


def answer_command(run: str, question: InterruptView) -> str:
    """What somebody types to answer a question: `crewlog answer music-7f3a i1 yes|no`.

    Args:
        run: The run.
        question: The question.
    """
    named = [shlex.quote(plain(option)) for option in options_of(question)]
    if question.takes_text:
        named.append("NUMBER" if question.kind == BUDGET else "respond WORDS")
    return f"crewlog answer {run} {question.id} {'|'.join(named)}"


def find_question(
    questions: Sequence[InterruptView], first: str | None, second: str | None
) -> tuple[InterruptView | None, str | None]:
    """What `crewlog answer RUN [INTERRUPT] [DECISION]` means: one open question needs no id."""
    by_id = {str(question.id): question for question in questions}
    if first is not None and second is not None:
        return by_id.get(first), second
    if first is not None and first in by_id:
        return by_id[first], None
    if first is not None and is_id(first):
        return None, None  # a question that is gone; it is no answer to another one
    only = questions[0] if len(questions) == 1 else None
    return only, first


class Prompt:
    """A question that is open on the terminal, until a line is typed or somebody else answers.

    Its options and the line that is typed stand at the bottom. Whatever the screen prints lifts
    them first; `draw` puts them back beneath it, with what was typed so far.
    """

    def __init__(self, screen: Screen, question: InterruptView, run: str) -> None:
        self.question = question
        self._screen = screen
        self._lines: list[str] = []
        self._typed = Typed()
        self._options = text_of(*numbered(question))
        self._options.rstrip()
        self._drawn = False
        self._listens = True
        self._terminal = sys.stdin.fileno()
        self._keys = None if _in_background(self._terminal) else Keys(self._terminal)
        show_question(screen, question, run)
        self.draw()
        screen.standing = self
        loop = asyncio.get_running_loop()
        loop.add_reader(self._terminal, self._readable)
        loop.add_signal_handler(signal.SIGCONT, self._return)

    def heard(self) -> str | None:
        """The line that was typed, once there is one; `crewlog.cli.hearing` says what it means."""
        while self._lines:
            line = self._lines.pop(0)
            if line.strip():
                return line.strip()
        self.draw()
        return None

    def draw(self) -> None:
        """Puts the prompt at the bottom, where it is not there."""
        if self._drawn or not self._listens:
            return
        self._screen.out.print(self._options, soft_wrap=True)
        self._screen.out.print(_SIGN, style="bold cyan", end="")
        self._write(self._typed.text)
        self._drawn = True

    def lift(self) -> None:
        """Takes the prompt away: what is printed next begins where it stood."""
        if not self._drawn:
            return
        self._drawn = False
        width = columns()
        above = rows_of(self._options.plain, width) + rows_of(_SIGN + self._typed.text, width) - 1
        self._write(f"\r\x1b[{above}A\x1b[J")

    def close(self) -> None:
        """Stop listening; what is printed next begins beneath the prompt, where that stands."""
        self._deafen()
        if self._drawn:
            self._drawn = False
            self._write("\n")
        if self._screen.standing is self:
            self._screen.standing = None

    def _deafen(self) -> None:
        if not self._listens:
            return
        self._listens = False
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._terminal)
        loop.remove_signal_handler(signal.SIGCONT)
        if self._keys is not None:
            self._keys.give_back()

    def _write(self, text: str) -> None:
        self._screen.out.file.write(text)
        self._screen.out.file.flush()

    def _readable(self) -> None:
        # There is something to read, so this never waits.
        data = os.read(self._terminal, _LONGEST_LINE)
        before = self._typed.text
        found = self._typed.feed(data)
        self._lines += found
        if not data or self._typed.ended:  # Ctrl-D: nobody answers here
            self.lift()
            self._deafen()
        elif any(line.strip() for line in found):
            self._answered(before, found)
        elif found and self._keys is None:
            self._drawn = False  # the terminal has begun a line of its own
        elif self._typed.text != before:
            self._echo(before)

    def _echo(self, before: str) -> None:
        """Shows what was typed or erased; the terminal does it where it keeps its own mode."""
        if self._keys is None or not self._drawn:
            return
        text = self._typed.text
        if text.startswith(before):
            self._write(text[len(before) :])
            return
        self._typed.text = before
        self.lift()
        self._typed.text = text
        self.draw()

    def _answered(self, before: str, lines: list[str]) -> None:
        """Leaves the answer where it was typed."""
        if not self._drawn:
            return
        if self._keys is not None:
            answer = next(line for line in lines if line.strip())
            self._write(f"{answer.removeprefix(before)}\n")
        self._drawn = False

    def _return(self) -> None:
        """The command was stopped (Ctrl-Z), and goes on."""
        if _in_background(self._terminal):
            return
        if self._keys is None:
            self._keys = Keys(self._terminal)
        self._keys.take()
        self._drawn = False
        self.draw()


def _in_background(terminal: int) -> bool:
    """Whether another process has the terminal: whoever changes its mode then is stopped."""
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:  # it controls nobody
        return False
