"""Conversations: each message gets one turn and one answer, in order, whatever else happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from crewlog.definition.validate import warnings
from crewlog.errors import CommandRejected, ConversationBusy, InvalidDefinition
from crewlog.graph.plan import GraphPlan
from crewlog.graph.restore import fork, roll_back
from crewlog.graph.run_context import CallRequest
from crewlog.ids import RunId
from crewlog.state.calls import OutputValue
from crewlog.state.model import CrewState
from graph.crews import crew, plan_of
from graph.simulation import (
    Failure,
    Outcome,
    Simulation,
    as_json,
    dice,
    final,
    folded,
    returns,
    says,
)

HUB: list[Any] = [
    "router",
    {"route": "router.next", "to": ["billing", "general"]},
    {"agent": "billing", "after": "go"},
    {"agent": "general", "after": "go"},
]


def talk_plan(flow: Sequence[Any] = HUB, **more: Any) -> GraphPlan:
    agents = {"router": {"outputs": ["next"]}, "billing": {"on_error": "continue"}}
    agents |= more.pop("agents", {})
    return plan_of(list(flow), agents, conversation=more.pop("conversation", {}), **more)


def routed(ways: Sequence[str]) -> Any:
    """The router names these in turn; whoever answers says its step."""

    def script(order: CallRequest) -> Outcome:
        visit = int(str(order.step).rpartition("#")[2])
        if order.agent != "router":
            return final(order)
        if order.call.tool:
            value = ways[(visit - 1) % len(ways)]
            return returns(outputs=(OutputValue(key="next", value=value),) if value else ())
        return says("", "set_output") if order.call.call == 1 else says("there")

    return script


async def talk(plan: GraphPlan, *ways: str, **more: Any) -> Simulation:
    sim = await Simulation.begin(plan, routed(ways or ("billing",)), **more)
    return await sim.run()


def turns(sim: Simulation) -> list[tuple[int, str, str]]:
    """The turns: number, whose message, and who answered."""
    began = {e["exchange"]: e.get("message_command", "") for e in sim.facts("ExchangeStarted")}
    return [
        (e["exchange"], began[e["exchange"]], e.get("agent", ""))
        for e in sim.facts("ExchangeEnded")
    ]


async def say(sim: Simulation, text: str = "And now?") -> str:
    incoming = await sim.command("message", text=text)
    assert incoming.error is None, incoming.error
    await sim.run()
    return str(incoming.data["id"])


async def test_each_message_is_a_turn() -> None:
    sim = await talk(talk_plan(), "billing", "general")
    assert sim.state.status == "running"
    assert sim.state.is_conversation_idle
    second = await say(sim)
    assert turns(sim) == [(1, "input", "billing"), (2, second, "general")]
    assert sim.ran() == ["router#1", "billing#1", "router#2", "general#1"]
    assert sim.state.execution_count == {"general": 1}
    assert sim.state.conversation is not None
    assert sim.state.conversation.last is not None
    assert sim.state.conversation.last.agent == "general"
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_what_was_set_in_an_earlier_turn_sends_nobody() -> None:
    sim = await talk(talk_plan(), "billing", "")
    await say(sim)
    assert sim.ran() == ["router#1", "billing#1", "router#2"]
    (refused,) = sim.facts("BranchTargetRefused")
    assert refused["because"] == "router.next was not set"
    apology = sim.facts("ExchangeEnded")[-1]["ref"]["inline"]["content"]
    assert apology == "Sorry, I have no answer to that."


BACK = {"if": "router.next == 'billing'", "go": "router", "phase": "back"}


def around(*last: Any, at_most: int = 1) -> list[Any]:
    """A flow that comes back to its router."""
    way = {"route": "router.next", "to": ["billing"], "at_most": at_most}
    return ["router", way, {"agent": "billing", "after": "go"}, *last]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ({**BACK, "at_most": 9}, "router.next is 'billing', and the run went to billing once"),
        ({**BACK, "at_most": 1, "else": "end"}, "back went to router 1 times, which is the most"),
        ({**BACK, "at_most": 1, "else": "next"}, "back went to router 1 times, which is the most"),
    ],
)
async def test_a_bound_that_is_used_up_is_told_with_the_answer(last: Any, said: str) -> None:
    flow = around(last, at_most=1 if last["at_most"] == 9 else 5)
    sim = await talk(talk_plan(flow), "billing", "billing", "")
    (ended,) = sim.facts("ExchangeEnded")
    assert ended["agent"] == "billing"
    assert not ended.get("error")
    assert ended["warning"].startswith(f"A limit was reached: {said}")
    assert sim.state.conversation is not None
    assert sim.state.conversation.last is not None
    assert sim.state.conversation.last.warning == ended["warning"]
    await say(sim)
    assert "warning" not in sim.facts("ExchangeEnded")[-1], "it was of the turn before"
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_who_was_cut_off_is_told_with_the_answer() -> None:
    rules = {"billing": {"max_calls": 2, "on_cap": "end"}}

    def script(order: CallRequest) -> Outcome:
        if order.agent != "billing":
            return hub(order)
        return returns() if order.call.tool else says("So far.", "set_output")

    hub = routed(["billing"])
    sim = await (await Simulation.begin(talk_plan(agents=rules), script)).run()
    (ended,) = sim.facts("ExchangeEnded")
    assert ended["agent"] == "billing"
    assert ended["warning"] == (
        "A limit was reached: billing was cut off, since 2 model calls are its most."
    )


async def test_an_agent_that_fails_still_gives_the_user_an_answer() -> None:
    def script(order: CallRequest) -> Outcome:
        return Failure("the desk is closed") if order.agent == "billing" else hub(order)

    hub = routed(["billing", "general"])
    sim = await (await Simulation.begin(talk_plan(), script)).run()
    assert sim.state.error == "the desk is closed"
    (ended,) = sim.facts("ExchangeEnded")
    assert ended["error"] == "the desk is closed"
    # Every agent reads the answer; what one failed with may be for that one alone.
    assert ended["ref"]["inline"]["content"] == "Sorry, I have no answer to that."
    await say(sim)
    assert sim.state.error == ""
    assert turns(sim)[-1][2] == "general"


@pytest.mark.parametrize("where", ["agent", "route"])
async def test_what_fails_a_run_fails_only_the_turn(where: str) -> None:
    flow: list[Any] = [*HUB]
    flow[1] = {**flow[1], "else": "fail"}
    plan = talk_plan(flow, agents={"billing": {"on_error": "fail"}})

    def script(order: CallRequest) -> Outcome:
        if where == "agent" and order.step == "billing#1":
            return Failure("the desk is closed")
        return hub(order)

    hub = routed(["billing" if where == "agent" else "nowhere", "billing"])
    sim = await (await Simulation.begin(plan, script)).run()
    assert sim.state.is_conversation_idle
    assert ("desk" if where == "agent" else "nowhere") in sim.state.error
    await say(sim)
    assert turns(sim)[-1][2] == "billing"


async def test_the_answer_is_of_the_first_that_is_to_respond() -> None:
    flow = ["a", "b", "c"]
    for respond, agent in (([], "c"), (["b", "a"], "b"), (["nobody_yet", "a"], "a")):
        plan = talk_plan([*flow, {"agent": "nobody_yet", "only_if": "ok"}], agents={},
                         conversation={"respond": respond})  # fmt: skip
        sim = await (await Simulation.begin(plan)).run()
        assert turns(sim)[0][2] == agent


async def test_messages_during_a_turn_wait_and_are_answered_in_order() -> None:
    sim = await Simulation.begin(talk_plan(conversation={"queue": 2}), routed(["billing"]))
    await sim.settle()
    sim.launch()
    sent = [await sim.command("message", text=f"{n}") for n in range(3)]
    assert [each.error is None for each in sent] == [True, True, False]
    assert isinstance(sent[2].error, ConversationBusy)
    assert sim.facts("CommandRejected")[0]["error_type"] == "ConversationBusy"
    assert [said.command for said in sim.state.message_queue] == ["cmd1", "cmd2"]
    await sim.restore()
    sim.flights.clear()
    await sim.run()
    assert [each[:2] for each in turns(sim)] == [(1, "input"), (2, "cmd1"), (3, "cmd2")]
    assert sim.state.message_queue == ()
    said = [e["ref"]["body"] for e in sim.facts("MessageAdded")]
    assert len(said) == len(set(said)) == 3


@pytest.mark.parametrize("seed", range(40))
async def test_each_message_gets_one_turn_and_one_answer_in_order(seed: int) -> None:
    rng = dice(f"talk/{seed}")

    def script(order: CallRequest) -> Outcome:
        unlucky = dice(f"{seed}/{order.step}/{order.call.call}").random() < 0.1
        if unlucky and order.call.attempt == 1:
            return Failure("bad luck")
        return hub(order)

    hub = routed([rng.choice(["billing", "general", "nowhere", ""]) for _ in range(7)])
    plan = talk_plan(agents={"general": {"on_error": "fail"}, "router": {"outputs": ["next"],
                     "on_error": "continue"}})  # fmt: skip
    sim = await Simulation.begin(plan, script, seed=seed)
    sent = ["input"]
    for _ in range(60):
        if rng.random() < 0.3 and len(sent) < 12:
            incoming = await sim.command("message", text=f"message {len(sent)}")
            assert incoming.error is None
            sent.append(incoming.data["id"])
        if rng.random() < 0.1:
            await sim.drain()
            await sim.restore()
        if rng.random() < 0.1:
            await sim.command(rng.choice(["pause", "resume"]))
        await sim.settle()
        sim.launch()
        if sim.flights:
            await sim.land(rng.choice(list(sim.flights)))
    if sim.state.status == "paused":
        await sim.command("resume")
    await sim.run()
    assert sim.state.is_conversation_idle
    assert [each[:2] for each in turns(sim)] == list(enumerate(sent, 1))
    began = [e for e in sim.journal if e["kind"] in ("ExchangeStarted", "ExchangeEnded")]
    assert [e["kind"] for e in began] == ["ExchangeStarted", "ExchangeEnded"] * len(sent)
    assert all(e.get("response") or e.get("ref") for e in sim.facts("ExchangeEnded"))
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_it_waits_for_the_first_message_where_it_was_started_with_none() -> None:
    sim = await Simulation.begin(talk_plan(), routed(["billing"]))
    sim.engine = await type(sim.engine).begin(talk_plan(), RunId("sim"), input_text="", by="", at=1)
    await sim.run()
    assert sim.state.is_conversation_idle
    assert not sim.ran()
    await say(sim)
    assert [e["exchange"] for e in sim.facts("ExchangeEnded")] == [0, 1]


async def test_it_ends_where_nobody_says_anything_for_long_enough() -> None:
    sim = await Simulation.begin(talk_plan(conversation={"idle": "30m"}), routed(["billing"]))
    sim.timers = False
    await sim.run()
    due = sim.engine.timers.next_deadline()
    assert due == sim.facts("ExchangeEnded")[0]["at"] + 30 * 60_000
    await say(sim)
    assert sim.engine.timers.next_deadline() != due
    sim.ring()
    await sim.settle()
    assert sim.state.status == "completed"
    assert sim.facts("RunCompleted")[0]["exchanges"] == 2


async def test_it_ends_where_the_crew_says_so() -> None:
    flow = ["a"]
    plan = talk_plan(flow, agents={"a": {"writes_flags": ["bye"]}},
                     conversation={"ends_on": ["bye"]})  # fmt: skip

    def script(order: CallRequest) -> Outcome:
        if order.call.tool:
            return returns(flags={"bye": True})
        last = order.step == "a#2" and order.call.call == 1
        return says("", "set_flag") if last else final(order)

    sim = await (await Simulation.begin(plan, script)).run()
    assert sim.state.is_conversation_idle
    await sim.command("message", text="Bye.")
    await sim.run()
    assert sim.state.status == "completed"
    refused = await sim.command("message", text="Still there?")
    assert "has ended" in str(refused.error)


async def test_lists_that_steps_add_to_begin_anew_with_each_turn() -> None:
    plan = talk_plan(["a"], agents={}, merge={"a.text": "append"})
    sim = await (await Simulation.begin(plan)).run()
    await say(sim)
    assert (
        len(sim.state.agent_outputs[plan.nodes[next(iter(plan.nodes))].agent]["text"].elements) == 1
    )  # type: ignore[index]


async def test_going_back_takes_up_the_turn_of_then_and_numbers_go_on() -> None:
    sim = await talk(talk_plan(), "billing", "general")
    first = sim.state
    await say(sim)
    engine = sim.engine
    roll_back(engine, first.position, first, engine.plan, by="eve")
    assert engine.state.is_conversation_idle
    assert engine.state.exchanges == 2
    third = await say(sim)
    assert turns(sim)[-1][:2] == (3, third)
    assert sim.ran()[-1] == "billing#2"  # visits go on, too: router#3 names billing again


async def test_a_fork_goes_on_by_itself() -> None:
    sim = await talk(talk_plan(), "billing")
    then = CrewState.from_json(sim.state.to_json())
    other = fork(sim.engine.plan, then, RunId("other"), by="eve", at=9)
    sim.engine = other
    assert other.state.is_conversation_idle
    assert other.state.exchanges == 1
    await say(sim)
    assert other.state.exchanges == 2
    assert other.state.conversation is not None
    assert other.state.conversation.exchange == 2


async def test_another_graph_between_two_turns_starts_nothing() -> None:
    sim = await talk(talk_plan(), "billing", "audit")
    more = talk_plan([
        {"agent": "clerk", "after": []},
        "router",
        {"route": "router.next", "to": ["billing", "general", "audit"]},
        {"agent": "billing", "after": "go"},
        {"agent": "general", "after": "go"},
        {"agent": "audit", "after": "go"},
        {"agent": "archive", "after": "billing"},
    ])  # fmt: skip
    report = await sim.change(more)
    assert report.swap
    assert not report.steps
    await sim.run()
    assert sim.state.is_conversation_idle
    assert len(sim.facts("ExchangeEnded")) == 1
    await say(sim)
    assert sim.ran()[-3:] == ["clerk#1", "router#2", "audit#1"]


async def test_a_change_may_make_an_ordinary_run_of_it() -> None:
    sim = await talk(talk_plan(), "billing")
    plan = talk_plan()
    await sim.change(plan.model_copy(update={"conversation": None}))
    await sim.settle()
    assert sim.state.status == "completed"


async def test_who_stops_it_is_not_kept_waiting() -> None:
    sim = await talk(talk_plan(), "billing")
    await sim.command("stop")
    refused = await sim.command("message", text="Wait!")
    assert isinstance(refused.error, CommandRejected)
    await sim.settle()
    assert sim.state.status == "stopped"


async def test_the_steps_of_a_turn_are_bounded_and_not_those_of_the_session() -> None:
    sim = await talk(talk_plan(limits={"steps": 3}), "billing")
    for _ in range(3):
        await say(sim)
    assert len(turns(sim)) == 4
    assert not sim.state.interrupts


def test_what_is_wrong_with_a_conversation_is_told() -> None:
    with pytest.raises(InvalidDefinition) as told:
        talk_plan(conversation={"respond": ["biling"], "ends_on": ["done"]})
    text = str(told.value)
    assert "'respond' names the agent 'biling'" in text
    assert "Did you mean 'billing'?" in text
    assert "nobody writes the flag 'done'" in text
    agents = {"a": {}, "b": {"writes": ["readers:a"]}}
    (found,) = warnings(crew(["a", "b"], agents, conversation={"respond": ["a", "b"]}))
    assert "'b' is to answer, and writes for a" in found.message


def _size(state: CrewState) -> int:
    return len(as_json(state))


async def test_fifty_turns_carry_no_more_than_ten() -> None:
    sim = await talk(talk_plan(), "billing", "general")
    sizes: Mapping[int, int] = {}
    for turn in range(2, 121):
        await say(sim)
        sizes = {**sizes, turn: _size(sim.state)}
    # Numbers get longer, and the outcomes of commands are kept up to a bound.
    assert sizes[120] - sizes[110] < 60
