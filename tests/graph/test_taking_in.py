"""Two runs become one: what was under way in either goes on, once, where it was."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest

from crewlog.canonical_json import hash_json
from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import AddAgent
from crewlog.errors import ChangeConflict, CommandRejected, ComponentConflict
from crewlog.graph.lowering.plans import lower
from crewlog.graph.restore import roll_back
from crewlog.graph.run_context import CallRequest
from crewlog.graph.run_merge.definition import merged_definition
from crewlog.graph.run_merge.surviving_run import apply_merge
from crewlog.ids import AgentName, InterruptId, LogName, RunId, StepId
from crewlog.reporting.trace.builder import run_trace
from crewlog.state.calls import PrepareMergeResult
from crewlog.state.journal import RunMerged, entry_from_json
from crewlog.state.model import Interrupt, LogHead, MergeOutcome, PendingChange
from crewlog.state.run_merge.renames import renamed_log
from crewlog.state.run_merge.surviving_state import new_names, removed_agents, transferred_state
from crewlog.usage import Usage
from graph.simulation import (
    RUN,
    Failure,
    Outcome,
    Replies,
    Simulation,
    as_json,
    dice,
    final,
    folded,
    says,
)
from graph.test_listening import CHANNELS, sending

OTHER = RunId("other")
ALL = "all that have it"
PAIR: dict[str, dict[str, Any]] = {"a": {"listen": ["x"]}, "b": {"listen": ["x", "y"]}}


def crew(agents: dict[str, dict[str, Any]], **more: Any) -> CrewDefinition:
    made = {name: {"prompt": "p", **edges} for name, edges in agents.items()}
    return load_data({"crew": "t", "model": "openai:x", "agents": made, **more})


async def begin(definition: CrewDefinition, run: RunId, script: Any = final) -> Simulation:
    with mock.patch("graph.simulation.RUN", run):
        return await Simulation.begin(lower(definition), script)


def prepared(
    one: Simulation,
    two: Simulation,
    crews: tuple[CrewDefinition, CrewDefinition],
    gone: tuple[str, ...] = (),
    **edge: str,
) -> PrepareMergeResult:
    """What the worker's activity makes of the two."""
    joins = two.state.run if two.state.source else OTHER
    made = merged_definition(*crews, surviving=RUN, merged=joins, edge=edge, asks=RUN, gone=gone)
    again = PrepareMergeResult(
        definition=made.definition.to_json(),
        plan=lower(load_data(made.definition.to_json())).to_json(),
        base=one.state.definition,
        merged_run=joins,
        position=two.state.position,
        started_at=two.state.started_at,
        state=transferred_state(two.state),
        change=made.change,
        agents=made.comes,
        nodes=made.nodes,
        new_nodes=tuple(sorted(made.fresh)),
        quotas=made.quotas,
        what="other becomes part of it",
    )
    return PrepareMergeResult.from_json(json.loads(json.dumps(again.to_json())))


EDGE = {"op": "connect", "sender": "a", "listener": "a", "channel": "x"}


async def pair(script: Any = final) -> tuple[Simulation, Simulation, PrepareMergeResult]:
    """Two runs of one recipe: one has two turns under way, the other one waits with its own."""
    crews = crew(PAIR), crew(PAIR, tools={"t": {"run": "m:t"}})
    one, two = await begin(crews[0], RUN), await begin(crews[1], OTHER, script)
    for sim in (one, two):
        for text in ("one", "two"):
            await sim.command("message", text=text, to="channel:x")
    for sim in (one, two):
        await sim.settle()
        sim.launch()
    await two.drain()
    return one, two, prepared(one, two, crews, **EDGE)


def asks(order: CallRequest) -> Outcome:
    return says("", "t") if order.call.call == 1 else final(order)


