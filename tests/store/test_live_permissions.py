"""Live permissions and quotas in every store: what activities look at before a call begins."""

from __future__ import annotations

import asyncio
from typing import Any

from crewlog.ids import AgentName, ContentHash, CrewName, RunId
from crewlog.state import journal as j
from crewlog.state.journal import Batch, entry_to_json
from crewlog.store import Store
from crewlog.store.protocol import COUNTED_CALL_RETENTION, QuotaPeriod


def batch(first: int, *entries: Any) -> Batch:
    return Batch(first=first, entries=tuple(entry_to_json(entry) for entry in entries))


STARTED = j.RunStarted(run=RunId("r"), crew=CrewName("t"), definition=ContentHash("d"))
RULED = j.AgentPermissionSet(tool="act", agent="a", do="deny")
PERMITTED = j.ToolPermissionSet(tool="act", agents=(AgentName("a"),))


async def test_the_last_ruling_is_told_with_what_is_appended(store: Store) -> None:
    assert await store.last_permission_position(RunId("ruled-0")) == 0
    assert await store.append(RunId("ruled-0"), batch(1, STARTED, j.Paused())) == 0
    await store.append(RunId("ruled-0"), batch(3, RULED))
    assert await store.last_permission_position(RunId("ruled-0")) == 3
    # Whoever stores something later learns of it, whatever it stores, and other runs do not.
    assert await store.append(RunId("ruled-0"), batch(4, j.RunResumed())) == 3
    assert await store.append(RunId("ruled-0"), Batch.EMPTY) == 3
    assert await store.append(RunId("other-0"), batch(1, STARTED)) == 0
    await store.append(RunId("ruled-0"), batch(5, PERMITTED))
    await store.append(RunId("ruled-0"), batch(3, RULED))  # it comes again, and late
    assert await store.last_permission_position(RunId("ruled-0")) == 5


async def test_live_permissions_go_with_the_journal_that_has_them(store: Store) -> None:
    await store.append(RunId("ruled-1"), batch(1, STARTED, RULED, j.Paused(), PERMITTED))
    assert await store.last_permission_position(RunId("ruled-1")) == 4
    await store.truncate_journal(RunId("ruled-1"), 3)
    assert await store.last_permission_position(RunId("ruled-1")) == 2
    await store.delete([RunId("ruled-1")], 0)
    assert await store.last_permission_position(RunId("ruled-1")) == 0


async def test_nothing_is_claimed_where_something_was_ruled_that_is_not_known(store: Store) -> None:
    run = RunId("ruled-2")
    await store.append(run, batch(1, STARTED, RULED))
    assert await store.claim(run, "ruled-2/a#1/1/1", "me", permissions_as_of=1) == ""
    assert await store.key_owner("ruled-2/a#1/1/1") is None
    assert await store.claim(run, "ruled-2/a#1/1/1", "me", permissions_as_of=2) == "me"
    assert await store.claim(run, "ruled-2/a#1/1/1", "you", permissions_as_of=2) == "me"
    assert await store.claim(RunId("ruled-3"), "ruled-2/a#1/2/1", "me", permissions_as_of=0) == "me"


def wanted(most: int = 3, quota: str = "t/k", span: str = "2026-03-29") -> QuotaPeriod:
    return QuotaPeriod(quota=quota, period=span, limit=most)


async def test_a_quota_lets_so_many_calls_pass_and_each_once(store: Store) -> None:
    assert [
        await store.count_call(f"c{n}", [wanted(quota="t2/k")], 1) for n in (1, 2, 1, 3, 4)
    ] == [
        *[None] * 4,
        "t2/k",
    ]
    # Another day, another quota, and a retry after midnight of what was counted the day before.
    assert await store.count_call("c4", [wanted(quota="t2/k", span="2026-03-30")], 1) is None
    assert await store.count_call("c5", [wanted(quota="t2/l")], 1) is None
    assert (
        await store.count_call("c1", [wanted(most=0, quota="t2/k", span="2026-03-31")], 1) is None
    )


async def test_a_call_is_counted_in_all_of_its_quotas_or_in_none(store: Store) -> None:
    assert await store.count_call("c1", [wanted(1, "t3/a")], 1) is None
    assert await store.count_call("c2", [wanted(5, "t3/b"), wanted(1, "t3/a")], 1) == "t3/a"
    assert await store.count_call("c3", [wanted(1, "t3/b")], 1) is None


