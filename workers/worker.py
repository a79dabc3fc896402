"""A Temporal worker with Crewlog's runner, converter, store and activities."""

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
from crewlog.temporal_service.cli import shell_command
from crewlog.temporal_service.deployments import can_pin, current_build, make_current_command
from crewlog.temporal_service.namespaces import check_namespace, server_version
from crewlog.wire import SEARCH_ATTRIBUTES
from crewlog.workers.loop_lag import watch_loop
from crewlog.workers.sdk_workarounds import limit_cache, server_rejection
from crewlog.workers.settings import WorkerSettings
from crewlog.workers.temporal_server import TemporalServer
from crewlog.workers.workflow_runner import CrewRunner
from crewlog.workflows.crew_run import CrewRun
from crewlog.workflows.sdk_workarounds import CrewRunInterceptor

log: structlog.stdlib.BoundLogger = structlog.get_logger("crewlog.worker")

HEARTBEAT_THROTTLE = timedelta(milliseconds=200)
"""The shortest time between two heartbeats, and so until a running activity is cancelled."""
_KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD


async def register_search_attributes(client: Client) -> bool:
    """Registers Crewlog's search attributes; returns whether the server has all of them.

    A run sets all of them or none. Setting an attribute that the server does not know, or that has
    another type, would fail the workflow task again and again, so workers ask before the first run.
    """
    reason = ""
    for _ in SEARCH_ATTRIBUTES:  # in each round, another worker may have registered one
        try:
            known = await client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=client.namespace)
            )
            types = {name: known.custom_attributes.get(name) for name in SEARCH_ATTRIBUTES}
            wrong = [name for name, type_ in types.items() if type_ not in (None, _KEYWORD)]
            if wrong:
                await log.awarning(
                    "search attributes are not set: the namespace has some of another type than "
                    "Keyword",
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
        "search attributes are not set: the server does not allow their registration",
        reason=reason,
    )
    return False


async def deployment_config(client: Client, settings: WorkerSettings) -> WorkerDeploymentConfig:
    """Returns the worker's versioning: its executions are pinned to its build, or unversioned.

    They are unversioned without a build id, or on a server that cannot move a pinned run to a newer
    build. Then any build may continue them, and the worker logs that.
    """
    is_pinned = bool(settings.build_id)
    if is_pinned and not can_pin(server := await server_version(client)):
        await log.awarning(
            "runs are not pinned to this build: the server cannot move pinned runs to a newer one",
            build_id=settings.build_id,
            server=server,
            remedy="Use server 1.31 or newer; until then changes need patches (docs/upgrading.md).",
        )
        is_pinned = False
    # Without a name, the SDK would hash all loaded modules, which takes two seconds, and write the
    # hash to every workflow task event.
    build = settings.build_id or version("crewlog")
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(settings.deployment, build),
        use_worker_versioning=is_pinned,
        default_versioning_behavior=(
            VersioningBehavior.PINNED if is_pinned else VersioningBehavior.UNSPECIFIED
        ),
    )


async def log_current_build(client: Client, build: WorkerDeploymentVersion) -> None:
    """Logs whether this build gets runs, and how an operator makes it the current build."""
    try:
        current = await current_build(client, build.deployment_name)
    except RPCError as error:
        await log.awarning("cannot read which build is current", reason=error.message)
        return
    if current == build.build_id:
        await log.ainfo("this build is current: it gets new runs", build_id=build.build_id)
        return
    address = client.service_client.config.target_host
    await log.awarning(
        f"this build gets no new runs: build {current!r} is current"
        if current
        else "this build gets no runs: no build is current, and runs wait for one",
        build_id=build.build_id,
        command=make_current_command(
            await shell_command(), address, client.namespace, build.deployment_name, build.build_id
        ),
    )


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns the event loop of a worker's process: uvloop, if it is installed.

    It needs a tenth less of the processor for a step.
    """
    try:
        import uvloop  # noqa: PLC0415 - Windows has none
    except ImportError:
        return None
    return uvloop.new_event_loop


def tune_garbage_collector() -> None:
    """Makes Python's cycle collector run less often, and ignore the objects loaded so far.

    With its defaults it takes a tenth of a busy worker's time, since it traverses the modules and
    the cached runs again and again. Only for a process that is nothing but a worker.
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
    """Runs a worker until the block ends; it completes its tasks before it stops."""
    settings = settings or WorkerSettings()
    has_attributes = await register_search_attributes(client)
    deployment = await deployment_config(client, settings)

    activities = CrewActivities(
        store,
        workspace=settings.workspace,
        models=models,
        server=TemporalServer(client, has_search_attributes=has_attributes),
        max_entries=settings.cache_messages,
        files=FileStore.of(client.data_converter),
    )
    cached, tasks = limit_cache(settings.max_cached_runs, settings.max_workflow_tasks)
    runner = CrewRunner(encrypts=client.data_converter.payload_codec is not None)
    worker = Worker(
        client,
        task_queue=settings.task_queue,
        workflows=[] if settings.activities_only else [CrewRun],
        activities=activities.all(),
        workflow_runner=runner,
        interceptors=[CrewRunInterceptor(), OwnRunInterceptor()],
        deployment_config=deployment,
        max_concurrent_activities=settings.max_activities,
        max_concurrent_local_activities=settings.max_activities,
        max_concurrent_workflow_tasks=tasks,
        max_cached_workflows=cached,
        max_eager_activity_reservations_per_workflow_task=settings.eager_activities,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=settings.sticky_seconds),
        # A task has hardly two large payloads; with more at a time the SDK makes a coroutine for
        # each payload, however small.
        max_workflow_task_external_storage_concurrency=1,
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=timedelta(seconds=settings.shutdown_seconds),
    )
    runner.attach(worker)
    # For tools that are not coroutines; asyncio's own pool has six threads on two cores.
    threads = ThreadPoolExecutor(settings.max_activities, thread_name_prefix="tool")
    asyncio.get_running_loop().set_default_executor(threads)
    try:
        async with worker:
            if deployment.use_worker_versioning:
                await log_current_build(client, deployment.version)
            yield worker
    finally:
        await activities.close()


async def run_until(
    stop: asyncio.Event, client: Client, store: Store, settings: WorkerSettings
) -> None:
    """Runs a worker until `stop` is set.

    Raises:
        NamespaceNotFound: the server does not have the namespace.
        TemporalUnavailable: the server answers, but cannot serve.
    """
    try:
        async with running_worker(client, store, settings) as worker:
            await log.ainfo("the worker polls", task_queue=worker.task_queue)
            with watch_loop():
                await stop.wait()
            await log.ainfo("the worker completes its tasks and stops")
    except RuntimeError as error:
        if not (reason := server_rejection(error)):
            raise
        await check_namespace(client)
        raise TemporalUnavailable(
            f"the Temporal server cannot serve: {reason}",
            remedy="It answers, but its own services or its database are unavailable: run "
            "`crewlog doctor`.",
            place=client.service_client.config.target_host,
        ) from error
