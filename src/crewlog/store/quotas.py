"""Quotas over runs: a call counts in the hour or the day in which it starts."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from crewlog.definition.quotas import quota_of, window_of
from crewlog.state.calls import CallQuota, quota_store_name
from crewlog.store.protocol import QuotaPeriod


def find_time_zone(name: str) -> tzinfo | None:
    """A time zone; None if this machine does not know it."""
    if name == "UTC":  # needs no time zone database
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def quota_period(quota: CallQuota, at: int, zone: tzinfo) -> QuotaPeriod:
    """The period of a quota in which a call counts.

    Args:
        quota: The quota.
        at: The start of the call, in milliseconds since the epoch.
        zone: The time zone of the quota.
    """
    limit, per = quota_of(quota.quota)
    period = window_of(per, at, zone)
    return QuotaPeriod(quota=quota_store_name(quota.crew, quota.key), period=period, limit=limit)
