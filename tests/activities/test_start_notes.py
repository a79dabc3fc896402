"""A call that must not be repeated begins once, however often Temporal tries."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from crewlog.activities.start_records import never_begun, write_start_record
from crewlog.errors import OutcomeUnknown, StoreUnavailable
from crewlog.state.calls import CallTool, View
from crewlog.store import Store
from crewlog.store.in_process import InMemoryStore


def call(**changes: object) -> CallTool:
    fields = {
        "run": "r",
        "step": "a#1",
        "call": 2,
        "agent": "a",
        "definition": "d",
        "tool": "pay",
        "id": "x",
        "message": "m",
        "view": View(),
    }
    return CallTool.model_validate({**fields, **changes})


async def test_a_second_try_that_finds_a_start_asks_people():
    store = InMemoryStore()
    await write_start_record(store, call(), "e/1/1")
    for other in ("e/1/2", "e/9/1", "f/1/1"):
        with pytest.raises(OutcomeUnknown, match="'pay' began and never answered"):
            await write_start_record(store, call(), other)


async def test_of_tries_that_begin_at_once_one_begins(store: Store):
    run = secrets.token_hex(4)
    tries = [write_start_record(store, call(run=run), f"e/1/{n}") for n in range(8)]
    ended = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(one is None for one in ended) == 1
    assert sum(isinstance(one, OutcomeUnknown) for one in ended) == 7


async def test_a_claim_that_was_stored_twice_by_one_try_is_its_own():
    store = InMemoryStore()
    await write_start_record(store, call(), "e/1/1")
    await write_start_record(store, call(), "e/1/1")


async def test_another_call_and_a_try_that_people_asked_for_begin():
    store = InMemoryStore()
    await write_start_record(store, call(), "e/1/1")
    await write_start_record(store, call(call=3), "e/2/1")
    await write_start_record(store, call(attempt=2), "e/3/1")
    with pytest.raises(OutcomeUnknown):
        await write_start_record(store, call(attempt=2), "e/3/2")


async def test_a_look_at_a_claim_claims_nothing(store: Store):
    run = secrets.token_hex(4)
    await never_begun(store, call(run=run))
    await write_start_record(store, call(run=run), "e/1/1")
    with pytest.raises(OutcomeUnknown, match="'pay' began and never answered"):
        await never_begun(store, call(run=run))
    await never_begun(store, call(run=run, call=3))
    await never_begun(store, call(run=run, attempt=2))


async def test_nothing_begins_while_the_store_is_away(monkeypatch: pytest.MonkeyPatch):
    store = InMemoryStore()

    async def away(*_: object, **_more: object) -> str:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "claim", away)
        with pytest.raises(StoreUnavailable):
            await write_start_record(store, call(), "e/1/1")
    await write_start_record(store, call(), "e/1/2")
