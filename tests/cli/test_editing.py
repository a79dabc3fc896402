"""`edit`, `redirect`, `inject`, `diff` and `trace`, as people type them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from covers import covers
from crewlog.cli.editing import parsed, value_of
from crewlog.client.places import split
from crewlog.errors import UsageError

from .conftest import Cli


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("null", None),
        ("0.5", 0.5),
        ("-3", -3),
        ('"3"', "3"),
        ("so it is", "so it is"),
        ("", ""),
        ("yes", "yes"),
        ("[a, b: 1]", ["a", {"b": 1}]),
        ('{"a": [1]}', {"a": [1]}),
        ("{a: 2024-01-01}", "{a: 2024-01-01}"),
        ("[open", "[open"),
        ("a=b", "a=b"),
    ],
)
def test_values_are_json_or_yaml_or_text(text: str, value: Any) -> None:
    found = value_of(text)
    assert (found, type(found)) == (value, type(value))


def test_a_name_alone_is_a_flag() -> None:
    found, gone = parsed(["ok=true", "outputs.a.b=x=1", "shared.tone=calm"], ["done"])
    assert found == {"flags.ok": True, "outputs.a.b": "x=1", "shared.tone": "calm"}
    assert gone == ["flags.done"]
    for wrong in (["ok"], ["=1"], []):
        with pytest.raises(UsageError):
            parsed(wrong, [])


@pytest.mark.parametrize(
    ("target", "run", "at"),
    [("r", "r", ""), ("r@12", "r", "12"), ("a@b@tag", "a@b", "tag"), ("@3", "@3", "")],
)
def test_a_run_at_a_position(target: str, run: str, at: str) -> None:
    assert split(target) == (run, at)


@pytest.fixture(scope="module")
def gated(project: Path) -> str:
    """A crew whose second agent waits for a flag that nobody sets by itself."""
    name = "gated.yaml"
    (project / name).write_text(
        "crew: gated\nmodel: scripted:script.yaml\n"
        "agents:\n"
        "  first: {prompt: P., tools: [], writes_flags: [ready], outputs: [score]}\n"
        "  second: {prompt: P., tools: []}\n"
        "  third: {prompt: P., tools: []}\n"
        "flow:\n  - first\n  - {agent: second, when: ready}\n  - third\n"
    )
    return name


@pytest.fixture(scope="module")
def runs(home: Path, project: Path, served: dict[str, Any], gated: str) -> tuple[str, str]:
    """Two runs whose second agent waits: one will be edited, one redirected."""
    names = (f"gated-{uuid4().hex[:6]}", f"gated-{uuid4().hex[:6]}")
    for name in names:
        waits = Cli(home, project)("run", gated, "--input", "hi", "--id", name)
        assert waits.code == 3, waits.err
    return names


@pytest.mark.server
@pytest.mark.timeout(400)
@covers("C33")
def test_a_run_is_edited(crewlog: Cli, runs: tuple[str, str]) -> None:
    run, _ = runs
    typo = crewlog("edit", run, "redy=true")
    assert typo.code == 2
    assert "Did you mean 'flags.ready'?" in typo.err
    said = crewlog("inject", run, "Go on.", "--by", "ann", "--json").records[0]
    assert (said["command"], said["applied"]) == ("message", True)
    edited = crewlog("edit", run, "ready=true", "outputs.first.score=0.5", "--by", "ann", "--json")
    assert edited.code == 0, edited.err
    assert edited.records[0]["detail"] == "flags.ready = true, outputs.first.score = 0.5"
    ended = crewlog("watch", run)
    assert ended.code == 0, ended.err
    assert "✎ edited by ann: ready = true, outputs.first.score = 0.5" in ended.out
    assert crewlog("edit", run, "ready=false").code == 2


@pytest.mark.server
@pytest.mark.timeout(400)
def test_a_run_is_redirected_and_its_checkpoint_named(crewlog: Cli, runs: tuple[str, str]) -> None:
    _, run = runs
    (first, *_) = crewlog("checkpoints", run, "--json").records[0]["checkpoints"]
    named = crewlog("tag", f"{run}@{first['position']}", "early")
    assert named.code == 0, named.err
    assert f"@{first['position']} is called 'early' now" in named.out
    assert "early" in crewlog("checkpoints", run).out
    sent = crewlog("redirect", run, "third", "--reason", "no time")
    assert sent.code == 0, sent.err
    assert "second#1 ends now; the run goes to third" in sent.out
    assert crewlog("watch", run).code == 0
    page = crewlog("diff", f"{run}@early")
    assert page.code == 0, page.err
    assert "~ public" in page.out


@pytest.mark.server
@pytest.mark.timeout(400)
def test_checkpoints_are_compared(crewlog: Cli, runs: tuple[str, str]) -> None:
    run, _ = runs
    listed = crewlog("checkpoints", run, "--json").records[0]["checkpoints"]
    before = next(each["position"] for each in listed if each["step"] == "first#1")
    page = crewlog("diff", f"{run}@{before}")
    assert page.code == 0, page.err
    for words in ("+ ready", "+ first.score", "~ public"):
        assert words in page.out, words
    data = crewlog("diff", f"{run}@{before}", f"{run}@{before}", "--json").records[0]
    assert (data["changes"], data["to"]["position"]) == ([], before)
    nowhere = crewlog("diff", f"{run}@100000")
    assert nowhere.code != 0
    assert "100000" in nowhere.err
    changed = crewlog("checkpoints", run, "--diff", "--json").records[0]["checkpoints"]
    assert [each["position"] for each in changed] == [each["position"] for each in listed]
    assert "first.score" in [each["name"] for row in changed for each in row["changes"]]
    assert {each["changes"] for each in listed} == {None}
    points = crewlog("checkpoints", run, "--diff")
    assert points.code == 0, points.err
    assert "first#1" in points.out
    assert "+ first.score" in points.out


@pytest.mark.server
@pytest.mark.timeout(400)
@covers("C36")
def test_runs_are_traced_and_compared(crewlog: Cli, runs: tuple[str, str]) -> None:
    run, other = runs
    shown = crewlog("trace", run, "--changes")
    assert shown.code == 0, shown.err
    for words in ("✓ first#1", "read public 1", "✎ edited by ann", "? i1", "✓ third#1", "+ second"):
        assert words in shown.out, words
    found = crewlog("trace", run, "--step", "second", "--json", "--full").records[0]
    (step,) = found["steps"]
    assert (step["step"], step["status"]) == ("second#1", "completed")
    assert step["interrupts"][0]["decision"] == "withdrawn"
    assert step["calls"][0]["content"]["content"] == "ok"
    wrong = crewlog("trace", run, "--step", "secnd")
    assert "Did you mean 'second'?" in wrong.err
    parted = crewlog("trace", run, "--diff", other)
    assert parted.code == 0, parted.err
    assert "they part at second#1" in parted.out
    assert crewlog("trace", run, "--diff", run, "--json").records[0]["first_difference"] is None
