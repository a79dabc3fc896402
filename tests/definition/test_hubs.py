"""The builder `hub`: a router, a way to each specialist, and what happens after garbage."""

from __future__ import annotations

from typing import Any

import pytest

from covers import covers
from crewlog.definition.context import Window
from crewlog.definition.context_checks import window_of
from crewlog.definition.expand import expand
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition, RoutePhase
from crewlog.definition.validate import warnings
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower

AGENTS = {name: {"prompt": "p"} for name in ("router", "billing", "technician")}


def crew(agents: dict[str, Any] | None = None, **options: Any) -> CrewDefinition:
    part = {"use": "hub", "with": {"router": "router", **options}}
    data = {"crew": "t", "model": "openai:x", "agents": agents or AGENTS, "flow": [part]}
    return load_data(data)


@covers("C61", "C73")
def test_every_other_agent_is_a_specialist() -> None:
    plan = lower(crew())
    assert [*plan.nodes] == ["hub", "router.route", "billing", "technician"]
    route = plan.nodes["router.route"].route  # type: ignore[index]
    assert route is not None
    assert (route.by, route.to, route.otherwise, route.at_most) == (
        "router.next", ("billing", "technician"), "end", 1,
    )  # fmt: skip
    more = lower(crew(agents=AGENTS | {"clerk": {"prompt": "p"}}))
    assert [*more.nodes] == [*plan.nodes, "clerk"]
    assert {name: more.nodes[name] for name in plan.nodes if name != "router.route"} == {
        name: node for name, node in plan.nodes.items() if name != "router.route"
    }


def test_the_router_replies_with_one_of_them() -> None:
    reply = expand(crew()).definition.agents["router"].reply
    assert reply is not None
    assert (reply.decision, reply.among) == ("route", ("billing", "technician", "end"))
    assert reply.fallback == {"next": "end"}
    reply = expand(crew(fallback="technician", agents=AGENTS)).definition.agents["router"].reply
    assert reply is not None
    assert (reply.among, reply.fallback) == (("billing", "technician"), {"next": "technician"})


@covers("C64")
def test_the_router_is_shown_five_messages_by_default() -> None:
    def window(crew: CrewDefinition) -> Window | None:
        return window_of(crew, expand(crew).definition.agents["router"])

    assert window(crew()) == Window(last=5)
    assert window(crew(AGENTS | {"router": {"prompt": "p", "window": 9}})) == Window(last=9)
    assert window(crew(AGENTS | {"router": {"prompt": "p", "window": {}}})) is None
    assert window(crew().model_copy(update={"window": Window(last=20)})) == Window(last=20)


def test_the_router_says_nothing_to_the_specialists_and_a_turn_survives_errors() -> None:
    said = AGENTS | {"router": {"prompt": "p", "writes": ["group:g"]}}
    for agents, writes in (AGENTS, ()), (said, ("group:g",)):
        made = expand(crew(agents)).definition.agents
        assert (made["router"].writes, made["router"].shares) == (writes, ("public",))
        assert [made[name].on_error.failure for name in AGENTS] == ["ask"] * 3
        assert made["billing"].writes == ("public",)
    part = {"use": "hub", "with": {"router": "router"}}
    data = {"crew": "t", "model": "openai:x", "flow": [part], "conversation": {}}
    agents = AGENTS | {"technician": {"prompt": "p", "on_error": "fail"}}
    made = expand(load_data({**data, "agents": agents})).definition.agents
    assert [made[name].on_error.failure for name in AGENTS] == ["continue", "continue", "fail"]
    part["with"] = {"router": "router", "on_error": "ask"}
    made = expand(load_data({**data, "agents": AGENTS})).definition.agents
    assert [made[name].on_error.failure for name in AGENTS] == ["ask"] * 3


def test_agents_without_a_description_that_a_router_chooses_from_are_warned_of() -> None:
    (found,) = warnings(crew(AGENTS))
    assert found.path == ("agents", "billing")
    assert "chooses from billing and technician, which have no description" in found.message
    agents = AGENTS | {"billing": {"prompt": "p", "description": "Bills."}}
    (found,) = warnings(crew(agents))
    assert found.path == ("agents", "technician")
    assert "'router' chooses from technician, which has no description" in found.message


def test_what_follows_waits_for_whoever_answers() -> None:
    part = {"use": "hub", "with": {"router": "router", "agents": ["billing", "technician"]}}
    agents = AGENTS | {"scribe": {"prompt": "p"}}
    data = {"crew": "t", "model": "openai:x", "agents": agents, "flow": [part, "scribe"]}
    join = lower(load_data(data)).nodes["hub.done"].join  # type: ignore[index]
    assert join is not None
    assert (join.of, join.need) == (("billing", "technician"), 1)


def test_a_hub_of_another_name_keeps_its_routes() -> None:
    part = {"use": "hub", "phase": "desk", "with": {"router": "router", "at_most": 2}}
    data = {"crew": "t", "model": "openai:x", "agents": AGENTS, "flow": [part]}
    routes = [p for p in expand(load_data(data)).definition.flow if isinstance(p, RoutePhase)]
    assert routes[0].to == ("desk.billing", "desk.technician")
    assert routes[0].at_most == 2


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"agents": ["router"]}, "cannot send work to itself"),
        ({"agents": ["billing", "billing"]}, "named twice"),
        ({"agents": ["biling"]}, "the agent 'biling', which is not defined"),
    ],
)
def test_bad_options_are_told(options: dict[str, Any], fault: str) -> None:
    part = {"use": "hub", "with": {"router": "router", **options}}
    data = {"crew": "t", "model": "openai:x", "agents": AGENTS, "flow": [part]}
    with pytest.raises(InvalidDefinition, match=fault):
        lower(load_data(data))
