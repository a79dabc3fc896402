"""The executions of signed runs, which both stores note and forget alike."""

from __future__ import annotations

import pytest

from crewlog.ids import RunId
from crewlog.store import Store


async def test_what_is_admitted_is_known_once_and_of_its_run_only(store: Store, run: RunId) -> None:
    other = RunId(f"{run}-other")
    assert not await store.executions(run)
    await store.admit(run, ["b", "a"])
    await store.admit(run, ["a", "c"])
    await store.admit(run, [])
    assert sorted(await store.executions(run)) == ["a", "b", "c"]
    assert not await store.executions(other)
    await store.admit(other, ["a"])
    assert sorted(await store.executions(other)) == ["a"]


@pytest.mark.parametrize("new", ["a", "d"])
async def test_one_that_goes_on_alone_leaves_the_others_unknown(
    store: Store, run: RunId, new: str
) -> None:
    other = RunId(f"{run}-other")
    await store.admit(other, ["a"])
    await store.admit(run, ["a", "b"])
    await store.admit(run, [new], alone=True)
    assert sorted(await store.executions(run)) == [new]
    assert sorted(await store.executions(other)) == ["a"]


async def test_they_go_with_the_run_and_stay_where_it_is_rewound(store: Store, run: RunId) -> None:
    hostile = RunId(f"{run} \x00 \ud83d ~ %s")
    for each in (run, hostile):
        await store.admit(each, ["a"])
        await store.forget(each, 0)
        assert sorted(await store.executions(each)) == ["a"]
    await store.delete([run], 1)
    assert not await store.executions(run)
    assert sorted(await store.executions(hostile)) == ["a"]
    await store.delete([hostile], 1)
    assert not await store.executions(hostile)
