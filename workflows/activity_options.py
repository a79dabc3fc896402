"""The options of each activity: timeouts, retry policy, task queue, and summary in the Web UI."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from crewlog.definition.model import Retry
from crewlog.graph.plan import GraphPlan, PlanTool
from crewlog.graph.run_context import CallRequest
from crewlog.state.excerpt import fenced
from crewlog.state.frontier import step_description
from crewlog.state.model import CrewState

BUILT_IN_TOOL = PlanTool(effects="read", repeat="safe", timeout=30)
"""The settings of `set_flag` and `set_output`, which change nothing outside of the run."""

LOCAL_SECONDS = 2.0
"""The timeout of a tool call that is a local activity. It is short, since no signal reaches the run
meanwhile."""

_UNLIMITED_RETRIES: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=30),
    # There is no limit of attempts: if the store is unavailable, the run waits and loses nothing.
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(milliseconds=200),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=5),
    ),
}

LOCAL_OPTIONS: dict[str, Any] = {
    **_UNLIMITED_RETRIES,
    "local_retry_threshold": timedelta(milliseconds=500),
}
"""Options of the local activities that read a run's definition and state.

The server sets a timer for delays of more than half a second between attempts. So a run that waits
for the store holds no workflow task, and its worker can shut down.
"""

SPLIT_OPTIONS: dict[str, Any] = {
    **LOCAL_OPTIONS,
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(milliseconds=200),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=30),
    ),
}
"""Options of the local activity by which a split run loads its state, which the original run is
about to store. It has no timeout: if the original run stored the split after the timeout, no run
would have the split agents. The long delays hold no workflow task, since the original run needs
one, and keep the history short if the wait takes days."""

SHORT_LOCAL_OPTIONS: dict[str, Any] = {
    "schedule_to_close_timeout": timedelta(seconds=LOCAL_SECONDS),
    "retry_policy": RetryPolicy(maximum_attempts=1),
}
"""Options of a local activity that only reads, or whose effect nothing refers to. It has one short
attempt, since the run answers no query meanwhile; see `crewlog.workflows.local_activity`."""

STORE_OPTIONS: dict[str, Any] = {**_UNLIMITED_RETRIES, "heartbeat_timeout": timedelta(seconds=3)}
"""Options of the activities that store journal entries.

They are never local. A local activity runs before its workflow task is in the history. If the task
is repeated (its worker was killed, or a signal kept the run from ending), it may record other
entries at positions that are already stored.
"""

PREPARE_RUN_OPTIONS: dict[str, Any] = {**STORE_OPTIONS, "summary": "checks the crew"}
"""Options of the activity that prepares a run: it validates, lowers and stores a definition."""

CHECK_ARGUMENTS_OPTIONS: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=10),
    # A person waits for the result: without a worker that has the tool, the answer fails soon.
    "schedule_to_close_timeout": timedelta(seconds=20),
    "heartbeat_timeout": timedelta(seconds=3),
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=200)),
    "summary": "checks the edited arguments",
}
"""Options of the activity that checks the edited arguments of a call."""

RESTORE_OPTIONS: dict[str, Any] = {**STORE_OPTIONS, "summary": "loads the checkpoint"}
"""Options of the activity that loads the state of a rollback."""

PREPARE_CHANGE_OPTIONS: dict[str, Any] = {**STORE_OPTIONS, "summary": "prepares the change"}
"""Options of the activity that prepares a change without a model."""

COMPILE_OPTIONS: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=180),
    "heartbeat_timeout": timedelta(seconds=5),
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=1),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=60),
        maximum_attempts=5,
    ),
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    "summary": "compiles the prompt",
}
"""Options of the activity that compiles a prompt, with at most one model call."""

PREPARE_BY_PROMPT_OPTIONS: dict[str, Any] = {
    **COMPILE_OPTIONS,
    "cancellation_type": ActivityCancellationType.TRY_CANCEL,
    "summary": "reads the change's prompt",
}
"""Options of the activity that prepares a change by a prompt, with at most one model call. A run
that ends does not wait for it."""


def model_options(
    plan: GraphPlan, state: CrewState, request: CallRequest, queue: str | None
) -> dict[str, Any]:
    """Options of a model call."""
    agent = plan.plan_agent_of(state.frontier[request.step], request.agent)
    return {
        "task_queue": queue,
        "start_to_close_timeout": timedelta(seconds=agent.timeout),
        "heartbeat_timeout": timedelta(seconds=agent.heartbeat),
        "retry_policy": model_retries(plan, state, request),
        "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        "summary": f"{step_description(state, request.step, request.agent)} thinks",
    }


def model_retries(plan: GraphPlan, state: CrewState, request: CallRequest) -> RetryPolicy:
    """The retry policy of a model call."""
    return _retry_policy(plan.plan_agent_of(state.frontier[request.step], request.agent).retry)


def tool_options(
    plan: GraphPlan, state: CrewState, request: CallRequest, queue: str | None
) -> dict[str, Any]:
    """Options of a tool call.

    A call with the retry mode `never` is retried, too. Its activity writes a start record first,
    and people are asked only if an attempt finds one. So a failure before the start (the store is
    unavailable, a worker is lost) needs no answer.
    """
    tool = planned_tool(plan, state, request)
    return {
        "task_queue": tool.queue or queue,
        "start_to_close_timeout": timedelta(seconds=tool.timeout),
        "heartbeat_timeout": timedelta(seconds=tool.heartbeat),
        "retry_policy": _retry_policy(tool.retry),
        "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        "summary": _summary(state, request),
    }


def local_tool_options(plan: GraphPlan, state: CrewState, request: CallRequest) -> dict[str, Any]:
    """Options of a tool call as a local activity: one short attempt.

    After a failure that a retry may help, an ordinary activity makes the call.
    """
    tool = planned_tool(plan, state, request)
    return {
        "schedule_to_close_timeout": timedelta(seconds=min(tool.timeout, LOCAL_SECONDS)),
        "retry_policy": RetryPolicy(maximum_attempts=1),
        "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        "summary": _summary(state, request),
    }


def _summary(state: CrewState, request: CallRequest) -> str:
    # The Web UI renders Markdown, and a model wrote the arguments.
    name = step_description(state, request.step, request.agent)
    return f"{name} {fenced(f'{request.call.tool} {request.call.excerpt}'[:180])}"


def planned_tool(plan: GraphPlan, state: CrewState, request: CallRequest) -> PlanTool:
    """The settings of the tool of a call: one of the crew, or a built-in one."""
    step = state.frontier.get(request.step)  # a call may end after its step
    return plan.plan_tool_of(step, request.call.tool or "") or BUILT_IN_TOOL


def _retry_policy(retry: Retry) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=timedelta(seconds=retry.first),
        backoff_coefficient=retry.backoff,
        # The server would refuse the workflow task if this were below the initial interval.
        maximum_interval=timedelta(seconds=max(retry.first, retry.longest)),
        maximum_attempts=retry.attempts,
    )
