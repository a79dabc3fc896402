"""Every field of the state says what the operations on a whole state do with it."""

from __future__ import annotations

import re
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

import pytest

from crewlog.ids import ContentHash, RunId
from crewlog.model import Model
from crewlog.reporting.diff.state import SECTIONS
from crewlog.state import journal as j
from crewlog.state.field_policy import FieldPolicy, field_policies, fields_where
from crewlog.state.fold import fold
from crewlog.state.model import CrewState
from crewlog.state.restore import fork_state, recorded_state, reopen_state, rollback_state
from crewlog.state.split import SplitContents, split_run_state


def test_every_field_of_the_state_has_a_policy() -> None:
    assert field_policies(CrewState).keys() == CrewState.model_fields.keys()


def test_a_field_without_a_policy_is_an_error() -> None:
    class Extended(CrewState):
        note: str = ""

    with pytest.raises(TypeError, match=re.escape("Extended.note has 0 field policies")):
        field_policies(Extended)


def test_fields_are_found_by_their_policy() -> None:
    class State(Model):
        old: Annotated[
            int, FieldPolicy(rollback="kept", fork="reset", split="reset", merge="dropped")
        ] = 0
        new: Annotated[
            int, FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped")
        ] = 0

    assert fields_where(State, lambda policy: policy.fork == "reset") == {"old"}


def test_every_section_of_a_diff_shows_a_field() -> None:
    shown = {section for policy in field_policies(CrewState).values() for section in policy.diff}
    assert shown == {*SECTIONS}


def filled(kind: Any, number: int) -> Any:
    """A value of a type that is not a default, and that differs by `number`."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return filled(args[0], number)
    if origin is Literal:
        return [each for each in args if each][-number]
    if origin in (Union, UnionType):
        return filled(next(each for each in args if each is not NoneType), number)
    if origin is dict:
        key = args[0].__supertype__ if isinstance(args[0], NewType) else args[0]
        return {filled(key, number): filled(args[1], number)}
    if origin is tuple:
        return tuple(filled(each, number) for each in args if each is not Ellipsis)
    if isinstance(kind, NewType):
        return filled(kind.__supertype__, number)
    if isinstance(kind, type) and issubclass(kind, Model):
        required = [name for name, field in kind.model_fields.items() if field.is_required()]
        names = required or [next(iter(kind.model_fields))]
        return kind(**{name: filled(kind.model_fields[name].annotation, number) for name in names})
    if kind is bool:
        return True
    if kind in (int, float):
        return number + 1  # 1 is the default of some fields
    return f"x{number}"  # also for any JSON


def state_of(number: int, **fields: Any) -> CrewState:
    """A state of which no field has its default."""
    values = {
        name: filled(field.annotation, number) for name, field in CrewState.model_fields.items()
    }
    return CrewState(**{**values, "status": "running", "frontier": {}, **fields})


def outcome(operation: str, now: CrewState, then: CrewState) -> CrewState:
    """The state after the entry of an operation."""
    new = CrewState(run=RunId("new"), position=then.position)
    match operation:
        case "rollback":
            fields = recorded_state(rollback_state(now, then).state, "rollback")
            return fold(now, j.RunRolledBack(at=7, to=1, state=fields))
        case "reopen":
            fields = recorded_state(reopen_state(then), "rollback")
            return fold(now, j.RunReopened(at=7, to=1, state=fields))
        case "fork":
            fields = recorded_state(fork_state(then, new.run).state, "fork")
            return fold(new, j.RunForked(at=7, run=new.run, source=then.run, to=1, state=fields))
        case _:
            contents = SplitContents(agents=(), nodes=())
            part = split_run_state(then, new.run, contents, ContentHash("part"), ())
            fields = recorded_state(part, "split")
            entry = j.RunForked(at=7, run=new.run, source=then.run, to=1, state=fields, split="cut")
            return fold(new, entry)


BY_REOPEN = {"execution", "commands", "error", "error_type", "idle"}
"""Fields that a reopen sets itself."""


@pytest.mark.parametrize("operation", ["rollback", "reopen", "fork", "split"])
def test_an_operation_does_with_a_field_what_its_policy_says(operation: str) -> None:
    now, then = state_of(2), state_of(1)
    after = outcome(operation, now, then)
    default = CrewState(run=RunId("new"))
    checked = 0
    for name, policy in field_policies(CrewState).items():
        says = getattr(policy, "rollback" if operation == "reopen" else operation)
        source = {"restored": then, "copied": then, "kept": now, "reset": default}.get(says)
        if source is None or name in ("position", "execution_trace"):
            continue  # computed, or changed by each entry
        if operation == "reopen" and name in BY_REOPEN:
            continue
        assert getattr(after, name) == getattr(source, name), name
        checked += 1
    assert checked > len(CrewState.model_fields) * 0.6


def test_every_field_of_the_filled_state_differs_from_its_default() -> None:
    default = CrewState(run=RunId("new"))
    same = {
        name
        for name in CrewState.model_fields
        if getattr(state_of(1), name) in (getattr(default, name), getattr(state_of(2), name))
    }
    assert same == {"status", "frontier"}


def test_a_copy_with_an_unknown_field_fails_a_test() -> None:
    with pytest.raises(AssertionError, match=r"CrewState has no \{'rules'\}"):
        CrewState(run=RunId("r")).model_copy(update={"rules": ()})
