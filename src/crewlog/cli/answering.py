"""What `crewlog answer` does: find the question, answer it once, follow the run on."""

from __future__ import annotations

import asyncio
import difflib
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from crewlog.cli import exits
from crewlog.cli.answers import VERBS, edited_args, typed
from crewlog.cli.follow import Manner
from crewlog.cli.following import Brought, follow_known
from crewlog.cli.hands import assigned, hand
from crewlog.cli.hearing import Heard, chosen, heard, is_id
from crewlog.cli.questions import BUDGET, Prompt, answer_line, find_question
from crewlog.cli.screen import Screen, plain
from crewlog.cli.services import connected
from crewlog.cli.sight import Sight, see
from crewlog.cli.timeline import sentences
from crewlog.client import Run
from crewlog.definition.times import moment_words
from crewlog.errors import CrewlogError, InterruptNotOpen, UsageError, WorkerMissing
from crewlog.ids import InterruptId
from crewlog.model import Json
from crewlog.state.answers import ESCALATED
from crewlog.wire import InterruptView

WORKER_LIMIT = 40.0
"""Seconds for a worker of our own to come up and answer."""


async def answer_run(
    run_id: str,
    first: str | None,
    second: str | None,
    *,
    detach: bool,
    wait: bool,
    by: str | None,
    command_id: str | None,
    as_json: bool,
    reason: str = "",
    words: str | None = None,
    args: str | None = None,
) -> int:
    """Answer, and follow unless `detach`."""
    meant = typed(first, second, words)
    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        sight = await see(client, run_id)
        try:
            question, said = _which(sight, meant.first, meant.second)
        except InterruptNotOpen:
            gone, decided = meant.first, meant.second
            if not gone or not decided or sight.over:
                raise
            # The run refuses it, too, so that its audit has who tried; what became of the question
            # is told here. Unless it was asked a moment ago.
            who: dict[str, Any] = {"by": by, "id": command_id, "reason": reason}
            if not await _taken(client.run(run_id), sight.queue, gone, decided, who):
                raise
            screen.line("  ", (f"✓ {plain(gone)} answered: ", "green"), plain(decided))
            return exits.OK
        if said is None:
            if not screen.asks:
                raise UsageError(
                    f"{question.id} needs a decision: {plain(question.question)}",
                    remedy=_how(run_id, question),
                    place=f"run {run_id!r}",
                )
            said = await _ask(screen, run_id, question)
        decision, reason = said.decision, said.reason or reason
        edit: dict[str, Json] | None = None
        if args is not None or (decision == "edit" and "edit" not in question.options):
            edit = edited_args(screen, question, said.args if args is None else args)
            decision = "edit"
        if meant.words and decision == "respond":
            decision = meant.words
        elif meant.words:
            reason = meant.words
        run = client.run(run_id)
        assignment = assigned(sight.queue)
        async with hand(assignment) as lent:
            await _respond(run, question, decision, by, command_id, reason, edit)
            if detach or screen.as_json:
                _told(screen, run_id, question, decision, reason)
            if detach:
                return exits.OK
            return await follow_known(
                screen,
                client,
                run_id,
                after=sight.state.position,
                manner=Manner(ask=screen.asks, leave=not wait, rests=not wait),
                brought=Brought(assignment, lent),
            )


def _which(
    sight: Sight, first: str | None, second: str | None
) -> tuple[InterruptView, Heard | None]:
    """The question that is meant, and what is said; nothing where nothing was.

    Raises:
        InterruptNotOpen: it is not open; who was first, and what they said, is told.
        UsageError: what is said is almost an option.
    """
    run_id, questions = sight.run, sight.questions
    question, decision = find_question(questions, first, second)
    if question is not None:
        return question, None if decision is None else _checked(run_id, question, decision)
    ids = ", ".join(question.id for question in questions)
    gone = first if first is not None and (second is not None or is_id(first)) else None
    if not questions:
        which = f"the run {run_id!r} has no open question"
        why = "it has ended" if sight.over else "it asks nothing now"
        remedy = f"`crewlog show {run_id}` shows where it is."
    else:
        several = "several questions are open" if gone is None else f"{gone!r} is not open"
        which, why = f"{several} in the run {run_id!r}", f"open now: {ids}"
        remedy = _how(run_id, questions[0])
    told = "" if gone is None else _was(sight, gone)
    raise InterruptNotOpen(
        f"{which}: {told}; {why}" if told else f"{which}: {why}",
        remedy=remedy,
        place=f"run {run_id!r}",
    )


