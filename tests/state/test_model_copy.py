"""Copies of models: as pydantic makes them, and without its calls."""

from __future__ import annotations

from typing import Any, get_args
from unittest.mock import ANY

import pytest
from pydantic import BaseModel, PrivateAttr

from crewlog.model import Model
from crewlog.state import journal as j
from crewlog.state.model import CrewState
from crewlog.usage import Usage


class Secretive(Model):
    """A model with an attribute of its own."""

    a: int = 0
    _seen: int = PrivateAttr(default=3)


@pytest.mark.parametrize("update", [None, {}, {"calls": 2}, {"calls": 2, "cost": 0.5}])
def test_a_copy_is_the_one_that_pydantic_makes(update: dict[str, Any] | None) -> None:
    usage = Usage(calls=1, unpriced="m")
    copied, expected = usage.model_copy(update=update), BaseModel.model_copy(usage, update=update)
    assert copied == expected
    assert copied.model_fields_set == expected.model_fields_set
    assert copied.__dict__ is not usage.__dict__
    assert copied.to_json() == expected.to_json()
    assert usage == Usage(calls=1, unpriced="m")


def test_a_copy_is_frozen_and_shares_its_values() -> None:
    state = CrewState(run="r")  # type: ignore[arg-type]
    copied = state.model_copy(update={"position": 1})
    assert copied.frontier is state.frontier
    with pytest.raises(ValueError, match="frozen"):
        copied.position = 2  # type: ignore[misc]


def test_a_deep_copy_shares_nothing() -> None:
    state = CrewState(run="r", flags={"f": [1]})  # type: ignore[arg-type, dict-item]
    assert state.model_copy(deep=True).flags is not state.flags


def test_attributes_outside_of_the_fields_are_copied() -> None:
    model = Secretive(a=1)
    model.__pydantic_private__["_seen"] = 7  # type: ignore[index]
    assert model.model_copy(update={"a": 2})._seen == 7


def test_no_entry_is_slower_to_copy_than_another() -> None:
    kinds = get_args(get_args(j.JournalEntry)[0])
    assert all(not kind.__private_attributes__ for kind in kinds)


def test_models_are_equal_by_their_class_fields_and_private_attributes() -> None:
    assert Usage(calls=1) == Usage(calls=1)
    assert Usage(calls=1) != Usage(calls=2)
    assert Usage() != Secretive()
    assert Usage() == ANY
    changed = Secretive()
    changed._seen = 4
    assert Secretive() == Secretive()
    assert Secretive() != changed
