"""What `crewlog answer` does: find the question, answer it once, follow the run on."""

from __future__ import annotations

import asyncio
import difflib
import secrets
import time

from crewlog.cli import exits
from crewlog.cli.answers import VERBS, edited_args, typed
from crewlog.cli.follow import Manner
from crewlog.cli.following import Brought, follow_known
from crewlog.cli.hands import assigned, hand
from crewlog.cli.questions import BUDGET, Prompt, answer_line, chosen, find_question
from crewlog.cli.screen import Screen, plain
from crewlog.cli.services import connected
from crewlog.cli.sight import see
from crewlog.client import Run
from crewlog.errors import InterruptNotOpen, UsageError, WorkerMissing
from crewlog.model import Json
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
        question, decision = _which(
            run_id, sight.questions, meant.first, meant.second, ended=sight.over
        )
        if decision is None:
            if not screen.asks:
                raise UsageError(
                    f"{question.id} needs a decision: {plain(question.question)}",
                    remedy=_how(run_id, question),
                    place=f"run {run_id!r}",
                )
            decision = await _ask(screen, question)
        edit: dict[str, Json] | None = None
        if args is not None or (decision == "edit" and "edit" not in question.options):
            edit, decision = edited_args(screen, question, args), "edit"
        if meant.words and decision == "respond":
            decision = meant.words
        elif meant.words:
            reason = meant.words
        run = client.run(run_id)
        assignment = assigned(sight.queue)
        async with hand(assignment) as lent:
            await _respond(run, question, decision, by, command_id, reason, edit)
            if detach or screen.as_json:
                _told(screen, run_id, question, decision)
            if detach:
                return exits.OK
            return await follow_known(
                screen,
                client,
                run_id,
                after=sight.state.position,
                manner=Manner(ask=screen.asks, leave=not wait),
                brought=Brought(assignment, lent),
            )


def _which(
    run_id: str,
    questions: list[InterruptView],
    first: str | None,
    second: str | None,
    *,
    ended: bool,
) -> tuple[InterruptView, str | None]:
    question, decision = find_question(questions, first, second)
    if question is not None:
        return question, None if decision is None else _checked(run_id, question, decision)
    if not questions:
        why = "it has ended" if ended else "it asks nothing now"
        raise InterruptNotOpen(
            f"the run {run_id!r} has no open question: {why}",
            remedy=f"`crewlog show {run_id}` shows where it is.",
            place=f"run {run_id!r}",
        )
    ids = ", ".join(question.id for question in questions)
    which = (
        f"there is no open question {first!r}"
        if second is not None
        else "several questions are open"
    )
    raise InterruptNotOpen(
        f"{which} in the run {run_id!r}; open now: {ids}",
        remedy=_how(run_id, questions[0]),
        place=f"run {run_id!r}",
    )


def _checked(run_id: str, question: InterruptView, typed: str) -> str:
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
    known = [*question.options, *VERBS]
    close = [] if decision in known else difflib.get_close_matches(decision, known, 1, 0.75)
    if close:
        raise UsageError(
            f"{typed!r} is none of the options: {', '.join(question.options)}",
            remedy=f"Did you mean '{close[0]}'?",
            place=f"run {run_id!r}, {question.id}",
        )
    return decision


def _is_number(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def _how(run_id: str, question: InterruptView) -> str:
    parts = answer_line(run_id, question)
    return "Say it: " + "".join(part for part in parts if isinstance(part, str))


async def _ask(screen: Screen, question: InterruptView) -> str:
    prompt = Prompt(screen, question)
    try:
        while True:
            heard = prompt.heard()
            if heard is not None:
                return heard
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
    """Answer; a worker that has just been started may take a moment. The id makes it one answer."""
    identity = command_id or f"a-{secrets.token_hex(8)}"
    deadline = time.monotonic() + WORKER_LIMIT
    while True:
        try:
            if edit is not None:
                tool = str(question.action_requests[0]["name"])
                await run.edit_call(question.id, tool, edit, by=by, id=identity, reason=reason)
                return
            # Of an approval it says which definition was seen here.
            await run.respond(
                question.id, decision, by=by, id=identity, reason=reason, about=question.hash
            )
        except WorkerMissing:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return


def _told(screen: Screen, run_id: str, question: InterruptView, decision: str) -> None:
    if screen.as_json:
        screen.record(
            {"event": "answered", "run": run_id, "interrupt": question.id, "decision": decision}
        )
        return
    screen.line("  ", (f"✓ {question.id} answered: ", "green"), plain(decision))
