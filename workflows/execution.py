"""One execution of a run: the loop that connects the engine with Temporal.

Concurrency, in one place: every call is an asyncio task that ends by appending to `_landed`; signal
and update handlers append to the inbox; and this loop alone takes from both and touches the engine.
It yields only where it waits for something to land, stores, or rests among many signals, so what a
handler sees between two yields is consistent.

Closing (to continue as new): from then on nothing starts, updates are refused with a typed error,
handlers finish, the rest is stored, and the execution ends. Signals that still arrive are carried
in the inbox. It closes when nothing is in flight, so that it is closing for a moment only; what it
does until then says `crewlog.workflows.urgency`.

A change of the graph drains first: nothing starts, what is in flight lands and is applied, and
updates are taken as ever, since that may last. What is in flight may be given a time, after which
it is cancelled: those calls are made again in the next execution. Once nothing is in flight the
execution closes as above. The graph is swapped in the task that leaves, when no handler is at work,
so that what is carried has one plan, and the state that belongs to it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, cast

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import (
    ActivityError,
    FailureError,
)

with workflow.unsafe.imports_passed_through():
    from crewlog.definition.delays import retry_delay
    from crewlog.definition.times import moment_words
    from crewlog.encryption.codec import NOT_ENCRYPTED
    from crewlog.errors import (
        InternalError,
    )
    from crewlog.failure_details import failure_details
    from crewlog.graph import live_change
    from crewlog.graph.agents_without_model import text_of
    from crewlog.graph.answers import answer_expired_interrupts
    from crewlog.graph.artifacts import unresolved_calls
    from crewlog.graph.engine import Engine
    from crewlog.graph.final_messages import truncated_messages
    from crewlog.graph.inputs import agent_inputs
    from crewlog.graph.prompt_compilation import STEP
    from crewlog.graph.run_context import CallRequest
    from crewlog.graph.wakes import waking_message
    from crewlog.ids import RESERVED, CommandId, StepId, ToolName
    from crewlog.reporting.wire_views import rename_view
    from crewlog.state import journal as j
    from crewlog.state.answers import call_binding
    from crewlog.state.batch_codec import pack_view
    from crewlog.state.calls import (
        CALL_MODEL,
        CALL_TOOL,
        COMPILE_PROMPT,
        END_RUN,
        PREPARE_RUN,
        STORE_BATCH,
        CallModel,
        CallModelResult,
        CallTool,
        CallToolResult,
        CompilePromptResult,
        EndRun,
        EndRunResult,
        GraphOperationsReturned,
        MergeNotification,
        PrepareRun,
        PrepareRunResult,
        StoreBatch,
        StoreBatchResult,
    )
    from crewlog.state.carry import Carry
    from crewlog.state.components import connected_agents
    from crewlog.state.journal import Batch
    from crewlog.state.model import Output, Part, PendingChange
    from crewlog.wire import ArtifactResult, RunResult

from crewlog.workflows import authorization, changes, group_tools, view_models
from crewlog.workflows.activity_options import (
    CHECKING,
    COMPILING,
    STORING,
    local_tool_options,
    model_options,
    model_retries,
    planned_tool,
    tool_options,
)
from crewlog.workflows.call_outcomes import (
    ApprovalWait,
    CallCancelled,
    CallCompletion,
    CallDeferred,
    CallFailed,
    CallOutcome,
    CallOutcomeUnknown,
    CallResult,
    CallSucceeded,
    GraphChangeRequested,
    LocalCallFailed,
    PermissionRecheck,
    RateLimitWait,
    StoreWait,
    failure_outcome,
)
from crewlog.workflows.command_queue import InvalidPayload, QueuedCommand, now, present
from crewlog.workflows.commands import CommandProcessor
from crewlog.workflows.context import ExecutionContext
from crewlog.workflows.conversation import Answers
from crewlog.workflows.run_merge import RunMerge
from crewlog.workflows.run_split import begin_part
from crewlog.workflows.urgency import Stage, stage

FLUSH_BYTES = 64 * 1024
"""More than this is stored before activities are scheduled, instead of by each of them."""

SNAPSHOT_AFTER = 200
"""Entries since the last snapshot from which on a flush stores the next one. A run flushes when it
comes to rest, or when its batch is large. To load the state of a run at rest, at most so many
entries are folded."""

CARRIED_BYTES = 8 * 1024
"""Up to this, what is not stored is carried over a swap, instead of stored before: an activity
would double the time of it."""

POSITION_MEMO = "position"
"""The memo field that tells the journal position, where nothing else left an event."""

CANCEL = f"{RESERVED}cancel"
"""The id of the `stop` that Temporal's cancel becomes."""

LAST_CALLS = 10
"""How often what arrives while the run ends is refused and stored before it ends anyway."""

STORE_PAUSE = 5.0
"""Seconds between calls that met no store, on top of the waits of the call's own retry policy."""

RULED_OFTEN = 5
"""Rulings in a row after which a call rests before it is made again."""

