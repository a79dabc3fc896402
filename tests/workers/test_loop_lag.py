"""The log says where a worker's own event loop is blocked."""

from __future__ import annotations

import asyncio
import time

from structlog.testing import capture_logs

from crewlog.workers.loop_lag import watch_loop


async def test_a_blocked_loop_is_logged_once_with_its_position() -> None:
    with capture_logs() as logs, watch_loop(interval=0.05, blocked_after=0.1):
        await asyncio.sleep(0.5)
        assert not logs
        began = time.monotonic()
        while not logs and time.monotonic() - began < 30:
            time.sleep(0.05)  # noqa: ASYNC251 - on purpose
        time.sleep(0.5)  # noqa: ASYNC251
    (line,) = logs
    assert line["event"] == "the worker's event loop is blocked"
    assert "test_loop_lag.py" in line["at"][0]
