"""What is wrong with a crew's audiences is said with its place, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_definition
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import EditCrew, RemoveAgent
from crewlog.definition.validate import all_findings
from crewlog.definition.write import to_yaml
from crewlog.errors import InvalidDefinition

GROUPS = {"groups": {"crew": ["ann"]}}
BOARD = {"logs": {"board": {"readers": ["bob"], "writers": ["ann"]}}}


def made(agents: dict[str, Any], **more: Any) -> CrewDefinition:
    """A crew of ann and bob."""
    both = {name: {"prompt": "p"} | agents.get(name, {}) for name in ("ann", "bob")}
    data: dict[str, Any] = {"crew": "t", "model": "openai:x", "agents": both}
    return CrewDefinition.from_json(data | more)


@pytest.mark.parametrize(
    ("agents", "more", "severity", "place", "say", "remedy"),
    [
        ({}, {"groups": {"g": ["anne"]}}, "error", "groups.g.0",
         "the group 'g' has the agent 'anne', which is not defined.", "Did you mean 'ann'?"),
        ({}, {"logs": {"b": {"readers": ["group:x"]}}}, "error", "logs.b.readers.0",
         "the log 'b' names 'group:x', and there is no such group.", "under 'groups:'"),
        ({}, {"logs": {"b": {"writers": ["zoe"]}}}, "error", "logs.b.writers.0",
         "the log 'b' names the agent 'zoe', which is not defined.", "under 'agents:'"),
        ({}, {"logs": {"public": {}}}, "error", "logs.public",
         "a channel cannot be called 'public'", "another name"),
        ({"bob": {"reads": ["group:crw"]}}, GROUPS, "error", "agents.bob.reads.0",
         "agent 'bob' reads 'group:crw', and there is no such group.", "'group:crew'"),
        ({"bob": {"reads": ["group:crew"]}}, GROUPS, "error", "agents.bob.reads.0",
         "agent 'bob' reads 'group:crew', which only 'ann' may read", "Add bob to the group"),
        ({"bob": {"writes": ["group:crew"]}}, GROUPS, "error", "agents.bob.writes.0",
         "agent 'bob' writes 'group:crew', which only 'ann' may write", "Add bob to the group"),
        ({"ann": {"reads": ["channel:board"]}}, BOARD, "error", "agents.ann.reads.0",
         "agent 'ann' reads 'channel:board', which only 'bob' may read", "to the readers"),
        ({"bob": {"writes": ["channel:board"]}}, BOARD, "error", "agents.bob.writes.0",
         "agent 'bob' writes 'channel:board', which only 'ann' may write", "to the writers"),
        ({"ann": {"writes": ["channel:b"]}}, {"logs": {"b": {"writers": []}}}, "error",
         "agents.ann.writes.0", "which nobody may write", "to the writers"),
        ({"ann": {"reads": ["readers:bob"]}}, {}, "error", "agents.ann.reads.0",
         "agent 'ann' reads 'readers:bob', which only 'bob' may read", "readers:bob+ann"),
        ({"ann": {"writes": ["readers:bob+zoe"]}}, {}, "error", "agents.ann.writes.0",
         "the agent 'zoe' is not defined", "under 'agents:'"),
        ({"ann": {"writes": ["readers:"]}}, {}, "error", "agents.ann.writes.0",
         "which is not a log", "readers:NAME+NAME"),
        ({"ann": {"writes": ["group:x"]}}, {}, "warning", "agents.ann.writes.0",
         "agent 'ann' writes to 'group:x', which no agent reads", "Let an agent read it"),
        ({"ann": {"reads": ["channel:bord"]}}, BOARD, "warning", "agents.ann.reads.0",
         "'logs' has 'board'", "'channel:board'"),
        ({"bob": {"reads": []}}, BOARD, "warning", "logs.board.readers.0",
         "'bob' is a reader of 'board', and has 'reads: []'", "Remove one"),
        ({"ann": {"writes": ["group:crew"], "outputs": ["list"]}},
         GROUPS | {"flow": ["ann", {"agent": "bob", "for_each": "ann.list"}]},
         "error", "flow.1.for_each", "'bob' may not see ann.list, its list", "Let bob read"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_its_place_and_a_remedy(
    agents: dict[str, Any], more: dict[str, Any], severity: str, place: str, say: str, remedy: str
) -> None:
    found = all_findings(made(agents, **more))
    here = [each for each in found if ".".join(map(str, each.path)) == place]
    assert here, found
    assert here[0].severity == severity
    assert say in here[0].message
    assert remedy in here[0].remedy
    plain = all_findings(made({}, flow=["ann", "bob"]))
    assert not plain


def test_a_fault_in_a_file_has_its_line() -> None:
    text = "crew: t\nmodel: openai:x\ngroups:\n  g: [ann, bop]\nagents:\n  ann: {prompt: p}\n"
    with pytest.raises(InvalidDefinition) as raised:
        load_definition(text, "crew.yaml")
    (fault,) = raised.value.diagnostics
    assert (fault.line, fault.column) == (4, 12)


def test_a_crew_with_audiences_is_written_and_read_back() -> None:
    definition = made(
        {"ann": {"writes": ["channel:board", "readers:ann+bob"]}},
        **GROUPS,
        **BOARD,
        flow=["ann", "bob"],
    )
    assert load_definition(to_yaml(definition), "crew.yaml") == definition


def test_an_agent_that_goes_leaves_its_groups_and_logs() -> None:
    definition = made(
        {"ann": {"writes": ["readers:ann+bob", "readers:bob"], "reads": ["public", "readers:ann"]}},
        groups={"g": ["ann", "bob"]},
        logs={"board": {"readers": ["bob", "group:g"], "writers": ["bob"]}},
        flow=["ann", "bob"],
    )
    without = apply_operations(definition, [RemoveAgent(name="bob")])
    assert without.groups == {"g": ("ann",)}
    assert without.logs["board"].readers == ("group:g",)
    assert without.logs["board"].writers == ()
    assert without.agents["ann"].writes == ("readers:ann",)
    assert without.agents["ann"].reads == ("public", "readers:ann")


def test_groups_are_changed_as_a_whole() -> None:
    definition = made({}, **GROUPS, flow=["ann", "bob"])
    both = apply_operations(definition, [EditCrew(set={"groups": {"crew": ["ann", "bob"]}})])
    assert both.groups == {"crew": ("ann", "bob")}
    with pytest.raises(InvalidDefinition, match="has the agent 'zoe'"):
        apply_operations(definition, [EditCrew(set={"groups": {"crew": ["zoe"]}})])
