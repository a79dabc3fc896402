"""The executions of signed runs, which both stores note and forget alike."""

from __future__ import annotations

import pytest

from crewlog.ids import RunId
from crewlog.store import Store


async def test_what_is_admitted_is_known_once_and_of_its_run_only(store: Store, run: RunId) -> None:
    other = RunId(f"{run}-other")
    assert not await store.accepted_executions(run)
    await store.accept_executions(run, ["b", "a"])
    await store.accept_executions(run, ["a", "c"])
    await store.accept_executions(run, [])
    assert sorted(await store.accepted_executions(run)) == ["a", "b", "c"]
    assert not await store.accepted_executions(other)
    await store.accept_executions(other, ["a"])
    assert sorted(await store.accepted_executions(other)) == ["a"]


@pytest.mark.parametrize("new", ["a", "d"])
async def test_one_that_goes_on_alone_leaves_the_others_unknown(
    store: Store, run: RunId, new: str
) -> None:
    other = RunId(f"{run}-other")
    await store.accept_executions(other, ["a"])
    await store.accept_executions(run, ["a", "b"])
    await store.accept_executions(run, [new], replace=True)
    assert sorted(await store.accepted_executions(run)) == [new]
    assert sorted(await store.accepted_executions(other)) == ["a"]


async def test_they_go_with_the_run_and_stay_where_it_is_rewound(store: Store, run: RunId) -> None:
    hostile = RunId(f"{run} \x00 \ud83d ~ %s")
    for each in (run, hostile):
        await store.accept_executions(each, ["a"])
        await store.truncate_journal(each, 0)
        assert sorted(await store.accepted_executions(each)) == ["a"]
    await store.delete([run], 1)
    assert not await store.accepted_executions(run)
    assert sorted(await store.accepted_executions(hostile)) == ["a"]
    await store.delete([hostile], 1)
    assert not await store.accepted_executions(hostile)
