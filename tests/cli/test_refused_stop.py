"""`crewlog stop` of a run that nobody works on, and that refuses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from crewlog.cli import background, hands, talk
from crewlog.errors import WorkerMissing
from crewlog.ids import CommandId
from crewlog.state.model import CommandOutcome

REFUSED = CommandOutcome(ok=False, detail="nothing proves who it is", position=7)


class Refuses:
    """A run whose worker comes up, refuses the command, and goes on."""

    id = "sealed"

    def __init__(self) -> None:
        self.looks = 0

    async def result(self, _: float) -> Any:
        await asyncio.Event().wait()

    async def outcome(self, command: CommandId) -> CommandOutcome | None:
        assert command == "c1"
        self.looks += 1
        if self.looks == 1:
            raise WorkerMissing("nobody answers")
        return REFUSED if self.looks > 2 else None


async def test_a_stop_that_the_run_refuses_does_not_wait_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @asynccontextmanager
    async def hand(_: Any) -> AsyncGenerator[None]:
        yield None

    async def polled(*_: Any) -> bool:
        return False

    async def describe(_: Any) -> Any:
        return SimpleNamespace(task_queue="own")

    def assigned(_: str) -> Any:
        return SimpleNamespace(own=True)

    monkeypatch.setattr(background, "polled", polled)
    monkeypatch.setattr(hands, "assigned", assigned)
    monkeypatch.setattr(hands, "hand", hand)
    client: Any = SimpleNamespace(gateway=SimpleNamespace(describe=describe))
    run: Any = Refuses()
    async with asyncio.timeout(5), AsyncExitStack() as helping:
        assert await talk._stopped(client, run, "c1", helping) == (None, REFUSED)
