"""What a run is told of another one that it is to be one with: what is stored of that."""

from __future__ import annotations

import json
from collections.abc import Collection

import pytest
from temporalio.testing import ActivityEnvironment
from test_prepare_merge import ONE, TWO, crew, keep, prepared, stored

from crewlog.activities.look_at_run import Ending, look_at_run, never_ended
from crewlog.graph.taking_in import take_in
from crewlog.ids import ContentHash, RunId
from crewlog.state import journal as j
from crewlog.state.calls import LookAtRun, LookedAt
from crewlog.state.joining import KEPT
from crewlog.state.model import CrewState
from crewlog.state.topology import Renamed
from crewlog.store import InMemoryStore
from graph.simulation import Simulation

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


class Shutting(InMemoryStore):
    """A store that is told a last thing before it refuses what an execution says."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: list[tuple[RunId, tuple[str, ...]]] = []
        self.last: Simulation | None = None

    async def shut(self, run: RunId, executions: Collection[str]) -> None:
        assert self.last is not None
        self.last.engine.record(j.MergeFailed, op="n", other=RunId("three"), why="it is busy")
        await keep(self, self.last)
        await super().shut(run, executions)
        self.closed.append((run, (*executions,)))


async def test_a_run_that_was_ended_is_shut_and_then_looked_at() -> None:
    """What it still stores must not come after what follows from its end."""
    store = Shutting()
    one = store.last = await stored(store, ONE, crew("a"))

    async def ended(run: RunId) -> Ending:
        assert run == ONE
        return Ending(("e1", "e2"))

    task = LookAtRun(run=TWO, definition=one.state.definition, other=ONE, op=OP, sure=False)
    found = await ActivityEnvironment().run(look_at_run, task, store, ended)
    assert store.closed == [(ONE, ("e1", "e2"))]
    assert found.gone
    assert CrewState.from_json(found.state or {}).position == one.state.position
    sure = await ActivityEnvironment().run(
        look_at_run, task.model_copy(update={"sure": True}), store, ended
    )
    assert not sure.gone
    assert len(store.closed) == 1


async def test_who_looks_sees_nothing_of_what_the_other_run_does() -> None:
    """Whoever may signal a run can have it look at any other one, and reads what it keeps."""
    store = InMemoryStore()
    await stored(store, ONE, crew("a"))
    two = await stored(store, TWO, crew("b"))
    two.engine.record(
        j.MergeAsked,
        op="theirs",
        other=RunId("three"),
        operation={"op": "connect", "name": "secret"},
        what="secret",
        creatures=1,
        due=9,
        by="eve",
    )
    await keep(store, two)
    assert two.state.joining is not None
    task = LookAtRun(run=ONE, definition=ContentHash("d"), other=TWO, op=OP)
    found = await ActivityEnvironment().run(look_at_run, task, store, never_ended)
    assert found.state is not None
    told = {"run", "position", "status", "started", "joining", "changing", "merges"}
    assert {*found.state} <= told
    assert CrewState.from_json(found.state).still == two.state.still
    text = json.dumps(found.to_json())
    assert "three" in text, "that it is in another merge is told"
    assert "secret" not in text
    assert "eve" not in text
    own = task.model_copy(update={"op": "theirs"})
    found = await ActivityEnvironment().run(look_at_run, own, store, never_ended)
    assert CrewState.from_json(found.state or {}).joining == two.state.joining
