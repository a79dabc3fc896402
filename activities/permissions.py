"""The checks right before a call begins: changed permissions, and quotas over runs.

The workflow authorizes a call by its journal up to a position. If people set a permission later,
the store has it before their command gets its result. So an activity only checks whether the stored
journal of the run has a change of permissions after that position. If so, the call does not begin,
and the workflow authorizes it again: it is denied, people are asked, or it is scheduled again.
Without the store, no call begins.

The last check comes right before the effect, after everything that may take long: the tools of an
MCP server, name resolution, quotas, secrets. For a call with a start record, the statement that
writes the record makes this check. For any other call, the check is repeated if the first one,
which comes with the storing of the batch, is older than `FRESH`. So a call without delay needs no
extra round trip. The result of a command that changes permissions takes longer than `FRESH`: it
needs the end of an activity and a workflow task, and the server persists both. So a call that
begins after that result has seen the change.

A model call begins when the model gets its prompt. It may have waited since it was scheduled: in a
queue, between two attempts, or for a lost worker. Its first check is that of the workflow, at the
time of scheduling. If the call reaches its worker at once, no other check is needed. Otherwise it
first stores its batch, which it must store anyway, and the store returns the position to compare.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, tzinfo

from temporalio import activity

from crewlog.activities.clock import Clock
from crewlog.definition.quotas import quota_of, window_ends
from crewlog.errors import PermissionsChanged, ToolFailed
from crewlog.ids import idempotency_key
from crewlog.state.calls import (
    CallInput,
    CallQuota,
    CallTool,
    quota_idempotency_key,
    quota_store_name,
)
from crewlog.store.protocol import Store
from crewlog.store.quotas import find_time_zone, quota_period

FRESH = 0.005
"""Seconds for which a check of the permissions is valid, counted from the query to the store."""


class CallDenied(Exception):
    """A check denies the call; the model and the journal get the reason."""

    def __init__(self, reason: str, rule: str = "") -> None:
        super().__init__(reason)
        self.rule = rule
        """The permission or check that denied it: `approvals`, `rules[1]`."""


def check_permissions_unchanged(task: CallInput, last_change: int) -> None:
    """Checks that permissions have not changed since a call was scheduled.

    Args:
        task: The call.
        last_change: The last position of the stored journal with a change of permissions.

    Raises:
        PermissionsChanged: they have changed; the workflow authorizes the call again.
    """
    if last_change > task.known_position:
        raise permissions_changed_error(task)


def permissions_changed_error(task: CallInput) -> PermissionsChanged:
    """Returns the error for a change of permissions after a call was scheduled."""
    what = repr(task.tool) if isinstance(task, CallTool) else f"the model of {task.agent!r}"
    return PermissionsChanged(
        f"permissions were changed after {what} was scheduled",
        remedy="The run authorizes the call again by itself.",
        place=f"step {task.step}, call {task.call}",
    )


def scheduled_at() -> float:
    """Returns when the workflow scheduled this activity, by the monotonic clock.

    The result is minus infinity if the clock of this worker is behind that of the server: then it
    is unknown how long ago that was.
    """
    info, now = activity.info(), datetime.now(UTC)
    if now < info.started_time:
        return -math.inf
    return time.monotonic() - (now - info.scheduled_time).total_seconds()


async def recheck_permissions(store: Store, task: CallTool, checked_at: float) -> None:
    """Checks the permissions again, right before a call begins, if the last check is too old.

    Args:
        store: The store with the journal.
        task: The call.
        checked_at: When the store was queried last, by the monotonic clock.

    Raises:
        PermissionsChanged: permissions have changed.
        StoreUnavailable: the store does not answer; the call must not begin.
    """
    if time.monotonic() - checked_at > FRESH:
        check_permissions_unchanged(task, await store.last_permission_position(task.run))


async def count_call(store: Store, task: CallTool) -> dict[str, str]:
    """Counts a call in its quotas over runs.

    Returns:
        The quotas by their names in the store, each with the hour or day that counts the call.

    Raises:
        CallDenied: a quota is used up. Then no quota counts the call.
        StoreUnavailable: the store does not answer; the call must not begin.
    """
    if not task.quotas:
        return {}
    at = Clock().now()
    quotas = {_name(quota): quota for quota in task.quotas}
    periods = [quota_period(quota, at, _zone(quota)) for quota in task.quotas]
    exhausted = await store.count_call(_key(task), periods, at)
    if exhausted is not None:
        quota = quotas[exhausted]
        is_daily = quota_of(quota.quota).per == "day"
        end = window_ends("day" if is_daily else "hour", at, _zone(quota))
        reason = f"Refused: {quota.rule}: at most {quota.quota}, and the next begins at {end}."
        raise CallDenied(reason, quota.rule.partition(" ")[0])
    return {each.quota: each.period for each in periods}


async def release_quotas(store: Store, task: CallTool) -> None:
    """Releases the quotas of a call that was not made."""
    if task.quotas:
        await store.release_call(_key(task), [_name(quota) for quota in task.quotas])


def may_have_started(task: CallTool) -> bool:
    """Whether an earlier attempt of a call may have made it."""
    return task.attempt > 1 or activity.info().attempt > 1


async def release_if_not_started(
    store: Store, task: CallTool, counted: dict[str, str]
) -> dict[str, str]:
    """Releases the quotas of a call that does not begin.

    If an earlier attempt may have begun the call, the quotas still count it.

    Args:
        store: The store with the quotas.
        task: The call.
        counted: The result of `count_call`.

    Returns:
        The quotas that still count the call, as the result of `count_call`.
    """
    if not counted or may_have_started(task):
        return counted
    await release_quotas(store, task)
    return {}


def _key(task: CallTool) -> str:
    return quota_idempotency_key(
        idempotency_key(task.run, task.step, task.call), task.run_started_at
    )


def _name(quota: CallQuota) -> str:
    return quota_store_name(quota.crew, quota.key)


def _zone(quota: CallQuota) -> tzinfo:
    zone = find_time_zone(quota.zone)
    if zone is None:
        raise ToolFailed(
            f"this worker does not know the time zone {quota.zone!r} of a quota",
            remedy="Install the package tzdata on the worker.",
        )
    return zone
