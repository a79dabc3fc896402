"""How large the tests of size are, and what they look at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import psutil
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.enums.v1 import WorkflowTaskFailedCause as Cause
from temporalio.api.history.v1 import HistoryEvent

from acceptance.harness import Site, WorkerProcess
from crewlog.client import Run

FULL = os.environ.get("CREWLOG_SIZE") == "full"
"""Whether the tests take their full size, as `make test-size` says; else one of seconds."""
MB = 1_000_000
TASK_LIMIT = 2.0
"""Seconds after which the SDK takes a workflow task for a deadlock."""
DONE_AGAIN = (
    Cause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
    Cause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
)
FIGURES: list[tuple[str, str]] = []
"""What was measured, for the end of the tests' report."""


def pick(small: int, full: int) -> int:
    """The size to use."""
    return full if FULL else small


def figure(name: str, value: object) -> None:
    """Notes what was measured."""
    FIGURES.append((name, str(value)))


def memory(worker: WorkerProcess) -> float:
    """The resident memory of a worker, in MB."""
    return psutil.Process(worker.pid).memory_info().rss / MB


@dataclass(frozen=True)
class Execution:
    """The history of one execution of a run."""

    id: str
    events: Sequence[HistoryEvent]

    @property
    def size(self) -> int:
        """Bytes, as the server counts them at the end."""
        return sum(event.ByteSize() for event in self.events)

    @property
    def carried(self) -> int:
        """Bytes of the start input."""
        start = self.events[0].workflow_execution_started_event_attributes
        return sum(payload.ByteSize() for payload in start.input.payloads)


async def executions(site: Site, run: Run) -> list[Execution]:
    """The histories of a run's executions, oldest first; payloads are left as references."""
    found: list[Execution] = []
    id_ = (await site.temporal.get_workflow_handle(run.id).describe()).run_id
    while id_:
        handle = site.temporal.get_workflow_handle(run.id, run_id=id_)
        events = [event async for event in handle.fetch_history_events()]
        found.append(Execution(id_, events))
        id_ = events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return found[::-1]


async def assert_calm(site: Site, run: Run) -> None:
    """No workflow task of the run was lost, refused, or taken for a deadlock."""
    for execution in await executions(site, run):
        for event in execution.events:
            # A task that a busy worker did not take in time is offered anew: that is none lost.
            kind = event.workflow_task_timed_out_event_attributes.timeout_type
            assert kind != TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE
            # The server has a task done again where something came while it was to end the run,
            # and where more than a hundred calls ended while it ran.
            if event.HasField("workflow_task_failed_event_attributes"):
                cause = event.workflow_task_failed_event_attributes.cause
                assert cause in DONE_AGAIN, event