async def test_what_waits_in_the_other_run_goes_on_here() -> None:
    one, two, made = await pair(asks)
    assert {step: entry.turn is not None for step, entry in two.state.frontier.items()} == {
        "a#1": True,
        "b#1": True,
        "a#2": False,
        "b#2": False,
    }
    before, position = one.state.frontier, one.state.position
    apply_merge(one.engine, made, op="m", by="ana")
    (fact,) = one.facts("RunMerged")
    assert fact["position"] == one.state.position == max(position, two.state.position) + 1
    assert fact["previous_position"] == position
    assert (fact["merged_run"], fact["parents"]) == (OTHER, [OTHER])
    assert fact["affected_creatures"] == ["a", "a-2", "b", "b-2"]
    assert [(e["event"], e["agent"]) for e in fact["events"]] == [
        ("CREATURE_SESSION_ATTACHED", "a-2"),
        ("CREATURE_SESSION_ATTACHED", "b-2"),
    ]
    assert {step: e for step, e in one.state.frontier.items() if step in before} == before
    assert set(one.flights) == {("a#1", 1), ("b#1", 1)}
    assert one.state.graph_version == 2
    assert one.state.merges == {
        "m": MergeOutcome(
            outcome="merged",
            other=OTHER,
            position=one.state.position,
            merged_position=two.state.position,
            merged_started_at=two.state.started_at,
        )
    }
    heard = one.state.frontier["a-2#2"].waking_message  # type: ignore[index]
    assert heard is not None
    assert heard.log == "channel:x-2"
    one.script = final
    assert as_json(folded(one.journal)) == as_json(one.state)
    await one.restore()
    await one.run()
    ran = [step for step in one.ran() if "-2" in step]
    assert sorted(ran) == ["a-2#2", "b-2#2"]  # their first steps had begun over there
    done = {entry["step"] for entry in one.facts("StepCompleted")}
    assert done == {f"{name}#{n}" for name in ("a", "b", "a-2", "b-2") for n in (1, 2)}
    assert not one.state.frontier


async def test_the_limit_of_steps_holds_for_each_run_alone() -> None:
    crews = crew(PAIR, limits={"steps": 3}), crew(PAIR, limits={"steps": 50, "tokens": 900})
    one, two = await begin(crews[0], RUN), await begin(crews[1], OTHER)
    one.engine.journal.state = one.state.model_copy(update={"steps": 1, "step_limit_raises": 1})
    two.engine.journal.state = two.state.model_copy(update={"steps": 90, "step_limit_raises": 2})
    apply_merge(one.engine, prepared(one, two, crews, **EDGE), op="m")
    assert (one.state.steps, one.state.step_limit_raises) == (1, 1)


async def test_it_does_not_go_back_beyond() -> None:
    one, _, made = await pair()
    position, then = one.state.position, one.state
    apply_merge(one.engine, made, op="m")
    with pytest.raises(CommandRejected, match="was split or merged") as refused:
        roll_back(one.engine, position, then, one.engine.plan, by="eve")
    assert f"crewlog fork sim@{position}" in refused.value.remedy
    assert not one.facts("RunRolledBack")


async def test_messages_in_its_channels_are_heard_and_the_edge_holds() -> None:
    one, _, made = await pair(asks)
    apply_merge(one.engine, made, op="m")
    await one.run()
    assert one.state.idle is not None
    await one.command("message", text="three", to="channel:x-2")
    # The edge is over the channel of the sender's graph: who was called `a` listens there, too.
    await one.command("message", text="four", to="channel:x")
    await one.run()
    counts = {name: one.state.visits[name] for name in ("a", "b", "a-2", "b-2")}  # type: ignore[index]
    assert counts == {"a": 3, "b": 3, "a-2": 4, "b-2": 3}
    log = one.state.messages[LogName("channel:x-2")]
    assert log.length == 3
    assert one.state.former_names[LogName("channel:x-2")] == ("channel:x",)
    view = one.engine.view(AgentName("a-2"))
    assert view.former_names[LogName("channel:x-2")] == ("channel:x",)
    assert view.former_names[LogName("private:a-2")] == ("private:a",)
    assert as_json(folded(one.journal)) == as_json(one.state)
    found = run_trace(
        (at, entry_from_json(data)) for at, data in one.engine.journal.page(0, 10_000)
    )
    assert {each.step for each in found.steps} == {*one.ran(), "a-2#1", "b-2#1"}


