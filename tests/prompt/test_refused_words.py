"""Words and readings that once stopped the compiler, or made another crew in silence."""

from __future__ import annotations

import pytest

from crewlog.prompt.compile import clauses_of, compile_prompt
from crewlog.prompt.forms_reader import read_forms
from crewlog.prompt.reading import Reading
from crewlog.prompt.registry import Registry
from crewlog.prompt.verify import verify

REGISTRY = Registry.model_validate(
    {"model": "openai:x", "tools": {"publish": {"run": "m:publish"}}}
)
WORK = "The writer drafts it. The checker reviews it."


@pytest.mark.parametrize(
    "sentence",
    [
        "Everyone repeat this until the checker approves it.",
        "Everyone works blind.",
        "Everyone must not see the writer's notes.",
        "Unless approved, back to the writer, at most ² times.",
    ],
)
def test_a_sentence_that_no_form_can_take_is_a_fault(sentence: str) -> None:
    found = compile_prompt(f"{WORK} {sentence}", REGISTRY)
    assert any(fault.code == "not_understood" for fault in found.faults)


def test_steps_without_known_clauses_are_faults() -> None:
    clauses = clauses_of("The writer drafts it.")
    data = read_forms(clauses, REGISTRY).reading.model_dump(by_alias=True)
    data["steps"][0]["clauses"] = (7,)
    said = [fault.message for fault in verify(clauses, Reading.model_validate(data), REGISTRY)]
    assert "there is no such clause: 7" in said


def test_the_number_of_workers_is_no_agent() -> None:
    prompt = (
        "The planner splits the work into steps for pricing and cart, two at a time. "
        "They may use publish."
    )
    (right,) = read_forms(clauses_of(prompt), REGISTRY).reading.rights
    assert right.agents == ("pricing", "cart")
