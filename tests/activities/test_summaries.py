"""Summaries are made once, shared by all readers of a log, counted once, and fail no call."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from activity_kit import RUN, Log, crew, with_info
from langchain_core.messages import AIMessage
from temporalio.testing import ActivityEnvironment

from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.crew_activities import CrewActivities
from crewlog.activities.windows import CHUNK
from crewlog.definition.context import SUMMING, Window
from crewlog.definition.context_checks import summary_settings
from crewlog.definition.model import AgentDefinition, CrewDefinition
from crewlog.errors import ModelUnavailable
from crewlog.ids import AgentName, StepId
from crewlog.state.calls import CallModel, CallModelResult
from crewlog.state.journal import Batch
from crewlog.store.in_process import InMemoryStore

WINDOW = {"last": 2, "summary": "minutes:m"}


class Minutes(ModelFactory):
    """Models that say what they are asked, and summaries by number; they can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        """What was to be summed up."""
        self.shown: list[list[Any]] = []
        """What agents' models were given."""
        self.away = False
        self.agent_fails = 0
        self.gate: asyncio.Event | None = None
        self.begun = asyncio.Event()

    async def get(self, model: str, settings: Any, timeout: float) -> Any:
        return self

    def bind_tools(self, _schemas: Any) -> Minutes:
        return self

    async def ainvoke(self, said: Any, config: Any) -> AIMessage:
        usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
        if config["metadata"]["agent"] != "summary":
            self.shown.append(said)
            if self.agent_fails:
                self.agent_fails -= 1
                raise ModelUnavailable("away", remedy="wait")
            return AIMessage("ok", usage_metadata=usage)  # type: ignore[arg-type]
        self.asked.append(said[-1].text)
        self.begun.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.away:
            raise RuntimeError("no minutes today")
        return AIMessage(f"minutes {len(self.asked)}", usage_metadata=usage)  # type: ignore[arg-type]


class Stage:
    """A run's log, a store and workers."""

    def __init__(self, tmp_path: Path) -> None:
        self.store, self.minutes, self.log, self.path = InMemoryStore(), Minutes(), Log(), tmp_path
        data = crew("scripted:x", window=WINDOW).to_json()
        for agent in data["agents"].values():
            agent["model_settings"] = {"streaming": False}
        self.crew = CrewDefinition.from_json(data)
        self.worker = self.new_worker()

    def new_worker(self) -> CrewActivities:
        return CrewActivities(self.store, workspace=self.path, models=self.minutes)

    def say(self, count: int) -> None:
        for n in range(count):
            self.log.says(f"{self.log.position + n + 1} was said")
        self.batch = self.log.batch()

    async def call(self, agent: str = "backend", **fields: Any) -> CallModelResult:
        worker = fields.pop("worker", self.worker)
        given: dict[str, Any] = {
            "run": RUN,
            "step": StepId(f"{agent}#1"),
            "agent": AgentName(agent),
            "definition": await self.store.put_definition(RUN, self.crew.to_json()),
            "view": self.log.view("public"),
            "batch": self.batch,
            **fields,
        }
        now = given.pop("now", None) or datetime.now(UTC)
        env = with_info(ActivityEnvironment(), attempt=given.pop("tried", 1), started_time=now)
        found: CallModelResult = await env.run(worker.call_model, CallModel(**given))
        return found


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_a_summary_continues_the_previous_one(stage: Stage) -> None:
    stage.say(3 + CHUNK)
    first = await stage.call()
    assert first.usage.calls == 2
    assert (first.usage.input_tokens, first.usage.output_tokens) == (200, 20)
    assert first.window is not None
    assert (first.window.left_out, first.window.summaries, first.window.error) == (CHUNK, 1, "")
    assert "minutes 1" in stage.minutes.shown[-1][1].text
    assert f"{CHUNK} was said" in stage.minutes.asked[0]
    assert f"{CHUNK + 1} was said" not in stage.minutes.asked[0]
    other = await stage.call("writer")
    assert other.usage.calls == 1, "another agent finds it"
    assert "minutes 1" in stage.minutes.shown[-1][1].text
    stage.say(CHUNK)
    later = await stage.call(step=StepId("backend#2"))
    assert later.usage.calls == 2
    assert "minutes 1" in stage.minutes.asked[1]
    assert "1 was said" not in stage.minutes.asked[1].split("\n"), "only what came since"
    assert len(stage.minutes.asked) == 2


