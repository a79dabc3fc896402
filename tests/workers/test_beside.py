"""Queries that come with the task in which a local activity is under way."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio import activity
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import WorkflowHandle
from temporalio.worker import Replayer, Worker

from beside import HELD, Beside
from crewlog.client import gateway
from crewlog.errors import StoreUnavailable, WorkerMissing
from crewlog.store import Store
from crewlog.testing import scripted
from crewlog.workers.sandbox import Instance, sandbox
from shared import LIMIT, Lab

TRIES = 20
"""A query that reaches the server after the first task began comes with no task."""
RESOLVED = 0.2
"""Seconds in which the SDK hears of the end of an activity; it does not say when it has."""


async def test_a_run_that_was_asked_beside_a_local_activity_replays(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The activity ends while the query is being answered, and signals come meanwhile."""
    began, asked, go = asyncio.Event(), asyncio.Event(), asyncio.Event()
    ended = threading.Event()
    loop = asyncio.get_running_loop()
    activate = Instance.activate

    def watched(self: Instance, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if any(job.HasField("query_workflow") for job in act.jobs) and not asked.is_set():
            loop.call_soon_threadsafe(asked.set)
            ended.wait(1)
        return activate(self, act)

    @activity.defn(name=HELD)
    async def held() -> None:
        began.set()
        await go.wait()

    async def together(handle: WorkflowHandle[Beside, int]) -> bool:
        """Whether the query came with the task of the activity."""
        await asyncio.wait_for(began.wait(), LIMIT)
        try:
            await asyncio.wait_for(asked.wait(), 0.5)
        except TimeoutError:
            go.set()
            return False
        for text in "abc":
            await handle.signal(Beside.say, text)
        go.set()
        await asyncio.sleep(RESOLVED)
        ended.set()
        return True

    monkeypatch.setattr(Instance, "activate", watched)
    temporal, queue = lab.client.temporal, lab.client.task_queue
    worker: dict[str, Any] = {"workflows": [Beside], "workflow_runner": sandbox()}
    for number in range(TRIES):
        for event in (began, asked, go, ended):
            event.clear()
        handle: WorkflowHandle[Beside, int] = await temporal.start_workflow(
            Beside.run,
            id=f"{queue}-{number}",
            task_queue=queue,
            execution_timeout=timedelta(seconds=LIMIT),
        )
        answer = asyncio.create_task(handle.query(Beside.said))
        await asyncio.sleep(0)  # it is on its way
        async with Worker(temporal, task_queue=queue, activities=[held], **worker):
            if not await together(handle):
                answer.cancel()
                await handle.terminate()
                continue
            assert await asyncio.wait_for(handle.result(), LIMIT) == 0
            assert await asyncio.wait_for(answer, LIMIT) == ["a", "b", "c"]
        await Replayer(**worker).replay_workflow(await handle.fetch_history())
        return
    pytest.fail("no query came with the first task")


class Leaving:
    """A store that is away until it is back."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.back = False

    def __getattr__(self, name: str) -> Any:
        async def away(*_: object, **__: object) -> None:
            raise StoreUnavailable("nobody answers", place="the store")

        return getattr(self._inner, name) if self.back else away


async def test_a_run_whose_store_is_away_says_what_it_waits_for(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "ANSWER_LIMIT", 1.0)
    monkeypatch.setattr(gateway, "BUSY_LIMIT", 6.0)
    model = scripted({"agents": {"a": [{"text": "A"}]}})
    run = await lab.start({"crew": "x", "model": model, "agents": {"a": {"prompt": "Say A."}}})
    store = Leaving(lab.store)
    lab.store = cast("Store", store)
    async with lab.worker():
        with pytest.raises(WorkerMissing, match="waits for what its worker reads from the store"):
            await run.state()
        store.back = True
        assert (await run.result(LIMIT)).status == "completed"
