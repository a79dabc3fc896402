"""What continue-as-new carries: read by the same build, by a newer one, never by an older one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crewlog.errors import UsageError
from crewlog.state import carry as module
from crewlog.state.carry import Carry, read_carry

DATA: dict[str, Any] = {"plan": {"crew": "t"}, "state": {"run": "r"}}


def newer(monkeypatch: pytest.MonkeyPatch, schema: int) -> list[int]:
    """A build of a later schema, whose upcasters note that they ran."""
    ran: list[int] = []

    def upcaster(version: int) -> Any:
        def upcast(data: dict[str, Any]) -> dict[str, Any]:
            ran.append(version)
            return {**data, "state": {**data["state"], f"v{version + 1}": True}}

        return upcast

    monkeypatch.setattr(module, "SCHEMA", schema)
    monkeypatch.setattr(module, "UPCASTERS", {n: upcaster(n) for n in range(1, schema)})
    return ran


def test_a_carry_is_what_was_carried() -> None:
    carry = Carry(**DATA, inbox=(("pause", {"id": "1"}),), queue="q", search_attributes=True)
    assert read_carry(json.loads(json.dumps(carry.to_json()))) == carry


@pytest.mark.parametrize("schema", [1, 2, 7])
def test_a_carry_always_says_its_schema(schema: int) -> None:
    """Left out as a default, a later build would take its own carry for one of schema 1."""
    assert Carry(**DATA, schema_version=schema).to_json()["schema_version"] == schema
    assert Carry(**DATA).to_json()["schema_version"] == module.SCHEMA


def test_an_older_carry_is_upcast_once_through_every_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = Carry(**DATA).to_json()
    ran = newer(monkeypatch, 4)
    carry = read_carry(old)
    assert ran == [1, 2, 3]
    assert carry.schema_version == 4
    assert carry.state == {"run": "r", "v2": True, "v3": True, "v4": True}
    assert read_carry(carry.to_json()) == carry
    assert ran == [1, 2, 3], "what is new is not upcast again"


def test_a_carry_without_a_schema_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = newer(monkeypatch, 2)
    assert read_carry(DATA).schema_version == 2
    assert ran == [1]


@pytest.mark.parametrize("schema", [2, 99, "2", None])
def test_a_newer_carry_is_refused_with_what_to_do(schema: Any) -> None:
    with pytest.raises(UsageError, match="carried over by a newer build") as caught:
        read_carry({**DATA, "schema_version": schema})
    assert "Deploy that build's workers again" in caught.value.remedy


def test_an_older_build_refuses_what_a_newer_one_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        newer(later, 3)
        written = read_carry(DATA).to_json()
    with pytest.raises(UsageError, match=r"schema 3, this one has 1"):
        read_carry(written)
