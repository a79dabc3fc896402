"""A checkpoint saver that keeps the latest checkpoint of each thread, in memory.

The run's journal is the record, so LangGraph's checkpoints need no history. With one checkpoint per
thread every completion costs the same; `InMemorySaver` keeps all checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)


class LatestSaver(BaseCheckpointSaver[int]):
    """Keeps one checkpoint per thread; nothing is copied and nothing is serialized."""

    def __init__(self) -> None:
        super().__init__()
        self._latest: dict[str, CheckpointTuple] = {}

    def get_next_version(self, current: int | None, channel: None) -> int:
        """Versions count up from 1."""
        return (current or 0) + 1

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The thread's checkpoint."""
        return self._latest.get(_thread(config))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Replaces the thread's checkpoint."""
        thread = _thread(config)
        saved: RunnableConfig = {
            "configurable": {
                "thread_id": thread,
                "checkpoint_ns": "",
                "checkpoint_id": checkpoint["id"],
            }
        }
        self._latest[thread] = CheckpointTuple(saved, checkpoint, metadata, None, None)
        return saved

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Pending writes belong to the Pregel loop, which never runs here."""

    def delete_thread(self, thread_id: str) -> None:
        """Removes the thread's checkpoint."""
        self._latest.pop(thread_id, None)


def _thread(config: RunnableConfig) -> str:
    return str(config.get("configurable", {})["thread_id"])
