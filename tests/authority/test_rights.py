"""The tables of rights: each path of a definition has a rule, or needs the highest right."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import crewlog.definition
from crewlog.authority.permissions import authorize_tool, is_approval_required
from crewlog.authority.principals import CommandAuthorization, authorize_right
from crewlog.authority.rights import COMMANDS, DEFINITION, find_rule, fits
from crewlog.authority.widening import widening, wider_leaves
from crewlog.definition.model import CrewDefinition
from crewlog.definition.policy import Policy
from crewlog.errors import InvalidDefinition, NotPermitted
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.workflows.authorization import check_widening

ROUNDS = int(os.environ.get("CREWLOG_WIDENINGS", "300"))
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
SIGNED = {
    "mode": "signed",
    "principals": {
        "ada": {"key": f"ed25519:{'B' * 42}A=", "rights": ["change", "grant"]},
        "dev": {"key": f"ed25519:{'D' * 42}A=", "rights": ["change"]},
    },
}
FORM = {"type": "object", "properties": {"risk": {"type": "number"}}}
D = {"prompt": "D", "tools": ["read"]}
SEND = {"run": "deeds:send"}
UNSET = object()
RULES = BASE["rules"]


def crew(**more: Any) -> CrewDefinition:
    return CrewDefinition.from_json({**BASE, **more})


def with_value(path: str, value: Any, base: dict[str, Any] = BASE) -> CrewDefinition:
    """A crew with a value at a path."""

    def put(data: Any, keys: list[str]) -> Any:
        key, *rest = keys
        if rest:
            return {**data, key: put(data.get(key, {}), rest)}
        others = {name: each for name, each in data.items() if name != key}
        return others if value is UNSET else {**others, key: value}

    return CrewDefinition.from_json(put(base, path.split(".")))


def wider(old: CrewDefinition, new: CrewDefinition) -> list[str]:
    return [".".join(leaf.path) for leaf in wider_leaves(old, new)]


ONE_WAY: list[tuple[str, Any, Any]] = [
    ("model", "openai:m", "openai:n"),
    ("agents", BASE["agents"], {**BASE["agents"], "d": D}),
    ("tools.send", UNSET, SEND),
    ("permissions.write", [], UNSET),
    ("permissions.write", [], None),
    ("approvals.write", ["b"], UNSET),
    ("approvals.write", None, ["a"]),
    ("rules", RULES, []),
    ("rules", [{"tool": "*", "do": "ask"}], []),
    ("limits.steps", 5, 6),
    ("limits.tokens", 5, 6),
    ("limits.cost", 5, 6),
    ("limits.wall", 5, 6),
    ("limits.parallel", 5, 6),
    ("limits.tokens", 5, UNSET),
    ("approval", "required", UNSET),
    ("agents.b.model", "openai:m", "openai:n"),
    ("agents.b.model_settings.stop", [], ["env:TOKEN"]),
    ("agents.b.tools", ["read"], ["read", "write"]),
    ("agents.b.tools", ["read"], UNSET),
    ("agents.b.reads", [], ["channel:x"]),
    ("agents.b.reads", [], UNSET),
    ("agents.b.writes", [], ["channel:x"]),
    ("agents.b.inputs", [], ["a.risk"]),
    ("agents.b.shares", [], ["public"]),
    ("agents.b.shares", [], UNSET),
    ("agents.b.listen", [], ["x"]),
    ("agents.b.send", [], ["x"]),
    ("agents.b.wires", [], ["a"]),
    ("agents.b.max_calls", 3, 4),
    ("agents.b.max_calls", 3, UNSET),
    ("agents.b.timeout", 3, 4),
    ("agents.b.retry.attempts", 1, 2),
    ("agents.b.on_error", "ask", "continue"),
    ("agents.b.on_error", "fail", "ask"),
    ("agents.b.on_error", {"bad_reply": "fail"}, {"bad_reply": "retry"}),
    ("agents.b.on_error", "fail", {"failure": "fail", "bad_reply": "accept"}),
    ("agents.b.ask_below", 0.9, 0.1),
    ("agents.b.ask_below", 0.9, None),
    ("agents.b.ask_below", 0.9, UNSET),
    ("agents.b.enabled", False, UNSET),
    ("agents.b.parent", "a", None),
    ("tools.write.timeout", 3, 4),
    ("tools.write.policy.attempts", 1, 2),
    ("tools.write.hosts", [], ["*"]),
    ("tools.write.retry", "never", "safe"),
    ("tools.write.on_error", "fail", "model"),
    ("tools.write.risk", "high", UNSET),
]
"""A path, a stricter value and a wider one: only the change to the wider one needs `grant`."""

BOTH_WAYS: list[tuple[str, Any, Any]] = [
    ("crew", "c", "d"),
    ("policy", SIGNED, None),
    ("mcp.m", UNSET, {"url": "https://example.org"}),
    ("flags.closed", True, False),
    ("merge.closed", UNSET, "append"),
    ("groups.g", ["a"], ["a", "b"]),
    ("rules", RULES, [{**RULES[0], "if": "closed"}]),
    ("timezone", "UTC", "Europe/Berlin"),
    ("logs.l", {"readers": ["a"]}, {"readers": ["a", "b"]}),
    ("artifacts.z", {"writers": []}, {"writers": ["b"]}),
    ("interrupts.approve_risk", "low", UNSET),
    ("channels.y", UNSET, {}),
    ("graph.root", "a", "b"),
    ("graph.queue", 5, 6),
    ("conversation", None, {}),
    ("memory", None, {}),
    ("agents.b.does", [], [{"tool": "write"}]),
    ("agents.b.in_order", True, False),
    ("agents.b.reply", None, {"schema": FORM}),
    ("agents.b.on_cap", "fail", "end"),
    ("agents.b.model_settings.base_url", UNSET, "http://x"),
    ("agents.b.scratch", {}, {"readers": ["a"]}),
    ("agents.b.beside", None, "a"),
    ("agents.b.privileged", False, True),
    ("agents.a.outputs", [], ["risk"]),
    ("agents.b.writes_flags", [], ["closed"]),
    ("tools.write.run", "deeds:write", "deeds:shell"),
    ("tools.write.effects", "external", "read"),
    ("tools.write.queue", None, "elsewhere"),
    ("tools.write.placed", "activity", "local"),
    ("tools.write.paths", ["notes/"], []),
    ("tools.write.secrets.K", "env:KEY", "env:OTHER_KEY"),
    ("tools.write.checks.to", "url", UNSET),
    ("tools.write.approved", "a" * 64, "b" * 64),
]
"""A path and two values: the change needs `grant` in both directions."""

PERMITTED: list[tuple[str, Any, Any]] = [
    ("description", None, "X"),
    ("window", None, 5),
    ("checkpoints", {}, {"keep_last": 5}),
    ("limits.events", 2000, 50),
    ("flags.other", UNSET, 1),
    ("merge.other", UNSET, "sum"),
    ("rules", RULES, [*RULES, {"tool": "*", "quota": "5 per day"}]),
    ("agents.b.prompt", "B", "C"),
    ("agents.b.description", None, "X"),
    ("agents.b.heartbeat", 5, 9),
    ("agents.b.window", None, 5),
    ("agents.b.model_settings", {}, {"temperature": 0, "stop": ["x"]}),
    ("agents.b.outputs", [], ["risk"]),
    ("agents.b.writes_flags", [], ["other"]),
    ("agents.b.retry.first", 1, 9),
    ("agents.d", UNSET, {"prompt": "D", "tools": []}),
    ("agents.d", {"prompt": "D", "tools": [], "reads": [], "max_calls": 3}, UNSET),
    ("agents.d", {"prompt": "D", "tools": [], "enabled": False}, {"prompt": "D", "tools": []}),
    ("tools.write.description", None, "X"),
    ("tools.write.heartbeat", 5, 9),
    ("tools.write.policy.first", 1, 9),
    ("tools.send", SEND, UNSET),
]
"""A path and two values: the change needs only `change`."""


@pytest.mark.parametrize(("path", "strict", "wide"), ONE_WAY)
def test_only_the_wider_value_needs_grant(path: str, strict: Any, wide: Any) -> None:
    old, new = with_value(path, strict), with_value(path, wide)
    assert any(each.startswith(path) for each in wider(old, new)), wider(old, new)
    assert not wider(new, old)
    assert not wider(old, old)


@pytest.mark.parametrize(("path", "one", "other"), BOTH_WAYS)
def test_a_change_in_both_directions_needs_grant(path: str, one: Any, other: Any) -> None:
    old, new = with_value(path, one), with_value(path, other)
    for before, after in ((old, new), (new, old)):
        assert any(each.startswith(path) for each in wider(before, after)), wider(before, after)


@pytest.mark.parametrize(("path", "old", "new"), PERMITTED)
def test_the_right_change_permits_it(path: str, old: Any, new: Any) -> None:
    assert not wider(with_value(path, old), with_value(path, new))


def test_to_remove_an_agent_about_whose_confidence_people_are_asked_needs_grant() -> None:
    one = {"prompt": "D", "tools": [], "outputs": ["confidence"], "ask_below": 0.5}
    old, new = with_value("agents.d", one), crew()
    assert wider(old, new) == ["agents.d.ask_below"]


def test_an_agent_that_sets_what_a_rule_reads_stays() -> None:
    one = {"prompt": "D", "tools": [], "writes_flags": ["closed"]}
    old = with_value("agents.d", one)
    assert wider(old, crew()) == ["agents.d.writes_flags"]
    assert wider(old, with_value("agents.d", {**one, "enabled": False})) == ["agents.d.enabled"]


# -- the table and the schema ----------------------------------------------------------------


def schema_paths() -> set[str]:
    """The paths of the JSON Schema of a definition, with `*` for the keys of mappings."""
    file = Path(crewlog.definition.__file__).parent / "crew.schema.json"
    schema: dict[str, Any] = json.loads(file.read_text())
    found: set[str] = set()

    def walk(node: dict[str, Any], path: tuple[str, ...], seen: tuple[str, ...]) -> None:
        if path:
            found.add(".".join(path))
        reference = node.get("$ref", "")
        if reference and reference not in seen:
            walk(schema["$defs"][reference.rpartition("/")[2]], path, (*seen, reference))
        for each in (*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())):
            walk(each, path, seen)
        for key, each in node.get("properties", {}).items():
            walk(each, (*path, key), seen)
        if more := node.get("additionalProperties"):
            walk(more if isinstance(more, dict) else {}, (*path, "*"), seen)
        for each in node.get("patternProperties", {}).values():
            walk(each, (*path, "*"), seen)

    walk(schema, (), ())
    return found


FLOW_AND_RULES = {"flow.**", "rules.*"}
"""Patterns of lists, whose items have the names of their steps or rules."""


def test_each_pattern_of_the_table_is_a_path_of_the_schema() -> None:
    paths = {tuple(path.split(".")) for path in schema_paths()}
    for pattern in {*DEFINITION} - FLOW_AND_RULES:
        assert any(fits(pattern, path) for path in paths), pattern


WITHOUT_RULE = {
    *("artifacts", "channels", "conversation", "crew", "graph", "groups", "interrupts", "logs"),
    *("mcp", "memory", "policy", "timezone"),
    *("agents.*.does", "agents.*.in_order", "agents.*.reply", "agents.*.on_cap"),
    *("agents.*.scratch", "agents.*.beside", "agents.*.privileged"),
    *("tools.*.run", "tools.*.effects", "tools.*.queue", "tools.*.placed", "tools.*.paths"),
    *("tools.*.secrets", "tools.*.checks", "tools.*.approved"),
}
"""Where any difference needs the highest right. A new key must have a rule, or stand here."""
WITH_INNER_RULES = {"agents", "agents.*", "agents.*.retry", "agents.*.model_settings", "limits"}
WITH_INNER_RULES |= {
    "tools",
    "tools.*.policy",
    "permissions",
    "approvals",
    "flags",
    "merge",
    "rules",
}


def test_each_path_of_the_schema_has_a_rule_or_needs_the_highest_right() -> None:
    without = {path for path in schema_paths() if find_rule(tuple(path.split("."))) is None}
    outer = {path for path in without if path.rpartition(".")[0] not in without - WITH_INNER_RULES}
    assert outer - WITH_INNER_RULES == WITHOUT_RULE


# -- the flow --------------------------------------------------------------------------------

ASK: dict[str, Any] = {"ask": "Publish?", "sets": "ok"}
END: dict[str, Any] = {"if": "not ok", "go": "end"}
FLOW = ["a", ASK, END, "b"]


def with_flow(*flow: Any) -> CrewDefinition:
    more = {"c": {"prompt": "C", "tools": []}}
    agents = {**BASE["agents"], **more}
    return crew(flow=[*flow], agents=agents, rules=[], flags={}, channels={})


@pytest.mark.parametrize(
    ("flow", "permitted"),
    [
        (FLOW, True),
        ([{"agent": "a", "task": "Anew."}, ASK, END, "b"], True),
        ([ASK, END, "b"], False),
        (["a", "c", ASK, END, "b"], False),
        (["a", END, "b"], False),
        (["a", ASK, "b"], False),
        (["a", "b", ASK, END], False),
        (["a", ASK, END, {"agent": "b", "after": "a"}], False),
        (["a", {**ASK, "ask": "Tea?"}, END, "b"], False),
        (["a", {**ASK, "options": ["no", "yes"]}, END, "b"], False),
        (["a", {"if": "x", "go": "b"}, ASK, END, "b"], False),
        (["a", {"parallel": ["c", ASK], "join": "any"}, END, "b"], False),
        (["a", {"agent": "c", "when": "x", "else": "b"}, ASK, END, "b"], False),
        (["a", {**ASK, "only_if": "late"}, END, "b"], False),
    ],
)
def test_a_flow_that_asks_people_keeps_its_steps(flow: list[Any], permitted: bool) -> None:
    assert bool(wider(with_flow(*FLOW), with_flow(*flow))) is not permitted


def test_the_length_of_a_wait_may_change_in_a_flow_that_asks_people() -> None:
    old, new = (with_flow("a", {"wait": wait}, ASK, END, "b") for wait in ("1h", "2h"))
    assert not wider(old, new)


def test_the_flow_of_a_crew_that_asks_nobody_is_free() -> None:
    old = with_flow("a", {"if": "x", "go": "end"}, {"agent": "b", "when": "y"})
    assert not wider(old, with_flow("b", "a"))
    assert not wider(old, with_flow(*FLOW))


def test_a_flow_whose_values_rules_read_stays() -> None:
    assert wider(crew(), crew(flow=["b", "a"]))


@pytest.mark.parametrize(
    ("step", "permitted"),
    [
        ({"agent": "a", "on_error": "continue"}, False),
        ({"agent": "a", "on_error": "c"}, False),
        ({"agent": "a", "on_error": "fail"}, True),
        ({"agent": "a", "timeout": "1m"}, True),
    ],
)
def test_a_step_has_no_milder_policy_for_errors(step: dict[str, Any], permitted: bool) -> None:
    old, new = with_flow("a", "b"), with_flow(step, "b", {"agent": "c", "after": "go"})
    assert bool(wider(old, new)) is not permitted


# -- any changes -----------------------------------------------------------------------------

AGENTS, TOOLS, LOGS = ("a", "b", "c"), ("read", "write", "send"), ("public", "group:g", "channel:x")


def random_crew(chance: random.Random) -> CrewDefinition | None:
    def some(names: tuple[str, ...]) -> list[str]:
        return [each for each in names if chance.random() < 0.6]

    def table(names: list[str]) -> dict[str, Any]:
        return {
            t: chance.choice([None, some(tuple(names))]) for t in tools if chance.random() < 0.5
        }

    names, tools = some(AGENTS) or ["a"], some(TOOLS)
    agents = {
        name: {
            "prompt": chance.choice(["P", "Q"]),
            "tools": chance.choice([None, [], some(tuple(tools))]),
            "reads": some(LOGS),
            "max_calls": chance.choice([3, 25, 40]),
            "ask_below": chance.choice([None, None, 0.5]),
            "outputs": ["confidence"],
            "enabled": chance.random() < 0.8,
            "on_error": chance.choice(["ask", "fail", "continue"]),
        }
        for name in names
    }
    flow: list[Any] = [*names]
    if chance.random() < 0.3:
        flow.insert(1, {"ask": "Go?"})
    rules = [{"tool": "*", "do": "ask", "if": "closed"}] if chance.random() < 0.3 else []
    data = {
        "crew": "c",
        "model": "scripted:x.yaml",
        "agents": agents,
        "tools": {name: {"run": f"deeds:{name}"} for name in tools},
        "permissions": table(names),
        "approvals": table(names),
        "groups": {"g": [*AGENTS]} if {*AGENTS} == {*names} else {},
        "flags": {"closed": chance.random() < 0.5},
        "limits": {"steps": chance.choice([5, 6])},
        "rules": rules,
        "flow": flow,
    }
    try:
        made = CrewDefinition.from_json(data)
        lower(made)
    except InvalidDefinition:
        return None
    return made


def nearby(old: CrewDefinition, chance: random.Random) -> CrewDefinition | None:
    """A crew with a part of another random one."""
    new = random_crew(chance)
    if new is None or chance.random() < 0.3:
        return new
    data, other = old.to_json(), new.to_json()
    key = chance.choice(["agents", "permissions", "approvals", "limits", "rules", "flow", "agent"])
    if key == "agent":
        name = chance.choice([*data["agents"]])
        if name in other["agents"]:
            field = chance.choice([*other["agents"][name]])
            data["agents"][name][field] = other["agents"][name][field]
    else:
        data[key] = other.get(key, data.get(key))
    try:
        made = CrewDefinition.from_json({k: v for k, v in data.items() if v is not None})
        lower(made)
    except InvalidDefinition:
        return None
    return made


def each_round(seed: int, rounds: int, make: Callable[[random.Random], Any]) -> Iterator[Any]:
    chance = random.Random(seed)  # noqa: S311
    while rounds:
        if (made := make(chance)) is not None:
            rounds -= 1
            yield made


def calls(plan: GraphPlan) -> dict[tuple[str, str], bool]:
    """The calls that agents may make, and whether they need an approval, as the engine decides."""
    found: dict[tuple[str, str], bool] = {}
    for name, rules in plan.agents.items():
        for each in TOOLS:
            decision = authorize_tool(
                name,
                each,
                agent_tools=rules.tools,
                crew_tools=plan.tools,
                permissions=plan.permissions,
            )
            if decision.allowed:
                found[name, each] = is_approval_required(name, each, plan.approvals)
    return found


def test_whatever_the_engine_allows_more_needs_grant() -> None:
    def make(chance: random.Random) -> tuple[CrewDefinition, CrewDefinition] | None:
        old = random_crew(chance)
        new = old and nearby(old, chance)
        return (old, new) if old and new else None

    counts = {True: 0, False: 0}
    for old, new in each_round(7, ROUNDS, make):
        needs_grant = bool(wider_leaves(old, new))
        before, after = calls(lower(old)), calls(lower(new))
        more = [
            cell
            for cell, asks in after.items()
            if cell not in before or (before[cell] and not asks)
        ]
        fewer_questions = [
            name
            for name, agent in old.agents.items()
            if agent.ask_below and not (name in new.agents and new.agents[name].ask_below)
        ]
        more_logs = [
            (name, log)
            for name, agent in new.agents.items()
            for log in agent.reads
            if log not in ("public", *(old.agents[name].reads if name in old.agents else ()))
        ]
        wider = more or more_logs or fewer_questions
        assert needs_grant or not wider, (old.to_json(), new.to_json())
        counts[needs_grant] += 1
    assert min(counts.values()) > ROUNDS / 20, counts


def test_no_sequence_of_changes_needs_less_than_their_total_difference() -> None:
    """If `change` permits each of two changes, it permits both in one."""

    def make(chance: random.Random) -> tuple[CrewDefinition, ...] | None:
        one = random_crew(chance)
        two = one and nearby(one, chance)
        three = two and nearby(two, chance)
        if not (one and two and three) or wider_leaves(one, two) or wider_leaves(two, three):
            return None
        return one, two, three

    for one, two, three in each_round(8, ROUNDS // 5, make):
        found = wider(one, three)
        assert not found, (found, one.to_json(), two.to_json(), three.to_json())


# -- principals ------------------------------------------------------------------------------


def merge_authorization(policy: Policy, name: str) -> CommandAuthorization:
    """The authorization of a principal that signs the command of a run merge."""
    principal = policy.principals.get(name)
    rights = principal.rights if principal is not None else ()
    return authorize_right(name, rights, COMMANDS["change"], "the merge")


def test_a_widening_is_refused_to_a_principal_without_grant() -> None:
    old = crew()
    new = with_value("agents.b.max_calls", 40)
    policy = Policy.from_json(SIGNED)
    dev, ada = merge_authorization(policy, "dev"), merge_authorization(policy, "ada")
    with pytest.raises(NotPermitted) as refusal:
        check_widening(dev, widening(old, new), "the merge")
    text = "the merge (it widens authority: agent b: max_calls 25 → 40)"
    assert text in refusal.value.message
    refused = merge_authorization(policy, "nobody")
    assert not refused.allowed
    assert "the merge needs the right 'change', which 'nobody' does not have" in refused.reason
    check_widening(ada, widening(old, new), "the change")
    check_widening(None, widening(old, new), "the change")
    check_widening(dev, widening(new, old), "the change")


def test_a_change_that_was_not_compared_counts_as_a_widening() -> None:
    policy = Policy.from_json(SIGNED)
    with pytest.raises(NotPermitted, match="was not compared with the definition in force"):
        check_widening(merge_authorization(policy, "dev"), None, "the merge")
    check_widening(merge_authorization(policy, "ada"), None, "the merge")
    check_widening(None, None, "the merge")


def test_a_removed_policy_widens() -> None:
    (text,) = widening(crew(policy=SIGNED), crew())
    assert text.startswith("policy")
