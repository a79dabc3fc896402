"""One execution of a run: the loop that connects the engine with Temporal.

Concurrency, in one place: every call is an asyncio task that ends by appending its completion;
handlers of signals and updates append to the command queue; only this loop takes from both and
touches the engine. It yields only while it waits, stores, or pauses among many signals, so a
handler sees a consistent state.

    commands       parses, authorizes, prepares and applies commands
    scheduler      starts calls and applies their outcomes
    graph_changes  drains for an accepted change, splits the run, and swaps the graph
    run_merge      the run's part in run merges
    timer          waits for the earliest deadline
    persistence    stores the journal
    visibility     updates search attributes
    execution_end  makes the result, or the carry

To continue as new, the execution closes: nothing starts, updates get a typed error, handlers
finish, the rest is stored. Signals that still arrive are carried. It closes when no call is in
flight, so closing takes a moment only; `crewlog.workflows.urgency` says what it does until then.
"""

from __future__ import annotations

from operator import attrgetter
from typing import cast

from temporalio import workflow

from crewlog.graph.answers import answer_expired_interrupts
from crewlog.graph.engine import Engine
from crewlog.ids import StepId
from crewlog.workflows.commands.processor import CommandProcessor
from crewlog.workflows.commands.queue import QueuedCommand
from crewlog.workflows.context import ExecutionContext
from crewlog.workflows.conversation import Responses
from crewlog.workflows.execution_end import Ended, ExecutionEnd
from crewlog.workflows.graph_changes import GraphChanges
from crewlog.workflows.persistence import JournalWriter
from crewlog.workflows.run_merge import RunMerge
from crewlog.workflows.scheduler import CallScheduler
from crewlog.workflows.timer import RunTimer
from crewlog.workflows.urgency import Urgency, continue_as_new_urgency
from crewlog.workflows.visibility import Visibility


