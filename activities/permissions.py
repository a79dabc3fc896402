"""The checks of a call right before it begins: what was ruled since, and quotas over runs.

The workflow has checked the call with everything that its journal says up to a position. Whatever
people rule after that is in the store before they are answered. So an activity needs to know but
one thing: whether the run's journal has a ruling beyond that position. Then it does not begin, and
the workflow, which knows of the ruling, checks the call anew: it is refused, or people are asked,
or it is scheduled once more. Where the store cannot be asked, nothing begins.

A call begins with the last look. It comes after all that may take long: a server's tools, names
that are looked up, quotas that others hold, secrets. A call that is claimed is looked at by the
statement that claims it. Any other is where the first look, which comes with what the activity
stores anyway, is older than `FRESH`: so a call that nothing held up costs no round trip. A ruling
is answered later than it is in the store, by the end of an activity, a workflow task and the
answer's way, each of which the server writes down. That is more than `FRESH`: who has the answer,
and finds a call that begins after it, has found a call that was looked at after the ruling.

A call of a model begins when the model is given its prompt, and has waited for that since it was
scheduled: in a queue, between two tries, for a worker that died. Its first look is the workflow's
own, at that time. What is ruled after that is answered even later than what a worker has missed,
since it is yet to be stored. So where the call comes to its worker at once, nothing is asked; any
other stores what led to it first, which is due anyway, and that answers.
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
from crewlog.store.quotas import quota_period, time_zone

FRESH = 0.005
"""Seconds for which a look at what people ruled is good, from when the store was asked."""


class CallDenied(Exception):
    """A check refuses the call: the model is told why, and so is the journal."""

    def __init__(self, reason: str, rule: str = "") -> None:
        super().__init__(reason)
        self.rule = rule
        """What decided: `approvals`, `rules[1]`."""


def check_permissions_unchanged(task: CallInput, ruled: int) -> None:
    """Checks that nothing was ruled since a call was scheduled.

    Args:
        task: The call.
        ruled: The last position at which its run's stored journal says who may do what.

    Raises:
        PermissionsChanged: something was; the workflow looks at the call again.
    """
    if ruled > task.knows:
        raise permissions_changed_error(task)


def permissions_changed_error(task: CallInput) -> PermissionsChanged:
    """That something was ruled since a call was scheduled."""
    what = repr(task.tool) if isinstance(task, CallTool) else f"the model of {task.agent!r}"
    return PermissionsChanged(
        f"who may call or read what was ruled after {what} was scheduled",
        remedy="The run looks at the call again by itself.",
        place=f"step {task.step}, call {task.call}",
    )


def scheduled() -> float:
    """When the workflow looked at this activity's call the last time, by the monotonic clock.

    The server says when that was, and when the call was given to this worker; how long it was on
    its way, the worker's clock says. One that is behind the server's says nothing.
    """
    info, now = activity.info(), datetime.now(UTC)
    if now < info.started_time:
        return -math.inf
    return time.monotonic() - (now - info.scheduled_time).total_seconds()


async def recheck_permissions(store: Store, task: CallTool, looked: float) -> None:
    """Looks at what was ruled once more, right before a call begins, where the last look is old.

    Args:
        store: Where rulings are.
        task: The call.
        looked: When the store was asked the last time, by the monotonic clock.

    Raises:
        PermissionsChanged: something was ruled meanwhile.
        StoreUnavailable: the store is away; nothing may begin.
    """
    if time.monotonic() - looked > FRESH:
        check_permissions_unchanged(task, await store.last_permission_position(task.run))


async def count_call(store: Store, task: CallTool) -> dict[str, str]:
    """Counts a call in its quotas over runs.

    Returns:
        The quotas by their names in the store, each with the hour or day that counts the call.

    Raises:
        CallDenied: one of them is used up; the call is counted in none.
        StoreUnavailable: the store is away; nothing may begin.
    """
    if not task.quotas:
        return {}
    at = Clock().now()
    wanted = {_name(quota): quota for quota in task.quotas}
    new = [quota_period(quota, at, _zone(quota)) for quota in task.quotas]
    full = await store.count_call(_key(task), new, at)
    if full is not None:
        quota = wanted[full]
        ends = window_ends(
            "day" if quota_of(quota.quota).per == "day" else "hour", at, _zone(quota)
        )
        say = f"Refused: {quota.rule}: at most {quota.quota}, and the next begins at {ends}."
        raise CallDenied(say, quota.rule.partition(" ")[0])
    return {each.quota: each.period for each in new}


async def release(store: Store, task: CallTool) -> None:
    """Takes a call that was not made out of its quotas."""
    if task.quotas:
        await store.release_call(_key(task), [_name(quota) for quota in task.quotas])


def may_have_started(task: CallTool) -> bool:
    """Whether an earlier try of a call may have made it."""
    return task.attempt > 1 or activity.info().attempt > 1


async def give_back(store: Store, task: CallTool, counted: dict[str, str]) -> dict[str, str]:
    """Takes a call that is not begun after all out of its quotas.

    Not where an earlier try may have begun it: then it may have been made, and counts.

    Args:
        store: Where quotas are.
        task: The call.
        counted: What `reserve` has said.

    Returns:
        What counts the call still, as `reserve` says it.
    """
    if not counted or may_have_started(task):
        return counted
    await release(store, task)
    return {}


def _key(task: CallTool) -> str:
    return quota_idempotency_key(idempotency_key(task.run, task.step, task.call), task.started)


def _name(quota: CallQuota) -> str:
    return quota_store_name(quota.crew, quota.key)


def _zone(quota: CallQuota) -> tzinfo:
    zone = time_zone(quota.zone)
    if zone is None:
        raise ToolFailed(
            f"this worker does not know the time zone {quota.zone!r}, whose days a quota counts",
            remedy="Install the package tzdata on it.",
        )
    return zone
