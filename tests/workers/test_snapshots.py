"""When an idle run stores a snapshot of its state."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bench.history import is_idle
from crewlog.ids import RunId
from crewlog.state.fold import fold_journal
from crewlog.state.journal import entry_from_json
from crewlog.wire import InitialMessage, InitialState
from crewlog.workflows.persistence import SNAPSHOT_AFTER

if TYPE_CHECKING:
    from temporalio.worker import Worker

    from shared import Lab

LIMIT = 60
CREW: dict[str, Any] = {
    "crew": "rests",
    "model": "scripted:none.json",
    "agents": {"ann": {"prompt": "p", "listen": ["talk"]}},
    "graph": {},
}


def messages(count: int) -> InitialState:
    each = ({"type": "human", "content": f"{number}"} for number in range(count))
    return InitialState(
        messages=tuple(InitialMessage(body=body, log="channel:talk") for body in each)
    )


@pytest.mark.parametrize(("entries", "snapshots"), [(SNAPSHOT_AFTER, 1), (SNAPSHOT_AFTER // 2, 0)])
async def test_an_idle_run_stores_a_snapshot_after_many_entries(
    lab: Lab, worker: Worker, entries: int, snapshots: int
) -> None:
    run = await lab.start(CREW, "", initial_state=messages(entries))
    await run.wait_until(lambda view: view.is_idle, LIMIT)
    async with asyncio.timeout(LIMIT):
        while not await is_idle(lab.client, run.id):  # noqa: ASYNC110 - the server says so
            await asyncio.sleep(0.02)
    position = (await run.status()).position
    id = RunId(run.id)

    assert await lab.store.list_snapshots(id) == [position] * snapshots

    if snapshots:
        stored = await lab.store.get_snapshot(id, position)
        assert stored is not None
        journal = [entry_from_json(row.entry) for row in await lab.store.read_journal(id)]
        assert stored.state == fold_journal(id, journal).to_json()
    await run.terminate("tested")
