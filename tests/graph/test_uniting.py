"""The definition of two graphs that become one: the crew that the topology says it is."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.apply import apply_operations
from crewlog.definition.context import Window
from crewlog.definition.load import load_data, load_stored
from crewlog.definition.model import CrewDefinition, Rule
from crewlog.definition.operations import AddAgent, Disconnect
from crewlog.errors import ComponentConflict
from crewlog.graph.lowering.plans import lower
from crewlog.graph.run_merge.definition import MergedDefinition, merged_definition
from crewlog.graph.run_split import split_definitions
from crewlog.ids import AgentName, RunId
from crewlog.state.components import split_components, split_run_id

ONE, TWO = RunId("one"), RunId("two")
WORKERS = RunId("one.abcd1234")


def data_of(agents: dict[str, Any], **more: Any) -> dict[str, Any]:
    said = {name: {"prompt": name, **agent} for name, agent in agents.items()}
    return {"crew": "t", "model": "openai:x", "agents": said, **more}


def crew(agents: dict[str, Any], **more: Any) -> CrewDefinition:
    return load_data(data_of(agents, **more))


def joined(one: CrewDefinition, two: CrewDefinition, **edge: Any) -> MergedDefinition:
    """Crew `two`, which joins `one`, whose agent the sender is."""
    edge = edge or {"op": "connect", "sender": "a", "listener": "x"}
    made = merged_definition(one, two, surviving=ONE, merged=TWO, edge=edge, asks=ONE)
    assert load_data(made.definition.to_json()) == made.definition
    lower(made.definition)
    return made


@pytest.mark.parametrize("kin", [False, True])
def test_who_comes_is_nobody_that_was_removed_by_its_name(kin: bool) -> None:
    """Else it has the turns that were kept aside here, and reads the other one's notes."""
    one = crew({"a": {"listen": ["p"]}})
    two = crew({"b": {"listen": ["q"]}, "c": {"send": ["q"]}})
    edge = {"op": "connect", "sender": "a", "listener": "b"}
    family = (ONE,) if kin else ()
    gone = ("a", "b", "c-2")
    made = merged_definition(
        one, two, surviving=ONE, merged=TWO, edge=edge, asks=ONE, family=family, gone=gone
    )
    b = "b" if kin else "b-2"
    assert made.comes == (b, "c")
    assert {each.was: each.now for each in made.renamed} == ({} if kin else {"b": "b-2"})
    assert made.definition.agents["a"].send == made.definition.agents[b].listen[-1:]


def test_nobody_is_called_anew_as_who_is_away() -> None:
    """Else of two that have one name then, one is lost."""
    one = crew({"a": {"listen": ["p"]}, "b": {}}, graph={"away": {"b": "third"}})
    two = crew(
        {"b": {"listen": ["p", "q"]}, "b-2": {"listen": ["p-2"]}}, graph={"away": {"b-2": "4th"}}
    )
    made = joined(one, two, op="wire", name="a", to="b")
    policy = made.definition.graph
    assert policy is not None
    assert policy.away == {"b": "third", "b-2": "4th"}
    assert made.comes == ("b-3",)
    assert made.nodes == {"b": "b-3"}
    assert made.definition.agents["a"].wires == ("b-3",)
    # Nor has a channel the name of one whose log only those who are away know.
    assert made.definition.agents["b-3"].listen == ("p-3", "q")
    assert made.definition.agents["b-2"].listen == ("p-2",)


def test_nobody_comes_under_the_name_of_a_phase() -> None:
    """It would hear at another node than it did, beside that phase."""
    flow = [{"agent": "a", "phase": "scout"}, {"agent": "a", "phase": "poet"}, "scout-2"]
    one = crew({"a": {"listen": ["p"]}, "scout-2": {}}, flow=flow)
    two = crew({"scout": {"listen": ["q"]}, "poet": {}, "a": {}}, graph={"away": {"poet": "third"}})
    made = joined(one, two, op="wire", name="a", to="scout")
    assert {each.was: each.now for each in made.renamed if each.kind == "agent"} == {
        "a": "a-2",
        "poet": "poet-2",
        "scout": "scout-3",
    }
    assert made.definition.agents["a"].wires == ("scout-3",)
    assert made.definition.graph is not None
    assert made.definition.graph.away == {"poet-2": "third"}
    assert made.nodes == {"a": "a-2", "scout": "scout-3"}
    lower(made.definition)


