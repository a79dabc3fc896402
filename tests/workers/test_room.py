"""How many executions a worker keeps, and how many workflow tasks it runs at a time."""

from __future__ import annotations

import pytest

from crewlog.workers.settings import WorkerSettings
from crewlog.workers.worker import KEPT_PER_TASK, _room


@pytest.mark.parametrize("wanted", [2, 64, 1000])
@pytest.mark.parametrize("kept", [1, 3, 31, 32, 33, 100, 1000, 100_000])
def test_a_task_that_waits_is_not_the_oldest_of_those_that_are_kept(kept: int, wanted: int) -> None:
    """The SDK evicts the oldest one even in mid-task, and that task is lost until it times out."""
    cached, tasks = _room(WorkerSettings(max_cached_runs=kept, max_workflow_tasks=wanted))
    assert cached >= kept
    assert cached >= KEPT_PER_TASK * tasks >= 16 * tasks
    assert 2 <= tasks <= wanted  # the SDK runs no fewer where it keeps any


def test_a_worker_that_keeps_nothing_runs_one_task_at_a_time() -> None:
    assert _room(WorkerSettings(max_cached_runs=0)) == (0, 1)


def test_the_usual_room() -> None:
    assert _room(WorkerSettings()) == (1000, 62)