async def test_what_was_asked_there_is_asked_here() -> None:
    def fails(order: CallRequest) -> Outcome:
        return Failure("it broke") if order.step == "a#1" else final(order)

    one, two, made = await pair(fails)
    while two.flights:
        await two.drain()
        await two.settle()
    assert [q.step for q in two.state.interrupts.values()] == ["a#1"]
    made = made.model_copy(
        update={"state": transferred_state(two.state), "position": two.state.position}
    )
    apply_merge(one.engine, made, op="m")
    (question,) = one.state.interrupts.values()
    assert (question.id, question.step, question.kind) == ("i1", "a-2#1", "step_failed")
    assert one.state.interrupt_count == 1
    assert as_json(folded(one.journal)) == as_json(one.state)
    await one.answer("retry", question.id)
    await one.run()
    assert "a-2#1" in {entry["step"] for entry in one.facts("StepCompleted")}
    assert not one.state.frontier


async def test_a_run_that_has_changed_meanwhile_prepares_it_anew() -> None:
    one, _, made = await pair()
    await one.change(
        lower(
            apply_operations(
                crew(PAIR), [AddAgent(name="c", agent={"prompt": "c", "listen": ["y"]})]
            )
        )
    )
    before = as_json(one.state)
    with pytest.raises(ChangeConflict, match="changed while the merge"):
        apply_merge(one.engine, made, op="m")
    refused = made.model_copy(update={"refused": "no", "remedy": "Ask."})
    with pytest.raises(ComponentConflict, match="no"):
        apply_merge(one.engine, refused, op="m")
    assert as_json(one.state) == before


async def test_a_merge_into_another_definition_than_expected_is_refused() -> None:
    """The other run may have changed since the request, which was checked, too."""
    one, _, made = await pair()
    before, definition = as_json(one.state), hash_json(made.definition)
    with pytest.raises(ChangeConflict, match=f"leads to the definition {definition}"):
        apply_merge(one.engine, made, op="m", expect="another")
    assert as_json(one.state) == before
    refused = made.model_copy(update={"refused": "no", "remedy": "Ask."})
    with pytest.raises(ComponentConflict, match="no"):
        apply_merge(one.engine, refused, op="m", expect="another")
    apply_merge(one.engine, made, op="m", expect=definition)
    assert one.facts("RunMerged")


async def test_an_artifact_that_both_have_changed_is_refused() -> None:
    one, two, made = await pair()
    log, other = LogName("artifact:doc"), LogHead(head=hash_json("2"), length=2)
    part = two.state.model_copy(update={"messages": {log: other}})
    made = made.model_copy(update={"state": transferred_state(part)})
    mine = {**one.state.messages, log: LogHead(head=hash_json("1"), length=1)}
    one.engine.journal.state = one.state.model_copy(update={"messages": mine})
    before = as_json(one.state)
    with pytest.raises(ComponentConflict, match="both changed the artifact 'doc'"):
        apply_merge(one.engine, made, op="m")
    assert as_json(one.state) == before
    same = one.state.messages[log]
    made = made.model_copy(
        update={"state": transferred_state(part.model_copy(update={"messages": {log: same}}))}
    )
    apply_merge(one.engine, made, op="m")
    assert one.state.messages[log] == same


async def test_what_people_ruled_holds_for_those_who_lived_there() -> None:
    tools = {"t": {"run": "m:t"}}
    crews = (
        crew({"a": {"send": ["x"]}, "b": {"listen": ["x"]}}, tools=tools),
        crew({"c": {"listen": ["y"]}, "d": {"send": ["y"]}}, tools=tools),
    )
    one, two = await begin(crews[0], RUN), await begin(crews[1], OTHER)
    for sim in (one, two):
        await sim.settle()
    await one.command("set_permission", tool="t", agents=["a"])
    await two.command("set_permission", tool="t", agents=["d"])
    await two.command("set_permission", tool="t", agent="*", do="ask")
    made = prepared(one, two, crews, op="connect", sender="a", listener="c")
    apply_merge(one.engine, made, op="m")
    assert one.state.tool_permissions["t"] == ("a", "d")
    assert one.state.live_permissions == {"t": {"c": "ask", "d": "ask"}}


