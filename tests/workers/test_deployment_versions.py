"""A worker's build: its deployment options, and what the worker logs."""

from __future__ import annotations

import shlex
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from temporalio.api.enums.v1 import ContinueAsNewVersioningBehavior
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode

from crewlog.dev import doctor
from crewlog.temporal_service.cli import shell_command
from crewlog.temporal_service.deployments import can_pin, make_current_command
from crewlog.testing import scripted
from crewlog.workers.settings import WorkerSettings
from crewlog.workers.worker import deployment_config, log_current_build
from crewlog.workers.workflow_runner import CrewInstance
from shared import LIMIT, Lab

ADDRESS = "temporal.example:7233"
COMMAND = "temporal worker deployment set-current-version"


class Service:
    """A server of a version, with a current build, or none, or no answer."""

    def __init__(self, version: str = "", current: str | RPCStatusCode = "") -> None:
        self._version, self._current = version, current

    async def get_system_info(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(server_version=self._version)

    async def describe_worker_deployment(self, *_: Any, **__: Any) -> Any:
        if isinstance(self._current, RPCStatusCode):
            raise RPCError("no", self._current, b"")
        current = SimpleNamespace(build_id=self._current)
        routing = SimpleNamespace(current_deployment_version=current)
        return SimpleNamespace(worker_deployment_info=SimpleNamespace(routing_config=routing))


def client(service: Service) -> Client:
    config = SimpleNamespace(target_host=ADDRESS)
    return cast(
        "Client",
        SimpleNamespace(
            workflow_service=service,
            service_client=SimpleNamespace(config=config),
            namespace="crews",
        ),
    )


@pytest.mark.parametrize(
    ("version", "can"),
    [
        ("1.31.2", True),
        ("1.31.0-151.3", True),
        ("2.0.0", True),
        ("1.30.4", False),
        ("1.29.1", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_which_servers_move_pinned_runs(version: str, can: bool) -> None:
    assert can_pin(version) is can


async def test_without_a_build_id_there_is_no_version() -> None:
    config = await deployment_config(client(Service("1.31.2")), WorkerSettings())
    assert not config.use_worker_versioning
    assert config.version.build_id == version("crewlog")


async def test_a_build_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWLOG_BUILD_ID", "2026-03")
    monkeypatch.setenv("CREWLOG_DEPLOYMENT", "press")
    config = await deployment_config(client(Service("1.31.2")), WorkerSettings())
    assert config.version == WorkerDeploymentVersion("press", "2026-03")
    assert config.use_worker_versioning
    assert config.default_versioning_behavior is VersioningBehavior.PINNED


@pytest.mark.parametrize(
    ("current", "said"),
    [
        ("a", "this build is current"),
        ("b", "build 'b' is current"),
        ("", "no build is current"),
        (RPCStatusCode.NOT_FOUND, "no build is current"),
        (RPCStatusCode.PERMISSION_DENIED, "cannot read which build"),
    ],
)
async def test_the_worker_logs_the_current_build(current: str | RPCStatusCode, said: str) -> None:
    with capture_logs() as logs:
        await log_current_build(
            client(Service(current=current)), WorkerDeploymentVersion("press", "a")
        )
    assert said in logs[0]["event"]
    command = logs[0].get("command", "")
    assert bool(command) == (said.endswith("is current") and current != "a")
    if command:
        expected = make_current_command(await shell_command(), ADDRESS, "crews", "press", "a")
        assert command == expected


def test_the_logged_command_is_quoted() -> None:
    words = shlex.split(make_current_command("/a b/temporal", ADDRESS, "a b", "press", "v1;rm"))
    assert words[:4] == ["/a b/temporal", "worker", "deployment", "set-current-version"]
    assert words[words.index("--address") + 1] == ADDRESS
    assert words[-4:] == ["--deployment-name", "press", "--build-id", "v1;rm"]
    assert words[words.index("--namespace") + 1] == "a b"


@pytest.mark.server
async def test_on_a_server_that_cannot_move_pinned_runs_they_are_unpinned(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker says so, and runs go on although no build is current."""

    async def too_old(_: object) -> str:
        return "1.30.4"

    monkeypatch.setattr("crewlog.workers.worker.server_version", too_old)
    model = scripted({"agents": {"a": [{"text": "A"}]}})
    crew = {"crew": "x", "model": model, "agents": {"a": {"prompt": "Say A."}}}
    with capture_logs() as logs:
        async with lab.worker(build_id="a"):
            run = await lab.start(crew)
            result = await run.result(LIMIT)
    assert result.status == "completed"
    [warning] = [each for each in logs if "not pinned" in each["event"]]
    assert (warning["build_id"], warning["log_level"]) == ("a", "warning")
    assert warning["server"] == "1.30.4"
    events = [
        e async for e in lab.client.temporal.get_workflow_handle(run.id).fetch_history_events()
    ]
    done = [e.workflow_task_completed_event_attributes for e in events]
    assert not [e for e in done if e.deployment_version.build_id]


@pytest.mark.parametrize(
    ("version", "current", "status", "said"),
    [
        ("1.29.1", "", "warn", "workers run unpinned"),
        ("1.31.2", "", "warn", "no build is current, and runs wait"),
        ("1.31.2", "b", "warn", "build 'b' is current; this one is 'a'"),
        ("1.31.2", "a", "ok", "build 'a' of 'press' is current"),
        ("1.31.2", RPCStatusCode.PERMISSION_DENIED, "warn", "could not be read"),
    ],
)
async def test_the_doctor_says_whether_the_build_gets_runs(
    version: str, current: str | RPCStatusCode, status: str, said: str
) -> None:
    check = await doctor._versions(client(Service(current=current)), version, "press", "a", COMMAND)
    assert (check.name, check.status) == ("Worker versions", status)
    assert said in check.detail
    assert (check.remedy == COMMAND) == ("; this one is 'a'" in check.detail)


async def test_the_next_execution_begins_on_the_current_build(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    behaviours: list[int] = []
    activate = CrewInstance.activate

    def recording(self: CrewInstance, act: WorkflowActivation) -> WorkflowActivationCompletion:
        completion = activate(self, act)
        behaviours.extend(
            command.continue_as_new_workflow_execution.initial_versioning_behavior
            for command in completion.successful.commands
            if command.HasField("continue_as_new_workflow_execution")
        )
        return completion

    monkeypatch.setattr(CrewInstance, "activate", recording)
    crew = {
        "crew": "long",
        "model": scripted({"agents": {"*": [{"text": f"{i}"} for i in range(20)]}}),
        "agents": {"a": {"prompt": "Write."}},
        "flow": ["a", {"if": "not done", "go": "a", "at_most": 15, "else": "end"}],
        "flags": {"done": False},
        "limits": {"events": 50},
    }
    async with lab.worker():
        result = await (await lab.start(crew)).result(LIMIT)
    assert result.executions > 1
    upgrades = ContinueAsNewVersioningBehavior.CONTINUE_AS_NEW_VERSIONING_BEHAVIOR_AUTO_UPGRADE
    assert behaviours == [upgrades] * (result.executions - 1)
