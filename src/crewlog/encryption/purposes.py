"""The purposes of payloads: part of the place that they are bound to, see `codec`."""

from __future__ import annotations

Purpose = tuple[str, ...]
"""What a payload is for; empty for one that leads to no action: a memo, the answer of a query."""
START: Purpose = ("start",)
"""The input of a run."""
SCHEDULE: Purpose = ("schedule",)
"""The input of all runs of a schedule, whose id is the workflow of the place."""
CARRY: Purpose = ("carry",)
"""The input of a continued execution."""
STARTS = (START, SCHEDULE)
"""The purposes of what a client starts a run with."""


def signal(name: str) -> Purpose:
    """The purpose of the content of a signal."""
    return ("signal", name)


def update(name: str, id: str) -> Purpose:
    """The purpose of the content of an update with an id of Temporal."""
    return ("update", name, id)


def call(activity_type: str, activity_id: str) -> Purpose:
    """The purpose of the input of an activity."""
    return ("call", activity_type, activity_id)


def result(activity_type: str, activity_id: str) -> Purpose:
    """The purpose of what an activity answers: its result, its failures, its heartbeats."""
    return ("result", activity_type, activity_id)
