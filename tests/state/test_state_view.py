"""The query `state` leaves out no field of the state."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from crewlog.ids import AgentName, FlagName, LogName, RunId
from crewlog.reporting.wire_views import state_view
from crewlog.state.model import CrewState, Output
from crewlog.usage import Usage
from crewlog.wire import StateView

TYPED = {
    "messages": "logs",
    "agent_outputs": "outputs",
    "shared_context": "shared",
    "private_context": "private",
    **{
        name: name
        for name in (
            *("run", "crew", "status", "graph_version", "execution", "position", "definition"),
            *("recipe", "flags", "coordination_rules", "tags", "commands", "usage"),
        )
    },
}
"""The typed part of a `StateView` by the state field that it shows."""
RUN = RunId("r")


def missing_fields(state: CrewState) -> set[str]:
    """The state fields that are neither a typed part of the view nor in its `data`."""
    return {*type(state).model_fields} - {*TYPED} - {*state_view(state).data}


def test_every_field_of_the_state_is_in_the_view() -> None:
    assert missing_fields(CrewState(run=RUN)) == set()


def test_a_field_that_is_not_in_the_view_is_found() -> None:
    class Extended(CrewState):
        hidden: Annotated[str, Field(exclude=True)] = ""

    assert missing_fields(Extended(run=RUN)) == {"hidden"}


def test_every_typed_part_shows_a_field_of_the_state() -> None:
    assert {*TYPED} <= {*CrewState.model_fields}
    assert {*TYPED.values()} | {"data"} == {*StateView.model_fields}


def test_the_data_of_the_view_is_the_whole_state() -> None:
    agent = AgentName("writer")
    state = CrewState(
        run=RUN,
        flags={FlagName("approved"): True},
        agent_outputs={agent: {"score": Output(value=3, position=7)}},
        shared_context={"city": "Graz"},
        private_context={"agent:writer": {"note": 1}},
        tags={"draft": 7},
        usage={agent: Usage(input_tokens=5)},
    )
    view = state_view(state)
    assert CrewState.model_validate(view.data) == state
    assert view.outputs[agent]["score"].value == 3
    assert (view.flags, view.shared) == ({"approved": True}, {"city": "Graz"})
    assert (view.private, view.tags) == ({"agent:writer": {"note": 1}}, {"draft": 7})
    assert view.usage[agent].input_tokens == 5
    assert LogName("public") not in view.logs
