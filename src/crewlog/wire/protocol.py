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
    "cli_name",
    "cli_noun",
    "with_cli_nouns",
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
"""The keyword search attributes. They are omitted if the server does not know them."""

CLOSING = "Closing"
"""The error type of an update that a run refuses while it continues as new: send it again."""
BUSY = "Busy"
"""The error type of an `ask` that a run refuses because too many clients wait by `ask`."""
STORE_WAIT = "waits for the store: "
"""The prefix of `RunView.wait_reason` if a run waits for Postgres."""

LARGEST_POSITION = 2**53
"""The largest journal position in a command: every language can represent it as an integer."""

_CLI_NAMES = {"edit_state": "edit", "message": "inject"}


def cli_name(name: str) -> str:
    """The command line's name of a signal or update: `edit` for `edit_state`."""
    return _CLI_NAMES.get(name, name)


_CLI_NOUNS = {"set_permission": "ruling", "ask": "question"}
# Not in `_CLI_NAMES`: journal entries contain those names, and a replay must repeat them.


def cli_noun(name: str) -> str:
    """The command line's noun for a command: `ruling` for `set_permission`."""
    return _CLI_NOUNS.get(name, cli_name(name))


_COMMAND_MENTION = re.compile(
    r"\b(this|that) (answer|set_permission|edit_state|message)(?= needs|,| has| is)"
)


def with_cli_nouns(reason: str) -> str:
    """Replaces command names in the reason of a rejection: `this set_permission`, `this ruling`."""

    def replace(match: re.Match[str]) -> str:
        noun = cli_noun(match[2])
        article = "an " if noun[0] in "aeiou" else "a "
        return f"{match[1]} {'' if match[1] == 'this' else article}{noun}"

    return _COMMAND_MENTION.sub(replace, reason)
