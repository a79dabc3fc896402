"""Going back, forking, replaying and taking up again, through the command line alone."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from covers import covers
from crewlog.cli.change_terms import in_terms_of
from crewlog.cli.changes import edits
from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_data
from crewlog.definition.operations import EditAgent, EditCrew
from crewlog.errors import InvalidDefinition, UsageError

from .conftest import Cli

CREW = {
    "crew": "rewound",
    "model": "scripted:script.json",
    "agents": {"a": {"prompt": "Do."}, "b": {"prompt": "Do."}},
    "flow": ["a", {"ask": "Go on?"}, "b"],
}
SCRIPT = {"agents": {"a": [{"text": "a says"}], "b": [{"text": "b says"}]}}
OTHER = {"agents": {"a": [{"text": "another a"}], "b": [{"text": "another b"}]}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "crew.json").write_text(json.dumps(CREW))
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    (tmp_path / "other.json").write_text(json.dumps(OTHER))
    return tmp_path


def checkpoint(crewlog: Cli, run: str, step: str) -> int:
    items = crewlog("log", run, "--json").records
    found = [i for i in items if i["entry"]["kind"] == "StepCompleted"]
    return next(i["position"] for i in found if i["entry"]["step"] == step)


def begun(crewlog: Cli, folder: Path) -> tuple[str, int]:
    """A run that asks, and its first checkpoint's position."""
    run = f"rewound-{uuid4().hex[:6]}"
    began = crewlog("run", "crew.json", "--id", run, cwd=folder)
    assert began.code == 3, began.err
    return run, checkpoint(crewlog, run, "a#1")


def assert_knows_inherited_steps(crewlog: Cli, run: str, fork: str, place: int) -> None:
    """The last step that a fork has of its source is where it began; also of a fork of a fork."""
    own = json.loads(crewlog("checkpoints", fork, "--json").out)["checkpoints"][0]["position"]
    back = crewlog("rollback", f"{fork}@a#1", "--detach", "--json")
    assert back.code == 0, back.err
    assert back.records[0]["to"] == own
    again = f"{fork}-again"
    made = crewlog("fork", f"{fork}@a#1", "--id", again, "--detach", "--json")
    assert made.code == 0, made.err
    assert made.records[0]["to"] == own
    back = crewlog("rollback", again, "--to", "a#1", "--detach")
    assert back.code == 0, back.err
    unknown = crewlog("rollback", f"{again}@c#7", "--detach")
    assert unknown.code == 2
    assert f"the run '{again}' has no step 'c#7' that has ended" in unknown.err


@pytest.mark.server
@pytest.mark.timeout(400)
@covers("C26", "C33")
def test_a_run_goes_back_and_is_forked(crewlog: Cli, folder: Path) -> None:
    run, place = begun(crewlog, folder)
    back = crewlog("rollback", f"{run}@{place}", "--reason", "again", cwd=folder)
    assert back.code == 3, back.err
    assert f"{run} is back at {place}" in back.out
    refused = crewlog("rollback", f"{run}@{place + 1}", "--detach", cwd=folder)
    assert refused.code == 2
    assert f"{run}@{place}" in refused.err

    no = crewlog("replay", run, "--with", "model=scripted:no.json", "--id", f"{run}-no", cwd=folder)
    assert no.code == 2, no.err
    assert "there is no script" in no.err
    assert crewlog("show", f"{run}-no").code == 4

    fork = f"{run}-fork"
    forked = crewlog("fork", f"{run}@{place}", "--id", fork, cwd=folder)
    assert forked.code == 3, forked.err
    assert f"{fork} goes on from {run}@{place}" in forked.out
    assert_knows_inherited_steps(crewlog, run, fork, place)
    kinds = [item["entry"]["kind"] for item in crewlog("log", fork, "--json").records]
    assert kinds[0] == "RunForked"


@pytest.mark.server
@pytest.mark.timeout(400)
@covers("C26")
def test_a_run_is_replayed_with_another_model(crewlog: Cli, folder: Path) -> None:
    run, _ = begun(crewlog, folder)
    again = f"{run}-again"
    replayed = crewlog(
        "replay", run, "--with", "model=scripted:other.json", "--id", again, cwd=folder
    )
    assert replayed.code == 3, replayed.err
    ended = crewlog("answer", again, "approve", cwd=folder)
    assert ended.code == 0, ended.err
    assert "another b" in ended.out


