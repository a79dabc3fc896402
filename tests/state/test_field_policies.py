"""Every field of the state says what the operations on a whole state do with it."""

from __future__ import annotations

import re
from typing import Annotated

import pytest

from crewlog.model import Model
from crewlog.reporting.diff.state import SECTIONS
from crewlog.state.field_policy import FieldPolicy, field_policies, fields_where
from crewlog.state.model import CrewState


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