@pytest.mark.parametrize(
    ("together", "left"),
    [(False, 300), (True, 1000)],  # the stricter of both; what both had left
)
async def test_what_both_had_left_is_put_together_of_those_who_had_parted(
    left: int, *, together: bool
) -> None:
    limits = {"limits": {"tokens": 1000}}
    crews = crew({"a": {"listen": ["x"]}}, **limits), crew({"b": {"listen": ["y"]}}, **limits)
    one, two = await begin(crews[0], RUN), await begin(crews[1], OTHER)
    one.engine.journal.state = one.state.model_copy(update={"added_budgets": {"tokens": -700.0}})
    part = two.state.model_copy(update={"added_budgets": {"tokens": -300.0}})
    made = prepared(one, two, crews, op="connect", sender="a", listener="b").model_copy(
        update={"state": transferred_state(part), "adds_budgets": together}
    )
    apply_merge(one.engine, made, op="m")
    assert 1000 + one.state.added_budgets["tokens"] == left


@pytest.mark.parametrize("kin", [True, False])
async def test_quotas_that_are_called_otherwise_count_all_the_same(kin: bool) -> None:
    rule = {"tool": "t", "agents": ["a"], "quota": "9 per run"}
    more = {"tools": {"t": {"run": "m:t"}}, "rules": [rule]}
    crews = (
        crew({"a": {"listen": ["x"], "tools": ["t"]}}, **more),
        crew({"a": {"listen": ["y"], "tools": ["t"]}}, **more),
    )
    one, two = await begin(crews[0], RUN), await begin(crews[1], OTHER)
    (key,) = [each.key for each in lower(crews[0]).checks]
    one.engine.journal.state = one.state.model_copy(update={"quotas": {key: 4}})
    part = two.state.model_copy(update={"quotas": {key: 7}})
    made = prepared(one, two, crews, op="connect", sender="a", listener="a")
    ((was, now),) = made.quotas.items()
    assert was == key
    assert now != key
    made = made.model_copy(
        update={
            "state": transferred_state(part),
            "adds_budgets": kin,
        }
    )
    apply_merge(one.engine, made, op="m")
    assert one.state.quotas == {key: 4, now: 7}


async def test_usage_counts_once() -> None:
    one, two, made = await pair()
    part = two.state.model_copy(
        update={"usage": {AgentName("b"): Usage(calls=3)}, "quotas": {"k": 2, "l": 1}}
    )
    mine = {"usage": {AgentName("a"): Usage(calls=1)}, "quotas": {"k": 3}}
    one.engine.journal.state = one.state.model_copy(update=mine)
    apply_merge(one.engine, made.model_copy(update={"state": transferred_state(part)}), op="m")
    assert one.state.usage == {"a": Usage(calls=1), "b-2": Usage(calls=3)}
    assert one.state.quotas == {"k": 3, "l": 1}


def world(seed: int) -> CrewDefinition:
    rng = dice(f"union/{seed}")
    names = [f"c{n}" for n in range(rng.randint(2, 5))]

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
    return crew(agents, graph=graph, limits={"steps": 100_000})


@pytest.mark.parametrize("seed", range(30))
async def test_nothing_is_lost_and_nothing_is_there_twice(seed: int) -> None:
    """Runs with work under way become one, one after the other: all that was heard is worked on."""
    one_crew = world(3 * seed)
    one = await begin(one_crew, RUN, sending(seed, 30))
    begun, done = 0, 0
    for number in range(2):
        two_crew = world(3 * seed + number + 1)
        two = await begin(two_crew, OTHER, sending(seed + 100 * number, 30))
        for sim in (one, two):
            for text in ("one", "two"):
                await sim.command("message", text=text, to="channel:red")
            for _ in range(dice(seed + number).randint(1, 40)):
                await sim.round()
        await two.drain()
        made = prepared(one, two, (one_crew, two_crew), op="connect", sender="c0", listener="c1")
        apply_merge(one.engine, made, op=f"m{number}")
        one_crew = CrewDefinition.from_json(made.definition)
        begun += sum(two.state.visits.values())
        done += len(two.facts("StepCompleted"))
        for was, now in made.nodes.items():
            theirs = {s: e for s, e in two.state.frontier.items() if e.node == was}
            mine = [e for e in one.state.frontier.values() if e.node == now]
            assert len(mine) == len(theirs)
        assert as_json(folded(one.journal)) == as_json(one.state)
    await one.run(5000)
    assert not one.state.frontier
    here = [entry["step"] for entry in one.facts("StepCompleted")]
    assert len(here) == len({*here})
    assert done + len(here) == sum(one.state.visits.values())
    assert as_json(folded(one.journal)) == as_json(one.state)


