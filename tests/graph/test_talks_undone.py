"""Turns that are not ended as they began: rollbacks, forks, redirects and swaps in their middle."""

from __future__ import annotations

import pytest

from crewlog.graph.restore import fork, roll_back
from crewlog.ids import RunId
from crewlog.state.model import CrewState
from graph.simulation import Simulation, as_json, folded
from graph.test_talks import routed, say, talk, talk_plan, turns


async def begun(text: str = "And now?", *, queue: int = 2) -> tuple[Simulation, CrewState, str]:
    """A conversation in its second turn, the state between the two, and the message."""
    sim = await talk(talk_plan(conversation={"queue": queue}), "billing", "general")
    rested = sim.state
    incoming = await sim.command("message", text=text)
    await sim.settle()
    sim.launch()
    assert incoming.error is None
    assert not sim.state.is_conversation_idle
    return sim, rested, str(incoming.data["id"])


def back(sim: Simulation, then: CrewState) -> None:
    roll_back(sim.engine, then.position, then, sim.engine.plan, by="eve")
    sim.flights.clear()


@pytest.mark.parametrize("restored", [False, True])
async def test_the_message_of_a_turn_that_a_rollback_undoes_waits_again(restored: bool) -> None:
    sim, rested, second = await begun(queue=1)
    third = (await sim.command("message", text="And then?")).data["id"]
    back(sim, rested)
    assert [said.command for said in sim.state.message_queue] == [
        second,
        third,
    ]  # one more than may wait
    if restored:
        await sim.restore()
    await sim.run()
    assert turns(sim) == [(1, "input", "billing"), (3, second, "billing"), (4, third, "general")]
    bodies = {e["command"]: e["ref"]["body"] for e in sim.facts("MessageAdded") if "command" in e}
    again = [e["ref"]["body"] for e in sim.facts("MessageAdded")][-2]
    assert again == bodies[second]
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_a_rollback_within_a_turn_goes_on_with_its_message() -> None:
    sim, _, second = await begun()
    there = sim.state
    await sim.land(next(iter(sim.flights)))
    back(sim, there)
    assert sim.state.message_queue == ()
    await sim.run()
    assert turns(sim)[-1][:2] == (2, second)
    assert len(sim.facts("ExchangeStarted")) == 2


async def test_a_rollback_over_turns_that_were_answered_says_nothing_again() -> None:
    sim = await talk(talk_plan(), "billing", "general")
    rested = sim.state
    await say(sim)
    back(sim, rested)
    await sim.run()
    assert sim.state.is_conversation_idle
    assert [each[0] for each in turns(sim)] == [1, 2]


async def test_a_rollback_into_an_earlier_turn_ends_that_and_then_the_undone_one() -> None:
    sim = await Simulation.begin(talk_plan(), routed(["billing"]))
    await sim.settle()
    first = sim.state
    await sim.run()
    second = (await sim.command("message", text="And now?")).data["id"]
    await sim.settle()
    back(sim, first)
    await sim.run()
    ended = [(e["exchange"], e.get("agent")) for e in sim.facts("ExchangeEnded")]
    assert ended == [(1, "billing"), (1, "billing"), (3, "billing")]
    assert sim.facts("ExchangeStarted")[-1]["message_command"] == second


async def test_a_fork_in_mid_turn_answers_its_message_once() -> None:
    sim, _, second = await begun()
    then = CrewState.from_json(sim.state.to_json())
    other = Simulation.begin(sim.engine.plan, routed(["billing"]))
    forked = await other
    forked.engine = fork(sim.engine.plan, then, RunId("other"), by="eve", at=9)
    await forked.run()
    assert forked.state.is_conversation_idle
    assert forked.state.conversation is not None
    assert forked.state.conversation.last is not None
    assert forked.state.conversation.last.message == second
    await sim.run()
    assert turns(sim)[-1][:2] == (2, second)


async def test_a_redirect_and_another_graph_in_mid_turn_leave_it_an_answer() -> None:
    sim, _, second = await begun()
    await sim.command("redirect", node="billing", cut=True)
    sim.flights.clear()
    await sim.run()
    assert turns(sim)[-1] == (2, second, "billing")
    third = (await sim.command("message", text="And then?")).data["id"]
    await sim.settle()
    sim.launch()
    await sim.change(talk_plan(agents={"audit": {}}, flow=["router", "audit"]))
    await sim.run()
    assert turns(sim)[-1] == (3, third, "audit")
