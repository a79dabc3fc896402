"""The calls of a run that count in quotas over runs, by its histories.

A tool's result says in which hours and days the call was counted. Of one that began and has no
result nobody knows whether it was made: it counts, as in the store that was lost, from when that
was known, or from now where it is still open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from crewlog.client.histories import Chain, Execution
from crewlog.ids import RunId, idempotency_key
from crewlog.state.calls import quota_idempotency_key
from crewlog.store.protocol import COUNTED_CALL_RETENTION, QuotaPeriod, Store
from crewlog.store.quotas import find_time_zone, quota_period

_ANY = 2**62
"""More calls than any quota has: what was made counts, also beyond what is allowed today."""


class Counted(NamedTuple):
    """A call that counts."""

    call: str
    """Its name in the store, as `crewlog.state.calls.quota_idempotency_key` makes it."""
    quotas: tuple[QuotaPeriod, ...]
    """Where it counts."""
    at: int
    """When it was made, or may have been, in milliseconds since the epoch."""


def counted(run: RunId, chain: Chain, now: int) -> Iterator[Counted]:
    """The calls of a run that count, as far as a store still knows of calls of that age.

    Args:
        run: The run.
        chain: Its executions.
        now: In milliseconds since the epoch.
    """
    for execution in chain.executions:
        for each in (*_answered(run, execution), *_open(run, execution, now)):
            if each.quotas and each.at > now - COUNTED_CALL_RETENTION:
                yield each


async def count(store: Store, run: RunId, chain: Chain, now: int) -> None:
    """Counts a run's calls again; what is counted already stays as it is."""
    for call, quotas, at in counted(run, chain, now):
        await store.count_call(call, quotas, at)


def _answered(run: RunId, execution: Execution) -> Iterator[Counted]:
    for call, (spans, at) in execution.extracted.counted.items():
        quotas = (QuotaPeriod(quota=name, period=span, limit=_ANY) for name, span in spans.items())
        yield Counted(f"{run}/{call}", tuple(quotas), at)


def _open(run: RunId, execution: Execution, now: int) -> Iterator[Counted]:
    told = execution.extracted
    for activity, task in told.calls.items():
        at = now if activity in execution.unanswered else execution.uncertain.get(activity)
        if at is None or activity in told.attempts:
            continue
        zones = ((quota, find_time_zone(quota.zone)) for quota in task.quotas)
        quotas = (quota_period(quota, at, zone) for quota, zone in zones if zone is not None)
        most = (each.model_copy(update={"limit": _ANY}) for each in quotas)
        call = quota_idempotency_key(
            idempotency_key(run, task.step, task.call), task.run_started_at
        )
        yield Counted(call, tuple(most), at)