async def test_a_name_that_was_here_before_is_counted_on() -> None:
    """Steps of one that went keep their names: those of another one do not get them."""
    crews = crew({"a": {"listen": ["x"]}}), crew({"b": {"listen": ["x"]}})
    one, two = await begin(crew(PAIR), RUN), await begin(crews[1], OTHER)
    for sim in (one, two):
        await sim.command("message", text="one", to="channel:x")
    await one.run()
    await one.change(lower(crews[0]))
    await two.settle()
    made = prepared(one, two, crews, op="connect", sender="a", listener="b")
    apply_merge(one.engine, made, op="m")
    assert [*one.state.frontier] == ["b#2"]
    await one.run()
    assert one.state.visits == {"a": 1, "b": 2}


@pytest.mark.parametrize("seed", range(30))
async def test_what_is_still_said_to_the_other_run_is_heard_by_those_who_came(seed: int) -> None:
    """By the names that it had there, whoever in the run that stays is called the same."""
    crews = world(3 * seed), world(3 * seed + 1)
    one, two = await begin(crews[0], RUN), await begin(crews[1], OTHER)
    made = prepared(one, two, crews, op="connect", sender="c0", listener="c1")
    before = lower(crews[1]).component
    assert before is not None
    apply_merge(one.engine, made, op="m")
    (fact,) = (entry_from_json(each) for each in one.facts("RunMerged"))
    assert isinstance(fact, RunMerged)
    names = new_names(fact.renames)
    logs = [f"channel:{name}" for name in CHANNELS] + [f"private:{name}" for name in before.agents]
    for number, log in enumerate(logs):
        there = renamed_log(log, fact.renames)
        channel = log.removeprefix("channel:")
        meant = before.listeners(channel) if channel != log else [log.removeprefix("private:")]
        if not meant:
            continue
        await one.command("message", text=f"{number}", to=there)
        heard = one.facts("AgentsWoken")[-1]
        nodes = {*heard.get("to", ()), *heard.get("also", ())}
        assert {one.engine.plan.nodes[node].agent for node in nodes} == {*map(names.agent, meant)}


async def test_the_fact_says_what_became_of_the_graphs_and_by_whom() -> None:
    """Those who were here are told of their wires; those who come have not started by that."""
    crews = (
        crew({"a": {"listen": ["x"]}}, graph={"root": "a"}, flags={"f": 1}),
        crew({"c": {"listen": ["y"]}}, flags={"g": 2, "h": 3}),
    )
    one, two = await begin(crews[0], RUN), await begin(crews[1], OTHER)
    part = two.state.model_copy(update={"flags": {"h": 4}})
    made = prepared(one, two, crews, op="wire", name="a", to="c")
    made = made.model_copy(update={"state": transferred_state(part)})
    apply_merge(one.engine, made, op="m", by="ana", reason="more hands")
    (fact,) = one.facts("RunMerged")
    assert (fact["at"], fact["merge"], fact["by"]) == (one.engine.at, "m", "ana")
    assert (fact["reason"], fact["what"]) == ("more hands", "other becomes part of it")
    assert (fact["old_graph_ids"], fact["new_graph_ids"]) == ([OTHER, RUN], [RUN])
    assert fact["events"] == [
        {"event": "OUTPUT_WIRE_ADDED", "agent": "a", "to": "c"},
        {"event": "CREATURE_SESSION_ATTACHED", "agent": "c", "to": OTHER},
    ]
    assert one.state.flags == {"f": 1, "g": 2, "h": 4}
    assert one.state.coordination_rules == one.engine.plan.rules


async def test_while_a_run_drains_for_a_change_no_merge_is_made() -> None:
    one, _, made = await pair()
    changing = PendingChange(command="c", graph_version=2, definition=one.state.definition)
    one.engine.journal.state = one.state.model_copy(update={"pending_change": changing})
    with pytest.raises(ChangeConflict, match="changed while the merge"):
        apply_merge(one.engine, made, op="m")


