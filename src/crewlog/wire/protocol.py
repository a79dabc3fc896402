"""Names and constants of the wire contract: handlers, search attributes, error types."""

from __future__ import annotations

import re

__all__ = [
    "BUSY",
    "CLOSING",
    "LARGEST_POSITION",
    "NOTIFY_MERGE",
    "PAYLOAD_HASH",
    "SEARCH_ATTRIBUTES",
    "STORE_WAIT",
    "TASK_QUEUE",
    "WORKFLOW_TYPE",
    "noun",
    "refusal_text",
    "spoken",
]

WORKFLOW_TYPE = "CrewRun"
TASK_QUEUE = "crewlog"
"""The default task queue."""

NOTIFY_MERGE = "notify_merge"
"""The signal by which a run asks another run to read its stored state, for a run merge."""
PAYLOAD_HASH = "payload_hash"
"""The query that returns the hash of its argument. The answer proves that the workers can read a
payload that a client has put into external storage."""

SEARCH_ATTRIBUTES = ("CrewlogCrew", "CrewlogPhase", "CrewlogStatus", "CrewlogWaiting")
"""Keyword search attributes. They are left out if the server does not know them."""

CLOSING = "Closing"
"""The error type of an update that a run refuses while it continues as new: send it again."""
BUSY = "Busy"
"""The error type of an `ask` that a run refuses because too many clients wait by `ask`."""
STORE_WAIT = "waits for the store: "
"""The start of `RunView.waiting_for` if a run waits for Postgres."""

LARGEST_POSITION = 2**53
"""The largest journal position that a command may name: every language has it as an integer."""

_CLI_NAMES = {"edit_state": "edit", "message": "inject"}


def spoken(name: str) -> str:
    """The command of the command line that sends a signal or update."""
    return _CLI_NAMES.get(name, name)


_NOUNS = {"set_permission": "ruling", "ask": "question"}
# Not in `_CLI_NAMES`: what a run journals has those words, and a replay says them again.


def noun(name: str) -> str:
    """The noun for a command in a message to people: `this ruling` for `set_permission`."""
    return _NOUNS.get(name, spoken(name))


_NAMED = re.compile(
    r"\b(this|that) (answer|set_permission|edit_state|message)(?= needs|,| has| is)"
)


def refusal_text(refusal: str) -> str:
    """A refusal of a run, for people: `this ruling` in the place of `this set_permission`."""

    def told(found: re.Match[str]) -> str:
        called = noun(found[2])
        article = "an " if called[0] in "aeiou" else "a "
        return f"{found[1]} {'' if found[1] == 'this' else article}{called}"

    return _NAMED.sub(told, refusal)
