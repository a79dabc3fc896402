"""The corrections of the SDK that no other test needs, and how all of them are documented."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import (
    WorkflowFailureError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import RawValue
from temporalio.envconfig import ClientConfigProfile
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from crewlog.payload_storage.converter import CrewPayloadConverter
from crewlog.temporal_service.sdk_workarounds import (
    own_cancellation,
    read_profile,
    sdk_logging,
)
from crewlog.wire import WORKFLOW_TYPE
from crewlog.workers.workflow_runner import CrewRunner
from early import Marked
from shared import LIMIT, Lab

ROOT = Path(__file__).parents[2]
MODULES = (
    "src/crewlog/payload_storage/sdk_workarounds.py",
    "src/crewlog/temporal_service/sdk_workarounds.py",
    "workers/sdk_workarounds.py",
    "workflows/sdk_workarounds.py",
)
PRIVATE = re.compile(r"\._bridge_worker|def _(de|en)code_reference|\"__temporal_|temporalio\S*\._")
TESTS = (ast.FunctionDef, ast.AsyncFunctionDef)
TRIES, SIGNALS = 10, 40


def docstrings(module: str) -> Iterator[str]:
    """The docstrings of classes, functions and constants."""
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield " ".join(str(node.value.value).split())


PARTS = re.compile(
    r"Reason: (?P<reason>.{40,}) "
    r"Test: `(?P<test>test_\w+)` in `(?P<file>tests/\S+\.py)`.* "
    r"Report: (?P<report>.{40,} Expected: .{10,}) "
    r"Needed until: (?P<end>.+)"
)
FIXED = re.compile(r"`temporalio` (?P<version>[\d.]+)\.")
NOT_FIXED = re.compile(
    r"no release of `temporalio` has a fix as of (?P<version>[\d.]+); remove it when "
    r"(the test passes without it|the test no longer finds the error of the SDK"
    r"|the steps of the report give what is expected)\."
)
"""A test of the correction alone cannot pass without it: then the steps of the report decide."""


def minor(number: str) -> list[int]:
    return [int(each) for each in number.split(".")[:2]]


@pytest.mark.parametrize("module", MODULES)
def test_each_correction_has_a_reason_a_test_a_report_and_an_end(module: str) -> None:
    corrections = [text for text in docstrings(module) if "Reason:" in text]
    assert corrections
    for text in corrections:
        parts = PARTS.search(text)
        assert parts, text
        tests = ast.parse((ROOT / parts["file"]).read_text()).body
        names = [each.name for each in tests if isinstance(each, TESTS)]
        assert parts["test"] in names, parts["test"]
        pinned = minor(version("temporalio"))
        end = parts["end"].partition(" Args:")[0]
        if fixed := FIXED.fullmatch(end):
            assert minor(fixed["version"]) > pinned, "delete the correction"
        else:
            not_fixed = NOT_FIXED.fullmatch(end)
            assert not_fixed, end
            assert minor(not_fixed["version"]) == pinned, "try it with the pinned version"


def test_private_names_of_the_sdk_are_used_in_these_modules_only() -> None:
    rooms = ("src", "workers", "workflows", "activities")
    files = [file for room in rooms for file in (ROOT / room).rglob("*.py")]
    found = {file for file in files if PRIVATE.search(file.read_text())}
    assert {"/".join(file.relative_to(ROOT).parts[-2:]) for file in found} <= {
        "/".join(Path(module).parts[-2:]) for module in MODULES
    }


def test_one_minor_version_of_the_sdk_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (pin,) = [each for each in project["dependencies"] if each.startswith("temporalio>=")]
    low, high = re.findall(r"1\.(\d+)", pin)
    assert int(high) == int(low) + 1 == int(version("temporalio").split(".")[1]) + 1


CONNECTS = """
import asyncio, sys
from temporalio.client import Client
from crewlog.payload_storage.converter import CrewPayloadConverter
from crewlog.temporal_service.sdk_workarounds import end_process

