"""Every kind of fault is found by itself, all of them in one run, and none where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.corpus.cases import cases

from crewlog.definition.load import load_definition, load_file, warnings_in
from crewlog.definition.validate import all_findings
from crewlog.errors import InvalidDefinition

HEAD = "crew: t\nmodel: openai:x\n"
AGENTS = """\
agents:
  a: {prompt: p, outputs: [score], writes_flags: [ok]}
  b: {prompt: p}
  c: {prompt: p}
"""
KINDS: dict[str, tuple[str, str]] = {
    "schema": (
        HEAD + AGENTS + "limits: {steps: many}\n",
        "'steps' of 'limits' must be a whole number, not the text 'many'",
    ),
    "unknown agent": (
        HEAD + AGENTS + "flow: [a, b, c, cc]\n",
        "the flow names the agent 'cc', which is not defined.",
    ),
    "unknown tool": (
        HEAD
        + "tools: {search: {run: 'm:s'}}\nagents:\n  a: {prompt: p, tools: [serch]}\n"
        + "  b: {prompt: p, tools: [search]}\n",
        "agent 'a' uses the tool 'serch', which is not defined.",
    ),
    "orphan node": (
        HEAD + AGENTS + "flow: [a, b, {agent: c, after: go}]\n",
        "nothing ever starts the phase 'c'",
    ),
    "agent in no phase": (HEAD + AGENTS + "flow: [a, b]\n", "agent 'c' is in no phase of the flow"),
    "unreachable end": (
        HEAD + AGENTS + "flow: [a, b, c, {ask: Again?, options: [a, b]}]\n",
        "no answer to 'ask_1' leads to the end of the run",
    ),
    "cycle without guard": (
        HEAD + AGENTS + "flow: [a, b, c, {if: not ok, go: a}]\n",
        "'after_c' goes back to 'a' without a bound: a → b → c → after_c → a",
    ),
    "wait cycle": (
        HEAD + AGENTS + "flow: [a, {agent: b, after: c}, {agent: c, after: b}]\n",
        "the phases wait for each other, so none can start: b → c → b",
    ),
    "join never met": (
        HEAD
        + AGENTS
        + "flow: [a, {if: ok, go: c}, b, {ask: Go?, after: b, options: [stop]},"
        + " {agent: c, after: go}, {agent: a, phase: d, after: [b, c]}]\n",
        "'d' waits for b and c, which never come together: 'after_a' goes only one way",
    ),
    "condition nobody writes": (
        HEAD + AGENTS + "flow: [a, b, {agent: c, when: redy}]\n",
        "nobody writes the flag 'redy'",
    ),
    "output nobody writes": (
        HEAD + AGENTS + "flow: [a, b, {agent: c, when: a.scores > 1}]\n",
        "agent 'a' neither writes the flag 'scores' nor has it as output",
    ),
    "tool no one may call": (
        HEAD + "tools: {erase: {run: 'm:e'}}\nagents: {a: {prompt: p, tools: []}}\n",
        "no agent may call the tool 'erase'",
    ),
    "two writers": (
        HEAD
        + "agents:\n  a: {prompt: p, writes_flags: [ok]}\n  b: {prompt: p, writes_flags: [ok]}\n"
        + "flow: [[a, b]]\n",
        "'a' and 'b' may run side by side, and both may set the flag 'ok'",
    ),
}
ALL = """\
crew: t
model: openai:x
limits: {steps: many}
tools:
  search: {run: "m:s"}
  erase: {run: "m:e"}
agents:
  a: {prompt: p, outputs: [score], writes_flags: [ok], tools: [serch]}
  b: {prompt: p, tools: [], writes_flags: [done]}
  c: {prompt: p, tools: [], writes_flags: [done]}
  d: {prompt: p, tools: []}
  e: {prompt: p, tools: []}
  f: {prompt: p, tools: []}
  idle: {prompt: p, tools: []}
