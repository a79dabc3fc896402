"""What is said where nobody is there: neither the server nor a worker; and what a crash said."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from temporalio.api.taskqueue.v1 import PollerInfo

from crewlog.cli.hands import Hand
from crewlog.cli.presence import Server, Worker
from crewlog.cli.screen import Screen
from crewlog.dev.pollers import POLLER_LIFE, alive
from crewlog.dev.processes import Watchdog, spawn
from crewlog.errors import WorkerMissing
from crewlog.workers.log_tail import END_EVENT, log_tail


async def _there() -> bool:
    return True


def test_a_server_that_is_away_is_told_once_and_taken_back() -> None:
    server = Server(Screen(), _there)
    assert server.take(False, 100.0, 101.0) is None
    assert server.doubtful
    assert not server.away
    said = server.take(False, 102.0, 103.0)
    at = time.strftime("%H:%M:%S", time.localtime(100.0))
    assert said is not None
    assert said.startswith(f"the Temporal server has not answered since {at}")
    assert server.away
    assert server.take(False, 104.0, 105.0) is None
    back = server.take(True, 106.0, 107.0)
    assert back == "the Temporal server answers again; it was away for 7.0 s"
    assert not server.away
    assert server.take(True, 108.0, 108.1) is None


def test_one_answer_that_was_late_is_no_news() -> None:
    server = Server(Screen(), _there)
    assert server.take(False, 100.0, 101.0) is None
    assert server.take(True, 102.0, 102.1) is None
    assert server.take(False, 110.0, 111.0) is None


async def test_a_look_for_a_worker_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("crewlog.cli.presence.AT_ONCE", 0.01)
    answer = asyncio.Event()

    async def polled() -> bool:
        await answer.wait()
        return False

    worker = Worker(Screen(), "crewlog", polled, 0.0)
    assert not await worker.look()
    answer.set()
    looks = [await worker.look() for _ in range(20)]
    assert any(looks)
    worker.tell()
    assert "no worker polls 'crewlog': run `crewlog dev`" in capsys.readouterr().err
    assert worker.alone
    assert not await worker.look()
    worker.end()


def test_pollers_that_died_are_not_there() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    host = platform.node()
    # Not reaped: a zombie has a pid, and is as dead.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    def poller(identity: str, ago: float) -> PollerInfo:
        found = PollerInfo(identity=identity)
        found.last_access_time.FromMilliseconds(int((time.time() - ago) * 1000))
        return found

    us = f"{os.getpid()}@{host}"
    listed = [
        poller(f"{child.pid}@{host}", 1),
        poller(us, 5),
        poller(us, 3),
        poller("7@elsewhere", 9),
        poller("8@elsewhere", POLLER_LIFE + 5),
    ]
    found = alive(listed)
    child.wait()
    assert found.keys() == {us, "7@elsewhere"}
    assert time.time() - found[us] == pytest.approx(3, abs=2)
    assert us in alive(listed)
    assert alive(listed[:1]) == {}


_REFUSED = """\
{"task_queue": "crewlog", "event": "working", "level": "info", "timestamp": "2026-01-01T10:00:00Z"}
WARNING:temporalio.activity:Completing activity as failed ({'activity_id': '1'})
Traceback (most recent call last):
  File "a.py", line 1, in <module>
crewlog.errors.CommandRejected: nobody is called 'x'
"""


def test_the_log_tail_has_the_lines_of_a_crash_only() -> None:
    assert log_tail(_REFUSED) == []
    mark = f'{{"event": "{END_EVENT}", "level": "critical", "timestamp": "2026-01-01T10:05:00Z"}}'
    log = f"{_REFUSED}{mark}\nthe store is away\n  Remedy: start it\n"
    assert log_tail(log) == ["the store is away", "  Remedy: start it"]
    assert log_tail(f"{_REFUSED}Fatal Python error: Aborted\n\nThread 1:\n")[0] == (
        "Fatal Python error: Aborted"
    )
    assert log_tail("ModuleNotFoundError: No module named 'x'\n") == [
        "ModuleNotFoundError: No module named 'x'"
    ]


def test_a_worker_that_was_told_to_end_did_not_end_by_itself(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text("")
    record = spawn([sys.executable, "-c", "import time; time.sleep(60)"], log)
    watchdog = Watchdog()
    try:
        hand = Hand(record, log, 0, watchdog)
        assert not hand.stopped
        os.kill(record.pid, signal.SIGTERM)
        until = time.monotonic() + 20
        while record.alive and time.monotonic() < until:
            time.sleep(0.01)
        assert hand.stopped
        with pytest.raises(WorkerMissing, match="the worker of this command was stopped"):
            hand.check()
    finally:
        watchdog.close()


def test_a_worker_that_was_killed_is_said_to_be(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text(_REFUSED)
    record = spawn([sys.executable, "-c", "import time; time.sleep(60)"], log)
    watchdog = Watchdog()
    try:
        hand = Hand(record, log, 0, watchdog)
        hand.check()
        os.kill(record.pid, 9)
        until = time.monotonic() + 20
        while record.alive and time.monotonic() < until:
            time.sleep(0.01)
        with pytest.raises(WorkerMissing) as ended:
            hand.check()
    finally:
        watchdog.close()
    assert "ended by itself (SIGKILL)" in ended.value.message
    assert "Traceback" not in str(ended.value)
    assert "`crewlog watch" not in ended.value.remedy
