"""What a failed test leaves behind to be read: its workers' logs, and where its runs stand.

A run that stands still fails a test by a time limit, which says nothing of the cause; and where CI
runs, nobody looks at the servers afterwards.
"""

from __future__ import annotations

import asyncio

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient

from .harness import Site, WorkerProcess

EVENTS = 25
"""Events of a run's history that are told: the last ones."""
LOG = 6000
"""Characters of a worker's log that are told: the last ones."""
RUNS = 10
LIMIT = 20.0


def evidence(site: Site) -> list[tuple[str, str]]:
    """Sections for a test's report: a title and a text each.

    It has connections of its own: it is called where no event loop runs.
    """
    found = [
        (f"worker {worker.pid} of {queue}", _worker(worker))
        for queue, workers in site.workers.items()
        for worker in workers
    ]
    if site.runs:
        found.append(("runs", asyncio.run(_runs(site))))
    return found


def _worker(worker: WorkerProcess) -> str:
    code = worker.process.poll()
    life = "it lives" if code is None else f"it ended with {code}"
    return f"{life}\n{worker.said()[-LOG:]}"


async def _runs(site: Site) -> str:
    ends = site.endpoints
    try:
        async with asyncio.timeout(LIMIT):
            client = await TemporalClient.connect(ends.temporal_address, namespace=ends.namespace)
            return "\n\n".join([await _run(client, run.id) for run in site.runs[-RUNS:]])
    except Exception as error:  # it is told beside the failure, not instead of it
        return f"the server tells nothing: {error!r}"


async def _run(client: TemporalClient, id: str) -> str:
    handle = client.get_workflow_handle(id)
    description = await handle.describe()
    status = description.status.name if description.status is not None else "?"
    lines = [f"{id}: {status} of {description.task_queue}"]
    raw = description.raw_description
    if raw.HasField("pending_workflow_task"):
        task = raw.pending_workflow_task
        lines.append(
            f"  workflow task pending: attempt {task.attempt}, scheduled "
            f"{task.scheduled_time.ToJsonString()}, started {task.started_time.ToJsonString()}"
        )
    lines += [
        f"  activity pending: {a.activity_type.name} {a.activity_id}, state {a.state}, "
        f"attempt {a.attempt}, last failure {a.last_failure.message!r}"
        for a in raw.pending_activities
    ]
    events = [event async for event in handle.fetch_history_events()]
    lines += [
        f"  {event.event_id} {event.event_time.ToJsonString()} "
        f"{EventType.Name(event.event_type).removeprefix('EVENT_TYPE_')}"
        for event in events[-EVENTS:]
    ]
    return "\n".join(lines)
