"""The calls of an execution: this module starts them and applies their outcomes.

Each call is an asyncio task, which appends its completion when it ends. Only the loop applies
completions to the engine, one after the other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, FailureError

from crewlog.definition.delays import retry_delay
from crewlog.failure_details import failure_details
from crewlog.graph.agents_without_model import tool_result_text
from crewlog.graph.engine import Engine
from crewlog.graph.run_context import CallRequest
from crewlog.ids import StepId, node_of
from crewlog.state import journal as j
from crewlog.state.calls import (
    CallModelResult,
    CallToolResult,
    CompilePromptResult,
    GraphOperationsReturned,
    PrepareRunResult,
)
from crewlog.workflows import authorization, group_tools
from crewlog.workflows.activity_options import COMPILE_OPTIONS, model_retries, planned_tool
from crewlog.workflows.call_activities import start_call
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
from crewlog.workflows.commands.queue import now
from crewlog.workflows.context import ExecutionContext
from crewlog.workflows.conversation import Responses
from crewlog.workflows.persistence import JournalWriter

FLUSH_BYTES = 64 * 1024
"""If the next calls would carry more bytes of entries together, the entries are stored first."""

STORE_PAUSE = 5.0
"""Seconds before a call that found no store is made again, in addition to its retry delays."""

RECHECKS_BEFORE_PAUSE = 5
"""After so many changes of permissions in a row, a call waits before it is made again."""

MISSING_TOOL_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds before a call that found no worker with its tool is made again; the last one repeats."""

RATE_LIMIT_ROUNDS = 4
"""How often a call is made that a rate limit rejects, with all attempts of its retry policy each
time. Then its step fails."""

CallKey = tuple[StepId, int]
"""A call: its step and its number."""


