"""What people read of a run that waits or was stopped: its state, the way on, and our own words."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from .conftest import Cli

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def asker(project: Path) -> str:
    """A crew that asks people between two agents; the second waits for a flag."""
    (project / "asks.yaml").write_text(
        "crew: asks\nmodel: scripted:script.yaml\n"
        "agents:\n"
        "  first: {prompt: P., tools: [], writes_flags: [ready]}\n"
        "  second: {prompt: P., tools: []}\n"
        "flow:\n  - first\n  - {ask: 'Publish it?', phase: gate}\n"
        "  - {agent: second, when: ready}\n"
    )
    return "asks.yaml"


@pytest.fixture(scope="module")
def waiting(home: Path, project: Path, served: dict[str, Any], asker: str) -> str:
    """A run that waits for an answer."""
    run = f"asks-{uuid4().hex[:6]}"
    begun = Cli(home, project)("run", asker, "--input", "hi", "--id", run)
    assert begun.code == 3, begun.err
    return run


def test_ask_tells_whom_it_waits_for(crewlog: Cli, waiting: str, asker: str) -> None:
    late = crewlog("ask", asker, "Well?", "--id", waiting, "--timeout", "4")
    assert late.code == 3, late.err
    assert late.out == ""
    assert f"{waiting} waits for people: i1: Publish it?" in late.err
    assert f"crewlog answer {waiting} i1" in late.err
    assert "it waits for an answer to i1: Publish it?" in late.err


def test_an_empty_question_is_refused(crewlog: Cli, asker: str) -> None:
    empty = crewlog("ask", asker, " \n")
    assert empty.code == 2
    assert "nothing is asked: the text is empty" in empty.err


def test_what_waits_is_answered_and_not_resumed(crewlog: Cli, waiting: str) -> None:
    resumed = crewlog("resume", waiting)
    assert resumed.code == 2
    assert "is not paused: it waits for an answer to i1: Publish it?" in resumed.err
    assert f"crewlog answer {waiting}" in resumed.err


def test_an_interrupt_names_the_steps(crewlog: Cli, waiting: str) -> None:
    named = crewlog("interrupt", waiting, "--node", "second")
    assert named.code == 0, named.err
    assert f"{waiting} will ask before second" in named.out
    data = crewlog("interrupt", waiting, "--json").records[0]
    assert (data["node"], data["follows"], data["asks"]) == ("*", ["gate#1"], [])


def test_a_flag_keeps_its_kind(crewlog: Cli, waiting: str) -> None:
    refused = crewlog("edit", waiting, "ready=5")
    assert refused.code == 2
    assert "'flags.ready' must be true or false, not the number 5" in refused.err


def test_a_stopped_run_is_stopped_wherever_it_is_looked_at(crewlog: Cli, waiting: str) -> None:
    assert crewlog("stop", waiting).code == 0
    ended = crewlog("watch", waiting, "--json")
    assert ended.code == 6, ended.err
    assert ended.records[-1]["status"] == "stopped"
    runs: list[dict[str, Any]] = crewlog("ps", "--all", "--json").records[0]["runs"]
    assert {each["run"]: each["status"] for each in runs}[waiting] == "stopped"
    assert crewlog("show", waiting, "--json").records[0]["status"] == "stopped"
    late = crewlog("edit", waiting, "ready=true")
    assert late.code == 2
    assert "has ended (stopped): 'edit_state' has no effect" in late.err


def test_what_cannot_be_said_is_told_in_words(crewlog: Cli, waiting: str) -> None:
    empty = crewlog("inject", waiting, "")
    assert empty.code == 2
    assert "'text' is empty" in empty.err
    assert "should have" not in empty.err


def test_a_resumed_run_is_traced_with_its_open_question(crewlog: Cli, waiting: str) -> None:
    resumed = crewlog("resume", waiting)
    assert resumed.code == 0, resumed.err
    steps = crewlog("trace", waiting, "--step", "gate", "--json").records[0]["steps"]
    (question,) = steps[-1]["interrupts"]
    assert (question["id"], question["answered_at"]) == ("i1", None)
    assert steps[0]["interrupts"][0]["decision"] == "withdrawn"


def test_a_list_tells_all_that_a_run_waits_for(crewlog: Cli, project: Path) -> None:
    question = f"Publish {'this and ' * 40}that?"
    (project / "long.yaml").write_text(
        "crew: long\nmodel: scripted:script.yaml\nagents: {first: {prompt: P., tools: []}}\n"
        f"flow: [first, {{ask: '{question}', phase: gate}}]\n"
    )
    run = f"long-{uuid4().hex[:6]}"
    assert crewlog("run", "long.yaml", "--input", "hi", "--id", run).code == 3
    listed = {each["run"]: each for each in crewlog("ps", "--json").records[0]["runs"]}
    assert listed[run]["wait_reason"] == f"i1: {question}"
    assert f"{run}: i1: {question}\n" in crewlog("ps").out
    paused = crewlog("pause", run, "--by", "ana")
    assert paused.code == 0, paused.err
    told = f"paused by ana: crewlog resume {run}; i1: {question}"
    assert f"{run}: {told}\n" in crewlog("ps").out
    assert told in crewlog("show", run).out
    assert crewlog("stop", run).code == 0
