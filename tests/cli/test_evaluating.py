"""`crewlog dataset` and `crewlog eval`, as people and programs use them."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from covers import covers
from crewlog.definition.load import load_data
from crewlog.errors import UsageError
from crewlog.evaluation import Case, StageOutput, exact, of_schema, running
from crewlog.evaluation.comparing import Verdict, check_schema, check_wanted
from crewlog.usage import Usage

from .conftest import Cli

CREW = """\
crew: builders
model: scripted:good.script.yaml
agents:
  finder:    {prompt: Find., tools: [], outputs: [found]}
  builder:   {prompt: Build., tools: [], outputs: [nodes]}
  responder: {prompt: Answer., tools: TOOLS}
tools:
  publish: {run: "nowhere:publish"}
"""
SETS = "- {tool_calls: [{tool: set_output, args: {key: %s, value: %s}}]}"
SCRIPT = f"""\
agents:
  finder:
    {SETS % ("found", "[{type: hook, why: begins}, {type: http, why: sends}]")}
    - {{text: found}}
  builder:
    {SETS % ("nodes", "[hook, NODE]")}
    - {{text: built}}
  responder: [{{text: LAST}}]
"""


@pytest.fixture(scope="module")
def built(home: Path, project: Path, served: dict[str, Any]) -> Path:
    """A project with a crew of three stages, and the data set of two of its runs."""
    del served
    (project / "builders.yaml").write_text(CREW.replace("TOOLS", "[]"))
    (project / "risky.yaml").write_text(CREW.replace("TOOLS", "[publish]"))
    for name, node, last in (("good", "http", "Done."), ("bad", "mail", "Done."), ("mute", "", "")):
        text = SCRIPT.replace("NODE", node).replace("LAST", last)
        (project / f"{name}.script.yaml").write_text(text if last else "agents: {finder: []}\n")
    crewlog = Cli(home, project)
    runs = [f"built-{uuid4().hex[:6]}" for _ in range(2)]
    for run in runs:
        assert crewlog("run", "builders.yaml", "--input", run, "--id", run).code == 0
    made = crewlog("dataset", *runs, "--out", "all.jsonl", "--json")
    assert made.records == [
        {
            "file": "all.jsonl",
            "cases": 6,
            "stages": {"finder": 2, "builder": 2, "responder": 2},
        }
    ], made.err
    return project


@covers("C91")
@pytest.mark.server
def test_a_data_set_is_lines_of_what_each_stage_saw_and_made(crewlog: Cli, built: Path) -> None:
    lines = (built / "all.jsonl").read_text().splitlines()
    case = json.loads(lines[1])
    assert (case["stage"], case["step"], case["model"]) == ("builder", "builder#1", "scripted")
    assert case["output"] == {"fields": {"nodes": ["hook", "http"]}, "text": "built"}
    assert [m["content"] for m in case["input"]["messages"]] == [case["run"], "[finder] found"]
    printed = crewlog("dataset", case["run"], "--stage", "builder")
    assert printed.records == [case]
    assert "is a file 'all.jsonl' already" in crewlog("dataset", "x", "-o", "all.jsonl").err


@covers("C90", "C91")
@pytest.mark.server
@pytest.mark.timeout(400)
def test_models_are_tried_side_by_side_and_the_failing_stage_is_named(
    crewlog: Cli, built: Path
) -> None:
    del built
    name = f"eval-{uuid4().hex[:6]}"
    models = ("--model", "scripted:good.script.yaml", "--model", "scripted:bad.script.yaml")
    asked = ("eval", "builders.yaml", "--dataset", "all.jsonl", *models, "--id", name)
    done = crewlog(*asked)
    assert done.code == 7, done.out + done.err
    rows = [line.split() for line in done.out.splitlines() if " of 2 " in f"{line} "]
    assert [row[:4] for row in rows if row[0] == "builder"] == [
        ["builder", "good.script.yaml", "2", "of"]
    ]
    assert "builder  2 of 4 trials did not pass" in done.out
    assert 'fields.nodes[1]: "mail", and "http" is expected' in done.out
    assert "the stage that falls short most: builder" in done.out
    first = re.findall(r"crewlog trace (\S+)", done.out)[0]
    began = json.loads(crewlog("show", first, "--json").out)["started_at"]
    # Once more under its name: it goes on, and nothing is run again.
    again = crewlog(*asked, "--json").records[0]
    assert (again["outcome"], again["weakest"]) == ("failed", "builder")
    quality = {(row["stage"], row["choice"]): row["quality"] for row in again["rows"]}
    assert quality == {(s, c): 1.0 for s in ("finder", "responder") for c in (0, 1)} | {
        ("builder", 0): 1.0,
        ("builder", 1): 0.5,
    }
    assert all(row["usage"]["input_tokens"] > 0 for row in again["rows"])
    assert first in [t["run"] for t in again["trials"] if t["outcome"] == "failed"]
    assert json.loads(crewlog("show", first, "--json").out)["started_at"] == began
    low = crewlog(*asked, "builder", "--at-least", "50%")
    assert low.code == 0, low.out
    alone = crewlog("eval", "builders.yaml", "finder", "-d", "all.jsonl")
    assert (alone.code, "all 2 cases passed" in alone.out) == (0, True), alone.err


@covers("C90")
@pytest.mark.server
@pytest.mark.timeout(400)
def test_a_judge_says_whether_it_is_as_good(crewlog: Cli, built: Path) -> None:
    """It is asked again where its reply is none, and what it took is counted."""
    script = """\
