"""What a run is told of another one that it is to be one with: what is stored of that."""

from __future__ import annotations

import json

import pytest
from temporalio.testing import ActivityEnvironment
from test_prepare_merge import ONE, TWO, crew, keep, prepared, stored

from crewlog.activities.look_at_run import look_at_run, never_ended
from crewlog.graph.taking_in import take_in
from crewlog.ids import RunId
from crewlog.state import journal as j
from crewlog.state.calls import LookAtRun, LookedAt
from crewlog.state.joining import KEPT
from crewlog.state.model import CrewState
from crewlog.state.topology import Renamed
from crewlog.store import InMemoryStore

OP = "m"
CALLED = (Renamed(kind="channel", graph=TWO, was="x", now="x-2"),)


async def looked(store: InMemoryStore, *, op: str = OP, recall: bool = False) -> CrewState:
    """The state of the run that stays, as the one that joins is told it."""
    one = await store.read_journal(ONE)
    task = LookAtRun(run=TWO, definition=one[0].entry["definition"], other=ONE, op=op)
    task = task.model_copy(update={"recall": recall})
    found = await ActivityEnvironment().run(look_at_run, task, store, never_ended)
    found = LookedAt.from_json(json.loads(json.dumps(found.to_json())))
    assert found.recalled == recall
    return CrewState.from_json(found.state or {})


@pytest.mark.parametrize("later", [0, 1, KEPT])
async def test_it_is_told_what_is_called_otherwise_however_long_ago_that_was(later: int) -> None:
    store = InMemoryStore()
    one = await stored(store, ONE, crew("a"))
    await stored(store, TWO, crew("b"))
    before = await looked(store)
    assert before.merges == {}
    take_in(one.engine, await prepared(store, one), op=OP)
    at = one.state.position
    for number in range(later):
        one.engine.record(j.MergeFailed, op=f"m{number}", other=RunId("three"), why="it is busy")
    await keep(store, one)
    assert (OP in one.state.merges) == (later < KEPT)
    told = await looked(store, recall=later == KEPT)
    assert (told.merges[OP].position, told.merges[OP].renamed) == (at, CALLED)
    # Of a merge that failed, and of one that never was, nothing is told.
    assert all(not each.renamed for op, each in told.merges.items() if op != OP)
    assert "n" not in (await looked(store, op="n", recall=True)).merges