def test_a_phase_of_a_builder_keeps_its_name_too() -> None:
    hub = {"use": "hub", "with": {"router": "router", "agents": ["a"]}}
    one = crew({"router": {}, "a": {"listen": ["p"]}}, flow=[hub])
    made = joined(one, crew({"hub": {"listen": ["q"]}}), op="wire", name="a", to="hub")
    assert made.nodes == {"hub": "hub-2"}


def test_who_comes_home_to_another_node_has_visits_of_its_own() -> None:
    """Of two steps of one name, one would be lost."""
    one = crew({"a": {"listen": ["p"]}, "b": {}}, flow=["a", "b"], graph={"away": {"b": TWO}})
    two = crew({"a": {}, "b": {"listen": ["p"]}}, graph={"away": {"a": ONE}})
    made = joined(one, two, op="connect", sender="a", listener="b")
    assert made.nodes == {"b": "b.inbox"}
    assert made.fresh == {"b.inbox"}
    kin = crew({"a": {"listen": ["p"]}, "b": {}}, graph={"away": {"b": TWO}})
    assert joined(kin, two, op="connect", sender="a", listener="b").fresh == frozenset()


def test_strangers_of_one_recipe_are_told_apart() -> None:
    agents: dict[str, Any] = {
        "a": {
            "listen": ["p"],
            "reads": ["public", "group:g"],
            "writes": ["public", "group:g", "readers:b"],
        },
        "b": {"send": ["p"], "parent": "a", "inputs": ["a.text"], "wires": ["a", "channel:p"]},
    }
    one = crew(agents, groups={"g": ["a", "b"]}, graph={"root": "a"})
    made = merged_definition(
        one,
        one,
        surviving=ONE,
        merged=TWO,
        edge={"op": "wire", "name": "a", "to": "b"},
        asks=ONE,
    )
    both = made.definition
    assert [(each.kind, each.was, each.now) for each in made.renamed] == [
        ("agent", "a", "a-2"),
        ("agent", "b", "b-2"),
        ("channel", "p", "p-2"),
        ("group", "g", "g-2"),
    ]
    assert both.groups == {"g": ("a", "b"), "g-2": ("a-2", "b-2")}
    second = both.agents["b-2"]
    assert (second.parent, second.wires, second.send) == ("a-2", ("a-2", "channel:p-2"), ("p-2",))
    assert (second.inputs[0].from_, second.inputs[0].as_) == ("a-2.text", "a.text")
    assert both.agents["a-2"].reads == ("public", "group:g-2")
    assert both.agents["a-2"].writes == ("public", "group:g-2", "readers:b-2")
    assert both.agents["a-2"].privileged
    assert both.agents["a"].wires == ("b-2",)
    assert both.graph is not None
    assert both.graph.root == "a"
    assert {name: each.born for name, each in both.channels.items()} == {"p-2": "two"}
    assert made.nodes == {"a": "a-2", "b": "b-2"}
    assert made.fresh == {"a-2", "b-2"}
    assert (made.change.kind, made.change.renamed) == ("merge", made.renamed)
    assert (made.change.old_graph_ids, made.change.new_graph_ids) == ((ONE, TWO), (ONE,))
    assert made.change.affected_creatures == ("a", "a-2", "b", "b-2")
    lower(both)


def test_who_comes_needs_a_yes_where_everybody_does() -> None:
    tools = {"t": {"run": "m:t"}, "u": {"run": "m:u"}}
    one = crew({"a": {"listen": ["p"]}}, tools=tools, approvals={"t": None, "u": ["a"]})
    two = crew({"x": {"listen": ["q"]}}, tools=tools)
    assert joined(one, two).definition.approvals == {"t": None, "u": ("a",)}


