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
    """The roots of a run's logs.

    Args:
        run: The run.
    """

    def __init__(self, run: RunId) -> None:
        self._run = run
        self._own: dict[LogName, ContentHash] = {}
        self._valid: set[tuple[LogName, ContentHash, tuple[LogName, ...]]] = set()
        self._ancestors: tuple[RunId, ...] = ()
        """The ancestors of the run, if they were read."""
        self.source: RunId | None = None
        """The run that it was forked from, if a batch named it before the store."""
        self.parents: set[RunId] = set()
        """The runs whose logs it has, if a batch named them before the store."""

    def own(self, log: LogName) -> ContentHash:
        """Returns the root of a log whose first message is of this run."""
        root = self._own.get(log)
        if root is None:
            root = self._own[log] = empty_log_head(self._run, log)
        return root

    async def has_root(
        self,
        log: LogName,
        root: ContentHash,
        store: Store,
        former: tuple[LogName, ...] = (),
    ) -> bool:
        """Whether a root belongs to a log of this run.

        Args:
            log: The log.
            root: The root of the chain.
            store: The store with the ancestors.
            former: The former names of the log, whose roots it may have; names of another kind of
                log are ignored.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        if root == self.own(log) or (log, root, former) in self._valid:
            return True
        kind = _kind(log)
        names = {log, *(name for name in former if _kind(name) == kind)}
        if not self._is_root_of(root, names):
            # Read again, even if some are known: another run may have had the run's id before.
            ancestors = {*await store.lineage(self._run)}
            if not ancestors and self.source is not None:
                ancestors = {self.source, *await store.lineage(self.source)}
            for parent in self.parents - ancestors:
                ancestors |= {parent, *await store.lineage(parent)}
            self._ancestors = tuple(ancestors)
            if not self._is_root_of(root, names):
                return False
        self._valid.add((log, root, former))
        return True

    def log_at(self, root: ContentHash, logs: Collection[LogName]) -> LogName | None:
        """Returns which of some logs has a root, as far as the ancestors are known."""
        return next((log for log in logs if self._is_root_of(root, {log})), None)

    def _is_root_of(self, root: ContentHash, names: Collection[LogName]) -> bool:
        runs = (self._run, *self._ancestors)
        return any(root == empty_log_head(run, name) for run in runs for name in names)


def _kind(log: LogName) -> str:
    return log.partition(":")[0]


def former_names(
    log: LogName, step: StepId | None, former_steps: Sequence[StepId]
) -> Iterator[LogName]:
    """Yields the names of a child step's own log before a rollback of its run.

    Args:
        log: A log.
        step: The child step that reads it; None: the step is not a child step.
        former_steps: The former ids of its visit; its own log has the root of the oldest one.
    """
    if step is not None and log == child_step_log(step):
        for visit in former_steps:
            if node_of(visit) == node_of(step):
                yield child_step_log(child_step_id(visit, item_number(step)))