def _was(sight: Sight, gone: str) -> str:
    """What became of a question: `ana answered i1 'approve' 08:41:31`; empty where nobody knows."""
    known = sight.state.answers.get(InterruptId(gone))
    if known is None:
        return ""
    when = moment_words(known.at)
    if not known.expired:
        return f"{known.by} answered {gone} {known.decision!r} {when}"
    if known.decision != ESCALATED:
        return f"{gone} expired {when}, and the crew's policy answered {known.decision!r}"
    to = next((each for each in sight.questions if each.escalated), None)
    whom = f" to {', '.join(to.to)} as {to.id}" if to is not None else ""
    return f"{gone} expired {when} and was escalated{whom}"


def _checked(run_id: str, question: InterruptView, typed: str) -> Heard:
    """What was typed as a decision; an option that is misspelt must not pass for words.

    Raises:
        UsageError: it is almost an option.
    """
    decision = chosen(question, typed)
    if question.kind == BUDGET and not (
        decision in (*question.options, *VERBS) or _is_number(decision)
    ):
        raise UsageError(
            f"{typed!r} is no answer to {question.id}",
            remedy=f"Its options are: {', '.join(question.options)}; or a number: how much more.",
            place=f"run {run_id!r}, {question.id}",
        )
    if question.kind == "tool_approval" or question.text_option:
        return Heard(decision) if decision in VERBS else heard(question, typed)
    known = [*question.options, *VERBS]
    close = [] if decision in known else difflib.get_close_matches(decision, known, 1, 0.75)
    if close:
        raise UsageError(
            f"{typed!r} is none of the options: {', '.join(question.options)}",
            remedy=f"Did you mean '{close[0]}'?",
            place=f"run {run_id!r}, {question.id}",
        )
    return Heard(decision)


def _is_number(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def _how(run_id: str, question: InterruptView) -> str:
    parts = answer_line(run_id, question)
    return "Say it: " + "".join(part for part in parts if isinstance(part, str))


async def _ask(screen: Screen, run_id: str, question: InterruptView) -> Heard:
    """What somebody types at the terminal; what might be a slip is asked back."""
    while True:
        line = await _line(screen, question, run_id)
        try:
            return _checked(run_id, question, line)
        except UsageError as error:
            said = sentences(f"{error.message}\n{error.remedy}")
            screen.paragraph(f"✗ {said}", style="red")


async def _line(screen: Screen, question: InterruptView, run_id: str) -> str:
    prompt = Prompt(screen, question, run_id)
    try:
        while True:
            line = prompt.heard()
            if line is not None:
                return line
            await asyncio.sleep(0.05)
    finally:
        prompt.close()


async def _respond(
    run: Run,
    question: InterruptView,
    decision: str,
    by: str | None,
    command_id: str | None,
    reason: str,
    edit: dict[str, Json] | None,
) -> None:
    """Answer; the id makes it one answer, however often it is sent."""
    identity = command_id or f"a-{secrets.token_hex(8)}"

    async def send() -> None:
        if edit is not None:
            tool = str(question.action_requests[0]["name"])
            await run.edit_call(question.id, tool, edit, by=by, id=identity, reason=reason)
            return
        # Of an approval it says which definition was seen here.
        await run.answer(
            question.id, decision, by=by, id=identity, reason=reason, about=question.hash
        )

    await _patiently(send)


async def _taken(run: Run, queue: str, gone: str, decided: str, who: dict[str, Any]) -> bool:
    """Whether the run takes an answer to a question that nobody finds open."""
    who["id"] = who["id"] or f"a-{secrets.token_hex(8)}"
    assignment = assigned(queue)
    limit = WORKER_LIMIT if assignment.own else 0.0
    async with hand(assignment):
        try:
            await _patiently(lambda: run.answer(gone, decided, **who), limit)
        except CrewlogError:
            return False
    return True


async def _patiently(send: Callable[[], Awaitable[Any]], limit: float = WORKER_LIMIT) -> None:
    """Sends until a worker answers: one that has just been started takes a moment."""
    deadline = time.monotonic() + limit
    while True:
        try:
            await send()
        except WorkerMissing:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return


def _told(screen: Screen, run_id: str, question: InterruptView, decision: str, reason: str) -> None:
    refuses = question.kind == "tool_approval" and decision not in (*question.options, "edit")
    if refuses:  # words do, and whoever said them is told so
        decision, reason = "reject", decision
    if screen.as_json:
        told = {"run": run_id, "interrupt": question.id, "decision": decision}
        screen.record({"event": "answered", **told, **({"reason": reason} if reason else {})})
        return
    why = f" ({plain(reason)})" if reason else ""
    screen.line("  ", (f"✓ {question.id} answered: ", "green"), plain(decision), why)
