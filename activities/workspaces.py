"""The folders of runs on a worker: no run has the files of a deleted one that had its id.

A folder is named by the run's id, and a note beside it says when the run began that has it. That
is the same for a run that continues as new, is taken up again or was rebuilt, and another for a run
that begins anew under the id of a deleted one: whose folder is then put aside.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from filelock import FileLock

from crewlog.ids import RunId
from crewlog.store.protocol import Store
from crewlog.tool_call import workspace_of

_NOTES = ".runs"
_MOST = 10_000
"""Executions that a worker remembers the folders of."""


class Workspaces:
    """The folders of runs.

    Args:
        root: The folder that has them.
        store: What knows when runs began.
    """

    def __init__(self, root: Path, store: Store) -> None:
        self._root = root
        self._store = store
        self._folders: dict[tuple[RunId, str], Path] = {}

    async def make(self, run: RunId, execution: str) -> Path:
        """The folder of a run, which exists.

        Args:
            run: The run.
            execution: Its execution: of each, the store is asked once.
        """
        folder = self._folders.get((run, execution))
        if folder is None:
            folder = workspace_of(self._root, run)
            row = await self._store.get_run(run)
            if row is not None and row.started_at:
                await asyncio.to_thread(self._claim, folder, str(row.started_at))
            if len(self._folders) >= _MOST:
                self._folders.clear()
            folder = self._folders[run, execution] = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _claim(self, folder: Path, began: str) -> None:
        notes = self._root / _NOTES
        notes.mkdir(parents=True, exist_ok=True)
        note = notes / folder.name
        with FileLock(notes / ".lock", thread_local=False):
            last = note.read_text() if note.exists() else began
            if last != began and folder.exists():
                # No run's folder has such a name.
                folder.rename(folder.with_name(f"{folder.name}~{last}"))
            if last != began or not note.exists():
                draft = note.with_name(f"{note.name}~draft")
                draft.write_text(began)
                draft.replace(note)