def test_nobody_may_do_what_its_own_run_did_not_let_it() -> None:
    tools = {name: {"run": f"m:{name}"} for name in ("both", "mine", "theirs")}
    one = crew(
        {"a": {"send": ["p"]}, "b": {"listen": ["p"]}},
        tools={name: tools[name] for name in ("both", "mine")},
        permissions={"both": ["a"]},
        rules=[{"tool": "both", "do": "ask"}],
        approvals={"mine": ["b"]},
        model="openai:one",
    )
    two = crew(
        {"x": {"listen": ["q"]}, "y": {"send": ["q"], "tools": ["theirs"]}},
        tools={name: tools[name] for name in ("both", "theirs")},
        rules=[{"tool": "theirs", "quota": "3 per run"}, {"tool": "both", "do": "ask"}],
        approvals={"both": None},
        model="openai:two",
        window=5,
    )
    made = joined(one, two)
    both, plan = made.definition, lower(made.definition)
    may = {
        name: {tool for tool in rules.tools if tool in tools and _may(plan.permissions, tool, name)}
        for name, rules in plan.agents.items()
    }
    assert may == {
        "a": {"both", "mine"},
        "b": {"mine"},
        "x": {"both", "theirs"},
        "y": {"theirs"},
    }
    assert [rule.agents for rule in both.rules] == [None, ("x", "y")]
    assert both.approvals == {"mine": ("b",), "both": ("x", "y")}
    assert (both.model, both.agents["x"].model, both.agents["a"].model) == (
        "openai:one",
        "openai:two",
        None,
    )
    assert both.agents["x"].window == two.window
    ((was, now),) = made.quotas.items()
    assert was in {each.key for each in lower(two).checks}
    assert now in {each.key for each in plan.checks}


@pytest.mark.parametrize("name", ["t", "u"])
def test_quotas_over_runs_are_counted_on(name: str) -> None:
    tools: dict[str, Any] = {"t": {"run": "m:t"}}
    every: dict[str, Any] = {"tool": "t", "quota": "3 per day"}
    mine = {"tool": "t", "agents": ["group:g"], "quota": "2 per hour"}
    theirs = {"tool": "t", "agents": ["x"], "quota": "4 per day"}
    whole = {"tool": "t", "quota": "9 per run"}
    one = crew(
        {"a": {"listen": ["p"]}}, tools=tools, rules=[every, mine, whole], groups={"g": ["a"]}
    )
    two = load_data(
        data_of(
            {"x": {"listen": ["q"]}},
            tools=tools,
            rules=[every, theirs, whole],
            groups={"g": ["x"]},
            timezone="Asia/Tokyo",
        )
        | {"crew": name}
    )
    made = joined(one, two).definition
    key = {each.quota: each.key for each in (*lower(one).checks, *lower(two).checks)}

    def told(rule: Rule) -> tuple[Any, ...]:
        counted = rule.counted
        where = counted and (counted.crew, counted.key, counted.zone)
        return rule.quota, rule.agents, where

    assert [told(rule) for rule in made.rules] == [
        ("3 per day", None, None),
        ("2 per hour", ("group:g",), None),
        ("9 per run", None, None),
        ("3 per day", ("x",), (name, key["3 per day"], "Asia/Tokyo")),
        ("4 per day", ("x",), (name, key["4 per day"], "Asia/Tokyo")),
    ]
    # And still, where they are one run with a third one.
    last = crew({"z": {"listen": ["q"]}}, tools=tools)
    again = merged_definition(
        last,
        made,
        surviving=RunId("three"),
        merged=ONE,
        edge={"op": "connect", "sender": "z", "listener": "x"},
        asks=RunId("three"),
    )
    assert [told(rule) for rule in again.definition.rules] == [
        ("3 per day", ("a", "x"), ("t", key["3 per day"], "UTC")),
        ("2 per hour", ("group:g",), None),
        ("9 per run", ("a", "x"), None),
        *map(told, made.rules[3:]),
    ]


def test_a_quota_of_one_crew_and_zone_stays_where_it_is() -> None:
    rules = [{"tool": "t", "quota": "3 per day"}]
    tools = {"t": {"run": "m:t"}}
    one = crew({"a": {"listen": ["p"]}}, tools=tools, rules=rules)
    made = joined(one, crew({"x": {"listen": ["q"]}}, tools=tools, rules=rules))
    assert made.definition.rules == one.rules


def _may(table: Any, tool: str, name: str) -> bool:
    named = table.get(tool)
    return named is None or name in named


