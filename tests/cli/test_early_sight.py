"""A run that was started a moment ago is waited for; one that is older is told of at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from crewlog.cli import sight
from crewlog.errors import StoreIncomplete, WorkerMissing


class Begins:
    """A run that is there once it was looked for so often."""

    def __init__(self, after: int, how: str) -> None:
        self.looks = 0
        self._after, self._how = after, how

    def _found(self, how: str) -> Any:
        if self._how == how and self.looks > self._after:
            return sight.Sight("r", SimpleNamespace(prompt=None), None, "", True, "", None, [])  # type: ignore[arg-type]
        return None

    async def live(self, *_: Any) -> Any:
        self.looks += 1
        if found := self._found("live"):
            return found
        raise WorkerMissing("nobody polls")

    async def stored(self, *_: Any) -> Any:
        if found := self._found("stored"):
            return found
        raise StoreIncomplete("the store knows nothing of the run yet")


def client(age: float) -> Any:
    began = datetime.now(UTC) - timedelta(seconds=age)

    async def describe(_: str) -> Any:
        status = WorkflowExecutionStatus.RUNNING
        return SimpleNamespace(status=status, task_queue="q", start_time=began, close_time=None)

    gateway = SimpleNamespace(describe=describe)
    return SimpleNamespace(gateway=gateway, run=lambda name: SimpleNamespace(id=name))


@pytest.fixture
def begins(monkeypatch: pytest.MonkeyPatch) -> Any:
    def made(after: int, how: str) -> Begins:
        async def none(*_: Any) -> list[Any]:
            return []

        run = Begins(after, how)
        monkeypatch.setattr(sight, "_live", run.live)
        monkeypatch.setattr(sight, "_stored", run.stored)
        monkeypatch.setattr(sight, "stalled", none)
        monkeypatch.setattr(sight, "pending_calls", none)
        return run

    return made


@pytest.mark.parametrize("how", ["live", "stored"])
async def test_a_run_that_has_just_been_started_is_waited_for(begins: Any, how: str) -> None:
    run = begins(3, how)
    assert (await sight.see(client(0), "r")).run == "r"
    assert run.looks == 4


async def test_an_older_run_of_which_nothing_is_known_is_told_of_at_once(begins: Any) -> None:
    run = begins(1, "live")
    with pytest.raises(StoreIncomplete, match="knows nothing"):
        await sight.see(client(sight.BEGINS_WITHIN + 1), "r")
    assert run.looks == 1


async def test_it_is_waited_for_no_longer_than_that(
    begins: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight, "BEGINS_WITHIN", 0.3)
    run = begins(1000, "live")
    with pytest.raises(StoreIncomplete, match="knows nothing"):
        await sight.see(client(0), "r")
    assert run.looks > 1