async def test_questions_get_numbers_of_this_run_and_are_asked_as_it_asks() -> None:
    one, two, made = await pair(asks)
    asked = {
        InterruptId(f"i{number}"): Interrupt(
            id=InterruptId(f"i{number}"),
            kind="step_failed",
            question=step,
            step=StepId(step),
            deadline=7,
            to=("eve",),
            escalated=True,
            position=3,
        )
        for number, step in ((4, "a#1"), (6, "b#1"))
    }
    part = two.state.model_copy(update={"interrupts": asked})
    one.engine.journal.state = one.state.model_copy(update={"interrupt_count": 2})
    apply_merge(one.engine, made.model_copy(update={"state": transferred_state(part)}), op="m")
    found = [
        (q.id, q.step, q.question, q.deadline, q.to, q.escalated)
        for q in one.state.interrupts.values()
    ]
    assert found == [
        ("i3", "a-2#1", "a#1", 0, (), False),
        ("i4", "b-2#1", "b#1", 0, (), False),
    ]
    assert one.state.interrupt_count == 4
    raised = one.facts("InterruptRaised")
    assert [fact["at"] for fact in raised] == [one.engine.at] * 2
    assert not any("position" in fact["interrupt"] for fact in raised)


async def test_an_artifact_goes_on_as_the_side_has_it_that_changed_it() -> None:
    one, two, made = await pair()
    log, old = LogName("artifact:doc"), LogHead(head=hash_json("1"), length=1)
    part = two.state.model_copy(update={"messages": {log: old}})
    mine = LogHead(head=hash_json("2"), length=2)
    one.engine.journal.state = one.state.model_copy(
        update={"messages": {**one.state.messages, log: mine}}
    )
    update = {"state": transferred_state(part), "artifact_heads": {log: old.head}}
    apply_merge(one.engine, made.model_copy(update=update), op="m")
    assert one.state.messages[log] == mine


@pytest.mark.parametrize(
    ("said", "ruled", "may"),
    [
        ((None, None), (None, None), None),
        ((["a"], None), (None, None), ("a", "c", "d")),
        ((None, ["c"]), (None, None), ("a", "b", "c")),
        ((None, None), (["b"], None), ("b", "c", "d")),
        ((None, None), (None, ["d"]), ("a", "b", "d")),
        ((["a"], ["c"]), (["a", "b"], None), ("a", "b", "c")),
        ((["a", "b"], ["c"]), (["a"], None), ("a", "c")),
        ((["a"], ["c", "d"]), (None, ["d"]), ("a", "d")),
        ((["a"], ["c"]), (["a", "b"], ["c", "d"]), ("a", "b", "c", "d")),
        ((["a"], ["c"]), (ALL, None), ("a", "b", "c")),
        ((["a"], ["c"]), (None, ALL), ("a", "c", "d")),
        ((None, []), (None, ALL), ("a", "b", "c", "d")),
        (([], None), (None, ["d"]), ("d",)),
    ],
)
async def test_who_may_call_a_tool_is_who_might_in_its_own_run(
    said: tuple[Any, Any], ruled: tuple[Any, Any], may: tuple[str, ...] | None
) -> None:
    agents: tuple[dict[str, Any], ...] = (
        {"a": {"send": ["x"]}, "b": {"listen": ["x"]}},
        {"c": {"listen": ["y"]}, "d": {"send": ["y"]}},
    )
    tools = {"t": {"run": "m:t"}}
    crews = tuple(
        crew(made, tools=tools, **({"permissions": {"t": row}} if row is not None else {}))
        for made, row in zip(agents, said, strict=True)
    )
    one, two = await begin(crews[0], RUN), await begin(crews[1], OTHER)
    for sim, row in zip((one, two), ruled, strict=True):
        await sim.settle()
        if row is not None:
            await sim.command("set_permission", tool="t", agents=None if row is ALL else row)
    made = prepared(one, two, (crews[0], crews[1]), op="connect", sender="a", listener="c")
    apply_merge(one.engine, made, op="m")
    assert one.state.tool_permissions.get("t") == may


async def test_who_comes_keeps_what_people_let_it() -> None:
    tools = {"t": {"run": "m:t"}}
    crews = (
        crew({"a": {"send": ["x"]}}, tools=tools, permissions={"t": ["a"]}),
        crew({"c": {"listen": ["y"]}, "d": {"send": ["y"]}}, tools=tools, permissions={"t": ["c"]}),
    )
    one, two = await begin(crews[0], RUN), await begin(crews[1], OTHER)
    for sim in (one, two):
        await sim.settle()
    await two.command("set_permission", tool="t", agents=["c", "d"])
    made = prepared(one, two, crews, op="connect", sender="a", listener="c")
    apply_merge(one.engine, made, op="m")
    assert one.state.tool_permissions["t"] == ("a", "c", "d")
    for name in ("c", "d"):
        assert one.engine.check(AgentName(name), "t").allowed


