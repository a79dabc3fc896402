"""What is said of a call that Temporal gave up since its time was over."""

from __future__ import annotations


def timeout_words(what: str, owner: str, kind: str) -> tuple[str, str]:
    """What happened, and the setting that helps.

    Args:
        what: What was called: `the model of 'writer'`.
        owner: Whose settings count, `the agent` or `the tool`; empty: nobody's.
        kind: Temporal's name of the timeout: `HEARTBEAT`, `START_TO_CLOSE`.
    """
    if kind == "HEARTBEAT":
        setting = "heartbeat"
        message = f"the worker that called {what} sent no heartbeat in time"
        cause = "Its worker ended or was busy: look at the workers' logs."
    else:
        setting, cause = "timeout", ""
        message = f"{what} did not answer in time"
    helps = f"A longer `{setting}` of {owner} may help." if owner else ""
    return message, " ".join(filter(None, [cause, helps]))