async def test_parallel_calls_and_other_workers_share_a_summary(stage: Stage) -> None:
    stage.say(3 + CHUNK)
    results = await asyncio.gather(stage.call(), stage.call("writer"))
    results.append(await stage.call("writer", call=2, worker=stage.new_worker()))
    assert len(stage.minutes.asked) == 1
    assert sorted(each.usage.calls for each in results) == [1, 1, 2]


async def test_two_workers_make_one_summary(stage: Stage) -> None:
    stage.say(3 + CHUNK)
    stage.minutes.gate = asyncio.Event()
    one = asyncio.ensure_future(stage.call())
    await stage.minutes.begun.wait()
    two = asyncio.ensure_future(stage.call("writer", worker=stage.new_worker()))
    for _ in range(50):
        await asyncio.sleep(0)
    stage.minutes.gate.set()
    results = await asyncio.gather(one, two)
    assert len(stage.minutes.asked) == 1
    assert [each.usage.calls for each in results] == [2, 1]
    assert all("minutes 1" in each[1].text for each in stage.minutes.shown)


async def test_a_retried_call_counts_its_summary(stage: Stage) -> None:
    stage.say(3 + CHUNK)
    stage.minutes.agent_fails = 1
    with pytest.raises(Exception, match="away"):
        await stage.call()
    again = await stage.call(worker=stage.new_worker(), tried=2)
    assert len(stage.minutes.asked) == 1
    assert again.usage.calls == 2, "it was paid for by this call"
    assert (await stage.call("writer")).usage.calls == 1


async def test_without_a_model_the_extract_is_used(stage: Stage) -> None:
    stage.say(3 + CHUNK)
    stage.minutes.away = True
    found = await stage.call()
    assert found.usage.calls == 1
    assert found.window is not None
    assert "no minutes today" in found.window.error
    assert "- [people] 1 was said" in stage.minutes.shown[-1][1].text
    assert (await stage.call("writer")).window == found.window, "it is not tried all the time"
    assert len(stage.minutes.asked) == 1
    stage.minutes.away = False
    stage.say(CHUNK)
    assert (await stage.call(step=StepId("backend#2"))).usage.calls == 2, "the next chunk is"
    assert "minutes 2" in stage.minutes.shown[-1][1].text