BAND: dict[str, Any] = {
    "keeper": {"listen": ["reports"], "send": ["tasks"]},
    "archer": {"listen": ["tasks"], "send": ["reports"]},
    "poet": {"listen": ["asides"], "tools": ["t"]},
    "bard": {"send": ["asides"], "beside": "keeper"},
}
MORE: dict[str, Any] = {
    "tools": {"t": {"run": "m:t"}, "u": {"run": "m:u"}},
    "rules": [{"tool": "t", "agents": ["poet"], "quota": "3 per day"}],
    "permissions": {"t": ["poet"], "u": None},
    "approvals": {"t": ["poet", "archer"]},
    "groups": {"g": ["keeper", "poet"]},
    "graph": {"root": "keeper"},
}


def band() -> tuple[CrewDefinition, dict[RunId, CrewDefinition]]:
    """A crew, and the parts that it is in once nothing ties two of its agents to the others."""
    whole = crew(BAND, **MORE)
    agents = {**whole.agents}
    agents["bard"] = agents["bard"].model_copy(update={"beside": None})
    cut = whole.model_copy(update={"agents": agents})
    graph = lower(cut).component
    assert graph is not None
    return cut, split_definitions(cut, split_components(ONE, graph, "c"), ONE)


def test_who_was_parted_is_united_as_before() -> None:
    cut, parts = band()
    other = split_run_id(ONE, "c", AgentName("bard"))
    made = merged_definition(
        parts[ONE],
        parts[other],
        surviving=ONE,
        merged=other,
        edge={"op": "wire", "name": "bard", "to": "keeper"},
        asks=other,
    )
    both = made.definition
    assert made.renamed == ()
    assert both.agents == {
        **cut.agents,
        "bard": cut.agents["bard"].model_copy(update={"wires": ("keeper",)}),
    }
    for key in ("tools", "rules", "permissions", "approvals", "groups", "flow"):
        assert getattr(both, key) == getattr(cut, key), key
    assert both.graph == cut.graph
    assert made.fresh == frozenset()
    before, after = lower(cut).component, lower(both).component
    assert before is not None
    assert after is not None
    assert after.channels == before.channels
    assert after.agents.keys() == before.agents.keys()


def test_of_an_agent_the_word_of_its_own_run_counts() -> None:
    _, parts = band()
    other = split_run_id(ONE, "c", AgentName("bard"))
    here, there = parts[ONE], parts[other]
    here = here.model_copy(
        update={
            "groups": {"g": ("keeper", "archer")},
            "permissions": {"t": ("keeper",)},
            "approvals": {},
        }
    )
    there = apply_operations(
        there, [AddAgent(name="imp", agent={"prompt": "i", "listen": ["asides"]})]
    ).model_copy(update={"groups": {"g": ("bard", "imp")}})
    made = merged_definition(
        here,
        there,
        surviving=ONE,
        merged=other,
        edge={"op": "connect", "sender": "keeper", "listener": "imp", "channel": "asides"},
        asks=ONE,
    ).definition
    lower(made)
    assert made.groups == {"g": ("keeper", "archer", "bard", "imp")}
    assert made.permissions["t"] == ("keeper", "poet")
    assert made.approvals == {"t": ("poet",)}
    assert {*made.agents} == {*BAND, "imp"}
    # The sender's graph has no such channel: it is the listener's.
    assert made.agents["keeper"].send == ("tasks", "asides")


def test_who_is_in_a_third_run_stays_away() -> None:
    one = crew({"a": {"send": ["p"]}, "n": {}}, graph={"away": {"n": "third"}})
    two = crew({"x": {"listen": ["q"]}, "m": {}, "n": {}}, graph={"away": {"m": "4", "n": "5"}})
    two = two.model_copy(
        update={"agents": {**two.agents, "n": two.agents["n"].model_copy(update={"prompt": "N"})}}
    )
    made = joined(one, two)
    policy = made.definition.graph
    assert policy is not None
    assert policy.away == {"n": "third", "m": "4", "n-2": "5"}
    assert [(each.was, each.now) for each in made.renamed] == [("n", "n-2")]
    graph = lower(made.definition).component
    assert graph is not None
    assert {*graph.agents} == {"a", "x"}


