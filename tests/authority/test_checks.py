"""What comes of a check: the strictest of all that is said, live permissions, quotas, parents."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.authority.permissions import (
    Decision,
    Permission,
    authorize_tool,
    definition_permissions,
    limit_to_parent,
    with_live_permission,
    without_milder_permissions,
)
from crewlog.definition.conditions import parse_condition
from crewlog.definition.model import CrewDefinition

TOOLS = ("act", "read")


def check(agent: str = "a", tool: str = "act", *rules: Permission, **more: Any) -> Decision:
    given = {"agent_tools": TOOLS, "crew_tools": TOOLS, "permissions": {}, "rules": rules}
    return authorize_tool(agent, tool, **{**given, **more})


def rule(do: Any, place: int = 0, **more: Any) -> Permission:
    return Permission.model_validate({"place": place, "do": do, "tools": ("act",), **more})


def told(decision: Decision) -> tuple[str, str]:
    assert decision.allowed == (decision.outcome != "deny")
    assert decision.reason
    return decision.outcome, decision.rule


def test_the_strictest_of_all_that_applies_counts() -> None:
    never, ask, always = rule("never", 0), rule("ask", 1), rule("always", 2)
    assert told(check()) == ("allow", "")
    assert told(check("a", "act", always)) == ("allow", "rules[2]")
    assert told(check("a", "act", always, ask)) == ("ask", "rules[1]")
    assert told(check("a", "act", always, ask, never)) == ("deny", "rules[0]")
    assert told(check("a", "act", always, approvals={"act": None})) == ("ask", "approvals")
    assert told(check("a", "act", always, permissions={"act": ()})) == ("deny", "permissions")
    assert told(check("a", "read", never, ask)) == ("allow", "")
    assert told(check("a", "act", rule("never", agents=("b",)))) == ("allow", "")


def test_a_reasons_full_stop_does_not_stand_before_what_goes_on() -> None:
    data = {"crew": "t", "model": "openai:x", "agents": {"a": {"prompt": "p"}}}
    tools = {"tools": {"act": {"run": "m:f"}}}
    for said, kept in (("Be brief.", "Be brief"), ("Wait...", "Wait..."), ("Why? ", "Why?")):
        rules = {"rules": [{"tool": "act", "quota": "1 per run", "reason": said}]}
        (found,) = definition_permissions(CrewDefinition.from_json({**data, **tools, **rules}))
        assert found.reason == kept
        assert (
            check("a", "act", found, used={found.key: 1}).reason
            == f"rules[0] is used up: {kept}: act at most 1 per run"
        )


def test_a_rule_with_a_condition_applies_where_that_holds() -> None:
    late = rule("never", when=parse_condition("late"))
    assert told(check("a", "act", late, holds=lambda _: True)) == ("deny", "rules[0]")
    assert told(check("a", "act", late, holds=lambda _: False)) == ("allow", "")
    assert told(check("a", "act", late)) == ("allow", "")


def test_every_tool_does_not_mean_those_that_every_crew_has() -> None:
    every = rule("never", tools=())
    assert told(check("a", "act", every)) == ("deny", "rules[0]")
    own = ("set_flag",)
    assert told(check("a", "set_flag", every, agent_tools=own, crew_tools=own)) == ("allow", "")


@pytest.mark.parametrize(
    ("live_permissions", "agent", "outcome"),
    [
        ({"a": "deny"}, "a", "deny"),
        ({"a": "deny"}, "b", "deny"),  # as the rule says
        ({"a": "allow"}, "a", "allow"),
        ({"a": "ask"}, "a", "ask"),
        ({"*": "allow"}, "b", "allow"),
        ({"*": "allow", "b": "deny"}, "b", "deny"),
        ({"*": "deny", "b": "allow"}, "b", "allow"),
    ],
)
def test_what_people_ruled_counts_in_the_place_of_the_definition(
    live_permissions: Any, agent: str, outcome: str
) -> None:
    never = rule("never")
    assert check(agent, "act", never, live_permissions={"act": live_permissions}).outcome == outcome


def test_a_ruling_gives_a_tool_to_an_agent_by_name_and_never_one_that_is_not_there() -> None:
    given: Any = {"agent_tools": ("read",), "live_permissions": {"act": {"a": "allow"}}}
    assert told(check("a", "act", **given)) == ("allow", "live_permission")
    assert told(check("b", "act", **given)) == ("deny", "tools")
    every: Any = {"agent_tools": ("read",), "live_permissions": {"act": {"*": "allow"}}}
    assert told(check("a", "act", **every)) == ("deny", "tools")
    gone: Any = {"crew_tools": ("read",), "live_permissions": {"act": {"a": "allow"}}}
    assert told(check("a", "act", **gone)) == ("deny", "tools")


def test_a_quota_is_used_up_for_all_that_its_rule_is_about_and_no_ruling_lifts_it() -> None:
    limit = rule("always", quota="2 per run", key="k")
    assert check("a", "act", limit, used={"k": 1}).allowed
    full = check("b", "act", limit, used={"k": 2})
    assert told(full) == ("deny", "rules[0]")
    assert "at most 2 per run" in full.reason
    assert check("a", "act", limit, used={"k": 2}, counted=("k",)).allowed
    ruled: Any = {"used": {"k": 2}, "live_permissions": {"act": {"a": "allow"}}}
    assert not check("a", "act", limit, **ruled).allowed
    # Hours and days are counted over runs, by the store.
    assert check("a", "act", rule("always", quota="2 per day", key="k"), used={"k": 9}).allowed


@pytest.mark.parametrize("child", ["allow", "ask", "deny"])
@pytest.mark.parametrize("parent", ["allow", "ask", "deny"])
def test_a_child_never_may_more_than_its_parent(child: Any, parent: Any) -> None:
    mine = Decision.model_validate({"outcome": child, "reason": "mine"})
    theirs = Decision.model_validate({"outcome": parent, "reason": "theirs"})
    order = ["allow", "ask", "deny"]
    found = limit_to_parent(mine, theirs)
    assert order.index(found.outcome) == max(order.index(child), order.index(parent))
    assert ("theirs" in found.reason) == (order.index(parent) > order.index(child))


def test_the_later_ruling_counts_and_one_for_everyone_takes_away_what_is_milder() -> None:
    found = with_live_permission({}, "act", "a", "allow")
    found = with_live_permission(found, "act", "b", "deny")
    assert with_live_permission(found, "act", "*", "ask") == {"act": {"b": "deny", "*": "ask"}}
    off = with_live_permission(found, "act", "*", "deny")
    assert off == {"act": {"b": "deny", "*": "deny"}}
    assert with_live_permission(off, "act", "*", None) == {"act": {"b": "deny"}}
    assert with_live_permission(found, "act", "a", None) == {"act": {"b": "deny"}}
    assert without_milder_permissions(found, "act", ()) == {"act": {"b": "deny"}}
    assert without_milder_permissions(found, "act", None) == found
    assert without_milder_permissions({"act": {"a": "ask"}}, "act", ["b"]) == {}


def test_a_quotas_name_does_not_depend_on_how_many_nor_on_where_the_rule_stands() -> None:
    def key(*rules: dict[str, Any]) -> str:
        crew = {
            "crew": "t",
            "agents": {"a": {"prompt": "p"}, "b": {"prompt": "p"}},
            "tools": {t: {"run": "m:f"} for t in TOOLS},
            "rules": rules,
        }
        return [*definition_permissions(CrewDefinition.from_json(crew))][-1].key

    one = key({"tool": "act", "quota": "2 per day"})
    assert one == key({"tool": "read", "do": "never"}, {"tool": ["act"], "quota": "9 per day"})
    others = {
        key({"tool": "act", "quota": "2 per run"}),
        key({"tool": "read", "quota": "2 per day"}),
        key({"tool": "act", "agents": ["a"], "quota": "2 per day"}),
        key({"tool": "*", "quota": "2 per day"}),
    }
    assert len(others | {one}) == 5
