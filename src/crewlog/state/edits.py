"""Apply state edits, path by path.

    flags.NAME   outputs.AGENT.KEY   shared.NAME   private.AUDIENCE.NAME

The values of an edited list come before all values that steps add to it later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crewlog.canonical_json import canonical, hash_json
from crewlog.ids import AgentName, ContentHash, FlagName
from crewlog.model import Json
from crewlog.state.journal import Edit, StateEdited
from crewlog.state.model import CrewState, ListElement, Output
from crewlog.state.reducers import INLINE_BYTES, output_with_value

FLAGS, OUTPUTS, SHARED, PRIVATE = KINDS = ("flags", "outputs", "shared", "private")
_BEFORE = (0, 0)
"""The position before all values that steps add."""


def path_parts(path: str) -> tuple[str, str, str]:
    """A path's kind, its agent or audience (empty if it has none), and its name."""
    kind, _, rest = path.partition(".")
    if kind == OUTPUTS:
        owner, _, name = rest.partition(".")
        return kind, owner, name
    if kind == PRIVATE:
        owner, _, name = rest.rpartition(".")
        return kind, owner, name
    return kind, "", rest


def fold_state_edited(state: CrewState, entry: StateEdited, position: int) -> dict[str, Any]:
    """The fields of the state that an edit changes, as they are after it."""
    flags, positions = dict(state.flags), dict(state.flag_positions)
    outputs = {agent: dict(values) for agent, values in state.agent_outputs.items()}
    shared = dict(state.shared_context)
    private = {audience: dict(values) for audience, values in state.private_context.items()}
    for edit in entry.edits:
        kind, owner, name = path_parts(edit.path)
        if kind == FLAGS:
            positions.pop(FlagName(name), None)
            _put(flags, FlagName(name), edit, edit.value)
        elif kind == OUTPUTS:
            output = None if edit.delete else _output(edit, position)
            _put(outputs.setdefault(AgentName(owner), {}), name, edit, output)
        elif kind == SHARED:
            _put(shared, name, edit, edit.value)
        else:
            _put(private.setdefault(owner, {}), name, edit, edit.value)
    return {
        "flags": flags,
        "flag_positions": positions,
        "agent_outputs": {agent: values for agent, values in outputs.items() if values},
        "shared_context": shared,
        "private_context": {audience: values for audience, values in private.items() if values},
    }


def _put(mapping: dict[Any, Any], name: str, edit: Edit, value: Any) -> None:
    if edit.delete:
        mapping.pop(name, None)
    else:
        mapping[name] = value


def _output(edit: Edit, position: int) -> Output:
    if not edit.append:
        return Output(
            value=edit.value,
            body=edit.body,
            position=position,
            items=edit.items,
            spec=edit.spec,
            logs=edit.logs,
        )
    output = Output(value=[], position=position)
    specs = edit.specs or (None,) * len(edit.value)
    for value, spec in zip(edit.value, specs, strict=True):
        body = _body_of(value)
        item_spec = spec if body else None  # a small value is parsed when it is needed
        element = ListElement(
            value=None if body else value,
            body=body,
            position=_BEFORE,
            logs=edit.logs,
            spec=item_spec,
        )
        output = output_with_value(output, element, position)
    return output


def is_small(value: Json) -> bool:
    """Whether the state contains a value itself, so that conditions can read it."""
    return len(canonical(value)) <= INLINE_BYTES


def _body_of(value: Json) -> ContentHash | None:
    return None if is_small(value) else hash_json(value)


def edit_bodies(entry: StateEdited) -> Iterator[tuple[ContentHash, Json]]:
    """The bodies that an edit contains, by hash."""
    for edit in entry.edits:
        if edit.body is not None:
            yield edit.body, edit.inline
        elif edit.append and path_parts(edit.path)[0] == OUTPUTS:
            yield from ((hash_json(value), value) for value in edit.value if not is_small(value))
