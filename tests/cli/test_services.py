"""What a command says about the servers that it needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crewlog.cli import services
from crewlog.cli.screen import Screen

HINT = "▸ started the local servers; `crewlog dev --stop` ends them\n"


@pytest.mark.parametrize(
    ("found", "as_json", "hint", "told"),
    [
        ("1.32.0, started", False, True, HINT),
        ("1.32.0, running", False, True, ""),
        ("1.32.0, started", True, True, ""),
        ("1.32.0, started", False, False, ""),
    ],
)
async def test_servers_that_a_command_started_are_mentioned(
    found: str,
    as_json: bool,
    hint: bool,
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ensure(screen: Screen, progress: services.ServiceProgress) -> None:
        progress.done("temporal", found)

    async def close() -> None:
        pass

    async def connect(**_: Any) -> Any:
        return SimpleNamespace(endpoints=SimpleNamespace(ui_url=None), close=close)

    monkeypatch.setattr(services, "all_services", ensure)
    monkeypatch.setattr(services, "connect", connect)
    async with services.connected(Screen(as_json=as_json), both=True, hint=hint):
        pass
    assert capsys.readouterr().err == told
