"""When a model call stores what led to it: with a quick reply, or while the model thinks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from activity_kit import RUN, crew
from temporalio.exceptions import ApplicationError

from crewlog.errors import StoreUnavailable

QUICK = {"agents": {"backend": [{"text": "A"}]}}
SLOW = {"agents": {"backend": [{"text": "A", "stall": 0.4}]}}


@pytest.fixture
def appended(store: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bodies came along with each batch that was stored."""
    found: list[int] = []
    append = store.append

    async def noting(run: Any, batch: Any, bodies: Any = None) -> None:
        await append(run, batch, bodies)
        found.append(len(bodies or {}))

    monkeypatch.setattr(store, "append", noting)
    return found


async def test_a_quick_reply_is_stored_along_with_what_led_to_it(model_call, store, log, appended):
    log.says("go")
    result = await model_call(crew(QUICK), log)
    assert appended == [1]
    assert (result.stored, result.journaled) == (True, True)
    assert len(await store.read_journal(RUN)) == 1
    assert result.hash in await store.get_bodies([result.hash])


async def test_what_led_to_a_slow_reply_is_stored_while_the_model_thinks(
    model_call, store, log, appended
):
    log.says("go")
    calling = asyncio.ensure_future(model_call(crew(SLOW), log))
    while not appended:
        assert not calling.done(), "it was stored with the reply, or not at all"
        await asyncio.sleep(0.005)
    assert len(await store.read_journal(RUN)) == 1
    result = await calling
    assert appended == [0]
    assert result.journaled
    assert result.hash in await store.get_bodies([result.hash])


async def test_what_led_to_a_failed_call_is_stored(model_call, store, log, appended):
    log.says("go")
    with pytest.raises(ApplicationError, match="has no reply"):
        await model_call(crew({"agents": {"backend": []}}), log)
    assert appended == [0]
    assert len(await store.read_journal(RUN)) == 1


@pytest.mark.parametrize("script", [QUICK, SLOW], ids=["quick", "slow"])
async def test_a_reply_survives_a_store_that_is_away_and_says_what_is_not_stored(
    model_call, store, log, monkeypatch, script
):
    async def away(*_: Any) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store, "append", away)
    monkeypatch.setattr(store, "put_bodies", away)
    log.says("go")
    result = await model_call(crew(script), log)
    assert (result.stored, result.journaled) == (False, False)
    assert result.body["content"] == "A"
