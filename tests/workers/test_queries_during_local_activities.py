"""Queries that come with the task in which a local activity is in flight."""

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
from crewlog.client import Run, gateway
from crewlog.errors import StoreUnavailable, WorkerMissing
from crewlog.store import Store
from crewlog.testing import scripted
from crewlog.workers.workflow_runner import CrewInstance, CrewRunner
from shared import LIMIT, Lab

TRIES = 20
"""A query that reaches the server after the first task began comes with no task."""
RESOLVED = 0.2
"""Seconds in which the SDK hears of the end of an activity; it does not say when it has."""


async def test_a_run_queried_during_a_local_activity_replays(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The activity ends while the query is being answered, and signals come meanwhile."""
    began, asked, go = asyncio.Event(), asyncio.Event(), asyncio.Event()
    ended = threading.Event()
    loop = asyncio.get_running_loop()
    activate = CrewInstance.activate

    def watched(self: CrewInstance, act: WorkflowActivation) -> WorkflowActivationCompletion:
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

    monkeypatch.setattr(CrewInstance, "activate", watched)
    temporal, queue = lab.client.temporal, lab.client.task_queue
    worker: dict[str, Any] = {"workflows": [Beside], "workflow_runner": CrewRunner()}
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

    def __init__(self, inner: Store, *, silent: bool) -> None:
        """Takes a store.

        Args:
            inner: The store.
            silent: Whether there is no answer at all; else that it is away.
        """
        self._inner = inner
        self._silent = silent
        self._asked = 0
        self.asked_often = asyncio.Event()
        """So often that the next time is far off."""
        self.back = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        async def away(*given: object, **more: object) -> object:
            self._asked += 1
            if self._asked == 4:
                self.asked_often.set()
            if not self._silent:
                raise StoreUnavailable("nobody answers", place="the store")
            await self.back.wait()
            return await getattr(self._inner, name)(*given, **more)

        return getattr(self._inner, name) if self.back.is_set() else away


@pytest.mark.parametrize(
    ("silent", "told"),
    [
        pytest.param(True, "waits for what its worker reads from the store", id="silent"),
        pytest.param(False, "has not read its crew yet", id="away"),
    ],
)
async def test_a_run_without_its_store_reports_the_wait(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, silent: bool, told: str
) -> None:
    monkeypatch.setattr(gateway, "ANSWER_LIMIT", 1.0)
    monkeypatch.setattr(gateway, "BUSY_LIMIT", 6.0)
    run = await begun(lab)
    store = Leaving(lab.store, silent=silent)
    lab.store = cast("Store", store)
    async with lab.worker():
        with pytest.raises(WorkerMissing, match=told) as caught:
            await run.state()
        assert "it may not reach its store" in caught.value.remedy
        store.back.set()
        assert (await run.result(LIMIT)).status == "completed"


async def test_a_worker_without_its_store_ends(lab: Lab) -> None:
    run = await begun(lab)
    there, store = lab.store, Leaving(lab.store, silent=False)
    lab.store = cast("Store", store)
    async with asyncio.timeout(LIMIT):
        async with lab.worker():
            await asyncio.wait_for(store.asked_often.wait(), LIMIT)
    lab.store = there
    async with lab.worker():
        assert (await run.result(LIMIT)).status == "completed"


async def begun(lab: Lab) -> Run:
    """A run of one agent, that no worker has taken yet."""
    model = scripted({"agents": {"a": [{"text": "A"}]}})
    return await lab.start({"crew": "x", "model": model, "agents": {"a": {"prompt": "Say A."}}})
