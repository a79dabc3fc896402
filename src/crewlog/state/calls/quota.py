"""Quotas over runs, and their names in the store."""

from __future__ import annotations

from crewlog.ids import CrewName
from crewlog.model import Model


class CallQuota(Model):
    """A quota over runs in which a call is to be counted before it begins."""

    key: str
    """Its name within the crew."""
    crew: CrewName
    quota: str
    """`20 per hour`, `100 per day`."""
    zone: str = "UTC"
    """Whose hours and days."""
    rule: str = ""
    """The rule, for the reason of a refusal."""


def quota_store_name(crew: str, key: str) -> str:
    """The name in the store of a crew's quota over runs."""
    return f"{crew}/{key}"


def quota_idempotency_key(call: str, started: int) -> str:
    """The name in the store of a call that quotas over runs count.

    The call's own key is not enough: a run whose id is used again makes calls of the same keys.

    Args:
        call: The call's key, or the end of it that is the run's own.
        started: When its run started, in milliseconds since the epoch.
    """
    return f"{call}@{started}"
