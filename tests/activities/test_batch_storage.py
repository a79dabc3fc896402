"""When a call stores its batch and its result, how often it tries, and how it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from activity_kit import RUN, Log, at_once, crew
from langchain_core.language_models import FakeListChatModel
from langchain_core.outputs import ChatResult
from pydantic import Field
from temporalio.exceptions import ApplicationError

from crewlog.activities import batches as module
from crewlog.activities.batches import store_batch_and_bodies, store_bodies
from crewlog.activities.chat_models import register
from crewlog.canonical_json import hash_json
from crewlog.errors import StoreUnavailable
from crewlog.store.in_process import InMemoryStore

QUICK = {"agents": {"backend": [{"text": "A"}]}}
SLOW = {"agents": {"backend": [{"text": "A", "stall": 0.4}]}}


@pytest.fixture(autouse=True)
def nothing_holds_a_call_up(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once(env, monkeypatch)


@pytest.fixture
def appended(store: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bodies came along with each batch that was stored."""
    found: list[int] = []
    append = store.append

    async def noting(run: Any, batch: Any, bodies: Any = None, **who: Any) -> int:
        ruled = await append(run, batch, bodies, **who)
        found.append(len(bodies or {}))
        return ruled

    monkeypatch.setattr(store, "append", noting)
    return found


async def test_a_quick_reply_is_stored_with_its_batch(model_call, store, log, appended):
    log.says("go")
    result = await model_call(crew(QUICK), log)
    assert appended == [1]
    assert (result.stored, result.journaled) == (True, True)
    assert len(await store.read_journal(RUN)) == 1
    assert result.hash in await store.get_bodies([result.hash])


async def test_the_batch_of_a_slow_call_is_stored_during_the_call(model_call, store, log, appended):
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


async def test_the_batch_of_a_call_is_stored_while_it_is_prepared(
    model_call, activities, store, log, appended, monkeypatch
):
    monkeypatch.setattr("crewlog.activities.model_calls.PREPARATION_SECONDS", 0.0)
    get_model = activities._models._models.get

    async def wait_for_batch(*args: Any) -> Any:
        async with asyncio.timeout(10):
            while not appended:  # noqa: ASYNC110 - the store is patched
                await asyncio.sleep(0.005)
        return await get_model(*args)

    monkeypatch.setattr(activities._models._models, "get", wait_for_batch)
    log.says("go")
    result = await model_call(crew(QUICK), log)
    assert appended == [0]
    assert (result.stored, result.journaled) == (True, True)
    assert len(await store.read_journal(RUN)) == 1


async def test_the_batch_of_a_failed_call_is_stored(model_call, store, log, appended):
    log.says("go")
    with pytest.raises(ApplicationError, match="has no reply"):
        await model_call(crew({"agents": {"backend": []}}), log)
    assert appended == [0]
    assert len(await store.read_journal(RUN)) == 1


@pytest.mark.parametrize("script", [QUICK, SLOW], ids=["quick", "slow"])
async def test_a_reply_survives_an_unavailable_store(model_call, store, log, monkeypatch, script):
    async def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store, "append", away)
    monkeypatch.setattr(store, "put_bodies", away)
    log.says("go")
    result = await model_call(crew(script), log)
    assert (result.stored, result.journaled) == (False, False)
    assert result.body["content"] == "A"


class Endless(FakeListChatModel):
    """Answers never, and notes that its request was cancelled."""

    responses: list[str] = Field(default_factory=list)
    disable_streaming: bool = True  # asked as a whole, as a service that has no pieces
    said: list[str] = Field(default_factory=list)

    async def _agenerate(self, *_: Any, **__: Any) -> ChatResult:
        self.said.append("asked")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _ in range(5):  # closing a connection takes a few turns of the loop
                await asyncio.sleep(0)
            self.said.append("cancelled")
            raise
        raise AssertionError


@pytest.mark.parametrize("when", ["while it is stored", "while the model thinks"])
async def test_a_cancelled_call_cancels_the_request_before_it_ends(
    model_call, store, log, monkeypatch, when
):
    model = Endless()
    register("endless", lambda *_: model)
    storing, append = asyncio.Event(), store.append

    async def noting(*arguments: Any, **who: Any) -> int:
        storing.set()
        if when == "while it is stored":
            await asyncio.Event().wait()
        return await append(*arguments, **who)

    monkeypatch.setattr(store, "append", noting)
    log.says("go")
    calling = asyncio.ensure_future(model_call(crew("endless:x"), log))
    await storing.wait()
    assert model.said == ["asked"]
    calling.cancel()
    await asyncio.wait({calling})
    assert calling.cancelled()
    assert model.said == ["asked", "cancelled"]


class Away(InMemoryStore):
    """Is away for the first `times` writes."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.tries = 0

    def _try(self) -> None:
        self.tries += 1
        if self.tries <= self.times:
            raise StoreUnavailable("away")

    async def put_bodies(self, run: Any, bodies: Any) -> None:
        self._try()
        await super().put_bodies(run, bodies)

    async def append(self, run: Any, batch: Any, bodies: Any = None, **who: Any) -> int:
        self._try()
        return await super().append(run, batch, bodies, **who)


BODY = {"type": "human", "content": "kept"}
HASH = hash_json(BODY)


@pytest.mark.parametrize("whole", [False, True], ids=["the body", "the batch, too"])
@pytest.mark.parametrize("times", [0, 1, 3, 4])
async def test_bodies_are_stored_by_one_of_four_attempts(monkeypatch, times, whole):
    assert sum(module._RETRY_DELAYS) < 3, "a worker that is told to stop has ten seconds"
    monkeypatch.setattr(module, "_RETRY_DELAYS", tuple(0 for _ in module._RETRY_DELAYS))
    store, log = Away(times), Log()
    log.says("go")
    keeping = (
        store_batch_and_bodies(store, RUN, log.batch(), {HASH: BODY})
        if whole
        else store_bodies(store, RUN, {HASH: BODY})
    )
    assert await keeping is (times < 4)
    assert store.tries == min(times + 1, 4)
    if times < 4:
        assert await store.get_bodies([HASH]) == {HASH: BODY}
        assert len(await store.read_journal(RUN)) == int(whole)
