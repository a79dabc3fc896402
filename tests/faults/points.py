"""Labelled points in a worker's code, at which it stops itself when the driver has ordered that.

The driver leaves an order as a file in a directory; the first worker that passes the point takes
it, by a rename, and carries it out at its Nth passage. Production code knows nothing of this: the
points are in what `faults.worker` wraps around the store, the activities and the workflow.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .ledger import Ledger

Action = Literal["kill", "freeze"]

POINTS = (
    "prepare_run.end",
    "call_model.begin",
    "append.before",
    "append.after",
    "claim.before",
    "claim.after",
    "effect.before",
    "effect.after",
    "bodies.before",
    "bodies.after",
    "call_model.end",
    "call_tool.end",
    "store_batch.begin",
    "store_batch.end",
    "snapshot.before",
    "snapshot.after",
    "end_run.begin",
    "end_run.end",
    "task.begins",
    "task.schedules",
    "task.continues",
)
"""All points, in about the order in which a run passes them.

`append.after` is after the facts are stored and before the effect; `effect.*` are around what the
tool does to the world; `bodies.before` is after the effect and before its result is stored;
`call_*.end` after it is stored and before the server is told; `task.*` are inside of a workflow
task: at an execution's first one, after something was applied and while what follows is being
scheduled, and while it continues as new.
"""


MERGE_POINTS = (
    "preview_merge.begin",
    "preview_merge.end",
    "MergeRequested.before",
    "MergeRequested.after",
    "ask_other_run.begin",
    "request_merge.received",
    "read_other_run.begin",
    "read_other_run.end",
    "MergeAccepted.before",
    "MergeAccepted.after",
    "MergeFrozen.before",
    "MergeFrozen.after",
    "ask_other_run.end",
    "prepare_merge.begin",
    "prepare_merge.end",
    "RunMerged.before",
    "RunMerged.after",
    "notification.before",
    "notification.after",
    "notify_merge.received",
    "RunEndedByMerge.before",
    "RunEndedByMerge.after",
    "MergeFailed.before",
    "MergeFailed.after",
)
"""The points of a run merge, in about the order in which the two runs pass them.

`KIND.before` and `KIND.after` are around the store's write of that entry, `preview_merge.*` around
the check of the command, `notification.*` around the signal that confirms the outcome; `*.received`
is inside of the workflow task that handles the update, or the signal.
"""


@dataclass(frozen=True)
class _Taken:
    action: Action
    left: int


class Points:
    """The orders in a directory, as the driver and the workers see them.

    Args:
        directory: It has the folders `open` and `taken`; the driver makes them by `create`.
        ledger: Where a worker says that it stops, just before it does.
    """

    def __init__(self, directory: Path, ledger: Ledger) -> None:
        self._open = directory / "open"
        self._taken = directory / "taken"
        self._ledger = ledger
        self._lock = threading.Lock()
        self._mine: dict[tuple[str, str], _Taken] = {}
        """What this worker has taken, by point and run; of any run, by an empty one."""
        self._number = 0

    # -- the driver --------------------------------------------------------------------------

    def create(self) -> None:
        self._open.mkdir(parents=True)
        self._taken.mkdir()

    def order(self, point: str, action: Action = "kill", passage: int = 1, run: str = "") -> None:
        """Lets the next worker that passes `point` stop at its Nth passage.

        Args:
            point: The point.
            action: How it stops.
            passage: Which passage.
            run: Only passages for this run count; empty: those for any run.
        """
        assert point in POINTS + MERGE_POINTS, point
        self._number += 1
        hidden = self._taken / f".{self._number}"
        hidden.write_text(f"{action} {passage}")
        hidden.rename(self._open / f"{point}@{self._number}@{run}")

    def withdraw(self, run: str = "") -> int:
        """Takes back what nobody has taken, of one run or of all; how many that were."""
        count = 0
        for path in self._open.iterdir():
            if run and not path.name.endswith(f"@{run}"):
                continue
            with suppress(FileNotFoundError):  # a worker was faster
                path.unlink()
                count += 1
        return count

    def waiting(self) -> int:
        """How many orders nobody has taken."""
        return len(os.listdir(self._open))  # noqa: PTH208 - names are enough

    def lost_with(self, pid: int) -> int:
        """How many orders a worker, which is gone, had taken and not carried out; once."""
        found = [path for path in self._taken.iterdir() if path.name.endswith(f".{pid}")]
        for path in found:
            path.unlink()
        return len(found) - len(self._ledger.halts(pid))

    # -- a worker ----------------------------------------------------------------------------

    def reach(self, point: str, run: str = "", what: str = "") -> None:
        """Passes a point; where it is ordered, the process stops here."""
        with self._lock:
            self._take(point, run)
            for key in dict.fromkeys(((point, run), (point, ""))):
                self._pass(key, run, what)

    def _pass(self, key: tuple[str, str], run: str, what: str) -> None:
        taken = self._mine.get(key)
        if taken is None:
            return
        if taken.left > 1:
            self._mine[key] = _Taken(taken.action, taken.left - 1)
            return
        del self._mine[key]
        self._ledger.halt(key[0], taken.action, run, what)
        with self._ledger.unused():
            os.kill(os.getpid(), signal.SIGKILL if taken.action == "kill" else signal.SIGSTOP)

    def _take(self, point: str, run: str) -> None:
        for name in os.listdir(self._open):  # noqa: PTH208 - this is passed very often
            ordered, _, only = name.split("@", 2)
            key = (point, only)
            if ordered != point or only not in ("", run) or key in self._mine:
                continue
            target = self._taken / f"{name}.{os.getpid()}"
            with suppress(FileNotFoundError):  # another worker was faster
                (self._open / name).rename(target)
                action, passage = target.read_text().split()
                self._mine[key] = _Taken("kill" if action == "kill" else "freeze", int(passage))
