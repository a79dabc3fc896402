"""The runner of workflow code: what it refuses, and the order in which it takes what comes."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import CommandType
from temporalio.bridge.proto.workflow_activation import (
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import WorkflowFailureError
from temporalio.common import RawValue
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import RestrictedWorkflowAccessError

from crewlog.wire import WORKFLOW_TYPE
from crewlog.workers.progress import AHEAD
from crewlog.workers.sandbox import ENDED_EARLY, Instance, sandbox
from crewlog.workflows.together import TOGETHER, apart
from curious import Curious
from shared import Lab

ROOT = Path(__file__).parents[2]


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
    completion = Instance(inner).activate(activation(*kinds))  # type: ignore[arg-type]
    commands = completion.successful.commands
    return inner.asked, [c.cancel_timer.seq for c in commands if c.HasField("cancel_timer")]


def test_updates_are_taken_after_all_else() -> None:
    asked, commands = taken(
        Inner(), "do_update", "resolve_activity", "signal_workflow", "do_update", "fire_timer"
    )
    assert asked == [
        ["resolve_activity", "signal_workflow", "fire_timer"],
        ["do_update", "do_update"],
    ]
    assert commands == [1, 2, 3, 0, 0]


@pytest.mark.parametrize("kinds", [["do_update"], ["do_update"] * 2, ["resolve_activity"], []])
def test_what_is_of_one_kind_is_taken_at_once(kinds: list[str]) -> None:
    asked, _ = taken(Inner(), *kinds)
    assert asked == [kinds]


@pytest.mark.parametrize("fails", ["resolve_activity", "do_update"])
def test_a_failure_of_either_half_is_the_failure_of_the_task(fails: str) -> None:
    act = activation("do_update", "resolve_activity")
    completion = Instance(Inner(fails)).activate(act)  # type: ignore[arg-type]
    assert completion.failed.failure.message == "broken"


@pytest.mark.parametrize("how", ["complete", "fail", "cancel", "continue_as_new"])
def test_an_execution_that_has_ended_takes_no_update(how: str) -> None:
    inner = Inner(ends="fire_timer", by=f"{how}_workflow_execution")
    asked, _ = taken(inner, "do_update", "fire_timer")
    assert asked == [["fire_timer"]]


@pytest.mark.parametrize("how", ["complete", "fail", "cancel", "continue_as_new"])
def test_an_execution_that_ended_for_a_query_fails_the_task_that_brings_more(how: str) -> None:
    inner = Inner(ends="fire_timer", by=f"{how}_workflow_execution")
    instance = Instance(inner)  # type: ignore[arg-type]
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


class Making:
    """Answers each activation with the commands that it was told to make."""

    def __init__(self, *commands: str) -> None:
        self._commands = commands
        self.taken = 0

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        self.taken += 1
        completion = WorkflowActivationCompletion()
        completion.successful.SetInParent()
        if any(not job.HasField("query_workflow") for job in act.jobs):
            for each in self._commands:
                kind, _, part = each.partition(" ")
                command = getattr(completion.successful.commands.add(), kind)
                command.SetInParent()
                if part:
                    getattr(command, part).SetInParent()
        return completion

    def get_info(self) -> Any:
        return SimpleNamespace(workflow_id="w", run_id="r", workflow_type="t", namespace="n")


def resolved(how: str, started: int = 0) -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    getattr(job.resolve_activity.result, how).SetInParent()
    if started:
        info = job.resolve_activity.result.failed.failure.activity_failure_info
        info.started_event_id = started
    return job


def asked(inner: Making, *, alone: bool = True) -> Instance:
    """An instance that took a signal at a history of 9 events, and a query then."""
    instance = Instance(inner)  # type: ignore[arg-type]
    instance.activate(activation("signal_workflow", length=9))
    query = activation("query_workflow", length=9)
    query.jobs[0].query_workflow.query_id = "legacy_query" if alone else "7"
    instance.activate(query)
    return instance


SAID = activation("signal_workflow").jobs[0]
LOCAL = WorkflowActivationJob()
LOCAL.resolve_activity.is_local = True


@pytest.mark.parametrize(
    ("commands", "news", "shortest"),
    [
        # 10 completed, 11 scheduled, 12 started, and what there must be besides.
        ((), [SAID], 13),
        (("upsert_workflow_search_attributes",), [SAID], 14),
        (("schedule_activity", "modify_workflow_properties"), [SAID], 15),
        (("schedule_activity", "request_cancel_activity"), [SAID], 13),
        (("start_timer", "cancel_timer"), [SAID], 13),
        (("schedule_local_activity", "update_response rejected"), [SAID], 13),
        (("update_response accepted", "update_response completed"), [SAID], 15),
        (("set_patch_marker",), [resolved("completed")], 15),
        (("start_timer",), [resolved("failed", started=8)], 15),
        (("start_timer",), [resolved("failed")], 14),
        (("start_timer",), [resolved("cancelled")], 13),
        (("start_timer",), [LOCAL], 13),
        (("start_timer",), [resolved("completed"), resolved("completed"), SAID], 18),
        (("start_timer",), [activation("do_update").jobs[0]], 13),
    ],
)
def test_an_instance_that_went_ahead_for_a_query_fails_the_task_that_brings_more(
    commands: tuple[str, ...], news: list[WorkflowActivationJob], shortest: int
) -> None:
    def late(length: int) -> WorkflowActivation:
        return WorkflowActivation(run_id="r", history_length=length, jobs=news)

    done = asked(Making(*commands)).activate(late(shortest))
    assert not done.HasField("failed")
    inner = Making(*commands)
    failed = asked(inner).activate(late(shortest - 1))
    assert failed.failed.failure.message == AHEAD
    assert inner.taken == 2  # the signal and the query
    # Nobody has asked, or with the task: it is completed.
    quiet = Instance(Making(*commands))  # type: ignore[arg-type]
    quiet.activate(activation("signal_workflow", length=9))
    assert not quiet.activate(late(shortest - 1)).HasField("failed")
    with_it = asked(Making(*commands), alone=False)
    assert not with_it.activate(late(shortest - 1)).HasField("failed")


def test_what_still_belongs_to_the_task_that_a_query_met_is_taken() -> None:
    instance = asked(Making("start_timer"))
    assert not instance.activate(activation("resolve_activity", length=9)).HasField("failed")
    late = instance.activate(activation("signal_workflow", length=13))
    assert late.failed.failure.message == AHEAD


def test_a_query_is_forgotten_with_the_next_task() -> None:
    instance = asked(Making("start_timer"))
    assert not instance.activate(activation("signal_workflow", length=14)).HasField("failed")
    assert not instance.activate(activation("signal_workflow", length=15)).HasField("failed")


def signal(name: str, *said: str) -> Any:
    job = WorkflowActivationJob()
    job.signal_workflow.signal_name = name
    job.signal_workflow.input.extend(Payload(data=each.encode()) for each in said)
    return job


def test_the_signals_of_an_activation_come_as_one_that_nobody_else_can_send() -> None:
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
        Instance(inner).activate(act)  # type: ignore[arg-type]
        assert inner.asked == [["resolve_activity", "signal_workflow"]]
        (one,) = seen
        if one.signal_name != TOGETHER:
            return [(one.signal_name, [each.data for each in one.input])]
        several = apart([RawValue(each) for each in one.input])
        return [(name, [each.payload.data for each in args]) for name, args in several]

    seen: list[Any] = []
    few = [("pause", [b"1"]), ("stop", list[bytes]()), ("resume", [b"2", b"3"])]
    assert given(signal("pause", "1"), signal("stop"), signal("resume", "2", "3")) == few
    assert given(signal("pause", "1")) == few[:1]
    forged = '[["stop", 1]]'
    assert given(signal(TOGETHER, forged, "{}")) == [(TOGETHER, [forged.encode(), b"{}"])]


ACTIVITY = SimpleNamespace(command_type=CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK)
CHILD = SimpleNamespace(command_type=CommandType.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION)


@pytest.mark.parametrize("of", [None, ACTIVITY], ids=["the run's", "an activity's"])
def test_what_a_run_stores_outside_is_stored_for_the_run(of: Any) -> None:
    instance = Instance(Inner())  # type: ignore[arg-type]
    said: Any = instance.get_serialization_context(of)
    assert (said.namespace, said.workflow_id) == ("n", "w")
    target: Any = instance.get_external_store_context(of).target
    assert (target.id, target.run_id, target.type, target.namespace) == ("w", "r", "t", "n")


def test_what_another_run_is_started_with_is_not_the_runs() -> None:
    instance = Instance(Inner())  # type: ignore[arg-type]
    assert str(instance.get_external_store_context(CHILD)).startswith("inner")


@pytest.mark.parametrize("what", ["file", "clock"])
async def test_the_sandbox_is_on(lab: Lab, what: str) -> None:
    worker = Worker(
        lab.client.temporal,
        task_queue=lab.client.task_queue,
        workflows=[Curious],
        workflow_runner=sandbox(),
        workflow_failure_exception_types=[RestrictedWorkflowAccessError],
    )
    async with worker:
        with pytest.raises(WorkflowFailureError) as caught:
            await lab.client.temporal.execute_workflow(
                Curious.run,
                what,
                id=f"curious-{what}",
                task_queue=lab.client.task_queue,
                execution_timeout=timedelta(seconds=120),
            )
    assert "RestrictedWorkflowAccessError" in str(caught.value.cause) + repr(caught.value.cause)


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
