"""What is forbidden or bounded of agents in a shape, in words that make no rule, is told."""

from __future__ import annotations

import pytest
from tests.corpus.cases import cases

from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.grammar import read
from crewlog.prompt.registry import Registry

REGISTRY = Registry.model_validate({"model": "openai:gpt-5-mini"})
HUB = "The router sends each message to billing or general."
TEAM = "The planner splits the work into steps for the builder and the writer."
STAGES = (
    "The supervisor decides which of discovery, builder and configurator begins; they work in this "
    "order, and the responder answers."
)
WORDINGS = {
    HUB: """
        The router never sends anything to billing.
        The router does not send anything to billing.
        The router doesn't send refunds to billing.
        The router sends at the very most two messages to billing.
        The router sends nothing to billing on Sundays.
        The router sends all questions but those on tax to billing.
        The router avoids billing.
        Billing is not allowed to answer twice.
        Billing cannot answer questions on tax.
        Billing gets none of the questions on tax.
        Billing gets fewer than five messages a day.
        Billing answers politely and never twice.
        Billing and general never both answer.
        Billing answers without general.
    """,
    TEAM: """
        The builder never runs two steps at a time.
        The writer does not get steps.
        The planner never gives the writer more than one step.
        The planner gives the writer no more than two steps.
        The planner makes no more than five steps.
        The planner makes five steps or fewer.
        The planner makes at least two steps.
        The writer works on less than three steps.
        They never work at the same time.
    """,
    STAGES: """
        The supervisor never begins with the configurator.
        The builder does not hand on to the configurator.
        The configurator isn't run more than twice.
        The responder says nothing of the configurator.
        Discovery never comes first.
    """,
}
SAID = [
    (shape, say.strip()) for shape, said in WORDINGS.items() for say in said.strip().split("\n")
]


def told(found: CompiledPrompt, text: str, said: str) -> list[str]:
    """The remarks about words of a sentence."""
    start = text.index(said)
    return [
        remark.diagnostic.message
        for remark in found.remarks
        if any(w.start < start + len(said) and w.end > start for w in remark.words)
        and remark.code in {"read_as_words", "not_understood"}
    ]


@pytest.mark.parametrize(("shape", "said"), SAID, ids=[said for _, said in SAID])
def test_a_bound_on_an_agent_in_a_shape_is_told(shape: str, said: str) -> None:
    text = f"{shape} {said}"
    found = compile_prompt(text, REGISTRY)
    assert told(found, text, said)
    assert found.definition is not None
    crew = found.definition.to_json()
    assert len(crew["flow"]) == 1  # the shape alone
    assert "limits" not in crew  # a bound on one agent's work is none on the run


def test_a_bound_said_before_the_shape_is_told_as_well() -> None:
    said = "The router never sends anything to billing."
    text = f"{said} {HUB}"
    assert told(compile_prompt(text, REGISTRY), text, said)


@pytest.mark.parametrize(
    "said",
    ["Billing answers in short sentences.", "General answers not only in English, but in Dutch."],
)
def test_what_forbids_nothing_is_no_bound(said: str) -> None:
    text = f"{HUB} {said}"
    assert told(compile_prompt(text, REGISTRY), text, said) == []


def test_of_agents_in_no_shape_it_is_only_what_they_are_told() -> None:
    text = "The writer drafts the notes. The writer never uses slang."
    assert told(compile_prompt(text, REGISTRY), text, "The writer never uses slang.") == []


def test_no_sentence_of_the_corpus_is_taken_for_such_a_bound() -> None:
    for case in cases():
        reading = read(case.prompt, Registry.model_validate(case.registry))
        shaped = any(said.kind == "use" for said in reading.ast.statements)
        for remark in reading.remarks:
            words = remark.diagnostic.message
            assert not words.startswith(("'never'", "'not'", "'no'")), (case.name, shaped)
