# ruff: noqa: E501  (tables of cases: a case is a line)
"""Rules over tool calls in a definition: what is wrong with them, with lines, and what they
become."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from crewlog.definition.apply import apply_operations
from crewlog.definition.diff import diff
from crewlog.definition.load import load_definition
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import EditCrew, RemoveAgent, RemoveTool
from crewlog.definition.quotas import parse_quota, window_ends, window_of
from crewlog.definition.reaching import McpServer
from crewlog.definition.write import to_yaml
from crewlog.errors import InvalidDefinition

CREW = """\
crew: t
model: openai:x
agents:
  a: {prompt: p, tools: [act, read], writes_flags: [ok]}
  b: {prompt: p, tools: [act], parent: a}
tools:
  act: {run: "m:f"}
  read: {run: "m:f"}
groups:
  g: [a, b]
"""
LINES = CREW.count("\n")


def faults(text: str) -> list[str]:
    try:
        load_definition(CREW + text)
    except InvalidDefinition as error:
        return [f"{d.line - LINES}: {d.message}" for d in error.diagnostics if d.line is not None]
    return []


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (
            "rules:\n- {tool: akt, do: never}",
            ["2: rules[0] names the tool 'akt', which is not defined."],
        ),
        (
            "rules:\n- {tool: [read, akt]}",
            ["2: rules[0] names the tool 'akt', which is not defined."],
        ),
        (
            "rules:\n- {tool: act, agents: [c]}",
            ["2: rules[0] names the agent 'c', which is not defined."],
        ),
        (
            "rules:\n- {tool: act, agents: ['group:h']}",
            ["2: rules[0] names the group 'h', which is not defined."],
        ),
        ("rules:\n- {tool: act, agents: []}", ["2: rules[0] holds for no agent"]),
        (
            "rules:\n- {tool: act, do: never, quota: 5 per run}",
            ["2: rules[0] counts calls that it says are never made"],
        ),
        ("rules:\n- {tool: act, if: not good, do: ask}", ["2: nobody writes the flag 'good'"]),
        ("timezone: Europe/Berln", ["1: there is no time zone 'Europe/Berln'"]),
        ("timezone: ../../etc/passwd", ["1: there is no time zone '../../etc/passwd'"]),
        (
            "rules:\n- {tool: act}\n- {tool: '*', agents: [b], do: never}",
            [
                "3: rules[0] says always and rules[1] says never: act by b",
                "-5: 'b' has the tool 'act', and rules[1] says never",
            ],
        ),
        (
            "rules:\n- {tool: act, agents: ['group:g']}\n- {tool: act, do: ask}",
            ["3: rules[0] says always and rules[1] says ask: act by a and b"],
        ),
        (
            "approvals: {act: [a]}\nrules:\n- {tool: act, agents: [a]}",
            ["3: rules[0] says always, and approvals say that people are asked: act by a"],
        ),
        (
            "permissions: {act: [b]}\nrules:\n- {tool: act, agents: [a]}",
            [
                "3: rules[0] says always, and permissions do not let a call act",
                "-5: 'b' has the tool 'act', and may not call it: 'a', whom it works for, may not",
            ],
        ),
        (
            "rules:\n- {tool: act}\npermissions: {act: []}",
            [
                (
                    "-3: no agent may call the tool 'act': a and b may use it, and the permissions do "
                    "not name them"
                ),
                "3: rules[0] says always, and permissions do not let a and b call act",
            ],
        ),
        (
            "rules:\n- {tool: act, if: ok}\n- {tool: act, if: ' ok', agents: [b], do: never}",
            ["3: rules[0] says always and rules[1] says never: act by b"],
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(rules: str, found: list[str]) -> None:
    assert sorted(faults(rules)) == sorted(found)


def test_a_contradiction_names_the_other_line_and_a_group_is_suggested_as_one() -> None:
    rules = "rules:\n- {tool: act}\n- {tool: act, do: never}\n- {tool: read, agents: ['group:gg']}"
    with pytest.raises(InvalidDefinition) as info:
        load_definition(CREW + rules)
    first, second = info.value.diagnostics
    assert first.line == LINES + 3
    assert first.remedy.startswith(f"The other one is in line {LINES + 2}. Take one back")
    assert second.remedy == "Did you mean 'group:g'?"


@pytest.mark.parametrize(
    "rules",
    [
        "rules:\n- {tool: act, do: ask}\n- {tool: act, do: never, agents: [b]}",
        "rules:\n- {tool: act, if: ok}\n- {tool: act, do: never}",
        "rules:\n- {tool: act, if: ok}\n- {tool: act, if: not ok, do: never}",
        "permissions: {act: [b]}\nrules:\n- {tool: act}",
        "approvals: {act: }\nrules:\n- {tool: act, quota: 5 per run}",
        "rules:\n- {tool: '*', quota: 100 per day, agents: ['group:g'], reason: why}\ntimezone: Europe/Berlin",
    ],
)
def test_what_does_not_contradict_itself_is_fine(rules: str) -> None:
    assert faults(rules) == []


@pytest.mark.parametrize("fault", ["do: maybe", "quota: lots", "if: 'ok =='"])
def test_a_rule_that_is_not_whole_contradicts_nothing(fault: str) -> None:
    """What it is to say nobody knows; that the others contradict each other is told."""
    rules = f"rules:\n- {{tool: act, do: never}}\n- {{tool: act, {fault}}}\n- {{tool: act}}"
    found = faults(rules)
    assert not [each for each in found if "rules[1] says" in each]
    assert [each for each in found if "rules[2] says always and rules[0] says never" in each]


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("[act, 5]", "2: item 2 of 'tool' of rules[0] must be a text, not the number 5"),
        ("5", "2: 'tool' of rules[0] must be a text, not the number 5"),
    ],
)
def test_one_tool_or_several_is_one_fault(tool: str, told: str) -> None:
    assert faults(f"rules:\n- {{tool: {tool}, do: never}}") == [told]


def test_an_agent_does_not_work_for_itself() -> None:
    text = CREW.replace("p, tools: [act, read]", "p, parent: b, tools: [act, read]")
    with pytest.raises(InvalidDefinition, match="works for itself"):
        load_definition(text)
    with pytest.raises(InvalidDefinition, match="works for 'z', which is not defined"):
        load_definition(CREW.replace("parent: a", "parent: z"))


@pytest.mark.parametrize(
    ("more", "desk", "named", "said"),
    [
        (
            "reads: [public, 'channel:vault']",
            "a, b",
            "a, b",
            "'b' reads 'channel:vault', which 'a'",
        ),
        ("reads: [public]", "b", "a, b", "'b' reads 'group:desk', which 'a'"),
        ("writes: ['channel:vault']", "a, b", "a, b", "'b' writes 'channel:vault', which 'a'"),
        (
            "writes_flags: [sure]",
            "a, b",
            "a, b",
            "'b' sets 'sure', which rules[0] looks at, and 'a'",
        ),
        ("reads: [public]", "a, b", "b", "gives 'public' to 'b', and not to 'a'"),
        ("writes_flags: [ok, other], writes: ['readers:b']", "a, b", "a, b", ""),
    ],
)
def test_an_agent_has_no_more_than_the_one_it_works_for(
    more: str, desk: str, named: str, said: str
) -> None:
    text = f"""\
