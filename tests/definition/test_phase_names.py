"""A phase has no name of an agent that hears, unless that agent is in the flow itself."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_data, load_stored
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import AddAgent, AddPhase, EditAgent, EditCrew, Operation
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower

EARS: dict[str, Any] = {"scout": {"prompt": "p", "listen": ["x"]}}
SCOUT: dict[str, Any] = {"agent": "ann", "phase": "scout"}


def data_of(*flow: Any, **more: Any) -> dict[str, Any]:
    agents = {"ann": {"prompt": "p"}, "bob": {"prompt": "p"}}
    return {"crew": "t", "model": "openai:x", "agents": agents, "flow": [*flow], **more}


def hearing(*flow: Any, **more: Any) -> dict[str, Any]:
    data = data_of(*flow, **more)
    return {**data, "agents": {**data["agents"], **EARS}}


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (hearing(SCOUT), "flow[0].phase"),
        (hearing(["bob", SCOUT]), "flow[0][1].phase"),
        (hearing(SCOUT, graph={"away": {"scout": "r.1"}}), "flow[0].phase"),
        (hearing("ann", {"if": "ann.text", "go": "end", "phase": "scout"}), "flow[1].phase"),
    ],
)
def test_a_phase_has_no_name_of_an_agent_that_is_in_none(data: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        load_data(data)
    (found,) = [each for each in caught.value.diagnostics if each.severity == "error"]
    assert found.place == place
    assert "the phase 'scout' has the name of an agent that is in no phase" in found.message
    assert found.remedy == "Give the phase another name: phase: NAME"


@pytest.mark.parametrize(
    "data",
    [
        hearing("ann", "scout"),
        hearing(SCOUT, {"agent": "scout", "phase": "other"}),
        hearing({"agent": "ann", "phase": "scouting"}),
    ],
)
def test_other_names_are_free(data: dict[str, Any]) -> None:
    lower(load_data(data))


@pytest.mark.parametrize(
    ("before", "operation"),
    [
        (hearing("ann"), AddPhase(phase=SCOUT)),
        (hearing("ann"), EditCrew(set={"flow": ["ann", SCOUT]})),
        (
            {**data_of(SCOUT), "graph": {}},
            AddAgent(name="scout", agent={"prompt": "p", "listen": ["x"]}),
        ),
    ],
)
def test_no_change_makes_one(before: dict[str, Any], operation: Operation) -> None:
    with pytest.raises(InvalidDefinition, match="the name of an agent that is in no phase"):
        apply_operations(load_data(before), [operation])


def test_a_crew_that_ran_goes_on_with_such_a_phase() -> None:
    """It is read, lowered and changed; and gets no other phase like that."""
    data = hearing(SCOUT)
    for old in (load_stored(data), CrewDefinition.from_json(data)):
        assert {*lower(old).nodes} == {"scout", "scout.inbox", "ann", "bob"}
        changed = apply_operations(old, [EditAgent(name="bob", set={"prompt": "q"})])
        assert changed.agents["bob"].prompt == "q"
        with pytest.raises(InvalidDefinition, match="the phase 'bob' has the name"):
            apply_operations(old, [AddPhase(phase={"agent": "ann", "phase": "bob"})])
    with pytest.raises(InvalidDefinition, match="is not defined"):
        load_stored(hearing("cid"))
