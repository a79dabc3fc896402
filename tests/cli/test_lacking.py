"""Calls that wait for a worker that has their tool: whoever looks at the run sees that, and why."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from crewlog.cli.lacking import Lacking
from crewlog.cli.screen import Screen
from crewlog.cli.shown import show_frontier
from crewlog.cli.timeline import Timeline
from crewlog.ids import NodeName, RunId, StepId
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CrewState, FrontierStep

from .conftest import Cli

STEP = StepId("writer#1")
WHY = "waits for a worker that has the tool 'say': the module 'm' has no 'sya'. Did you mean 'say'?"


def test_it_is_told_once_and_held_until_it_is_sure_to_be_over() -> None:
    run: Any = None
    lacking = Lacking(run)
    assert lacking.take({STEP: WHY}) == [(STEP, WHY)]
    assert lacking.take({}) == []
    assert lacking.steps == {STEP: WHY}, "a try was under way"
    assert lacking.take({STEP: WHY}) == []
    lacking.take({})
    assert lacking.steps == {STEP: WHY}
    lacking.take({})
    assert lacking.steps == {}
    assert lacking.take({STEP: "waits for another"}) == [(STEP, "waits for another")]


def test_the_status_line_says_it_instead_of_thinking() -> None:
    line = Timeline(["writer"])
    started = {"kind": "StepStarted", "at": 1_000, "step": STEP, "agent": "writer"}
    line.feed(entry_from_json(started))
    line.lacking = {STEP: WHY}
    text = "".join(part if isinstance(part, str) else part[0] for part in line.now(9_000))
    assert text == "writer waits for a worker that has the tool 'say'"


def test_show_says_it_whole(capsys: Any) -> None:
    step = FrontierStep(step=STEP, node=NodeName("writer"), status="running")
    state = CrewState(run=RunId("r"), frontier={STEP: step})
    doing = {STEP: (f"model: {WHY}",)}
    sight: Any = SimpleNamespace(
        over=False, questions=[], state=state, calls=doing, failures={STEP: WHY}, pending=[]
    )
    show_frontier(Screen(), sight)
    out = capsys.readouterr().out
    assert f"! writer#1 {WHY}" in out
    assert out.count("Did you mean") == 1


@pytest.mark.server
def test_whoever_looks_sees_what_a_run_waits_for(crewlog: Cli, project: Path) -> None:
    (project / "lacking_tools.py").write_text(
        'def say(text: str) -> str:\n    """Say it."""\n    return text\n'
    )
    (project / "lacking.yaml").write_text(
        "crew: lacking\nmodel: scripted:script.yaml\n"
        "tools:\n  say: {run: 'lacking_tools:sya', effects: read}\n"
        "agents:\n  first: {prompt: P.}\n"
    )
    run = f"lacking-{uuid4().hex[:6]}"
    following = crewlog.start("run", "lacking.yaml", "--id", run)
    assert following.stdout is not None
    told = next(line for line in following.stdout if "waits for a worker" in line)
    assert "! first#1 waits for a worker that has the tool 'say'" in told
    assert "the module 'lacking_tools' has no 'sya'" in told
    assert "Did you mean 'say'?" in told
    shown = crewlog("show", run)
    for words in ("that has the tool 'say'", "Did you mean 'say'?", f"crewlog change {run}"):
        assert words in shown.out
    # While the call is tried once more it is running, for a moment.
    looks = (crewlog("show", run, "--json").records[0] for _ in range(10))
    data = next((data for data in looks if data["status"] != "running"), {"status": "running"})
    assert data["status"] == "waiting"
    assert "Did you mean 'say'?" in data["frontier"][0]["failure"]
    watching = crewlog.start("watch", run, "--json")
    assert watching.stdout is not None
    record = next(line for line in watching.stdout if '"failure"' in line)
    assert f'"run": "{run}", "step": "first#1"' in record
    mended = crewlog("change", run, "--edit", "tool.say.run=lacking_tools:say", "--yes")
    assert mended.code == 0, mended.err
    rest, _ = following.communicate(timeout=90)
    watching.communicate(timeout=90)
    assert (following.returncode, watching.returncode) == (0, 0), rest