FLOW = {"flow": ["x"], "channels": {"q": {}}}


@pytest.mark.parametrize(
    ("one", "two", "match"),
    [
        ({}, FLOW, "has a flow"),
        (FLOW | {"flow": ["a"]}, FLOW, "flow"),
        ({"tools": {"t": {"run": "m:t"}}}, {"tools": {"t": {"run": "m:u"}}}, "the tool 't'"),
        ({"flags": {"f": 1}}, {"flags": {"f": 2}}, "the flag 'f'"),
        ({"artifacts": {"d": {}}}, {"artifacts": {"d": {"initial": []}}}, "the artifact 'd'"),
        ({}, {"policy": {"mode": "open", "principals": {}}}, "different policies"),
        ({}, {"memory": {}}, "memory"),
        ({"memory": {}}, {}, "memory"),
    ],
)
def test_what_cannot_be_one_is_refused(one: Any, two: Any, match: str) -> None:
    mine = {"a": {"send": ["p"]}}
    theirs = {"x": {"listen": ["q"]}}
    with pytest.raises(ComponentConflict, match=match) as refused:
        joined(crew(mine, **one), crew(theirs, **two))
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("edge", "match"),
    [
        ({"op": "connect", "sender": "x", "listener": "a"}, "no agent 'x' with channels"),
        ({"op": "connect", "sender": "a", "listener": "a"}, "no agent 'a' with channels"),
        ({"op": "wire", "name": "a", "to": "channel:p"}, "channel 'p'"),
        ({"op": "unwire", "name": "a", "to": "x"}, "does not connect two runs"),
    ],
)
def test_an_edge_names_each_as_its_own_run_does(edge: dict[str, str], match: str) -> None:
    one, two = crew({"a": {"send": ["p"]}}), crew({"x": {"listen": ["q"]}})
    with pytest.raises(ComponentConflict, match=match):
        joined(one, two, **edge)


def test_a_crew_that_is_united_can_be_changed_on() -> None:
    made = joined(crew({"a": {"send": ["p"]}}), crew({"x": {"listen": ["q"]}}))
    after = apply_operations(made.definition, [Disconnect(sender="a", listener="x")])
    assert after.agents["x"].listen == ("q",)


@pytest.mark.parametrize("family", [(), (RunId("three"),), (WORKERS,)])
def test_who_left_comes_home_by_where_it_lived_and_not_by_its_name(
    family: tuple[RunId, ...],
) -> None:
    one = crew(
        {"a": {"listen": ["c"]}, "boss": {"listen": ["c"]}, "worker": {}},
        graph={"away": {"worker": WORKERS}},
        groups={"board": ["boss", "worker"]},
    )
    two = crew(
        {"spy": {"listen": ["q"]}, "worker": {"listen": ["q"]}}, groups={"board": ["spy", "worker"]}
    )
    edge = {"op": "connect", "sender": "a", "listener": "worker", "channel": "tie"}
    made = merged_definition(
        one, two, surviving=ONE, merged=TWO, edge=edge, asks=ONE, family=family
    )
    both = made.definition
    home = family == (WORKERS,)
    worker = "worker" if home else "worker-2"
    assert {*made.comes} == {"spy", worker}
    assert both.agents[worker].listen == ("q", "tie")
    assert (worker in made.fresh) is not home
    assert both.graph is not None
    if home:
        assert not both.graph.away
        assert not made.renamed
    else:
        assert both.graph.away == {"worker": WORKERS}
        assert {(each.kind, each.was, each.now) for each in made.renamed} == {
            ("agent", "worker", "worker-2"),
            ("group", "board", "board-2"),
        }
        assert both.groups == {"board": ("boss", "worker"), "board-2": ("spy", "worker-2")}


TOOLS: dict[str, Any] = {name: {"run": f"m:{name}"} for name in ("t", "u")}