flow:
  - a
  - [b, c]
  - {if: not ok, go: a}
  - {agent: d, when: redy}
  - {agent: nobody, after: a}
  - {agent: e, phase: e1, after: e2}
  - {agent: e, phase: e2, after: e1}
  - {agent: f, after: go}
  - {agent: d, phase: d2, after: d, when: a.scores > 1}
  - {ask: Again?, options: [d, d2]}
  - {agent: f, phase: begin, after: []}
  - {if: ok, phase: fork, go: right}
  - {agent: e, phase: left, after: fork}
  - {agent: e, phase: right, after: go}
  - {agent: e, phase: both, after: [left, right]}
"""
TOLD = (
    "'steps' of 'limits' must be a whole number",
    "the flow names the agent 'nobody', which is not defined.",
    "agent 'a' uses the tool 'serch', which is not defined.",
    "nothing ever starts the phase 'f'",
    "agent 'idle' is in no phase of the flow",
    "no answer to 'ask_1' leads to the end of the run",
    "goes back to 'a' without a bound",
    "the phases wait for each other, so none can start: e1 → e2 → e1",
    "'both' waits for left and right, which never come together",
    "nobody writes the flag 'redy'",
    "agent 'a' neither writes the flag 'scores' nor has it as output",
    "no agent may call the tool 'erase'",
    "'b' and 'c' may run side by side, and both may set the flag 'done'",
)


def told(text: str, tmp_path: Path) -> list[str]:
    """What is said of a crew: its faults, or the warnings of one that has none."""
    file = tmp_path / "crew.yaml"
    file.write_text(text)
    try:
        definition = load_file(file)
    except InvalidDefinition as error:
        return [each.message for each in error.diagnostics if each.line]
    return [each.message for each in warnings_in(file, definition)]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_found_alone(kind: str, tmp_path: Path) -> None:
    text, fault = KINDS[kind]
    assert [each for each in told(text, tmp_path) if not each.startswith(fault)] == []
    assert told(text, tmp_path)


def test_a_slip_is_told_with_what_was_meant() -> None:
    with pytest.raises(InvalidDefinition) as raised:
        load_definition(KINDS["unknown tool"][0])
    assert "Did you mean 'search'?" in raised.value.diagnostics[0].remedy


def test_all_kinds_are_told_at_once(tmp_path: Path) -> None:
    found = told(ALL, tmp_path)
    for fault in TOLD:
        assert [each for each in found if fault in each], (fault, found)
    assert len(found) == len(TOLD), found


def test_two_ways_back_without_a_bound_are_both_told(tmp_path: Path) -> None:
    flow = "flow: [a, b, {if: not ok, go: a}, c, {if: ok, go: b}]\n"
    found = told(HEAD + AGENTS + flow, tmp_path)
    assert [re.sub(r":.*", "", each) for each in found] == [
        "'after_b' goes back to 'a' without a bound",
        "'after_c' goes back to 'b' without a bound",
    ]


def test_two_circles_of_waiting_are_both_told(tmp_path: Path) -> None:
    flow = (
        "flow: [{agent: a, after: b}, {agent: b, after: a}, {agent: c, after: d},"
        " {agent: a, phase: d, after: c}]\n"
    )
    found = told(HEAD + AGENTS + flow, tmp_path)
    assert len(found) == 2
    assert all("wait for each other" in each for each in found)


ROOT = Path(__file__).parents[2]
CREWS = sorted(
    file
    for file in (*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("bench/**/*.yaml"))
    if re.search(r"^crew:", file.read_text(), re.MULTILINE)
)


@pytest.mark.parametrize("file", CREWS, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_example_has_a_fault_or_a_warning(file: Path) -> None:
    assert warnings_in(file, load_file(file)) == []


def test_no_crew_of_the_corpus_has_a_fault() -> None:
    found = {case.name: [each.message for each in all_findings(case.expected)] for case in cases()}
    assert len(found) >= 80
    assert {name: faults for name, faults in found.items() if faults} == {}
