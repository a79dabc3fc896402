"""Corrections of the Temporal SDK in workflow code.

Each one has its reason, its test, the report to the SDK's authors, and what ends it. Before another
minor version than that of `pyproject.toml` is pinned, try each. The modules of the same name in
`workers`, `payload_storage` and `temporal_service` have the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.common import RawValue
from temporalio.worker import (
    ExecuteWorkflowInput,
    HandleQueryInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from crewlog.failure_details import FailureDetails, application_error

NO_ARGUMENT = RawValue(Payload())
"""The default of a query's argument.

Reason: a parameter `RawValue | None` is not given the raw value, so a handler cannot check it.
Test: `test_an_optional_raw_value_is_not_raw` in `tests/workers/test_sdk_workarounds.py`.
Report: A query handler with the parameter `raw: RawValue | None = None` fails with "Payload … could
    not be converted". Expected: the same as for `RawValue`.
Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test no longer
    finds the error of the SDK.
"""

METADATA_QUERY = "__temporal_workflow_metadata"
"""The SDK's query for the details in the Web UI."""
POSITION_MEMO = "position"


class CrewRunInterceptor(Interceptor):
    """Corrects what every execution gets from the SDK."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,
    ) -> type[WorkflowInboundInterceptor]:
        """The interceptor of each execution."""
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        """Fails a run that was started without an argument or with several.

        Reason: the SDK calls the run method with all arguments of the start. Python's error fails
            the workflow task again and again, and nobody can correct the start.
        Test: `test_a_start_without_one_argument_fails_the_run` in
            `tests/workers/test_sdk_workarounds.py`.
        Report: Start a workflow whose run method has one parameter with two arguments, or with
            none. Its workflow task fails forever with a `TypeError`. Expected: the execution
            fails, since its input cannot change.
        Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the steps of
            the report give what is expected.
        """
        if len(input.args) != 1:
            raise application_error(
                f"the input of a run must be one JSON object, not {len(input.args)} arguments",
                "InvalidStart",
                FailureDetails(remedy="docs/wire.md has the fields."),
            )
        return await super().execute_workflow(input)

    async def handle_query(self, input: HandleQueryInput) -> Any:
        """Adds the details of a run to the result of the metadata query, when a client asks.

        Reason: `workflow.set_current_details` takes a text, so the workflow would have to make it
            at every workflow task.
        Test: `test_who_comes_again_over_a_swap_misses_nothing` in
            `tests/acceptance/test_watching.py`.
        Report: The current details are a text that is kept, not a function. A workflow with large
            details pays for them at each task, though they are read by few. Expected:
            `set_current_details` takes a function, which the metadata query calls.
        Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the steps of
            the report give what is expected.
        """
        result = await super().handle_query(input)
        if input.query == METADATA_QUERY and isinstance(result, WorkflowMetadata):
            run: Any = workflow.instance()
            result.current_details = run.details()
        return result


def separate_task(position: int) -> None:
    """Leaves an event in a workflow task that recorded entries and issued no command.

    Reason: if a task without a command is directly followed by another task, the SDK takes it for
        a heartbeat. Rejected updates and queries cause such tasks. A replay runs both tasks as one:
        at the later time, and with the update before the entries of the first task. So the
        replayed journal differs from the stored one (docs/decisions/0007).
    Test: `test_a_task_that_recorded_something_is_replayed_alone` in
        `tests/workers/test_sdk_workarounds.py`.
    Report: Send signals to a workflow that records `workflow.time()` for each and issues no
        command, and at the same time updates that its validator rejects. After an eviction, a query
        shows other times than before. Expected: a task that applied events is not merged with the
        next one.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test passes
        without it.

    Args:
        position: The position of the journal, which the Web UI shows.
    """
    workflow.upsert_memo({POSITION_MEMO: position})


PACKED_SIGNALS = "crewlog:packed-signals"
"""The name of the signal into which the worker packs the signals of an activation.

Reason: the SDK makes a coroutine, and much else, for each signal. That costs more than the work for
    a signal that is only counted. The handler never awaits, so the order is the same either way. A
    signal of that name from a client is packed, too, so no client can forge one.
Test: `test_the_signals_of_an_activation_are_batched_safely` in
    `tests/workers/test_workflow_runner.py`; its cost is that of `python -m tests.costs`.
Report: An activation with 1,000 signals to a dynamic handler spends most of its time in tasks that
    never await. Expected: a handler that is not a coroutine function is called without a task.
Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the steps of the
    report give what is expected.
"""


def pack_names(names: Sequence[tuple[str, int]]) -> Payload:
    """The first argument of the packed signal; the arguments of all signals follow, in order.

    Args:
        names: Each signal's name, and how many arguments it has.
    """
    return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(names).encode())


def unpack_signals(args: Sequence[RawValue]) -> Iterator[tuple[str, Sequence[RawValue]]]:
    """Yields the name and the arguments of each packed signal."""
    start = 1
    for name, count in json.loads(args[0].payload.data):
        yield name, args[start : start + count]
        start += count
