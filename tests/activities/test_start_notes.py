"""A call that must not be repeated begins once, however often Temporal tries."""

from __future__ import annotations

import pytest

from crewlog.activities.start_notes import begin_once
from crewlog.errors import OutcomeUnknown, StoreUnavailable
from crewlog.state.calls import CallTool, View
from crewlog.store.memory import InMemoryStore


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
    await begin_once(store, call(), attempt=1)
    with pytest.raises(OutcomeUnknown, match="'pay' began and never answered"):
        await begin_once(store, call(), attempt=2)


async def test_a_second_try_begins_where_the_first_one_never_did():
    store = InMemoryStore()
    await begin_once(store, call(), attempt=2)
    with pytest.raises(OutcomeUnknown):
        await begin_once(store, call(), attempt=3)


async def test_another_call_and_a_try_that_people_asked_for_begin():
    store = InMemoryStore()
    await begin_once(store, call(), attempt=1)
    await begin_once(store, call(call=3), attempt=2)
    await begin_once(store, call(attempt=2), attempt=1)
    with pytest.raises(OutcomeUnknown):
        await begin_once(store, call(attempt=2), attempt=2)


async def test_nothing_begins_while_the_store_is_away(monkeypatch: pytest.MonkeyPatch):
    store = InMemoryStore()

    async def away(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "put_bodies", away)
        with pytest.raises(StoreUnavailable):
            await begin_once(store, call(), attempt=1)
    await begin_once(store, call(), attempt=2)
