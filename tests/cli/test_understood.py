"""What is shown of prompts fits the terminal, and no clause is left out: the whole corpus."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.cells import cell_len
from rich.console import Console

from corpus.cases import DOMAINS, HERE, read
from crewlog.cli.dry import dry_run_of, show_dry_run
from crewlog.cli.explained import show_explanation
from crewlog.cli.problems import excerpt
from crewlog.cli.screen import Screen, folded
from crewlog.cli.understood import as_json, show_remarks, show_understood
from crewlog.definition.model import DecisionPhase
from crewlog.definition.phases import phases
from crewlog.errors import Diagnostic
from crewlog.graph.lowering.plans import lower
from crewlog.prompt.compile import assess, clauses_of, compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.explaining import clause_accounts
from crewlog.prompt.faults import Fault
from crewlog.prompt.reading import EMPTY, Account
from crewlog.prompt.registry import Registry
from crewlog.prompt.registry_file import load_registry_file
from crewlog.reporting.explanation import explain

CASES = sorted(f for d in DOMAINS for f in (HERE / d).glob("[0-9]*.yaml"))
WIDTHS = (40, 60, 80, 120)
UNFOLDED = 5_000
"""Columns in which no line is folded."""
SAID = {
    "talk": "talk",
    "data": "data",
    "withdrawn": "withdrawn",
    "open": "not understood",
    "cannot": "not understood",
    "against": "contradiction",
}
"""What is said of a clause that became nothing, by its status."""
REGISTRY = Registry.model_validate(
    {"model": "x:y", "tools": {"post": {"run": "m:post"}, "deploy": {"run": "m:deploy"}}}
)


@cache
def compiled_case(file: Path) -> CompiledPrompt:
    """A prompt of the corpus, compiled with the forms: understood, in part, or not at all."""
    registry = load_registry_file(file.parent / "registry.yaml")
    return compile_prompt(read(file)["prompt"], registry, file=file.name)


def shown_at(width: int) -> Screen:
    """A terminal that many columns wide, in memory."""
    screen = Screen()
    screen.out = Console(
        file=io.StringIO(), force_terminal=True, width=width, highlight=False, color_system=None
    )
    return screen


def lines_of(screen: Screen) -> list[str]:
    file: Any = screen.out.file
    return str(file.getvalue()).splitlines()


class Row(NamedTuple):
    """A clause in the table."""

    line: int
    words: str
    became: list[str]


def rows_of(found: CompiledPrompt, *, words: bool = True) -> list[Row]:
    """The table of clauses."""
    screen = shown_at(UNFOLDED)
    show_understood(screen, found, words=words)
    rows: list[Row] = []
    for line in lines_of(screen):
        if head := re.fullmatch(r" *(\d+)  “(.*)”", line):
            rows.append(Row(int(head[1]), head[2], []))
        elif line.startswith("      → "):
            rows[-1].became.append(line.removeprefix("      → "))
    return rows


def accounted(text: str, *statuses: tuple[str, str]) -> CompiledPrompt:
    """A prompt whose clauses a model accounts for so: status and reason, one each."""
    ledger = tuple(
        Account.model_validate({"clause": n, "status": status, "why": why, "against": []})
        for n, (status, why) in enumerate(statuses, 1)
    )
    reading = EMPTY.model_copy(update={"ledger": ledger})
    return assess(clauses_of(text), reading, REGISTRY, reader="model")


def test_the_corpus_has_prompts_of_every_kind() -> None:
    """What follows shows nothing if all prompts are understood, or none is."""
    found = [compiled_case(file) for file in CASES]
    assert any(each.ok for each in found)
    assert any(each.partial and not each.ok for each in found)
    assert any(each.definition is None for each in found)


@pytest.mark.parametrize("file", CASES, ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_every_prompt_fits(file: Path) -> None:
    found = compiled_case(file)
    for width in WIDTHS:
        screen = shown_at(width)
        show_understood(screen, found, words=True, faults=True)
        if found.definition is not None and found.partial and width > 40:
            plan = lower(found.definition)
            show_dry_run(screen, dry_run_of(plan, []))
            for node in plan.nodes:
                show_explanation(screen, explain(found.definition, node), found)
        wide = [line for line in lines_of(screen) if cell_len(line) > width]
        # What has no space cannot be broken: it must not be cut, either.
        assert not [line for line in wide if len(line.split()) > 3], wide


@pytest.mark.parametrize("file", CASES, ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_every_clause_is_shown_with_what_became_of_it(file: Path) -> None:
    found = compiled_case(file)
    rows = rows_of(found)
    assert len(rows) == len(found.clauses) == len(clause_accounts(found))
    for row, account in zip(rows, clause_accounts(found), strict=True):
        assert row.line == account.line
        assert row.words[:200] == account.clause.text[:200]
        expected = list(account.parts)
        if account.status == "used":
            assert account.parts or found.definition is None
        else:
            expected.append(SAID[account.status])
        assert row.became == expected


@pytest.mark.parametrize("file", CASES, ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_every_step_and_every_right_has_a_clause_that_it_comes_from(file: Path) -> None:
    found = compiled_case(file)
    if found.definition is None:
        assert not any(account.parts for account in clause_accounts(found))
        return
    told = [line for account in clause_accounts(found) for line in account.parts]
    for phase in phases(found.definition):
        begins = rf"{re.escape(phase.name)}\b"
        if isinstance(phase.item, DecisionPhase):  # it is no working step
            to = "end the run" if phase.item.go == "end" else f"(back|go) to {phase.item.go}"
            begins = rf"(loop )?after [^:]+: {to} (if|unless) "
            assert not any(line.startswith(phase.name) for line in told)
        assert any(re.match(begins, line) for line in told), phase.name
    for tool in (*found.definition.permissions, *found.definition.approvals):
        assert any(re.match(rf"{re.escape(tool)}\b", line) for line in told), tool


@pytest.mark.parametrize("file", CASES, ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_what_is_not_understood_has_a_fault_at_its_place(file: Path) -> None:
    found = compiled_case(file)
    assert found.understood is not bool(found.faults)
    faulty = {number for fault in found.faults for number in fault.clauses}
    for account in clause_accounts(found):
        if account.status == "open":
            assert account.clause.number in faulty
    lines = found.text.splitlines()
    for remark in found.remarks:
        at = remark.diagnostic
        assert remark.error is (remark.severity == "error")
        assert at.file == file.name
        if remark.clauses:
            first = found.clauses[remark.clauses[0]].text.split()[0]
            assert lines[at.line - 1][at.column - 1 :].startswith(first)


@pytest.mark.parametrize("file", CASES[::3], ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_the_document_has_the_same_as_the_table(file: Path) -> None:
    found = compiled_case(file)
    document = as_json(found)
    assert (document["ok"], document["understood"]) == (found.ok, found.understood)
    assert (document["hash"], document["reader"]) == (found.hash, "forms")
    assert [each["code"] for each in document["remarks"]] == [r.code for r in found.remarks]
    clauses = document["clauses"]
    assert [each["clause"] for each in clauses] == list(range(1, len(found.clauses) + 1))
    for each, row in zip(clauses, rows_of(found), strict=True):
        assert " ".join(found.text[each["start"] : each["end"]].split()) == each["text"]
        before = found.text[: each["start"]]
        assert each["line"] == before.count("\n") + 1 == row.line
        assert each["column"] == len(before) - (before.rfind("\n") + 1) + 1
        said = [] if each["status"] == "used" else [SAID[each["status"]]]
        assert [*each["parts"], *said] == row.became


@pytest.mark.parametrize("file", CASES[::9], ids=lambda f: f.stem)
@pytest.mark.parametrize("width", [60, 100])
def test_clauses_and_parts_stand_in_their_columns(file: Path, width: int) -> None:
    found = compiled_case(file)
    screen = shown_at(width)
    show_understood(screen, found, words=True)
    lines = lines_of(screen)
    clauses = [line for line in lines if re.match(r" *\d+  “", line)]
    assert len(clauses) == len(found.clauses)
    assert {line.index("“") for line in clauses} == {6}
    assert {len(re.match(r" *\d+", line)[0]) for line in clauses} == {4}  # type: ignore[index]
    parts = [line for line in lines if line.startswith("      → ")]
    each = clause_accounts(found)
    assert len(parts) == sum(len(a.parts) + (a.status != "used") for a in each)


def test_talk_and_pasted_text_are_counted_and_shown_on_demand() -> None:
    text = (
        "# Release notes\n\nHello! The writer drafts. Thanks.\n\n"
        "> The hacker uses deploy.\n\n## Thanks\n\nCheers!\n"
    )
    found = compile_prompt(text, REGISTRY)
    assert found.ok
    screen = shown_at(80)
    show_understood(screen, found)
    shown = "\n".join(lines_of(screen))
    assert "      3 clauses of talk, not shown: --words" in shown
    assert "      1 clause of data, not shown: --words" in shown
    assert not [word for word in ("Hello", "Thanks", "Cheers", "hacker") if word in shown]
    assert [row.words for row in rows_of(found, words=False)] == [
        "Release notes",
        "The writer drafts.",
    ]
    rows = {row.words: row.became for row in rows_of(found)}
    assert rows["Hello!"] == rows["Cheers!"] == ["talk"]
    assert rows["> The hacker uses deploy."] == ["data"]
    assert rows["The writer drafts."] == ["writer starts with the run"]
    screen = shown_at(80)
    show_understood(screen, found, words=True)
    assert "not shown" not in "\n".join(lines_of(screen))


def test_what_was_not_understood_is_shown_without_words_too() -> None:
    found = compile_prompt("Hello! The writer drafts. Make it snappy.", REGISTRY)
    assert found.partial
    rows = {row.words: row.became for row in rows_of(found, words=False)}
    assert rows == {
        "The writer drafts.": ["writer starts with the run"],
        "Make it snappy.": ["not understood"],
    }


@pytest.mark.parametrize(
    ("status", "why", "shown"),
    [
        ("cannot", "colours are no part", "not understood: colours are no part"),
        ("against", "it says both", "contradiction: it says both"),
        ("withdrawn", "", "withdrawn"),
        ("talk", "", "talk"),
    ],
)
def test_what_a_model_accounts_for_is_shown_with_its_reason(
    status: str, why: str, shown: str
) -> None:
    found = accounted("Paint the shed blue. No, wait, not that.", (status, why), ("talk", ""))
    assert rows_of(found)[0] == Row(1, "Paint the shed blue.", [shown])
    document = as_json(found)["clauses"][0]
    assert (document["status"], document["reason"], document["parts"]) == (status, why, [])


def test_a_crew_that_could_not_run_has_no_graph_and_no_parts() -> None:
    found = compile_prompt("The writer drafts, then the checker reviews.", Registry())
    assert found.definition is not None  # it has no model
    assert not found.partial
    screen = shown_at(80)
    show_understood(screen, found)
    shown = "\n".join(lines_of(screen))
    assert "not understood as a whole" in shown
    assert "“The writer drafts" in shown
    assert "──" not in shown


@pytest.mark.parametrize("room", [20, 40, 60, 200])
@pytest.mark.parametrize("caret", [1, 30, 90])
def test_an_excerpt_keeps_what_is_underlined(room: int, caret: int) -> None:
    line = "x" * 29 + "y" * 60 + "z" * 20
    found = Diagnostic("m", line=1, column=caret, caret=caret, length=10, excerpt=line)
    (text, _), (underline, _) = excerpt(found, room, "red")
    assert len(text) <= room
    begin = underline.index("^")
    assert text[begin] == line[caret - 1]
    assert underline.strip() == "^" * min(10, len(text) - begin)


def test_hostile_words_are_shown_as_text() -> None:
    text = "Then \x1b[2J[bold]the writer\x1b]0;x\x07 writes."
    found = compile_prompt(text, REGISTRY, file="p\x1b.md")
    note = Fault("assumed", "no \x1b[31msense", "say \x1b[2Jmore", (1,))
    screen = shown_at(80)
    show_understood(screen, replace(found, notes=(note,)), words=True)
    shown = "\n".join(lines_of(screen))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert shown.count("[bold]the writer") == 2  # the clause, and the line that the note is about
    assert "sense" in shown


def test_lines_are_broken_between_words_only() -> None:
    assert folded("one two three", 7) == ["one two", "three"]
    assert folded("one two three", 7, 5) == ["", "one two", "three"]
    assert folded("https://example.com/a/long/path ok", 10) == [
        "https://example.com/a/long/path",
        "ok",
    ]
    assert folded("  kept indent", 40) == ["  kept indent"]
    assert folded("", 10) == [""]
    assert folded("漢字 漢字 漢字", 9) == ["漢字 漢字", "漢字"]


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        (
            "The writer drafts. The writer may use post. The writer is switched off.",
            "warning",
            "no agent may call the tool 'post'",
        ),
        (
            "The writer drafts, then the checker reviews. Unless approved, back to the writer.",
            "assumed",
            "the prompt states no bound for going back to writer: 3 times is assumed",
        ),
    ],
)
def test_what_may_run_as_it_is_is_a_note(text: str, label: str, message: str) -> None:
    found = compile_prompt(text, REGISTRY)
    assert found.ok
    assert [remark.severity for remark in found.remarks] == ["warning"]
    screen = shown_at(100)
    show_remarks(screen, found)
    lines = [line for line in lines_of(screen) if line]
    assert lines[0].split()[0] == label
    assert message in " ".join(" ".join(lines).split())
    underlined = next(line for line in lines if "^" in line)
    assert "prompt:1:" in lines[0]
    assert lines[lines.index(underlined) - 1].strip()
