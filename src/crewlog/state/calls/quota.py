"""Quotas over several runs, and their names in the store."""

from __future__ import annotations

from crewlog.ids import CrewName
from crewlog.model import Model


class CallQuota(Model):
    """A quota over several runs that a call has to be counted in before it starts."""

    key: str
    """Its name within the crew."""
    crew: CrewName
    quota: str
    """`20 per hour`, `100 per day`."""
    zone: str = "UTC"
    """The time zone of its hours and days."""
    rule: str = ""
    """The permission that has it, for the reason of a denial."""


def quota_store_name(crew: str, key: str) -> str:
    """The name of a quota over several runs in the store."""
    return f"{crew}/{key}"


def quota_idempotency_key(call: str, started: int) -> str:
    """The name in the store of a call that quotas over several runs count.

    It includes the start of the run, since a later run with the same id makes calls with the same
    keys.

    Args:
        call: The idempotency key of the call, or the part of it after the run id.
        started: When the run was started, in milliseconds since the epoch.
    """
    return f"{call}@{started}"
