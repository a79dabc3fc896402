# ruff: noqa: E501, RUF001  (tables of cases: a case is a line)
"""What differs between two definitions: complete, stable, and in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crewlog.definition.content import definition_hash
from crewlog.definition.diff import Change, DefinitionDiff, diff, diff_models
from crewlog.definition.load import load_definition
from crewlog.definition.model import CrewDefinition
from crewlog.prompt.registry_file import load_registry
from definition.crews import definitions

NOTES = """\
crew: release-notes
model: openai:gpt-5-mini
agents:
  collector: {prompt: Collect the merged changes since the last tag., tools: [git_log]}
  writer:    {prompt: Write notes for users., tools: [write_file]}
  checker:   {prompt: Check every claim., tools: [git_log], writes_flags: [approved]}
tools:
  git_log:    {run: my_tools:git_log, effects: read}
  write_file: {run: my_tools:write_file, effects: write, retry: keyed, paths: [notes/]}
flow:
  - collector
  - writer
  - checker
  - {if: not approved, go: writer, at_most: 3, else: ask_human}
permissions:
  write_file: [writer]
flags: {urgent: 1}
"""


def changed(*pairs: tuple[str, str]) -> DefinitionDiff:
    text = NOTES
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return diff(load_definition(NOTES), load_definition(text))


@pytest.mark.parametrize(
    ("old", "new", "kind", "path", "words"),
    [
        ("crew: release-notes", "crew: notes", "changed", "crew", "crew release-notes → notes"),
        ("-mini", "", "changed", "model", "model openai:gpt-5-mini → openai:gpt-5"),
        ("model:", "description: Notes\nmodel:", "changed", "description", "description nothing → Notes"),
        ("for users.,", "for users., timeout: 5m,", "changed", "agents.writer.timeout", "agent writer: timeout 3m → 5m"),
        ("for users.,", "for users., retry: {attempts: 2},", "changed", "agents.writer.retry.attempts", "agent writer: retry.attempts 4 → 2"),
        ("for users.,", "for users., model_settings: {temperature: 0},", "added", "agents.writer.model_settings.temperature", "agent writer: model_settings.temperature 0"),
        ("tools: [write_file]", "tools: [git_log]", "changed", "agents.writer.tools", "agent writer: tools + git_log, – write_file"),
        (", tools: [write_file]", "", "changed", "agents.writer.tools", "agent writer: tools write_file → all that permissions allow"),
        ("Write notes for users.", "Write notes for developers.", "changed", "agents.writer.prompt", 'agent writer: prompt "Write notes for users." → "Write notes for developers."'),
        ("effects: read", "effects: external", "changed", "tools.git_log.effects", "tool git_log: effects read → external"),
        ("tools:\n", "tools:\n  new: {run: 'm:new'}\n", "added", "tools.new", "tool new, m:new"),
        ("at_most: 3", "at_most: 5", "changed", "flow.after_checker.at_most", "phase after_checker: at_most 3 → 5"),
        ("not approved", "not approved and urgent", "changed", "flow.after_checker.if", 'phase after_checker: if "not approved" → "not approved and urgent"'),
        ("[writer]", "[writer, checker]", "changed", "permissions.write_file", "permission to call write_file: writer → writer and checker"),
        ("[writer]", "[]", "changed", "permissions.write_file", "permission to call write_file: writer → nobody"),
        ("permissions:", "permissions:\n  git_log: [checker]", "added", "permissions.git_log", "permission to call git_log: every agent that lists it → checker"),
        ("\nflags:", "\napprovals: {write_file: }\nflags:", "added", "approvals.write_file", "approval of calls of write_file: nobody's → every agent's"),
        ("urgent: 1", "urgent: true", "changed", "flags.urgent", "flag urgent: starts as 1 → true"),
        ("urgent: 1", "urgent: 1.0", "changed", "flags.urgent", "flag urgent: starts as 1 → 1.0"),
        ("{urgent: 1}", "{urgent: 1, late: x}", "added", "flags.late", "flag late: starts as x"),
        ("\nflags:", "\nlimits: {steps: 5}\nflags:", "changed", "limits.steps", "limit steps 10000 → 5"),
        ("  - collector\n", "  - {agent: collector}\n", "changed", "flow", "the flow is written in another way, with the same phases"),
    ],
)  # fmt: skip
def test_one_change_is_one_entry(old: str, new: str, kind: str, path: str, words: str) -> None:
    [change] = changed((old, new)).changes
    assert (change.kind, ".".join(change.path), change.words) == (kind, path, words)


def test_a_phase_between_two_others_changes_what_the_second_waits_for() -> None:
    found = changed(
        ("tools:\n", "  editor: {prompt: E., tools: []}\ntools:\n"),
        ("  - checker", "  - editor\n  - checker"),
    )
    assert [(change.kind, change.words) for change in found.changes] == [
        ("added", "agent editor"),
        ("added", "phase editor, after writer"),
        ("changed", "phase checker: waits for writer → editor"),
    ]
    assert found.names("agents", "added") == ("editor",)
    assert found.names("flow", "added") == ("editor",)
    assert found.names("flow", "changed") == ("checker",)
    assert found.under("flow", "checker")[0].old == ["writer"]


def test_joins_in_words() -> None:
    old = {"crew": "c", "model": "openai:x", "agents": {n: {"prompt": "p"} for n in "abcd"}}
    flow: list[Any] = [["a", "b", "c"]]
    waits = [
        (None, "a, b and c"),
        ({"any": ["a", "b"]}, "the first of a and b"),
        ({"quorum": 2, "of": ["a", "b", "c"]}, "2 of a, b and c"),
        ([], "nothing"),
        ("go", "being sent to"),
    ]
    versions = [
        CrewDefinition.from_json(old | {"flow": [*flow, {"agent": "d", "after": after}]})
        for after, _ in waits
    ]
    for i in range(1, len(waits)):
        [change] = diff(versions[i - 1], versions[i]).changes
        assert change.words == f"phase d: waits for {waits[i - 1][1]} → {waits[i][1]}"


def test_long_texts_are_shown_where_they_differ() -> None:
    text = "You check claims. " * 20
    [change] = changed(
        ("prompt: Check every claim.", f'prompt: "{text}Say yes or no, and nothing besides it."'),
    ).changes
    assert change.new.startswith(text)
    again = diff(
        load_definition(NOTES.replace("Check every claim.", f"{text}Say yes.")),
        load_definition(NOTES.replace("Check every claim.", f"{text}Say no.")),
    )
    assert again.changes[0].words == 'agent checker: prompt "…check claims. Say yes." → "…check claims. Say no."'  # fmt: skip


def test_registries_are_compared_too() -> None:
    old = load_registry(
        "registry: a\ntools: {t: {run: 'm:t', words: [do it]}}\nmodels: ['openai:x']"
    )
    new = load_registry("registry: a\ntools: {t: {run: 'm:t', grant: []}}\nnew_agents: false")
    assert [change.words for change in diff_models(old, new).changes] == [
        "models – openai:x",
        "new_agents true → false",
        "tool t: words – do it",
        "tool t: grant any agent → none",
    ]


def test_it_is_data() -> None:
    found = changed(("at_most: 3", "at_most: 5"), ("[writer]", "[]"))
    assert DefinitionDiff.from_json(found.to_json()) == found
    assert found
    assert not diff(load_definition(NOTES), load_definition(NOTES))


SLOW = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@given(definitions())
@SLOW
def test_a_definition_does_not_differ_from_itself(definition: CrewDefinition) -> None:
    assert diff(definition, CrewDefinition.from_json(definition.to_json())).changes == ()


@given(definitions(), definitions())
@SLOW
def test_what_differs_is_told_both_ways(one: CrewDefinition, other: CrewDefinition) -> None:
    there, back = diff(one, other), diff(other, one)
    assert bool(there) == (definition_hash(one) != definition_hash(other))
    turned = {"added": "removed", "removed": "added", "changed": "changed"}
    assert {_key(change) for change in there.changes} == {
        (turned[kind], path) for kind, path in map(_key, back.changes)
    }
    assert len({change.path for change in there.changes}) == len(there.changes)
    assert all(change.words.strip() for change in there.changes)


def _key(change: Change) -> tuple[str, tuple[str, ...]]:
    return (change.kind, change.path)


@given(definitions(), st.data())
@SLOW
def test_the_order_of_agents_is_no_difference(
    definition: CrewDefinition, data: st.DataObject
) -> None:
    whole = definition.to_json()
    names = data.draw(st.permutations(list(whole["agents"])))
    turned = whole | {"agents": {name: whole["agents"][name] for name in names}}
    assert not diff(definition, CrewDefinition.from_json(turned))


def test_definitions_with_builders_can_be_compared() -> None:
    flow = [{"use": "supervisor", "with": {"workers": ["a", "b"]}, "phase": "all"}]
    data = {"crew": "c", "model": "openai:x", "flow": flow}
    agents = {name: {"prompt": "p"} for name in ("a", "b")}
    one = CrewDefinition.from_json(data | {"agents": agents})
    other = CrewDefinition.from_json(
        data | {"agents": agents | {"b": {"prompt": "p", "pattern": "review_loop"}}}
    )
    assert [change.words for change in diff(one, other).changes] == [
        'agent b: pattern nothing → {"use": "review_loop", "with": {}, "off": []}'
    ]
