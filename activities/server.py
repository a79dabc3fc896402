"""What activities ask the Temporal server: about executions and runs, and for other runs."""

from __future__ import annotations

from crewlog.ids import RunId
from crewlog.model import Model
from crewlog.state.calls import AskOtherRun, AskOtherRunResult, MergeNotification


class ExecutionStart(Model):
    """How an execution started, according to the server."""

    workflow: str
    """The workflow's type."""
    queue: str
    """The task queue on which it was started."""
    first: str
    """The first execution of its chain."""
    original: str
    """The execution that it was reset from, or itself."""
    continued: str
    """The execution that it continues; empty for one that was started."""
    at: int
    """When it started, in milliseconds since the epoch, by the server's clock."""


class Server:
    """The Temporal server, as activities use it.

    This base class is for activities without a server: it knows no execution, regards no run as
    open or ended, and reaches none. `crewlog.workers.temporal_server` has the real one. All methods
    raise `StoreUnavailable` if the server does not answer, unless they say otherwise: the activity
    has had no effect yet, and is retried.
    """

    async def has_search_attributes(self) -> bool:
        """Whether the server knows Crewlog's search attributes."""
        return False

    async def find_execution(self, run: RunId, execution: str) -> ExecutionStart | None:
        """How an execution of a run started; None: the server has no such execution."""
        del run, execution
        return None

    async def find_last_executions(self, run: RunId) -> tuple[str, ...] | None:
        """The last execution of a run that is not open; None: it is open.

        Empty: the run never had one.
        """
        del run
        return None

    async def is_open(self, run: RunId) -> bool:
        """Whether a run's workflow is open: then it stores its first batch soon."""
        del run
        return False

    async def find_task_queue(self, run: RunId) -> str:
        """The task queue of a run's workflow; empty: the server does not answer."""
        del run
        return ""

    async def send_notification(self, run: RunId, notification: MergeNotification) -> bool:
        """Sends a merge notification of a run within seconds, without raising.

        Returns whether it need not be sent again: it has arrived, or its receiver has ended.
        """
        del run, notification
        return False

    async def ask_run(self, task: AskOtherRun) -> AskOtherRunResult | None:
        """Sends the update of a run merge, and waits for its answer.

        None: the run has ended, or never existed.
        """
        del task
        return None
