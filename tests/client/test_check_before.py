"""Whether a run may begin is looked at before anything is made ready for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crewlog.client import starting
from crewlog.errors import NotPermitted
from crewlog.wire import StartRun


@pytest.mark.parametrize("id", ["s0", None])
async def test_an_unsigned_start_of_a_signed_crew_is_refused_before(
    monkeypatch: pytest.MonkeyPatch, id: str | None
) -> None:
    async def policy(*_: Any) -> Any:
        return SimpleNamespace(signed=True)

    def authorize_command(
        _: Any, name: str, content: Any, proof: Any, *, run: str, at: int, namespace: str
    ) -> Any:
        assert (name, proof, content["by"], run) == ("start", None, "ann", id or "new")
        assert namespace == "here"
        return SimpleNamespace(allowed=False, reason="it is not signed", remedy="Sign it.")

    monkeypatch.setattr(starting, "policy_of_crew", policy)
    monkeypatch.setattr("crewlog.authority.principals.authorize_command", authorize_command)

    def signed_start(_: str, start: StartRun) -> Any:
        return start.to_json()

    client: Any = SimpleNamespace(
        user="ann", signed_start=signed_start, endpoints=SimpleNamespace(namespace="here")
    )
    with pytest.raises(NotPermitted, match="it is not signed; nothing was started"):
        await starting.check_before(client, "sealed", "", id=id, by=None)
