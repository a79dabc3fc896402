"""A worker with labelled points, and a process that forks such workers.

`python -m faults.worker` imports everything once and then forks a worker for each line that it
reads: importing costs seconds of CPU, a fork nothing. It must not have made a Temporal runtime or a
thread before, and looks that it has not. When its standard input ends, it and its workers end.

The points are around the store, the activities and the workflow; see `faults.points`. What a worker
runs besides is what `crewlog.workers` runs.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import temporalio.client
from temporalio import activity, workflow
from temporalio.worker import (
    ActivityInboundInterceptor,
    ContinueAsNewInput,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

# Not public; without it each worker would hash all loaded code anew, for seconds of CPU.
from temporalio.worker._worker import load_default_build_id

from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.payload_storage.converter import data_converter
from crewlog.state.calls import PrepareMerge
from crewlog.state.journal import Batch
from crewlog.store import PostgresStore
from crewlog.store.protocol import Snapshot
from crewlog.temporal_service.sdk_workarounds import end_process
from crewlog.wire import NOTIFY_MERGE, REQUEST_MERGE
from crewlog.workers.process import configure_logging
from crewlog.workers.settings import WorkerSettings
from crewlog.workers.worker import run_until, running_worker

from .ledger import Ledger
from .points import MERGE_POINTS, Points

LEDGER, ORDERS = "FAULTS_LEDGER", "FAULTS_ORDERS"
"""The environment variables with the ledger's file and the directory of the points' orders."""
PREVIEW_MERGE = "preview_merge"
"""The label of the activity `prepare_merge` while it only checks a command."""
CALLS_QUEUE = "FAULTS_CALLS_QUEUE"
"""The environment variable with a second queue, of which the worker takes the activities."""
_EARLY = (
    "crewlog.testing.scripted",
    "crewlog.activities.tool_calls",
    "crewlog.workflows.execution",
    "genai_prices",
    "faults.deeds",
    "asyncpg",
    "requests",
)
"""What a worker would import at its first use."""
_PARENT_DEATH = 1
"""`PR_SET_PDEATHSIG`."""


@dataclass(frozen=True)
class Here:
    """What this worker acts on."""

    ledger: Ledger
    points: Points


_here: list[Here] = []


def here() -> Here:
    """The ledger and the points of this process."""
    if not _here:
        ledger = Ledger(Path(os.environ[LEDGER]))
        _here.append(Here(ledger, Points(Path(os.environ[ORDERS]), ledger)))
    return _here[0]


class StoreAtPoints(PostgresStore):
    """The store, with points before and after every write."""

    async def append(
        self,
        run: RunId,
        batch: Batch,
        bodies: Mapping[ContentHash, Json] | None = None,
        *,
        execution: str = "",
    ) -> int:
        kinds = [str(entry.get("kind")) for entry in batch.entries]
        merge_kinds = [kind for kind in kinds if f"{kind}.before" in MERGE_POINTS]
        for point in ("append", *merge_kinds):
            _pass(f"{point}.before")
        ruled = await super().append(run, batch, bodies, execution=execution)
        for point in ("append", *merge_kinds):
            _pass(f"{point}.after")
        return ruled

    async def claim(
        self, run: RunId, key: str, owner: str, *, permissions_as_of: int | None = None
    ) -> str:
        _pass("claim.before")
        found = await super().claim(run, key, owner, permissions_as_of=permissions_as_of)
        if found == owner:
            here().ledger.claimed(key, owner)
        _pass("claim.after")
        return found

    async def put_bodies(self, run: RunId, bodies: Mapping[ContentHash, Json]) -> None:
        _pass("bodies.before")
        await super().put_bodies(run, bodies)
        _pass("bodies.after")

    async def put_snapshot(self, run: RunId, snapshot: Snapshot) -> None:
        _pass("snapshot.before")
        await super().put_snapshot(run, snapshot)
        _pass("snapshot.after")


def _pass(point: str) -> None:
    info = activity.info()
    here().points.reach(point, info.workflow_id or "", what_of(info))


def what_of(info: activity.Info) -> str:
    """The activity and its attempt; empty for a local one, which is a part of a workflow task.

    Nobody else makes that attempt of it: another worker takes the whole task over.
    """
    return "" if info.is_local else f"{info.activity_id}/{info.attempt}"


class AtPoints(temporalio.client.Interceptor, Interceptor):
    """Points around activities, around merge notifications and in workflow tasks.

    It is given to the client, which hands it on to the worker.
    """

    def intercept_client(
        self,
        next: temporalio.client.OutboundInterceptor,  # noqa: A002 - Temporal's own name
    ) -> temporalio.client.OutboundInterceptor:
        return _ClientCalls(super().intercept_client(next))

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's own name
    ) -> ActivityInboundInterceptor:
        return _Activities(next)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        input.unsafe_extern_functions["faults_reach"] = here().points.reach
        return _Workflows


class _ClientCalls(temporalio.client.OutboundInterceptor):
    async def signal_workflow(self, input: temporalio.client.SignalWorkflowInput) -> None:
        if input.signal != NOTIFY_MERGE:
            await super().signal_workflow(input)
            return
        _pass("notification.before")
        await super().signal_workflow(input)
        _pass("notification.after")


class _Activities(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        run, name = info.workflow_id or "", info.activity_type
        call = (run, info.workflow_run_id or "", info.activity_id, info.attempt, name)
        here().ledger.call(*call, "begin")
        task = next(iter(input.args), None)
        label = PREVIEW_MERGE if isinstance(task, PrepareMerge) and task.decide else name
        try:
            _pass(f"{label}.begin")
            result = await super().execute_activity(input)
            _pass(f"{label}.end")
        except BaseException:
            here().ledger.call(*call, "raise")
            raise
        # A worker that was frozen notes it when it goes on: what it returns now may be too late.
        here().ledger.call(*call, "return")
        return result


class _Workflows(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        _in_task("task.begins")
        return await super().execute_workflow(input)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        if input.signal == NOTIFY_MERGE:
            _in_task("notify_merge.received")
        await super().handle_signal(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        if input.update == REQUEST_MERGE:
            _in_task("request_merge.received")
        return await super().handle_update_handler(input)


class _Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        handle = super().start_activity(input)
        _in_task("task.schedules")
        return handle

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        _in_task("task.continues")
        super().continue_as_new(input)


def _in_task(point: str) -> None:
    if workflow.unsafe.is_replaying():
        return
    run = workflow.info().workflow_id
    workflow.extern_functions()["faults_reach"](point, run)


async def serve() -> None:
    """Works as `crewlog.workers` does, until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = WorkerSettings()
    temporal = await temporalio.client.Client.connect(
        os.environ["TEMPORAL_ADDRESS"],
        namespace=os.environ.get("TEMPORAL_NAMESPACE", "default"),
        data_converter=data_converter(settings.payloads),
        interceptors=[AtPoints()],
    )
    store = await connected()
    try:
        async with AsyncExitStack() as stack:
            if queue := os.environ.get(CALLS_QUEUE):
                calls = settings.model_copy(update={"task_queue": queue, "activities_only": True})
                await stack.enter_async_context(running_worker(temporal, store, calls))
            await run_until(stop, temporal, store, settings)
    finally:
        await store.close()