@pytest.mark.parametrize(
    ("said", "has", "may"),
    [
        (({"t": None}, {}), (True, True), {"t": None}),
        (({}, {}), (False, True), {"t": ("c", "d")}),
        (({}, {"t": ["c"]}), (False, True), {"t": ("c",)}),
        (({"t": ["a"]}, {}), (True, False), {"t": ("a",)}),
        (({}, {}), (True, False), {}),
    ],
)
async def test_nobody_gets_a_tool_that_only_the_other_run_has(
    said: tuple[Any, Any], has: tuple[bool, bool], may: dict[str, Any]
) -> None:
    agents: tuple[dict[str, Any], ...] = (
        {"a": {"send": ["x"]}, "b": {"listen": ["x"]}},
        {"c": {"listen": ["y"]}, "d": {"send": ["y"]}},
    )
    crews = tuple(
        crew(made, tools={"t": {"run": "m:t"}} if there else {}, permissions=rows)
        for made, rows, there in zip(agents, said, has, strict=True)
    )
    one, two = await begin(crews[0], RUN), await begin(crews[1], OTHER)
    made = prepared(one, two, (crews[0], crews[1]), op="connect", sender="a", listener="c")
    apply_merge(one.engine, made, op="m")
    assert one.state.tool_permissions == may
    if has == (True, False):
        tools = {name: one.engine.plan.agents[AgentName(name)].tools for name in "cd"}
        assert not any("t" in row for row in tools.values())


@pytest.mark.parametrize(
    ("row", "theirs", "may"),
    [
        (None, None, True),
        (None, [], True),
        (["b"], None, True),
        (["a"], None, False),
    ],
)
async def test_who_was_removed_here_ends_its_turn_beside_who_comes(
    row: list[str] | None, theirs: list[str] | None, may: bool
) -> None:
    """It calls what it might, is nobody who comes, and has what was kept aside if it comes back."""
    tools = {"t": {"run": "m:t"}}
    agents: dict[str, dict[str, Any]] = {"a": {"listen": ["x"]}, "b": {"listen": ["x"]}}

    def rows(named: list[str] | None, *there: str) -> dict[str, Any]:
        return {} if named is None else {"permissions": {"t": [n for n in named if n in there]}}

    whole = crew(agents, tools=tools, **rows(row, "a", "b"))
    rest = crew({"a": agents["a"]}, tools=tools, **rows(row, "a"))
    other = crew({"b": {"listen": ["y"]}, "c": {"listen": ["y"]}}, tools=tools, **rows(theirs, "c"))
    script = Replies({"b#1": [says("", "t"), says("", "t")]})
    one, two = await begin(whole, RUN, script), await begin(other, OTHER)
    for text in ("one", "two"):
        await one.command("message", text=text, to="channel:x")
    await one.settle()
    one.launch()
    await one.drain()
    await one.change(lower(rest))
    assert one.state.detached_turns == ("b#1",)
    before = one.engine.check(AgentName("b"), "t", StepId("b#1")).allowed
    assert before == (row != ["a"])
    gone = tuple(removed_agents(one.state, one.engine.plan.agents))
    edge = {"op": "connect", "sender": "a", "listener": "c"}
    made = prepared(one, two, (rest, other), gone=gone, **edge)
    apply_merge(one.engine, made, op="m")
    assert one.engine.check(AgentName("b"), "t", StepId("b#1")).allowed == may
    assert one.engine.check(AgentName("b-2"), "t").allowed == (theirs is None)
    assert (one.state.detached_turns, [*one.state.detached_steps]) == (("b#1",), ["b#2"])
    await one.run()
    returned = [
        fact.get("ok", True) for fact in one.facts("ToolCallCompleted") if fact["step"] == "b#1"
    ]
    assert returned == [may, may]
    assert [fact["step"] for fact in one.facts("StepCompleted")].count("b#1") == 1
    assert as_json(folded(one.journal)) == as_json(one.state)
