"""A clause behind a condition that is not read makes no phase: it would be carried out always."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.registry import Registry

REGISTRY = Registry.model_validate({"model": "openai:gpt-5-mini"})
BEFORE = "The writer drafts the notes. The checker reads them."


def compiled(said: str) -> tuple[CompiledPrompt, list[Any], bool]:
    """What a prompt with a sentence more is, its flow, and whether that sentence is told."""
    text = f"{BEFORE} {said}"
    found = compile_prompt(text, REGISTRY)
    start = len(BEFORE) + 1
    told = any(words.end > start for remark in found.remarks for words in remark.words)
    assert found.definition is not None
    return found, found.definition.to_json()["flow"], told


@pytest.mark.parametrize(
    "said",
    [
        "On Fridays, the editor polishes it.",
        "On full moons the editor polishes it.",
        "In winter, the editor polishes it.",
        "At night the editor polishes it.",
        "During storms, the editor polishes it.",
        "Except on Sundays, the editor polishes it.",
        "In the event of rain, the editor polishes it.",
        "In case of fire, the editor polishes it.",
        "As long as the sun shines, the editor polishes it.",
        "So long as the sun shines, the editor polishes it.",
        "Given enough budget, the editor polishes it.",
        "Depending on the weather, the editor polishes it.",
        "Where the text is legal, the editor polishes it.",
        "When it rains the editor polishes it.",
        "When it rains, the editor polishes it. Otherwise the sender sends it.",
        "Suppose it rains; then the editor polishes it.",
        "Until it rains, the editor polishes it.",
        "For long texts, the editor polishes it.",
        "Weather permitting, the editor polishes it.",
        "Under pressure, the editor polishes it.",
        "In rare cases the editor polishes it.",
        (
            "If the router chooses a plan, the planner splits the work into steps for the builder "
            "and the cook; otherwise the programmer does it."
        ),
        "For big tasks, the planner splits the work into steps for the builder and the cook.",
    ],
)
def test_its_clause_makes_no_phase_and_is_told(said: str) -> None:
    _, flow, told = compiled(said)
    assert (flow, told) == (["writer", "checker"], True)


@pytest.mark.parametrize(
    "said",
    [
        "The editor polishes it as long as it rains.",
        "The editor polishes it so long as the boss agrees.",
        "The editor polishes it on condition that it rains.",
        "The editor polishes it, weather permitting.",
        "The editor polishes it in emergencies.",
    ],
)
def test_behind_its_clause_it_is_told_that_it_is_only_words(said: str) -> None:
    found, flow, told = compiled(said)
    assert (flow, told) == (["writer", "checker", "editor"], True)
    assert {remark.code for remark in found.remarks} == {"read_as_words"}


@pytest.mark.parametrize(
    ("said", "last"),
    [
        ("If it is raining, the editor polishes it.", {"agent": "editor", "only_if": "raining"}),
        ("Unless the boss is away, the editor polishes it.", "not boss_away"),
        ("In short, the editor polishes it.", "editor"),
    ],
)
def test_what_is_read_is_no_such_condition(said: str, last: Any) -> None:
    _, flow, told = compiled(said)
    found = flow[-1]
    assert found == last or (isinstance(found, dict) and last in found.values())
    assert not told


def test_what_never_comes_before_another_makes_no_phase_of_that() -> None:
    said = "The editor never answers before the sender."
    _, flow, told = compiled(said)
    assert (flow, told) == (["writer", "checker"], True)
