"""Channels and wires, one operation at a time."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from crewlog.definition.apply import apply_operations
from crewlog.definition.difference import summary
from crewlog.definition.load import load_data, load_definition
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import Operation, RemoveAgent
from crewlog.definition.write import to_yaml
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.ids import AgentName
from crewlog.state.components import Component, connected_agents

OPERATIONS: TypeAdapter[tuple[Operation, ...]] = TypeAdapter(tuple[Operation, ...])
CREW = load_data(
    {
        "crew": "t",
        "model": "openai:x",
        "agents": {
            "keeper": {"prompt": "p", "send": ["tasks"], "listen": ["reports"]},
            "scout": {"prompt": "s", "listen": ["tasks"], "send": ["reports"], "on_error": "fail"},
            "digger": {"prompt": "d", "listen": ["tasks"], "wires": ["keeper"]},
        },
        "channels": {"tasks": {"description": "Work."}},
        "graph": {"root": "keeper"},
    }
)


def after(*operations: dict[str, Any]) -> CrewDefinition:
    return apply_operations(CREW, OPERATIONS.validate_python(operations))


def topology(crew: CrewDefinition) -> Component:
    found = lower(crew).component
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ({"op": "add_channel", "name": "asides"}, "adds the channel asides"),
        (
            {"op": "remove_channel", "name": "tasks"},
            "removes the channel tasks; keeper sends no more to tasks",
        ),
        ({"op": "remove_channel", "name": "reports"}, "keeper listens no more to reports"),
        (
            {"op": "connect", "sender": "digger", "listener": "scout"},
            "digger sends to digger-to-scout; scout listens to digger-to-scout",
        ),
        (
            {"op": "connect", "sender": "digger", "listener": "scout", "channel": "tasks"},
            "digger sends to tasks",
        ),
        (
            {"op": "disconnect", "sender": "keeper", "listener": "scout"},
            "scout listens no more to tasks",
        ),
        ({"op": "wire", "name": "scout", "to": "digger"}, "scout is wired to digger"),
        ({"op": "wire", "name": "scout", "to": "channel:tasks"}, "is wired to channel:tasks"),
        ({"op": "unwire", "name": "digger", "to": "keeper"}, "digger is wired no more to keeper"),
        ({"op": "remove_agent", "name": "scout"}, "removes scout"),
        ({"op": "remove_agent", "name": "keeper"}, "removes keeper; graph.root"),
    ],
)
def test_an_operation_on_the_graph(operation: dict[str, Any], said: str) -> None:
    crew = after(operation)
    assert crew != CREW
    assert said in summary(CREW, crew)
    assert load_definition(to_yaml(crew)) == crew


def test_what_goes_leaves_nothing_behind() -> None:
    crew = after(
        {"op": "remove_channel", "name": "tasks"}, {"op": "remove_agent", "name": "keeper"}
    )
    assert crew.agents["scout"].listen == ()
    assert crew.agents["digger"].wires == ()
    assert "tasks" not in crew.channels
    assert crew.graph is not None
    assert crew.graph.root is None
    assert connected_agents(topology(crew)) == [(AgentName("digger"),), (AgentName("scout"),)]


def test_disconnecting_takes_what_leads_from_the_one_to_the_other_alone() -> None:
    """Others hear the sender still, and the listener hears others; whom nobody uses, it takes."""
    heard = {"op": "disconnect", "sender": "keeper", "listener": "scout"}
    crew = after(heard)
    assert crew.agents["keeper"].send == ("tasks",), "digger hears it"
    assert (crew.agents["scout"].listen, crew.agents["digger"].listen) == ((), ("tasks",))
    last = after(heard, {"op": "disconnect", "sender": "keeper", "listener": "digger"})
    assert (last.agents["keeper"].send, last.agents["digger"].listen) == ((), ())
    wire = {"op": "wire", "name": "digger", "to": "channel:reports"}
    edge = {"sender": "digger", "listener": "keeper", "channel": "reports"}
    for way in (wire, {"op": "connect", **edge}):
        said = after(way, {"op": "disconnect", "sender": "scout", "listener": "keeper"})
        assert said.agents["scout"].send == ()
        assert said.agents["keeper"].listen == ("reports",), "digger speaks there"


def test_one_that_is_like_another_has_its_own_edges() -> None:
    crew = after(
        {
            "op": "add_agent",
            "name": "scout2",
            "like": "digger",
            "agent": {"listen": ["tasks"], "prompt": "Other."},
        },
        {"op": "add_agent", "name": "scout3", "like": "scout"},
    )
    assert crew.agents["scout2"].prompt == "Other."
    assert (crew.agents["scout2"].wires, crew.agents["scout2"].parent) == ((), None)
    assert crew.agents["scout3"].on_error.failure == "fail"
    assert not crew.agents["scout3"].has_edges
    assert crew.flow == ()


def test_the_last_edge_may_go() -> None:
    crew = load_data(
        {"crew": "t", "model": "openai:x", "agents": {"a": {"prompt": "p", "listen": ["x"]}}}
    )
    left = apply_operations(
        crew, OPERATIONS.validate_python([{"op": "remove_channel", "name": "x"}])
    )
    assert left.lives
    assert load_definition(to_yaml(left)) == left


def test_the_last_that_hears_may_go() -> None:
    agents = {"a": {"prompt": "p", "listen": ["x"]}, "b": {"prompt": "p"}}
    crew = load_data({"crew": "t", "model": "openai:x", "agents": agents})
    operation = {"op": "remove_agent", "name": "a"}
    left = apply_operations(crew, OPERATIONS.validate_python([operation]))
    assert left.lives
    assert load_definition(to_yaml(left)) == left


@pytest.mark.parametrize(
    ("operation", "place", "said", "remedy"),
    [
        ({"op": "add_channel", "name": "tasks"}, "name", "a channel 'tasks' already", "another"),
        ({"op": "remove_channel", "name": "task"}, "name", "no channel 'task'", "mean 'tasks'"),
        ({"op": "connect", "sender": "x", "listener": "scout"}, "sender", "no agent 'x'", "There"),
        (
            {"op": "connect", "sender": "scout", "listener": "x"},
            "listener",
            "no agent 'x'",
            "There",
        ),
        (
            {"op": "connect", "sender": "scout", "listener": "scout"},
            "listener",
            "cannot be connected with itself",
            "two agents",
        ),
        (
            {"op": "disconnect", "sender": "digger", "listener": "scout"},
            "listener",
            "does not send to 'scout' over any channel",
            "digger sends to nowhere; scout listens to tasks.",
        ),
        (
            {"op": "disconnect", "sender": "digger", "listener": "keeper"},
            "listener",
            "does not send to 'keeper' over any channel",
            "digger is wired to keeper: unwire it.",
        ),
        (
            {"op": "disconnect", "sender": "keeper", "listener": "scout", "channel": "reports"},
            "channel",
            "does not send to 'scout' over the channel 'reports'",
            "keeper sends to tasks",
        ),
        (
            {"op": "disconnect", "sender": "keeper", "listener": "scout", "channel": "x"},
            "channel",
            "no channel 'x'",
            "There are: ",
        ),
        ({"op": "wire", "name": "scout", "to": "scout"}, "to", "wired to itself", "another agent"),
        ({"op": "wire", "name": "scout", "to": "channel:x"}, "to", "no channel 'x'", "There are"),
        ({"op": "wire", "name": "scout", "to": "x"}, "to", "no agent 'x'", "There are"),
        (
            {"op": "connect", "sender": "scout", "listener": "x", "other": "pond-2"},
            "other",
            "cannot be connected with the run 'pond-2'",
            "one run",
        ),
        (
            {"op": "wire", "name": "scout", "to": "x", "other": "pond-2"},
            "other",
            "cannot be connected with the run 'pond-2'",
            "one run",
        ),
        ({"op": "unwire", "name": "digger", "to": "scout"}, "to", "not wired to", "keeper"),
        ({"op": "unwire", "name": "scout", "to": "keeper"}, "to", "not wired to", "no wires"),
        ({"op": "add_agent", "name": "n", "like": "scot"}, "like", "no agent 'scot'", "'scout'"),
    ],
)
def test_what_cannot_be_is_refused(
    operation: dict[str, Any], place: str, said: str, remedy: str
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        after(operation)
    (fault,) = caught.value.diagnostics
    assert fault.path == ("operations", 0, place)
    assert said in fault.message
    assert remedy in fault.remedy


def test_who_is_away_is_held_to_nothing_here() -> None:
    """It is changed where it lives, and what stands here of it may be out of date."""
    worker = {"op": "add_agent", "name": "w", "agent": {"listen": ["tasks"], "prompt": "w"}}
    hired = after(worker, {"op": "edit_agent", "name": "w", "set": {"parent": "keeper"}})
    policy = hired.graph
    assert policy is not None
    gone = hired.model_copy(
        update={"graph": policy.model_copy(update={"away": {"w": "pond-2"}})},
    )
    with pytest.raises(InvalidDefinition) as caught:
        apply_operations(gone, [RemoveAgent(name="nobody")])
    (fault,) = caught.value.diagnostics
    assert fault.remedy == "There are: keeper, scout and digger."
    operations = [
        {"op": "disconnect", "sender": "keeper", "listener": "scout"},
        {"op": "remove_agent", "name": "keeper"},
    ]
    for number in (1, 2):
        left = apply_operations(gone, OPERATIONS.validate_python(operations[:number]))
        assert left.agents["w"] == hired.agents["w"]
    with pytest.raises(InvalidDefinition, match="'w' works for 'keeper'"):
        apply_operations(hired, OPERATIONS.validate_python(operations[1:]))


def test_who_works_for_another_one_hears_no_more_than_that() -> None:
    worker = {"listen": ["tasks"], "parent": "keeper"}
    hired = after({"op": "add_agent", "name": "w", "like": "scout", "agent": worker})
    operation = {"op": "edit_agent", "name": "keeper", "set": {"send": None}}
    with pytest.raises(InvalidDefinition, match="where 'keeper', whom it works for"):
        apply_operations(hired, OPERATIONS.validate_python([operation]))
