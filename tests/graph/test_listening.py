"""Creatures: each message gives each listener one visit, in order, whatever else happens."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from crewlog.canonical_json import hash_json
from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_data
from crewlog.definition.operations import RemoveAgent
from crewlog.definition.validate import warnings
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.graph.run_context import CallRequest
from crewlog.graph.wakes import component_events, plan_component_change, waking_message
from crewlog.ids import AgentName, LogName, NodeName, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.calls import SentMessage
from crewlog.state.components import ChannelAgent, Component
from crewlog.state.model import CrewState, FrontierStep, WakingMessage
from graph.simulation import Outcome, Simulation, as_json, dice, final, folded, returns, says

CHANNELS = ("red", "green", "blue")


def creatures(agents: dict[str, dict[str, Any]], **more: Any) -> GraphPlan:
    made = {name: {"prompt": "p", **edges} for name, edges in agents.items()}
    return lower(load_data({"crew": "t", "model": "openai:x", "agents": made, **more}))


def heard(sim: Simulation) -> Counter[tuple[str, str]]:
    """How often each node was given each message, by the message's hash."""
    return Counter(
        (node, entry["body"])
        for entry in sim.facts("AgentsWoken")
        for node in (*entry.get("to", ()), *entry.get("also", ()))
    )


def sending(seed: int, rounds: int) -> Any:
    """Agents send to their channels at random, in the first `rounds` calls of the run."""
    rng, left = dice(f"sending/{seed}"), [rounds]

    def script(order: CallRequest) -> Outcome:
        if order.call.tool is not None:
            count = rng.choice((1, 1, 2))
            sends = [
                SentMessage(
                    channel=rng.choice(CHANNELS), text=f"{order.step}/{order.call.call}/{n}"
                )
                for n in range(count)
            ]
            return returns(sends=tuple(sends))
        left[0] -= 1
        if left[0] > 0 and rng.random() < 0.6:
            return says("", *["send_message"] * rng.choice((1, 2)))
        return final(order) if left[0] > 0 else says("")

    return script


def world(seed: int) -> GraphPlan:
    rng = dice(f"world/{seed}")
    names = [f"c{n}" for n in range(rng.randint(2, 6))]

    def some(of: Any) -> list[str]:
        return rng.sample([*of], rng.randint(0, min(2, len(of))))

    agents = {
        name: {
            "listen": some(CHANNELS),
            "send": [*CHANNELS],
            "wires": some([n for n in names if n > name] + ["channel:blue"]),
        }
        for name in names
    }
    agents[names[0]]["listen"] = ["red"]
    graph = {"root": names[0], "queue": rng.choice((2, 5, 200))}
    return creatures(agents, graph=graph, limits={"steps": 100_000})


@pytest.mark.parametrize("seed", range(40))
async def test_every_message_is_heard_once_by_each_that_listens(seed: int) -> None:
    plan = world(seed)
    sim = await Simulation.begin(
        plan,
        sending(seed, 40),
        seed=seed,
        restore_at=lambda drain: drain % 2 == 0,
    )
    for number in range(60):
        await sim.round()
        if number % 10 == 3:
            await sim.command("message", text=f"m{number}", to=f"channel:{CHANNELS[number % 3]}")
        if number % 17 == 5:
            await sim.drain()
    await sim.run(5000)
    assert sim.state.idle is not None
    assert not sim.state.frontier
    wanted: Counter[tuple[str, str]] = Counter()
    for entry in sim.journal:
        if entry["kind"] == "MessageAdded":
            by = entry.get("by", "") if entry.get("step") else ""
            wanted.update(listening(plan, entry["ref"], by))
        elif (
            entry["kind"] == "ModelCallCompleted"
            and entry.get("excerpt")
            and not entry.get("calls")
        ):
            wires = plan.agents[entry["agent"]].wires
            logs = {to if ":" in to else f"readers:{to}" for to in wires}
            said = {**entry["ref"], "logs": [log for log in entry["ref"]["logs"] if log in logs]}
            wanted.update(listening(plan, said, entry["agent"]))
    assert heard(sim) == wanted
    assert sum(sim.state.visits.values()) == len(sim.ran()) == len(sim.facts("StepCompleted"))
    assert as_json(folded(sim.journal)) == as_json(sim.state)
    for node in plan.nodes:  # each agent's visits, one after the other
        visits = [int(step.rpartition("#")[2]) for step in sim.ran() if step.startswith(f"{node}#")]
        assert visits == sorted(visits)