agents:
  judge:
    - {when: 'mail', text: '{"passed": false, "score": 0.4, "reason": "it mails instead"}'}
    - {text: "I like it."}
    - {text: '{"passed": true, "score": 0.9, "reason": "the same"}'}
"""
    (built / "judge.script.yaml").write_text(script)
    asked = ("eval", "builders.yaml", "builder", "-d", "all.jsonl", "--compare", "judge")
    judge = ("--judge", "scripted:judge.script.yaml", "--rubric", "Are the nodes the right ones?")
    good = crewlog(*asked, *judge, "--json")
    assert good.code == 0, good.err
    (row,) = good.records[0]["rows"]
    assert (row["passed"], row["quality"], row["judged"]["calls"]) == (2, 0.9, 4)
    bad = crewlog(*asked, *judge, "--model", "scripted:bad.script.yaml")
    assert bad.code == 7, bad.err
    assert "it mails instead" in bad.out
    assert "the judge took" in bad.out
    nobody = crewlog(*asked, "--judge", "two.yaml")
    assert (nobody.code, "is no judge" in nobody.err) == (2, True)
    mute = crewlog(*asked, "--judge", "scripted:mute.script.yaml")
    assert (mute.code, "the judge came to nothing" in mute.out) == (1, True)


@covers("C90")
@pytest.mark.server
@pytest.mark.timeout(400)
def test_what_cannot_be_tried_is_told(crewlog: Cli, built: Path) -> None:
    name = f"eval-{uuid4().hex[:6]}"
    asked = ("eval", "builders.yaml", "-d", "all.jsonl", "finder", "--id", name)
    mute = crewlog(*asked, "-m", "scripted:mute.script.yaml")
    assert mute.code == 1
    script = (built / "mute.script.yaml").read_text()
    (built / "mute.script.yaml").write_text((built / "good.script.yaml").read_text())
    mended = crewlog(*asked, "-m", "scripted:mute.script.yaml")
    assert (mended.code, "all 2 cases passed" in mended.out) == (0, True), mended.out + mended.err
    (built / "mute.script.yaml").write_text(script)
    assert "2 cases could not be tried" in mute.out
    assert "finder  2 of 2 cases could not be tried" in mute.out
    told = " ".join(mute.out.split())
    assert "has no reply 1 for 'finder'. mute.script.yaml. Add an entry" in told
    (built / "nothing.jsonl").write_text('{"stage": "finder", "input": {}}\n')
    (built / "open.jsonl").write_text('{"stage": "finder", "schema": {}}\n')
    (built / "broken.jsonl").write_text('{"stage": "finder"}\n{"stage": 3}\n')
    for arguments, told, remedy in (
        (("builders.yaml", "-d", "no.jsonl"), "cannot read 'no.jsonl'", "crewlog dataset RUN"),
        (("builders.yaml", "-d", "broken.jsonl"), "broken.jsonl:2", "`stage`"),
        (("builders.yaml", "bilder", "-d", "all.jsonl"), "'bilder'", "Did you mean 'builder'?"),
        (("two.yaml", "-d", "all.jsonl"), "'two' has no agent 'finder'", "first"),
        (("risky.yaml", "-d", "all.jsonl"), "may call publish", "--external"),
        (("builders.yaml", "-d", "all.jsonl", "--at-least", "2"), "no share", "90%"),
        (("builders.yaml", "-d", "all.jsonl", "-m", "foo"), "neither PROVIDER:NAME", "openai:foo"),
        (("builders.yaml", "-d", "nothing.jsonl"), "nothing that it should come to", "`expected`"),
        (("builders.yaml", "-d", "open.jsonl", "--compare", "schema"), "is empty", "example"),
        (
            ("builders.yaml", "-d", "all.jsonl", "-m", "scripted:mute.script.yaml"),
            "'mute.script.yaml' has nothing for the stage 'builder'",
            "finder",
        ),
        (("builders.yaml", "-d", "all.jsonl", "--compare", "schema"), "no schema", "--schema"),
    ):
        done = crewlog("eval", *arguments)
        assert done.code == 2, (arguments, done.out, done.err)
        assert told in done.err, arguments
        assert remedy in done.err, arguments


def test_values_are_compared_part_by_part() -> None:
    wanted = StageOutput(fields={"a": [1, {"b": "x"}], "ok": True}, text="any words")
    case = Case(stage="s", output=wanted)
    assert exact(case, wanted.model_copy(update={"text": "other words"})).passed
    got = StageOutput(fields={"a": [1, {"b": "y"}, 3], "ok": 1})
    verdict = exact(case, got)
    assert (verdict.passed, verdict.score) == (False, 0.25)
    assert verdict.differs == (
        'fields.a[1].b: "y", and "x" is expected',
        "fields.a[2]: 3, and nothing is expected",
        "fields.ok: 1, and true is expected",
    )
    spoken = Case(stage="s", output=wanted, expected=StageOutput(text="just  so"))
    assert exact(spoken, StageOutput(text="just so\n", fields={"x": 1})).passed
    assert not exact(spoken, StageOutput(text="just")).passed
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "array"}}}
    assert of_schema(schema, StageOutput(text='{"a": []}')).passed
    assert of_schema(schema, StageOutput(fields={"a": 1})).differs[0].startswith("fields.a: 1 is")
    assert not of_schema(schema, StageOutput(text="no JSON")).passed
    assert of_schema(schema, StageOutput(fields={})).differs == (
        "fields: 'a' is a required property",
    )
    assert not of_schema(schema, StageOutput(text="[" * 9000)).passed
    assert not of_schema(False, StageOutput(fields={})).passed


def test_nothing_is_fetched_to_compare_and_references_lead_somewhere() -> None:
    asked: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        for ref in (f"http://127.0.0.1:{server.server_port}/x", "file:///x", "#/$defs/none", "#no"):
            schema = {"type": "object", "properties": {"a": {"$ref": ref}}}
            with pytest.raises(UsageError, match=r"never fetched|leads nowhere"):
                check_schema(schema, "all.jsonl")
            assert not of_schema(schema, StageOutput(fields={"a": 1})).passed
        server.shutdown()
        thread.join()
    assert asked == []
    named = {"$defs": {"n": {"type": "number"}, "m": {"$anchor": "m"}}}
    for ref in ("#", "#/$defs/n", "#m"):
        check_schema({**named, "properties": {"a": {"$ref": ref}}}, "all.jsonl")
    inner: dict[str, Any] = {
        "$id": "https://x/y",
        "$defs": {"n": {}},
        "items": {"$ref": "#/$defs/n"},
    }
    check_schema({"properties": {"a": inner}}, "all.jsonl")


@pytest.mark.parametrize("where", ["compare", "dataset"])
async def test_a_trial_that_raises_does_not_end_the_others(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    crew = load_data({"crew": "t", "model": "scripted:x", "agents": {"a": {"prompt": "p"}}})

    async def ran(*_: Any) -> Any:
        return SimpleNamespace(id="r"), ""

    async def made(*_: Any) -> list[Case]:
        return [Case(stage="a", output=StageOutput(text="x"))]

    async def compared(case: Case, got: StageOutput, _run: str) -> tuple[Verdict, Usage]:
        return exact(case, got), Usage()

    def bad(found: Any) -> Any:
        """The second one raises."""
        calls: list[int] = []

        async def once(*args: Any) -> Any:
            calls.append(1)
            if len(calls) == 2:
                raise ZeroDivisionError("oh")
            return await found(*args)

        return once

    monkeypatch.setattr(running, "carried_out", ran)
    monkeypatch.setattr(running, "dataset", bad(made) if where == "dataset" else made)
    cases = {n: Case(stage="a", output=StageOutput(text="x")) for n in (1, 2, 3)}
    compare = bad(compared) if where == "compare" else compared
    plan = running.Plan("e", crew, cases, [None], compare)
    report = await running.evaluate(None, plan)  # type: ignore[arg-type]
    trials = sorted(report.trials, key=lambda each: each.case)
    assert [each.outcome for each in trials] == ["passed", "error", "passed"]
    assert [each.error for each in trials if each.error] == ["ZeroDivisionError: oh"]


def test_a_case_that_compares_nothing_does_not_pass() -> None:
    for empty in (
        Case(stage="s"),
        Case(stage="s", expected=StageOutput()),
        Case(stage="s", output=StageOutput(fields={"a": 1}), expected=StageOutput()),
    ):
        verdict = exact(empty, StageOutput(fields={"a": 1}, text="whatever"))
        assert (verdict.passed, verdict.score) == (False, 0.0)
        assert verdict.differs == ("the case says nothing that it should come to",)
        with pytest.raises(UsageError, match="says nothing that it should come to"):
            check_wanted(empty, "all.jsonl")
    none = Case(stage="s", expected=StageOutput(fields={}))
    check_wanted(none, "all.jsonl")
    assert exact(none, StageOutput()).passed, "it is to set no output"
    assert not exact(none, StageOutput(fields={"a": 1})).passed
    for schema in ({}, True):
        with pytest.raises(UsageError, match="whatever comes would do"):
            check_schema(schema, "all.jsonl")
