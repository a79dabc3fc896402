"""What is used of quotas over runs, as the store says it of the hour and the day that it is now."""

from __future__ import annotations

from typing import Any

from crewlog.client.quotas import with_quotas
from crewlog.errors import StoreUnavailable
from crewlog.ids import AgentName, CrewName, RunId, ToolName
from crewlog.store.in_process import InMemoryStore
from crewlog.store.protocol import QuotaPeriod
from crewlog.wire import PermissionsPage, PermissionView, QuotaUseView

NOON = 1_774_785_600_000
"""2026-03-29, 12:00 UTC; in Auckland it is the day after."""


def page(*quotas: tuple[str, str, str]) -> PermissionsPage:
    told = tuple(
        QuotaUseView(rule=f"rules[{n}]", quota=quota, key=key, zone=zone)
        for n, (key, quota, zone) in enumerate(quotas)
    )
    cell = PermissionView(
        agent=AgentName("a"), tool=ToolName("act"), outcome="allow", reason="r", quotas=told
    )
    return PermissionsPage(run=RunId("r"), crew=CrewName("t"), cells=(cell,))


async def used(store: Any, *quotas: tuple[str, str, str]) -> list[tuple[int | None, int | None]]:
    async def opened() -> Any:
        return store

    (cell,) = (await with_quotas(opened, page(*quotas), NOON)).cells
    return [(quota.used_calls, quota.remaining_calls) for quota in cell.quotas]


async def test_what_the_store_counts_is_used_in_the_crews_time_zone() -> None:
    store = InMemoryStore()
    for n, (quota, span) in enumerate(
        [
            ("t/day", "2026-03-29"),
            ("t/day", "2026-03-30"),
            ("t/day", "2026-03-30"),
            ("t/hour", "2026-03-29T12+00:00"),
            ("u/hour", "2026-03-29T12+00:00"),
        ]
    ):
        await store.count_call(f"c{n}", [QuotaPeriod(quota=quota, period=span, limit=9)], NOON)
    assert await used(store, ("day", "9 per day", "UTC")) == [(1, 8)]
    assert await used(store, ("day", "9 per day", "Pacific/Auckland")) == [(2, 7)]
    both = [("hour", "9 per hour", "UTC"), ("none", "9 per day", "UTC")]
    assert await used(store, *both) == [(1, 8), (0, 9)]


async def test_of_one_name_in_two_crews_each_counts_its_own() -> None:
    store = InMemoryStore()
    for call, crew in (("c1", "t"), ("c2", "u"), ("c3", "u")):
        counted = QuotaPeriod(quota=f"{crew}/day", period="2026-03-29", limit=9)
        await store.count_call(call, [counted], NOON)
    asked = page(("day", "9 per day", "UTC"), ("day", "9 per day", "UTC"))
    (cell,) = asked.cells
    own, other = cell.quotas
    both = (own, other.model_copy(update={"crew": "u"}))
    asked = asked.model_copy(update={"cells": (cell.model_copy(update={"quotas": both}),)})

    async def opened() -> Any:
        return store

    (told,) = (await with_quotas(opened, asked, NOON)).cells
    assert [quota.used_calls for quota in told.quotas] == [1, 2]


async def test_what_cannot_be_told_is_left_open() -> None:
    class Away:
        async def counted_calls(self, _: Any) -> Any:
            raise StoreUnavailable("away")

    assert await used(Away(), ("day", "9 per day", "UTC")) == [(None, None)]
    # A quota of the run itself names no zone: the store is not asked.
    assert (
        await used(None, ("run", "9 per run", ""), ("day", "9 per day", "Mars/Nowhere"))
        == [(None, None)] * 2
    )
    assert await used(None) == []
