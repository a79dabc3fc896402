"""What is used of quotas over runs: asked of the store, which counts the calls of all runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeVar

from crewlog.client.journal import OpenStore
from crewlog.definition.quotas import quota_of, window_ends, window_of
from crewlog.errors import StoreUnavailable
from crewlog.reporting.permission_matrix.builder import with_quota_use
from crewlog.state.calls import quota_store_name
from crewlog.store.quotas import find_time_zone
from crewlog.wire import InterruptView, PermissionsPage, QuotaUseView, QuotaView


async def with_quotas(
    open_store: OpenStore, page: PermissionsPage, at: int | None = None
) -> PermissionsPage:
    """A part of the matrix, with what is used of the hours and days of now.

    Where the store is away, or a zone is not known here, that is left open.

    Args:
        open_store: Opens the store.
        page: The cells.
        at: The time, in milliseconds since the epoch; by default now.
    """
    at = int(time.time() * 1000) if at is None else at
    wanted = {
        quota: (quota_store_name(quota.crew or page.crew, quota.key), span)
        for cell in page.cells
        for quota in cell.quotas
        if (span := _span(quota, at))
    }
    if not wanted:
        return page
    try:
        counted = await (await open_store()).counted_calls(wanted.values())
    except StoreUnavailable:
        return page
    used = {quota: counted[each] for quota, each in wanted.items()}
    return page.model_copy(
        update={"cells": tuple(with_quota_use(cell, used) for cell in page.cells)}
    )


Asked = TypeVar("Asked", bound=InterruptView)


async def with_used_up(
    open_store: OpenStore, questions: Sequence[Asked], at: int | None = None
) -> list[Asked]:
    """Questions, those marked whose calls a quota would not let through now.

    Only where one is about such a call the store is asked; where it is away, that is left open.

    Args:
        open_store: Opens the store.
        questions: The questions.
        at: The time, in milliseconds since the epoch; by default now.
    """
    at = int(time.time() * 1000) if at is None else at
    zones = {quota: find_time_zone(quota.zone) for each in questions for quota in each.quotas}
    spans = {
        quota: (quota.name, window_of(quota_of(quota.quota).per, at, zone))
        for quota, zone in zones.items()
        if zone is not None
    }
    if not spans:
        return list(questions)
    try:
        counted = await (await open_store()).counted_calls(spans.values())
    except StoreUnavailable:
        return list(questions)
    said: dict[QuotaView, str] = {}
    for quota, span in spans.items():
        most, per = quota_of(quota.quota)
        if counted[span] >= most and (zone := zones[quota]) is not None:
            ends = window_ends(per, at, zone)
            said[quota] = (
                f"{quota.rule} is used up, at most {quota.quota}: no yes lets the call through "
                f"before the next {per} begins at {ends}"
            )
    told = [next((said[quota] for quota in each.quotas if quota in said), "") for each in questions]
    return [
        each.model_copy(update={"exhausted_quota": full}) if full else each
        for each, full in zip(questions, told, strict=True)
    ]


def _span(quota: QuotaUseView, at: int) -> str:
    """The hour or the day that calls are counted in now; empty where that is not known."""
    zone = find_time_zone(quota.zone) if quota.zone else None
    return "" if zone is None else window_of(quota_of(quota.quota).per, at, zone)
