"""The message of a call that reached a timeout."""

from __future__ import annotations


def timeout_message(what: str, owner: str, kind: str) -> tuple[str, str]:
    """The error and the remedy.

    Args:
        what: What was called: `the model of 'writer'`.
        owner: Whose setting applies, `the agent` or `the tool`; empty: there is none.
        kind: Temporal's type of the timeout: `HEARTBEAT`, `START_TO_CLOSE`.
    """
    if kind == "HEARTBEAT":
        setting = "heartbeat"
        message = f"the worker that called {what} sent no heartbeat in time"
        cause = "Its worker ended or was busy: look at the workers' logs."
    else:
        setting, cause = "timeout", ""
        message = f"{what} did not answer in time"
    remedy = f"A longer `{setting}` of {owner} may help." if owner else ""
    return message, " ".join(filter(None, [cause, remedy]))