async def main() -> int:
    client = await Client.connect(sys.argv[1], namespace=sys.argv[2])
    [each async for each in client.list_workflows(page_size=1)]
    return 3

end_process(asyncio.run(main()))
"""


async def test_a_process_that_has_used_the_sdk_ends_with_its_exit_code(lab: Lab) -> None:
    temporal = lab.client.temporal
    command = [
        *(sys.executable, "-c", CONNECTS),
        *(temporal.service_client.config.target_host, temporal.namespace),
    ]
    for _ in range(TRIES):
        assert (await asyncio.to_thread(subprocess.run, command, check=False)).returncode == 3


def test_the_log_of_the_core_is_not_written_to_standard_output() -> None:
    forwarding = sdk_logging().forwarding
    assert forwarding is not None
    assert forwarding.logger.name == "temporalio"


def test_a_profile_is_read_from_any_mapping() -> None:
    with pytest.raises(TypeError, match="is not an instance of 'dict'"):
        ClientConfigProfile.load(override_env_vars=os.environ)
    assert read_profile(os.environ) is not None


async def test_a_cancelled_update_is_cancelled(lab: Lab) -> None:
    temporal, queue = lab.client.temporal, lab.client.task_queue
    handle = await temporal.start_workflow(
        "Nothing", id=queue, task_queue=queue, execution_timeout=timedelta(seconds=LIMIT)
    )

    async def update() -> None:
        with own_cancellation():
            await handle.execute_update("hear")

    for of, kind in (
        (handle.execute_update("hear"), WorkflowUpdateRPCTimeoutOrCancelledError),
        (update(), asyncio.CancelledError),
    ):
        task = asyncio.ensure_future(of)
        await asyncio.sleep(0.2)  # it is on its way; without a worker there is no answer
        task.cancel()
        await asyncio.wait({task})
        with pytest.raises(kind):
            task.result()
    await handle.terminate()


def test_an_optional_raw_value_is_not_raw() -> None:
    payload = CrewPayloadConverter().to_payloads([{"after": 1}])
    hints: Any = [RawValue | None]
    with pytest.raises(RuntimeError, match="could not be converted"):
        CrewPayloadConverter().from_payloads(payload, hints)


@pytest.mark.parametrize("arguments", [[], [{}, {}]])
async def test_a_start_without_one_argument_fails_the_run(lab: Lab, arguments: list[Any]) -> None:
    temporal, queue = lab.client.temporal, lab.client.task_queue
    async with lab.worker():
        with pytest.raises(WorkflowFailureError) as failed:
            await temporal.execute_workflow(
                WORKFLOW_TYPE,
                args=arguments,
                id=f"{queue}-{len(arguments)}",
                task_queue=queue,
                execution_timeout=timedelta(seconds=LIMIT),
            )
    cause = failed.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == "InvalidStart"
    assert f"not {len(arguments)} arguments" in cause.message


async def test_a_task_that_recorded_something_is_replayed_alone(lab: Lab) -> None:
    """The tasks of rejected updates follow those of signals at once."""
    temporal, queue = lab.client.temporal, lab.client.task_queue
    worker: dict[str, Any] = {"workflows": [Marked], "workflow_runner": CrewRunner()}
    handle = await temporal.start_workflow(
        Marked.run,
        True,
        id=queue,
        task_queue=queue,
        execution_timeout=timedelta(seconds=LIMIT),
    )

    async def send_updates() -> None:
        for _ in range(SIGNALS):
            with suppress(WorkflowUpdateFailedError):
                await handle.execute_update(Marked.refused)

    async with Worker(temporal, task_queue=queue, **worker):
        updates = asyncio.create_task(send_updates())
        for _ in range(SIGNALS):
            await handle.signal(Marked.say)
            await asyncio.sleep(0.01)
        await updates
        times = await handle.query(Marked.times)
    async with Worker(temporal, task_queue=queue, **worker):
        assert await handle.query(Marked.times) == times
    await handle.terminate()
