"""How a store counts calls in quotas over runs: each in the hour or the day that it begins in."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from crewlog.definition.quotas import quota_of, window_of
from crewlog.state.calls import CallQuota, quota_store_name
from crewlog.store.protocol import QuotaPeriod


def time_zone(name: str) -> tzinfo | None:
    """A time zone; none where this machine does not know it."""
    if name == "UTC":  # which needs no tables of zones
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def quota_period(quota: CallQuota, at: int, zone: tzinfo) -> QuotaPeriod:
    """Where a call is counted that begins at a time.

    Args:
        quota: A quota of the call.
        at: The time, in milliseconds since the epoch.
        zone: The quota's zone.
    """
    limit, per = quota_of(quota.quota)
    period = window_of(per, at, zone)
    return QuotaPeriod(quota=quota_store_name(quota.crew, quota.key), period=period, limit=limit)