LACKING_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between calls that met a worker without their tool; the last one from then on."""

LIMITED_ROUNDS = 4
"""How often a call whose model's service takes no more calls is made, each time with all attempts
of its retry policy; then its step fails."""

LONGEST_TIMER = 30 * 86_400_000
"""Milliseconds of one Temporal timer; what is due later gets another one then."""

PUNCTUAL = 2000
"""Milliseconds by which a timer may be late and is still told as on time: so that a journal comes
out the same that is made again, see `now`. What is later was late because the server was away."""

PHASE_INTERVAL_MS = 5000
"""The search attribute of the phase is at most this old: an upsert is an event."""


class BatchInFlight(NamedTuple):
    """A part of the journal on its way to the store."""

    task: workflow.ActivityHandle[Any]
    position: int
    """Up to where it is stored then."""


@dataclass(frozen=True)
class Ended:
    """How an execution ended: with a result, with a carry, or with an error."""

    result: RunResult | None = None
    carry: Carry | None = None
    error: str = ""
    error_type: str = ""
    cancelled: bool = False
    """Whether Temporal's cancel stopped the run, in this execution or an earlier one."""


class Execution:
    """The loop of one execution."""

    def __init__(
        self,
        engine: Engine,
        inbox: list[QueuedCommand],
        *,
        queue: str,
        search_attributes: bool,
        answers: Answers | None = None,
    ) -> None:
        self.context = ExecutionContext(
            engine, task_queue=queue, search_attributes=search_attributes
        )
        self.answers = answers or Answers()
        """What the run has answered, where it is a conversation."""
        self._stage: Stage = "calm"
        self._inbox = inbox
        self._run_merge = RunMerge()
        self._commands = CommandProcessor(
            self.context,
            inbox,
            self._run_merge,
            has_calls=lambda: bool(self._call_tasks),
            start_drain=self._start_drain,
        )
        self._call_tasks: dict[tuple[StepId, int], asyncio.Task[None]] = {}
        self._cancelled: set[tuple[StepId, int]] = set()
        self._cut: set[tuple[StepId, int]] = set()
        """Calls that were cancelled so that a change need not wait: they are made again."""
        # An execution that leaves without storing leaves the snapshot to the next one, too.
        owes = engine.state.execution > 1 and engine.ledger.unstored_bytes > 0
        self._snapshot_due = 0 if owes else engine.ledger.first - 1 + SNAPSHOT_AFTER
        """The position from which on the next flush stores a snapshot."""
        self._whole = False
        """Whether it was looked whether the graph is in one piece."""
        self._is_swapping = False
        """Whether the next execution has another graph."""
        self._has_new_policy = False
        """Whether others may command it than before."""
        self._limit: asyncio.Task[None] | None = None
        """The time that a change gives to what is in flight."""
        self._moved: set[tuple[StepId, int]] = set()
        self._waiting_calls: dict[tuple[StepId, int], str] = {}
        """Calls between two tries, with what they wait for."""
        self._ruled: Counter[tuple[StepId, int]] = Counter()
        """How often calls have met a ruling that came after they were scheduled."""
        self._missing_tool_retries: Counter[tuple[StepId, int]] = Counter()
        """How often calls have met a worker without their tool."""
        self._limited: Counter[tuple[StepId, int]] = Counter()
        """How often all tries of calls were refused by a limit."""
        self._bug: Exception | None = None
        self._batch_in_flight: BatchInFlight | None = None
        """What stores the journal while commands are taken beside."""
        self._batch_waiters = 0
        """How many others are waiting for that."""
        self.ended: Ended | None = None
        """How the run ended, for those who ask while the last is stored."""
        self._completions: list[CallCompletion] = []
        self._timer: tuple[int, asyncio.Task[None]] | None = None
        """When the one timer is over that runs, and what waits for it."""
        self._elapsed_timers: list[tuple[int, int]] = []
        """When timers were due that are over, and when they were over."""
        self._shown: dict[str, Any] = {}
        self._attributes_set_at = 0
        self._sealed = (0, 0)

    engine: Engine = cast("Engine", property(attrgetter("context.engine")))
    """The run's engine. The getter is not a Python function, since a step asks for it often."""

    @property
    def flights(self) -> dict[tuple[StepId, int], str]:
        """The calls under way, with what they wait for before they are made again."""
        return {key: self._waiting_calls.get(key, "") for key in self._call_tasks}

    @property
    def drains_for(self) -> tuple[StepId, ...]:
        """The steps that end before the run continues as new, where nothing starts until then."""
        if self._stage not in ("draining", "shut"):
            return ()
        return tuple(dict.fromkeys(step for step, _ in self._call_tasks))

    async def drive(self) -> Ended:
        """Runs until the run ends or must continue as new."""
        while True:
            await self._commands.apply_all()
            await self._apply_completions()
            await self._apply_pending_change()
            self._apply_elapsed_timers()
            await self._merge()
            if not (self.context.is_closing or self.engine.state.closed or self.engine.state.still):
                await self._go_on()
            elif self._is_finishing_turns and not self.context.is_closing:
                await self.engine.advance(self._call_tasks)
                await self._launch()
            if not self.engine.prompt.is_active:
                self.answers.look(self.engine)  # before the words of the next turn are noted
            self._set_timer()
            self._cancel_calls()
            if not self._call_tasks and not self._completions:
                if self.engine.state.status == "stopping":
                    self._stop()
                if self.engine.state.closed:
                    return await self._close()
                if self.context.is_closing and self._may_continue_as_new():
                    if self._swapped():
                        return await self._leave()
                    continue
                # A change leaves at once, and stores everything then.
                still = self.engine.state.still and not self._is_finishing_turns
                if not (self._inbox or still or self._run_merge.at_once):
                    await self._store()
            self._show()
            self._seal()
            await workflow.wait_condition(self._has_work)
            if self._bug is not None:
                raise self._bug

    def _has_work(self) -> bool:
        if (
            self._commands.has_work
            or self._completions
            or self._bug
            or self._elapsed_timers
            or self._run_merge.has_work
        ):
            return True
        return self.context.is_closing and not self._call_tasks and workflow.all_handlers_finished()

    def _may_continue_as_new(self) -> bool:
        return workflow.all_handlers_finished() and not self._inbox

    async def _go_on(self) -> None:
        """Starts what can start, or leaves where the history is long and nothing is in flight."""
        stopping = self.engine.state.status == "stopping"
        if self._stage != "calm" and not self._call_tasks and not stopping:
            self.context.is_closing = True
            return
        await self._begin_crew()
        if not self.engine.prompt.is_active:
            if not self._whole:
                self._whole = True
                await self._split_at_start(self.engine)
            await answer_expired_interrupts(self.engine)
        await self.engine.advance(self._call_tasks)
        if self._stage in ("calm", "due"):
            await self._launch()
        if not self.engine.state.closed and not stopping:
            self._update_urgency()

    def _update_urgency(self) -> None:
        """Sees how long the history is; after the first launch, so that each execution does some.

        In an execution in which something was always in flight since, nothing may start any more.
        """
        info = workflow.info()
        asked = (
            info.is_continue_as_new_suggested()
            or info.is_target_worker_deployment_version_changed()
        )
        events, size = info.get_current_history_length(), info.get_current_history_size()
        reached = stage(events, size, self.engine.plan.limits.events, asked=asked)
        if reached == "calm":
            return
        if not self._call_tasks:
            self.context.is_closing = True
            return
        self._stage = reached
        self.context.is_closing = reached == "shut"

    async def _begin_crew(self) -> None:
        """Starts the crew of a prompt, once people have approved its definition."""
        if self.engine.prompt.is_ready:
            await self.engine.prompt.start_crew()
            self._commands.requeue_deferred()
            await self._commands.apply_all()

    # -- what came ---------------------------------------------------------------------------

    async def _apply_completions(self) -> None:
        while self._completions:
            landed = self._completions.pop(0)
            self.context.advance_clock(landed.at)
            order, outcome = landed.order, landed.outcome
            key = (order.step, order.call.call)
            self.context.events += self._is_local(order)  # its marker
            del self._call_tasks[key]
            self._cancelled.discard(key)
            cut = key in self._cut
            self._cut.discard(key)
            if isinstance(outcome, CallSucceeded | GraphChangeRequested) and not (
                isinstance(outcome.result, PrepareRunResult) or not outcome.result.journaled
            ):
                self.engine.ledger.stored(landed.stored)
            if self.engine.state.closed:
                continue
            if not self.engine.prompt.is_active:
                self._update_mcp_approval(self.engine, landed)
            await self._apply_outcome(order, outcome, cut=cut)

    async def _apply_outcome(self, order: CallRequest, outcome: CallOutcome, *, cut: bool) -> None:
        """Applies the outcome of a call; a call with any other outcome is made again."""
        engine, step, number = self.engine, order.step, order.call.call
        is_over = cut or not engine.waits_for_calls(step)
        match outcome:
            case CallSucceeded(CompilePromptResult() as result):
                engine.prompt.apply_result(result)
            case CallSucceeded(PrepareRunResult() as result):
                self.context.search_attributes = result.search_attributes
                engine.prompt.ask_for_approval(result)
            case CallSucceeded(CallModelResult() as result):
                if engine.exchanges.is_conversation:
                    self.answers.note(result)
                await engine.turns.apply_model_call(step, number, result)
            case CallSucceeded(CallToolResult() as result):
                await engine.turns.apply_tool_call(step, number, result)
            case GraphChangeRequested(change=change):
                await group_tools.apply(engine, change)
            case LocalCallFailed():
                self._moved.add((step, number))
            case CallFailed(error, error_type) if not is_over:
                await engine.apply_call_failure(step, number, error, error_type)
            case CallOutcomeUnknown(error) if not is_over:
                engine.ask_about_unknown_outcome(step, number, error)
            case _:
                pass

    def _update_mcp_approval(self, engine: Engine, landed: CallCompletion) -> None:
        """Asks people to approve a server's tool; takes the question back once somebody has.

        The call is made again all the while: an approval is in the store, and no answer to the run.
        """
        key, outcome = (landed.order.step, landed.order.call.call), landed.outcome
        asked = [q for q in engine.state.interrupts.values() if q.kind == "mcp_approval"]
        if isinstance(outcome, ApprovalWait):
            question = outcome.question
            if engine.waits_for_calls(key[0]) and not any(q.question == question for q in asked):
                engine.ask(
                    "mcp_approval",
                    question,
                    step=key[0],
                    call=key[1],
                    options=("retry", "stop"),
                    detail=outcome.wait,
                )
            return
        is_made = isinstance(outcome, CallSucceeded | GraphChangeRequested)
        decision = "approved" if is_made else "withdrawn"
        for each in asked:
            if (each.step, each.call) == key:
                engine.record(j.InterruptAnswered(interrupt=each.id, decision=decision))

    # -- timers ------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Has a timer run for the step that is due first; a paused run's run out, too."""
        state = self.engine.state
        idle = self.context.is_closing or state.closed or state.status == "stopping"
        dues = [self._run_merge.due(state), self.engine.timers.next_deadline()]
        due = min((each for each in dues if each is not None), default=None)
        if idle or due == (self._timer[0] if self._timer else None):
            return
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
            self.context.events += 1
        if due is not None:
            self._timer = (due, asyncio.create_task(self._run_timer(due)))
            self.context.events += 1

    async def _run_timer(self, due: int) -> None:
        left = min(max(due - now(), 1), LONGEST_TIMER)
        try:
            what = "waits for a message " if self.engine.state.resting else ""
            await workflow.sleep(left / 1000, summary=f"{what}until {moment_words(due)}")
        except asyncio.CancelledError:
            return
        self._timer = None
        if left < LONGEST_TIMER:
            self._elapsed_timers.append((due, due if now() - due < PUNCTUAL else now()))
        else:
            self._elapsed_timers.append((0, 0))

    def _apply_elapsed_timers(self) -> None:
        while self._elapsed_timers:
            due, at = self._elapsed_timers.pop(0)
            self.context.advance_clock(at)
            self.engine.timers.fire(due)

    # -- calls -------------------------------------------------------------------------------

    async def _launch(self) -> None:
        room = self.engine.plan.limits.parallel - len(self._call_tasks)
        orders = [
            order
            for order, _ in zip(
                self.engine.pending_calls(self._call_tasks), range(room), strict=False
            )
        ]
        if self.engine.ledger.unstored_bytes * len(orders) > FLUSH_BYTES:
            await self._flush()
        for order in orders:
            key = (order.step, order.call.call)
            self._call_tasks[key] = asyncio.create_task(self._fly(order))
            self.context.events += 1

    async def _fly(self, order: CallRequest) -> None:
        position = self.engine.state.position
        call: Any = self._call(order)
        outcome: CallOutcome
        try:
            result = await call
            outcome = await self._result_outcome(order, result)
            at = now() if isinstance(result, PrepareRunResult) else result.at
        except FailureError as error:
            # Only ordinary activities' failures are wrapped for certain.
            cause = (error.cause if isinstance(error, ActivityError) else error) or error
            if (stranger := authorization.foreign_execution_error(error)) is not None:
                self._bug = stranger
                return
            outcome = self._failure_outcome(order, cause)
            at = failure_details(cause).failed_at or now()
        except asyncio.CancelledError:
            outcome, at = CallCancelled(), 0
        except Exception as bug:  # it must fail the workflow task, and not only this coroutine
            self._bug = bug
            raise
        if isinstance(outcome, CallDeferred):
            await self._rest(order, outcome)
        self._completions.append(CallCompletion(order, outcome, at, position))

    async def _result_outcome(
        self, order: CallRequest, result: CallResult
    ) -> CallSucceeded | GraphChangeRequested:
        """The outcome of a call with a result. Prepares the change that a group tool asks for."""
        if not isinstance(result, CallToolResult):
            return CallSucceeded(result)
        if not isinstance(result.outcome, GraphOperationsReturned):
            return CallSucceeded(result)
        self.context.events += 1
        change = await group_tools.prepare(
            self.engine, order, result.outcome.operations, text_of(result), self.context.task_queue
        )
        return GraphChangeRequested(result, change)

    def _failure_outcome(self, order: CallRequest, cause: BaseException) -> CallOutcome:
        tool = planned_tool(self.engine.plan, self.engine.state, order) if order.call.tool else None
        outcome = failure_outcome(
            cause,
            order,
            is_local=self._is_local(order),
            is_repeatable=tool is None or tool.repeat != "never",
        )
        if isinstance(outcome, RateLimitWait) and self._is_rate_limit_exhausted(order):
            return outcome.failure
        return outcome

    async def _rest(self, order: CallRequest, outcome: CallDeferred) -> None:
        """Waits before a call is made again that has not begun."""
        pause = self._pause_seconds(order, outcome)
        if pause is None:
            return
        key = (order.step, order.call.call)
        self._waiting_calls[key] = outcome.wait
        self._show()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(pause)
        del self._waiting_calls[key]

    def _pause_seconds(self, order: CallRequest, outcome: CallDeferred) -> float | None:
        """The seconds until a deferred call is made again; None: at once."""
        key = (order.step, order.call.call)
        match outcome:
            case RateLimitWait():
                return self._rate_limit_pause(order, outcome)
            case StoreWait():
                return STORE_PAUSE
            case PermissionRecheck():
                # After so many in a row the store may have permissions of another history.
                self._ruled[key] += 1
                return STORE_PAUSE if self._ruled[key] % RULED_OFTEN == 0 else None
            case _:
                tries = self._missing_tool_retries[key]
                self._missing_tool_retries[key] += 1
                return LACKING_PAUSES[min(tries, len(LACKING_PAUSES) - 1)]

    def _call(self, order: CallRequest) -> Any:
        if order.step == STEP:
            return self._compile_call(order)
        return self._tool_call(order) if order.call.tool else self._model_call(order)

    def _compile_call(self, order: CallRequest) -> Any:
        prompt = self.engine.prompt
        if order.call.tool is None:
            return workflow.execute_activity(
                COMPILE_PROMPT,
                prompt.compile_input(),
                result_type=CompilePromptResult,
                task_queue=self.context.task_queue or None,
                **COMPILING,
            )
        return workflow.execute_activity(
            PREPARE_RUN,
            PrepareRun(run=self.engine.state.run, crew=prompt.definition or {}),
            result_type=PrepareRunResult,
            **CHECKING,
        )

    def _model_call(self, order: CallRequest) -> Any:
        engine = self.engine
        return workflow.execute_activity(
            CALL_MODEL,
            CallModel(
                tools=engine.tools_of(order.agent, order.step),
                item=engine.child_steps.item(order.step),
                unsettled=unresolved_calls(engine.state, order.step),
                heard=waking_message(engine.state, order.step),
                cut=truncated_messages(engine.state, order.step),
                **self._step_call(order),
            ),
            result_type=CallModelResult,
            **model_options(engine.plan, engine.state, order, self.context.task_queue or None),
        )

    def _tool_call(self, order: CallRequest) -> Any:
        call = order.call
        if call.message is None or call.tool is None:
            raise InternalError(f"the call {order.step}/{call.call} names no message")
        quotas = self.engine.quotas(order.agent, call.tool, order.step)
        task = CallTool(
            tool=ToolName(call.tool),
            id=call.id,
            message=call.message,
            **self._approval(order),
            ruled=self.engine.has_live_permission(order.agent, call.tool, order.step),
            quotas=quotas,
            started=self.engine.state.started if quotas else 0,
            **self._step_call(order),
        )
        plan = self.engine.plan
        if self._is_local(order):
            options = local_tool_options(plan, self.engine.state, order)
            return workflow.execute_local_activity(
                CALL_TOOL, task, result_type=CallToolResult, **options
            )
        options = tool_options(plan, self.engine.state, order, self.context.task_queue or None)
        return workflow.execute_activity(CALL_TOOL, task, result_type=CallToolResult, **options)

    def _approval(self, order: CallRequest) -> dict[str, Any]:
        """The yes that a call is made by, where there is one that holds for it."""
        step, call, engine = order.step, order.call, self.engine
        if not call.approved or not engine.check_approval(step, call).allowed:
            return {}
        binding = call_binding(engine.state.run, step, call)
        return {"approved": call.approved, "approval": binding.approval(call.seal)}

    def _is_local(self, order: CallRequest) -> bool:
        tool = order.call.tool
        return (
            tool is not None
            and planned_tool(self.engine.plan, self.engine.state, order).placed == "local"
            and (order.step, order.call.call) not in self._moved
        )

    def _step_call(self, order: CallRequest) -> dict[str, Any]:
        """What every call's input says; small, since the history keeps each of them."""
        engine, batch = self.engine, self.engine.ledger.batch()
        step = engine.state.frontier[order.step]
        same = str(step.node) == order.agent
        return {
            "step": order.step,
            "call": order.call.call,
            "agent": "" if same else order.agent,
            "definition": engine.plan.definition_hash_of(step),
            "view": pack_view(engine.view(order.agent, order.step), batch),
            "batch": batch,
            "attempt": order.call.attempt,
            "position": 0 if batch.entries else engine.state.position,
            "inputs": agent_inputs(engine, order.agent, order.step),
        }

    def _is_rate_limit_exhausted(self, order: CallRequest) -> bool:
        """Whether a call's model takes no more calls, after it was made again some times."""
        key = (order.step, order.call.call)
        self._limited[key] += 1
        if self._limited[key] < LIMITED_ROUNDS:
            return False
        del self._limited[key]  # people may have it tried again
        return True

    def _rate_limit_pause(self, order: CallRequest, outcome: RateLimitWait) -> float:
        """The seconds until a call is made again that a rate limit rejected.

        The backoff continues where that of the attempts ended.
        """
        policy: RetryPolicy = COMPILING["retry_policy"]
        engine = self.engine
        if order.step in engine.state.frontier:
            policy = model_retries(engine.plan, engine.state, order)
        rounds = self._limited[order.step, order.call.call]
        return retry_delay(
            rounds * policy.maximum_attempts,
            first=policy.initial_interval.total_seconds(),
            backoff=policy.backoff_coefficient,
            longest=(policy.maximum_interval or policy.initial_interval).total_seconds(),
            asked=outcome.retry_after_seconds or 0.0,
            chance=workflow.random().random(),
        )

    def _cancel_calls(self) -> None:
        """Cancels, once each, the calls of an ending run, or of a step that is gone."""
        state = self.engine.state
        ending = state.status in ("stopping", "stopped", "failed")
        for key, task in self._call_tasks.items():
            # A call that rests has not begun: a change need not wait for its next try.
            rests = key in self._waiting_calls and self._is_draining_call(key)
            if key not in self._cancelled and (
                ending or rests or not self.engine.waits_for_calls(key[0])
            ):
                self._cancelled.add(key)
                task.cancel()

    # -- changing ----------------------------------------------------------------------------

    async def _apply_pending_change(self) -> None:
        """Does what was accepted, once it has drained for that; a run that ends does not.

        Another flow needs another execution. Where only the graph falls apart, it does here.
        """
        state = self.engine.state
        if state.changing is None or state.closed:
            return
        if state.status == "stopping":
            self._fail_swap("the run was stopped")
        elif any(map(self._is_draining_call, self._call_tasks)):
            return
        elif state.changing.nodes:
            await self._part(self.engine, state.changing)
        else:
            self.context.is_closing = True

    async def _split_at_start(self, engine: Engine) -> None:
        """Parts a graph that is in several pieces when its run begins, as a change would."""
        topology = engine.plan.topology
        if topology is None or len(connected_agents(topology)) < 2:
            return
        self.context.events += 1
        prepared = await changes.whole(engine)
        report, plan = live_change.change_report(engine, prepared)
        what = f"there are {len(prepared.parts) + 1} graphs"
        live_change.accept_change(engine, plan, report, what=what, parts=prepared.parts)
        await self._apply_pending_change()  # nothing is under way yet

    def _is_draining_call(self, key: tuple[StepId, int]) -> bool:
        """Whether a change that was accepted waits for a call."""
        meant, step = self.engine.state.changing, self.engine.state.frontier.get(key[0])
        # A call that was cancelled with its step is still in flight: wait for it, too.
        return meant is not None and (step is None or meant.halts(step.node))

    async def _part(self, engine: Engine, meant: PendingChange) -> None:
        """Begins a run for each part of the graph, and leaves it to them.

        They begin first: an id that is taken must not leave creatures in no run. Each waits until
        the journal says that it is a part.
        """
        self.context.events += 1
        begun = await asyncio.gather(
            *(
                begin_part(engine.state, part.graph, meant.by, self.context.task_queue)
                for part in engine.pending_split_runs
            )
        )
        error = next(filter(None, begun), "")
        if not error and (failed := live_change.split(engine)) is not None:
            told = "the graph could not be parted: the run goes on as it was"
            workflow.logger.error(told, exc_info=failed)
            error = f"{type(failed).__name__}: {failed}"[:2000]
        if error:
            self._fail_swap(error)
            return
        self._cancel_drain_timeout()
        await self._flush()

    async def _merge(self) -> None:
        """Goes on with what is to be one graph with another run's, or has offered itself to be."""
        engine = self.engine
        if engine.prompt.is_active:
            return
        before, markers = engine.state.position, self._run_merge.markers
        landed = not (self._call_tasks or self._completions or self._is_finishing_turns)
        await self._run_merge.go_on(engine, self._store_and_notify, landed=landed)
        self.context.events += self._run_merge.markers - markers
        if before != engine.state.position and not self.context.is_merge_offered:
            self._commands.requeue_deferred()

    @property
    def _is_finishing_turns(self) -> bool:
        """Whether turns go on to their end before the run is part of another one, and no others."""
        return self.engine.is_finishing_detached_turns

    def _cancel_drain_timeout(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _start_drain(self, seconds: float) -> None:
        """Limits the time of the calls in flight, for an accepted change."""
        self._limit = asyncio.create_task(self._preempt_calls_after(seconds))

    async def _preempt_calls_after(self, seconds: float) -> None:
        """Cancels what is in flight after a time, for a change to go on."""
        await asyncio.sleep(seconds)
        for key, task in self._call_tasks.items():
            if key not in self._cancelled and self._is_draining_call(key):
                self._cancelled.add(key)
                self._cut.add(key)
                task.cancel()
                self.context.events += 1

    def _fail_swap(self, error: str) -> None:
        """Goes on with the graph that there is, since a change did not come about."""
        if (meant := self.engine.state.changing) is not None:
            self.engine.record(j.SwapFailed(graph_version=meant.graph_version, error=error))
        self._cancel_drain_timeout()
        self.context.is_closing = False

    def _swapped(self) -> bool:
        """Puts the new graph in the place of the old one, where there is one; else, why not."""
        before = self.engine
        if before.state.changing is None:
            return True
        version = before.state.changing.graph_version
        self.context.engine, error = live_change.swap(before)
        if error is not None:
            told = "the graph could not be swapped for v%s: the run goes on as it was"
            workflow.logger.error(told, version, exc_info=error)
        if self.engine is before:
            self._fail_swap("")
            return False
        self._is_swapping = True
        self._has_new_policy = self.engine.plan.policy != before.plan.policy
        return True

    # -- storing and ending ------------------------------------------------------------------

    async def store_permissions(self) -> None:
        """Stores what was ruled before people are told that it is in force."""
        await self._flush()

    async def wait_until_stored(self, position: int) -> None:
        """Waits until the journal is stored up to a position, by whoever does so."""
        ledger = self.engine.ledger
        while ledger.lacks(position):
            if self._batch_waiters:
                await workflow.wait_condition(
                    lambda: not (self._batch_waiters and ledger.lacks(position))
                )
            else:
                await self._flush()

    async def _store(self) -> None:
        """Stores what is left before the run waits; commands that come meanwhile do not wait."""
        while (storing := self._batch_in_flight or self._start_batch()) is not None:
            stored = storing.task
            await workflow.wait_condition(lambda: stored.done() or bool(self._inbox))  # noqa: B023 - awaited here
            if not stored.done():
                self._batch_in_flight = storing
                return
            self._batch_in_flight = None
            await self._stored(storing)

    async def _flush(self, *, snapshot: bool = False) -> None:
        storing = self._start_batch(snapshot=snapshot)
        if storing is not None:
            await self._stored(storing)

    async def _store_and_notify(
        self, hints: Sequence[MergeNotification]
    ) -> StoreBatchResult | None:
        """Stores what is left, and gives hints then; none where nothing was left, or to be told."""
        storing = self._start_batch(hints=tuple(hints))
        if storing is None:
            return None
        await self._stored(storing)
        told = await storing.task
        return None if told is None else StoreBatchResult.model_validate(told)

    def _start_batch(
        self, *, snapshot: bool = False, hints: tuple[MergeNotification, ...] = ()
    ) -> BatchInFlight | None:
        """Begins to store what is not stored yet; none where that is nothing."""
        batch = self.engine.ledger.batch()
        if not batch.entries:
            return None
        state = self.engine.state
        snapshot = snapshot or state.position >= self._snapshot_due
        if snapshot:
            self._snapshot_due = state.position + SNAPSHOT_AFTER
        self.context.events += 1
        task = workflow.start_activity(
            STORE_BATCH,
            StoreBatch(
                run=state.run,
                batch=batch,
                definition=self.engine.plan.definition,
                state=state.to_json() if snapshot else None,
                hints=hints,
            ),
            summary="stores the journal",
            **STORING,
        )
        return BatchInFlight(task, state.position)

    async def _stored(self, storing: BatchInFlight) -> None:
        self._batch_waiters += 1
        try:
            await storing.task
        finally:
            self._batch_waiters -= 1
        self.engine.ledger.stored(storing.position)

    def _stop(self) -> None:
        info = self.engine.state.resume_info
        because = " ".join(part for part in (info.by, info.reason) if part) if info else ""
        for step in list(self.engine.state.frontier):
            self.engine.record(j.StepCancelled(step=step))
        self.engine.record(j.RunStopped(because=because))

    async def _close(self) -> Ended:
        """Stores the last of the journal, refuses what comes too late, and makes the result."""
        self._commands.requeue_deferred()
        await self._commands.apply_all()
        self._commands.unauthenticated.tell(self.engine)
        if self._batch_in_flight is not None:
            await self._batch_in_flight.task  # nothing of a run is written after its end
        fetched = await self._end_run()
        self.ended = self._ending(fetched)
        for _ in range(LAST_CALLS):
            # Handlers wait for what they brought to be taken, so that comes first.
            await workflow.wait_condition(
                lambda: bool(self._inbox) or workflow.all_handlers_finished()
            )
            if not self._inbox:
                break
            position = self.engine.state.position
            await self._commands.apply_all()
            if position == self.engine.state.position and self._commands.unauthenticated.untold:
                continue  # nobody waits for these
            self._commands.unauthenticated.tell(self.engine)
            fetched = await self._end_run()
        return self._ending(fetched)

    def _ending(self, fetched: EndRunResult) -> Ended:
        state = self.engine.state
        if state.status == "failed":
            return Ended(error=state.error, error_type=state.error_type)

        def value(output: Output | Part) -> Any:
            if isinstance(output, Output) and output.parts:
                return [value(part) for part in output.parts]
            return fetched.outputs.get(output.body) if output.body else output.value

        cancel = state.commands.get(CommandId(CANCEL))
        return Ended(
            cancelled=state.status == "stopped" and cancel is not None and cancel.ok,
            result=RunResult(
                run=state.run,
                status=state.status,
                outputs={
                    agent: {key: value(output) for key, output in found.items()}
                    for agent, found in view_models.ordered_outputs(
                        state.agent_outputs, self.engine.plan
                    )
                },
                artifacts={
                    name: ArtifactResult.model_validate(found)
                    for name, found in fetched.artifacts.items()
                },
                flags={str(k): v for k, v in state.flags.items()},
                steps=state.steps,
                executions=state.execution,
                usage=state.usage,
                total=state.total_usage,
                position=state.position,
                ms=self.engine.at - state.started,
                warning=state.warning,
                end_reason=state.end_reason,
                rested=state.status == "completed" and state.rest is not None,
                merged_into=state.merged_into,
                renamed=tuple(map(rename_view, state.surviving_run_renames)),
            ),
        )

    async def _end_run(self) -> EndRunResult:
        state = self.engine.state
        wanted = {
            body
            for found in state.agent_outputs.values()
            for output in found.values()
            for body in output.bodies
        }
        fetched: EndRunResult = await workflow.execute_activity(
            END_RUN,
            EndRun(
                run=state.run,
                batch=self.engine.ledger.batch(),
                state=state.to_json(),
                outputs=tuple(sorted(wanted)),
                hints=self._run_merge.waiting(state),
            ),
            result_type=EndRunResult,
            summary="stores the end",
            **STORING,
        )
        self.engine.ledger.stored(state.position)
        self._show()
        return fetched

    async def _leave(self) -> Ended:
        """Hands everything to the next execution; what is left is stored, or little is carried."""
        info = workflow.info()
        if self._is_swapping:
            because = "its graph was changed"
        elif info.is_continue_as_new_suggested():
            because = "the server suggested it"
        elif info.is_target_worker_deployment_version_changed():
            because = "another build of its workers is current"
        else:
            because = "its history was long enough"
        self._commands.unauthenticated.tell(self.engine)
        self.engine.record(
            j.ExecutionContinuedAsNew(execution=self.engine.state.execution + 1, because=because)
        )
        batch = self.engine.ledger.whole()
        carried = self._is_swapping and self.engine.ledger.unstored_bytes <= CARRIED_BYTES
        if self._has_new_policy:
            carried = False  # who forks the run is judged by what the store has of it
        if not carried:
            await self._flush(snapshot=True)
            batch = Batch.EMPTY
        self._inbox[:0] = self._commands.take_deferred()
        for each in map(present, self._inbox):  # the next execution is not told how it came
            if each.plain and self.context.encrypted:
                each.data = InvalidPayload(NOT_ENCRYPTED)
        planned = bool(self.engine.plan.nodes)
        return Ended(
            carry=Carry(
                plan=self.engine.plan.to_json() if planned else {},
                draft=self.engine.prompt.draft,
                state=self.engine.state.to_json(),
                batch=batch,
                inbox=tuple(
                    (i.name, i.data) for i in self._inbox if not isinstance(i.data, InvalidPayload)
                ),
                unreadable=tuple(
                    (i.name, i.data.reason)
                    for i in self._inbox
                    if isinstance(i.data, InvalidPayload)
                ),
                queue=self.context.task_queue,
                search_attributes=self.context.search_attributes,
                reply=self.answers.carried(self.engine),
            )
        )

    # -- showing -----------------------------------------------------------------------------

    def _show(self) -> None:
        """Updates what searches show, where it changed."""
        if not self.context.search_attributes:
            return
        new = view_models.attributes(
            self.engine.plan,
            self.engine.state,
            self.flights,
            drains_for=self.drains_for,
            quiet=self.context.quiet,
        )
        changed = {key: value for key, value in new.items() if self._shown.get(key) != value}
        recent = self.engine.at - self._attributes_set_at < PHASE_INTERVAL_MS
        if not changed or (set(changed) == {"CrewlogPhase"} and recent):
            return
        workflow.upsert_search_attributes(
            [SearchAttributeKey.for_keyword(key).value_set(value) for key, value in new.items()]
        )
        self._shown, self._attributes_set_at = new, self.engine.at
        self.context.events += 1

    def _seal(self) -> None:
        """Leaves an event where a task applied something and had no command of its own.

        The SDK takes a task without a command that is directly followed by another one for a
        heartbeat. Queries and updates make such tasks. A replay then runs both as one: at the later
        one's time, and with the update before what the first one applied, so that the journal would
        come out otherwise than it is stored.
        """
        position, commands = self._sealed
        if position != self.engine.state.position and commands == self.context.events:
            workflow.upsert_memo({POSITION_MEMO: self.engine.state.position})
        self._sealed = (self.engine.state.position, self.context.events)