def test_what_a_crew_says_of_an_agent_it_says_by_its_new_name() -> None:
    one = crew({"a": {"listen": ["p"]}, "z": {}}, groups={"g": ["a"], "g-2": ["z"]})
    two = crew(
        {"a": {"listen": ["p"], "reads": ["public", "group:g"]}, "y": {"send": ["p"]}},
        groups={"g": ["a"]},
        tools=TOOLS,
        permissions={"t": ["a"]},
        approvals={"u": ["a"]},
        merge={"a.text": "append", "f": "append"},
        flags={"f": []},
        logs={"p": {"readers": ["a"]}},
        artifacts={"doc": {"readers": ["a"]}},
    )
    both = joined(one, two, op="wire", name="a", to="a").definition
    assert both.permissions == {"t": ("a-2",), "u": ("a-2", "y")}
    assert both.approvals == {"u": ("a-2",)}
    assert {*both.merge} == {"a-2.text", "f"}
    assert both.logs["p-2"].readers == ("a-2",)
    assert both.artifacts["doc"].readers == ("a-2",)
    assert both.groups == {"g": ("a",), "g-2": ("z",), "g-3": ("a-2",)}
    assert both.agents["a-2"].reads == ("public", "group:g-3")


def test_channels_that_agents_but_read_or_write_are_strangers_too() -> None:
    agents = {
        "x": {
            "listen": ["q"],
            "reads": ["public", "channel:q", "channel:news"],
            "writes": ["public", "channel:said"],
            "shares": ["channel:told"],
        }
    }
    mine = {
        "a": {
            "listen": ["p"],
            "reads": ["public", "channel:p", "channel:said", "channel:told"],
            "writes": ["public", "channel:news", "channel:news-2"],
        }
    }
    made = joined(crew(mine), crew(agents), op="wire", name="a", to="x")
    x = made.definition.agents["x"]
    assert x.reads == ("public", "channel:q", "channel:news-3")
    assert (x.writes, x.shares) == (("public", "channel:said-2"), ("channel:told-2",))
    assert {(each.kind, each.was, each.now) for each in made.renamed} == {
        ("channel", "news", "news-3"),
        ("channel", "said", "said-2"),
        ("channel", "told", "told-2"),
    }


def test_a_log_of_a_channel_that_nobody_uses_is_no_other_ones() -> None:
    logs = {"news": {"readers": ["x"]}}
    two = crew({"x": {"listen": ["q"]}}, logs=logs)
    one = crew({"a": {"listen": ["p"], "reads": ["public", "channel:p", "channel:news"]}})
    made = joined(one, two, op="wire", name="a", to="x")
    assert {name: each.readers for name, each in made.definition.logs.items()} == {"news-2": ("x",)}


def test_names_that_either_run_has_are_taken() -> None:
    away = {"graph": {"away": {"b-2": "third"}}}
    one = crew({"a": {"listen": ["p"]}, "b": {}, "b-2": {}}, **away)
    two = crew({"b": {"listen": ["q"]}})
    assert joined(one, two, op="wire", name="a", to="b").comes == ("b-3",)
    # So are they for who is in a third run.
    one = crew({"a": {"listen": ["p"]}, "c": {}, "c-2": {}})
    two = crew({"x": {"listen": ["q"]}, "c": {"prompt": "other"}}, graph={"away": {"c": "third"}})
    policy = joined(one, two).definition.graph
    assert policy is not None
    assert policy.away == {"c-3": "third"}
    two = crew(
        {"x": {"listen": ["q"]}, "c": {"prompt": "other"}, "c-3": {}},
        graph={"away": {"c": "third"}},
    )
    policy = joined(one, two).definition.graph
    assert policy is not None
    assert policy.away == {"c-4": "third"}


def test_who_comes_keeps_what_it_says_itself() -> None:
    one = crew({"a": {"listen": ["p"]}}, tools=TOOLS)
    two = crew(
        {
            "x": {"listen": ["q"]},
            "y": {"send": ["q"], "model": "openai:y", "window": 7, "tools": []},
        },
        model="openai:two",
        window=5,
    )
    found = joined(one, two).definition.agents
    assert (found["x"].model, found["x"].tools) == ("openai:two", ())
    assert (found["y"].model, found["y"].tools) == ("openai:y", ())
    assert (found["x"].window, found["y"].window) == (two.window, two.agents["y"].window)
    plain = joined(crew({"a": {"listen": ["p"]}}, window=5), crew({"x": {"listen": ["q"]}}))
    assert plain.definition.agents["x"].window == Window()