async def connected() -> StoreAtPoints:
    """The store; it may be away just now, and a service manager would start the worker again."""
    while True:
        try:
            return await StoreAtPoints.connect(os.environ["DATABASE_URL"], max_size=5)
        except Exception as error:
            sys.stderr.write(f"the store is away: {error}\n")
            await asyncio.sleep(0.2)


# -- the process that forks --------------------------------------------------------------------


def main() -> None:
    """Forks a worker for every line, `{"log": FILE, "cwd": FOLDER, "environ": {...}}`.

    Answers each with a line that has the worker's process id.
    """
    for name in _EARLY:
        importlib.import_module(name)
    load_default_build_id()  # it is remembered
    libc = ctypes.CDLL(None)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever ends is gone at once
    gc.collect()
    gc.freeze()  # else the first collection in each worker would copy all of it
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    parent = os.getpid()
    for line in sys.stdin:
        threads = len(list(Path("/proc/self/task").iterdir()))
        assert threads == 1, f"{threads} threads: a fork would lose all but one"
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            libc.prctl(_PARENT_DEATH, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            _become_worker(order)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _become_worker(order: Mapping[str, Any]) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        out = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(nothing, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.environ.clear()
        os.environ.update(order["environ"])
        os.chdir(order["cwd"])
        configure_logging()
        asyncio.run(serve())
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        end_process(code)


if __name__ == "__main__":
    # As `faults.worker`, and not twice: tools ask that module where they are.
    importlib.import_module("faults.worker").main()
