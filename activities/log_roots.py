"""The root of a log proves whose log a head belongs to.

The logs of a run begin at `empty_log_head(run, log)`. A fork continues the logs of its ancestors,
which begin where the ancestor's logs did. So a head belongs to a log if its chain begins where that
log begins, in the run or in one of its ancestors. After a run merge a log has several roots, and
each of them must pass. Ancestors are read from the store only for a root that is not the run's own,
and then cached.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from crewlog.ids import (
    ContentHash,
    LogName,
    RunId,
    StepId,
    child_step_id,
    child_step_log,
    item_number,
    node_of,
)
from crewlog.state.logs import empty_log_head
from crewlog.store.protocol import Store


class LogRoots:
    """Where the logs of a run begin.

    Args:
        run: The run.
    """

    def __init__(self, run: RunId) -> None:
        self._run = run
        self._own: dict[LogName, ContentHash] = {}
        self._proven: set[tuple[LogName, ContentHash, tuple[LogName, ...]]] = set()
        self._ancestors: tuple[RunId, ...] = ()
        """What it goes on from, as far as that was asked for."""
        self.source: RunId | None = None
        """What the run was forked from, where a batch said so before the store did."""
        self.parents: set[RunId] = set()
        """Runs whose logs came in, where a batch said so before the store did."""

    def own(self, log: LogName) -> ContentHash:
        """Where a log begins that has its first message from this run."""
        root = self._own.get(log)
        if root is None:
            root = self._own[log] = empty_log_head(self._run, log)
        return root

    async def has_root(
        self,
        log: LogName,
        root: ContentHash,
        store: Store,
        formerly: tuple[LogName, ...] = (),
    ) -> bool:
        """Whether a log of this run may begin there.

        Args:
            log: The log.
            root: Where the chain begins that is to be the log's.
            store: Where the ancestors are, if need be.
            formerly: The names that the log had before: it has the root of one of these. Those of
                another kind are none of its.

        Raises:
            StoreUnavailable: where the ancestors cannot be asked for now.
        """
        if root == self.own(log) or (log, root, formerly) in self._proven:
            return True
        kind = _kind(log)
        names = {log, *(name for name in formerly if _kind(name) == kind)}
        if not self._begins(root, names):
            # Asked anew, also where some are known: the run's id may have been another one's.
            line = {*await store.lineage(self._run)}
            if not line and self.source is not None:
                line = {self.source, *await store.lineage(self.source)}
            for parent in self.parents - line:
                line |= {parent, *await store.lineage(parent)}
            self._ancestors = tuple(line)
            if not self._begins(root, names):
                return False
        self._proven.add((log, root, formerly))
        return True

    def log_at(self, root: ContentHash, logs: Collection[LogName]) -> LogName | None:
        """Which of some logs begins there, as far as the ancestors are known."""
        return next((log for log in logs if self._begins(root, {log})), None)

    def _begins(self, root: ContentHash, names: Collection[LogName]) -> bool:
        runs = (self._run, *self._ancestors)
        return any(root == empty_log_head(run, name) for run in runs for name in names)


def _kind(log: LogName) -> str:
    return log.partition(":")[0]


def former_names(log: LogName, step: StepId | None, was: Sequence[StepId]) -> Iterator[LogName]:
    """What the log of an item's step was called before its run went back; the node is the same.

    Args:
        log: A log.
        step: The step of an item that wants to read it; none where the step is for no item.
        was: The names that its visit had before: its own log has the root of the oldest one.
    """
    if step is not None and log == child_step_log(step):
        for visit in was:
            if node_of(visit) == node_of(step):
                yield child_step_log(child_step_id(visit, item_number(step)))
