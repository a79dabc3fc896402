"""A call with the retry mode `never` begins once, in whatever attempt."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from crewlog.activities.start_records import check_not_started, write_start_record
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


async def test_a_second_attempt_with_a_start_record_asks_people():
    store = InMemoryStore()
    await write_start_record(store, call(), "e/1/1")
    for other in ("e/1/2", "e/9/1", "f/1/1"):
        with pytest.raises(OutcomeUnknown, match="'pay' began and never answered"):
            await write_start_record(store, call(), other)


async def test_one_of_several_attempts_at_once_begins(store: Store):
    run = secrets.token_hex(4)
    tries = [write_start_record(store, call(run=run), f"e/1/{n}") for n in range(8)]
    ended = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(one is None for one in ended) == 1
    assert sum(isinstance(one, OutcomeUnknown) for one in ended) == 7


async def test_an_attempt_may_write_its_start_record_twice():
    store = InMemoryStore()
    await write_start_record(store, call(), "e/1/1")
    await write_start_record(store, call(), "e/1/1")


async def test_another_call_and_a_requested_retry_begin():
    store = InMemoryStore()
    await write_start_record(store, call(), "e/1/1")
    await write_start_record(store, call(call=3), "e/2/1")
    await write_start_record(store, call(attempt=2), "e/3/1")
    with pytest.raises(OutcomeUnknown):
        await write_start_record(store, call(attempt=2), "e/3/2")


async def test_a_check_writes_no_start_record(store: Store):
    run = secrets.token_hex(4)
    await check_not_started(store, call(run=run))
    await write_start_record(store, call(run=run), "e/1/1")
    with pytest.raises(OutcomeUnknown, match="'pay' began and never answered"):
        await check_not_started(store, call(run=run))
    await check_not_started(store, call(run=run, call=3))
    await check_not_started(store, call(run=run, attempt=2))


async def test_no_call_begins_while_the_store_is_unavailable(monkeypatch: pytest.MonkeyPatch):
    store = InMemoryStore()

    async def away(*_: object, **_more: object) -> str:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "claim", away)
        with pytest.raises(StoreUnavailable):
            await write_start_record(store, call(), "e/1/1")
    await write_start_record(store, call(), "e/1/2")
