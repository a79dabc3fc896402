"""Another graph under a living run: each rule by itself."""

from __future__ import annotations

from typing import Any

from crewlog.graph.plan import GraphPlan
from crewlog.graph.swap import SwapReport
from graph.crews import flutter, plan_of
from graph.simulation import Replies, Simulation, returns, says


async def begun(plan: GraphPlan, script: Any = None, *ended: str, **more: Any) -> Simulation:
    """A run in which these steps have made one call each; the others that may run are at work."""
    sim = await Simulation.begin(plan, *(() if script is None else (script,)), **more)
    await sim.settle()
    sim.launch()
    await sim.finish(*ended)
    return sim


def fates(report: SwapReport) -> dict[str, str]:
    return {fate.step: fate.fate for fate in report.steps}


def statuses(sim: Simulation) -> dict[str, str]:
    return {step: entry.status for step, entry in sim.state.frontier.items()}


def working(*steps: str) -> Replies:
    """These take two model calls and a tool: a change finds them in mid-turn."""
    return Replies({step: [says("wait", "set_flag")] for step in steps})


# -- the story of the Flutter app ------------------------------------------------------------


def without_backend(**audio: Any) -> GraphPlan:
    return plan_of(
        ["ui_designer", "aggregator", {"agent": "audio", "when": "models_ready"} | audio],
        flags={"ok": False, "models_ready": False},
    )


async def test_without_backend_the_aggregator_goes_on_and_audio_asks_for_what_it_requires() -> None:
    sim = await begun(flutter(), working("backend#1"))
    report = await sim.change(without_backend(), abandon=True)
    assert report.removed == ("backend",)
    assert fates(report) == {"ui_designer#1": "kept", "backend#1": "abandoned"}
    (found,) = report.blocked
    assert found.node == "audio"
    assert found.requirement == "models_ready"
    assert found.because == "only backend sets models_ready, and will not run"
    assert found.then == "people are asked"
    await sim.run()
    assert sim.ran() == ["ui_designer#1", "backend#1", "aggregator#1"]
    asked = sim.asked()
    assert asked.kind == "requirement"
    assert "models_ready" in asked.question
    await sim.respond("set")
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran()[-1] == "audio#1"


async def test_without_backend_audio_takes_its_alternative() -> None:
    sim = await begun(flutter(), working("backend#1"))
    report = await sim.change(without_backend(**{"else": "skip"}), abandon=True)
    assert [found.then for found in report.blocked] == ["it is skipped"]
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran() == ["ui_designer#1", "backend#1", "aggregator#1"]


async def test_backend_ends_its_turn_and_still_sets_what_audio_waits_for() -> None:
    replies = {"backend#1": [says("ready", "set_flag")]}
    script = Replies(replies, {"set_flag": returns(flags={"models_ready": True})})
    sim = await begun(flutter(), script)
    report = await sim.change(without_backend())
    assert fates(report) == {"ui_designer#1": "kept", "backend#1": "leaves"}
    assert report.blocked == ()
    await sim.run()
    assert sim.state.status == "completed"
    assert set(sim.ran()) == {"ui_designer#1", "backend#1", "aggregator#1", "audio#1"}
    assert sim.state.flags["models_ready"] is True
    assert [e["source"] for e in sim.facts("Routed") if "source" in e].count("backend") == 0
