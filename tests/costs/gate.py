"""Makes a fan-out the same on every machine.

How many replies one workflow task takes, and what two calls both read because neither waits for the
other, depends on how fast they are. So here all calls are under way at once, but they take turns:

- a call is given to the worker once the model of the call before was asked;
- once all were asked, the first one's reply comes, and a workflow task takes it;
- while that task waits for the worker, the other replies come, each once the one before is with the
  server. The next workflow task takes all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from temporalio import activity
from temporalio.bridge.proto import ActivityTaskCompletion
from temporalio.bridge.proto.activity_task import ActivityTask
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.worker import Worker as BridgeWorker

from bench.peers.model import BenchModel


class Gate:
    """Where the calls of one fan-out wait for each other; all in the worker's loop."""

    def __init__(self) -> None:
        self._left = 0
        """Calls whose model is still to be asked."""
        self._held: deque[tuple[bytes, asyncio.Event]] = deque()
        """The task tokens of those that may not reply yet, in their order."""
        self._replying: bytes | None = None
        """The task token of the one that may reply."""
        self._first = asyncio.Event()
        """Whether the first reply is with the server, as far as the worker knows."""
        self._free = asyncio.Event()
        """Whether the call that the worker was given last waits or has ended."""
        self._free.set()
        self._empty = asyncio.Event()
        """Whether all have ended."""

    def close(self, width: int) -> None:
        """Lets so many calls wait for each other; called while the worker has nothing to do."""
        assert not self._held
        assert not self._left
        self._left = width
        self._first.clear()
        self._empty.clear()

    def attach(self, bridge: BridgeWorker) -> None:
        """Wraps what the worker takes from the server and gives to it."""
        poll_activity, poll_workflow = bridge.poll_activity_task, bridge.poll_workflow_activation
        complete = bridge.complete_activity_task

        async def activity_task() -> ActivityTask:
            await self._free.wait()
            task = await poll_activity()
            if self._left and task.HasField("start"):
                self._free.clear()
            return task

        async def activation() -> WorkflowActivation:
            found = await poll_workflow()
            if self._held and any(job.HasField("resolve_activity") for job in found.jobs):
                # The workflow task may come before the worker hears that the server has the reply.
                await self._first.wait()
                self._release()
                await self._empty.wait()
            return found

        async def completed(completion: ActivityTaskCompletion) -> None:
            await complete(completion)
            self._free.set()
            if completion.task_token != self._replying:
                return
            if not self._first.is_set():
                self._first.set()
            elif self._held:
                self._release()
            else:
                self._empty.set()

        bridge.poll_activity_task = activity_task  # type: ignore[method-assign]
        bridge.poll_workflow_activation = activation  # type: ignore[method-assign]
        bridge.complete_activity_task = completed  # type: ignore[method-assign]

    async def wait(self) -> None:
        """Waits until a reply may come."""
        mine = asyncio.Event()
        self._held.append((activity.info().task_token, mine))
        self._left -= 1
        self._free.set()
        if self._left <= 0:
            self._release()
        await mine.wait()

    def _release(self) -> None:
        self._replying, reply = self._held.popleft()
        reply.set()

    def build(self, name: str, settings: Mapping[str, Any], timeout: float) -> BenchModel:
        """A model whose replies wait, as the engine's model factory makes it."""
        return GatedModel(gate=self)


class GatedModel(BenchModel):
    """Says what `bench:say` says, once its gate lets it."""

    gate: Any

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        await self.gate.wait()
        return await super()._agenerate(messages, stop, run_manager, **kwargs)
