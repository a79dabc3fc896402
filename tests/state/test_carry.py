"""What continue-as-new carries, and which schema version a build reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crewlog.errors import UsageError
from crewlog.state.carry import SCHEMA, Carry, read_carry

DATA: dict[str, Any] = {"plan": {"crew": "t"}, "state": {"run": "r"}}


def test_a_carry_is_what_was_carried() -> None:
    carry = Carry(
        **DATA, command_queue=(("pause", {"id": "1"}),), task_queue="q", search_attributes=True
    )
    assert read_carry(json.loads(json.dumps(carry.to_json()))) == carry


@pytest.mark.parametrize("schema", [1, 2, 7])
def test_a_carry_always_has_its_schema_version(schema: int) -> None:
    """A build could not tell a carry without one from a carry of another schema."""
    assert Carry(**DATA, schema_version=schema).to_json()["schema_version"] == schema
    assert Carry(**DATA).to_json()["schema_version"] == SCHEMA


@pytest.mark.parametrize("schema", [0, SCHEMA + 1, 99, "1", None])
def test_a_carry_of_another_schema_is_refused_with_the_remedy(schema: Any) -> None:
    with pytest.raises(UsageError, match=rf"{schema!r}, and this build reads version 1") as caught:
        read_carry({**DATA, "schema_version": schema})
    assert "workers of the build that wrote the carry" in caught.value.remedy


def test_a_carry_without_a_schema_is_refused() -> None:
    with pytest.raises(UsageError, match="schema version None"):
        read_carry(DATA)
