"""What a call that has not answered waits for, in words: for lists, pages, and a status line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from crewlog.cli.screen import Screen, plain
from crewlog.client.session import no_worker
from crewlog.reporting.trace.view import PendingCall
from crewlog.state.calls import CALL_MODEL, COMPILE_PROMPT


def pending_words(call: PendingCall) -> str:
    """`waits for attempt 2 of 5 at 12:03:04`: what it waits for, without why."""
    if call.reason == "worker":
        return f"waits for a worker since {_time(call.attempt_at)}"
    number = f"attempt {call.attempt}" + (f" of {call.max_attempts}" if call.max_attempts else "")
    if call.next_at is None:
        return f"{number} is under way"
    what = {"rate_limit": "a rate limit: ", "store": "the store: "}.get(call.reason, "")
    return f"waits for {what}{number} at {_time(call.next_at)}"


def pending_cause(call: PendingCall) -> str:
    """Why it waits, whole, with what to do."""
    if call.reason == "worker":
        if call.has_pollers is False:
            return no_worker(call.task_queue)
        return f"the workers of {call.task_queue!r} are busy" if call.has_pollers else ""
    if not call.error:
        return ""
    failed = f"attempt {call.attempt - 1} failed: {call.error}"
    return f"{failed.rstrip('.')}. {call.remedy}" if call.remedy else failed


def caller(call: PendingCall) -> str:
    """`writer#1 model`: whose call it is, as far as that is known."""
    what = call.tool or {CALL_MODEL: "model", COMPILE_PROMPT: "the prompt"}.get(
        call.activity, call.activity.replace("_", " ")
    )
    return f"{call.step} {what}" if call.step else what


def tell_pending(screen: Screen, call: PendingCall) -> None:
    """That a call waits, whole: since when or until when, and why."""
    cause = pending_cause(call)
    said = f"{caller(call)} {pending_words(call)}{f': {cause}' if cause else ''}"
    screen.wrapped(["  ", ("! ", "bold yellow")], plain(said), indent=4)


def first_words(calls: Sequence[PendingCall]) -> str:
    """What the call waits for that goes on last, in a line: `waits for a worker since 12:00:00`."""
    if not calls:
        return ""
    last = max(calls, key=lambda call: call.next_at or 0)
    cause = pending_cause(last)
    return f"{caller(last)} {pending_words(last)}{f': {cause}' if cause else ''}"


def _time(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000).astimezone():%H:%M:%S}"
