"""Rules that stand: neither a prompt nor an edit takes one away."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.load import load_data, read_data
from crewlog.errors import InvalidDefinition
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.offered import offered_form
from crewlog.prompt.registry import Registry, registry_of_crew
from crewlog.prompt.registry_file import load_registry_data
from crewlog.prompt.standing import not_standing, with_standing

TOOLS = {name: {"run": f"m:{name}"} for name in ("send", "read", "drop")}
REGISTRY: dict[str, Any] = {
    "registry": "r",
    "model": "openai:x",
    "tools": TOOLS,
    "groups": {"few": ["writer", "nobody"]},
    "rules": [
        {"tool": "send", "agents": ["group:few"], "do": "ask", "reason": "Look first."},
        {"tool": ["drop", "read"], "do": "never", "agents": ["writer"]},
        {"tool": "*", "quota": "9 per run"},
    ],
}
PROMPT = "The writer writes, then the editor edits. Only the writer may use send and read."


def crew_of(**more: Any) -> Any:
    agents = {"writer": {"prompt": "p"}, "editor": {"prompt": "p"}}
    data = {"crew": "t", "model": "openai:x", "agents": agents, "tools": TOOLS}
    return load_data({**data, **more})


def test_a_registrys_rules_are_in_every_crew_of_its_prompts() -> None:
    compiled = compile_prompt(PROMPT, load_registry_data(REGISTRY))
    crew = compiled.definition
    assert crew is not None, compiled.remarks
    assert crew.groups == {"few": ("writer",)}
    assert [(r.tools, r.agents, r.do, r.quota) for r in crew.rules] == [
        (("send",), ("group:few",), "ask", None),
        (("read",), ("writer",), "never", None),  # the crew has no `drop`
        (("*",), None, "always", "9 per run"),
    ]


@pytest.mark.parametrize(
    ("rules", "groups", "fault"),
    [
        ([0, 1, 2], {"few": ["writer"]}, ""),
        ([2, 1, 0], {"few": ["writer", "editor"]}, ""),
        ([0, 1], {"few": ["writer"]}, "at most 9 per run"),
        ([1, 2], {}, "wait for a person's yes"),
        ([0, 1, 2], {"few": ["editor"]}, "wait for a person's yes"),
    ],
)
def test_an_edit_takes_none_away(rules: list[int], groups: dict[str, Any], fault: str) -> None:
    registry = load_registry_data(REGISTRY)
    said = [REGISTRY["rules"][n] for n in rules]
    crew = crew_of(rules=said, groups=groups)
    found = [each.message for each in not_standing(crew, registry.groups, registry.rules)]
    assert (fault in found[0]) if fault else not found
    if fault:
        with pytest.raises(InvalidDefinition, match="the registry has the rule"):
            read_data(crew.to_json(), offered_form(registry))


def test_a_prompt_that_changes_a_crew_keeps_what_people_wrote() -> None:
    rules = [
        {"tool": "send", "do": "never", "if": "not ready", "agents": ["group:all", "writer"]},
        {"tool": "drop", "agents": ["editor"], "quota": "2 per day"},
        {"tool": "drop", "do": "ask"},
    ]
    base = crew_of(rules=rules, groups={"all": ["writer", "editor"]}, flags={"ready": False})
    fresh = load_data(
        {
            "crew": "t",
            "model": "openai:x",
            "agents": {"writer": {"prompt": "p", "writes_flags": ["ready"]}},
            "tools": {"send": TOOLS["send"], "drop": TOOLS["drop"]},
        }
    )
    kept = with_standing(fresh, base.groups, base.rules)
    assert kept.groups == {"all": ("writer",)}
    assert kept.rules == (base.rules[0], base.rules[2])  # nobody is left whom the other is about
    assert with_standing(kept, base.groups, base.rules) == kept
    own = registry_of_crew(base)
    assert (own.groups, own.rules) == (base.groups, base.rules)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ({"tool": "sned"}, "names the tool 'sned'"),
        ({"tool": "send", "agents": ["group:fwe"]}, "names the group 'fwe'"),
        ({"tool": "send", "if": "ready", "do": "ask"}, "has a condition"),
    ],
)
def test_what_is_wrong_with_a_registrys_rule(rule: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidDefinition, match=fault):
        load_registry_data({**REGISTRY, "rules": [rule]})


def test_a_registry_without_rules_changes_nothing() -> None:
    crew = crew_of()
    assert with_standing(crew, {}, ()) == crew
    assert not list(not_standing(crew, {}, ()))
    assert Registry().rules == ()
