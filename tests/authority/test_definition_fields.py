"""The rule of each field of a definition: one stricter and one wider value.

A change from the stricter to the wider value reports a widening, in text that names the field. The
change back reports none, unless any change of the field widens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from crewlog.authority.definition_fields import FIELDS, widening_rule
from crewlog.authority.widening import widening
from crewlog.definition.model import (
    AgentDefinition,
    CrewDefinition,
    Limits,
    Retry,
    ToolDefinition,
)
from crewlog.model import Model

BASE: dict[str, Any] = {
    "crew": "c",
    "model": "openai:m",
    "channels": {"x": {}},
    "agents": {
        "a": {"prompt": "A", "tools": ["read"], "model": "openai:m"},
        "b": {"prompt": "B", "tools": ["read", "write"]},
    },
    "tools": {"read": {"run": "deeds:read"}, "write": {"run": "deeds:write"}},
    "rules": [{"tool": "write", "do": "never", "if": "closed or a.risk > 1"}],
    "flags": {"closed": True},
    "flow": ["a", "b"],
}
KEY = f"ed25519:{'B' * 42}A="
LEFT_OUT = object()


class Pair(NamedTuple):
    """Two values of a field: the second one widens."""

    path: tuple[str, ...]
    stricter: Any
    wider: Any
    told: str
    """The text of the widening."""
    back: bool = False
    """Whether the change back widens, too."""


def of(stricter: Any, wider: Any, told: str, *path: str, back: bool = False) -> Pair:
    return Pair(path, stricter, wider, told, back)


def crew(field: str, stricter: Any, wider: Any, told: str = "", *, back: bool = False) -> Pair:
    return of(stricter, wider, told or f"the crew's {field}", field, back=back)


def agent(field: str, stricter: Any, wider: Any, told: str = "", *, back: bool = False) -> Pair:
    return of(stricter, wider, told or f"agent b: {field}", "agents", "b", field, back=back)


def tool(field: str, stricter: Any, wider: Any, told: str = "", *, back: bool = False) -> Pair:
    return of(stricter, wider, told or f"tool write: {field}", "tools", "write", field, back=back)


A, B = BASE["agents"]["a"], BASE["agents"]["b"]
D = {"prompt": "D", "tools": ["read"]}
FORM = {"type": "object", "properties": {"risk": {"type": "number"}}}
SIGNED = {"mode": "signed", "principals": {"ada": {"key": KEY, "rights": ["grant"]}}}
SERVER = {"url": "https://example.org"}

CREW: dict[str, Pair] = {
    "crew": crew("crew", "c", "d", "the crew's name", back=True),
    "model": crew("model", "openai:m", "openai:n", "the model openai:n"),
    "agents": crew("agents", {"a": A, "b": B}, {"a": A, "b": B, "d": D}, "agent d may call read"),
    "tools": crew(
        "tools",
        BASE["tools"],
        {**BASE["tools"], "send": {"run": "deeds:send"}},
        "the tool send is new",
    ),
    "mcp": crew("mcp", {}, {"m": SERVER}, back=True),
    "flags": crew("flags", {"closed": True}, {"closed": False}, "the flag closed", back=True),
    "permissions": crew("permissions", {"write": []}, {}, "agent b may call write"),
    "approvals": crew("approvals", {"write": ["b"]}, {}, "no longer need an approval"),
    "groups": crew("groups", {"g": ["a"]}, {"g": ["a", "b"]}, back=True),
    "rules": crew("rules", BASE["rules"], [], "a rule of the crew is removed"),
    "timezone": crew("timezone", "UTC", "Europe/Berlin", back=True),
    "logs": crew("logs", {"l": {"readers": ["a"]}}, {"l": {"readers": ["a", "b"]}}, back=True),
    "artifacts": crew("artifacts", {"z": {"writers": []}}, {"z": {"writers": ["b"]}}, back=True),
    "merge": crew("merge", {}, {"closed": "append"}, "the reducer of closed", back=True),
    "limits": crew("limits", {"steps": 5}, {"steps": 6}, "the crew's limits: steps"),
    "interrupts": crew("interrupts", {"approve_risk": "low"}, {}, back=True),
    "channels": crew("channels", {"x": {}}, {"x": {}, "y": {}}, back=True),
    "graph": crew("graph", {"queue": 5}, {"queue": 6}, back=True),
    "conversation": crew("conversation", None, {}, back=True),
    "memory": crew("memory", None, {}, back=True),
    "approval": crew("approval", "required", "understood"),
    "policy": crew("policy", SIGNED, None, "the policy", back=True),
}
AGENT: dict[str, Pair] = {
    "does": agent("does", [], [{"tool": "write"}], back=True),
    "in_order": agent("in_order", True, False, back=True),
    "model": agent("model", "openai:m", "openai:n", "agent b: the model openai:n"),
    "model_settings": agent(
        "model_settings", {}, {"base_url": "http://x"}, "the model's setting base_url", back=True
    ),
    "tools": agent("tools", ["read"], ["read", "write"], "agent b may call write"),
    "reads": agent("reads", [], ["channel:x"], "agent b reads channel:x"),
    "writes": agent("writes", [], ["channel:x"], "agent b writes channel:x"),
    "outputs": of([], ["risk"], "agent a sets risk", "agents", "a", "outputs", back=True),
    "writes_flags": agent("writes_flags", [], ["closed"], "agent b sets closed", back=True),
    "reply": agent("reply", None, {"schema": FORM}, back=True),
    "max_calls": agent("max_calls", 3, 4),
    "on_cap": agent("on_cap", "fail", "end", back=True),
    "timeout": agent("timeout", 3, 4),
    "retry": agent("retry", {"attempts": 1}, {"attempts": 2}, "agent b: retry: attempts"),
    "on_error": agent("on_error", "ask", "continue"),
    "ask_below": agent("ask_below", 0.9, 0.1),
    "enabled": agent("enabled", False, True, "agent b is enabled"),
    "parent": agent("parent", "a", None),
    "inputs": agent("inputs", [], ["a.risk"], "agent b has the input a.risk"),
    "shares": agent("shares", [], ["public"], "agent b shares its outputs with public"),
    "scratch": agent("scratch", {}, {"readers": ["a"]}, back=True),
    "listen": agent("listen", [], ["x"]),
    "send": agent("send", [], ["x"]),
    "wires": agent("wires", [], ["a"]),
    "beside": agent("beside", None, "a", back=True),
    "privileged": agent("privileged", False, True, back=True),
}
TOOL: dict[str, Pair] = {
    "run": tool("run", "deeds:write", "deeds:shell", back=True),
    "effects": tool("effects", "external", "read", back=True),
    "retry": tool("retry", "never", "safe"),
    "timeout": tool("timeout", 3, 4),
    "policy": tool("policy", {"attempts": 1}, {"attempts": 2}, "tool write: policy: attempts"),
    "on_error": tool("on_error", "fail", "model"),
    "queue": tool("queue", None, "elsewhere", back=True),
    "placed": tool("placed", "activity", "local", back=True),
    "paths": tool("paths", ["notes/"], [], back=True),
    "secrets": tool("secrets", {"K": "env:KEY"}, {"K": "env:OTHER_KEY"}, back=True),
    "hosts": tool("hosts", [], ["*"]),
    "checks": tool("checks", {"to": "url"}, {}, back=True),
    "approved": tool("approved", "a" * 64, "b" * 64, back=True),
    "risk": tool("risk", "high", "low"),
}
RETRY = {"attempts": AGENT["retry"]}
LIMITS: dict[str, Pair] = {
    name: of(5, more, f"the crew's limits: {name}", "limits", name)
    for name, more in (("steps", 6), ("tokens", 6), ("cost", 6), ("wall", 6), ("parallel", 6))
}
CASES: dict[tuple[type[Model], str], Pair] = {
    (kind, field): pair
    for kind, pairs in (
        (CrewDefinition, CREW),
        (AgentDefinition, AGENT),
        (ToolDefinition, TOOL),
        (Retry, RETRY),
        (Limits, LIMITS),
    )
    for field, pair in pairs.items()
}
TAKEN_AWAY: list[Pair] = [
    agent("ask_below", 0.9, LEFT_OUT),
    agent("ask_below", 0.9, None),
    *(pair._replace(wider=LEFT_OUT) for pair in LIMITS.values()),
    agent("max_calls", 3, LEFT_OUT),
    agent("timeout", 3, LEFT_OUT),
    agent("tools", ["read"], LEFT_OUT, "agent b may call write"),
    agent("retry", {"attempts": 1}, LEFT_OUT, "agent b: retry: attempts"),
    agent("shares", [], LEFT_OUT, "agent b shares its outputs with public"),
    agent("parent", "a", LEFT_OUT),
    agent("enabled", False, LEFT_OUT, "agent b is enabled"),
    crew("approval", "required", LEFT_OUT),
    crew("permissions", {"write": []}, {"write": None}, "agent b may call write"),
    tool("timeout", 3, LEFT_OUT),
    tool("on_error", "fail", LEFT_OUT),
    tool("risk", "high", LEFT_OUT),
    tool("secrets", {}, {"K": "env:KEY"}),
    tool("secrets", {"K": "env:KEY"}, LEFT_OUT),
]
"""Bounds and demands that are taken away, instead of moved: each goes back to its default."""


def with_value(pair: Pair, value: Any) -> CrewDefinition:
    def put(data: Any, path: tuple[str, ...]) -> Any:
        key, *rest = path
        if rest:
            return {**data, key: put(data.get(key, {}), tuple(rest))}
        left = {name: each for name, each in data.items() if name != key}
        return left if value is LEFT_OUT else {**left, key: value}

    return CrewDefinition.from_json(put(BASE, pair.path))


def told(old: CrewDefinition, new: CrewDefinition) -> str:
    return "; ".join(widening(old, new))


def test_each_field_with_a_rule_has_a_case() -> None:
    """Flows are compared as a whole, see `test_widening`."""
    kinds = {kind for kind, _ in CASES}
    with_rules = {
        (kind, field)
        for kind in kinds
        for field, way in FIELDS[kind].items()
        if way not in ("free", "flow")
    }
    assert set(CASES) == with_rules


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__}.{case[1]}")
def test_a_wider_value_is_told_and_a_stricter_one_is_let_pass(
    case: tuple[type[Model], str],
) -> None:
    pair = CASES[case]
    strict, wide = with_value(pair, pair.stricter), with_value(pair, pair.wider)
    assert pair.told in told(strict, wide)
    assert bool(told(wide, strict)) is pair.back
    assert not told(strict, strict)
    assert pair.back or widening_rule(*case) != "same"  # nothing may be done to such a field


@pytest.mark.parametrize("pair", TAKEN_AWAY, ids=lambda pair: ".".join(pair.path))
def test_what_bounds_or_asks_is_not_taken_away(pair: Pair) -> None:
    assert pair.told in told(with_value(pair, pair.stricter), with_value(pair, pair.wider))


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if widening_rule(*case) != "own"],
    ids=lambda case: f"{case[0].__name__}.{case[1]}",
)
def test_a_case_fails_where_its_field_becomes_free(
    case: tuple[type[Model], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a case would prove nothing of its field: something else in it is told."""
    pair, (kind, field) = CASES[case], case
    monkeypatch.setitem(FIELDS, kind, {**FIELDS[kind], field: "free"})  # type: ignore[arg-type]
    assert pair.told not in told(with_value(pair, pair.stricter), with_value(pair, pair.wider))