crew: t
model: openai:x
agents:
  b: {{prompt: p, tools: [act], parent: a, {more}}}
  a: {{prompt: p, tools: [act], writes_flags: [ok], writes: [public, 'readers:b']}}
tools:
  act: {{run: "m:f"}}
groups: {{desk: [{desk}]}}
logs: {{vault: {{}}}}
flags: {{sure: false, other: false}}
memory: {{read: {{agent: null, public: [{named}]}}}}
rules:
- {{tool: act, do: never, if: not sure or not ok}}
flow: [b, a, {{if: other or ok, go: end}}]
"""
    found: list[str] = []
    try:
        load_definition(text)
    except InvalidDefinition as error:
        found = [each.message for each in error.diagnostics if each.severity == "error"]
    assert [said in each for each in found] == ([True] if said else []), found


@pytest.mark.parametrize(
    "text", ["5", "0 per run", "-1 per day", "5 per week", "five per run", 5, None, "5 per runs"]
)
def test_a_quota_is_a_number_and_a_window(text: Any) -> None:
    with pytest.raises(ValueError, match="quota"):
        parse_quota(text)


def test_a_quota_has_one_spelling() -> None:
    assert {parse_quota(t) for t in ("5 per run", " 05  a run", "5 each run")} == {"5 per run"}


def test_rules_are_written_as_they_are_read_and_told_where_they_differ() -> None:
    text = (
        CREW
        + "rules:\n- {tool: act, do: ask, if: not ok, reason: why}\n- {tool: read, quota: 3 per hour}\n"
    )
    crew = load_definition(text)
    assert load_definition(to_yaml(crew)) == crew
    assert CrewDefinition.from_json(crew.to_json()) == crew
    other = crew.model_copy(update={"rules": crew.rules[:1], "timezone": "Europe/Berlin"})
    assert [c.path for c in diff(crew, other).changes] == [("rules", "rules[1]"), ("timezone",)]


def test_rules_change_with_the_crew_and_never_widen() -> None:
    text = (
        CREW
        + "rules:\n- {tool: [act, read], do: never, agents: [b]}\n- {tool: act, do: ask, agents: [a, 'group:g']}\n"
    )
    crew = load_definition(text)
    left = apply_operations(crew, [RemoveAgent(name="b")])
    # A rule for b alone must not become one for everybody.
    assert [(r.tools, r.agents) for r in left.rules] == [(("act",), ("a", "group:g"))]
    assert left.groups == {"g": ("a",)}
    assert [r.tools for r in apply_operations(crew, [RemoveTool(name="act")]).rules] == [("read",)]
    with pytest.raises(InvalidDefinition, match="'b' works for 'a'"):
        apply_operations(crew, [RemoveAgent(name="a")])
    more = apply_operations(
        crew, [EditCrew(set={"rules": [{"tool": "read", "quota": "2 per day"}]})]
    )
    assert [r.quota for r in more.rules] == ["2 per day"]


def ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type,misc]


def test_a_day_is_the_crews_and_may_have_23_or_25_hours() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert window_of("day", ms(2026, 3, 28, 23, 0), berlin) == "2026-03-29"
    assert window_of("day", ms(2026, 3, 29, 21, 59), berlin) == "2026-03-29"
    assert window_of("day", ms(2026, 3, 29, 22, 0), berlin) == "2026-03-30"
    # The hour that comes twice is two hours.
    twice = [window_of("hour", ms(2026, 10, 25, hour, 30), berlin) for hour in (0, 1, 2)]
    assert twice == ["2026-10-25T02+02:00", "2026-10-25T02+01:00", "2026-10-25T03+01:00"]
    assert window_ends("day", ms(2026, 3, 29, 12), berlin) == "2026-03-30 00:00 +02:00"
    assert window_ends("hour", ms(2026, 3, 29, 0, 30), berlin) == "2026-03-29 03:00 +02:00"


KEYS = {
    "ada": "ed25519:" + base64.b64encode(bytes(range(32))).decode(),
    "bob": "ed25519:" + base64.b64encode(bytes(range(1, 33))).decode(),
}


@pytest.mark.parametrize(
    ("asks", "found"),
    [
        ("people: [ada, bob]", ["3: 'bob' is to answer questions, and has not the right 'answer'"]),
        ("people: [adda]", ["3: 'adda' is to answer questions, and is no principal of the signed policy"]),
        ("expires: 1h, default: escalate, escalate_to: zz", ["3: 'zz' is to answer questions, and is no principal of the signed policy"]),
        ("kinds: {budget: {expires: 1h, default: escalate, escalate_to: bob}}", ["3: 'bob' is to answer questions, and has not the right 'answer'"]),
        ("people: [ada]", []),
    ],
)  # fmt: skip
def test_who_is_asked_can_answer(asks: str, found: list[str]) -> None:
    principals = f"ada: {{key: '{KEYS['ada']}', rights: [answer, grant]}}, bob: {{key: '{KEYS['bob']}', rights: [grant]}}"
    text = f"policy: {{mode: MODE, principals: {{{principals}}}}}\ninterrupts:\n  {{{asks}}}\n"
    assert faults(text.replace("MODE", "signed")) == found
    assert faults(text.replace("MODE", "open")) == []


def test_no_two_commands_of_servers_are_one_source() -> None:
    """What is approved of one server's tools is of no other one's."""
    commands = [("uvx", "lib", "server"), ("uvx", "lib server"), ("uvx lib", "server")]
    servers = [McpServer(command=first, args=tuple(rest)) for first, *rest in commands]
    assert [each.source for each in servers] == [
        "stdio uvx lib server", "stdio uvx 'lib server'", "stdio 'uvx lib' server"
    ]  # fmt: skip
