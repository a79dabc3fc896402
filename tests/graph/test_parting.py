"""The definitions of a graph's parts: each has the whole crew, of which some are away."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_data, load_stored
from crewlog.definition.operations import RemoveChannel
from crewlog.errors import ComponentConflict
from crewlog.graph.lowering.plans import lower
from crewlog.graph.run_split import split_contents, split_definitions
from crewlog.ids import AgentName, RunId
from crewlog.state.components import split_components, split_run_id

RUN = RunId("r")
AGENTS: dict[str, Any] = {
    "keeper": {"prompt": "k", "listen": ["reports"], "send": ["tasks"]},
    "archer": {"prompt": "s", "listen": ["tasks"], "send": ["reports"]},
    "digger": {"prompt": "d", "listen": ["tasks", "asides"]},
    "poet": {"prompt": "p", "send": ["asides"], "tools": ["t"]},
}
CREW = load_data(
    {
        "crew": "t",
        "model": "openai:x",
        "agents": AGENTS,
        "tools": {"t": {"run": "m:t"}},
        "rules": [{"tool": "t", "agents": ["poet"], "quota": "3 per day"}],
        "channels": {"asides": {"description": "Asides."}},
        "graph": {"root": "keeper"},
    }
)


def test_a_crew_in_one_piece_is_as_it_was() -> None:
    plan = lower(CREW)
    assert plan.component is not None
    assert split_definitions(CREW, split_components(RUN, plan.component, "c"), RUN) == {RUN: CREW}


def test_each_part_has_the_whole_crew() -> None:
    crew = apply_operations(CREW, [RemoveChannel(name="tasks")])
    whole = lower(crew)
    assert whole.component is not None
    found = split_definitions(crew, split_components(RUN, whole.component, "c"), RUN)
    other = split_run_id(RUN, "c", AgentName("digger"))
    assert [*found] == [RUN, other]
    stays, goes = (lower(load_data(each.to_json())) for each in found.values())
    assert stays.component is not None
    assert goes.component is not None
    assert {*stays.component.agents} == {"keeper", "archer"}
    assert [*goes.component.agents] == ["digger", "poet"]
    assert [*stays.component.channels] == ["reports"]
    assert {n: c.born for n, c in goes.component.channels.items()} == {"asides": "r"}
    assert found[other].channels["asides"].description == "Asides."
    assert found[RUN].graph is not None
    assert found[RUN].graph.away == {"digger": other, "poet": other}
    for each in found.values():
        assert (each.agents, each.tools, each.rules) == (crew.agents, crew.tools, crew.rules)
    share = split_contents(crew, goes.component)
    assert (share.agents, share.nodes, share.channels) == (
        ("digger", "poet"),
        ("digger", "poet"),
        ("asides",),
    )


def test_the_flow_stays_with_the_run() -> None:
    data = {"crew": "t", "model": "openai:x", "agents": AGENTS, "tools": {"t": {"run": "m:t"}}}
    crew = load_data({**data, "flow": ["poet"]})
    crew = apply_operations(crew, [RemoveChannel(name="asides")])
    plan = lower(crew)
    assert plan.component is not None
    found = split_definitions(crew, split_components(RUN, plan.component, "c"), RUN)
    assert [(each.flow, [*(each.graph.away if each.graph else {})]) for each in found.values()] == [
        (("poet",), ["archer", "digger", "keeper"]),
        ((), ["poet"]),
    ]
    for each in found.values():
        lower(load_data(each.to_json()))


def test_nobody_leaves_who_would_hear_at_another_node() -> None:
    """Its steps would be of a node that its part does not have."""
    agents = {"ann": {"prompt": "p"}, "scout": {"prompt": "p", "listen": ["x"]}}
    flow = [{"agent": "ann", "phase": "scout"}]
    crew = load_stored({"crew": "t", "model": "openai:x", "agents": agents, "flow": flow})
    plan = lower(crew)
    assert plan.component is not None
    (goes,) = (
        each for id_, each in split_components(RUN, plan.component, "c").items() if id_ != RUN
    )
    assert [*goes.agents] == ["scout"]
    with pytest.raises(ComponentConflict, match="cannot move 'scout'") as refused:
        split_contents(crew, goes)
    assert "another name" in refused.value.remedy
