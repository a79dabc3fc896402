"""What the calls of a run wait for, as the server tells it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio.api.common.v1 import ActivityType
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import DataConverter

from crewlog.cli.delays import pending_words
from crewlog.client.gateway import Gateway
from crewlog.client.pending_calls import doing, failure_of, pending_calls
from crewlog.ids import RunId
from crewlog.reporting.trace.view import PendingCall
from crewlog.state.calls import CALL_MODEL, CALL_TOOL, STORE_BATCH
from crewlog.testing import CrewlogLocal

START_TO_CLOSE = TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE
HEARTBEAT = TimeoutType.TIMEOUT_TYPE_HEARTBEAT

AT_WORK = PendingCall("call_model", "", 1, 5, attempt_at=0)
AGAIN = replace(AT_WORK, reason="failure", attempt=2, next_at=1)
QUEUED = replace(AT_WORK, reason="worker")


class Limited(BaseHTTPRequestHandler):
    """A model's service that allows no more calls for now."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}'
        self.send_response(429)
        self.send_header("Retry-After", "30")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Limited)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.usefixtures("limited")
async def test_a_rate_limit_is_told_from_other_failures(crewlog_local: CrewlogLocal) -> None:
    crew = {"crew": "limited", "model": "openai:m", "agents": {"a": {"prompt": "Work."}}}
    run = await crewlog_local.start(crew, timeout=120)
    gateway = (await crewlog_local.client()).gateway
    async with asyncio.timeout(60):
        while not any(c.is_waiting for c in await pending_calls(gateway, run.id)):  # noqa: ASYNC110 - the server tells
            await asyncio.sleep(0.02)
    (call,) = await pending_calls(gateway, run.id)
    await run.terminate("seen")
    assert (call.reason, call.attempt, call.step) == ("rate_limit", 2, "a#1")
    assert "Rate limit reached" in call.error
    assert call.next_at is not None
    assert call.scheduled_at is not None
    assert call.next_at - call.scheduled_at >= 20_000
    assert "waits for a rate limit: attempt 2 of " in pending_words(call)


@pytest.mark.parametrize(
    ("activity", "timeout", "error", "message", "remedy"),
    [
        (
            CALL_MODEL,
            START_TO_CLOSE,
            "ModelUnavailable",
            "the model did not answer in time",
            "`timeout` of the agent",
        ),
        (
            CALL_TOOL,
            START_TO_CLOSE,
            "Timeout",
            "the tool did not answer in time",
            "`timeout` of the tool",
        ),
        (CALL_TOOL, HEARTBEAT, "Timeout", "sent no heartbeat in time", "`heartbeat` of the tool"),
        (STORE_BATCH, START_TO_CLOSE, "Timeout", "it did not answer in time", ""),
    ],
)
async def test_a_timeout_is_told_with_the_setting_that_helps(
    activity: str, timeout: TimeoutType.ValueType, error: str, message: str, remedy: str
) -> None:
    temporal = SimpleNamespace(namespace="default", data_converter=DataConverter())
    gateway = cast("Gateway", SimpleNamespace(temporal=temporal))
    pending = PendingActivityInfo(activity_type=ActivityType(name=activity))
    pending.last_failure.message = "activity StartToClose timeout"
    pending.last_failure.timeout_failure_info.timeout_type = timeout
    kind, said, told = await failure_of(gateway, RunId("r"), pending)
    assert kind == error
    assert message in said
    assert remedy in told
    assert "StartToClose" not in said


@pytest.mark.parametrize(
    ("calls", "status"),
    [
        ((), "running"),
        ((AT_WORK, AGAIN), "running"),
        ((AGAIN, QUEUED), "retrying"),
        ((replace(AGAIN, reason="", next_at=None),), "retrying"),
        ((QUEUED,), "waiting"),
    ],
)
def test_a_run_is_what_all_of_its_calls_are(calls: tuple[PendingCall, ...], status: str) -> None:
    assert doing(calls) == status
