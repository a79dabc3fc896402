"""What is shown of prompts fits the terminal, whatever they say: every crew of the corpus."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from corpus.cases import DOMAINS, HERE, load_case
from crewlog.cli.dry import dry_run_of, show_dry_run
from crewlog.cli.explained import show_explanation
from crewlog.cli.screen import Screen, folded
from crewlog.cli.understood import as_json, excerpt, show_remarks, show_understood
from crewlog.errors import Diagnostic
from crewlog.graph.explain import explain
from crewlog.graph.lower import lower
from crewlog.prompt.ast import Cast, PromptAst, Words
from crewlog.prompt.compile import compile_prompt, compiled
from crewlog.prompt.compiled import CompiledPrompt, Remark
from crewlog.prompt.registry import Registry
from crewlog.prompt.registry_file import load_registry_file
from crewlog.prompt.saying import say

CASES = sorted(f for d in DOMAINS for f in (HERE / d).glob("[0-9]*.yaml"))
WIDTHS = (60, 80, 120)


def crew_of(file: Path) -> CompiledPrompt:
    """A corpus case, compiled of its statements: each has a sentence of the prompt for words."""
    case, registry = load_case(file), load_registry_file(file.parent / "registry.yaml")
    said = say(case.expected, registry)
    found = list(re.finditer(r"[^.;:]+", case.prompt))
    cast = [Cast(agents=tuple(said.cast))] if said.cast else []
    statements: list[Any] = []
    for number, each in enumerate([*cast, *said.work, *said.rules]):
        at = found[min(number, len(found) - 1)]
        words = (Words(start=at.start(), end=at.end()),)
        statements.append(each.model_copy(update={"words": words}))
    tree = PromptAst(statements=tuple(statements))
    return compiled(case.prompt, tree, registry, file=file.name)


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


@pytest.mark.parametrize("file", CASES, ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_every_crew_fits(file: Path) -> None:
    found = crew_of(file)
    assert found.definition is not None
    plan = lower(found.definition)
    run = dry_run_of(plan, [])
    for width in WIDTHS:
        screen = shown_at(width)
        show_understood(screen, found, words=True)
        show_dry_run(screen, run)
        for node in plan.nodes:
            show_explanation(screen, explain(found.definition, node), found)
        wide = [line for line in lines_of(screen) if cell_len(line) > width]
        # What has no space cannot be broken: it must not be cut, either.
        assert not [line for line in wide if len(line.split()) > 3], wide
    assert as_json(found)["hash"] == found.hash


@pytest.mark.parametrize("file", CASES[::9], ids=lambda f: f.stem)
def test_every_phase_is_named_and_lines_stand_in_one_column(file: Path) -> None:
    found = crew_of(file)
    screen = shown_at(100)
    show_understood(screen, found)
    lines = lines_of(screen)
    end = next(i for i, line in enumerate(lines) if i > 2 and not line)
    rows = [line for line in lines[2:end] if re.search(r"  lines? \d", line)]
    assert len({re.search(r"lines? \d", row).start() for row in rows}) == 1  # type: ignore[union-attr]
    text = " ".join(lines[:end])
    for part in found.provenance:
        if part.what == "phase":
            assert re.search(rf"(?<![\w-]){re.escape(part.text)}(?![\w-])", text)


@pytest.mark.parametrize("room", [20, 40, 60, 200])
@pytest.mark.parametrize("caret", [1, 30, 90])
def test_an_excerpt_keeps_what_is_underlined(room: int, caret: int) -> None:
    line = "x" * 29 + "y" * 60 + "z" * 20
    found = Diagnostic("m", line=1, column=caret, caret=caret, length=10, excerpt=line)
    (text, _), (underline, _) = excerpt(found, room)
    assert len(text) <= room
    begin = underline.index("^")
    assert text[begin] == line[caret - 1]
    assert underline.strip() == "^" * min(10, len(text) - begin)


def test_hostile_words_are_shown_as_text(tmp_path: Path) -> None:
    text = "Then \x1b[2J[bold]the writer\x1b]0;x\x07 writes."
    words = (Words(start=0, end=len(text)),)
    told = Diagnostic("no \x1b[31msense", line=1, column=1, length=4, excerpt=text)
    remark = Remark("not_understood", "warning", told, words)
    found = CompiledPrompt(text, "p\x1b.md", "grammar", PromptAst(), None, (remark,))
    screen = shown_at(80)
    show_understood(screen, found, words=True)
    shown = "\n".join(lines_of(screen))
    assert "\x1b" not in shown
    assert "[bold]the writer" in shown


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


def test_what_may_run_as_it_is_is_a_warning() -> None:
    registry = Registry.model_validate({"model": "x:y", "tools": {"post": {"run": "m:post"}}})
    found = compile_prompt("The writer drafts. Calls of post wait for a person's yes.", registry)
    screen = shown_at(80)
    show_remarks(screen, found)
    assert found.ok
    assert next(line.split()[0] for line in lines_of(screen) if line) == "warning"
