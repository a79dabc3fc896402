"""How entries of outputs change the state."""

from __future__ import annotations

from crewlog.ids import AgentName
from crewlog.state import journal as j
from crewlog.state.edits import fold_state_edited
from crewlog.state.fold.handlers import Changes, handles, turn_of, with_item, with_step
from crewlog.state.model import CrewState, ListElement, Output
from crewlog.state.reducers import (
    CONFLICTS,
    appended_values,
    conflict_count,
    element_position,
    output_with_write,
    reduced_value,
)


@handles(j.ArtifactOperationsApplied)
def _fold_artifact_operations_applied(
    state: CrewState, entry: j.ArtifactOperationsApplied, _position: int
) -> Changes:
    if not entry.moved:  # they are in the log already, which is all
        return {}
    turn = turn_of(state, entry.step)
    unresolved = tuple(dict.fromkeys((*turn.unresolved, entry.call)))
    return with_step(state, entry.step, turn=turn.model_copy(update={"unresolved": unresolved}))


@handles(j.RunOutputSet)
def _fold_run_output_set(state: CrewState, entry: j.RunOutputSet, position: int) -> Changes:
    if not entry.append:
        value = reduced_value(entry.reducer, state.flags.get(entry.flag), entry.value)
        return {"flags": with_item(state.flags, entry.flag, value)}
    values, positions = appended_values(
        entry.reducer,
        state.flags.get(entry.flag),
        state.flag_positions.get(entry.flag, ()),
        entry.value,
        element_position(state, entry.step, position),
    )
    return {
        "flags": with_item(state.flags, entry.flag, values),
        "flag_positions": with_item(state.flag_positions, entry.flag, positions),
    }


def find_output(state: CrewState, agent: AgentName, key: str) -> Output | None:
    """An output of an agent; none: it is not set."""
    return state.agent_outputs.get(agent, {}).get(key)


def outputs_with(
    state: CrewState, agent: AgentName, key: str, output: Output
) -> dict[AgentName, dict[str, Output]]:
    """The outputs of all agents with one output set."""
    outputs = with_item(state.agent_outputs.get(agent, {}), key, output)
    return with_item(state.agent_outputs, agent, outputs)


@handles(j.OutputSet)
def _fold_output_set(state: CrewState, entry: j.OutputSet, position: int) -> Changes:
    current = find_output(state, entry.agent, entry.key)
    if entry.append:
        element = ListElement(
            value=entry.value,
            body=entry.body,
            position=element_position(state, entry.step, position),
            logs=entry.logs,
            spec=next(iter(entry.specs), None),
        )
        output = output_with_write(entry.reducer, current, element, position)
    else:
        output = Output(
            value=reduced_value(entry.reducer, current.value if current else None, entry.value),
            body=entry.body,
            position=position,
            items=entry.items,
            spec=entry.spec,
            logs=entry.logs,
        )
    return {"agent_outputs": outputs_with(state, entry.agent, entry.key, output)}


@handles(j.WriteRefused)
def _fold_write_refused(state: CrewState, _entry: j.WriteRefused, _position: int) -> Changes:
    return {"flags": with_item(state.flags, CONFLICTS, conflict_count(state.flags) + 1)}


handles(j.StateEdited)(fold_state_edited)