def listening(plan: GraphPlan, ref: dict[str, Any], by: str) -> list[tuple[str, str]]:
    """Who is to hear a message, looked up in the definition's own words."""
    found: list[tuple[str, str]] = []
    for log in ref["logs"]:
        kind, _, name = log.partition(":")
        for agent, rules in plan.agents.items():
            listens = kind == "channel" and log in rules.reads
            root = log == "public" and not by and plan.graph and plan.graph.root == agent
            if agent != by and (listens or root or (kind == "readers" and name == agent)):
                found.append((str(agent), ref["body"]))
    return found


async def test_an_agent_that_is_stopped_keeps_what_it_hears() -> None:
    plan = creatures({"a": {"listen": ["x"], "enabled": False}, "b": {"wires": ["a"]}})
    sim = await Simulation.begin(plan, final)
    await sim.command("message", text="one", to="channel:x")
    await sim.run()
    assert sim.state.idle is not None
    assert [entry.status for entry in sim.state.frontier.values()] == ["ready"]
    await sim.change(creatures({"a": {"listen": ["x"]}, "b": {"wires": ["a"]}}))
    await sim.run()
    assert sim.ran() == ["a#1"]
    assert not sim.state.frontier


async def test_a_final_message_without_words_wakes_nobody() -> None:
    plan = creatures({"a": {"listen": ["x"], "wires": ["b"]}, "b": {"wires": ["a"]}})
    sim = await Simulation.begin(plan, lambda _: says(""))
    await sim.command("message", text="one", to="channel:x")
    await sim.run()
    assert sim.ran() == ["a#1"]


@pytest.mark.parametrize(("ending", "asked"), [("empty", 0), ("unknown", 1)])
async def test_an_agent_with_channels_may_say_nothing_where_its_model_ended(
    ending: Any, asked: int
) -> None:
    plan = creatures({"a": {"listen": ["x"], "wires": ["b"]}, "b": {"wires": ["a"]}})
    sim = await Simulation.begin(plan, lambda _: says("", ending=ending))
    await sim.command("message", text="one", to="channel:x")
    await sim.run()
    assert len(sim.state.interrupts) == asked
    assert len(sim.facts("StructuredOutputRejected")) == 3 * asked


async def test_agents_that_answer_each_other_for_ever_come_to_the_limit() -> None:
    plan = creatures(
        {"a": {"wires": ["b"]}, "b": {"wires": ["a"]}}, graph={"root": "a"}, limits={"steps": 20}
    )
    sim = await (await Simulation.begin(plan, final)).run()
    assert sim.asked().kind == "limit"
    assert len(sim.ran()) == 20


@pytest.mark.parametrize(
    ("crew", "said"),
    [
        ({"agents": {"a": {"listen": ["x", "x"]}}}, "agent 'a' names 'x' twice"),
        ({"agents": {"a": {"wires": ["b"]}}}, "agent 'a' is wired to the agent 'b'"),
        ({"agents": {"a": {"wires": ["a"]}}}, "agent 'a' is wired to itself"),
        ({"agents": {"a": {"beside": "b"}}}, "agent 'a' is beside the agent 'b'"),
        ({"agents": {"a": {"beside": "a"}}}, "agent 'a' is beside itself"),
        ({"agents": {"a": {"listen": ["x"]}}, "graph": {"root": "b"}}, "has as its root the agent"),
        ({"agents": {"a": {"listen": ["x"]}}, "conversation": {}}, "is no conversation"),
        ({"agents": {"a": {"listen": ["x"]}}, "channels": {"public": {}}}, "cannot be called"),
        (
            {"agents": {"a": {"listen": ["x"]}, "b": {}}, "logs": {"x": {"readers": ["b"]}}},
            "agent 'a' listens to 'x', and is not among its readers",
        ),
        (
            {"agents": {"a": {"send": ["x"]}, "b": {}}, "logs": {"x": {"writers": ["b"]}}},
            "agent 'a' sends to 'x', and is not among its writers",
        ),
        (
            {"agents": {"a": {"listen": ["x"], "parent": "b"}, "b": {}}},
            "agent 'a' listens to 'x', where 'b', whom it works for",
        ),
        (
            {"agents": {"a": {"listen": ["x"]}}, "tools": {"send_message": {"run": "m:t"}}},
            "a tool cannot be called 'send_message'",
        ),
        (
            {"agents": {"a": {"listen": ["x"]}}, "graph": {"away": {"a": "r"}}},
            "nobody would be left in the graph",
        ),
    ],
)
def test_what_is_wrong_with_creatures_is_told(crew: dict[str, Any], said: str) -> None:
    agents = {name: {"prompt": "p", **edges} for name, edges in crew["agents"].items()}
    with pytest.raises(InvalidDefinition) as raised:
        load_data({"crew": "t", "model": "openai:x", **crew, "agents": agents})
    assert said in str(raised.value)


