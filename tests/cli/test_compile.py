"""`crewlog compile`, `explain`, and what `validate` and `schema` say of prompts and registries."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from covers import covers
from crewlog.cli.compiling import is_prompt, read_source
from crewlog.cli.files import is_file
from crewlog.cli.main import run_cli
from crewlog.definition.content import definition_hash
from crewlog.definition.load import load_definition, load_file
from crewlog.graph.lowering.plans import lower
from crewlog.ids import NodeName
from crewlog.prompt.forms import FORMS

from .conftest import check_views

PROMPT = """\
The collector gathers the changes, then the writer drafts notes. The checker
reviews; unless approved, back to the writer, at most 3 times, otherwise ask me.
Only the writer may write files.
"""
PARTIAL = PROMPT.replace("files.", "files. Make it snappy.")
"""One sentence of it is in no form."""
SNAPPY = (3, 34)
"""Where it stands."""
BAD = PARTIAL + "The writer uses the model gpt-9.\n"
REGISTRY = """\
registry: notes
model: openai:gpt-5-mini
tools:
  write_file: {run: "my_tools:write_file", effects: write, words: [write files]}
  git_log: {run: "my_tools:git_log", effects: read}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)  # without it, the forms read
    Path("registry.yaml").write_text(REGISTRY)
    Path("notes.md").write_text(PROMPT)
    Path("partial.md").write_text(PARTIAL)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run_cli(list(arguments)) == code
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    data = json.loads(shown(capsys, *arguments, "--json", code=code))
    check_views(arguments, [data])
    return data


