"""A budget of cost, and a model whose price is not known: people are asked once."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.usage import Usage
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, as_json, folded, run, says

OWN = Usage(calls=1, input_tokens=10, unpriced="openai:own")


async def ran(usage: Usage, **limits: Any) -> Simulation:
    script = Replies({f"{a}#1": [says("done", usage=usage)] for a in "abc"})
    return await run(plan_of(["a", "b", "c"], limits=limits), script)


async def test_people_are_asked_once_at_the_first_call_without_a_price() -> None:
    sim = await ran(OWN, cost=5)
    question = sim.asked()
    assert (question.kind, question.options) == ("budget", ("go on", "stop"))
    assert "'openai:own'" in question.question
    assert "limits.tokens" in question.detail
    assert len(sim.facts("ModelCallCompleted")) == 1
    await sim.answer("go on")
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran() == ["a#1", "b#1", "c#1"]
    assert len(sim.facts("InterruptRaised")) == 1
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_people_may_stop_there() -> None:
    sim = await ran(OWN, cost=5)
    await sim.answer("stop")
    await sim.run()
    assert (sim.state.status, len(sim.facts("ModelCallCompleted"))) == ("stopped", 1)


@pytest.mark.parametrize(
    ("usage", "limits"),
    [(Usage(calls=1), {"cost": 5}), (OWN, {}), (OWN, {"tokens": 1000})],
)
async def test_nobody_is_asked_where_nothing_is_missed(usage: Usage, limits: Any) -> None:
    sim = await ran(usage, **limits)
    assert sim.state.status == "completed"
    assert not sim.facts("InterruptRaised")


async def test_the_budget_itself_is_still_asked_about() -> None:
    sim = await ran(OWN.model_copy(update={"cost": 3.0}), cost=5)
    await sim.answer("go on")
    await sim.run()
    assert "cost $6, its limit" in sim.asked().question
