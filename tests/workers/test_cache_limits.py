"""The most cached executions, and the most workflow tasks at a time."""

from __future__ import annotations

import pytest

from crewlog.workers.sdk_workarounds import CACHED_RUNS_PER_TASK, limit_cache


@pytest.mark.parametrize("wanted", [2, 64, 1000])
@pytest.mark.parametrize("kept", [1, 3, 31, 32, 33, 100, 1000, 100_000])
def test_a_waiting_task_is_never_the_oldest_cached_one(kept: int, wanted: int) -> None:
    """The SDK evicts the oldest one even in mid-task, and that task is lost until it times out."""
    cached, tasks = limit_cache(kept, wanted)
    assert cached >= kept
    assert cached >= CACHED_RUNS_PER_TASK * tasks >= 16 * tasks
    assert 2 <= tasks <= wanted  # the SDK runs no fewer where it keeps any


def test_a_worker_without_a_cache_runs_one_task_at_a_time() -> None:
    assert limit_cache(0, 64) == (0, 1)
