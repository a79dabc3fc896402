"""A run that does not begin with nothing: messages and values that are there at its beginning."""

from __future__ import annotations

from crewlog.content import hash_json
from crewlog.errors import CommandRejected, InternalError, UsageError
from crewlog.graph.editing import edit_state
from crewlog.graph.facts import RunFacts, message_body
from crewlog.ids import LogName
from crewlog.state import journal as j
from crewlog.state.given import Given
from crewlog.state.messages import message_from_json

NOBODYS = LogName("private:#request")
"""A log that no agent reads: none has such a name."""


def give(run: RunFacts, given: Given, *, by: str) -> None:
    """Puts messages and values into a run that begins, as if they had been said and set before.

    Args:
        run: The run, which has not routed to its first nodes yet.
        given: What it is given.
        by: Who starts the run.

    Raises:
        UsageError: a message is none, or a value cannot stand where it is to.
    """
    for number, message in enumerate(given.messages):
        try:
            message_from_json(message.body)
        except InternalError as error:
            raise UsageError(
                f"given.messages[{number}]: {error.message}",
                remedy="A body has `type` (human, ai, tool) and `content`; docs/wire.md has more.",
            ) from error
        ref = j.MessageRef(body=hash_json(message.body), logs=(message.log,), inline=message.body)
        run.record(j.MessageAdded(ref=ref, by=by))
    if given.request:
        body = message_body(given.request, by=by, message_id="request")
        ref = j.MessageRef(body=hash_json(body), logs=(NOBODYS,), inline=body)
        run.record(j.MessageAdded(ref=ref, by=by, asks=True))
    if not given.values:
        return
    try:
        edit_state(run, given.values, (), by=by, logs=given.logs)
    except CommandRejected as error:
        raise UsageError(f"given.values: {error.message}", remedy=error.remedy) from error
