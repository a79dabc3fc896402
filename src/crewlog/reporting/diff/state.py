"""The diff of two states: of one run at two positions, or of two runs.

    state_diff(before, after).changes  →  flags/approved: added true; frontier/writer#1: removed …

Logs are compared by their number of messages, since the logs of two runs never have the same heads.
Outputs are compared by their values, or by the hash of a large value. The frontier is compared by
the status of each step and its position in the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, get_args

from crewlog.json_diff import differences
from crewlog.model import Json, Model
from crewlog.state.field_policy import Section, fields_where
from crewlog.state.model import CrewState, FrontierStep, ListElement, Output

SECTIONS: tuple[Section, ...] = get_args(Section)
"""The sections of a state, in the order in which they are shown."""
V = TypeVar("V")


class StateChange(Model):
    """A difference between two states."""

    section: Section
    """The section of the state."""
    name: str
    """The name within the section: a run output, `agent.output`, a step, a log, …"""
    kind: Literal["added", "removed", "changed"]
    old: Json = None
    """The value before; null: none."""
    new: Json = None
    """The value after; null: none."""


class StateDiff(Model):
    """All differences between two states. It is false if there are none."""

    changes: tuple[StateChange, ...] = ()
    """By section; within one, in the order of the new state and then of the old state."""

    def __bool__(self) -> bool:
        return bool(self.changes)

    def under(self, section: Section) -> tuple[StateChange, ...]:
        """The differences in a section."""
        return tuple(change for change in self.changes if change.section == section)


def state_diff(old: CrewState, new: CrewState) -> StateDiff:
    """What was added, removed and changed from `old` to `new`; positions and times are left out."""
    # A field that the fold did not change is the same object: its sections need no comparison.
    changed_fields = {
        name for name in CrewState.model_fields if getattr(old, name) is not getattr(new, name)
    }
    return StateDiff(
        changes=tuple(
            StateChange(
                section=section, name=each.path[0], kind=each.kind, old=each.old, new=each.new
            )
            for section in SECTIONS
            if changed_fields & _FIELDS[section]
            for each in differences(_PARTS[section](old), _PARTS[section](new), depth=1)
        )
    )


def _fields_of(section: Section) -> frozenset[str]:
    return fields_where(CrewState, lambda policy: section in policy.diff)


def _run(state: CrewState) -> dict[str, Json]:
    found: dict[str, Json] = {"status": state.status, "crew": state.crew, "error": state.error}
    found["execution"] = state.execution
    if state.status_reason is not None:
        info = state.status_reason
        found["set by"] = " ".join(filter(None, [info.by, info.reason])) or "asked to"
    return {key: value for key, value in found.items() if value != ""}


def _graph(state: CrewState) -> dict[str, Json]:
    found: dict[str, Json] = {"version": state.graph_version}
    if state.definition:
        found["definition"] = state.definition
    if state.pending_change is not None:
        found["drains for"] = (
            state.pending_change.what or f"version {state.pending_change.graph_version}"
        )
    if state.pending_merge is not None:
        found["merges with"] = state.pending_merge.other
    found |= {f"merge {op}": each.outcome for op, each in state.merges.items()}
    return found


def value_of(output: Output | ListElement) -> Json:
    """The value of an output, or `{"body": hash}` for a large one."""
    if isinstance(output, Output) and output.elements:
        return [value_of(part) for part in output.elements]
    return output.value if output.body is None else {"body": output.body}


def _outputs(state: CrewState) -> dict[str, Json]:
    return {
        f"{agent}.{key}": value_of(output)
        for agent, found in state.agent_outputs.items()
        for key, output in found.items()
    }


def _steps(entries: Mapping[Any, FrontierStep]) -> dict[str, Json]:
    return {str(step): step_text(entry) for step, entry in entries.items()}


def step_text(entry: FrontierStep) -> str:
    """The status of a step of the frontier, for people: `running: model call 2, read under way`."""
    parts: list[str] = []
    if entry.requirement:
        parts.append(f"for {entry.requirement}")
    if entry.child_steps is not None:
        parts.append(f"{entry.child_steps.done} of {entry.child_steps.of} items done")
    if entry.turn is not None:
        under_way = [call.tool or "model" for call in entry.turn.calls]
        parts.append(f"model call {entry.turn.model_calls}")
        parts += [f"{', '.join(under_way)} under way"] if under_way else []
    if entry.redirect is not None:
        parts.append(f"then to {entry.redirect}")
    return f"{entry.status}: {', '.join(parts)}" if parts else entry.status


def _usage(state: CrewState) -> dict[str, Json]:
    found: dict[str, Json] = {"steps": state.steps}
    for agent, used in state.usage.items():
        data = used.to_json()
        found |= {f"{agent} {key.replace('_', ' ')}": value for key, value in data.items()}
    return found


def _named(mapping: Mapping[Any, V]) -> dict[str, Json]:
    return {str(name): value for name, value in mapping.items()}


_PARTS: dict[Section, Callable[[CrewState], dict[str, Json]]] = {
    "run": _run,
    "graph": _graph,
    "flags": lambda s: _named(s.flags),
    "outputs": _outputs,
    "shared": lambda s: _named(s.shared_context),
    "private": lambda s: {
        f"{who}.{name}": value for who, f in s.private_context.items() for name, value in f.items()
    },
    "frontier": lambda s: _steps(s.frontier),
    "detached_steps": lambda s: _steps(s.detached_steps),
    "done": lambda s: _named(s.routing.completed),
    "visits": lambda s: _named(s.visits),
    "loops": lambda s: _named(s.routing.loops),
    "messages": lambda s: {log: head.length for log, head in s.messages.items()},
    "permissions": lambda s: {
        tool: None if agents is None else list(agents)
        for tool, agents in s.tool_permissions.items()
    },
    "live_permissions": lambda s: {
        f"{tool}.{agent}": do
        for tool, row in s.live_permissions.items()
        for agent, do in row.items()
    },
    "quotas": lambda s: dict(s.quotas),
    "interrupts": lambda s: {id_: asked.question for id_, asked in s.interrupts.items()},
    "breaks": lambda s: dict.fromkeys(map(str, s.breakpoints), True),
    "tags": lambda s: _named(s.tags),
    "usage": _usage,
}
_FIELDS: dict[Section, frozenset[str]] = {section: _fields_of(section) for section in SECTIONS}
"""The state fields of each section."""
