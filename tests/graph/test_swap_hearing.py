"""Another graph under a run whose agents hear: a phase and a node of its name are two things."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.errors import CommandRejected
from crewlog.graph.plan import GraphPlan
from crewlog.graph.swap import live_change
from crewlog.ids import CommandId
from crewlog.state.calls import PrepareChangeResult
from graph.simulation import Replies, Simulation, says
from graph.test_listening import creatures
from graph.test_swap import fates, statuses

AGENTS: dict[str, Any] = {"ann": {}, "scout": {"listen": ["x"]}, "bob": {}}


def plan(*flow: Any) -> GraphPlan:
    return creatures(AGENTS, flow=[*flow])


async def begun(flow: GraphPlan, messages: int, *ended: str) -> Simulation:
    """A run whose first phase works, in which scout hears so many messages."""
    sim = await Simulation.begin(flow, Replies({"ann#1": [says("wait", "set_flag")]}))
    await sim.settle()
    for number in range(messages):
        await sim.command("message", text=str(number), to="channel:x")
    await sim.settle()
    sim.launch()
    await sim.finish(*ended)
    return sim


async def test_who_has_heard_nothing_may_be_a_phase_of_its_name() -> None:
    sim = await begun(plan("ann"), 0)
    await sim.change(plan("ann", "scout", "bob"))
    await sim.command("message", text="now", to="channel:x")
    await sim.run()
    assert sorted(sim.ran()) == ["ann#1", "bob#1", "scout#1", "scout.inbox#1"]


@pytest.mark.parametrize("ended", [(), ("scout#1",)])
async def test_who_has_heard_may_be_none_whose_phase_would_count_as_done(ended: Any) -> None:
    sim = await begun(plan("ann"), 1, *ended)
    with pytest.raises(CommandRejected, match="'scout' cannot be a phase from now on") as refused:
        await sim.change(plan("ann", "scout", "bob"))
    assert refused.value.remedy == "Give the phase another name: phase: NAME"
    assert sim.state.pending_change is None
    await sim.change(plan("ann", {"agent": "scout", "phase": "search"}, "bob"))
    await sim.run()
    assert sorted(sim.ran()) == ["ann#1", "bob#1", "scout#1", "search#1"]


async def test_what_is_said_before_the_swap_keeps_it_from_being() -> None:
    sim = await begun(plan("ann"), 0)
    prepared = PrepareChangeResult(plan=plan("ann", "scout").to_json())
    report, made = live_change.change_report(sim.engine, prepared)
    live_change.accept_change(sim.engine, made, report, what="more", command=CommandId("c1"))
    await sim.command("message", text="meanwhile", to="channel:x")
    swapped = live_change.swap(sim.engine)
    assert swapped.engine is sim.engine
    assert swapped.error is None, "it is nothing for who reads the log of a worker"
    (failed,) = sim.facts("SwapFailed")
    assert failed["error"] == (
        "'scout' cannot be a phase from now on: messages started steps of 'scout' there. "
        "Give the phase another name: phase: NAME"
    )
    await sim.run()
    assert sorted(sim.ran()) == ["ann#1", "scout#1"]


async def test_who_still_has_to_hear_stays_where_it_hears() -> None:
    """Its phase goes out of the flow: from then on it hears at another node."""
    sim = await begun(plan("ann", "scout", "bob"), 2)
    with pytest.raises(CommandRejected, match="it has 2 unfinished steps there") as no:
        await sim.change(plan("ann", "bob"))
    assert no.value.remedy.startswith("Send the change once these have ended")
    await sim.finish("scout.inbox#1")
    sim.launch()
    await sim.settle()
    sim.launch()
    await sim.finish("scout.inbox#2")
    await sim.change(plan("ann", "bob"))
    await sim.command("message", text="more", to="channel:x")
    await sim.run()
    assert sorted(sim.ran()) == ["ann#1", "bob#1", "scout#1", "scout.inbox#1", "scout.inbox#2"]
    assert not sim.state.detached_steps


async def test_a_phase_that_goes_takes_no_turn_where_its_agent_hears() -> None:
    sim = await Simulation.begin(plan("ann", "scout", "bob"))
    await sim.settle()
    sim.launch()
    await sim.drain()
    assert statuses(sim) == {"scout#1": "ready"}
    report = await sim.change(plan("ann", "bob"))
    assert fates(report)["scout#1"] == "detached"
    await sim.command("message", text="now", to="channel:x")
    await sim.run()
    assert sorted(sim.ran()) == ["ann#1", "bob#1", "scout#2"]


async def test_a_phase_that_goes_in_mid_turn_gives_its_agent_no_turn_for_nothing() -> None:
    script = Replies({"scout#1": [says("wait", "set_flag")]})
    sim = await Simulation.begin(plan("ann", "scout", "bob"), script)
    await sim.finish("ann#1", "scout#1")
    report = await sim.change(plan("ann", "bob"))
    assert fates(report) == {"scout#1": "finishes", "bob#1": "starts"}
    await sim.run()
    assert sorted(sim.ran()) == ["ann#1", "bob#1", "scout#1"]


SCOUT: dict[str, Any] = {"ann": {"listen": ["y"]}, "scout": {"listen": ["x"]}}


async def comes_back(
    flow: dict[str, Any], ended: int, stopped: bool, messages: int
) -> tuple[Simulation, dict[str, str]]:
    """Scout is removed while turns of it wait, and is added again; and what became of its steps.

    The first message is what it is at work for, where it is not stopped.
    """
    crew = creatures(SCOUT, **flow)
    sim = await Simulation.begin(crew, Replies({"ann#1": [says("wait", "set_flag")]}))
    await sim.settle()
    for number in range(1, ended + 1):
        await sim.command("message", text=f"heard {number}", to="channel:x")
        await sim.settle()
        sim.launch()
        await sim.finish(f"scout#{number}")
    if stopped:
        still = {**SCOUT["scout"], "enabled": False}
        await sim.change(creatures({**SCOUT, "scout": still}, **flow))
    for number in range(messages):
        await sim.command("message", text=f"waits {number}", to="channel:x")
    await sim.settle()
    gone = await sim.change(creatures({"ann": SCOUT["ann"]}, **flow))
    assert [*fates(gone).values()].count("detached") == messages - (not stopped)
    back = await sim.change(crew)
    return sim, {step: fate for step, fate in fates(back).items() if step.startswith("scout")}


@pytest.mark.parametrize("flow", [{}, {"flow": ["ann"]}])
@pytest.mark.parametrize("ended", [0, 1])
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("messages", [1, 2, 4])
async def test_who_comes_back_has_each_turn_again_that_waited_for_it_once(
    flow: dict[str, Any], ended: int, stopped: bool, messages: int
) -> None:
    sim, back = await comes_back(flow, ended, stopped, messages)
    last = ended + messages
    assert back == {f"scout#{n}": "returns" for n in range(ended + 1, last + 1)}
    said = [entry["body"] for entry in sim.facts("AgentsWoken") if "scout" in entry["to"]]
    found = {
        step: e.waking_message.body
        for step, e in sim.state.frontier.items()
        if e.waking_message is not None
    }
    assert found == {f"scout#{n}": said[n - 1] for n in range(ended + 1, last + 1)}
    await sim.command("message", text="more", to="channel:x")
    await sim.run()
    ran = [step for step in sim.ran() if step.startswith("scout")]
    assert ran == [f"scout#{n}" for n in range(1, last + 2)], "each once, and in their order"
