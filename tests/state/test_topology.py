"""Creatures and channels: which of them are one graph, and what joins and parts graphs."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.operations import (
    AddAgent,
    AddChannel,
    Connect,
    DisableAgent,
    Disconnect,
    RemoveAgent,
    RemoveChannel,
    Unwire,
    Wire,
)
from crewlog.ids import AgentName
from crewlog.state.components import (
    Channel,
    ChannelAgent,
    Component,
    Components,
    Rename,
    agent_neighbors,
    connected_agents,
    merged_component,
    split_run_id,
    surviving_run_id,
)
from state.topologies import do, graph, members, talk, told

FULL = "n" * 64
"""As long as a name may be."""


# -- what is one graph -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"listen": ["c"]}, {"listen": ["c"]}),
        ({"listen": ["c"]}, {"send": ["c"]}),
        ({"send": ["c"]}, {"send": ["c"]}),
        ({"wires": ["channel:c"]}, {"listen": ["c"]}),
        ({"wires": ["channel:c"]}, {"send": ["c"]}),
        ({"wires": ["b"]}, {}),
        ({}, {"wires": ["a"]}),
        ({}, {"parent": "a"}),
        ({"beside": "b"}, {}),
    ],
)
def test_creatures_are_in_one_graph_by_any_edge_between_them(a: Any, b: Any) -> None:
    assert connected_agents(graph("c", "d", a=a, b=b, x={"listen": ["d"]})) == [("a", "b"), ("x",)]


def test_a_graph_follows_over_any_number_of_channels_and_creatures() -> None:
    chain = {f"n{i:02}": {"listen": [f"c{i}"], "send": [f"c{i + 1}"]} for i in range(40)}
    assert [len(part) for part in connected_agents(graph(**chain))] == [40]
    del chain["n20"]
    assert [len(part) for part in connected_agents(graph(**chain))] == [20, 19]


def test_a_channel_that_has_a_creatures_name_is_not_that_creature() -> None:
    assert connected_agents(graph("a", a={}, b={"listen": ["a"]})) == [("a",), ("b",)]


def test_creatures_of_the_flow_are_in_one_graph() -> None:
    assert connected_agents(graph(a={}, b={}, c={}, flow=("c", "a", "gone"))) == [
        ("a", "c"),
        ("b",),
    ]


# -- adding ----------------------------------------------------------------------------------


def test_a_creature_that_is_added_alone_is_a_graph_of_its_own() -> None:
    world = {"g": graph("talk", **talk("b", "a")), "h": graph(a={})}
    alone = do(world, AddAgent, name="x")
    part = split_run_id("g", "op", "x")
    assert members(alone.world) == {"h": "a", "g": "ba", part: "x"}
    assert alone.world["g"] == world["g"]
    assert told(alone) == ("split", ("g",), tuple(sorted(["g", part])), "x")
    unheard = do(world, AddAgent, name="x", agent={"send": ["other"]})
    assert unheard.world[part] == graph("other", x={"send": ["other"]}).model_copy(
        update={"channels": {"other": Channel(born="g")}}
    )


def test_of_two_that_are_alone_the_first_by_name_keeps_the_id() -> None:
    done = do({"g": graph(b={})}, AddAgent, name="a")
    assert members(done.world) == {"g": "a", split_run_id("g", "op", "b"): "b"}


@pytest.mark.parametrize(
    "edges",
    [
        {"send": ["talk"]},
        {"wires": ["channel:talk"]},
        {"wires": ["b"]},
        {"parent": "b"},
        {"beside": "b"},
    ],
)
def test_a_creature_that_an_edge_leads_to_a_graph_is_in_it(edges: Any) -> None:
    done = do({"g": graph("talk", **talk("a", "b"))}, AddAgent, name="x", agent=edges)
    assert done.world["g"].agents["x"] == ChannelAgent(**edges)
    assert members(done.world) == {"g": "abx"}


def test_who_is_told_that_a_creature_came() -> None:
    world = {"g": graph("talk", "c", a={"listen": ["talk"]}, b={"send": ["talk"], "listen": ["c"]})}
    speaks = do(world, AddAgent, name="x", agent={"send": ["talk"]})
    hears = do(world, AddAgent, name="x", agent={"listen": ["talk"]})
    works = do(world, AddAgent, name="x", agent={"parent": "b"})
    wired = do(world, AddAgent, name="x", agent={"wires": ["a"]})
    found = [done.change.affected_creatures for done in (speaks, hears, works, wired)]
    assert found == [("a", "x"), ("b", "x"), ("b", "x"), ("a", "x")]


def test_a_privileged_creature_sees_all_of_its_graph() -> None:
    world = {"g": graph("talk", **talk("a", "b"), boss={"beside": "a", "privileged": True})}
    assert do(world, AddChannel, name="c").change.affected_creatures == ("boss",)
    beside = do(world, AddAgent, name="x", agent={"beside": "b"})
    assert beside.change.affected_creatures == ("boss", "x")
    assert agent_neighbors(world["g"], "boss").component == world["g"]
    assert agent_neighbors(world["g"], "a").component is None


def test_who_is_wired_to_a_channel_is_told_who_listens_there() -> None:
    world = {"g": graph("c", "d", **talk("a", over="c"), b={"wires": ["a", "channel:c"]})}
    world["g"].agents["boss"] = ChannelAgent(beside=AgentName("a"), privileged=True)
    done = do(world, AddAgent, name="x", agent={"listen": ["c"]})
    assert done.change.affected_creatures == ("b", "boss", "x")
    again = do(world, Wire, name="b", to="a")
    assert again.change.affected_creatures == ()


def test_a_channel_alone_connects_nobody() -> None:
    world = {"g": graph(a={}), "h": graph(a={})}
    done = do(world, AddChannel, name="c")
    assert done.world["h"] is world["h"]
    assert done.world["g"] == world["g"].model_copy(update={"channels": {"c": Channel()}})
    assert told(done) == ("nothing", ("g",), ("g",), "")


def test_who_is_stopped_stays_where_it_is() -> None:
    world = {"g": graph("talk", **talk("a", "b"))}
    done = do(world, DisableAgent, name="a")
    assert done.world == world
    assert told(done) == ("nothing", ("g",), ("g",), "")


# -- joining ---------------------------------------------------------------------------------


def test_connecting_within_a_graph_changes_two_edges() -> None:
    world = {"g": graph("talk", **talk("a", "b", "x"))}
    done = do(world, Connect, sender="a", listener="b", channel="new")
    assert done.world["g"].agents["a"] == ChannelAgent(listen=("talk",), send=("new",))
    assert done.world["g"].agents["b"] == ChannelAgent(listen=("talk", "new"))
    assert done.world["g"].channels["new"] == Channel()
    assert told(done) == ("nothing", ("g",), ("g",), "ab")
    again = do(done.world, Connect, sender="a", listener="b", channel="new")
    assert again.world == done.world
    assert told(again) == ("nothing", ("g",), ("g",), "")


def test_graphs_that_become_one_have_all_of_both() -> None:
    one = graph("talk", "quiet", **talk("a", "b", "x", send=["talk"]))
    two = graph("hum", **talk("k", "m", over="hum"))
    three = graph(z={})
    world = {"g": one, "h": two, "i": three}
    done = do(world, Connect, "h", sender="k", listener="a", other="g", channel="hum")
    assert done.world["i"] is three
    assert members(done.world) == {"i": "z", "g": "abxkm"}
    now = done.world["g"]
    assert now.agents["a"].listen == ("talk", "hum")
    assert now.agents["k"].send == ("hum",)
    assert {n: now.agents[n] for n in "bxm"} == {
        "b": one.agents["b"],
        "x": one.agents["x"],
        "m": two.agents["m"],
    }
    assert now.channels == {"talk": Channel(), "quiet": Channel(), "hum": Channel(born="h")}
    assert told(done) == ("merge", ("g", "h"), ("g",), "abkmx")
    assert done.change.renamed == ()


def test_the_larger_graph_stays_then_the_first_by_id_and_one_with_a_flow_before_all() -> None:
    one, two = graph("c", **talk("a", over="c")), graph("c", **talk("b", "d", over="c"))
    assert surviving_run_id({"x": one, "y": two}) == "y"
    assert surviving_run_id({"y": one, "x": one}) == "x"
    assert surviving_run_id({"x": graph(a={}, flow=("a",)), "y": two}) == "x"
    said: dict[str, Any] = {"listener": "b", "channel": "c"}
    done = do({"y": two, "x": one}, Connect, "x", sender="a", other="y", **said)
    assert members(done.world) == {"y": "bda"}


def test_a_graph_with_a_flow_is_not_merged_into_one_without() -> None:
    world = {"g": graph(a={}, flow=("a",)), "h": graph("talk", **talk("b", "c", "d"))}
    done = do(world, Wire, "h", name="b", to="a", other="g")
    assert members(done.world) == {"g": "abcd"}
    assert done.world["g"].flow == ("a",)


def test_connecting_takes_the_senders_channel_then_the_listeners_then_a_new_one() -> None:
    world = {"g": graph("both", "mine", a={}, z={"beside": "a"}), "h": graph("both", "your", b={})}
    said: dict[str, Any] = {"sender": "a", "listener": "b", "other": "h"}
    both, mine, your, new = (
        do(world, Connect, channel=channel, **said).world["g"]
        for channel in ("both", "mine", "your", "new")
    )
    assert both.agents["b"].listen == ("both",)
    assert [*both.channels] == ["both", "both-2", "mine", "your"]
    assert mine.channels["mine"] == Channel()
    assert your.channels["your"] == Channel(born="h")
    assert new.channels["new"] == Channel()
    said |= {"sender": "b", "listener": "a", "other": "g"}
    back = do(world, Connect, "h", channel="both", **said).world["g"]
    assert back.agents["b"].send == back.agents["a"].listen == ("both-2",)


def test_what_has_a_taken_name_gets_another_one_and_all_its_edges_follow() -> None:
    one = graph("c", **talk("a", "b", "z", over="c"), **{"a-2": {"beside": "a"}})
    two = graph(
        "c",
        "d",
        a={"listen": ["c", "d"], "send": ["c"], "wires": ["b", "channel:c", "channel:d"]},
        b={"parent": "a", "wires": ["a"]},
        x={"beside": "a", "parent": "b", "privileged": True},
    )
    done = do({"g": one, "h": two}, Connect, "h", sender="a", listener="z", other="g", channel="c")
    now = done.world["g"]
    assert now.agents == {
        **one.agents,
        "z": ChannelAgent(listen=("c", "c-2")),
        "a-3": ChannelAgent(
            listen=("c-2", "d"), send=("c-2",), wires=("b-2", "channel:c-2", "channel:d")
        ),
        "b-2": ChannelAgent(parent="a-3", wires=("a-3",)),
        "x": ChannelAgent(beside="a-3", parent="b-2", privileged=True),
    }
    assert now.channels == {"c": Channel(), "c-2": Channel(born="h"), "d": Channel(born="h")}
    assert done.change.renamed == (
        Rename(kind="agent", run="h", was="a", now="a-3"),
        Rename(kind="agent", run="h", was="b", now="b-2"),
        Rename(kind="channel", run="h", was="c", now="c-2"),
    )
    assert done.change.affected_creatures == tuple(sorted(now.agents))


def test_a_new_name_is_free_in_both_graphs_and_a_name_that_can_be_had() -> None:
    taken = FULL[:-2] + "-2"
    one = graph(FULL, a={}, **{FULL: {"beside": "a"}, "a-2": {"beside": "a"}})
    two = graph(FULL, a={}, **{FULL: {"beside": "a"}, "a-3": {"beside": "a"}, taken: {}})
    told = merged_component(Wire(name="a", to="a-3"), "g", {"g": one, "h": two}, "g")
    assert [(each.was, each.now) for each in told.renamed] == [
        ("a", "a-4"),
        (FULL, FULL[:-2] + "-3"),
        (FULL, FULL[:-2] + "-2"),
    ]
    assert {*told.channels} == {FULL, FULL[:-2] + "-2"}
    assert told.edge == Wire(name="a", to="a-3")


def test_channels_of_one_name_and_one_birth_are_one() -> None:
    one = Component(
        agents={"a": ChannelAgent(send=("c",))},
        channels={"c": Channel(born="r"), "d": Channel()},
    )
    two = Component(
        agents={"b": ChannelAgent(listen=("c",))},
        channels={"c": Channel(born="r"), "d": Channel(born="g")},
    )
    done = do({"g": one, "h": two}, Wire, name="a", to="b", other="h")
    assert done.change.renamed == ()
    assert done.world["g"].channels == one.channels
    # Whose channel it was before hears of those that listen there now.
    assert done.change.affected_creatures == ("a", "b")
    assert agent_neighbors(done.world["g"], "a").listeners == (("c", ("b",)),)


def test_two_runs_of_one_recipe_have_channels_of_their_own() -> None:
    recipe = graph("talk", **talk("a"))
    done = do({"g": recipe, "h": recipe}, Wire, name="a", to="a", other="h")
    assert done.world["g"].agents["a-2"] == ChannelAgent(listen=("talk-2",))
    assert done.world["g"].channels == {"talk": Channel(), "talk-2": Channel(born="h")}


def test_a_birth_is_not_longer_than_an_id_may_be_and_still_tells_runs_apart() -> None:
    long = "r" * 500
    world = {"g": graph(a={}, b={"beside": "a"}), long: graph("c", x={})}
    done = do(world, Wire, name="a", to="x", other=long)
    born = done.world["g"].channels["c"].born
    assert len(born) < 200
    other = do({**world, long + "s": world[long]}, Wire, name="a", to="x", other=long + "s")
    assert other.world["g"].channels["c"].born != born


# -- parting ---------------------------------------------------------------------------------

PAIRS = {"a": {"send": ["p"]}, "b": {"listen": ["p"]}, "x": {"wires": ["y"], "send": ["q"]}}
BRIDGE: dict[str, Any] = {**PAIRS, "y": {"listen": ["q"]}, "m": {"listen": ["p"], "send": ["q"]}}


def test_a_creature_that_goes_may_make_several_graphs_of_one() -> None:
    world = {"g": graph("p", "q", "r", **BRIDGE, z={"beside": "m"})}
    done = do(world, RemoveAgent, name="m")
    xy, z = split_run_id("g", "op", "x"), split_run_id("g", "op", "z")
    assert members(done.world) == {"g": "ab", xy: "xy", z: "z"}
    # Channels go with those who use them; what nobody uses stays.
    assert {id_: [*each.channels] for id_, each in done.world.items()} == {
        "g": ["p", "r"],
        xy: ["q"],
        z: [],
    }
    assert done.world[xy].channels == {"q": Channel(born="g")}
    assert done.world[z].agents["z"] == ChannelAgent()
    assert told(done) == ("split", ("g",), tuple(sorted(["g", xy, z])), "abmxyz")


def test_a_channel_that_goes_may_part_a_graph_and_takes_all_that_leads_there() -> None:
    world = {"g": graph("p", "q", **BRIDGE)}
    world["g"].agents["x"] = ChannelAgent(wires=("y", "channel:q"))
    done = do(world, RemoveChannel, name="q")
    part = split_run_id("g", "op", "x")
    assert members(done.world) == {"g": "abm", part: "xy"}
    assert done.world["g"].agents["m"] == ChannelAgent(listen=("p",))
    assert done.world[part].agents == {"x": ChannelAgent(wires=("y",)), "y": ChannelAgent()}
    assert told(done) == ("split", ("g",), tuple(sorted(["g", part])), "abmxy")


def test_disconnecting_takes_both_edges_and_may_part_a_graph() -> None:
    world = {"g": graph("p", "q", **talk("a", over="p", send=["q"]), b={"listen": ["q"]})}
    done = do(world, Disconnect, sender="a", listener="b")
    part = split_run_id("g", "op", "b")
    assert done.world["g"] == graph("p", "q", **talk("a", over="p"))
    assert done.world[part] == graph(b={})
    assert told(done) == ("split", ("g",), tuple(sorted(["g", part])), "ab")


def test_disconnecting_takes_no_more_than_what_was_connected() -> None:
    """Who sends goes on where others listen, who listens where others speak."""
    others = {"a": {"send": ["p"]}, "b": {"listen": ["p"]}, "c": {"listen": ["p"]}}
    done = do({"g": graph("p", **others)}, Disconnect, sender="a", listener="b")
    part = split_run_id("g", "op", "b")
    assert done.world == {"g": graph("p", a=others["a"], c=others["c"]), part: graph(b={})}
    for way in ({"send": ["p"]}, {"wires": ["channel:p"]}):
        speaks = {"a": {"send": ["p"]}, "b": {"listen": ["p"]}, "c": way}
        done = do({"g": graph("p", **speaks)}, Disconnect, sender="a", listener="b")
        part = split_run_id("g", "op", "a")
        assert done.world == {"g": graph("p", b=speaks["b"], c=way), part: graph(a={})}
        both = {**speaks, "d": {"listen": ["p"]}}
        done = do({"g": graph("p", **both)}, Disconnect, sender="a", listener="b")
        assert done.world["g"] == graph("p", a=both["a"], c=way, d=both["d"])


def test_who_is_connected_otherwise_too_stays_in_one_graph() -> None:
    both = {"a": {"send": ["p", "q"]}, "b": {"listen": ["p", "q"]}}
    done = do({"g": graph("p", "q", **both)}, Disconnect, sender="a", listener="b", channel="p")
    assert done.world == {"g": graph("p", "q", a={"send": ["q"]}, b={"listen": ["q"]})}
    assert told(done) == ("nothing", ("g",), ("g",), "ab")
    every = do({"g": graph("p", "q", **both)}, Disconnect, sender="a", listener="b")
    assert len(every.world) == 2


def test_wires_join_and_part_as_channels_do() -> None:
    world = {"g": graph("p", **talk("a", "b", over="p")), "h": graph("c", x={"listen": ["c"]})}
    to_creature = do(world, Wire, name="a", to="x", other="h")
    to_channel = do(world, Wire, name="a", to="channel:c", other="h")
    from_there = do(world, Wire, "h", name="x", to="channel:p", other="g")
    for done in (to_creature, to_channel, from_there):
        assert members(done.world) == {"g": "abx"}
        assert done.change.kind == "merge"
    assert to_channel.world["g"].agents["a"].wires == ("channel:c",)
    parted = do(to_channel.world, Unwire, name="a", to="channel:c")
    assert members(parted.world) == {"g": "ab", split_run_id("g", "op", "x"): "x"}
    assert parted.change.affected_creatures == ("a", "b", "x")


def test_a_wire_to_a_renamed_creature_or_channel_leads_there() -> None:
    one, two = graph("c", **talk("a", "b", over="c")), graph("c", **talk("a", over="c"))
    for home, other, wired in (("g", "h", "a"), ("h", "g", "a-2")):
        creature = do({"g": one, "h": two}, Wire, home, name="a", to="a", other=other)
        channel = do({"g": one, "h": two}, Wire, home, name="a", to="channel:c", other=other)
        end = "-2" if other == "h" else ""
        assert creature.world["g"].agents[wired].wires == (f"a{end}",)
        assert channel.world["g"].agents[wired].wires == (f"channel:c{end}",)


def test_the_largest_part_keeps_the_id_and_of_equal_ones_the_first_by_name() -> None:
    large = graph("p", "q", "r", **BRIDGE, z={"listen": ["q"]})
    assert members(do({"g": large}, RemoveAgent, name="m").world)["g"] == "xyz"
    equal = graph("p", "q", "r", **BRIDGE)
    assert members(do({"g": equal}, RemoveAgent, name="m").world)["g"] == "ab"
    nested = graph(b={}, c={"parent": "b"}, m={"wires": ["b", "z"]}, z={"parent": "a"}, a={})
    assert members(do({"g": nested}, RemoveAgent, name="m").world)["g"] == "za"


def test_the_part_with_the_flow_keeps_the_id_however_small_it_is() -> None:
    world = {"g": graph("c", **talk("a", "b", over="c"), z={"send": ["c"]}, flow=("z",))}
    done = do(world, RemoveChannel, name="c", command="no")
    assert done.world["g"] == graph(z={}, flow=("z",))
    assert {each.flow for id_, each in done.world.items() if id_ != "g"} == {()}


def test_a_creature_that_goes_leaves_the_flow_and_no_edge() -> None:
    edges = {"wires": ["x", "channel:c", "b"], "beside": "x"}
    world = {"g": graph("c", a=edges, b={}, x={"listen": ["c"]}, flow=("a", "x", "b"))}
    done = do(world, RemoveAgent, name="x")
    assert done.world["g"] == graph("c", a={"wires": ["channel:c", "b"]}, b={}, flow=("a", "b"))
    assert told(done) == ("nothing", ("g",), ("g",), "ax")


def test_a_creature_that_goes_is_told_though_another_graph_has_one_of_its_name() -> None:
    world = {"g": graph("talk", **talk("a", "b")), "h": graph(b={})}
    assert do(world, RemoveAgent, name="b").change.affected_creatures == ("b",)


def test_the_ids_of_parts_are_these_in_every_process() -> None:
    assert split_run_id("g", "op", "b") == "g.0vY66GZV"
    assert (
        split_run_id("g", "op2", "b")
        != split_run_id("g", "op", "b")
        != split_run_id("g", "op", "c")
    )


def test_ids_stay_short_and_apart_however_often_a_graph_parts() -> None:
    on = "r" * 158
    world: Components = {on: graph(a={"beside": "m"}, b={"beside": "m"}, m={})}
    for number in range(1, 40):
        parted = do(world, RemoveAgent, on, name="m", command="the same").world
        assert len(parted) == number + 1
        (new,) = {*parted} - {*world}
        assert len(new) <= 170
        assert members(parted)[new] == "b"
        world, on = parted, new
        world = do(world, AddAgent, on, name="m", agent={"beside": "b"}).world
        world = do(world, AddAgent, on, name="a", agent={"beside": "m"}).world


def test_a_split_and_the_merge_after_it_give_the_names_of_before() -> None:
    bridged = {**BRIDGE, "m": {"listen": ["p"], "wires": ["x"]}}
    world = {"g": graph("p", "q", **bridged)}
    parted = do(world, Unwire, name="m", to="x").world
    part = split_run_id("g", "op", "x")
    assert members(parted) == {"g": "abm", part: "xy"}
    assert parted[part].channels == {"q": Channel(born="g")}
    back = do(parted, Wire, name="m", to="x", other=part)
    assert back.world == world
    assert back.change.renamed == ()


def test_a_channel_that_a_part_took_along_is_the_one_of_before_where_it_was_made_anew() -> None:
    world = {"g": graph("p", **talk("a", "b", over="p"), x={"wires": ["a"], "send": ["q"]})}
    world["g"].channels["q"] = Channel()
    parted = do(world, Unwire, name="x", to="a").world
    part = split_run_id("g", "op", "x")
    anew = do(parted, AddChannel, name="q").world
    for born, now in (("", ["p", "q"]), ("another run", ["p", "q", "q-2"])):
        anew["g"].channels["q"] = Channel(born=born)
        back = do(anew, Wire, part, name="x", to="a", other="g")
        assert [*back.world["g"].channels] == now


def test_a_part_that_has_grown_takes_the_rest_in_under_the_names_of_before() -> None:
    world = {"g": graph("p", "q", a={"listen": ["p"]}, b={"send": ["p"], "wires": ["c"]}, c={})}
    world["g"].agents["c"] = ChannelAgent(listen=("q",))
    parted = do(world, Unwire, name="b", to="c").world
    part = split_run_id("g", "op", "c")
    for name in "xy":
        parted = do(parted, AddAgent, part, name=name, agent={"send": ["q"]}).world
    back = do(parted, Wire, "g", name="b", to="c", other=part)
    assert members(back.world) == {part: "cxyab"}
    assert back.change.renamed == ()
    # Each channel still knows the run in which it was made.
    assert back.world[part].channels == {"p": Channel(born="g"), "q": Channel(born="g")}
    assert back.change.affected_creatures == ("a", "b", "c", "x", "y")


# -- what crosses boundaries -----------------------------------------------------------------


def test_a_graph_is_read_again_from_json() -> None:
    whole = graph("c", **talk("a", over="c", privileged=True), b={"parent": "a"}, flow=("a",))
    assert Component.from_json(whole.to_json()) == whole
    assert graph(a={}).to_json() == {"agents": {"a": {}}}


def test_listeners_are_all_who_listen_but_the_sender() -> None:
    whole = graph("c", b={"listen": ["c"]}, a={"listen": ["c"], "send": ["c"]}, x={"send": ["c"]})
    assert whole.listeners("c") == ("a", "b")
    assert whole.listeners("c", "a") == ("b",)
    assert whole.listeners("d") == ()
