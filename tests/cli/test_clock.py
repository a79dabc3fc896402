"""`ask`, `schedule`, and what is told of a run that waits for a time; on real servers."""

from __future__ import annotations

import json
import time
from pathlib import Path
from uuid import uuid4

import pytest

from .conftest import Cli

pytestmark = pytest.mark.server


def fresh(name: str) -> str:
    return f"{name}-{uuid4().hex[:6]}"


@pytest.fixture
def waiting(project: Path) -> str:
    """The file of a crew that waits until the end of 2099."""
    (project / "waiting.yaml").write_text(
        "crew: waiting\nmodel: scripted:script.yaml\n"
        "agents:\n  first: {prompt: P., tools: []}\n"
        "flow:\n  - {wait_until: '2099-12-31T12:00:00Z', phase: new_year}\n  - first\n"
    )
    return "waiting.yaml"


def test_ask_prints_the_answer_and_nothing_else(crewlog: Cli) -> None:
    done = crewlog("ask", "two.yaml", "Well?")
    assert (done.code, done.out) == (0, "ok\n"), done.err
    known = crewlog("ask", "two", "Well?", "--json").records[0]
    assert known["status"] == "completed"
    assert set(known["outputs"]) == {"first", "second"}


def test_ask_brings_a_worker_of_its_own(crewlog: Cli, alone: Path) -> None:
    done = crewlog("ask", "slow.yaml", "Well?", cwd=alone)
    assert (done.code, done.out) == (0, "slept\n"), done.err


def test_ask_waits_no_longer_than_it_is_told(crewlog: Cli, waiting: str) -> None:
    run = fresh("patient")
    done = crewlog("ask", waiting, "Well?", "--id", run, "--timeout", "2")
    assert done.code == 3
    assert f"the run '{run}' did not end within 2 s; it goes on" in done.err
    assert f"crewlog watch {run}" in done.err
    assert crewlog("stop", run).code == 0
    again = crewlog("ask", waiting, "Well?", "--id", run)
    assert again.code == 2
    assert "there is a run" in again.err


def test_a_prompt_is_not_asked(crewlog: Cli) -> None:
    done = crewlog("ask", "The writer writes.", "Well?")
    assert done.code == 2
    assert "a prompt must be approved before it runs" in done.err


def test_show_tells_until_when_a_run_waits(crewlog: Cli, waiting: str) -> None:
    run = fresh("until")
    assert crewlog("run", waiting, "--id", run, "--detach").code == 0
    deadline = time.monotonic() + 60
    while not (page := json.loads(crewlog("show", run, "--json").out))["frontier"]:
        assert time.monotonic() < deadline
    assert page["status"] == "waiting"
    assert page["wait_reason"] == "new_year: until 2099-12-31 12:00 UTC"
    (entry,) = page["frontier"]
    assert (entry["status"], entry["wait_reason"]) == ("waiting", "until 2099-12-31 12:00 UTC")
    assert entry["deadline"] == 4_102_401_600_000
    assert "until 2099-12-31 12:00 UTC" in crewlog("show", run).out
    assert "TimerStarted" in crewlog("log", run).out
    assert crewlog("stop", run).code == 0


def test_a_schedule_from_its_beginning_to_its_end(crewlog: Cli) -> None:
    name = fresh("nightly")
    made = crewlog("schedule", "create", name, "two", "--every", "1d", "--paused", "--input", "hi")
    assert made.code == 0, made.err
    assert made.out == f"✓ schedule {name}: every 1d, paused\n"
    assert crewlog("schedule", "create", name, "two", "--every", "1d").code == 2
    assert name in crewlog("schedule", "list").out
    resumed = crewlog("schedule", "resume", name, "--json").records[0]
    assert (resumed["name"], resumed["paused"], resumed["done"]) == (name, False, "goes on")
    assert resumed["note"] == "", "nobody said anything"
    page = crewlog("schedule", "show", name).out
    assert "next at" not in page
    assert "0 runs" in page
    assert crewlog("schedule", "pause", name, "--note", "holidays").code == 0
    assert crewlog("schedule", "trigger", name).code == 0
    deadline = time.monotonic() + 60
    while not (view := crewlog("schedule", "show", name, "--json").records[0])["recent"]:
        assert time.monotonic() < deadline
    assert (view["crew"], view["paused"], view["note"]) == ("two", True, "holidays")
    (run,) = view["recent"]
    assert run.startswith(f"{name}-20")
    assert crewlog("watch", run).code == 0
    assert "holidays" in crewlog("schedule", "show", name).out
    (listed,) = (
        each
        for each in crewlog("schedule", "list", "--json").records[0]["schedules"]
        if each["name"] == name
    )
    assert listed == crewlog("schedule", "show", name, "--json").records[0]
    assert (listed["started"], listed["overlap"], listed["running"]) == (1, "skip", [])
    assert listed["recent"] == [run]
    assert crewlog("schedule", "delete", name).code == 0
    gone = crewlog("schedule", "show", name)
    assert gone.code == 2
    assert "there is no schedule" in gone.err


def test_what_makes_no_schedule_is_told(crewlog: Cli) -> None:
    both = crewlog("schedule", "create", "x", "two", "--every", "1h", "--cron", "0 9 * * *")
    assert both.code == 2
    assert "either 'every' so often or by a 'cron' line" in both.err
    odd = crewlog("schedule", "create", "x", "two", "--every", "often")
    assert odd.code == 2
    assert "--every often: a duration is a number of seconds" in odd.err
    line = crewlog("schedule", "create", "x", "two", "--cron", "at nine", "--json")
    assert line.code == 2
    error = json.loads(line.err)["error"]
    assert "'at nine UTC' is no time" in error["message"]
    assert "'0 9 * * MON-FRI'" in error["remedy"]
    assert error["place"] == "the schedule 'x'"
