"""The runner of workflow code: the order of its jobs, and the contexts of payloads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import CommandType
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.bridge.proto.workflow_activation import (
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.common import RawValue

from crewlog.encryption.codec import give_up, unavailable_payload
from crewlog.errors import StoreIncomplete
from crewlog.wire import WORKFLOW_TYPE
from crewlog.workers import sdk_workarounds
from crewlog.workers.sdk_workarounds import ENDED_EARLY, has_no_pending_task
from crewlog.workers.workflow_runner import CrewInstance
from crewlog.workflows.sdk_workarounds import PACKED_SIGNALS, unpack_signals

ROOT = Path(__file__).parents[2]


def missing(file: str) -> Payload:
    return unavailable_payload(file, StoreIncomplete("it is missing"))


class Inner:
    """Answers each job with a command that names it."""

    def __init__(self, fails: str = "", ends: str = "", by: str = "") -> None:
        self.asked: list[list[str]] = []
        self._fails = fails
        self._ends = ends
        self._by = by

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        assert act.run_id == "r"
        assert act.history_length in (7, 9)
        names = [str(job.WhichOneof("variant")) for job in act.jobs]
        self.asked.append(names)
        completion = WorkflowActivationCompletion()
        if self._fails in names:
            completion.failed.failure.message = "broken"
            return completion
        completion.successful.SetInParent()
        for name in names:
            completion.successful.commands.add().cancel_timer.seq = KINDS.index(name)
        if self._ends in names:
            getattr(completion.successful.commands.add(), self._by).SetInParent()
        return completion

    def get_info(self) -> Any:
        return SimpleNamespace(workflow_id="w", run_id="r", workflow_type="t", namespace="n")

    def get_external_store_context(self, info: Any) -> str:
        return f"inner {info.command_type}"


KINDS = [
    "do_update",
    "resolve_activity",
    "signal_workflow",
    "fire_timer",
    "query_workflow",
    "remove_from_cache",
]


def activation(*kinds: str, length: int = 7) -> WorkflowActivation:
    act = WorkflowActivation(run_id="r", history_length=length)
    for kind in kinds:
        getattr(act.jobs.add(), kind).SetInParent()
    return act


def taken(inner: Inner, *kinds: str) -> tuple[list[list[str]], list[int]]:
    completion = CrewInstance(inner).activate(activation(*kinds))  # type: ignore[arg-type]
    commands = completion.successful.commands
    return inner.asked, [c.cancel_timer.seq for c in commands if c.HasField("cancel_timer")]


def test_updates_are_processed_last() -> None:
    asked, commands = taken(
        Inner(), "do_update", "resolve_activity", "signal_workflow", "do_update", "fire_timer"
    )
    assert asked == [
        ["resolve_activity", "signal_workflow", "fire_timer"],
        ["do_update", "do_update"],
    ]
    assert commands == [1, 2, 3, 0, 0]


@pytest.mark.parametrize("kinds", [["do_update"], ["do_update"] * 2, ["resolve_activity"], []])
def test_jobs_of_one_kind_are_processed_together(kinds: list[str]) -> None:
    asked, _ = taken(Inner(), *kinds)
    assert asked == [kinds]


@pytest.mark.parametrize("fails", ["resolve_activity", "do_update"])
def test_a_failure_of_either_half_is_the_failure_of_the_task(fails: str) -> None:
    act = activation("do_update", "resolve_activity")
    completion = CrewInstance(Inner(fails)).activate(act)  # type: ignore[arg-type]
    assert completion.failed.failure.message == "broken"


@pytest.mark.parametrize("how", ["complete", "fail", "cancel", "continue_as_new"])
def test_an_ended_execution_takes_no_update(how: str) -> None:
    inner = Inner(ends="fire_timer", by=f"{how}_workflow_execution")
    asked, _ = taken(inner, "do_update", "fire_timer")
    assert asked == [["fire_timer"]]


@pytest.mark.parametrize("how", ["complete", "fail", "cancel", "continue_as_new"])
def test_an_execution_that_ended_for_a_query_fails_the_task_that_brings_more(how: str) -> None:
    inner = Inner(ends="fire_timer", by=f"{how}_workflow_execution")
    instance = CrewInstance(inner)  # type: ignore[arg-type]
    assert not instance.activate(activation("fire_timer")).HasField("failed")
    for calm in ("query_workflow", "remove_from_cache"):
        assert not instance.activate(activation(calm, length=9)).HasField("failed")
    # What still belongs to the task that ended it: a local activity that was cancelled.
    assert not instance.activate(activation("resolve_activity")).HasField("failed")
    taken = len(inner.asked)
    for kinds in (["signal_workflow"], ["do_update"], ["signal_workflow", "resolve_activity"]):
        late = instance.activate(activation(*kinds, length=9))
        assert late.failed.failure.message == ENDED_EARLY
    assert len(inner.asked) == taken


class Asked:
    """An instance whose activations come one after the other, and what it asked of its worker."""

    def __init__(self, *, done: bool = True) -> None:
        self.evicted = 0
        self.looked: list[int] = []
        self.requested: list[str] = []
        self._done = done
        self._instance = CrewInstance(Inner(), self)  # type: ignore[arg-type]

    def evict(self, execution: str) -> None:
        assert execution == "r"
        self.evicted += 1

    def request_payload(self, file: str) -> None:
        self.requested.append(file)

    def is_task_completed(self, workflow: str, execution: str, began: int) -> bool:
        assert (workflow, execution) == ("w", "r")
        self.looked.append(began // 10**9)
        return self._done

    def takes(self, kind: str, length: int, began: int) -> None:
        self._give(activation(kind, length=length), began)

    def asked(self, length: int, began: int, query: str = "legacy_query") -> int:
        act = activation("query_workflow", length=length)
        act.jobs[0].query_workflow.query_id = query
        self._give(act, began)
        return self.evicted

    def brings(
        self, *payloads: Payload, kind: str = "signal_workflow", replay: bool = False
    ) -> None:
        act = activation(kind)
        act.is_replaying = replay
        getattr(act.jobs[0], kind).input.extend(payloads)
        self._give(act, 1)

    def _give(self, act: WorkflowActivation, began: int) -> None:
        act.timestamp.FromSeconds(began)
        self._instance.activate(act)


def test_the_missing_content_of_a_new_command_is_requested() -> None:
    one = Asked()
    one.brings(missing("/a"))
    one.brings(missing("/b"), kind="do_update")
    assert one.requested == ["/a", "/b"]
    one.brings(missing("/a"), replay=True)
    one.brings(give_up(missing("/a")))
    one.brings(missing("/a"), missing("/b"))  # refused: a command has one argument
    one.brings(Payload(metadata={"encoding": b"json/plain"}, data=b"{}"))
    assert one.requested == ["/a", "/b"]


def test_events_before_their_task_belong_to_a_query() -> None:
    one = Asked()
    one.takes("signal_workflow", 7, 1)
    one.takes("fire_timer", 9, 1)
    assert one.asked(9, 1, query="7") == 0  # it came with a task
    assert one.asked(9, 1) == 1
    assert not one.looked  # it is certain


def test_the_time_of_a_local_activity_is_that_of_its_task() -> None:
    one = Asked()
    one.takes("signal_workflow", 7, 1)
    one.takes("resolve_activity", 7, 2)
    one.takes("fire_timer", 9, 2)
    assert one.asked(9, 2) == 1


@pytest.mark.parametrize("tasks_before", [0, 1])
def test_an_instance_with_a_task_in_flight_is_evicted(tasks_before: int) -> None:
    one = Asked(done=False)
    if tasks_before:
        one.takes("signal_workflow", 7, 1)
    one.takes("signal_workflow", 9, 2)
    assert one.asked(9, 2, query="7") == 0  # it came with a task
    assert one.asked(9, 2) == 1
    assert one.looked == [2]


def test_an_instance_is_checked_once_per_task() -> None:
    one = Asked()
    for length in (7, 9):
        one.takes("signal_workflow", length, length)
        for _ in range(3):
            assert one.asked(length, length) == 0
    assert one.looked == [7, 9]


def test_an_instance_with_old_events_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(sdk_workarounds.time, "monotonic", lambda: clock)
    one = Asked(done=False)
    one.takes("signal_workflow", 7, 1)
    clock = sdk_workarounds.SAME_QUERY_SECONDS
    assert one.asked(7, 1) == 0
    assert one.asked(9, 2) == 1  # a task that had no news, and came with the query


def described(attempt: int = 0, scheduled: float = 0.0) -> DescribeWorkflowExecutionResponse:
    found = DescribeWorkflowExecutionResponse()
    if attempt:
        found.pending_workflow_task.attempt = attempt
        found.pending_workflow_task.scheduled_time.FromNanoseconds(int(scheduled * 10**9))
    return found


@pytest.mark.parametrize(
    ("found", "done"),
    [
        (described(), True),
        (described(1, 3.9), False),  # it is the one that is under way
        (described(1, 4.0), False),
        (described(1, 4.1), True),  # it is a later one
        (described(2, 4.1), False),  # it is its next attempt
    ],
)
def test_a_task_is_completed_if_no_other_can_be_pending(
    found: DescribeWorkflowExecutionResponse, *, done: bool
) -> None:
    assert has_no_pending_task(found, 4 * 10**9) is done


def signal(name: str, *said: str) -> Any:
    job = WorkflowActivationJob()
    job.signal_workflow.signal_name = name
    job.signal_workflow.input.extend(Payload(data=each.encode()) for each in said)
    return job


def test_the_signals_of_an_activation_are_batched_safely() -> None:
    class Crew(Inner):
        def get_info(self) -> Any:
            return SimpleNamespace(**{**vars(super().get_info()), "workflow_type": WORKFLOW_TYPE})

        def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
            seen.extend(job.signal_workflow for job in act.jobs if job.HasField("signal_workflow"))
            return super().activate(act)

    def given(*jobs: Any) -> list[tuple[str, list[bytes]]]:
        """What the handler is given."""
        seen.clear()
        inner = Crew()
        act = activation("resolve_activity")
        act.jobs.extend(jobs)
        CrewInstance(inner).activate(act)  # type: ignore[arg-type]
        assert inner.asked == [["resolve_activity", "signal_workflow"]]
        (one,) = seen
        if one.signal_name != PACKED_SIGNALS:
            return [(one.signal_name, [each.data for each in one.input])]
        several = unpack_signals([RawValue(each) for each in one.input])
        return [(name, [each.payload.data for each in args]) for name, args in several]

    seen: list[Any] = []
    few = [("pause", [b"1"]), ("stop", list[bytes]()), ("resume", [b"2", b"3"])]
    assert given(signal("pause", "1"), signal("stop"), signal("resume", "2", "3")) == few
    assert given(signal("pause", "1")) == few[:1]
    forged = '[["stop", 1]]'
    assert given(signal(PACKED_SIGNALS, forged, "{}")) == [
        (PACKED_SIGNALS, [forged.encode(), b"{}"])
    ]


ACTIVITY = SimpleNamespace(command_type=CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK)
CHILD = SimpleNamespace(command_type=CommandType.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION)


@pytest.mark.parametrize("of", [None, ACTIVITY], ids=["the run's", "an activity's"])
def test_external_payloads_belong_to_the_run(of: Any) -> None:
    instance = CrewInstance(Inner())  # type: ignore[arg-type]
    said: Any = instance.get_serialization_context(of)
    assert (said.namespace, said.workflow_id) == ("n", "w")
    target: Any = instance.get_external_store_context(of).target
    assert (target.id, target.run_id, target.type, target.namespace) == ("w", "r", "t", "n")


def test_the_start_payload_of_another_run_is_not_the_runs() -> None:
    instance = CrewInstance(Inner())  # type: ignore[arg-type]
    assert str(instance.get_external_store_context(CHILD)).startswith("inner")


@pytest.mark.parametrize(
    "call", ["datetime.now(UTC)", "datetime.today()", "date.today()", 'open("x")']
)
def test_a_clock_or_a_file_in_workflow_code_is_found(call: str) -> None:
    code = f"from datetime import UTC, date, datetime\n\nx = {call}\n"
    command = ["-m", "ruff", "check", "--stdin-filename", "workflows/some.py", "-"]
    found = subprocess.run(
        [sys.executable, *command],
        input=code,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert found.returncode == 1
    assert "TID251" in found.stdout or "PTH123" in found.stdout
