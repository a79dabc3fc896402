"""What is wrong with a pool is told where it is written, with what to do."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.diff import diff
from crewlog.definition.expand import expand
from crewlog.definition.load import load_data, load_definition
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.reporting.drawing.mermaid import mermaid
from crewlog.reporting.explanation import explain
from definition.test_operations import after, edit_phase, only, refused, remove

CREW = """\
crew: t
model: openai:x
agents:
  maker: {{prompt: p, outputs: [list]}}
  a: {{prompt: p, on_error: continue}}
  b: {{prompt: p{b}}}
flow:
  - maker
  - {phase}
  - {{if: {condition}, go: end}}
merge: {{maker.list: {how}}}
"""
GOOD = "{phase: work, for_each: maker.list, by: agent, among: [a, b], at_once: 2, else: skip}"


def crew(phase: str = GOOD, *, b: str = "", condition: str = "a.error", how: str = "last") -> Any:
    return load_definition(CREW.format(phase=phase, b=b, condition=condition, how=how), "crew.yaml")


def test_a_pool_is_lowered_told_and_drawn() -> None:
    made = crew()
    node = lower(made).nodes["work"]  # type: ignore[index]
    assert (node.by, node.among, node.at_once, node.otherwise) == ("agent", ("a", "b"), 2, "skip")
    (rule,) = [rule for rule in lower(made).rules if "step for each" in rule]
    assert rule == (
        "work has a step for each item of maker.list, 2 at a time, by the agent that its 'agent' "
        "names"
    )
    told = explain(made, "work").conditions
    assert "by the agent that the item's 'agent' names: a or b" in told
    assert "2 at a time" in told[0]
    assert "work: a, b" in mermaid(lower(made))


FAULTS = [
    ("{agent: a, at_once: 2}", "'at_once' is about the items of a list"),
    ("{agent: a, by: agent, among: [b]}", "'by' is about the items of a list"),
    ("{agent: a, for_each: maker.list, among: [b]}", "and 'a' has no 'by'"),
    ("{agent: a, for_each: maker.list, by: agent}", "and none may be named"),
    ("{for_each: maker.list, phase: work}", "'work' has no agent"),
    ("{for_each: maker.list, by: agent, among: [a, b]}", "has no name of its own"),
    ("{phase: w, for_each: maker.list, by: agent, among: [a, bb]}", "the agent 'bb'"),
    ("{agent: a, for_each: maker.list, at_once: 0}", "at_once"),
    ("{agent: a, else: skip}", "there is no 'when'"),
]


@pytest.mark.parametrize(("phase", "say"), FAULTS)
def test_what_is_wrong_with_a_pool(phase: str, say: str) -> None:
    with pytest.raises(InvalidDefinition) as raised:
        crew(phase, condition="maker.text")
    told = [(each.line, each.message) for each in raised.value.diagnostics]
    assert any(at == 9 and say in message for at, message in told), told


def test_an_agent_with_a_pattern_cannot_be_named_by_items() -> None:
    with pytest.raises(InvalidDefinition, match="'b' works by a pattern"):
        crew(b=", pattern: review_loop")


def test_conflicts_are_counted_only_where_values_may_conflict() -> None:
    crew(condition="conflicts > 0", how="union")
    with pytest.raises(InvalidDefinition, match="nobody writes the flag 'conflicts'"):
        crew(condition="conflicts > 0", how="append")
    with pytest.raises(InvalidDefinition, match="the crew has one of its own"):
        crew(b=", writes_flags: [conflicts]", condition="conflicts", how="sum")


def test_an_error_is_an_output_only_of_agents_that_go_on() -> None:
    with pytest.raises(InvalidDefinition, match="nor has it as output"):
        crew(condition="b.error")


def test_a_pool_is_changed_while_it_runs() -> None:
    made = crew()
    wider = after(made, edit_phase("work", at_once=5))
    assert lower(wider).nodes["work"].at_once == 5  # type: ignore[index]
    assert "at_once" in str(diff(made, wider))
    assert "items of 'work' may be 'b''s" in only(refused(made, remove("b")))[1]
    less = after(made, edit_phase("work", among=["a"]), remove("b"))
    assert "b" not in less.agents


def test_a_pool_survives_being_written_and_expanded() -> None:
    made = crew()
    assert load_data(made.to_json()) == made
    assert expand(made).definition.flow[1] == made.flow[1]
