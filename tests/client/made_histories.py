"""Histories that a server would give, made by a test."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

import pytest

from crewlog.client.gateway import Gateway
from crewlog.client.histories import Chain
from crewlog.errors import RunNotFound
from crewlog.ids import RunId


def give(
    monkeypatch: pytest.MonkeyPatch, chains: Mapping[RunId, Chain], *modules: ModuleType
) -> None:
    """Has modules read these histories instead of a server's."""

    class Histories:
        def __init__(self, gateway: Gateway, run: RunId, tell: Any) -> None:
            self._run = run

        async def read(self, known: Collection[str] = ()) -> Chain:
            if self._run not in chains:
                raise RunNotFound("gone")
            return chains[self._run]

        async def ended_apart(self, chain: Chain) -> list[str]:
            return []

    for module in modules:
        monkeypatch.setattr(module, "Histories", Histories)
