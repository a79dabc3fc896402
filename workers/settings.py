"""A worker's settings, from `CREWLOG_*` in the environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from crewlog.payload_storage.settings import PayloadSettings
from crewlog.wire import TASK_QUEUE


class WorkerSettings(PayloadSettings):
    """The settings of a worker. Every field can be set as `CREWLOG_` and its name in upper case."""

    task_queue: str = TASK_QUEUE
    """The task queue of runs and their activities."""
    deployment: str = Field(default="crewlog", min_length=1)
    """The Worker Deployment that the build is a version of."""
    build_id: str | None = None
    """The build, to which runs are pinned until they continue as new. None: no versions."""
    activities_only: bool = False
    """Whether the worker runs activities only: for a task queue of tools."""
    max_activities: int = Field(default=128, ge=2)
    """Activities at a time. With one slot nothing could start eagerly."""
    max_workflow_tasks: int = Field(default=64, ge=2)
    """Workflow tasks at a time; at most one for 16 executions kept in memory."""
    max_cached_runs: int = Field(default=1000, ge=0)
    """Executions kept in memory, 32 at least; 0 keeps none: the history is replayed at every task,
    one task at a time."""
    eager_activities: int = Field(default=64, ge=1)
    """Activities of one workflow task that may start on this worker without a round trip."""
    sticky_seconds: float = Field(default=1.0, gt=0)
    """Seconds after which the runs of a dead worker move to another one."""
    shutdown_seconds: float = Field(default=10.0, ge=0)
    """Seconds that activities have to finish after the worker is stopped."""
    workspace: Path = Path("workspace")
    """The directory of the files of runs, with a folder for each run."""
    cache_messages: int = Field(default=200_000, ge=0)
    """Messages of recent transcripts that the worker keeps in memory, and links that lead to them;
    every 1,024 characters of a long message count as one more."""
