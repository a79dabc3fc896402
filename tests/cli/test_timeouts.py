"""`--timeout` of `run` and `watch`: they leave with exit code 3, and the run goes on."""

from __future__ import annotations

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
        "why": "timeout",
        "waits_for_worker": True,
        "exit_code": 3,
    }
    some = crewlog("watch", run, "--kind", "RunCompleted", "--timeout", "0.5")
    assert some.code == 3
    assert f"'{run}' did not end within 0.5 s" in some.err
    done = crewlog("watch", run, "--timeout", "60")
    assert done.code == 0, done.err


def test_a_detached_run_has_no_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run", "crew.yaml", "--detach", "--timeout", "5"]) == 2
    assert "--detach does not go with --wait, --answer or --timeout" in capsys.readouterr().err
