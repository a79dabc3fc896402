"""Work that a sentence gives to a word for people: an agent, or a remark; never nothing."""

from __future__ import annotations

import pytest

from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.registry_file import load_registry_data

REGISTRY = load_registry_data(
    {
        "registry": "r",
        "model": "openai:x",
        "tools": {
            "drop": {"run": "m:drop"},
            "refund": {"run": "m:refund", "words": ["refund money"]},
            "save": {"run": "m:save", "words": ["save notes"]},
        },
    }
)


def read(text: str) -> CompiledPrompt:
    return compile_prompt(text, REGISTRY)


@pytest.mark.parametrize(
    "text",
    [
        "The clerk serves the customers, then the boss reviews it.",
        "The clerk serves the customers. Then the boss reviews it.",
        "The clerk serves the customers and the boss reviews it.",
        "The clerk serves the customers, then the boss agent approves it.",
        "The boss reviews it. The boss may use drop.",
    ],
)
def test_a_boss_who_is_given_work_is_an_agent(text: str) -> None:
    found = read(text)
    assert found.definition is not None
    assert found.understood
    assert "boss" in found.definition.to_json()["flow"]


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("The clerk serves, then the boss approves it.", "boss"),
        ("The clerk serves, then my boss reviews it.", "boss"),
        ("The clerk serves, then the boss drops what is bad.", "boss"),
        ("The clerk serves the callers, then the customer reviews it.", "customer"),
        ("The clerk serves the callers and the users review it.", "users"),
        ("The clerk serves the callers. The customer reviews it.", "customer"),
        ("The clerk serves the callers. The boss may use drop.", "boss"),
    ],
)
def test_other_people_at_work_are_remarked_on(text: str, who: str) -> None:
    found = read(text)
    assert found.definition is not None
    assert found.definition.to_json()["flow"] == ["clerk"]
    said = [
        r.diagnostic
        for r in found.remarks
        if f"{who!r} is taken for people" in r.diagnostic.message
    ]
    assert len(said) == 1
    assert f"another name than {who!r}" in said[0].remedy


@pytest.mark.parametrize(
    "text",
    [
        "The clerk serves the customers and the team.",
        "The clerk asks what the customer wants, then the manager reviews it.",
    ],
)
def test_people_who_are_only_spoken_of_are_not(text: str) -> None:
    assert not [r for r in read(text).remarks if "taken for people" in r.diagnostic.message]


@pytest.mark.parametrize(
    "text",
    [
        "The clerk serves. The clerk may use drop. The clerk must never call drop.",
        "The clerk serves. The clerk must never call drop. The clerk may use drop.",
    ],
)
def test_says_that_the_never_holds(text: str) -> None:
    remedies = [r.diagnostic.remedy for r in read(text).remarks if r.code == "contradiction"]
    assert remedies == ["The 'never' holds. Leave out one of the two."]


def test_names_the_log_that_only_some_read() -> None:
    found = read(
        "The clerk serves, then the manager reviews. Only the manager sees the clerk's notes."
    )
    assert "writes: group:clerk" in " ".join(part.text for part in found.provenance)


@pytest.mark.parametrize(
    "asks", ["Ask my boss before the clerk uses drop.", "My boss must approve every use of drop."]
)
def test_the_boss_of_who_writes_is_asked_also_beside_one_who_works(asks: str) -> None:
    made = read(
        f"The clerk serves the customers with drop, then the boss reviews it. {asks}"
    ).definition
    assert made is not None
    assert set(made.agents) == {"clerk", "boss"}
    assert "drop" in made.approvals or any(rule.do == "ask" for rule in made.rules)
