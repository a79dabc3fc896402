"""Accepted changes of a run's graph: the drain of its calls, the split, and the swap.

A change drains first: no affected step starts, and the calls in flight are applied when they end,
or are cancelled after a time and made again. Then a split starts the new runs, and any other change
closes the execution. The swap is in the workflow task that continues as new, when no handler runs,
so that the carry has the plan and the state of the same moment.
"""

from __future__ import annotations

import asyncio

from temporalio import workflow

from crewlog.graph.engine import Engine
from crewlog.graph.swap import live_change
from crewlog.state import journal as j
from crewlog.state.components import connected_agents
from crewlog.state.model import PendingChange
from crewlog.workflows.commands import changes
from crewlog.workflows.context import ExecutionContext
from crewlog.workflows.persistence import JournalWriter
from crewlog.workflows.run_split import start_split_run
from crewlog.workflows.scheduler import CallScheduler


class GraphChanges:
    """Makes the accepted changes of a run's graph.

    Args:
        context: What the parts of the execution share.
        writer: Stores the journal.
        scheduler: The calls that a change waits for.
    """

    def __init__(
        self, context: ExecutionContext, writer: JournalWriter, scheduler: CallScheduler
    ) -> None:
        self._context = context
        self._writer = writer
        self._scheduler = scheduler
        self._is_checked = False
        """Whether `split_at_start` has counted the components of the run."""
        self.is_swapped = False
        """Whether the next execution has another graph."""
        self.has_new_policy = False
        """Whether the swap changed the policy."""

    async def apply_pending(self) -> None:
        """Makes the accepted change once its calls are drained; it fails if the run is stopped.

        A swap needs another execution; a split does not.
        """
        state = self._context.engine.state
        if state.pending_change is None or state.is_ended:
            return
        if state.status == "stopping":
            self._fail("the run was stopped")
        elif any(map(self._scheduler.is_draining_call, self._scheduler.tasks)):
            return
        elif state.pending_change.nodes:
            await self._split(self._context.engine, state.pending_change)
        else:
            self._context.is_closing = True

    async def split_at_start(self) -> None:
        """Splits a run that starts with several components, as a change does.

        Only the first call has an effect.
        """
        if self._is_checked:
            return
        self._is_checked = True
        engine = self._context.engine
        component = engine.plan.component
        if component is None or len(connected_agents(component)) < 2:
            return
        self._context.events += 1
        prepared = await changes.prepare_split_at_start(engine)
        report, plan = live_change.change_report(engine, prepared)
        what = f"the run starts with {len(prepared.split_runs) + 1} components"
        live_change.accept_change(engine, plan, report, what=what, split_runs=prepared.split_runs)
        await self.apply_pending()  # no call is in flight yet

    async def _split(self, engine: Engine, change: PendingChange) -> None:
        """Starts a run for each split component, then records the split.

        The runs start first: if an id is taken, no agent may be left without a run. Each waits
        until the journal of this run records the split.
        """
        self._context.events += 1
        errors = await asyncio.gather(
            *(
                start_split_run(engine.state, each.run, change.by, self._context.task_queue)
                for each in engine.pending_split_runs
            )
        )
        error = next(filter(None, errors), "")
        if not error and (failed := live_change.split(engine)) is not None:
            text = "the run could not be split: it continues unchanged"
            workflow.logger.error(text, exc_info=failed)
            error = f"{type(failed).__name__}: {failed}"[:2000]
        if error:
            self._fail(error)
            return
        self._scheduler.cancel_drain_timeout()
        await self._writer.flush()

    def _fail(self, error: str) -> None:
        """Records that the change failed: the run continues with its current plan."""
        if (change := self._context.engine.state.pending_change) is not None:
            self._context.engine.record(
                j.SwapFailed(graph_version=change.graph_version, error=error)
            )
        self._scheduler.cancel_drain_timeout()
        self._context.is_closing = False

    def swap(self) -> bool:
        """Swaps the engine for one with the new plan, if a change is pending.

        Returns:
            Whether the execution can continue as new; if not, the swap failed.
        """
        before = self._context.engine
        if before.state.pending_change is None:
            return True
        version = before.state.pending_change.graph_version
        self._context.engine, error = live_change.swap(before)
        if error is not None:
            text = "the graph could not be swapped for v%s: the run continues unchanged"
            workflow.logger.error(text, version, exc_info=error)
        if self._context.engine is before:
            self._fail("")
            return False
        self.is_swapped = True
        self.has_new_policy = self._context.engine.plan.policy != before.plan.policy
        return True