def short(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Models may take no longer than that, and are waited for no longer."""
    for name, value in (("SUMMING", seconds), ("SHORTEST_REQUEST", seconds / 2), ("_POLL", 0.01)):
        patch.setattr(f"crewlog.activities.summaries.{name}", value)


async def dies(stage: Stage, **fields: Any) -> None:
    """A worker begins to have a summary made, and is no more."""
    stage.minutes.gate = asyncio.Event()
    dead = asyncio.ensure_future(stage.call(**fields))
    await stage.minutes.begun.wait()
    dead.cancel()
    await asyncio.wait({dead})
    stage.minutes.gate = None


async def test_a_lost_worker_is_waited_for_until_the_timeout(
    stage: Stage,
) -> None:
    stage.say(3 + CHUNK)
    began = datetime.now(UTC)
    await dies(stage, now=began - timedelta(seconds=SUMMING + 1))
    found = await stage.call("writer", worker=stage.new_worker(), now=began)
    assert (found.usage.calls, len(stage.minutes.asked)) == (2, 2)


async def test_a_slow_model_is_called_once_and_waits_are_limited(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.say(3 + CHUNK)
    await dies(stage, now=datetime.now(UTC) + timedelta(seconds=SUMMING))
    short(monkeypatch, 0.1)
    found = await stage.call("writer", worker=stage.new_worker())
    assert (found.usage.calls, len(stage.minutes.asked)) == (1, 1)
    assert found.window is not None
    assert "another call" in found.window.error
    assert "- [people] 1 was said" in stage.minutes.shown[-1][1].text


async def test_a_waiting_call_retries_at_once_after_a_failure(stage: Stage) -> None:
    stage.say(3 + CHUNK)
    stage.minutes.gate, stage.minutes.away = asyncio.Event(), True
    one = asyncio.ensure_future(stage.call())
    await stage.minutes.begun.wait()
    two = asyncio.ensure_future(stage.call("writer", worker=stage.new_worker()))
    for _ in range(50):
        await asyncio.sleep(0)
    stage.minutes.gate.set()
    first = await one
    stage.minutes.away = False
    assert first.window is not None
    assert "no minutes today" in first.window.error
    assert (await two).usage.calls == 2
    assert len(stage.minutes.asked) == 2


async def test_a_late_summary_is_cancelled(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    short(monkeypatch, 1.05)
    stage.say(3 + CHUNK)
    stage.minutes.gate = asyncio.Event()
    found = await stage.call()
    assert found.window is not None
    assert "has not answered within" in found.window.error


async def test_a_long_log_is_summarized_by_one_call(stage: Stage) -> None:
    stage.say(40 * CHUNK)
    found = await stage.call()
    assert (found.usage.calls, len(stage.minutes.asked)) == (2, 1)
    assert len(stage.minutes.asked[0]) < 12_000
    assert "- [people] 1 was said" in stage.minutes.asked[0]


async def test_a_run_that_leaves_the_cache_is_summarized(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.say(3 + CHUNK)
    await stage.call()
    worker = stage.new_worker()
    hydrator = worker._models._hydrator  # pyright: ignore[reportPrivateUsage]
    read = stage.store.read_log

    async def forgets(*args: Any) -> Any:
        hydrator._runs.clear()  # pyright: ignore[reportPrivateUsage]
        return await read(*args)

    monkeypatch.setattr(stage.store, "read_log", forgets)
    stage.crew = stage.crew.model_copy(update={"window": Window(last=2, summary="extract")})
    stage.batch = Batch.EMPTY
    found = await stage.call("writer", worker=worker)
    assert found.window is not None
    assert found.window.left_out == CHUNK
    assert "- [people] 1 was said" in stage.minutes.shown[-1][1].text


async def test_summaries_are_deleted_with_their_run(stage: Stage) -> None:
    stage.say(3 + CHUNK)
    result = await stage.call()
    bodies = stage.store._bodies  # pyright: ignore[reportPrivateUsage]
    assert any("minutes 1" in text for text in bodies.values())
    assert not any("minutes 1" in text for text in stage.store._claims.values())  # pyright: ignore[reportPrivateUsage]
    assert result.stored
    await stage.store.delete([RUN], 10, grace=0)
    assert not any("minutes 1" in text for text in bodies.values())


HERE = {"api_key": "here", "base_url": "http://here"}


@pytest.mark.parametrize(
    ("summing", "own", "given", "reached"),
    [
        ("local:big", False, HERE, HERE),  # its own model
        ("local:small", True, HERE, HERE),
        ("local:small", False, HERE, {}),  # the crew's says nothing of that address
        ("local:small", False, {"api_key": "here", "seed": 1}, {"api_key": "here"}),
        ("other:small", False, {"api_key": "here"}, {}),
        ("other:small", True, HERE, {}),
    ],
)
def test_a_key_is_sent_to_its_service_only(
    summing: str, own: bool, given: dict[str, Any], reached: dict[str, Any]
) -> None:
    agent = AgentDefinition(prompt="x", model_settings=given)
    found = summary_settings(summing, agent, by_crew=not own, model_of_agent="local:big")
    assert found == reached


async def test_an_agents_service_does_not_get_the_crews_summaries(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.say(3 + CHUNK)
    asked: list[tuple[str, Any]] = []
    ready = stage.minutes.get

    async def noted(model: str, settings: Any, timeout: float) -> Any:
        asked.append((model, settings))
        return await ready(model, settings, timeout)

    monkeypatch.setattr(stage.minutes, "get", noted)
    data = stage.crew.to_json()
    for agent in data["agents"].values():
        agent.pop("window", None)
        agent["model_settings"] = HERE | {"streaming": False}
    stage.crew = CrewDefinition.from_json({**data, "model": "minutes:x", "window": WINDOW})
    await stage.call()
    assert ("minutes:m", {}) in asked
    assert ("minutes:x", HERE | {"streaming": False}) in asked
