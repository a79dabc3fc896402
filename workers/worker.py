"""A worker: Temporal's, wired with Crewlog's sandbox, converter, store and activities."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version

import structlog
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker, WorkerDeploymentConfig

from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.crew_activities import CrewActivities
from crewlog.activities.executions import OwnRunInterceptor
from crewlog.errors import TemporalUnavailable
from crewlog.payload_storage.file_store import FileStore
from crewlog.store.protocol import Store
from crewlog.temporal_service.cli import program
from crewlog.temporal_service.deployments import can_pin, current_build, make_current
from crewlog.temporal_service.namespaces import check_namespace, server_version
from crewlog.wire import SEARCH_ATTRIBUTES
from crewlog.workers.loop_lag import watch_loop
from crewlog.workers.sandbox import sandbox
from crewlog.workers.server_lookups import beginnings, endings, hints, looks, queues
from crewlog.workers.settings import WorkerSettings
from crewlog.workflows.crew_run import CrewRun
from crewlog.workflows.interceptors import CurrentDetailsInterceptor, StartArgumentInterceptor

log: structlog.stdlib.BoundLogger = structlog.get_logger("crewlog.worker")

HEARTBEAT_THROTTLE = timedelta(milliseconds=200)
"""Heartbeats travel at most this often; it is also how soon a running activity hears of a stop."""
KEPT_PER_TASK = 16
"""Executions kept in memory for each workflow task that may run at a time."""
LEAST_KEPT = 2 * KEPT_PER_TASK
"""The SDK runs no fewer than two tasks at a time where it keeps executions."""
_NO_WORKER = "Worker validation failed: "
"""How the SDK's core begins where it asks the server before it polls, and is refused."""
_KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD


async def register_search_attributes(client: Client) -> bool:
    """Registers Crewlog's search attributes where it may; true where the server has them all.

    One of another type is as bad as none. All are left out, or none: a run sets them together.

    A workflow that sets an attribute the server does not know fails its task for ever, so workers
    ask before the first run.
    """
    reason = ""
    for _ in SEARCH_ATTRIBUTES:  # each round that another worker was first, there is one less
        try:
            known = await client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=client.namespace)
            )
            types = {name: known.custom_attributes.get(name) for name in SEARCH_ATTRIBUTES}
            wrong = [name for name, type_ in types.items() if type_ not in (None, _KEYWORD)]
            if wrong:
                await log.awarning(
                    "search attributes are left out: the namespace has some that are no Keyword",
                    names=wrong,
                )
                return False
            missing = [name for name, type_ in types.items() if type_ is None]
            if missing:
                await client.operator_service.add_search_attributes(
                    AddSearchAttributesRequest(
                        namespace=client.namespace,
                        search_attributes=dict.fromkeys(missing, _KEYWORD),
                    )
                )
        except RPCError as error:
            reason = error.message
            if error.status != RPCStatusCode.ALREADY_EXISTS:
                break
        else:
            return True
    await log.awarning(
        "search attributes are left out: the server does not let us register them",
        reason=reason,
    )
    return False


async def deployment_config(client: Client, settings: WorkerSettings) -> WorkerDeploymentConfig:
    """How the worker takes part in versioning: pinned to its build, or by its name alone.

    Without a build id it has no versions. Neither has it on a server that would keep pinned runs on
    their first build for ever; then it says so, and its runs are taken up by whatever build polls.
    """
    pins = bool(settings.build_id)
    if pins and not can_pin(server := await server_version(client)):
        await log.awarning(
            "runs are not pinned to this build: the server cannot move pinned runs to a newer one",
            build_id=settings.build_id,
            server=server,
            remedy="Use server 1.31 or newer; until then changes need patches (docs/upgrading.md).",
        )
        pins = False
    # Named in any case: else the SDK hashes all loaded modules for a name, two seconds of a start,
    # and every workflow task's event has 32 characters of it.
    build = settings.build_id or version("crewlog")
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(settings.deployment, build),
        use_worker_versioning=pins,
        default_versioning_behavior=(
            VersioningBehavior.PINNED if pins else VersioningBehavior.UNSPECIFIED
        ),
    )


