"""What a model is told and what its reply comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crewlog.prompt.compile import clauses_of
from crewlog.prompt.model_reader import (
    REPAIRS,
    best_reply,
    instructions,
    messages,
    read_reply,
    take_reply,
)
from crewlog.prompt.reading import reading_schema
from crewlog.prompt.registry import Registry
from crewlog.state.model import NoReading

REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "tools": {
            "write_file": {"run": "t:write_file", "effects": "write"},
            "deploy": {"run": "t:deploy", "risk": "high"},
        },
    }
)
TEXT = (
    "Ana drafts the notes. Unless the checker approves them, back to her. Only she may use "
    "write_file. Cheers!"
)
REST = {"when": "", "within": "", "late": "", "each": "", "needs": [], "instead_of": ""}


def _reading() -> dict[str, Any]:
    empty: dict[str, Any] = {name: [] for name in reading_schema()["properties"]}
    return {
        **empty,
        "crew": "",
        "agents": [
            {"clauses": [1], "name": "ana", "about": ""},
            {"clauses": [2], "name": "checker", "about": ""},
        ],
        "outputs": [
            {"clauses": [2], "agent": "checker", "name": "approved", "kind": "boolean",
             "values": []}
        ],
        "steps": [
            {"clauses": [1], "name": "ana", "agent": "ana", "task": "drafts the notes", "after": [],
             "if": "", **REST},
            {"clauses": [2], "name": "checker", "agent": "checker", "task": "",
             "after": [{"of": ["ana"], "need": 1}], "if": "", **REST},
        ],
        "loops": [
            {"clauses": [1, 2], "at": "checker", "if": "not checker.approved", "to": "ana",
             "at_most": 0, "then": ""}
        ],
        "rights": [
            {"clauses": [3, 1], "effect": "only", "agents": ["ana"], "tools": ["write_file"],
             "if": "", "quota": ""}
        ],
        "ledger": [
            {"clause": n, "status": "talk" if n == 4 else "used", "why": "", "against": []}
            for n in (1, 2, 3, 4)
        ],
    }  # fmt: skip


def _read(change: Any = None) -> Any:
    reading = _reading()
    if change is not None:
        change(reading)
    return read_reply(clauses_of(TEXT), json.dumps(reading), REGISTRY)


def test_instructions_example_and_schema_have_less_than_14_000_characters_together() -> None:
    said = instructions(Registry(), with_schema=False)
    schema = json.dumps(reading_schema(), separators=(",", ":"))
    assert len(said) + len(schema) < 14_000
    assert len(instructions(Registry(), with_schema=True)) < 14_200
    assert instructions(REGISTRY, with_schema=True).count('"$defs"') == 1


def test_every_object_of_the_schema_is_strict() -> None:
    schema = reading_schema()
    for model in (schema, *schema["$defs"].values()):
        if model.get("type") == "object":
            assert model["additionalProperties"] is False
            assert model["required"] == list(model["properties"])
    assert "default" not in json.dumps(schema)


def test_an_honest_reading_is_understood() -> None:
    found = _read()
    assert found.ok, [fault.message for fault in found.faults]
    assert found.definition.permissions == {"write_file": ("ana",)}
    assert [note.code for note in found.notes] == ["assumed"]  # the bound of the loop


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r["loops"].clear(), "no part says where the run goes back to"),
        (lambda r: r["rights"][0].update(effect="may"), "no part says that no other agent may"),
        (lambda r: r["rights"][0]["agents"].append("checker"), "do not name 'checker'"),
        (lambda r: r["rights"][0]["tools"].append("deploy"), "do not name the tool 'deploy'"),
        (lambda r: r["loops"][0].update(at_most=5), "do not say 5"),
        (lambda r: r["steps"][1]["after"][0].update(of=["bob"]), "there is no step 'bob'"),
        (lambda r: r["ledger"].pop(), "clause 4 is not accounted for"),
        (lambda r: r["ledger"][2].update(status="talk"), "and about the crew"),
        (lambda r: r["loops"][0].update({"if": "not x.y"}), "no earlier step sets 'x.y'"),
        (lambda r: r["agents"].append({"clauses": [4], "name": "bob", "about": ""}), "'bob'"),
        (lambda r: r["rights"][0].update(clauses=[9]), "there is no such clause"),
    ],
)  # fmt: skip
def test_what_a_mutated_reading_says_wrong_is_named(change: Any, said: str) -> None:
    found = _read(change)
    assert not found.ok
    assert any(said in fault.message for fault in found.faults), [f.message for f in found.faults]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "no",
        "[1]",
        '{"crew": 1}',
        '{"a": 1, "a": 2}',
        "{" * 50,
        "x" * 500_000,
        '{"crew": "\\ud800"}',
    ],
)
def test_a_reply_that_is_no_reading_is_a_fault_and_nothing_is_made_of_it(reply: str) -> None:
    found = read_reply(clauses_of(TEXT), reply, REGISTRY)
    assert found.definition is None
    assert {fault.code for fault in found.faults} == {"model_failed"}


def test_words_and_a_fence_around_a_reply_do_no_harm() -> None:
    reply = f"Here it is:\n```json\n{json.dumps(_reading())}\n```"
    assert read_reply(clauses_of(TEXT), reply, REGISTRY).ok


def test_every_fault_goes_back_and_the_best_reply_is_kept() -> None:
    good, bad = json.dumps(_reading()), "no"
    nearly = _reading()
    nearly["loops"].clear()
    replies = [bad, json.dumps(nearly)]
    said = messages(TEXT, REGISTRY, replies)
    assert [message.role for message in said] == [
        "system", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    assert "where the run goes back to" in said[-1].text
    assert take_reply(TEXT, replies, REGISTRY).compiled is None
    assert take_reply(TEXT, [*replies, good], REGISTRY).compiled is not None
    worse = [json.dumps(nearly), *[bad] * REPAIRS]
    kept = take_reply(TEXT, worse, REGISTRY).compiled
    assert kept is not None
    assert kept.definition is not None
    assert best_reply(TEXT, [bad, good], REGISTRY).ok


def test_a_repair_that_changes_nothing_is_the_last() -> None:
    nearly = _reading()
    nearly["loops"].clear()
    reply = json.dumps(nearly)
    assert take_reply(TEXT, [reply], REGISTRY).compiled is None
    kept = take_reply(TEXT, [reply, reply], REGISTRY).compiled
    assert kept is not None
    assert not kept.ok
    assert kept.rounds == 1
    assert take_reply(TEXT, ["no", "no"], REGISTRY).compiled is None, "no reading yet"


@pytest.mark.parametrize("ending", ["cut", "withheld", "empty", "unknown"])
def test_a_model_is_told_how_its_last_reply_ended(ending: Any) -> None:
    *_, own, told = messages(TEXT, REGISTRY, [NoReading(ending=ending)])
    assert (own.role, own.text, told.role) == ("assistant", "(nothing)", "user")
    assert told.text.startswith("Your reply ")
    assert "Answer again with the whole JSON object" in told.text
    assert "reader `forms`" not in told.text, "that is for the user"


def test_a_reading_is_better_than_a_reply_that_is_none() -> None:
    replies = [NoReading(ending="cut"), json.dumps(_reading())]
    found = best_reply(TEXT, replies, REGISTRY)
    assert found.definition is not None
