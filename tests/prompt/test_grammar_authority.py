"""Rules over calls, groups, budgets, questions and reach, said in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.registry_file import load_registry_data

REGISTRY = load_registry_data(
    {
        "registry": "r",
        "model": "openai:x",
        "tools": {
            "search": {"run": "m:search"},
            "publish": {"run": "m:publish", "risk": "high"},
            "lookup": {"run": "m:lookup", "grant": ["writer"]},
            "fetch": {"run": "m:fetch", "hosts": ["example.com", "*.example.org"]},
        },
        "limits": {"tokens": 90_000},
    }
)
WORK = (
    "The researcher looks for facts with search and fetch, then the writer drafts the notes. "
    "The checker reviews it with publish. "
)


def read(text: str) -> CompiledPrompt:
    return compile_prompt(WORK + text, REGISTRY)


def part(text: str, key: str) -> Any:
    """A part of the definition, as it is written, of a prompt that was understood."""
    found = read(text)
    assert found.definition is not None
    assert found.understood, [each.diagnostic.render() for each in found.remarks]
    return found.definition.to_json().get(key)


RULES = """
The researcher may use search at most 5 times per run. => search researcher always 5 per run
The researcher uses search no more than 20 times an hour. => search researcher always 20 per hour
The researcher may use search, at most 100 times a day. => search researcher always 100 per day
The researcher may at most twice per run use search. => search researcher always 2 per run
Search may be used at most 1,000 times every day. => search - always 1000 per day
Search may be called by the researcher at most once per hour. => search researcher always 1 per hour
Nobody may use search more than 5 times per run. => search - always 5 per run
The writer must not call search or publish more than 3 times per run. => search+publish writer always 3 per run
Nobody may call any tool more than 50 times daily. => * - always 50 per day
The writer must never call publish. => publish writer never
Nobody may ever call publish unless the checker approves it. => publish - never if not approved
Nobody may publish unless the checker approves it. => publish - never if not approved
Unless the checker approves it, nobody may use publish. => publish - never if not approved
Only publish if the checker approves it. => publish - never if not approved
Use publish only after the checker approves it. => publish - never if not approved
Only use publish while 'open' is set. => publish - never if not open
The checker must not use publish if the checker's score is below 0.5. => publish checker never if checker.score < 0.5
Publish may only be used if the checker approves it. => publish - never if not approved
The researcher may use publish only if the checker approves it. => publish researcher never if not approved
Ask me before the checker uses publish if the checker's score is below 0.5. => publish checker ask if checker.score < 0.5
Calls of publish by the checker wait for a person's yes, at most 3 times per run. => publish checker ask 3 per run
"""


@pytest.mark.parametrize("line", RULES.strip().splitlines())
def test_a_rule(line: str) -> None:
    text, _, expected = line.partition(" => ")
    (rule,) = part(text, "rules")
    tool = rule["tool"]
    tools = tool if isinstance(tool, str) else "+".join(tool)
    said = [tools, "+".join(rule.get("agents", ["-"])), rule.get("do", "always")]
    said += [rule["quota"]] if "quota" in rule else []
    said += ["if", rule["if"]] if "if" in rule else []
    assert " ".join(said) == expected


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("Only ana and Bob may answer.", "interrupts", {"people": ["ana", "Bob"]}),
        ("If nobody answers within a day, reject it.", "interrupts", {"expires": 86400.0}),
        (
            "Escalate to ana if nobody answers within 2 hours.",
            "interrupts",
            {"expires": 7200.0, "default": "escalate", "escalate_to": "ana"},
        ),
        (
            "If nobody answers about a call within 5 minutes, stop.",
            "interrupts",
            {"kinds": {"tool_approval": {"expires": 300.0, "default": "stop"}}},
        ),
        ("A yes holds for 10 minutes.", "interrupts", {"valid": 600.0}),
        (
            "Every call of a high-risk tool needs my approval.",
            "interrupts",
            {"approve_risk": "high"},
        ),
        ("Ask before any high-risk tool.", "approvals", {"publish": None}),
        ("Ask ana before anyone publishes.", "interrupts", {"people": ["ana"]}),
        ("Ask ana before the checker uses publish.", "approvals", {"publish": ["checker"]}),
        ("Only use publish while 'open' is set.", "flags", {"open": False}),
        (
            "The group desk has the writer and the checker.",
            "groups",
            {"desk": ["writer", "checker"]},
        ),
    ],
)
def test_what_holds_throughout(text: str, key: str, expected: Any) -> None:
    assert part(text, key) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Spend at most 2 dollars.", {"tokens": 90_000, "cost": 2.0}),
        ("The run spends no more than $2.50.", {"tokens": 90_000, "cost": 2.5}),
        ("Spend at most 50,000 tokens and 2 dollars.", {"tokens": 50_000, "cost": 2.0}),
        ("The run may take at most 10 minutes.", {"tokens": 90_000, "wall": 600.0}),
        ("Spend at most 100,000 tokens.", {"tokens": 90_000}),
    ],
)
def test_a_budget_only_lowers_what_the_registry_says(text: str, expected: Any) -> None:
    assert part(text, "limits") == expected


def test_a_group_has_rights_and_readers_by_its_name() -> None:
    text = (
        "The reviewers (the writer and the checker) form a group; only they read the notes. "
        "Only the reviewers may use search. The researcher and the reviewers must never call publish."
    )
    found = read(f"{text} Only the researcher may use fetch.").definition
    assert found is not None
    assert found.permissions["search"] == ("writer", "checker")
    assert found.rules[0].agents == ("researcher", "group:reviewers")
    assert (found.logs["writer"].readers, found.logs["writer"].writers) == (
        ("writer", "checker"),
        ("writer",),
    )
    assert "channel:writer" not in found.agents["researcher"].reads


def test_how_sure_an_agent_must_be() -> None:
    agent = part("The writer must be at least 80 % sure of its work.", "agents")["writer"]
    assert (agent["ask_below"], agent["outputs"]) == (0.8, ["confidence"])


def test_a_tool_reaches_less_and_never_more() -> None:
    said = "The tool fetch may reach only example.com and the subdomains of api.example.org."
    assert part(said, "tools")["fetch"]["hosts"] == ["example.com", "*.api.example.org"]
    for host in ("evil.com", "example.com.evil.com", "10.0.0.1", "the subdomains of com"):
        found = read(f"The tool fetch may reach only {host}.")
        assert not (found.ok and found.understood)
    widest = REGISTRY.tools["fetch"].model_copy(update={"hosts": ("*",)})
    registry = REGISTRY.model_copy(update={"tools": {**REGISTRY.tools, "fetch": widest}})
    assert compile_prompt(f"{WORK}The tool fetch may reach only a.b.c.", registry).ok
    assert not compile_prompt(f"{WORK}The tool fetch may reach only 10.0.0.1.", registry).ok


def test_who_decides_is_remarked_where_it_may_be_who_is_ruled() -> None:
    found = read("The checker may use publish only if approved.")
    assert [each.code for each in found.remarks] == ["assumed"]
    assert "it is not said who decides 'approved': checker is assumed" in str(found.remarks)
    assert read("The researcher may use publish only if the checker approves it.").remarks == ()


UNREAD = """
The researcher may use publish at most 5 times per week.
The researcher may use publish, at most 5 times per month.
The researcher uses publish at most times per run.
The researcher uses publish to at most 3 per run.
The researcher uses publish 3 times per run.
The researcher uses publish only if all is well with the world, at most 3 times.
The researcher may use publish at most 0 times per run.
The researcher may use publish at most 2.5 times per run.
The researcher may use publish more than 5 times per run.
The researcher may not use publish at most 5 times per run.
Nobody except the researcher may use publish more than 5 times per run.
Everyone but the checker may use publish at most 5 times per week.
The researcher may use publish if the checker approves it.
If the checker approves it, the researcher may use publish.
The researcher may use publish only if it feels like it, at most 5 times per run.
The researcher may use publish at most 5 times per run if the checker approves it.
Only the lawyers group may use publish.
"""


@pytest.mark.parametrize("text", UNREAD.strip().splitlines())
def test_what_is_not_understood_gives_nothing(text: str) -> None:
    found = read(text)
    assert not found.understood
    assert found.definition is not None
    having = {n for n, a in found.definition.agents.items() if "publish" in (a.tools or ())}
    assert having <= {"checker"}


CONTRADICTIONS = """
If nobody answers within a day, stop. If nobody answers within an hour, stop.
Only ana may answer. Only bob may answer.
Spend at most 2 dollars. Spend at most 3 dollars.
The group desk has the writer. The group desk has the checker.
The tool fetch may reach only example.com. The tool fetch may reach only a.example.org.
"""


@pytest.mark.parametrize("text", CONTRADICTIONS.strip().splitlines())
def test_two_sentences_that_cannot_both_hold(text: str) -> None:
    assert not read(text).ok


def test_agents_do_not_answer() -> None:
    found = read("Only the researcher may answer.")
    assert found.definition is None or found.definition.interrupts.people == ()


def test_a_group_of_the_registry_is_not_changed() -> None:
    registry = REGISTRY.model_copy(update={"groups": {"desk": ("writer",)}})
    found = compile_prompt(f"{WORK}The group desk has the researcher.", registry)
    assert not found.ok
    assert found.definition is not None
    assert found.definition.groups == {"desk": ("writer",)}
    reading = {"prompt": "p", "reads": ["group:board"], "writes": ["group:board"], "tools": []}
    registry = load_registry_data(
        {"registry": "r", "model": "openai:x", "agents": {"chair": reading}}
    )
    found = compile_prompt(
        "The chair works, then the writer works. The group board has the writer.", registry
    )
    assert "the group 'board' is the registry's" in str(found.remarks)