def test_what_leads_nowhere_is_told() -> None:
    agents = {
        "a": {"prompt": "p", "send": ["tsks"]},
        "b": {"prompt": "p", "listen": ["tasks"], "wires": ["channel:taks"]},
    }
    found = warnings(load_data({"crew": "t", "model": "openai:x", "agents": agents}))
    assert [(each.message, each.remedy) for each in found] == [
        ("agent 'a' sends to 'tsks', to which nobody listens", "Did you mean 'tasks'?"),
        ("agent 'b' is wired to 'taks', to which nobody listens", "Did you mean 'tasks'?"),
        (
            "agent 'a' listens to no channel, and nothing else gives it a turn",
            "Let it listen to one, wire an agent to it, or make it the root.",
        ),
    ]


def test_who_goes_takes_along_the_ways_to_it() -> None:
    agents = {
        "a": {"prompt": "p", "listen": ["x"], "wires": ["b", "channel:x"]},
        "b": {"prompt": "p", "wires": ["a"]},
        "c": {"prompt": "p", "beside": "b", "listen": ["x"]},
    }
    crew = load_data(
        {"crew": "t", "model": "openai:x", "agents": agents, "graph": {"root": "b", "idle": 5}}
    )
    left = apply_operations(crew, [RemoveAgent(name="b")])
    assert (left.agents["a"].wires, left.agents["c"].beside) == (("channel:x",), None)
    assert left.graph is not None
    assert (left.graph.root, left.graph.idle) == (None, 5)
    plan = lower(left)
    assert plan.component is not None
    assert [*plan.component.agents] == ["a", "c"]


PAIR: dict[str, dict[str, Any]] = {"a": {"listen": ["x"]}, "b": {"listen": ["x", "y"]}}


async def busy(plan: GraphPlan) -> Simulation:
    """Each has a turn under way for the first message in `x`, and waits with the second."""
    sim = await Simulation.begin(plan, final)
    for text in ("one", "two"):
        await sim.command("message", text=text, to="channel:x")
    await sim.settle()
    sim.launch()
    assert set(sim.flights) == {("a#1", 1), ("b#1", 1)}
    return sim


async def test_who_comes_and_is_connected_disturbs_nobody() -> None:
    sim = await busy(creatures(PAIR))
    before = sim.state.frontier
    more = {**PAIR, "b": {"listen": ["x", "y"], "wires": ["c"]}, "c": {"listen": ["y"]}}
    report = await sim.change(creatures(more))
    assert (report.swap, report.at_once, report.graph_version) == (False, True, 2)
    assert sim.state.pending_change is None
    assert sim.state.frontier == before
    assert set(sim.flights) == {("a#1", 1), ("b#1", 1)}
    (fact,) = sim.facts("ComponentChanged")
    assert fact["affected_creatures"] == ["b", "c"]
    assert fact["old_graph_ids"] == fact["new_graph_ids"] == ["sim"]
    assert fact["events"] == [
        {"event": "OUTPUT_WIRE_ADDED", "agent": "b", "to": "c"},
        {"event": "CREATURE_STARTED", "agent": "c"},
    ]
    await sim.run()
    assert sorted(sim.ran()) == ["a#1", "a#2", "b#1", "b#2", "c#1", "c#2"]
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_who_goes_ends_its_turn_and_hears_no_more() -> None:
    sim = await busy(creatures(PAIR))
    await sim.change(creatures({"a": PAIR["a"]}))
    assert {step: e.is_detached for step, e in sim.state.frontier.items()} == {
        "a#1": False,
        "a#2": False,
        "b#1": True,
    }
    await sim.command("message", text="three", to="channel:x")
    await sim.run()
    assert sorted(sim.ran()) == ["a#1", "a#2", "a#3", "b#1"]
    assert not sim.state.frontier
    assert [e["agent"] for f in sim.facts("ComponentChanged") for e in f["events"]] == ["b"]
    # What it had heard and not begun waits for it: it comes back.
    await sim.change(creatures(PAIR))
    await sim.run()
    assert sim.ran()[-1] == "b#2"
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_idle_time_does_not_end_a_run_that_another_one_is_to_join() -> None:
    sim = await Simulation.begin(creatures({"a": {"listen": ["x"]}}, graph={"idle": 1}), final)
    engine = sim.engine
    fields: dict[str, Any] = {"merge": "m", "other": RunId("other"), "deadline": engine.at + 60_000}
    engine.record(j.MergeRequested(status="requested", **fields))
    engine.wakes.record_idle(is_idle_time_over=True)
    assert engine.state.status == "running"
    engine.record(j.MergeFailed(merge="m", other=RunId("other"), reason="it is gone"))
    engine.wakes.record_idle(is_idle_time_over=True)
    assert engine.state.status == "completed"