def test_channels_are_for_what_their_own_run_says() -> None:
    one = crew({"a": {"send": ["p"]}}, channels={"p": {"description": "mine"}, "n": {}})
    two = crew({"x": {"listen": ["q", "r"]}}, channels={"q": {"description": "theirs"}})
    found = joined(one, two, op="wire", name="a", to="x").definition.channels
    assert {name: each.description for name, each in found.items() if each.description} == {
        "p": "mine",
        "q": "theirs",
    }


def test_who_had_moved_on_is_where_the_run_that_joins_knows_it() -> None:
    away = {"x": TWO, "y": TWO, "z": TWO, "w": "4th"}
    one = crew({"a": {"listen": ["p"]}, **{name: {} for name in away}}, graph={"away": away})
    two = crew(
        {"a": {}, "x": {"listen": ["q"]}, "y": {}, "w": {}},
        graph={"away": {"a": ONE, "y": "third", "w": "5th"}},
    )
    policy = joined(one, two).definition.graph
    assert policy is not None
    assert policy.away == {"y": "third", "z": TWO, "w": "4th"}
    # Where nobody of the one that joins is away, it knows of none.
    alone = crew({"x": {"listen": ["q"]}})
    policy = joined(one, alone).definition.graph
    assert policy is not None
    assert policy.away == {"y": TWO, "z": TWO, "w": "4th"}


@pytest.mark.parametrize(
    ("more", "stays"),
    [
        ({}, False),
        ({"rules": [{"do": "never", "tool": "t", "if": "late.x", "agents": ["x"]}]}, True),
        ({"merge": {"late.x": "append"}}, True),
    ],
)
def test_who_is_gone_from_the_run_that_stays_lives_nowhere(more: Any, stays: bool) -> None:
    """The run that joins does not know that; where nothing there names it, it is forgotten."""
    one = crew({"a": {"listen": ["p"]}, "x": {}}, graph={"away": {"x": TWO}})
    groups = {"g": ["x", "late"]}
    edges = {"a": {}, "late": {"outputs": ["x"]}, "x": {"listen": ["q"], "tools": ["t"]}}
    two = crew(
        edges,
        graph={"away": {"a": ONE, "late": ONE}},
        groups=groups,
        tools={"t": {"run": "m:f"}},
        permissions={"t": ["late", "x"]},
        **more,
    )
    both = load_stored(joined(one, two).definition.to_json())
    assert ("late" in both.agents, "late" in both.away) == (stays, stays)
    assert ("late" in both.groups["g"]) == stays
    assert "q" in both.agents["x"].listen, "who comes is there"


def test_what_another_run_knew_of_who_stays_is_old() -> None:
    one = crew(
        {"a": {"listen": ["p"], "prompt": "new"}, "x": {}},
        graph={"root": "x", "away": {"x": TWO}},
    )
    two = crew(
        {"a": {"prompt": "old"}, "x": {"listen": ["q"], "prompt": "now"}},
        graph={"root": "x", "away": {"a": ONE}},
    )
    both = joined(one, two).definition
    assert {name: each.prompt for name, each in both.agents.items()} == {"a": "new", "x": "now"}
    assert not both.agents["x"].privileged, "it is the root here, which may do all the same"


@pytest.mark.parametrize(
    ("mine", "theirs", "both"),
    [
        ({}, {"t": ["x"]}, {"t": ("a", "b", "x")}),
        ({"t": ["a"]}, {}, {"t": ("a", "x", "y")}),
        ({"t": ["a"]}, {"t": ["y"]}, {"t": ("a", "y")}),
        ({"send_message": ["a"]}, {}, {"send_message": ("a", "x", "y")}),
        ({}, {"send_message": ["x"]}, {"send_message": ("a", "b", "x")}),
        ({"mine": ["a"]}, {}, {"mine": ("a",)}),
        ({}, {"theirs": ["x"]}, {"theirs": ("x",)}),
        ({}, {}, {"theirs": ("x", "y")}),
    ],
)
def test_who_may_call_a_tool_each_run_says_for_its_own(mine: Any, theirs: Any, both: Any) -> None:
    shared = {"t": {"run": "m:t"}}
    one = crew(
        {"a": {"send": ["p"]}, "b": {"listen": ["p"]}},
        tools={**shared, "mine": {"run": "m:n"}},
        permissions=mine,
    )
    two = crew(
        {"x": {"listen": ["q"]}, "y": {"send": ["q"]}},
        tools={**shared, "theirs": {"run": "m:h"}},
        permissions=theirs,
    )
    found = joined(one, two).definition.permissions
    assert found == {"theirs": ("x", "y"), **both}