async def test_a_call_that_was_not_made_is_given_back(store: Store) -> None:
    assert await store.count_call("c1", [wanted(1, "t4/k")], 1) is None
    await store.release_call("c1", ["t4/other"])
    assert await store.count_call("c2", [wanted(1, "t4/k")], 1) == "t4/k"
    await store.release_call("c1", ["t4/k"])
    await store.release_call("c1", ["t4/k"])
    assert await store.count_call("c2", [wanted(1, "t4/k")], 1) is None


async def test_what_is_counted_is_told(store: Store) -> None:
    spans = [("t7/k", "2026-03-29"), ("t7/k", "2026-03-30"), ("t7/l", "2026-03-29")]

    async def used() -> list[int]:
        counted = await store.counted_calls(spans)
        return [counted[each] for each in spans]

    assert await used() == [0, 0, 0]
    assert await store.counted_calls([]) == {}
    for call in ("c1", "c2", "c1"):
        await store.count_call(call, [wanted(2, "t7/k"), wanted(9, "t7/l")], 1)
    assert await used() == [2, 0, 2]
    full = await store.count_call("c3", [wanted(2, "t7/k"), wanted(9, "t7/l")], 1)
    assert (full, await used()) == ("t7/k", [2, 0, 2])
    await store.count_call("c2", [wanted(2, "t7/k", span="2026-03-30")], 1)  # it was counted before
    assert await used() == [2, 0, 2]
    for _ in range(2):
        await store.release_call("c1", ["t7/k", "t7/other"])
        assert await used() == [1, 0, 2]
    await store.count_call("c4", [wanted(2, "t7/k", span="2026-03-30")], COUNTED_CALL_RETENTION + 2)
    assert await used() == [0, 1, 2]  # what is old of one quota is forgotten when it counts again
    await store.release_call("c4", ["t7/k"])
    assert await used() == [0, 0, 2]


async def test_reservations_and_releases_at_once_leave_the_true_count(store: Store) -> None:
    quotas = [wanted(50, "t8/a"), wanted(50, "t8/b")]

    async def one(n: int) -> None:
        await store.count_call(f"c{n}", quotas[:: 1 if n % 2 else -1], 1)
        if n % 3 == 0:
            await store.release_call(f"c{n}", ["t8/b", "t8/a"][:: 1 if n % 2 else -1])

    await asyncio.gather(*(one(n) for n in range(30)))
    spans = [(each.quota, each.period) for each in quotas]
    assert await store.counted_calls(spans) == dict.fromkeys(spans, 20)


async def test_as_many_calls_at_once_as_there_may_be_pass(store: Store) -> None:
    quotas = [wanted(7, "t5/a"), wanted(9, "t5/b")]
    tries = [store.count_call(f"c{n % 40}", quotas[:: 1 if n % 2 else -1], 1) for n in range(60)]
    await asyncio.gather(*tries)
    passed = [n for n in range(40) if await store.count_call(f"c{n}", quotas, 1) is None]
    assert len(passed) == 7


async def test_what_was_counted_long_ago_is_forgotten(store: Store) -> None:
    assert await store.count_call("c1", [wanted(1, "t6/k")], 1) is None
    assert (
        await store.count_call("c2", [wanted(1, "t6/k", span="later")], COUNTED_CALL_RETENTION + 2)
        is None
    )
    assert await store.count_call("c3", [wanted(1, "t6/k")], COUNTED_CALL_RETENTION + 2) is None
    # A call that comes again long after it was counted is counted still, and once.
    for at in (2 * COUNTED_CALL_RETENTION + 4, 2 * COUNTED_CALL_RETENTION + 5):
        assert await store.count_call("c3", [wanted(1, "t6/k")], at) is None
        assert await store.counted_calls([("t6/k", "2026-03-29")]) == {("t6/k", "2026-03-29"): 1}


async def test_calls_of_a_run_that_is_gone_count_and_are_not_taken_for_another_s(
    store: Store,
) -> None:
    run, other = RunId("gone-1"), RunId("gone-1/a")
    once = [wanted(2, "t/gone")]
    for attempt in range(2):
        await store.append(run, batch(1, STARTED))
        assert await store.count_call(f"{run}/a#1/2", once, attempt) is None
        await store.delete([run], attempt)
    assert await store.count_call(f"{run}/a#1/2", once, 2) == "t/gone"
    assert await store.counted_calls([("t/gone", "2026-03-29")]) == {("t/gone", "2026-03-29"): 2}
    # A run whose id begins so is another one: its call is counted, and known, as before.
    assert await store.count_call(f"{other}/a#1/2", [wanted(1, "t/other")], 3) is None
    await store.delete([run], 3)
    assert await store.count_call(f"{other}/a#1/2", [wanted(1, "t/other")], 4) is None