async def test_a_turn_whose_node_is_gone_is_no_rest() -> None:
    sim = await Simulation.begin(creatures(PAIR), final)
    await sim.command("message", text="one", to="channel:y")
    await sim.settle()
    sim.launch()
    await sim.change(creatures({"a": PAIR["a"]}))
    assert [*sim.state.frontier] == ["b#1"]
    assert not sim.engine.wakes.may_idle()


async def test_who_is_cut_off_goes_at_once() -> None:
    sim = await busy(creatures(PAIR))
    await sim.change(creatures({"a": PAIR["a"]}), abandon=True)
    assert "b#1" not in sim.state.frontier


async def test_a_channel_alone_affects_nobody() -> None:
    sim = await busy(creatures(PAIR))
    report = await sim.change(creatures(PAIR, channels={"z": {}}))
    assert report.at_once
    (fact,) = sim.facts("ComponentChanged")
    assert "affected_creatures" not in fact
    assert "events" not in fact


async def test_rules_of_creatures_are_rules() -> None:
    sim = await busy(creatures(PAIR))
    report = await sim.change(creatures({**PAIR, "a": {"listen": ["x"], "max_calls": 3}}))
    assert (report.swap, report.at_once, report.graph_version) == (False, False, 1)


async def test_where_as_many_wait_as_may_the_last_is_for_the_next_message_too() -> None:
    """What is under way waits no more, and each agent has a queue of its own."""
    plan = creatures({"a": {"listen": ["x"]}, "b": {"listen": ["x", "y"]}}, graph={"queue": 2})
    sim = await Simulation.begin(plan, final)
    for text in ("one", "two"):
        await sim.command("message", text=text, to="channel:x", by="ana")
    await sim.settle()
    sim.launch()
    for to in ("x", "y", "x"):
        await sim.command("message", text=to, to=f"channel:{to}", by="ana")
    heard_there = [(e.get("to", []), e.get("also", [])) for e in sim.facts("AgentsWoken")]
    assert heard_there == [
        (["a", "b"], []),
        (["a", "b"], []),
        (["a", "b"], []),
        ([], ["b"]),
        ([], ["a", "b"]),
    ]
    assert {entry["by"] for entry in sim.facts("AgentsWoken")} == {"ana"}


async def test_who_is_away_hears_nothing_and_a_run_that_has_ended_neither() -> None:
    plan = creatures({"a": {"listen": ["x"]}, "b": {"listen": ["x"]}}, graph={"away": {"b": "r.1"}})
    sim = await Simulation.begin(plan, final)
    await sim.command("message", text="one", to="channel:x")
    (fact,) = sim.facts("AgentsWoken")
    assert fact["to"] == ["a"]
    sim.engine.wakes.wake_readers(LogName("private:b"), hash_json("two"), "ana")
    sim.engine.wakes.wake_readers(LogName("channel:none"), hash_json("three"), "ana")
    assert len(sim.facts("AgentsWoken")) == 1, "that nobody hears is no fact"
    await sim.run()
    sim.engine.record(j.RunCompleted())
    sim.engine.wakes.wake_readers(LogName("channel:x"), hash_json("four"), "ana")
    assert len(sim.facts("AgentsWoken")) == 1


async def test_what_an_agent_sends_is_its_message() -> None:
    sim = await Simulation.begin(creatures(PAIR), final)
    sent = SentMessage(channel="x", text="hello")
    fact = sim.engine.wakes.channel_message("m1", StepId("a#1"), AgentName("a"), sent)
    body: dict[str, Any] = {"type": "ai", "content": "hello", "name": "a", "id": "m1"}
    ref = j.MessageRef(body=hash_json(body), logs=(LogName("channel:x"),), inline=body)
    assert fact == j.MessageAdded(at=sim.engine.at, ref=ref, by=AgentName("a"), step=StepId("a#1"))


