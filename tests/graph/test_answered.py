"""The words of responses, as the execution that made them tells them, whoever gave the answer."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.graph.plan import GraphPlan
from crewlog.graph.restore import roll_back
from crewlog.ids import AgentName
from crewlog.wire import Response
from crewlog.workflows.conversation import Responses
from graph.crews import plan_of
from graph.simulation import Outcome, Script, Simulation, final, returns, says
from graph.test_talks import routed, talk_plan


async def told(plan: GraphPlan, script: Script) -> tuple[Simulation, Responses]:
    """A conversation after its first turn, and its responses."""
    responses, sims = Responses(), list[Simulation]()

    def noted(order: Any) -> Outcome:
        result = script(order)
        if not order.call.tool and sims:
            responses.update(sims[0].engine)
            responses.add_message(result)  # type: ignore[arg-type]
        return result

    sims.append(await Simulation.begin(plan, noted))
    return await sims[0].run(), responses


def last(sim: Simulation, responses: Responses) -> Response:
    reply = responses.last(sim.engine)
    assert reply is not None
    return reply


async def test_the_words_of_a_turn_that_reached_its_bound_are_known() -> None:
    plan = plan_of(["a"], {"a": {"tools": ["look"], "max_calls": 1, "on_cap": "end"}},
                   tools={"look": {"run": "x:y"}}, conversation={})  # fmt: skip
    sim, responses = await told(
        plan, lambda order: returns() if order.call.tool else says("Half of it.", "look")
    )
    assert last(sim, responses).text == "Half of it."


async def test_the_words_of_an_agent_without_a_model_are_known() -> None:
    plan = plan_of(["a"], {"a": {"does": ["look"]}}, tools={"look": {"run": "x:y"}},
                   conversation={})  # fmt: skip
    sim, responses = await told(plan, lambda _: returns("All is well."))
    assert (last(sim, responses).agent, last(sim, responses).text) == ("a", "All is well.")


async def test_what_is_carried_is_not_looked_at_again() -> None:
    """An execution that begins with entries of the one before knows their words from it alone."""
    sim, responses = await told(talk_plan(), routed(["billing"]))
    before = last(sim, responses)
    assert before.text
    state = sim.state
    carried = Responses(Response.from_json(responses.carry(sim.engine)), "input", state.position)
    assert carried.last(sim.engine) == before
    assert carried.response_to(sim.engine, "input") == before


async def test_the_turn_that_a_rollback_goes_back_to_answers_its_own_message() -> None:
    sim, responses = await told(talk_plan(), routed(["billing"]))
    first = await Simulation.begin(talk_plan(), routed(["billing"]))
    await first.settle()
    second = (await sim.command("message", text="And now?")).data["id"]
    await sim.settle()
    roll_back(sim.engine, first.state.position, first.state, sim.engine.plan, by="eve")
    sim.flights.clear()
    assert responses.response_to(sim.engine, second) is None  # it waits again
    await sim.run()
    replies = [responses.response_to(sim.engine, each) for each in ("input", second)]
    assert [each.exchange for each in replies if each is not None] == [1, 3]


@pytest.mark.parametrize(
    ("writes", "respond", "agent"),
    [
        ([], [], "a"),
        (["readers:a"], [], "a"),
        ([], ["b"], "b"),
        (["group:g"], [], "b"),
    ],
)
async def test_who_writes_for_nobody_answers_only_where_it_is_said(
    writes: list[str], respond: list[str], agent: str
) -> None:
    agents = {"a": {"reads": ["public", "group:g"]}, "b": {"writes": writes}}
    plan = plan_of(["a", "b"], agents, conversation={"respond": respond})
    sim = await (await Simulation.begin(plan, final)).run()
    (ended,) = sim.facts("ExchangeEnded")
    assert ended["agent"] == AgentName(agent)