def test_ways_of_combining_are_of_both() -> None:
    one = crew({"a": {"listen": ["p"]}}, merge={"f": "append"}, flags={"f": []})
    two = crew({"x": {"listen": ["q"]}}, merge={"g": "append"}, flags={"g": []})
    assert joined(one, two).definition.merge == {**one.merge, **two.merge}
    other = crew({"x": {"listen": ["q"]}}, merge={"f": "union"}, flags={"f": []})
    with pytest.raises(ComponentConflict, match="define the reducer of 'f' differently"):
        joined(one, other)


def test_the_run_of_an_edge_is_one_of_the_two() -> None:
    one, two = crew({"a": {"listen": ["p"]}}), crew({"x": {"listen": ["q"]}})
    edge = {"op": "connect", "sender": "a", "listener": "x"}
    with pytest.raises(ComponentConflict, match="the run 'third' of the operation is neither"):
        merged_definition(one, two, surviving=ONE, merged=TWO, edge=edge, asks=RunId("third"))


def test_a_memory_is_one_only_where_it_says_the_same_of_the_same_agents() -> None:
    """Else one's agents would read and write what the other's keep."""
    kept = {"memory": {"write": {"public": ["a"]}}}
    one = crew({"a": {"listen": ["p"]}}, **kept)
    with pytest.raises(ComponentConflict, match="has a memory that the run 'one' does not have"):
        joined(one, crew({"a": {"listen": ["q"]}}, **kept), op="wire", name="a", to="a")
    with pytest.raises(
        ComponentConflict, match="'one' has a memory that the run 'two' does not have"
    ):
        joined(one, crew({"x": {"listen": ["q"]}}))
    all_: dict[str, Any] = {"memory": {}}
    made = joined(crew({"a": {"listen": ["p"]}}, **all_), crew({"x": {"listen": ["q"]}}, **all_))
    assert made.definition.memory is not None


def test_of_who_comes_home_the_run_in_which_it_lived_says_what_it_may() -> None:
    more: dict[str, Any] = {"tools": TOOLS}
    one = crew(
        {"a": {"listen": ["p"]}, "x": {}},
        graph={"away": {"x": TWO}},
        permissions={"t": ["a", "x"]},
        approvals={"u": ["a", "x"]},
        groups={"g": ["a", "x"]},
        **more,
    )
    two = crew(
        {"x": {"listen": ["q"]}, "y": {"send": ["q"]}, "a": {}, "z": {}},
        graph={"away": {"a": ONE, "z": "third"}},
        permissions={"t": ["a", "y"]},
        approvals={"u": ["y"]},
        groups={"g": ["y", "z"]},
        **more,
    )
    both = joined(one, two).definition
    assert both.permissions == {"t": ("a", "y")}
    assert both.approvals == {"u": ("a", "y")}
    assert both.groups == {"g": ("a", "y", "z")}


def test_who_knows_the_run_that_stays_means_the_same_as_it() -> None:
    """Though that one has forgotten, as those who had left it are no more in its crew."""
    one = crew(
        {"a": {"listen": ["p"]}},
        groups={"g": ["a"]},
        channels={"p": {"description": "new"}, "n": {"description": "new"}},
    )
    two = crew(
        {"a": {}, "x": {"listen": ["q"], "reads": ["public", "channel:q", "channel:p"]}},
        groups={"g": ["a", "x"]},
        channels={"n": {"description": "old"}},
        graph={"away": {"a": ONE}},
    )
    made = joined(one, two, op="wire", name="a", to="x")
    assert made.definition.groups == {"g": ("a", "x")}
    assert made.definition.agents["x"].reads == ("public", "channel:q", "channel:p")
    assert made.definition.channels["p"].description == "new"
