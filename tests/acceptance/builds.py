"""Workers of several builds of one Worker Deployment, and which build did what."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from datetime import datetime

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

from crewlog.client import Run
from crewlog.temporal_service.cli import find_cli
from crewlog.temporal_service.deployments import current_build

from .harness import LIMIT, Site, WorkerProcess

COMMAND = re.compile(r"temporal worker deployment set-current-version [^\"\n]+")


@dataclass
class Deployment:
    """The builds of one Worker Deployment, of this test alone."""

    site: Site
    name: str
    """Also its task queue: the current build of one deployment takes all runs of a queue."""

    async def build(self, build: str, **environ: str) -> WorkerProcess:
        """A worker of a build that polls."""
        return await self.site.start_worker(
            self.name, CREWLOG_DEPLOYMENT=self.name, CREWLOG_BUILD_ID=build, **environ
        )

    async def make_current(self, worker: WorkerProcess, build: str) -> datetime:
        """Runs the command that the worker itself told; when the server had done it."""
        [line] = COMMAND.findall(worker.said())
        command = [str((await find_cli()).path), *shlex.split(line)[1:]]
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "TEMPORAL_ADDRESS": self.site.endpoints.temporal_address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
        }

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT, env=environ, check=False
            )

        deadline = asyncio.get_running_loop().time() + LIMIT
        while (done := await asyncio.to_thread(run)).returncode:
            # The server learns of a build's task queues a moment after its first poll.
            assert asyncio.get_running_loop().time() < deadline, done.stderr
        assert await current_build(self.site.temporal, self.name) == build
        while await self._known_to_queue() != build:
            # What hands tasks out learns of it a moment later, a busy machine's moment.
            assert asyncio.get_running_loop().time() < deadline
        return datetime.now().astimezone()

    async def _known_to_queue(self) -> str:
        """The build that the task queue takes for the current one."""
        found = await self.site.temporal.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=self.site.temporal.namespace,
                task_queue=TaskQueue(name=self.name),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
            )
        )
        return found.versioning_info.current_deployment_version.build_id


async def executions(site: Site, run: Run) -> list[list[HistoryEvent]]:
    """The events of each of the run's executions, from the first on."""
    first = (await site.temporal.get_workflow_handle(run.id).describe()).raw_description
    id_ = first.workflow_execution_info.first_run_id
    found: list[list[HistoryEvent]] = []
    while id_:
        handle = site.temporal.get_workflow_handle(run.id, run_id=id_)
        found.append([event async for event in handle.fetch_history_events()])
        last = found[-1][-1]
        id_ = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return found


def builds(events: list[HistoryEvent]) -> set[str]:
    """The builds that completed an execution's workflow tasks."""
    return {
        event.workflow_task_completed_event_attributes.deployment_version.build_id
        for event in events
        if event.HasField("workflow_task_completed_event_attributes")
    }
