"""What is used of quotas over runs: asked of the store, which counts the calls of all runs."""

from __future__ import annotations

import time

from crewlog.client.journal import OpenStore
from crewlog.definition.quotas import quota_of, window_of
from crewlog.errors import StoreUnavailable
from crewlog.graph.matrix import QuotaView, with_used
from crewlog.state.calls import quota_name
from crewlog.store.quotas import zone_of
from crewlog.wire import PermissionsPage


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
    quotas = [quota for cell in page.cells for quota in cell.quotas]
    spans = {quota.key: span for quota in quotas if (span := _span(quota, at))}
    if not spans:
        return page
    wanted = {key: (quota_name(page.crew, key), span) for key, span in spans.items()}
    try:
        counted = await (await open_store()).counted(wanted.values())
    except StoreUnavailable:
        return page
    used = {key: counted[each] for key, each in wanted.items()}
    return page.model_copy(update={"cells": tuple(with_used(cell, used) for cell in page.cells)})


def _span(quota: QuotaView, at: int) -> str:
    """The hour or the day that calls are counted in now; empty where that is not known."""
    zone = zone_of(quota.zone) if quota.zone else None
    return "" if zone is None else window_of(quota_of(quota.quota).per, at, zone)