async def test_a_run_rests_until_it_is_idle_for_too_long_or_has_what_it_ends_by() -> None:
    for graph, due in (({}, 0), ({"idle": 5}, 5000)):
        sim = await Simulation.begin(creatures(PAIR, graph=graph), final)
        await sim.run()
        (fact,) = sim.facts("IdleStarted")
        assert fact.get("deadline", 0) == (fact["at"] + due if due else 0)
    agents = {**PAIR, "a": {"listen": ["x"], "writes_flags": ["f"]}}
    plan = creatures(agents, graph={"ends_on": ["f"]}, flags={"f": False})

    def sets(order: CallRequest) -> Outcome:
        if order.call.tool is not None:
            return returns(flags={"f": True})
        return says("", "set_flag") if order.call.call == 1 else says("")

    sim = await Simulation.begin(plan, sets)
    await sim.run()
    assert sim.state.status == "running"
    await sim.command("message", text="one", to="private:a")
    await sim.run()
    assert sim.state.status == "completed"


def test_a_step_that_is_there_no_more_is_for_no_message() -> None:
    message = WakingMessage(log=LogName("channel:x"), body=hash_json("one"))
    entry = FrontierStep(step=StepId("a#1"), node=NodeName("a"), waking_message=message)
    state = CrewState(run=RunId("r"), frontier={entry.step: entry})
    assert waking_message(state, entry.step) == message
    assert waking_message(state, StepId("a#2")) is None


def test_what_becomes_of_creatures_and_wires_is_told_of_each() -> None:
    old = creatures(
        {
            "a": {"wires": ["b", "channel:x"]},
            "b": {"enabled": False},
            "c": {"parent": "a"},
            "d": {"wires": ["a"], "listen": ["x"]},
        }
    )
    new = creatures(
        {
            "a": {"wires": ["channel:x", "c"], "parent": "b"},
            "b": {},
            "c": {},
            "d": {"wires": ["a"], "listen": ["x"], "enabled": False},
        }
    )
    assert [(e.event, e.agent, e.to) for e in component_events(old, new)] == [
        ("OUTPUT_WIRE_ADDED", "a", "c"),
        ("OUTPUT_WIRE_REMOVED", "a", "b"),
        ("PARENT_LINK_CHANGED", "a", "b"),
        ("CREATURE_STARTED", "b", ""),
        ("PARENT_LINK_CHANGED", "c", ""),
        ("CREATURE_STOPPED", "d", ""),
    ]
    assert not [*component_events(new, new)]


def test_who_goes_on_in_another_run_has_not_stopped() -> None:
    agents: dict[str, Any] = {
        "a": {"listen": ["x"]}, "b": {"wires": ["d"]}, "c": {"wires": ["a"]}, "d": {}, "e": {},
    }  # fmt: skip
    old = creatures(agents)
    left = {"a": {**agents["a"]}, **{n: {**agents[n], "wires": []} for n in ("b", "c", "d", "e")}}
    new = creatures(left, graph={"away": {"b": "r.1", "c": "r.2", "d": "r.1"}})
    left["b"]["wires"] = ["d"]
    parts = {
        RunId(run): Component(
            agents={AgentName(n): ChannelAgent(wires=tuple(left[n]["wires"])) for n in names}
        )
        for run, names in (("r.2", "c"), ("r.1", "db"))
    }
    assert [(e.event, e.agent, e.to) for e in component_events(old, new, parts)] == [
        ("OUTPUT_WIRE_REMOVED", "c", "a"),
        ("SESSION_FORKED", "b", "r.1"),
        ("CREATURE_SESSION_ATTACHED", "b", "r.1"),
        ("CREATURE_SESSION_ATTACHED", "d", "r.1"),
        ("SESSION_FORKED", "c", "r.2"),
        ("CREATURE_SESSION_ATTACHED", "c", "r.2"),
    ]


def test_a_graph_that_begins_or_ends_is_another_one() -> None:
    run = RunId("r")
    agents = {"a": {"listen": ["x"]}}
    graph, none = creatures(agents), creatures({"a": {}}, flow=["a"])
    assert none.component is None
    assert plan_component_change(graph, creatures(agents), run) is None
    assert plan_component_change(none, none, run) is None
    for old, new in ((none, graph), (graph, none)):
        found = plan_component_change(old, new, run)
        assert found is not None
        assert found.affected_creatures == ("a",)