class Execution:
    """The loop of one execution.

    Args:
        engine: The run's engine.
        queue: The queue of commands, to which the handlers append.
        task_queue: The task queue of the run's activities; empty: the workflow's own.
        search_attributes: Whether the server knows Crewlog's search attributes.
        responses: The responses of a conversation that the last execution carried.
    """

    def __init__(
        self,
        engine: Engine,
        queue: list[QueuedCommand],
        *,
        task_queue: str,
        search_attributes: bool,
        responses: Responses | None = None,
    ) -> None:
        self.context = ExecutionContext(
            engine, task_queue=task_queue, search_attributes=search_attributes
        )
        self.responses = responses or Responses()
        """The responses of a conversation."""
        self.writer = JournalWriter(self.context, lambda: bool(queue))
        self._visibility = Visibility(
            self.context, lambda: self.calls_in_flight, lambda: self.drained_steps
        )
        self._scheduler = CallScheduler(
            self.context, self.writer, self.responses, self._visibility.update
        )
        self.run_merge = RunMerge(engine.state)
        """The run's part in run merges."""
        self._commands = CommandProcessor(
            self.context,
            queue,
            self.run_merge,
            has_calls=lambda: bool(self._scheduler.tasks),
            start_drain=self._scheduler.start_drain,
        )
        self._changes = GraphChanges(self.context, self.writer, self._scheduler)
        self._timer = RunTimer(self.context, self.run_merge)
        self._end = ExecutionEnd(
            self.context, self._commands, self.writer, self.run_merge, self._visibility
        )
        self._urgency: Urgency = "normal"

    engine: Engine = cast("Engine", property(attrgetter("context.engine")))
    """The run's engine. The getter is not a Python function, since a step asks for it often."""

    @property
    def ended(self) -> Ended | None:
        """The end of the run, while its last entries are stored."""
        return self._end.ended

    @property
    def calls_in_flight(self) -> dict[tuple[StepId, int], str]:
        """The calls in flight, with what each waits for before it is made again."""
        return self._scheduler.calls_in_flight

    @property
    def drained_steps(self) -> tuple[StepId, ...]:
        """The steps that end before the run continues as new; nothing else starts until then."""
        if self._urgency not in ("draining", "closed"):
            return ()
        return tuple(dict.fromkeys(step for step, _ in self._scheduler.tasks))

    async def drive(self) -> Ended:
        """Runs until the run ends or must continue as new."""
        context, calls = self.context, self._scheduler
        while True:
            await self._commands.apply_all()
            await calls.apply_completions()
            await self._changes.apply_pending()
            self._timer.apply_elapsed()
            await self._advance_run_merge()
            engine = context.engine
            if not (context.is_closing or engine.state.is_ended or engine.state.is_draining):
                await self._advance()
            elif engine.is_finishing_detached_turns and not context.is_closing:
                await engine.advance(calls.tasks)
                await calls.start_calls()
            if not engine.prompt.is_active:
                self.responses.update(engine)  # before the texts of the next exchange are added
            self._timer.start()
            calls.cancel_calls()
            if not calls.tasks and not calls.completions:
                if engine.state.status == "stopping":
                    engine.stop()
                if engine.state.is_ended:
                    return await self._end.close()
                if context.is_closing and self._may_continue_as_new():
                    if self._changes.swap():
                        return await self._end.continue_as_new(self._changes, self.responses)
                    continue
                # A change continues as new at once, and stores everything then.
                is_draining = engine.state.is_draining and not engine.is_finishing_detached_turns
                if not (self._commands.queue or is_draining or self.run_merge.is_local):
                    await self.writer.store_until_command()
            self._visibility.update()
            self._visibility.mark_task()
            await workflow.wait_condition(self._has_work)
            if calls.bug is not None:
                raise calls.bug

    def _has_work(self) -> bool:
        calls = self._scheduler
        if self._commands.has_work or calls.completions or calls.bug or self._timer.elapsed:
            return True
        if not self.context.is_closing and self.run_merge.has_work(self.engine.state):
            return True
        return self.context.is_closing and not calls.tasks and workflow.all_handlers_finished()

    def _may_continue_as_new(self) -> bool:
        return workflow.all_handlers_finished() and not self._commands.queue

    async def _advance(self) -> None:
        """Starts what can start, or closes if the history is long and no call is in flight."""
        engine, calls = self.context.engine, self._scheduler
        is_stopping = engine.state.status == "stopping"
        if self._urgency != "normal" and not calls.tasks and not is_stopping:
            self.context.is_closing = True
            return
        if engine.prompt.is_ready:
            await engine.prompt.start_crew()
            self._commands.requeue_deferred()
            await self._commands.apply_all()
        if not engine.prompt.is_active:
            await self._changes.split_at_start()
            await answer_expired_interrupts(engine)
        await engine.advance(calls.tasks)
        if self._urgency in ("normal", "suggested"):
            await calls.start_calls()
        if not engine.state.is_ended and not is_stopping:
            self._update_urgency()

    def _update_urgency(self) -> None:
        """Checks the length of the history; after the first calls, so each execution makes some."""
        info = workflow.info()
        is_suggested = (
            info.is_continue_as_new_suggested()
            or info.is_target_worker_deployment_version_changed()
        )
        events, size = info.get_current_history_length(), info.get_current_history_size()
        limit = self.engine.plan.limits.events
        urgency = continue_as_new_urgency(events, size, limit, is_suggested=is_suggested)
        if urgency == "normal":
            return
        if not self._scheduler.tasks:
            self.context.is_closing = True
            return
        self._urgency = urgency
        self.context.is_closing = urgency == "closed"

    async def _advance_run_merge(self) -> None:
        """Continues the run merges that the run is in."""
        engine, calls = self.engine, self._scheduler
        if self.context.is_closing:
            return
        if engine.prompt.is_active:
            self.run_merge.refuse_requests(f"{engine.state.run!r} has no crew yet")
            return
        before, markers = engine.state.position, self.run_merge.markers
        is_drained = not (calls.tasks or calls.completions or engine.is_finishing_detached_turns)
        await self.run_merge.advance(engine, self.writer.store_and_notify, is_drained=is_drained)
        self.context.events += self.run_merge.markers - markers
        if before != engine.state.position and not self.context.is_merge_frozen:
            self._commands.requeue_deferred()
