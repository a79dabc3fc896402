"""A quota goes on where it was counted, though it is for other agents by now."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.authority.permissions import definition_permissions
from crewlog.definition.apply import apply_operations
from crewlog.definition.counting import as_counted
from crewlog.definition.load import load_data
from crewlog.definition.model import Counted, CrewDefinition
from crewlog.definition.operations import RemoveAgent
from crewlog.errors import InvalidDefinition

AGENTS = ("a", "b", "c")
QUOTAS = ("2 per run", "2 per day")


def crew(*rules: dict[str, Any], agents: tuple[str, ...] = AGENTS, **more: Any) -> CrewDefinition:
    return load_data(
        {
            "crew": "t",
            "model": "openai:x",
            "agents": {name: {"prompt": "p", "listen": ["x"]} for name in agents},
            "tools": {name: {"run": f"m:{name}"} for name in ("t", "u")},
            "flags": {"ok": False},
            "rules": [{"tool": "t", **rule} for rule in rules],
            "graph": {},
            **more,
        }
    )


def keys(definition: CrewDefinition) -> list[str]:
    """Where calls are counted: of a run the key, of others that of the place."""
    found = definition_permissions(load_data(definition.to_json()))
    return [rule.counted.key if rule.counted is not None else rule.key for rule in found]


@pytest.mark.parametrize("quota", QUOTAS)
@pytest.mark.parametrize("named", [["a", "b"], ["group:g", "c"]])
def test_who_leaves_renews_nothing(quota: str, named: list[str]) -> None:
    before = crew({"agents": named, "quota": quota}, groups={"g": ["a", "b"]})
    once = as_counted(apply_operations(before, [RemoveAgent(name="b")]), before)
    assert keys(once) == keys(before)
    assert keys(apply_operations(before, [RemoveAgent(name="b")])) != keys(before)
    other = "c" if "c" in named else "a"
    if len(once.rules[0].agents or ()) > 1:
        twice = as_counted(apply_operations(once, [RemoveAgent(name=other)]), once)
        assert keys(twice) == keys(before)


@pytest.mark.parametrize("quota", QUOTAS)
def test_who_comes_into_a_group_renews_nothing(quota: str) -> None:
    rule = {"agents": ["group:g"], "quota": quota}
    before = crew(rule, groups={"g": ["a", "b"]})
    more = as_counted(crew(rule, groups={"g": ["a", "b", "c"]}), before)
    assert keys(more) == keys(before)
    back = as_counted(crew(rule, groups={"g": ["a", "b"]}), more)
    assert (keys(back), back.rules[0].counted) == (keys(before), None), "as it was"


@pytest.mark.parametrize("quota", QUOTAS)
def test_each_rule_stays_the_one_that_it_was(quota: str) -> None:
    rules = [
        {"agents": ["a", "c"], "quota": quota},
        {"agents": ["b", "c"], "quota": quota},
        {"agents": ["c"], "quota": quota},
        {"agents": ["a", "c"], "quota": quota, "if": "ok"},
        {"agents": ["a", "c"], "quota": quota, "tool": "u"},
        {"agents": ["a", "c"], "quota": "2 per hour"},
        {"do": "ask"},
    ]
    before = crew(*rules)
    was = keys(before)
    after = as_counted(apply_operations(before, [RemoveAgent(name="c")]), before)
    assert keys(after) == [key for n, key in enumerate(was) if n != 2]
    # As people write it, in another order, with other words and numbers.
    again = crew(
        {"do": "ask"},
        {"agents": ["b"], "quota": quota.replace("2", "9"), "reason": "More."},
        {"agents": ["a"], "quota": quota},
        agents=("a", "b"),
    )
    assert keys(as_counted(again, after)) == [was[6], was[1], was[0]]


@pytest.mark.parametrize("quota", QUOTAS)
@pytest.mark.parametrize(
    "other",
    [{"agents": ["a"]}, {"agents": ["a", "b", "c"]}, {"tool": "u"}, {"if": "ok"}, {"agents": None}],
)
def test_another_rule_begins_anew(quota: str, other: dict[str, Any]) -> None:
    before = crew({"agents": ["a", "b"], "quota": quota})
    after = crew({"agents": ["a", "b"], "quota": quota} | other)
    assert as_counted(after, before) == after


def test_only_the_engine_says_where_a_quota_is_counted() -> None:
    place = {"crew": "other", "key": "k", "zone": "Asia/Tokyo"}
    rule = {"quota": "2 per day"}
    theirs = crew({**rule, "counted": place})
    for base in (None, crew(rule)):
        with pytest.raises(InvalidDefinition, match=r"'counted' of rules\[0\]") as refused:
            as_counted(theirs, base)
        assert "Leave 'counted' out" in str(refused.value)
    assert as_counted(theirs, theirs) == theirs
    assert as_counted(crew(rule), theirs) == theirs, "who leaves it out changes nothing"
    assert as_counted(crew(rule), None) == crew(rule)
    other = Counted(crew="other", key="k", zone="Asia/Tokyo")
    assert [each.counted for each in definition_permissions(theirs)] == [other]