async def log_current_build(client: Client, build: WorkerDeploymentVersion) -> None:
    """Says what the server sends to this build, and how an operator makes it the current one."""
    try:
        current = await current_build(client, build.deployment_name)
    except RPCError as error:
        await log.awarning("which build is current could not be read", reason=error.message)
        return
    if current == build.build_id:
        await log.ainfo("this build is current: runs go to it", build_id=build.build_id)
        return
    address = client.service_client.config.target_host
    await log.awarning(
        f"this build gets no new runs: build {current!r} is current"
        if current
        else "this build gets no runs: none is current, and runs wait until one is",
        build_id=build.build_id,
        command=make_current(
            await program(), address, client.namespace, build.deployment_name, build.build_id
        ),
    )


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of a worker's process: uvloop's where there is one.

    A step takes a tenth less of the processor on it.
    """
    try:
        import uvloop  # noqa: PLC0415 - Windows has none
    except ImportError:
        return None
    return uvloop.new_event_loop


def tune_garbage_collector() -> None:
    """Makes Python's cycle collector look less often, and not at what was there from the start.

    With its defaults it takes a tenth of a busy worker: it walks through the modules and the runs
    in memory again and again. For a process that is a worker and nothing else.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


@asynccontextmanager
async def running_worker(
    client: Client,
    store: Store,
    settings: WorkerSettings | None = None,
    *,
    models: ModelFactory | None = None,
) -> AsyncGenerator[Worker]:
    """A worker that polls for as long as the block runs; it finishes what it has before it ends."""
    settings = settings or WorkerSettings()
    has_attributes = await register_search_attributes(client)
    deployment = await deployment_config(client, settings)

    async def search_attributes() -> bool:
        return has_attributes

    activities = CrewActivities(
        store,
        workspace=settings.workspace,
        models=models,
        search_attributes=search_attributes,
        look=looks(client),
        ended=endings(client),
        begun=beginnings(client),
        queue_of=queues(client),
        hint=hints(client),
        max_entries=settings.cache_messages,
        files=FileStore.of(client.data_converter),
    )
    cached, tasks = _room(settings)
    runner = sandbox()
    worker = Worker(
        client,
        task_queue=settings.task_queue,
        workflows=[] if settings.activities_only else [CrewRun],
        activities=activities.all(),
        workflow_runner=runner,
        interceptors=[StartArgumentInterceptor(), CurrentDetailsInterceptor(), OwnRunInterceptor()],
        deployment_config=deployment,
        max_concurrent_activities=settings.max_activities,
        max_concurrent_local_activities=settings.max_activities,
        max_concurrent_workflow_tasks=tasks,
        max_cached_workflows=cached,
        max_eager_activity_reservations_per_workflow_task=settings.eager_activities,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=settings.sticky_seconds),
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=timedelta(seconds=settings.shutdown_seconds),
    )
    runner.serve(worker)
    # Tools that are no coroutines run in threads; asyncio's own pool has six on two cores.
    threads = ThreadPoolExecutor(settings.max_activities, thread_name_prefix="tool")
    asyncio.get_running_loop().set_default_executor(threads)
    try:
        async with worker:
            if deployment.use_worker_versioning:
                await log_current_build(client, deployment.version)
            yield worker
    finally:
        await activities.close()


def _room(settings: WorkerSettings) -> tuple[int, int]:
    """How many executions are kept in memory, and how many workflow tasks run at a time.

    Where there is no room, the SDK evicts the execution that it has not touched for longest, even
    one in mid-task: a task that waits for a local activity, as the first of every run does, is
    then lost, and is begun again only after it has timed out. So many more are kept than tasks run
    at a time: while one waits, the others cannot pass through so many that it is the oldest.
    """
    if not settings.max_cached_runs:
        return 0, 1
    cached = max(settings.max_cached_runs, LEAST_KEPT)
    return cached, min(settings.max_workflow_tasks, cached // KEPT_PER_TASK)


async def run_until(
    stop: asyncio.Event, client: Client, store: Store, settings: WorkerSettings
) -> None:
    """Works until `stop` is set.

    Raises:
        NamespaceNotFound: the server does not have the namespace.
        TemporalUnavailable: the server answers, and cannot do its work.
    """
    try:
        async with running_worker(client, store, settings) as worker:
            await log.ainfo("the worker polls", task_queue=worker.task_queue)
            with watch_loop():
                await stop.wait()
            await log.ainfo("the worker finishes what it has")
    except RuntimeError as error:
        if not str(error).startswith(_NO_WORKER):
            raise
        await check_namespace(client)
        raise TemporalUnavailable(
            f"the Temporal server cannot serve: {str(error).removeprefix(_NO_WORKER)}",
            remedy="It answers, but its own services or its database are away: `crewlog doctor` "
            "looks closer.",
            place=client.service_client.config.target_host,
        ) from error
