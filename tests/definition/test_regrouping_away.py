"""Operations on a graph touch who lives there, and nobody who is in another run."""

from __future__ import annotations

import pytest

from crewlog.definition import operations as o
from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_data
from crewlog.definition.operations import Operation
from crewlog.errors import InvalidDefinition

CREW = load_data(
    {
        "crew": "t",
        "model": "openai:x",
        "graph": {"away": {"far": "pond.1"}},
        "agents": {
            "near": {"prompt": "p", "listen": ["here"]},
            "far": {"prompt": "p", "listen": ["here", "there"], "wires": ["channel:there"]},
        },
    }
)


@pytest.mark.parametrize(
    ("operation", "place"),
    [
        (o.Connect(sender="near", listener="far"), "listener"),
        (o.Connect(sender="far", listener="near"), "sender"),
        (o.Disconnect(sender="near", listener="far"), "listener"),
        (o.Wire(name="near", to="far"), "to"),
        (o.Unwire(name="far", to="channel:there"), "name"),
        (o.DisableAgent(name="far"), "name"),
        (o.EditAgent(name="far", set={"prompt": "q"}), "name"),
    ],
)
def test_who_is_elsewhere_is_changed_there(operation: Operation, place: str) -> None:
    with pytest.raises(InvalidDefinition, match=r"'far' lives in the run 'pond\.1'") as caught:
        apply_operations(CREW, [operation])
    (found,) = caught.value.diagnostics
    assert found.path[-1] == place
    assert "pond.1" in found.remedy
    assert ("--with" in found.remedy) == (operation.op in ("connect", "wire"))


def test_a_channel_of_the_other_graph_is_none_of_this_one() -> None:
    with pytest.raises(InvalidDefinition, match="the crew has no channel 'there'"):
        apply_operations(CREW, [o.RemoveChannel(name="there")])
    made = apply_operations(CREW, [o.AddChannel(name="there")])
    assert {*made.channels} == {"there"}
    gone = apply_operations(CREW, [o.RemoveChannel(name="here")])
    assert gone.agents["near"].listen == ()
    assert gone.agents["far"] == CREW.agents["far"]
