"""Operations on graphs that cannot be done: each is refused with a remedy, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import (
    AddAgent,
    AddChannel,
    Connect,
    DisableAgent,
    Disconnect,
    EditAgent,
    Operation,
    RemoveAgent,
    RemoveChannel,
    Unwire,
    Wire,
)
from crewlog.errors import ComponentConflict, InvalidDefinition
from crewlog.ids import RunId
from state.topologies import asked, crew_of, graph, talk

EDGES = {"cid": {"wires": ["ann", "channel:d"]}, "dee": {"listen": ["d"]}}
HERE = graph("c", "d", flow=("ann",), **talk("ann", "bob", over="c"), **EDGES)
THERE = graph("c", "e", "f", x={"send": ["e"]}, y={"parent": "x"})


def new(name: str, **edges: Any) -> AddAgent:
    return AddAgent(name=name, agent={"prompt": "p", **edges})


def crews() -> dict[RunId, CrewDefinition]:
    """Runs with these graphs; of two of them somebody is away."""
    graphs = {"g": HERE, "h": THERE, "one": graph(z={}), "flow": graph(f={}, flow=("f",))}
    graphs["last"] = graphs["one"]
    found = {RunId(id_): crew_of(each) for id_, each in graphs.items()}
    far = found[RunId("one")].agents["z"]
    for run in (RunId("g"), RunId("last")):
        policy = found[run].graph
        assert policy is not None
        away = policy.model_copy(update={"away": {"far": "elsewhere"}})
        agents = {**found[run].agents, "far": far}
        found[run] = found[run].model_copy(update={"agents": agents, "graph": away})
    return found


@pytest.mark.parametrize(
    ("run", "operation", "message", "remedy"),
    [
        ("g", new("ann"), "has an agent 'ann' already", "or choose another name."),
        ("g", new("far"), "has an agent 'far' already", "or choose another name."),
        ("g", new("n", parent="an"), "works for 'an', which is not defined", "Did you mean 'ann'?"),
        ("g", new("n", wires=["x"]), "the agent 'x', which is not defined", "under 'agents:'"),
        ("g", new("n", beside="n"), "'n' is beside itself", "Take it out."),
        ("g", new("n", send=["a b"]), "'a b' cannot be a name", "a letter"),
        ("g", new("n", beside="far"), "'far' lives in the run 'elsewhere'", "Change it there"),
        ("g", new("n", wires=["far"]), "'far' lives in the run 'elsewhere'", "Change it there"),
        ("g", new("n", parent="far"), "'far' lives in the run 'elsewhere'", "Change it there"),
        (
            "g",
            EditAgent(name="ann", set={"wires": ["bob", "far"]}),
            "'far' lives in the run 'elsewhere'",
            "Change it there",
        ),
        ("g", DisableAgent(name="far"), "'far' lives in the run 'elsewhere'", "Change it there"),
        ("g", RemoveAgent(name="bo"), "no agent 'bo'", "Did you mean 'bob'?"),
        ("g", RemoveAgent(name="far"), "'far' lives in the run 'elsewhere'", "Change it there"),
        ("h", RemoveAgent(name="x"), "'y' works for 'x'", "edit_agent y"),
        ("one", RemoveAgent(name="z"), "'z' is the only agent", "or stop the run"),
        ("last", RemoveAgent(name="z"), "'z' is the last agent that lives in", "or stop the run"),
        ("g", RemoveAgent(name="far"), "'far' lives in", "Change it there: name the run elsewhere"),
        (
            "g",
            Connect(sender="ann", listener="far", channel="c"),
            "'far' lives in the run 'elsewhere'",
            "`--with elsewhere` makes the two runs one",
        ),
        (
            "g",
            Disconnect(sender="ann", listener="far"),
            "'far' lives in the run 'elsewhere'",
            "Change it there: name",
        ),
        (
            "g",
            Wire(name="ann", to="far"),
            "'far' lives in the run 'elsewhere'",
            "`--with elsewhere`",
        ),
        ("g", AddChannel(name="c"), "has a channel 'c' already", "Choose another name."),
        ("g", RemoveChannel(name="e"), "no channel 'e'", "There are: c and d."),
        (
            "g",
            Connect(sender="ann", listener="ann", channel="c"),
            "'ann' cannot be connected with itself",
            "name two agents",
        ),
        ("g", Connect(sender="ann", listener="x"), "no agent 'x'", "There are"),
        # Both are somewhere in the two graphs, but not where they are said to be.
        (
            "h",
            Connect(sender="ann", listener="bob", channel="c", other="g"),
            "there is no agent 'ann' with channels in the run 'h'",
            "There are the agents x, y.",
        ),
        (
            "g",
            Connect(sender="ann", listener="bob", channel="c", other="h"),
            "there is no agent 'bob' with channels in the run 'h'",
            "There are the agents x, y.",
        ),
        (
            "g",
            Wire(name="ann", to="channel:d", other="h"),
            "there is no channel 'd'",
            "There are the channels c, e, f.",
        ),
        (
            "g",
            Wire(name="ann", to="channel:f", other="h"),
            "no agent of the run 'h' listens or sends to the channel 'f'",
            "A channel alone connects no agents",
        ),
        (
            "g",
            Wire(name="ann", to="bob", other="h"),
            "there is no agent 'bob' with channels in the run 'h'",
            "There are the agents x, y.",
        ),
        (
            "flow",
            Wire(name="f", to="ann", other="g"),
            "cannot merge the run 'flow': it has a flow",
            "Wait until its flow has ended",
        ),
        ("g", Wire(name="ann", to="ann"), "'ann' cannot be wired to itself", "Name another agent"),
        ("g", Wire(name="ann", to="x"), "no agent 'x'", "There are"),
        ("g", Wire(name="ann", to="channel:e"), "no channel 'e'", "There are: c and d."),
        ("g", Unwire(name="ann", to="bob"), "is not wired to 'bob'", "It has no wires."),
        (
            "g",
            Unwire(name="cid", to="bob"),
            "'cid' is not wired to 'bob'",
            "It is wired to ann and channel:d.",
        ),
        (
            "g",
            Disconnect(sender="ann", listener="bob"),
            "'ann' does not send to 'bob' over any channel",
            "ann sends to nowhere; bob listens to c.",
        ),
        (
            "h",
            Disconnect(sender="x", listener="y", channel="e"),
            "'x' does not send to 'y' over the channel 'e'",
            "x sends to e; y listens to nothing.",
        ),
        ("g", Disconnect(sender="ann", listener="bob", channel="x"), "no channel 'x'", "There are"),
        (
            "g",
            Disconnect(sender="ann", listener="ann", channel="c"),
            "'ann' cannot be disconnected from itself",
            "name two agents",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_remedy_and_changes_nothing(
    run: str, operation: Operation, message: str, remedy: str
) -> None:
    there = crews()
    before = {id_: each.model_dump_json() for id_, each in there.items()}
    with pytest.raises((InvalidDefinition, ComponentConflict)) as refused:
        asked(there, RunId(run), operation)
    error = refused.value
    told = f"{error.message} {error.remedy}"
    assert message in told
    assert remedy in told
    assert {id_: each.model_dump_json() for id_, each in there.items()} == before


def test_a_remedy_does_not_list_hundreds_of_names() -> None:
    many = graph(**{f"creature{number:03}": {} for number in range(300)})
    there = {RunId("g"): crew_of(many), RunId("h"): crew_of(graph(x={}))}
    with pytest.raises(ComponentConflict) as refused:
        asked(there, RunId("h"), Wire(name="x", to="zzz", other=RunId("g")))
    assert refused.value.remedy.endswith("creature018, creature019 and 280 more.")
