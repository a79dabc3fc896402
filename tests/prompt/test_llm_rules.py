"""What a model may answer about rules over calls, people, budgets and hosts: what the words say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crewlog.prompt.llm import instructions, reply_schema
from crewlog.prompt.readers import with_model
from crewlog.prompt.registry_file import load_registry_data
from crewlog.prompt.reply import read_reply

REGISTRY = load_registry_data(
    {
        "registry": "r",
        "model": "openai:x",
        "tools": {"search": {"run": "m:search", "hosts": ["*.example.org"]}},
    }
)
WORK = "The writer drafts the notes, then the checker reads them."
STEPS: list[dict[str, Any]] = [
    {
        "kind": "step",
        "quotes": ["The writer drafts the notes"],
        "parts": [{"agent": "writer", "task": "drafts the notes"}],
    },
    {
        "kind": "step",
        "quotes": ["then the checker reads them."],
        "parts": [{"agent": "checker", "task": "reads them"}],
    },
]


def answer(text: str, *statements: dict[str, Any]) -> tuple[str, str]:
    """A prompt, and an answer in which each statement quotes its last sentence."""
    said = [{"quotes": [text], **each} for each in statements]
    return f"{WORK} {text}", json.dumps({"statements": [*STEPS, *said], "not_understood": []})


def faults(text: str, *statements: dict[str, Any]) -> list[str]:
    prompt, reply = answer(text, *statements)
    return [f"{d.place}: {d.message}" for d in read_reply(prompt, reply, REGISTRY).diagnostics]


ALLOW = {"kind": "allow", "agents": ["writer"], "tools": ["search"]}
COUNT = {"kind": "rule", "do": "count", "tools": ["search"], "agents": ["writer"], "per": "run"}
CONDITION = {"kind": "fact", "name": "approved", "agent": "checker"}
NEVER = {
    "kind": "rule",
    "do": "never",
    "tools": ["search"],
    "agents": ["writer"],
    "condition": {"kind": "not", "of": CONDITION},
}
OFTEN = "The writer may use search at most 5 times per run."
ONLY_IF = "The writer may use search only if the checker approves it."
LATE = "If nobody answers within a day, escalate to ana."
MONEY = "Spend at most 2 dollars."
REACH = "The tool search may reach only api.example.org."
GOOD: list[tuple[str, list[dict[str, Any]], str, Any]] = [
    (OFTEN, [ALLOW, {**COUNT, "most": 5}], "rules", "5 per run"),
    (ONLY_IF, [ALLOW, NEVER], "rules", "not approved"),
    (
        LATE,
        [{"kind": "unanswered", "wait": "1d", "otherwise": "escalate", "escalate_to": "ana"}],
        "interrupts",
        "ana",
    ),
    (MONEY, [{"kind": "budget", "cost": 2}], "limits", "2"),
    (
        "Only ana and bob may answer.",
        [{"kind": "answers", "people": ["ana", "bob"]}],
        "interrupts",
        "bob",
    ),
    (
        f"The writer may use search. {REACH}",
        [ALLOW, {"kind": "reach", "tools": ["search"], "hosts": ["api.example.org"]}],
        "tools",
        "api.example.org",
    ),
]


@pytest.mark.parametrize(("text", "statements", "key", "word"), GOOD)
def test_what_the_words_say_is_in_the_crew(
    text: str, statements: list[dict[str, Any]], key: str, word: str
) -> None:
    prompt, reply = answer(text, *statements)
    found = with_model(prompt, reply, REGISTRY, before=0).compiled
    assert found is not None
    assert found.understood, found.remarks
    assert found.definition is not None
    assert word in json.dumps(found.definition.to_json()[key])


@pytest.mark.parametrize(
    ("text", "statements", "say"),
    [
        (OFTEN, [ALLOW], "its quotes count calls"),
        (ONLY_IF, [ALLOW], "its quotes count calls or say when"),
        (OFTEN, [{**ALLOW, "quotes": ["The writer may use search"]}], "its quotes count calls"),
        (OFTEN, [ALLOW, {**COUNT, "most": 500}], "do not say the number 500"),
        (OFTEN, [ALLOW, COUNT], "`most` and `per` go together"),
        (OFTEN, [{**COUNT, "most": 5, "groups": ["desk"]}], "speaks of no group 'desk'"),
        (OFTEN, [{**COUNT, "most": 5, "do": "always"}], "do"),
        (LATE, [{"kind": "answers", "people": ["eve"]}], "do not name 'eve'"),
        (
            LATE,
            [{"kind": "unanswered", "wait": 9, "otherwise": "escalate", "escalate_to": "eve"}],
            "do not name 'eve'",
        ),
        (MONEY, [{"kind": "budget", "cost": 2000}], "do not say the number 2000"),
        (MONEY, [{"kind": "budget", "cost": 2, "tokens": 2}], "exactly one of"),
        (
            REACH,
            [{"kind": "reach", "tools": ["search"], "hosts": ["example.org"]}],
            "do not name the host 'example.org'",
        ),
        (MONEY, [{"kind": "group", "name": "desk", "agents": ["writer"]}], "no group 'desk'"),
    ],
)
def test_what_they_do_not_say_is_a_fault(
    text: str, statements: list[dict[str, Any]], say: str
) -> None:
    assert any(say in fault for fault in faults(text, *statements))


def test_a_right_without_its_bound_is_not_given() -> None:
    prompt, reply = answer(OFTEN, ALLOW)
    found = read_reply(prompt, reply, REGISTRY)
    assert [each.kind for each in found.ast.statements] == ["step", "step"]
    back = {"kind": "back", "to": "writer", "at_most": 3, "condition": {**CONDITION}}
    loop = "The writer may use search; if the checker approves it, back to it, at most 3 times."
    assert faults(loop, ALLOW, back) == []


def test_the_model_is_told_of_all_kinds() -> None:
    told = instructions(REGISTRY)
    for kind in (
        "rule",
        "group",
        "budget",
        "unanswered",
        "answers",
        "yes",
        "risk",
        "sure",
        "reach",
    ):
        assert f"`{kind}`" in told
        assert f'"{kind}"' in json.dumps(reply_schema())