def table(text: str) -> dict[str, list[str]]:
    """What each clause became, by its line and its words, as `compile` shows it."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if head := re.fullmatch(r" *(\d+)  “(.*)”", line):
            became = found.setdefault(f"{head[1]} {head[2]}", [])
        elif found and line.startswith("      → "):
            became.append(line.removeprefix("      → "))
    return found


def became(text: str, words: str) -> list[str]:
    """What the one clause became that has these words."""
    (found,) = (parts for said, parts in table(text).items() if words in said)
    return found


@covers("C4")
def test_each_clause_is_shown_with_what_it_became(capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, "compile", "notes.md")
    assert became(told, "1 The collector gathers the changes") == ["collector starts with the run"]
    assert became(told, "the writer drafts notes") == ["writer waits for collector"]
    assert "checker waits for writer" in became(told, "1 The checker reviews")
    assert became(told, "2 unless approved, back to") == [
        "loop after checker: back to writer unless approved, at most 3 times, then ask people"
    ]
    assert became(told, "3 Only the writer may write files") == ["write_file: writer"]
    # All of the prompt is there, in its order.
    said = " ".join(each.partition(" ")[2] for each in table(told))
    assert re.findall(r"\w+", said) == re.findall(r"\w+", PROMPT)
    assert all(table(told).values())
    assert "collector ── writer ── checker" in told
    assert "\x1b" not in told


def test_talk_is_counted_and_shown_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    Path("notes.md").write_text(f"Hello! {PROMPT}\n> The checker may write files.\n\nThanks!\n")
    told = shown(capsys, "compile", "notes.md")
    assert "2 clauses of talk, not shown: --words" in told
    assert "1 clause of data, not shown: --words" in told
    assert "Hello" not in told
    assert "checker may write" not in told
    told = shown(capsys, "compile", "notes.md", "--words")
    assert "not shown" not in told
    assert became(told, "1 Hello!") == became(told, "Thanks!") == ["talk"]
    assert became(told, "> The checker may write files.") == ["data"]
    assert became(told, "Only the writer may write files") == ["write_file: writer"]


def test_what_was_not_understood_has_its_place_the_reason_and_the_nearest_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_cli(["compile", "partial.md"]) == 2
    told = capsys.readouterr()
    lines = told.err.splitlines()
    place, _, reason = lines[0].partition("  ")
    assert place == "partial.md:3:34"
    assert reason == "it is not clear who works here"
    begin = lines[1].index("Make it snappy.")
    assert lines[2].index("^") == begin
    assert lines[2].count("^") == len("Make it snappy.")
    assert "Say it in a form" in lines[3]
    examples = [repr(example) for form in FORMS for example in form.examples]
    assert any(example in lines[3] for example in examples)
    assert became(told.out, "Make it snappy.") == ["not understood"]
    assert "not understood as a whole" in told.out


def test_a_prompt_comes_from_prose_a_file_or_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = document(capsys, "compile", "notes.md")
    prose = document(capsys, "compile", PROMPT)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROMPT.encode())))
    stdin = document(capsys, "compile", "-")
    assert file["hash"] == prose["hash"] == stdin["hash"]
    assert [each["file"] for each in (file, prose, stdin)] == [
        "notes.md",
        "prompt",
        "standard input",
    ]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nope.md", "cannot read 'nope.md'"),
        ("nope", "cannot read 'nope'"),
        ("registry.yaml", "is a crew's file and no prompt"),
        ("latin.md", "the byte 0xe9 in line 2 is not UTF-8"),
    ],
)
def test_what_is_no_prompt_is_told(
    argument: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("latin.md").write_bytes("The writer\ndrafts café.".encode("latin-1"))
    assert run_cli(["compile", argument]) == 2
    assert message in capsys.readouterr().err


def test_a_crew_is_written_alone_to_standard_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROMPT.encode())))
    before = set(Path().iterdir())
    for _ in range(2):  # there is nothing to be replaced
        assert run_cli(["compile", "notes.md", "--out", "-"]) == 0
        told = capsys.readouterr()
        assert "“Only the writer may write files.”" in told.err
        assert "crewlog run" not in told.err
    assert run_cli(["compile", "-", "-o", "-"]) == 0
    assert capsys.readouterr().out == told.out
    assert set(Path().iterdir()) == before
    found = document(capsys, "compile", "notes.md")
    assert definition_hash(load_definition(told.out)) == found["hash"]
    assert run_cli(["compile", "notes.md", "--out", "-", "--json"]) == 2
    assert "both write to standard output" in capsys.readouterr().err
    assert run_cli(["compile", "partial.md", "--out", "-"]) == 2
    assert capsys.readouterr().out == ""
    part = document(capsys, "compile", "partial.md", "--allow-partial")
    assert run_cli(["compile", "partial.md", "--out", "-", "--allow-partial"]) == 0
    told = capsys.readouterr()
    assert definition_hash(load_definition(told.out)) == part["hash"] != found["hash"]
    assert "not understood" in told.err


@pytest.mark.parametrize(
    "command",
    [
        ("crews", "add"),
        ("crews", "who", "--in"),
        ("crews", "diff", "notes.md"),
        ("register",),
        ("graph",),
    ],
)
@pytest.mark.parametrize("file", ["notes.md", "with: colon.txt", "prose"])
def test_a_prompt_in_a_crews_place_is_told_how_to_become_one(
    command: tuple[str, ...], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("with: colon.txt").write_text("Note: the writer drafts.\nThen: the checker reviews it.\n")
    Path("prose").write_text(PROMPT)
    assert run_cli([*command, file]) == 2
    name = "notes.md" if "diff" in command else file
    told = " ".join(capsys.readouterr().err.split())
    assert f"{name!r} is a prompt and no crew's file" in told
    assert f"crewlog compile {shlex.quote(name)} --out crew.yaml" in told


def test_a_crew_of_another_suffix_is_told_its_own_faults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("crew.txt").write_text("crew: a\nagents:\n  b: {promt: P.}\n")
    assert run_cli(["crews", "add", "crew.txt"]) == 2
    assert "unknown key 'promt'" in capsys.readouterr().err


def test_the_document_is_stable(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "compile", "partial.md", code=2)
    assert set(found) == {
        *("ok", "understood", "reader", "file", "crew", "hash", "definition"),
        *("requirements", "remarks", "clauses"),
    }
    assert (found["ok"], found["understood"], found["reader"]) == (False, False, "forms")
    (remark,) = found["remarks"]
    assert (remark["code"], remark["severity"]) == ("not_understood", "error")
    assert (remark["line"], remark["column"], remark["length"]) == (*SNAPPY, len("Make it snappy."))
    assert remark["place"] == "partial.md:3:34"
    assert remark["message"]
    assert remark["remedy"]
    assert document(capsys, "compile", "partial.md", code=2) == found


def test_the_document_has_every_clause_with_what_it_became(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("partial.md").write_text(f"{PARTIAL}Thanks!\n")
    found = document(capsys, "compile", "partial.md", code=2)
    clauses = found["clauses"]
    assert [each["clause"] for each in clauses] == list(range(1, len(clauses) + 1))
    for each in clauses:
        assert set(each) == {
            *("clause", "line", "column", "start", "end", "text", "kind"),
            *("status", "reason", "parts"),
        }
        text = Path("partial.md").read_text()[each["start"] : each["end"]]
        assert " ".join(text.split()) == each["text"]
        assert (each["status"] == "used") is bool(each["parts"])
    parts = {part: each for each in clauses for part in each["parts"]}
    assert parts["collector starts with the run"]["text"] == "The collector gathers the changes"
    assert parts["write_file: writer"]["text"] == "Only the writer may write files."
    missed, thanks = clauses[-2:]
    assert (missed["text"], missed["status"]) == ("Make it snappy.", "open")
    assert (missed["line"], missed["column"]) == SNAPPY
    assert found["remarks"][0]["clauses"] == [missed["clause"]]
    assert (thanks["text"], thanks["status"], thanks["line"]) == ("Thanks!", "talk", 4)


def test_a_crew_is_written_and_not_replaced_without_force(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = document(capsys, "compile", "notes.md", "--out", "crew.yaml")
    assert found["out"] == "crew.yaml"
    assert definition_hash(load_file("crew.yaml")) == found["hash"]
    text = Path("crew.yaml").read_text()
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 2
    assert "there is a file 'crew.yaml' already" in capsys.readouterr().err
    assert Path("crew.yaml").read_text() == text
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml", "--force"]) == 0
    assert definition_hash(load_file("crew.yaml")) == found["hash"]
    assert run_cli(["compile", "notes.md", "--out", "no/such/dir.yaml"]) == 2
    assert "cannot write 'no/such/dir.yaml'" in capsys.readouterr().err


def test_a_new_version_keeps_what_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 0
    renamed = (
        Path("crew.yaml").read_text().replace("else: ask_human", "else: ask_human, phase: verdict")
    )
    Path("crew.yaml").write_text(renamed)
    load_file("crew.yaml")
    Path("notes.md").write_text(PROMPT.replace("at most 3", "at most 4"))
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml", "--force"]) == 0
    capsys.readouterr()
    text = Path("crew.yaml").read_text()
    assert "at_most: 4" in text
    assert "verdict" in text


def test_the_comments_of_the_file_stay(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 0
    text = Path("crew.yaml").read_text().replace("flow:", "# Ana knows why.\nflow:")
    Path("crew.yaml").write_text(text.replace("  - checker", "  - checker  # strict"))
    Path("notes.md").write_text(PROMPT.replace("at most 3", "at most 4"))
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml", "--force"]) == 0
    lines = Path("crew.yaml").read_text().splitlines()
    assert lines[lines.index("flow:") - 1] == "# Ana knows why."
    assert "  - checker  # strict" in lines
    assert [line for line in lines if "at_most: 4" in line]
    capsys.readouterr()


@pytest.mark.parametrize(
    "written",
    [
        "rules: [{tool: write_file, do: never, agents: [writer], reason: Not yet.}]\n",
        "rules: [{tool: write_file, quota: 5 per run}]\n",
        "groups: {desk: [writer, checker]}\n",
        "interrupts: {people: [ana], expires: 2h, default: stop}\n",
        "logs: {notes: {readers: [checker]}}\n",
        "timezone: Europe/Berlin\n",
        "approvals: {write_file: }\n",
    ],
)
def test_what_people_wrote_into_the_file_stands(
    capsys: pytest.CaptureFixture[str], written: str
) -> None:
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 0
    whole = Path("crew.yaml").read_text() + written
    Path("crew.yaml").write_text(whole)
    before = load_file("crew.yaml")
    Path("notes.md").write_text(PROMPT.replace("at most 3", "at most 4"))
    capsys.readouterr()
    found = document(capsys, "compile", "notes.md", "--out", "crew.yaml", "--force")
    after = load_file("crew.yaml")
    key = written.partition(":")[0]
    assert getattr(after, key) == getattr(before, key)
    assert [line for line in found["replaced"] if "at most 4" in line or "at_most" in line]
    assert definition_hash(after) == found["hash"]


def test_what_would_be_lost_of_the_file_is_named_and_it_stays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("notes.md").write_text(PROMPT + " At most 20 steps.")
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 0
    text = Path("crew.yaml").read_text().replace("steps: 20", "steps: 10")
    text += "rules: [{tool: write_file, do: ask, agents: [checker]}]\n"
    Path("crew.yaml").write_text(text)
    more = PROMPT.replace("checker", "proofreader").replace("the writer may", "the proofreader may")
    Path("notes.md").write_text(f"{more} At most 20 steps.")
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml", "--force"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "rule removed: write_file ask by checker would be lost" in told
    assert "the prompt has proofreader as new, and no checker" in told
    assert "would change limit steps 10 → 20" in told
    assert "permissions do not let proofreader call write_file, and the prompt does" in told
    assert "or take it out of crew.yaml first" in told
    assert Path("crew.yaml").read_text() == text
    Path("crew.yaml").write_text(f"{text}rulez: []\n")
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml", "--force"]) == 2
    assert "rulez" in capsys.readouterr().err


def test_faults_are_all_shown_and_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.md").write_text(BAD + "The checker uses the model gpt-8.\n")
    assert run_cli(["compile", "bad.md", "--out", "crew.yaml"]) == 2
    found = capsys.readouterr()
    places = re.findall(r"^bad\.md:(\d+):(\d+)  (.+)$", found.err, re.MULTILINE)
    assert [(int(line), int(column)) for line, column, _ in places] == [SNAPPY, (4, 1), (5, 1)]
    assert "'gpt-9'" in places[1][2]
    assert "'gpt-8'" in places[2][2]
    assert "not understood as a whole" in found.out
    assert not Path("crew.yaml").exists()
    assert run_cli(["compile", "bad.md", "--json"]) == 2
    found = capsys.readouterr()
    assert json.loads(found.out)["ok"] is False
    error = json.loads(found.err)["error"]
    assert (error["type"], error["exit_code"]) == ("InvalidDefinition", 2)
    assert [each["line"] for each in error["diagnostics"]] == [3, 4, 5]


def test_a_crew_of_a_part_of_the_prompt_is_written_where_that_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_cli(["compile", "partial.md", "--out", "crew.yaml"]) == 2
    assert "partial.md:3:34" in capsys.readouterr().err
    assert not Path("crew.yaml").exists()
    whole = document(capsys, "compile", "notes.md", "--allow-partial")
    found = document(capsys, "compile", "partial.md", "--out", "crew.yaml", "--allow-partial")
    assert (found["ok"], found["understood"]) == (False, False)
    assert [each["code"] for each in found["remarks"]] == ["not_understood"]
    assert definition_hash(load_file("crew.yaml")) == found["hash"]
    question, *rest = found["definition"]["flow"]
    assert (question["phase"], rest) == ("approve_crew", whole["definition"]["flow"])


@pytest.mark.parametrize(
    "work",
    [
        "The planner plans, then the coder codes.",
        "UI and Backend work in parallel. As soon as one of them is done, the tester tests.",
        "The planner plans. Meanwhile, the coder codes. Once both are done, the tester tests.",
        "Wait two hours. Then the planner plans.",
        "I approve the budget before the planner starts. The planner plans.",
        "The lead decides who works next: planner or coder (at most 10 times).",
        "The router sends each message to planner or coder.",
    ],
)
def test_a_crew_of_a_part_of_a_prompt_asks_people_before_anything_else(
    capsys: pytest.CaptureFixture[str], work: str
) -> None:
    Path("some.md").write_text(f"{work} Make it snappy.")
    assert run_cli(["compile", "some.md", "--out", "crew.yaml", "--allow-partial"]) == 0
    capsys.readouterr()
    plan = lower(load_file("crew.yaml"))
    assert [name for name, node in plan.nodes.items() if node.entry] == ["approve_crew"]
    assert plan.nodes[NodeName("approve_crew")].ask is not None
    first, second, *_ = document(capsys, "validate", "crew.yaml", "--dry-run")["dry_run"]["steps"]
    assert first["node"] == "approve_crew"
    assert "approve_crew" in second["reason"]


def test_an_agent_may_have_the_name_of_the_question(capsys: pytest.CaptureFixture[str]) -> None:
    Path("some.md").write_text("Agents: approve crew. The approve crew drafts. Make it snappy.")
    found = document(capsys, "compile", "some.md", "--allow-partial")["definition"]
    assert [each for each in found["flow"] if each == "approve_crew"] == ["approve_crew"]
    assert found["flow"][0]["phase"] == "approve_crew_2"


def test_the_last_line_names_the_ways_on(capsys: pytest.CaptureFixture[str]) -> None:
    def last(*arguments: str) -> str:
        assert run_cli(list(arguments)) == 2
        return capsys.readouterr().err.splitlines()[-1]

    told = last("compile", "partial.md")
    assert told.startswith("  1 fault: the prompt is not understood as a whole.")
    for way in ("reword", "--reader model", "crew.yaml", "--allow-partial"):
        assert way in told
    assert last("run", "partial.md") == told
    for command in (("explain", "partial.md", "writer"), ("validate", "partial.md")):
        assert "reword" in (line := last(*command))
        assert "--allow-partial" not in line  # the command has no such option
    Path("bad.md").write_text(BAD)
    told = last("compile", "bad.md")  # no part of it can run
    assert "2 faults" in told
    assert "--allow-partial" not in told
    assert "reword" not in last("compile", " \n ")
    assert run_cli(["compile", "partial.md", "--json"]) == 2
    assert "--allow-partial" in json.loads(capsys.readouterr().err)["error"]["note"]


@pytest.mark.parametrize(
    ("sentence", "line"),
    [
        ("The writer is concise.", "agent writer: is concise"),
        ("There are two agents: a writer and a checker.", "agents writer, checker"),
        ("Crew: green-team.", "crew green-team"),
        (
            "The checker reviews its own work, at most 2 times.",
            "agent checker: reviews its own work, at most 2 times",
        ),
        (
            "If nobody answers within a day, reject it.",
            "people: questions wait 1d, then they count as rejected",
        ),
        (
            "The writer may call its model at most 12 times.",
            "agent writer: at most 12 model calls a turn",
        ),
        ("The run takes at most 1 hour.", "max time 1h"),
        ("Spend at most 2 dollars.", "max cost $2"),
        ("At most 20 steps.", "max steps 20"),
        ("If the writer fails, continue without it.", "agent writer: if it fails, the run goes on"),
        ("The writer is switched off for now.", "agent writer: switched off"),
        ("Only the checker sees the writer's notes.", "notes of writer: read by checker alone"),
        ("The checker works blind.", "agent checker: sees no notes of other agents"),
        ("If it is spam, stop.", "after checker: end the run if spam"),
        (
            "The lead decides who works next: editor or painter (at most 7 times).",
            "supervisor lead: workers editor and painter; at most 7 times",
        ),
    ],
)
def test_each_kind_of_clause_shows_its_part(
    capsys: pytest.CaptureFixture[str], sentence: str, line: str
) -> None:
    begins = sentence.startswith(("Crew", "There are"))
    work = "The writer drafts. Then the checker reviews."
    text = f"{sentence}\n\n{work}" if begins else f"{work} {sentence}"
    parts = [
        part
        for clause in document(capsys, "compile", text)["clauses"]
        if clause["text"] not in work
        for part in clause["parts"]
    ]
    assert line in parts


def test_a_loop_of_a_refused_crew_is_no_working_step(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.md").write_text(BAD)
    parts = [
        part
        for clause in document(capsys, "compile", "bad.md", code=2)["clauses"]
        for part in clause["parts"]
    ]
    loop = "loop after checker: back to writer unless approved, at most 3 times, then ask people"
    assert parts[:3] == [
        "collector starts with the run",
        "writer waits for collector",
        "checker waits for writer",
    ]
    assert loop in parts
    assert not [part for part in parts if "after_checker" in part]


def test_a_fault_of_the_whole_prompt_has_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("registry.yaml").write_text(REGISTRY.replace("model: openai:gpt-5-mini\n", ""))
    (remark, *_) = document(capsys, "compile", "notes.md", code=2)["remarks"]
    assert "--model" in remark["remedy"]
    assert (remark["place"], remark["line"], remark["clauses"]) == ("notes.md", 0, [])


@pytest.mark.parametrize("columns", [24, 40, 60])
def test_the_head_is_no_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    head = shown(capsys, "compile", "notes.md").partition("\n\n")[0].splitlines()
    assert len(head) > 1
    assert all(len(line) <= max(columns, 2 + 27) for line in head)
    assert "read by the forms" in " ".join(head)


def test_a_crew_of_a_part_of_the_prompt_is_shown_with_all_reasons(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("partial.md").write_text(f"{PARTIAL}git_log needs my approval.\n")
    assert run_cli(["compile", "partial.md", "--allow-partial"]) == 0
    found = capsys.readouterr()
    assert became(found.out, "Make it snappy.")[0].startswith("not understood")
    assert "not understood as a whole" in found.out
    told = found.out + found.err
    assert "it is not clear who works here" in told
    assert "no agent may call it" in told


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("Hello! Thanks.", "the prompt does not say who does what"),
        (" \n\n", "the prompt is empty"),
        ("Make it snappy.", "it is not clear who works here"),
    ],
)
def test_of_no_crew_no_part_can_be_allowed(
    capsys: pytest.CaptureFixture[str], prompt: str, message: str
) -> None:
    Path("none.md").write_text(prompt)
    assert run_cli(["compile", "none.md", "--allow-partial", "--out", "crew.yaml"]) == 2
    assert message in capsys.readouterr().err
    assert not Path("crew.yaml").exists()
    found = document(capsys, "compile", "none.md", "--allow-partial", code=2)
    assert (found["ok"], found["definition"], found["hash"]) == (False, None, None)


def test_a_crew_that_can_not_run_is_no_part_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.md").write_text(BAD)
    assert run_cli(["compile", "bad.md", "--allow-partial", "--out", "crew.yaml"]) == 2
    assert "the registry does not offer the model 'gpt-9'" in capsys.readouterr().err
    Path("registry.yaml").write_text(REGISTRY.replace("model: openai:gpt-5-mini\n", ""))
    assert run_cli(["compile", "notes.md", "--allow-partial", "--out", "crew.yaml"]) == 2
    assert "--model" in capsys.readouterr().err
    assert not Path("crew.yaml").exists()


def test_the_registry_is_found_beside_the_prompt_or_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("there").mkdir()
    Path("there/notes.md").write_text(PROMPT)
    Path("there/registry.yaml").write_text(REGISTRY.replace("gpt-5-mini", "beside"))
    Path("other.yaml").write_text(REGISTRY.replace("gpt-5-mini", "named"))

    def model(*arguments: str) -> str:
        found = document(capsys, "compile", "there/notes.md", *arguments)
        return str(found["definition"]["model"])

    assert model() == "openai:beside"
    assert model("--registry", "other.yaml") == "openai:named"
    assert model("--model", "openai:given") == "openai:given"
    Path("there/registry.yaml").unlink()
    assert model() == "openai:gpt-5-mini"
    Path("other.yaml").write_text("registry: x\ntols: {}\n")
    assert run_cli(["compile", "there/notes.md", "--registry", "other.yaml"]) == 2
    assert "other.yaml:2:1" in capsys.readouterr().err


def test_without_a_registry_there_are_no_tools(capsys: pytest.CaptureFixture[str]) -> None:
    Path("registry.yaml").unlink()
    assert run_cli(["compile", "The planner plans. Then the coder writes the code."]) == 2
    assert "--model" in capsys.readouterr().err
    made = shown(
        capsys, "compile", "The planner plans. Then the coder codes.", "--model", "openai:x"
    )
    assert "planner ── coder" in made


@covers("C29")
def test_a_dry_run_follows_what_was_understood(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, "compile", "notes.md", "--dry-run")
    assert "nothing is called; agents say nothing and set nothing" in found
    assert "not approved holds (approved is not set) → writer, time 1 of 3" in found
    assumed = document(
        capsys, "compile", "notes.md", "--dry-run", "--assume", "checker.approved=true"
    )["dry_run"]
    assert [each["node"] for each in assumed["steps"]][:3] == ["collector", "writer", "checker"]
    assert (assumed["flags"], assumed["end"]) == ({"approved": True}, "completed")
    assert run_cli(["compile", "notes.md", "--assume", "approved"]) == 2
    assert "--assume is for a dry run" in capsys.readouterr().err
    assert run_cli(["compile", "notes.md", "--dry-run", "--assume", "aproved"]) == 2
    assert "Did you mean 'approved'?" in capsys.readouterr().err


def test_a_crew_file_has_a_dry_run_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 0
    capsys.readouterr()
    found = shown(capsys, "validate", "crew.yaml", "--dry-run")
    assert "✓ crew.yaml: crew" in found
    assert "13 visits · 1 question" in found
    data = document(capsys, "validate", "crew.yaml", "--dry-run", "--assume", "approved")
    assert data["valid"] is True
    assert data["dry_run"]["interrupts"] == []


STANDS_IN = """\
Agents: collector, vendor, archive, printer.
The collector gathers the orders. Then the vendor names the price. If the vendor does not answer
within ten minutes, the archive takes over. Then the printer prints it.
"""


def test_a_dry_run_assumes_that_a_step_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    Path("vendor.md").write_text(STANDS_IN)
    assume = ("--dry-run", "--assume", "vendor.error=no answer")
    found = shown(capsys, "compile", "vendor.md", *assume)
    assert "assumed: vendor fails (no answer)" in found
    assert "failed: no answer → archive" in found
    assert "in the place of vendor, which failed" in found
    data = document(capsys, "compile", "vendor.md", *assume)["dry_run"]
    assert [each["node"] for each in data["steps"]] == ["collector", "vendor", "archive", "printer"]
    assert data["errors"] == {"vendor": "no answer"}
    without = document(capsys, "compile", "vendor.md", "--dry-run")["dry_run"]
    assert [each["node"] for each in without["unreached_nodes"]] == ["archive"]
    assert run_cli(["compile", "vendor.md", "--dry-run", "--assume", "vender.error"]) == 2
    assert "Did you mean 'vendor'?" in capsys.readouterr().err


def test_validate_checks_prompts_and_registries(capsys: pytest.CaptureFixture[str]) -> None:
    assert "understood whole" in shown(capsys, "validate", "notes.md")
    found = document(capsys, "validate", "notes.md")
    assert (found["valid"], found["understood"]) == (True, True)
    assert run_cli(["validate", "partial.md"]) == 2
    assert "partial.md:3:34" in capsys.readouterr().err
    Path("bad.md").write_text(BAD)
    assert run_cli(["validate", "bad.md"]) == 2
    told = capsys.readouterr().err
    assert "bad.md:3:34" in told
    assert "gpt-9" in told
    assert "registry notes · 2 tools" in shown(capsys, "validate", "registry.yaml")
    assert document(capsys, "validate", "registry.yaml")["tools"] == ["write_file", "git_log"]
    Path("offers.yaml").write_text("# Ours\nregistry: notes\ntols: {}\nmodle: x\n")
    assert run_cli(["validate", "offers.yaml"]) == 2
    found = capsys.readouterr().err
    assert "offers.yaml:3:1" in found
    assert "offers.yaml:4:1" in found


@pytest.mark.parametrize(
    ("what", "key"), [("crew", "flow"), ("registry", "tools"), ("reading", "steps")]
)
def test_schemas(what: str, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown(capsys, "schema", what))
    assert key in found["properties"]
    assert found["$schema"].endswith("2020-12/schema")


def test_an_unknown_schema_has_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["schema", "registri"]) == 2
    assert "Did you mean 'registry'?" in capsys.readouterr().err
    assert run_cli(["schema", "prompt-ast"]) == 2
    assert "There are: crew, registry, reading." in capsys.readouterr().err


def test_a_node_of_a_part_of_a_prompt_is_not_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_cli(["explain", "partial.md", "writer"]) == 2
    found = capsys.readouterr()
    assert "partial.md:3:34" in found.err
    assert found.out == ""


def test_a_node_is_explained_with_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, "explain", "notes.md", "writer")
    assert "the writer drafts notes" in found
    assert "“Only the writer may write files" in found
    rows = {line[2:17].strip(): line[17:] for line in found.splitlines() if line[2:3].strip()}
    assert rows["waits for"] == "collector"
    assert rows["may follow"] == "checker"
    assert "write_file" in rows["may call"]
    data = document(capsys, "explain", "notes.md", "writer")
    assert [each["text"] for each in data["clauses"]] == [
        "then the writer drafts notes.",
        "Only the writer may write files.",
    ]
    assert data["clauses"][1]["parts"] == ["write_file: writer"]
    assert run_cli(["explain", "notes.md", "wrter"]) == 2
    assert "Did you mean 'writer'?" in capsys.readouterr().err


def test_a_crew_files_node_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 0
    capsys.readouterr()
    found = shown(capsys, "explain", "crew.yaml", "after_checker")
    assert "decision" in found
    assert "writer, where not approved (≤ 3)" in found
    assert "in the prompt" not in found
    checker = shown(capsys, "explain", "crew.yaml", "checker")
    assert "flags approved" in checker
    assert "write_file  permissions let only writer call it" in checker


@pytest.mark.parametrize("columns", [50, 80])
def test_clauses_and_parts_stand_in_their_columns_in_a_narrow_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shown(capsys, "compile", "notes.md").splitlines()
    assert columns - 12 <= max(map(len, lines)) <= columns
    clauses = [line for line in lines if re.match(r" *\d+  ", line)]
    assert len(clauses) > 4
    assert {line.index("“") for line in clauses} == {6}
    begin = next(i for i, line in enumerate(lines) if "“" in line)
    end = next(i for i, line in enumerate(lines) if i > begin and not line)
    rest = [line for line in lines[begin:end] if line not in clauses]
    assert all(re.match(r" {6}→ \S| {6,8}\S", line) for line in rest)


def test_prose_too_long_for_a_file_s_name_is_prose() -> None:
    prose = "The collector gathers the changes, then the writer drafts notes. " * 5
    assert is_prompt(prose)
    assert read_source(prose).text == prose
    assert not is_file(prose)
    assert not is_file("x" * 300)
    assert not is_file("a\0b")