class CallScheduler:
    """Starts the calls of an execution, and applies their outcomes.

    Args:
        context: What the parts of the execution share.
        writer: Stores the journal.
        responses: The responses of a conversation.
        on_wait: Updates the search attributes when a call begins to wait.
    """

    def __init__(
        self,
        context: ExecutionContext,
        writer: JournalWriter,
        responses: Responses,
        on_wait: Callable[[], None],
    ) -> None:
        self._context = context
        self._writer = writer
        self._responses = responses
        self._on_wait = on_wait
        self.tasks: dict[CallKey, asyncio.Task[None]] = {}
        """The calls in flight."""
        self.completions: list[CallCompletion] = []
        """The calls that ended and are not applied."""
        self.bug: Exception | None = None
        """An exception that fails the workflow task."""
        self._waiting_calls: dict[CallKey, str] = {}
        """Calls between two attempts, with what they wait for."""
        self._cancelled: set[CallKey] = set()
        self._preempted: set[CallKey] = set()
        """Calls that were cancelled so that a change need not wait: they are made again."""
        self._failed_locally: set[CallKey] = set()
        """Local calls that failed: they are made again as ordinary activities."""
        self._permission_rechecks: Counter[CallKey] = Counter()
        """How often permissions changed after a call was scheduled."""
        self._missing_tool_retries: Counter[CallKey] = Counter()
        """How often a call met a worker without its tool."""
        self._rate_limit_rounds: Counter[CallKey] = Counter()
        """How often a rate limit rejected all attempts of a call."""
        self._drain_timeout: asyncio.Task[None] | None = None
        """Limits how long a change waits for the calls in flight."""

    @property
    def calls_in_flight(self) -> dict[tuple[StepId, int], str]:
        """The calls in flight, with what each waits for before it is made again; empty: nothing."""
        return {key: self._waiting_calls.get(key, "") for key in self.tasks}

    async def apply_completions(self) -> None:
        """Applies the calls that ended, in the order in which they ended."""
        while self.completions:
            completion = self.completions.pop(0)
            self._context.advance_clock(completion.at)
            request, outcome = completion.request, completion.outcome
            key = (request.step, request.call.call)
            self._context.events += self._is_local(request)  # its marker
            del self.tasks[key]
            self._cancelled.discard(key)
            is_preempted = key in self._preempted
            self._preempted.discard(key)
            match outcome:
                case (
                    CallSucceeded(
                        CallModelResult() | CallToolResult() | CompilePromptResult() as result
                    )
                    | GraphChangeRequested(result=CallToolResult() as result)
                ) if result.journaled:
                    self._context.engine.journal.mark_stored(completion.stored)
                case _:
                    pass
            if self._context.engine.state.is_ended:
                continue
            if not self._context.engine.prompt.is_active:
                self._update_mcp_approval(self._context.engine, completion)
            await self._apply_outcome(request, outcome, is_preempted=is_preempted)

    async def _apply_outcome(
        self, request: CallRequest, outcome: CallOutcome, *, is_preempted: bool
    ) -> None:
        """Applies the outcome of a call. A call whose outcome is not handled here is made again."""
        engine, step, number = self._context.engine, request.step, request.call.call
        is_over = is_preempted or not engine.waits_for_calls(step)
        match outcome:
            case CallSucceeded(CompilePromptResult() as result):
                engine.prompt.apply_result(result)
            case CallSucceeded(PrepareRunResult() as result):
                self._context.search_attributes = result.search_attributes
                engine.prompt.ask_for_approval(result)
            case CallSucceeded(CallModelResult() as result):
                if engine.exchanges.is_conversation:
                    self._responses.add_message(result)
                await engine.turns.apply_model_call(step, number, result)
            case CallSucceeded(CallToolResult() as result):
                await engine.turns.apply_tool_call(step, number, result)
            case GraphChangeRequested(change=change):
                await group_tools.apply(engine, change)
            case LocalCallFailed():
                self._failed_locally.add((step, number))
            case CallFailed(error, error_type) if not is_over:
                await engine.apply_call_failure(step, number, error, error_type)
            case CallOutcomeUnknown(error) if not is_over:
                engine.ask_about_unknown_outcome(step, number, error)
            case _:
                pass

    def _update_mcp_approval(self, engine: Engine, completion: CallCompletion) -> None:
        """Asks people to approve a tool of an MCP server; closes the interrupt afterwards.

        The call is repeated meanwhile: the approval goes to the store, not to the run.
        """
        key, outcome = (completion.request.step, completion.request.call.call), completion.outcome
        interrupts = [q for q in engine.state.interrupts.values() if q.kind == "mcp_approval"]
        match outcome:
            case ApprovalWait(question=question):
                is_asked = any(each.question == question for each in interrupts)
                if engine.waits_for_calls(key[0]) and not is_asked:
                    engine.ask(
                        "mcp_approval",
                        question,
                        step=key[0],
                        call=key[1],
                        options=("retry", "stop"),
                        detail=outcome.wait,
                    )
                return
            case CallSucceeded() | GraphChangeRequested():
                decision = "approved"
            case _:
                decision = "withdrawn"
        for each in interrupts:
            if (each.step, each.call) == key:
                engine.record(j.InterruptAnswered(interrupt=each.id, decision=decision))

    async def start_calls(self) -> None:
        """Starts pending calls, up to the concurrency limit."""
        room = self._context.engine.plan.limits.parallel - len(self.tasks)
        requests = [
            request
            for request, _ in zip(
                self._context.engine.pending_calls(self.tasks), range(room), strict=False
            )
        ]
        if self._context.engine.journal.unstored_bytes * len(requests) > FLUSH_BYTES:
            await self._writer.flush()
        for request in requests:
            key = (request.step, request.call.call)
            self.tasks[key] = asyncio.create_task(self._run_call(request))
            self._context.events += 1

    async def _run_call(self, request: CallRequest) -> None:
        position = self._context.engine.state.position
        call: Any = start_call(self._context, request, is_local=self._is_local(request))
        outcome: CallOutcome
        try:
            result = await call
            outcome = await self._result_outcome(request, result)
            match result:
                case PrepareRunResult():
                    at = now()
                case _:
                    at = result.at
        except FailureError as error:
            # The failure of a local activity may come without an `ActivityError` around it.
            cause = (error.cause if isinstance(error, ActivityError) else error) or error
            if (foreign := authorization.foreign_execution_error(error)) is not None:
                self.bug = foreign
                return
            outcome = self._failure_outcome(request, cause)
            at = failure_details(cause).failed_at or now()
        except asyncio.CancelledError:
            outcome, at = CallCancelled(), 0
        except Exception as bug:  # it must fail the workflow task, and not only this coroutine
            self.bug = bug
            raise
        match outcome:
            case CallDeferred():
                await self._pause(request, outcome)
            case _:
                pass
        self.completions.append(CallCompletion(request, outcome, at, position))

    async def _result_outcome(
        self, request: CallRequest, result: CallResult
    ) -> CallSucceeded | GraphChangeRequested:
        """The outcome of a call with a result. Prepares the change that a group tool asks for."""
        match result:
            case CallToolResult(outcome=GraphOperationsReturned(operations=operations)):
                self._context.events += 1
                change = await group_tools.prepare(
                    self._context.engine,
                    request,
                    operations,
                    tool_result_text(result),
                    self._context.task_queue,
                )
                return GraphChangeRequested(result, change)
            case _:
                return CallSucceeded(result)

    def _failure_outcome(self, request: CallRequest, cause: BaseException) -> CallOutcome:
        tool = (
            planned_tool(self._context.engine.plan, self._context.engine.state, request)
            if request.call.tool
            else None
        )
        outcome = failure_outcome(
            cause,
            request,
            is_local=self._is_local(request),
            is_repeatable=tool is None or tool.repeat != "never",
        )
        if isinstance(outcome, RateLimitWait) and self._is_rate_limit_exhausted(request):
            return outcome.failure
        return outcome

    async def _pause(self, request: CallRequest, outcome: CallDeferred) -> None:
        """Waits before a call that has not started is made again."""
        pause = self._pause_seconds(request, outcome)
        if pause is None:
            return
        key = (request.step, request.call.call)
        self._waiting_calls[key] = outcome.wait
        self._on_wait()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(pause)
        del self._waiting_calls[key]

    def _pause_seconds(self, request: CallRequest, outcome: CallDeferred) -> float | None:
        """The seconds until a deferred call is made again; None: at once."""
        key = (request.step, request.call.call)
        match outcome:
            case RateLimitWait():
                return self._rate_limit_pause(request, outcome)
            case StoreWait():
                return STORE_PAUSE
            case PermissionRecheck():
                # So many in a row: the store may have the permissions of another history.
                self._permission_rechecks[key] += 1
                return (
                    STORE_PAUSE
                    if self._permission_rechecks[key] % RECHECKS_BEFORE_PAUSE == 0
                    else None
                )
            case _:
                retries = self._missing_tool_retries[key]
                self._missing_tool_retries[key] += 1
                return MISSING_TOOL_PAUSES[min(retries, len(MISSING_TOOL_PAUSES) - 1)]

    def _is_local(self, request: CallRequest) -> bool:
        tool = request.call.tool
        return (
            tool is not None
            and planned_tool(self._context.engine.plan, self._context.engine.state, request).placed
            == "local"
            and (request.step, request.call.call) not in self._failed_locally
        )

    def _is_rate_limit_exhausted(self, request: CallRequest) -> bool:
        """Counts a round of a call; returns whether the rate limit has rejected all rounds."""
        key = (request.step, request.call.call)
        self._rate_limit_rounds[key] += 1
        if self._rate_limit_rounds[key] < RATE_LIMIT_ROUNDS:
            return False
        del self._rate_limit_rounds[key]  # so that people may retry the call
        return True

    def _rate_limit_pause(self, request: CallRequest, outcome: RateLimitWait) -> float:
        """The seconds until a call that a rate limit rejected is made again.

        The backoff continues where that of the attempts ended.
        """
        policy: RetryPolicy = COMPILE_OPTIONS["retry_policy"]
        engine = self._context.engine
        if request.step in engine.state.frontier:
            policy = model_retries(engine.plan, engine.state, request)
        rounds = self._rate_limit_rounds[request.step, request.call.call]
        return retry_delay(
            rounds * policy.maximum_attempts,
            first=policy.initial_interval.total_seconds(),
            backoff=policy.backoff_coefficient,
            longest=(policy.maximum_interval or policy.initial_interval).total_seconds(),
            asked=outcome.retry_after_seconds or 0.0,
            chance=workflow.random().random(),
        )

    def cancel_calls(self) -> None:
        """Cancels the calls of an ending run and of removed steps, each only once."""
        engine = self._context.engine
        is_ending = engine.state.status in ("stopping", "stopped", "failed")
        for key, task in self.tasks.items():
            # A waiting call has not started: a change need not wait for its next attempt.
            is_waiting = key in self._waiting_calls and self.is_draining_call(key)
            if key not in self._cancelled and (
                is_ending or is_waiting or not self._context.engine.waits_for_calls(key[0])
            ):
                self._cancelled.add(key)
                task.cancel()

    def is_draining_call(self, key: tuple[StepId, int]) -> bool:
        """Whether an accepted change waits for a call."""
        change = self._context.engine.state.pending_change
        # The step of a cancelled call has left the frontier, and the call is still in flight.
        return change is not None and change.drains(node_of(key[0]))

    def cancel_drain_timeout(self) -> None:
        """Removes the limit for the calls in flight."""
        if self._drain_timeout is not None:
            self._drain_timeout.cancel()
            self._drain_timeout = None

    def start_drain(self, seconds: float) -> None:
        """Limits how long an accepted change waits for the calls in flight."""
        self._drain_timeout = asyncio.create_task(self._preempt_calls_after(seconds))

    async def _preempt_calls_after(self, seconds: float) -> None:
        """Waits for some seconds, then cancels the calls that a change waits for."""
        await asyncio.sleep(seconds)
        for key, task in self.tasks.items():
            if key not in self._cancelled and self.is_draining_call(key):
                self._cancelled.add(key)
                self._preempted.add(key)
                task.cancel()
                self._context.events += 1
