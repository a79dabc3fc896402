"""The matrix of a run that no worker answers for: what the store says, or that it has nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from crewlog.client.matrix import matrix_of
from crewlog.client.run import Run
from crewlog.errors import StoreIncomplete, UsageError, WorkerMissing
from crewlog.ids import AgentName, RunId
from crewlog.store.in_process import InMemoryStore
from crewlog.wire import PermissionsPage, PermissionsQuery

RUN = RunId("r1")


class Nobody:
    """A server on which a run is open, and no worker answers for it."""

    async def describe(self, _: RunId) -> Any:
        return SimpleNamespace(status=WorkflowExecutionStatus.RUNNING)

    async def query(self, *_: Any) -> Any:
        raise WorkerMissing("no worker answers", remedy="Start one.")


async def asked(store: Any) -> None:
    async def opened() -> Any:
        return store

    gateway: Any = Nobody()
    await matrix_of(gateway, opened, RUN, PermissionsQuery())


async def test_a_run_that_is_starting_misses_no_rows() -> None:
    with pytest.raises(WorkerMissing, match="is starting: nothing of it is stored yet") as error:
        await asked(InMemoryStore())
    assert error.value.remedy == (
        "Ask again in a moment. If that does not help: no worker answers. Start one."
    )


async def test_a_run_that_was_stored_misses_its_journal() -> None:
    class Emptied(InMemoryStore):
        """Knows the run, and has lost its journal."""

        async def get_run(self, run: RunId) -> Any:
            return SimpleNamespace(run=run)

    with pytest.raises(StoreIncomplete, match="rows of the run 'r1' are missing"):
        await asked(Emptied())


async def test_who_lives_in_another_run_is_looked_for_there() -> None:
    page = PermissionsPage(
        run=RUN, agents=(AgentName("a"),), remote_agents={AgentName("b"): RunId("r1.X")}
    )

    class Parted(Run):
        async def _matrix(self, asked: PermissionsQuery) -> PermissionsPage:
            return page

    client: Any = SimpleNamespace(gateway=None, store=None)
    run = Parted(client, RUN)
    with pytest.raises(UsageError, match=r"'b' lives in 'r1.X' since the graph was split") as told:
        await run.why("b", "dig")
    assert told.value.remedy == "Name that run: r1.X"
    with pytest.raises(UsageError, match="there is no agent 'c'") as told:
        await run.why("c", "dig")
    assert told.value.remedy == "Agents: a."
