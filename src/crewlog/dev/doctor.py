"""Looks at everything that Crewlog stands on, and says what is wrong and what to do.

It starts nothing and changes nothing.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkflowExecutionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from crewlog.dev import temporal_server
from crewlog.dev.paths import Home
from crewlog.dev.pg_install import pg_version
from crewlog.dev.pollers import alive
from crewlog.dev.services import Services, ServiceStatus, temporal_profile
from crewlog.encryption.keys import ACCEPT_PLAIN, environment_keyring
from crewlog.encryption.rows import RowCipher
from crewlog.errors import CrewlogError
from crewlog.store.database_health import check_database
from crewlog.store.key_check import find_key_problem
from crewlog.temporal_service import namespaces
from crewlog.temporal_service.cli import INSTALL, find_with_attempts, remedy, shell_command
from crewlog.temporal_service.deployments import can_pin, current_build, make_current_command
from crewlog.temporal_service.errors import (
    is_not_found,
    missing_namespace,
    namespace_not_found_error,
)
from crewlog.temporal_service.namespaces import RPC_TIMEOUT

Status = Literal["ok", "warn", "fail"]
TASK_QUEUE = "crewlog"
WORKFLOW_TYPE = "CrewRun"
MINIMUM_PYTHON = (3, 11)
LITTLE_ROOM = 2 * 1024**3
"""Bytes below which the disk is worth a warning."""
NO_ROOM = 200 * 1024**2
UNKNOWN = "crewlog-doctor-asks-for-what-is-not-there"
"""A workflow id that nobody has."""
CANNOT_SERVE = (
    "Its own services or its database are away: look at them and their logs. Runs are safe, and go "
    "on when they are back."
)
UNREAD = "Look at the server's log, and whether the namespace is there and we may read it."
_AWAY = (
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.INTERNAL,
    RPCStatusCode.UNKNOWN,
)
LIVE_RUNS = 200
"""How many live runs are looked at."""
START = "It starts with the next command that needs it, or now: `crewlog dev`."


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    """What, `Temporal server`."""
    status: Status
    """`fail` keeps Crewlog from working; `warn` may."""
    detail: str
    """What was found."""
    remedy: str = ""
    """What to do; empty where all is well."""


async def examine(
    home: Home | None = None, *, environ: Mapping[str, str] | None = None
) -> list[Check]:
    """Look at everything; in the order in which one thing needs another.

    Args:
        home: The home of the local services; the default one if None.
        environ: The environment; the process's own if None.
    """
    env = os.environ if environ is None else environ
    services = Services(home, environ=env)
    checks = [_python()]
    try:
        listed = await services.list_services()
        address = temporal_profile(env).address
    except CrewlogError as error:
        return [*checks, Check("Local services", "fail", error.message, error.remedy)]
    checks.append(await _cli(env, listed, own_server=not address))
    checks += await _temporal(services, listed)
    checks.append(await _postgres(env, listed))
    if checks[-1].status == "ok":
        checks.append(await _encryption(env, listed))
    checks.append(_room(services.home.root))
    checks += [_service(status) for status in listed]
    checks.append(_model_key(env))
    return checks


def _python() -> Check:
    found = platform.python_version()
    if sys.version_info[:2] < MINIMUM_PYTHON:
        return Check("Python", "fail", found, "Install Python 3.11 or newer.")
    return Check("Python", "ok", found)


async def _cli(env: Mapping[str, str], listed: list[ServiceStatus], *, own_server: bool) -> Check:
    """The Temporal command line: it has the local server, and people use it with any server."""
    name = "Temporal CLI"
    found, attempts = await find_with_attempts(env)
    if found is not None:
        detail = f"{found.version} with server {found.server_version}, {found.source}: {found.path}"
        return Check(name, "ok", detail)
    detail = "; ".join(f"{each.option}: {each.reason}" for each in attempts)
    if not own_server:
        return Check(name, "warn", detail, f"For the `temporal` commands: {INSTALL}.")
    running = any(each.name == "temporal" and each.healthy for each in listed)
    return Check(name, "warn" if running else "fail", detail, remedy(attempts))


async def _temporal(services: Services, listed: list[ServiceStatus]) -> list[Check]:
    name = "Temporal server"
    profile = temporal_profile(services.environ)
    local = next((s for s in listed if s.name == "temporal" and s.alive), None)
    if not profile.address and local is None:
        return [Check(name, "warn", "not running", START)]
    namespace = (profile.namespace if profile.address else None) or temporal_server.NAMESPACE
    try:
        if profile.address:
            async with asyncio.timeout(RPC_TIMEOUT.total_seconds()):
                config = profile.to_client_connect_config()
                config["namespace"] = namespace
                client = await Client.connect(**config)
        else:
            client = await temporal_server.connect(local.address if local else "")
        version = await namespaces.server_version(client)
    except (CrewlogError, RuntimeError, TimeoutError, RPCError, ValueError) as error:
        where = profile.address or (local.address if local else "")
        remedy = "Check TEMPORAL_ADDRESS." if profile.address else "`crewlog dev` starts it again."
        return [Check(name, "fail", f"{where} does not answer: {_first_line(error)}", remedy)]
    where = profile.address or (local.address if local else "")
    refusal = await _refusal(client, namespace)
    if refusal is not None and refusal.status in _AWAY:
        detail = f"{version} at {where} answers, and cannot serve: {refusal.message}"
        return [Check(name, "fail", detail, CANNOT_SERVE)]
    checks = [Check(name, "ok", f"{version} at {where}")]
    if refusal is not None and missing_namespace(refusal) is not None:
        missing = namespace_not_found_error(namespace, where)
        return [*checks, Check("Namespace", "fail", missing.message, missing.remedy)]
    for look in (_retention, _search_attributes, _pollers):
        try:
            checks += await look(client, namespace)
        except RPCError as error:
            what = look.__name__.strip("_").replace("_", " ").capitalize()
            checks.append(Check(what, "warn", f"could not be read: {error.message}", UNREAD))
    if build := services.environ.get("CREWLOG_BUILD_ID"):
        deployment = services.environ.get("CREWLOG_DEPLOYMENT") or TASK_QUEUE
        cli = await shell_command(services.environ)
        current = make_current_command(cli, where, namespace, deployment, build)
        checks.append(await _versions(client, version, deployment, build, current))
    return checks


async def _refusal(client: Client, namespace: str) -> RPCError | None:
    """What the server answers where it is asked for a workflow that is not there.

    Its version comes from the frontend alone. Whether there is a workflow, only its history service
    knows, which must read its database.
    """
    request = DescribeWorkflowExecutionRequest(
        namespace=namespace, execution=WorkflowExecution(workflow_id=UNKNOWN)
    )
    try:
        await client.workflow_service.describe_workflow_execution(request, timeout=RPC_TIMEOUT)
    except RPCError as error:
        return error
    return None


async def _retention(client: Client, namespace: str) -> list[Check]:
    described = await namespaces.describe_namespace(client, namespace)
    retention = namespaces.retention_of(described)
    old = await _runs_older_than(client, namespace, retention) if retention else []
    detail = f"namespace {namespace!r} keeps what has ended for {retention.days} days"
    if old:
        return [
            Check(
                "Retention",
                "warn",
                f"{detail}; live runs that began before: {', '.join(sorted(old))}",
                "Back the store up: the first part of these runs can no longer be rebuilt from "
                "their histories.",
            )
        ]
    if retention and retention < timedelta(days=2):
        remedy = f"temporal operator namespace update --retention 30d -n {namespace}"
        return [Check("Retention", "warn", detail, remedy)]
    return [Check("Retention", "ok", detail)]


async def _runs_older_than(client: Client, namespace: str, age: timedelta) -> list[str]:
    """Live runs whose first execution began longer ago, or is gone already."""
    limit = datetime.now(UTC) - age
    query = f"WorkflowType = '{WORKFLOW_TYPE}' AND ExecutionStatus = 'Running'"
    return [
        run.id
        async for run in client.list_workflows(query, limit=LIVE_RUNS)
        if run.start_time < limit or await _began(client, namespace, run.id, run.run_id) < limit
    ]


async def _began(client: Client, namespace: str, run: str, execution: str) -> datetime:
    """When the first execution of a run began; the beginning of time if it is gone."""

    async def describe(one: str) -> tuple[str, datetime]:
        described = await client.workflow_service.describe_workflow_execution(
            DescribeWorkflowExecutionRequest(
                namespace=namespace, execution=WorkflowExecution(workflow_id=run, run_id=one)
            )
        )
        info = described.workflow_execution_info
        return info.first_run_id, info.start_time.ToDatetime(UTC)

    try:
        first, began = await describe(execution)
        return began if first in {"", execution} else (await describe(first))[1]
    except RPCError as error:
        if is_not_found(error):
            return datetime.min.replace(tzinfo=UTC)
        raise


async def _search_attributes(client: Client, namespace: str) -> list[Check]:
    missing = await temporal_server.missing_search_attributes(client, namespace)
    if not missing:
        return [Check("Search attributes", "ok", ", ".join(temporal_server.SEARCH_ATTRIBUTES))]
    words = " ".join(f"--name {name} --type Keyword" for name in missing)
    remedy = f"temporal operator search-attribute create -n {namespace} {words}"
    return [Check("Search attributes", "fail", f"missing: {', '.join(missing)}", remedy)]


async def _versions(
    client: Client, server: str, deployment: str, build: str, command: str
) -> Check:
    """Whether this environment's build gets runs; asked where it has one.

    `command` is the one that makes the build current.
    """
    name = "Worker versions"
    if not can_pin(server):
        return Check(
            name,
            "warn",
            f"server {server} cannot move pinned runs: workers run unpinned, without versions",
            "Use server 1.31 or newer, or guard changes with patches: docs/upgrading.md.",
        )
    try:
        current = await current_build(client, deployment)
    except RPCError as error:
        return Check(name, "warn", f"could not be read: {error.message}")
    if current == build:
        return Check(name, "ok", f"build {build!r} of {deployment!r} is current")
    which = f"build {current!r} is current" if current else "no build is current, and runs wait"
    return Check(
        name,
        "warn",
        f"deployment {deployment!r}: {which}; this one is {build!r}",
        command,
    )


async def _pollers(client: Client, namespace: str) -> list[Check]:
    async def ask(kind: TaskQueueType.ValueType) -> tuple[dict[str, float], int]:
        described = await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=namespace, task_queue=TaskQueue(name=TASK_QUEUE), task_queue_type=kind
            )
        )
        there = alive(described.pollers)
        return there, len({each.identity for each in described.pollers} - there.keys())

    workflows, gone = await ask(TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW)
    activities, _ = await ask(TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
    detail = (
        f"task queue {TASK_QUEUE!r}: {len(workflows)} for workflows, {len(activities)} for "
        f"activities{_last_asked(workflows)}"
    )
    if gone:
        detail += f"; the server still lists {gone} that {'is' if gone == 1 else 'are'} gone"
    if workflows and activities:
        return [Check("Workers", "ok", detail)]
    remedy = "Runs wait until a worker polls; start one: `crewlog worker`."
    return [Check("Workers", "warn", detail, remedy)]


def _last_asked(workers: Mapping[str, float]) -> str:
    """When a worker asked last; a poll lasts up to a minute where there is no work."""
    if not workers:
        return ""
    return f", last asked {max(time.time() - max(workers.values()), 0):.0f} s ago"


async def _postgres(env: Mapping[str, str], listed: list[ServiceStatus]) -> Check:
    name = "Postgres"
    if url := env.get("DATABASE_URL"):
        where = _without_password(url)
    elif local := next((s for s in listed if s.name == "postgres" and s.alive), None):
        url, where = local.address, f"{local.address} (embedded)"
    else:
        try:
            detail = f"{await asyncio.to_thread(pg_version)} (embedded), not running"
            return Check(name, "warn", detail, START)
        except CrewlogError as error:
            return Check(name, "fail", error.message, error.remedy)
    try:
        found = await check_database(url)
    except CrewlogError as error:
        return Check(name, "fail", f"{where}: {error.message}", error.remedy)
    detail = f"{found.version} at {where}"
    if found.has_pooler:
        detail += ", behind a pooler: its sessions keep nothing of ours"
    if found.write_error is not None:
        return Check(
            name, "fail", f"{detail}: {found.write_error.message}", found.write_error.remedy
        )
    return Check(name, "ok", detail)


async def _encryption(env: Mapping[str, str], listed: list[ServiceStatus]) -> Check:
    """Whether workers and commands with this environment would refuse the store."""
    name = "Encryption"
    local = next((s.address for s in listed if s.name == "postgres" and s.alive), "")
    profile = temporal_profile(env)
    namespace = (profile.namespace if profile.address else None) or temporal_server.NAMESPACE
    try:
        keys = environment_keyring()
        error = await find_key_problem(env.get("DATABASE_URL") or local, RowCipher(keys, namespace))
    except CrewlogError as wrong:
        keys, error = None, wrong
    if error is not None:
        return Check(name, "fail", error.message, error.remedy)
    if keys is None:
        return Check(name, "ok", "off")
    if keys.accept_plain:
        remedy = "Once `crewlog encryption status` counts nothing plain, take it away."
        return Check(name, "warn", f"on, and {ACCEPT_PLAIN} lets plain values pass", remedy)
    return Check(name, "ok", f"on, with the key {keys.current}; the store has no plain rows")


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "DATABASE_URL"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def _room(path: Path) -> Check:
    name = "Disk (home)"
    existing = next(p for p in (path, *path.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{free / 1024**3:.1f} GiB free at {path}"
    if not os.access(existing, os.W_OK):
        return Check(name, "fail", f"{existing} cannot be written", "Set CREWLOG_HOME.")
    if free < NO_ROOM:
        return Check(name, "fail", detail, "Free some room.")
    return Check(name, "warn" if free < LITTLE_ROOM else "ok", detail)


def _service(status: ServiceStatus) -> Check:
    name = f"Background {status.name}"
    since = datetime.fromtimestamp(status.since, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    detail = f"pid {status.pid} since {since}, log {status.log or 'none'}"
    if not status.alive:
        return Check(name, "warn", f"ended (was pid {status.pid}), log {status.log}", START)
    if not status.healthy:
        return Check(
            name, "fail", f"{detail}; does not answer", "`crewlog dev --stop`, then try again."
        )
    return Check(name, "ok", detail)


def _model_key(env: Mapping[str, str]) -> Check:
    if env.get("OPENAI_API_KEY"):
        return Check("Model key", "ok", "OPENAI_API_KEY is set")
    remedy = "Set it to use OpenAI's models; scripted models need none."
    return Check("Model key", "warn", "OPENAI_API_KEY is not set", remedy)


_KNOWN = ("connection refused", "dns error", "certificate", "timed out", "not authorized")


def _first_line(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    known = next((each for each in _KNOWN if each in str(error).lower()), None)
    if known is not None:  # what the SDK says beside it is for its authors
        return known
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
