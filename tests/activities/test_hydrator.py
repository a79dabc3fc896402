from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from activity_kit import RUN, Log
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from crewlog.activities.failures import convert_errors
from crewlog.activities.hydrator import CHARACTERS_PER_ENTRY, Hydrator
from crewlog.activities.transcripts import LONGEST_MESSAGE, NO_RESULT, build_prompt
from crewlog.canonical_json import hash_json
from crewlog.definition.model import AgentDefinition
from crewlog.errors import StoreIncomplete
from crewlog.failure_details import failure_details
from crewlog.ids import AgentName, ContentHash, RunId
from crewlog.state.calls import CallModelResult, CallToolResult, View
from crewlog.state.journal import Batch
from crewlog.store.in_process import InMemoryStore
from pace import usual

BACKEND = AgentName("backend")


class CountingStore(InMemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.links_read = 0
        self.bodies_read = 0
        self.reads = 0

    async def read_log(self, head: ContentHash, known: Collection[ContentHash] = ()) -> Any:
        found = await super().read_log(head, known)
        self.reads += 1
        self.links_read += len(found)
        return found

    async def get_bodies(self, hashes: Collection[ContentHash]) -> Any:
        self.reads += 1
        self.bodies_read += len(hashes)
        return await super().get_bodies(hashes)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


def ai(agent: str, text: str, *ids: str) -> CallModelResult:
    calls = [{"name": "add", "args": {}, "id": i, "type": "tool_call"} for i in ids]
    body = {"type": "ai", "content": text, "name": agent} | ({"tool_calls": calls} if ids else {})
    return CallModelResult(body=body, hash=hash_json(body))


def tool(id_: str, text: str) -> CallToolResult:
    body = {"type": "tool", "content": text, "name": "add", "tool_call_id": id_}
    return CallToolResult(body=body, hash=hash_json(body))


async def stored(
    store: InMemoryStore, log: Log, *results: CallModelResult | CallToolResult
) -> None:
    await store.put_bodies(RUN, {r.hash: r.body for r in results})
    await store.append(RUN, log.batch())


async def test_a_view_has_its_logs_by_position_and_nothing_else(store):
    log = Log()
    log.says("build", "public", "channel:c")
    own, other, secret = ai("backend", "mine"), ai("writer", "theirs"), ai("writer", "secret")
    log.replied(own, "backend", "private:backend", "public")
    log.replied(other, "writer", "public")
    log.replied(secret, "writer", "private:writer")
    log.says("hm", name="Anna B.")
    log.says("hm", name="Anna B.")
    await stored(store, log, own, other, secret)
    view = log.view("public", "private:backend", "channel:c")
    found = await Hydrator(store).hydrate(RUN, BACKEND, view)
    assert [(type(m), m.content, m.name) for m in found] == [
        (HumanMessage, "build", None),
        (AIMessage, "mine", "backend"),
        (HumanMessage, "[writer] theirs", "writer"),
        (HumanMessage, "hm", "Anna_B_"),
        (HumanMessage, "hm", "Anna_B_"),
    ]


async def test_turns_stay_together_and_every_call_has_a_result(store):
    log = Log()
    first, second = ai("backend", "", "a", "b"), ai("backend", "", "c", "d")
    results = [tool("b", "two"), tool("a", "one"), tool("c", "three"), tool("a", "one, again")]
    log.replied(first, "backend", "private:backend")
    log.says("meanwhile")
    for result in results[:2]:
        log.returned(result, "backend")
    log.replied(second, "backend", "private:backend")
    log.returned(results[2], "backend")
    await stored(store, log, first, second, *results)
    hydrator = Hydrator(store)
    view = log.view("public", "private:backend")
    found = await hydrator.hydrate(RUN, BACKEND, view)
    kinds = [(m.type, m.content) for m in found]
    assert kinds == [
        ("ai", ""), ("tool", "two"), ("tool", "one"), ("human", "meanwhile"),
        ("ai", ""), ("tool", "three"), ("tool", NO_RESULT),
    ]  # fmt: skip
    whole = await hydrator.hydrate(RUN, BACKEND, view, complete=False)
    assert whole == found[:-1]
    log.returned(results[3], "backend")
    await stored(store, log)
    found = await hydrator.hydrate(RUN, BACKEND, log.view("public", "private:backend"))
    assert [m.content for m in found[1:3]] == ["two", "one, again"]


async def test_only_new_messages_are_read(store):
    log = Log()
    hydrator = Hydrator(store)
    for i in range(50):
        log.says(f"m{i}")
    await stored(store, log)
    await hydrator.hydrate(RUN, BACKEND, log.view())
    assert (store.links_read, store.bodies_read) == (50, 50)
    for i in range(50, 60):
        log.says(f"m{i}")
        batch = log.batch()
        await store.append(RUN, batch)
        assert len(await hydrator.hydrate(RUN, BACKEND, log.view(), batch)) == i + 1
    assert (store.links_read, store.bodies_read) == (50, 50)
    log.says("elsewhere")
    await stored(store, log)
    assert len(await hydrator.hydrate(RUN, BACKEND, log.view())) == 61
    assert (store.links_read, store.bodies_read) == (51, 51)


async def test_older_heads_forks_and_smaller_views_are_right(store):
    log = Log()
    hydrator = Hydrator(store)
    log.says("one")
    await stored(store, log)
    older = log.view()
    fork = Log()
    fork.heads, fork.position = dict(log.heads), log.position + 10
    log.says("two", "public", "channel:c")
    await stored(store, log)

    async def texts(view: View) -> list[Any]:
        return [m.content for m in await hydrator.hydrate(RUN, BACKEND, view)]

    assert await texts(log.view("public", "channel:c")) == ["one", "two"]
    assert await texts(older) == ["one"]
    fork.says("other two")
    await store.append(RUN, fork.batch())
    assert await texts(fork.view()) == ["one", "other two"]
    assert await texts(log.view()) == ["one", "two"]
    assert await texts(View()) == []


def as_told(error: StoreIncomplete) -> ApplicationError:
    """What an activity of the run fails with."""
    info = replace(ActivityEnvironment.default_info(), workflow_id=RUN)
    environment = ActivityEnvironment()
    environment.info = info

    def fails() -> None:
        with convert_errors():
            raise error

    with pytest.raises(ApplicationError) as caught:
        environment.run(fails)
    return caught.value


async def test_a_missing_row_is_an_error(store):
    log = Log()
    log.says("one")
    log.batch()
    with pytest.raises(StoreIncomplete) as caught:
        await Hydrator(store).hydrate(RUN, BACKEND, log.view())
    failure = as_told(caught.value)
    assert failure.message == (
        f"rows of the run {RUN!r} are missing from the store: the order of messages"
    )
    assert failure.type == "StoreIncomplete"
    remedy = failure_details(failure).remedy
    assert f"`crewlog rebuild {RUN}`" in remedy
    assert f"`crewlog answer {RUN} retry`" in remedy


async def test_runs_used_longest_ago_are_dropped(store):
    hydrator = Hydrator(store, max_entries=30)
    for name in "abc":
        log = Log(RunId(name))
        for i in range(10):
            log.says(f"{i}")
        batch = log.batch()
        await store.append(log.run, batch)
        await hydrator.hydrate(log.run, BACKEND, log.view(), batch)
    assert hydrator.size <= 30
    assert list(hydrator._runs) == ["c"]
    assert hydrator.size == sum(run.size for run in hydrator._runs.values()) > 0


class BlockingStore(CountingStore):
    """Holds reading bodies back until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Semaphore(0)
        self.gate = asyncio.Event()
        self.gate.set()

    async def get_bodies(self, hashes: Collection[ContentHash]) -> Any:
        self.asked.release()
        await self.gate.wait()
        return await super().get_bodies(hashes)

    async def asked_for(self, times: int) -> None:
        for _ in range(times):
            await self.asked.acquire()


def kept(hydrator: Hydrator) -> int:
    """What is really there."""
    return sum(run.size for run in hydrator._runs.values())


async def test_parallel_hydrations_add_a_message_once():
    store, log = BlockingStore(), Log()
    hydrator = Hydrator(store)
    log.says("one")
    await stored(store, log)
    await hydrator.hydrate(RUN, BACKEND, log.view())
    log.says("two")
    log.says("three")
    await stored(store, log)
    store.gate.clear()
    view = log.view()
    reading = [asyncio.ensure_future(hydrator.hydrate(RUN, BACKEND, view)) for _ in "ab"]
    await store.asked_for(2 + 1)  # the first was before
    store.gate.set()
    for found in await asyncio.gather(*reading):
        assert [m.content for m in found] == ["one", "two", "three"]


async def test_a_run_that_grows_is_counted_once(store):
    log = Log()
    hydrator = Hydrator(store)
    for i in range(5):
        log.says(f"{i}")
        await stored(store, log)
        await hydrator.hydrate(RUN, BACKEND, log.view())
        assert hydrator.size == kept(hydrator) == 2 * (i + 1) + 1  # its root is a head, too


async def test_a_run_dropped_during_a_read_is_not_counted():
    store, slow, quick = BlockingStore(), Log(RunId("slow")), Log(RunId("quick"))
    hydrator = Hydrator(store, max_entries=3)
    slow.says("slow")
    await store.append(slow.run, slow.batch())
    store.gate.clear()
    reading = asyncio.ensure_future(hydrator.hydrate(slow.run, BACKEND, slow.view()))
    await store.asked_for(1)
    for i in range(5):
        quick.says(f"{i}")
    await hydrator.hydrate(quick.run, BACKEND, View(), quick.batch())
    assert list(hydrator._runs) == ["quick"]
    store.gate.set()
    assert [m.content for m in await reading] == ["slow"]
    assert hydrator.size == kept(hydrator) == 11


async def test_a_log_added_to_the_view_is_sorted_by_position(store):
    log = Log()
    hydrator = Hydrator(store)
    log.says("first", "channel:c")
    log.says("second")
    await stored(store, log)
    assert [m.content for m in await hydrator.hydrate(RUN, BACKEND, log.view())] == ["second"]
    both = await hydrator.hydrate(RUN, BACKEND, log.view("public", "channel:c"))
    assert [m.content for m in both] == ["first", "second"]


def long_call(text: str) -> CallModelResult:
    calls = [{"name": "add", "args": {"of": [text]}, "id": "c", "type": "tool_call"}]
    body = {"type": "ai", "content": "", "name": "backend", "tool_calls": calls}
    return CallModelResult(body=body, hash=hash_json(body))


@pytest.mark.parametrize(
    ("made", "times"),
    [
        (ai("backend", "x" * 102_400), 1),
        (ai("writer", "x" * 102_400), 2),  # as it is, and quoted
        (long_call("x" * 102_400), 1),
    ],
    ids=["the agent's own text", "another's text", "an argument"],
)
async def test_long_messages_count_by_their_text(store, made, times):
    hydrator = Hydrator(store, max_entries=250)
    for name in "abc":
        log = Log(RunId(name))
        log.replied(made, "backend")
        await store.put_bodies(RUN, {made.hash: made.body})
        await store.append(log.run, log.batch())
        await hydrator.hydrate(log.run, BACKEND, log.view())
        assert 100 * times <= hydrator._runs[log.run].size <= 100 * times + 4
    assert hydrator.size == kept(hydrator) <= 250
    assert list(hydrator._runs) == list("abc")[-2 // times :]


async def test_a_truncated_message_counts_by_its_rest(store):
    log = Log()
    hydrator = Hydrator(store)
    hydrator.add_batch(RUN, Batch.EMPTY)
    log.says("x" * 10 * LONGEST_MESSAGE)
    hydrator.add_batch(RUN, log.batch())
    assert hydrator.size < LONGEST_MESSAGE / CHARACTERS_PER_ENTRY + 4


async def test_a_cached_transcript_is_cheap(store):
    log = Log()
    hydrator = Hydrator(store)
    for i in range(1000):
        log.says(f"message {i} " + "x" * 400, "public" if i % 2 else "private:backend")
    await stored(store, log)
    await hydrator.hydrate(RUN, BACKEND, log.view("public", "private:backend"))
    best = 1.0
    for i in range(20):
        log.says(f"new {i}")
        batch = log.batch()
        await store.append(RUN, batch)
        view = log.view("public", "private:backend")
        begun = time.thread_time()
        found = await hydrator.hydrate(RUN, BACKEND, view, batch)
        best = min(best, time.thread_time() - begun)
        assert len(found) == 1001 + i
    assert usual(best) < 0.002
    assert store.reads == 3


def test_a_prompt_ends_with_a_request_of_a_turn():
    agent = AgentDefinition(prompt="P.", writes_flags=("ready",), outputs=("spec",))
    system, nudge = build_prompt(BACKEND, agent, ("set_flag",), [])
    assert system.content == (
        "P.\n\nSet a flag with set_flag when what it says is so. Flags: ready."
    )
    assert nudge.content == "It is your turn."
    again = build_prompt(BACKEND, agent, (), [AIMessage("done", name="backend")])
    assert (again[0].content, again[-1].content) == ("P.", "It is your turn again.")
    result = [ToolMessage("r", tool_call_id="a")]
    assert build_prompt(BACKEND, agent, (), result)[1:] == result


async def test_a_message_is_truncated_for_the_model_only(store):
    log = Log()
    hash_ = log.says("x" * (LONGEST_MESSAGE + 5))
    batch = log.batch()
    await store.append(RUN, batch)
    (found,) = await Hydrator(store).hydrate(RUN, BACKEND, log.view(), batch)
    assert found.text.endswith("x\n[Cut here: 200,005 characters in all.]")
    assert len((await store.get_bodies([hash_]))[hash_]["content"]) == LONGEST_MESSAGE + 5


async def test_a_new_worker_reads_nothing_of_a_batch_in_flight(store):
    log = Log()
    log.says("one")
    log.says("two", "private:backend")
    await store.append(RUN, log.batch())
    log.says("three")
    log.says("four", "group:x")
    batch = log.batch()
    view = log.view("public", "private:backend", "group:x")
    found = await Hydrator(store).hydrate(RUN, BACKEND, view, batch)
    assert [message.text for message in found] == ["one", "two", "three", "four"]
