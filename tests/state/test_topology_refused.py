"""Operations on graphs that cannot be done: each is refused with a remedy, and changes nothing."""

from __future__ import annotations

import pytest

from crewlog.errors import TopologyRefused
from crewlog.state.topology import (
    AddChannel,
    AddCreature,
    Connect,
    Creature,
    Disconnect,
    Operation,
    RemoveChannel,
    RemoveCreature,
    Unwire,
    Wire,
    apply,
)
from state.topologies import do, graph, talk

EDGES = {"cid": {"wires": ["ann", "channel:d"]}, "dee": {"listen": ["d"]}}
HERE = graph("c", "d", **talk("ann", "bob", over="c"), **EDGES)
THERE = graph("c", "e", "f", x={"send": ["e"]}, y={"parent": "x"})


@pytest.mark.parametrize(
    ("operation", "message", "remedy"),
    [
        (AddCreature(graph="g", name="ann"), "is a creature 'ann'", "Choose another name."),
        (AddCreature(graph="g", name="9"), "'9' is no name of a creature", "a letter first"),
        (AddCreature(graph="new", name="n" * 65), "is no name of a creature", "64 characters"),
        (AddCreature(graph="g", name="n\n"), "is no name of a creature", "letters, digits"),
        (
            AddCreature(graph="g", name="n", creature=Creature(parent="an")),
            "there is no creature 'an'",
            "Did you mean 'ann'?",
        ),
        (
            AddCreature(graph="g", name="n", creature=Creature(wires=("x",))),
            "there is no creature 'x'",
            "There are the creatures ann, bob, cid, dee.",
        ),
        (
            AddCreature(graph="g", name="n", creature=Creature(beside="n")),
            "there is no creature 'n'",
            "There are the creatures ann, bob, cid, dee.",
        ),
        (
            AddCreature(graph="g", name="n", creature=Creature(send=("a b",))),
            "'a b' is no name of a channel",
            "a letter first",
        ),
        (
            AddCreature(graph="new", name="n", creature=Creature(parent="ann")),
            "there is no creature 'ann'",
            "There are no creatures.",
        ),
        (RemoveCreature(graph="g", name="bo"), "no creature 'bo'", "Did you mean 'bob'?"),
        (RemoveCreature(graph="gg", name="ann"), "no graph 'gg'", "the graphs flow, g, h, one"),
        (RemoveCreature(graph="one", name="z"), "'z' is the last creature", "Stop the run"),
        (AddChannel(graph="g", name="c"), "is a channel 'c'", "Choose another name."),
        (AddChannel(graph="g", name=""), "'' is no name of a channel", "a letter first"),
        (AddChannel(graph="no", name="x"), "there is no graph 'no'", "There are the graphs"),
        (RemoveChannel(graph="g", name="e"), "no channel 'e'", "There are the channels c, d."),
        (
            Connect(graph="g", sender="ann", listener="ann", channel="c"),
            "'ann' cannot be connected with itself",
            "name two creatures",
        ),
        (
            Connect(graph="g", sender="ann", listener="x", channel="c"),
            "there is no creature 'x'",
            "There are the creatures ann, bob, cid, dee.",
        ),
        (
            Connect(graph="g", sender="ann", listener="bob", channel="no name"),
            "'no name' is no name of a channel",
            "a letter first",
        ),
        (
            Connect(graph="g", sender="ann", listener="bob", channel="c", other="g"),
            "the graph 'g' cannot be merged with itself",
            "Leave the other graph out",
        ),
        (
            Connect(graph="g", sender="ann", listener="x", channel="c", other="k"),
            "there is no graph 'k'",
            "There are the graphs",
        ),
        (
            Connect(graph="k2", sender="ann", listener="x", channel="c", other="k1"),
            "there is no graph 'k2'",
            "There are the graphs",
        ),
        # Both are somewhere in the two graphs, but not where they are said to be.
        (
            Connect(graph="h", sender="ann", listener="bob", channel="c", other="g"),
            "there is no creature 'ann'",
            "There are the creatures x, y.",
        ),
        (
            Connect(graph="g", sender="ann", listener="bob", channel="c", other="h"),
            "there is no creature 'bob'",
            "There are the creatures x, y.",
        ),
        (
            Wire(graph="g", name="ann", to="channel:d", other="h"),
            "there is no channel 'd'",
            "There are the channels c, e, f.",
        ),
        (
            Wire(graph="g", name="ann", to="channel:f", other="h"),
            "nobody in the graph 'h' listens or sends to the channel 'f'",
            "A channel alone connects nobody",
        ),
        (
            Wire(graph="g", name="ann", to="bob", other="h"),
            "there is no creature 'bob'",
            "There are the creatures x, y.",
        ),
        (
            Wire(graph="g", name="x", to="y", other="h"),
            "there is no creature 'x'",
            "There are the creatures ann, bob, cid, dee.",
        ),
        (
            Wire(graph="flow", name="f", to="ann", other="g"),
            "the graphs 'g' and 'flow' both have a flow",
            "Wait until one of them is over",
        ),
        (
            Wire(graph="g", name="ann", to="ann"),
            "'ann' cannot be wired to itself",
            "Name another creature, or a channel.",
        ),
        (
            Wire(graph="g", name="ann", to="x"),
            "no creature 'x'",
            "the creatures ann, bob, cid, dee",
        ),
        (Wire(graph="g", name="ann", to="channel:e"), "no channel 'e'", "the channels c, d"),
        (Unwire(graph="g", name="ann", to="bob"), "is not wired to 'bob'", "There are no wires."),
        (
            Unwire(graph="g", name="cid", to="bob"),
            "'cid' is not wired to 'bob'",
            "There are the wires ann, channel:d.",
        ),
        (
            Disconnect(graph="g", sender="ann", listener="bob"),
            "'ann' does not send to 'bob' over any channel",
            "who sends and listens where",
        ),
        (
            Disconnect(graph="h", sender="x", listener="y", channel="e"),
            "'x' does not send to 'y' over the channel 'e'",
            "who sends and listens where",
        ),
        (
            Disconnect(graph="g", sender="cid", listener="dee"),
            "'cid' does not send to 'dee' over any channel",
            "It is wired to a channel there: unwire it.",
        ),
        (
            Disconnect(graph="g", sender="ann", listener="bob", channel="x"),
            "there is no channel 'x'",
            "There are the channels c, d.",
        ),
        (
            Disconnect(graph="g", sender="ann", listener="ann", channel="c"),
            "'ann' cannot be disconnected from itself",
            "name two creatures",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_remedy_and_changes_nothing(
    operation: Operation, message: str, remedy: str
) -> None:
    here = HERE.model_copy(update={"flow": ("ann",)})
    world = {"g": here, "h": THERE, "one": graph(z={}), "flow": graph(f={}, flow=("f",))}
    before = {id_: each.model_dump_json() for id_, each in world.items()}
    with pytest.raises(TopologyRefused) as refused:
        apply(world, operation, "op")
    assert message in refused.value.message
    assert remedy in refused.value.remedy
    assert {id_: each.model_dump_json() for id_, each in world.items()} == before


def test_a_remedy_does_not_list_hundreds_of_names() -> None:
    many = graph(**{f"creature{number:03}": {} for number in range(300)})
    with pytest.raises(TopologyRefused) as refused:
        do({"g": many}, RemoveCreature, name="zzz")
    assert refused.value.remedy.endswith("creature018, creature019 and 280 more.")


def test_a_part_never_takes_the_place_of_a_graph_that_there_is() -> None:
    world = {"g": graph("talk", **talk("a", "b"), c={"beside": "b"})}
    parted = do(world, RemoveCreature, name="b").world
    parted = do(parted, AddCreature, name="b", creature={"listen": ["talk"]}).world
    parted = do(parted, AddCreature, name="c", creature={"beside": "b"}).world
    with pytest.raises(TopologyRefused, match="would have the id") as refused:
        do(parted, RemoveCreature, name="b")
    assert "an id of its own" in refused.value.remedy
    assert len(do(parted, RemoveCreature, name="b", command="op2").world) == 3
