"""What the specialists of the hub may do: look at the system that they run on, and register crews.

Each tool asks the very servers that its own run is on: the worker's environment leads to them, as
it leads the command line. Nothing here is made up; what cannot be reached is told as that.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from temporalio import activity
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, GetSystemInfoRequest
from temporalio.service import RPCError

import crewlog
from crewlog.client import Client
from crewlog.definition.load import load_definition
from crewlog.definition.write import to_yaml
from crewlog.dev.pollers import alive
from crewlog.errors import CrewlogError

_MOST = 50
_OPEN = ("running", "waiting", "paused", "stopping")
_QUEUES = {
    "workflows": TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    "activities": TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}


@asynccontextmanager
async def connected() -> AsyncGenerator[Client]:
    """A client of the servers that this worker works for; nothing is started for it."""
    queue = activity.info().task_queue
    async with await crewlog.connect(task_queue=queue, services=False) as client:
        yield client


# -- health --------------------------------------------------------------------------------------


async def system_health() -> dict[str, Any]:
    """Looks at the server, the workers and the store together, in short."""
    server, workers, store = await asyncio.gather(server_health(), worker_health(), store_health())
    return {"server": server, "workers": workers, "store": store}


async def server_health() -> dict[str, Any]:
    """Tells whether the Temporal server answers, how fast, and how many runs are open on it."""

    async def asked(client: Client) -> dict[str, Any]:
        said = await client.temporal.workflow_service.get_system_info(GetSystemInfoRequest())
        running = await client.temporal.count_workflows("ExecutionStatus = 'Running'")
        return {
            "address": client.endpoints.address,
            "namespace": client.endpoints.namespace,
            "version": said.server_version,
            "open_runs": running.count,
        }

    return await _looked_at(asked)


async def worker_health() -> dict[str, Any]:
    """Tells which workers ask for the work of this task queue, and when each asked last."""

    async def asked(client: Client) -> dict[str, Any]:
        polling = {kind: await _polling(client, number) for kind, number in _QUEUES.items()}
        return {
            "task_queue": client.task_queue,
            "workers": len({who for each in polling.values() for who in each}),
            "seconds_since": polling,
        }

    found = await _looked_at(asked)
    if found.get("workers") == 0:
        found["remedy"] = "Start one in the crew's folder: crewlog worker"
    return found


async def store_health() -> dict[str, Any]:
    """Tells whether the store answers, how fast, and what it holds."""

    async def asked(client: Client) -> dict[str, Any]:
        store = await client.store()
        crews = await store.list_crews()
        runs = await store.list_runs(limit=1000)
        return {
            "kind": type(store).__name__,
            "crews": len(crews),
            "runs": dict(Counter(row.status for row in runs)),
            "open_questions": len(await store.list_interrupts()),
        }

    return await _looked_at(asked)


async def troubles(most: int = 10) -> dict[str, Any]:
    """Lists runs that failed lately, and questions that wait for people.

    Args:
        most: How many of each at most.
    """
    most = max(1, min(most, _MOST))
    async with connected() as client:
        failed = await (await client.store()).list_runs(statuses=("failed",), limit=most)
        waiting = (await client.inbox())[:most]
        return {
            "failed": [
                {"run": row.run, "crew": row.crew, "at": _when(row.ended), "error": row.error}
                for row in failed
            ],
            "waiting_for_people": [
                {"run": each.run, "kind": each.kind, "question": each.question} for each in waiting
            ],
        }


# -- information ---------------------------------------------------------------------------------


async def list_crews() -> dict[str, Any]:
    """Lists the registered crews: name, newest version, agents, and what each is for."""
    async with connected() as client:
        crews = [
            {
                "crew": each.row.name,
                "version": each.row.version,
                "agents": list(each.definition.agents),
                "description": each.definition.description or "",
            }
            for each in await client.catalog.crews()
        ]
        return {"crews": crews}


async def describe_crew(name: str, version: int | None = None) -> str:
    """Shows the definition of a registered crew, as YAML.

    Args:
        name: The crew's name.
        version: Which version; by default the newest.
    """
    async with connected() as client:
        return to_yaml((await client.catalog.crew(name, version)).definition)


async def list_runs(status: str = "", most: int = 10) -> dict[str, Any]:
    """Lists runs, the newest first.

    Args:
        status: Only runs of this status, e.g. `running`, `waiting`, `failed`; `open` for all that
            have not ended; empty for all.
        most: How many at most.
    """
    statuses = _OPEN if status == "open" else (status,) if status else ()
    async with connected() as client:
        runs = [
            {
                "run": each.run,
                "crew": each.crew,
                "status": each.status,
                "began": _when(each.started),
            }
            for each in await client.list(statuses=statuses, limit=max(1, min(most, _MOST)))
        ]
        return {"runs": runs}


async def describe_run(run: str) -> dict[str, Any]:
    """Tells how a run stands: its status, what it waits for, and what it has used.

    Args:
        run: The run's id.
    """
    async with connected() as client:
        seen = await client.run(run).status()
        usage = seen.usage
        return {
            "run": run,
            "crew": seen.crew,
            "status": seen.status,
            "steps": seen.steps,
            "under_way": [each.step for each in seen.frontier[:_MOST]],
            "wait_reason": seen.wait_reason,
            "tokens": usage.input_tokens + usage.output_tokens,
            "error": seen.error,
        }


# -- the registry --------------------------------------------------------------------------------


def check_crew(definition: str) -> str:
    """Checks a crew's definition and changes nothing: every fault with its line and its remedy.

    Args:
        definition: The crew, as YAML.
    """
    crew = load_definition(definition)
    return f"{crew.crew} is sound: {len(crew.agents)} agents, {len(crew.tools)} tools."


async def register_crew(definition: str) -> dict[str, Any]:
    """Registers a crew under its name, so that it can be started by that; a person approves it.

    Args:
        definition: The crew, as YAML.
    """
    crew = load_definition(definition)
    async with connected() as client:
        added = await client.catalog.add_crew(crew)
        return {"crew": added.crew.name, "version": added.crew.version, "new": added.new}


# -- in general ----------------------------------------------------------------------------------


def current_time(timezone: str = "UTC") -> str:
    """Tells the date and the time.

    Args:
        timezone: Where, e.g. `Europe/Berlin`.
    """
    try:
        there = ZoneInfo(timezone)
    except (ValueError, OSError, KeyError) as exc:
        raise ValueError(f"there is no time zone {timezone!r}; one is Europe/Berlin") from exc
    return datetime.now(there).strftime("%A, %d %B %Y, %H:%M %Z")


async def _looked_at(ask: Callable[[Client], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """What somebody answers, with how long it took; or why there is no answer."""
    try:
        async with connected() as client:
            began = time.perf_counter()
            found = await ask(client)
            took = time.perf_counter() - began
    except CrewlogError as error:
        return {"reachable": False, "reason": error.message, "remedy": error.remedy}
    except RPCError as error:
        return {"reachable": False, "reason": error.message}
    return {"reachable": True, "ms": round(took * 1000, 1), **found}


async def _polling(client: Client, kind: TaskQueueType.ValueType) -> dict[str, float]:
    """Seconds since each worker asked for work of a kind."""
    said = await client.temporal.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.endpoints.namespace,
            task_queue=TaskQueue(name=client.task_queue),
            task_queue_type=kind,
        )
    )
    now = time.time()
    return {who: round(max(0.0, now - asked), 1) for who, asked in alive(said.pollers).items()}


def _when(ms: int | None) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds") if ms else ""
