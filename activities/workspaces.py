"""The directories of runs on a worker: a new run has no files of a deleted run with the same id.

The name of a directory is the id of its run, and a note beside it has the start time of that run.
The time stays the same when a run continues as new, is reopened or is rebuilt. It differs for a new
run with the id of a deleted one: then the old directory is renamed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from filelock import FileLock

from crewlog.ids import RunId
from crewlog.store.protocol import Store
from crewlog.tool_call import workspace_of

_NOTES = ".runs"
"""The directory of the notes."""
_MAX_CACHED = 10_000
"""The most executions whose directories a worker caches."""


class Workspaces:
    """The directories of runs.

    Args:
        root: Their parent.
        store: The store with the start times of runs.
    """

    def __init__(self, root: Path, store: Store) -> None:
        self._root = root
        self._store = store
        self._folders: dict[tuple[RunId, str], Path] = {}

    async def make(self, run: RunId, execution: str) -> Path:
        """Returns the directory of a run, and creates it if it does not exist.

        Args:
            run: The run.
            execution: Its execution. The store is queried once for each.
        """
        folder = self._folders.get((run, execution))
        if folder is None:
            folder = workspace_of(self._root, run)
            row = await self._store.get_run(run)
            if row is not None and row.started_at:
                await asyncio.to_thread(self._claim, folder, str(row.started_at))
            if len(self._folders) >= _MAX_CACHED:
                self._folders.clear()
            folder = self._folders[run, execution] = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _claim(self, folder: Path, started_at: str) -> None:
        """Renames the directory of a deleted run, and writes the note of this run."""
        notes = self._root / _NOTES
        notes.mkdir(parents=True, exist_ok=True)
        note = notes / folder.name
        with FileLock(notes / ".lock", thread_local=False):
            last = note.read_text() if note.exists() else started_at
            if last != started_at and folder.exists():
                # No run has a directory of this name: after a `~`, those have a hash.
                folder.rename(folder.with_name(f"{folder.name}~{last}"))
            if last != started_at or not note.exists():
                draft = note.with_name(f"{note.name}~draft")
                draft.write_text(started_at)
                draft.replace(note)
