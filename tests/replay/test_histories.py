"""The histories of every behaviour replay with today's code, and a change that matters is seen."""

from __future__ import annotations

import base64
import getpass
import json
import re
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowReplayResult

from crewlog.graph.driver import graph_cache
from crewlog.payload_storage.converter import data_converter
from crewlog.state.recorder import Journal
from crewlog.workers.workflow_runner import CrewRunner
from crewlog.workflows.crew_run import CrewRun
from crewlog.workflows.sdk_workarounds import CrewRunInterceptor

from .behaviours import BEHAVIOURS

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))
LONGEST = 100 * 1024


def read(path: Path) -> WorkflowHistory:
    data = json.loads(path.read_text())
    return WorkflowHistory.from_json(data.pop("workflow_id"), data)


def history_of(name: str) -> Path:
    return next(path for path in HISTORIES if path.stem == name)


async def replay(history: WorkflowHistory, workflow: type[Any] = CrewRun) -> WorkflowReplayResult:
    """Replays a history, without a limit of time: a busy machine is no fault of the workflow."""
    replayer = Replayer(
        workflows=[workflow],
        workflow_runner=CrewRunner(),
        data_converter=data_converter(Path(tempfile.gettempdir()) / "unused", keys=None),
        interceptors=[CrewRunInterceptor()],
        debug_mode=True,  # the SDK's two seconds for a workflow task do not apply
    )
    return await replayer.replay_workflow(history, raise_on_replay_failure=False)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_it_replays(path: Path) -> None:
    """In a process that knows nothing yet, and in one in which LangGraph has answered before."""
    graph_cache.cache_clear()
    for _ in range(2):
        result = await replay(read(path))
        assert result.replay_failure is None


def test_every_behaviour_has_a_history() -> None:
    names = {re.sub(r"_\d+$", "", path.stem) for path in HISTORIES}
    assert names == set(BEHAVIOURS)


def test_a_continued_run_is_cut_in_mid_turn_and_in_a_join() -> None:
    paths = [path for path in HISTORIES if path.stem.startswith("continue_as_new")]
    continued = [state for path in paths if (state := carried_state(path))]
    assert len(continued) > 1
    assert any(state.get("routing", {}).get("arrivals") for state in continued)
    assert any(step.get("turn") for state in continued for step in state["frontier"].values())


def carried_state(path: Path) -> dict[str, Any]:
    """The state with which the execution of a history was continued; empty: it is the first."""
    started = json.loads(path.read_text())["events"][0]["workflowExecutionStartedEventAttributes"]
    [payload] = started["input"]["payloads"]
    carry: dict[str, Any] = json.loads(base64.b64decode(payload["data"])).get("carry") or {}
    return carry.get("state") or {}


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_it_is_small_and_says_nothing_of_a_machine(path: Path) -> None:
    text = path.read_text()
    assert len(text) < LONGEST
    identities = set(re.findall(r'"identity": "([^"]*)"', text))
    assert identities <= {"worker", "client", "history-service"}
    for word in (f"@{socket.gethostname()}", "/tmp/", "/home/", "/work/", str(Path.home())):  # noqa: S108
        assert word not in text
    assert f'"{getpass.getuser()}"' not in text


async def test_a_changed_workflow_does_not_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proof that these tests can fail: the same code, with one call scheduled otherwise."""
    text = history_of("loop").read_text().replace('"call_model"', '"call_oracle"')
    data = json.loads(text)
    changed = WorkflowHistory.from_json(data.pop("workflow_id"), data)
    result = await replay(changed)
    assert result.replay_failure is not None
    assert "call_oracle" in str(result.replay_failure) or "ondeterminism" in str(
        result.replay_failure
    )


async def recorded(data: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a replay journals."""
    found: list[Any] = []
    record = Journal.record

    def seen(self: Journal, entry: Any) -> Any:
        found.append(entry)
        return record(self, entry)

    monkeypatch.setattr(Journal, "record", seen)
    replayer = Replayer(
        workflows=[CrewRun],
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=data_converter(Path(tempfile.gettempdir()) / "unused", keys=None),
        interceptors=[CrewRunInterceptor()],
    )
    history = WorkflowHistory.from_json(data["workflow_id"], data)
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    assert result.replay_failure is None
    monkeypatch.undo()
    return found


async def test_a_query_before_a_failure_is_handled_changes_no_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = json.loads(history_of("step_failed_retried").read_text())
    whole = await recorded(data, monkeypatch)
    (end,) = (
        number
        for number, event in enumerate(data["events"], 1)
        if "activityTaskFailedEventAttributes" in event
    )
    cut = await recorded({**data, "events": data["events"][:end]}, monkeypatch)
    assert cut == whole[: len(cut)]
    assert "StepFailed" in [type(entry).__name__ for entry in cut]


@pytest.mark.parametrize("name", ["loop", "parallel_tools"])
async def test_a_query_before_a_task_begins_changes_no_entry(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that first reads a run for a query is given results whose task has not begun."""
    data = json.loads(history_of(name).read_text())
    whole = await recorded(data, monkeypatch)
    ends = [
        number
        for number, event in enumerate(data["events"], 1)
        if "activityTaskCompletedEventAttributes" in event
    ]
    more = 0
    for end in ends:
        cut = await recorded({**data, "events": data["events"][:end]}, monkeypatch)
        assert cut == whole[: len(cut)]
        more += len(cut) > 0
    assert more > 1
