"""`python -m bench.peers.worker engine|bare|tuned|plugin`: a peer's worker process.

It prints `ready` once it polls, and ends with its standard input: nothing outlives the driver. All
of them have the settings of the engine's own worker: eager activities and sticky cache. `bare` and
`plugin` run as whoever writes a workflow gets it from the SDK; `tuned` is the bare workflow in a
process like the engine's: its event loop, its settings of the collector, its runner.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from crewlog.workers.settings import WorkerSettings

_PASSED_THROUGH = (
    *("langgraph", "langchain_core", "langsmith", "pydantic", "pydantic_core", "requests"),
    *("urllib3", "httpx", "xxhash", "ormsgpack"),
)
"""LangGraph and what it imports cannot be imported anew for every execution."""


async def engine(settings: WorkerSettings) -> AbstractAsyncContextManager[Any]:
    """The engine's own worker, with the benchmarks' model."""
    from crewlog.activities.chat_models import register  # noqa: PLC0415
    from crewlog.client import connect  # noqa: PLC0415
    from crewlog.workers.worker import running_worker, tune_garbage_collector  # noqa: PLC0415

    tune_garbage_collector()  # as `python -m crewlog.workers` does
    register("bench", "bench.peers.model:build")
    client = await connect(task_queue=settings.task_queue, services=False)
    return running_worker(client.temporal, await client.store(), settings)


async def bare(settings: WorkerSettings) -> AbstractAsyncContextManager[Any]:
    """The bare workflow."""
    from bench.peers.bare import BareRun, say  # noqa: PLC0415

    return Worker(
        await _client(),
        workflows=[BareRun],
        activities=[say],
        **_options(settings),
    )


async def tuned(settings: WorkerSettings) -> AbstractAsyncContextManager[Any]:
    """The bare workflow in a process like the engine's."""
    from bench.peers.bare import BareRun, say  # noqa: PLC0415
    from crewlog.workers.worker import tune_garbage_collector  # noqa: PLC0415
    from crewlog.workers.workflow_runner import CrewRunner  # noqa: PLC0415

    tune_garbage_collector()
    return Worker(
        await _client(),
        workflows=[BareRun],
        activities=[say],
        workflow_runner=CrewRunner(),
        **_options(settings),
    )


async def plugin(settings: WorkerSettings) -> AbstractAsyncContextManager[Any]:
    """The LangGraph plugin."""
    from bench.peers.plugin import PluginRun  # noqa: PLC0415
    from bench.peers.plugin import plugin as made  # noqa: PLC0415

    restrictions = SandboxRestrictions.default.with_passthrough_modules(*_PASSED_THROUGH)
    return Worker(
        await _client(),
        workflows=[PluginRun],
        plugins=[made()],
        workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
        **_options(settings),
    )


async def _client() -> Client:
    return await Client.connect(
        os.environ["TEMPORAL_ADDRESS"], namespace=os.environ["TEMPORAL_NAMESPACE"]
    )


def _options(settings: WorkerSettings) -> dict[str, Any]:
    """What `crewlog.workers.worker.running_worker` gives its worker, as far as the floor has it.

    Not imported from there: that brings all that the engine needs, and the floor's memory is
    measured.
    """
    return {
        "task_queue": settings.task_queue,
        "max_concurrent_activities": settings.max_activities,
        "max_concurrent_workflow_tasks": settings.max_workflow_tasks,
        "max_cached_workflows": settings.max_cached_runs,
        "max_eager_activity_reservations_per_workflow_task": settings.eager_activities,
        "sticky_queue_schedule_to_start_timeout": timedelta(seconds=settings.sticky_seconds),
        "graceful_shutdown_timeout": timedelta(seconds=1),
    }


PEERS = {"engine": engine, "bare": bare, "tuned": tuned, "plugin": plugin}


def loop_of(peer: str) -> Any:
    """The loop factory of a peer; None is asyncio's own loop."""
    if peer not in ("engine", "tuned"):
        return None
    from crewlog.workers.worker import loop_factory  # noqa: PLC0415

    return loop_factory()


async def serve(peer: str) -> None:
    """Works until standard input ends."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(await PEERS[peer](WorkerSettings()))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    # Each on the loop that its own processes have: the engine's is uvloop's, where there is one.
    with asyncio.Runner(loop_factory=loop_of(sys.argv[1])) as runner:
        runner.run(serve(sys.argv[1]))
    sys.stdout.flush()
    # The interpreter sometimes aborts while it tears the Temporal runtime down.
    os._exit(0)