@pytest.mark.server
@pytest.mark.timeout(400)
def test_a_run_that_was_stopped_is_resumed_attached_to_and_replaced(
    crewlog: Cli, folder: Path
) -> None:
    run, _ = begun(crewlog, folder)
    stopped = crewlog("stop", run, cwd=folder)
    assert stopped.code == 0, stopped.err
    resumed = crewlog("resume", run, "--from", "live", cwd=folder)
    assert resumed.code == 0, resumed.err
    assert "goes on" in resumed.out
    known = ("run", "crew.json", "--id", run, "--answer", "approve", "--existing")
    attached = crewlog(*known, "attach", cwd=folder)
    assert attached.code == 0, attached.err
    assert "b says" in attached.out
    refused = crewlog(*known, "attach", "--file", "crew.json", "--model", "scripted:x", cwd=folder)
    assert refused.code == 2
    assert f"--file and --model have no effect: the run '{run}' is there" in refused.err
    completed = crewlog("resume", run, cwd=folder)
    assert completed.code == 2
    assert "it has no work left" in completed.err
    replaced = crewlog(*known, "replace", cwd=folder)
    assert replaced.code == 0, replaced.err


def test_what_is_set_is_an_operation() -> None:
    crew, agent = edits(["model=openai:x", "agent.writer.max_calls=3"], "--with", "crewlog replay")
    assert (crew.place, crew.operation) == ("--with crew", EditCrew(set={"model": "openai:x"}))
    assert agent.operation == EditAgent(name="writer", set={"max_calls": 3})
    for wrong in ("model", "agents=3", "agent.x=3", "agent..y=3", "agent.x.y={"):
        with pytest.raises((UsageError, InvalidDefinition)):
            list(edits([wrong]))


def test_faults_of_what_is_set_name_the_option() -> None:
    typed = [*edits(["agent.bakr.prompt=x"], "--with", "crewlog replay")]
    operations, places = [each.operation for each in typed], [each.place for each in typed]
    with pytest.raises(InvalidDefinition) as caught, in_terms_of(places):
        apply_operations(load_data(CREW), operations)
    assert caught.value.place == "--with agent.bakr"
    assert "the crew has no agent 'bakr'" in caught.value.message


@pytest.mark.server
@pytest.mark.timeout(400)
def test_what_is_left_has_somebody_who_works_on_it(crewlog: Cli, folder: Path) -> None:
    run, place = begun(crewlog, folder)
    fork = f"{run}-left"
    made = crewlog("fork", f"{run}@{place}", "--id", fork, "--detach", cwd=folder)
    assert made.code == 0, made.err
    assert "in the background" in made.out
    (row,) = [r for r in json.loads(crewlog("ps", "--json").out)["runs"] if r["run"] == fork]
    assert not row["waits_for_worker"]
    assert "a says" in crewlog("diff", f"{run}@1", f"{run}@{place}", cwd=folder).out
    assert "a says" in crewlog("checkpoints", run, "--diff", cwd=folder).out
    parted = json.loads(crewlog("trace", run, "--diff", fork, "--json", cwd=folder).out)
    assert [s["differences"] for s in parted["steps"] if s["step"] == "a#1"] == [[]]
    asked = [crewlog("interrupt", fork, "--node", "b", "--by", "eve") for _ in range(2)]
    assert ["asked for already" in each.out for each in asked] == [False, True]
    assert "asks before b (by eve)" in crewlog("show", fork).out
    shown = json.loads(crewlog("show", fork, "--json").out)
    assert shown["asks_before"] == [{"node": "b", "by": "eve"}]
    # Its worker is there already: no other one is started.
    again = crewlog("fork", f"{run}@{place}", "--id", f"{fork}-2", "--detach", cwd=folder)
    assert (again.code, "in the background" in again.out) == (0, False)
    assert crewlog("stop", run, cwd=folder).code == 0
    assert crewlog("watch", run, cwd=folder).code == 6
    back = crewlog("resume", run, cwd=folder)
    assert (back.code, "in the background" in back.out) == (0, False)
