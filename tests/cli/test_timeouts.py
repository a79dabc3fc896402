"""`--timeout` of `run` and `watch`: they leave with exit code 3, and the run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from crewlog.cli.main import run_cli

from .conftest import Cli

pytestmark = pytest.mark.server


def test_a_command_leaves_after_its_timeout_and_the_run_goes_on(home: Path, alone: Path) -> None:
    crewlog, run = Cli(home, alone), f"slow-{uuid4().hex[:6]}"
    left = crewlog("run", "slow.yaml", "--id", run, "--timeout", "0.5")
    assert left.code == 3, left.err
    assert f"{run} has not ended after 0.5 s." in left.out
    assert "this command was the only one" in left.out
    assert f"crewlog watch {run}" in left.out
    record = crewlog("watch", run, "--timeout", "0.1", "--json").records[-1]
    assert record == {
        "event": "left",
        "run": run,
        "reason": "timeout",
        "wait_reason": "",
        "waits_for_worker": True,
        "exit_code": 3,
    }
    some = crewlog("watch", run, "--kind", "RunCompleted", "--timeout", "0.5")
    assert some.code == 3
    assert f"'{run}' did not end within 0.5 s" in some.err
    done = crewlog("watch", run, "--timeout", "60")
    assert done.code == 0, done.err


def test_who_leaves_a_run_is_told_what_it_waits_for(home: Path, alone: Path) -> None:
    crewlog, run = Cli(home, alone), f"asks-{uuid4().hex[:6]}"
    (alone / "ask.json").write_text('{"agents": {}}')
    crew = {
        "crew": "asks",
        "model": "scripted:ask.json",
        "agents": {"a": {"prompt": "P."}},
        "flow": [{"ask": "Publish it?", "phase": "gate"}, "a"],
    }
    (alone / "asks.json").write_text(json.dumps(crew))
    assert crewlog("run", "asks.json", "--id", run).code == 3

    told = crewlog("watch", run)
    assert told.code == 3, told.err
    assert f"crewlog answer {run} i1 approve|reject" in told.out
    left = crewlog("watch", run, "--wait", "--timeout", "15")
    assert left.code == 3, left.err
    end = left.out.partition("has not ended after 15 s.")[2]
    assert f"{run} waits for an answer to i1. Nothing is lost." in end
    assert "Publish it?" in end
    assert f"crewlog answer {run} i1 approve|reject" in end
    assert "waits for a worker" not in end
    record = crewlog("watch", run, "--wait", "--timeout", "15", "--json").records[-1]
    assert (record["reason"], record["wait_reason"]) == ("timeout", "i1: Publish it?")
    assert record["waits_for_worker"] is True
    record = crewlog("watch", run, "--json").records[-1]
    assert (record["reason"], record["wait_reason"]) == ("waits", "i1: Publish it?")

    assert crewlog("pause", run).code == 0
    left = crewlog("watch", run, "--wait", "--timeout", "15")
    assert f"{run} is paused: crewlog resume {run}." in left.out
    assert crewlog("stop", run).code == 0


def test_a_detached_run_has_no_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run", "crew.yaml", "--detach", "--timeout", "5"]) == 2
    assert "--detach does not go with --wait, --answer or --timeout" in capsys.readouterr().err
