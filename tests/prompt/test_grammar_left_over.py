"""What is not understood is said; what is not offered is an error; hostile text costs little."""

from __future__ import annotations

import time

import pytest
from tests.prompt.test_grammar_ways import CREW, REGISTRY

from crewlog.prompt.grammar import read
from crewlog.prompt.registry import Registry


@pytest.mark.parametrize(
    "words",
    ["Make it snappy.", "Thanks!", "ta", "We've had enough surprises this year.", "Keep it short."],
)
def test_reports_what_is_no_rule(words: str) -> None:
    text = f"{CREW}{words}"
    (remark,) = read(text, REGISTRY, "notes.md").remarks
    assert (remark.code, remark.severity) == ("not_understood", "warning")
    assert text[remark.words[0].start : remark.words[0].end] in words
    assert remark.diagnostic.place.startswith("notes.md:1:")
    assert remark.diagnostic.remedy


@pytest.mark.parametrize(
    "words",
    [
        "The writer may use teleport.",
        "The writer uses magic_wand.",
        "Only the writer may use web_serch.",
        "launch_rocket needs my approval.",
    ],
)
def test_a_tool_that_nobody_offers_is_an_error(words: str) -> None:
    reading = read(f"{CREW}{words}", REGISTRY)
    (remark,) = [r for r in reading.remarks if r.code == "unknown_tool"]
    assert remark.error
    assert not [s for s in reading.ast.statements if s.kind == "allow"]


def test_a_slip_of_the_pen_is_no_new_agent() -> None:
    reading = read(f"{CREW}The cheker reads it again.", REGISTRY)
    (remark,) = [r for r in reading.remarks if r.code == "unknown_agent"]
    assert remark.error
    assert remark.diagnostic.remedy == "Did you mean 'checker'?"


def test_a_registry_may_take_no_new_agents() -> None:
    closed = Registry.model_validate({"new_agents": False, "agents": {"writer": {"prompt": "-"}}})
    reading = read(CREW, closed)
    assert [r.code for r in reading.remarks if r.error] == ["unknown_agent"]


def test_what_an_agent_does_gives_it_no_tool() -> None:
    reading = read("The writer writes files. The scout searches the web.", REGISTRY)
    assert not [s for s in reading.ast.statements if s.kind == "allow"]
    assert [s.kind for s in reading.ast.statements] == ["step", "step"]


def test_words_of_control_in_a_task_are_reported() -> None:
    reading = read("The writer drafts the text only in German and asks me.", REGISTRY)
    assert "read_as_words" in {r.code for r in reading.remarks}


@pytest.mark.parametrize(
    "text",
    [
        "if " * 2_000,
        "(" * 5_000,
        "the writer and " * 1_000,
        "ask me before the writer " * 1_000,
        "once the writer is done " * 1_000,
        "at most 3 times " * 1_000,
        "a" * 100_000,
        ", " * 5_000,
        "\x00" * 5_000,
        "\u202eהכותב drafts the notes. " * 50,
        "Тhe wrіter 🙂 drafts. " * 100,
        "\ud800 the writer \udfff drafts. " * 50,
        "a -> " * 2_000,
        "- x\n" * 2_000,
    ],
    ids=lambda t: ascii(t[:12]),
)
def test_hostile_text_is_read_in_bounded_time(text: str) -> None:
    begun = time.monotonic()
    read(text, REGISTRY)
    assert time.monotonic() - begun < 20


def test_a_hundred_agents_are_read_fast() -> None:
    names = [f"{chr(97 + i // 26)}{chr(97 + i % 26)}x writer" for i in range(100)]
    text = " ".join(f"The {name} drafts part {i}." for i, name in enumerate(names))
    begun = time.monotonic()
    reading = read(text, REGISTRY)
    assert time.monotonic() - begun < 5
    assert len(reading.ast.statements) == 100


@pytest.mark.parametrize(
    "words",
    ["The writer may use deploy unless it is Friday.", "If approved, the writer may use deploy."],
)
def test_a_permission_under_a_condition_is_not_given(words: str) -> None:
    reading = read(f"{CREW}{words}", REGISTRY)
    assert not [s for s in reading.ast.statements if s.kind == "allow"]
    assert "not_understood" in {r.code for r in reading.remarks}


@pytest.mark.parametrize(
    "words",
    [
        "If the of is than, go back to the writer, at most 3 times, otherwise stop.",
        "If the of is than, then the writer translates it; otherwise the checker does.",
        "Unless the of is than, stop.",
        "Otherwise, the writer translates it.",
        "If so, the writer translates it.",
        "If not, go back to the writer.",
    ],
)
def test_what_a_condition_that_is_not_understood_governs_is_left_out(words: str) -> None:
    reading = read(f"{CREW}{words}", REGISTRY)
    assert [s.kind for s in reading.ast.statements] == ["step", "step"]
    (remark,) = reading.remarks
    assert remark.code == "not_understood"
    (place,) = remark.words
    assert f"{CREW}{words}"[place.start : place.end] == words.rstrip(".")


def test_a_question_is_asked_always_where_its_condition_is_not_understood() -> None:
    reading = read(f"{CREW}If the of is than, ask me.", REGISTRY)
    (ask,) = [s for s in reading.ast.statements if s.kind == "ask"]
    assert ask.only_if is None
    assert [r.code for r in reading.remarks] == ["not_understood"]
