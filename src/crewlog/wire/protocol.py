"""Names and constants of the wire contract: handlers, search attributes, error types."""

from __future__ import annotations

__all__ = [
    "BUSY",
    "CLOSING",
    "LARGEST_POSITION",
    "NOTIFY_MERGE",
    "PAYLOAD_HASH",
    "REQUEST_MERGE",
    "SEARCH_ATTRIBUTES",
    "STORE_WAIT",
    "TASK_QUEUE",
    "WORKFLOW_TYPE",
]

WORKFLOW_TYPE = "CrewRun"
TASK_QUEUE = "crewlog"
"""The default task queue."""

NOTIFY_MERGE = "notify_merge"
"""The signal by which the coordinator of a run merge confirms that its outcome is stored."""
REQUEST_MERGE = "request_merge"
"""The update by which a run asks another one to coordinate a run merge, or to freeze for it."""
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
