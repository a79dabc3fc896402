"""How each kind of call is scheduled: timeouts, retries, queues, and what the web UI shows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from crewlog.definition.model import Retry
    from crewlog.graph.plan import GraphPlan, PlanTool
    from crewlog.graph.run_context import CallRequest
    from crewlog.state.excerpt import fenced
    from crewlog.state.frontier import step_description
    from crewlog.state.model import CrewState

BUILT_IN_RULES = PlanTool(effects="read", repeat="safe", timeout=30)
"""`set_flag` and `set_output` change nothing outside the run."""

LOCAL_SECONDS = 2.0
"""What a tool that is placed `local` may take. Until it ended, no signal reaches its run."""

_AGAIN: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=30),
    # A store that is away comes back; until then the run stands still and loses nothing.
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(milliseconds=200),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=5),
    ),
}

LOCAL: dict[str, Any] = {**_AGAIN, "local_retry_threshold": timedelta(milliseconds=500)}
"""Options of the local activities that read a run's crew, and what it needs to go on.

Between tries that are further apart than half a second the server keeps a timer: who waits for a
store that is away holds no workflow task of its worker, and a worker that is to end does not wait
for it.
"""

PARTING: dict[str, Any] = {
    **LOCAL,
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(milliseconds=200),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=30),
    ),
}
"""Options of the local activity with which a part of another run begins: that one is about to store
that it is. No time ends it, since the creatures would live nowhere if that one stored it later.
Parts hold none of a worker's workflow tasks, one of which the run that they leave needs to store
it; and a wait of days stays a short history."""

LOOKING: dict[str, Any] = {
    "schedule_to_close_timeout": timedelta(seconds=LOCAL_SECONDS),
    "retry_policy": RetryPolicy(maximum_attempts=1),
}
"""Options of a local activity that only reads, or leaves behind what nobody knows of: one try, and
a short one, since no query is answered meanwhile. See `crewlog.workflows.local_activity`."""

STORING: dict[str, Any] = {**_AGAIN, "heartbeat_timeout": timedelta(seconds=3)}
"""Options of the activities that store what no other activity has stored.

Never local ones: a local activity runs before the task that scheduled it is in the history. Where
that task is done again (its worker was killed, or the server refuses to end the run because a
signal came) it may record other facts at the same positions than those that were stored.
"""


CHECKING: dict[str, Any] = {**STORING, "summary": "checks the crew"}
"""Options of the activity that checks, lowers and stores what a prompt makes, or people changed."""

EDITING: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=10),
    # Whoever answers waits for it: where no worker has the tool, that is said soon.
    "schedule_to_close_timeout": timedelta(seconds=20),
    "heartbeat_timeout": timedelta(seconds=3),
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=200)),
    "summary": "checks the edited arguments",
}
"""Options of the activity that checks the arguments that people put in the place of a call's."""

LOADING: dict[str, Any] = {**STORING, "summary": "loads the checkpoint"}
"""Options of the activity that loads the state that a run goes back to."""

PREPARING: dict[str, Any] = {**STORING, "summary": "prepares the change"}
"""Options of the activity that makes what a change leads to, where no model is asked."""

COMPILING: dict[str, Any] = {
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
"""Options of the activity that reads a prompt: at most one model call each."""

READING: dict[str, Any] = {
    **COMPILING,
    "cancellation_type": ActivityCancellationType.TRY_CANCEL,
    "summary": "reads the change's prompt",
}
"""Options of the activity that makes what a change leads to, where a model may be asked: at most
one call each. A run that closes does not wait for it."""


def model_options(
    plan: GraphPlan, state: CrewState, order: CallRequest, queue: str | None
) -> dict[str, Any]:
    """Options of a model call."""
    rules = plan.plan_agent_of(state.frontier[order.step], order.agent)
    return {
        "task_queue": queue,
        "start_to_close_timeout": timedelta(seconds=rules.timeout),
        "heartbeat_timeout": timedelta(seconds=rules.heartbeat),
        "retry_policy": model_retries(plan, state, order),
        "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        "summary": f"{step_description(state, order.step, order.agent)} thinks",
    }


def model_retries(plan: GraphPlan, state: CrewState, order: CallRequest) -> RetryPolicy:
    """The retry policy of a model call."""
    return _policy(plan.plan_agent_of(state.frontier[order.step], order.agent).retry)


def tool_options(
    plan: GraphPlan, state: CrewState, order: CallRequest, queue: str | None
) -> dict[str, Any]:
    """Options of a tool call.

    A tool that must not be repeated is still tried again: the activity notes in the store that it
    is about to begin, and a later try that finds the note asks people instead of beginning again.
    So what fails before the tool begins (the store is away, a worker dies) costs no question.
    """
    rules = planned_tool(plan, state, order)
    return {
        "task_queue": rules.queue or queue,
        "start_to_close_timeout": timedelta(seconds=rules.timeout),
        "heartbeat_timeout": timedelta(seconds=rules.heartbeat),
        "retry_policy": _policy(rules.retry),
        "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        "summary": _summary(state, order),
    }


def local_tool_options(plan: GraphPlan, state: CrewState, order: CallRequest) -> dict[str, Any]:
    """Options of a call of a tool that runs within the workflow's worker: one try, a short one.

    Whatever goes wrong with it that may pass, an ordinary activity does better.
    """
    rules = planned_tool(plan, state, order)
    return {
        "schedule_to_close_timeout": timedelta(seconds=min(rules.timeout, LOCAL_SECONDS)),
        "retry_policy": RetryPolicy(maximum_attempts=1),
        "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        "summary": _summary(state, order),
    }


def _summary(state: CrewState, order: CallRequest) -> str:
    # The web UI shows it as Markdown, and a model wrote the arguments.
    name = step_description(state, order.step, order.agent)
    return f"{name} {fenced(f'{order.call.tool} {order.call.excerpt}'[:180])}"


def planned_tool(plan: GraphPlan, state: CrewState, order: CallRequest) -> PlanTool:
    """The settings of the tool that is to be called: one of the crew, or a built-in one."""
    step = state.frontier.get(order.step)  # a call may end after its step
    return plan.plan_tool_of(step, order.call.tool or "") or BUILT_IN_RULES


def _policy(retry: Retry) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=timedelta(seconds=retry.first),
        backoff_coefficient=retry.backoff,
        # The server takes no other: it would refuse the workflow task, again and again.
        maximum_interval=timedelta(seconds=max(retry.first, retry.longest)),
        maximum_attempts=retry.attempts,
    )
