"""What a run reads of the other run of a run merge."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime

import pytest
from activity_kit import with_info
from temporalio.testing import ActivityEnvironment
from test_prepare_merge import EDGE, ONE, TWO, crew, freeze, keep, prepared, stored

from crewlog.activities import run_merge as looking
from crewlog.activities.definitions import Definitions
from crewlog.activities.run_merge import RunMerges
from crewlog.activities.server import Server
from crewlog.graph.run_merge.surviving_run import apply_merge
from crewlog.ids import ContentHash, RunId
from crewlog.state import journal as j
from crewlog.state.calls import ReadOtherRun, ReadOtherRunResult
from crewlog.state.components import Rename
from crewlog.state.model import CrewState
from crewlog.state.run_merge.protocol import OUTCOMES_KEPT
from crewlog.store import InMemoryStore
from crewlog.store.protocol import JournalRow
from graph.simulation import Simulation

OP = "m"
SIGNED_POLICY = {
    "mode": "signed",
    "principals": {"ada": {"key": f"ed25519:{'B' * 42}A=", "rights": ["grant"]}},
}
CALLED = (Rename(kind="channel", run=TWO, was="x", now="x-2"),)


def merges(store: InMemoryStore, server: Server) -> RunMerges:
    return RunMerges(store, Definitions(store), server)


async def looked(store: InMemoryStore, *, op: str = OP, after: int | None = None) -> CrewState:
    """The state of the run that stays, as the one that joins is told it."""
    one = await store.read_journal(ONE)
    task = ReadOtherRun(run=TWO, definition=one[0].entry["definition"], other=ONE, merge=op)
    task = task.model_copy(update={"recall_after": after})
    env = ActivityEnvironment()
    with_info(env, started_time=datetime.fromtimestamp(1, UTC))
    found = await env.run(merges(store, Server()).read_other_run, task)
    found = ReadOtherRunResult.from_json(json.loads(json.dumps(found.to_json())))
    assert found.recalled == (after is not None)
    assert found.at >= 1000, "who looked knows what time it was"
    return CrewState.from_json(found.state or {})


@pytest.mark.parametrize("later", [0, 1, OUTCOMES_KEPT])
async def test_renames_are_read_from_the_journal(later: int) -> None:
    store = InMemoryStore()
    one = await stored(store, ONE, crew("a"))
    await freeze(store, await stored(store, TWO, crew("b")))
    before = await looked(store)
    assert before.merges == {}
    apply_merge(one.engine, await prepared(store, one), op=OP)
    at = one.state.position
    for number in range(later):
        one.engine.record(
            j.MergeFailed(merge=f"m{number}", other=RunId("three"), reason="it is busy")
        )
    await keep(store, one)
    assert (OP in one.state.merges) == (later < OUTCOMES_KEPT)
    if later == OUTCOMES_KEPT:
        assert OP not in (await looked(store)).merges, "the whole journal is read on request only"
        assert OP not in (await looked(store, after=at)).merges, "only its rest is"
    told = await looked(store, after=at - 1 if later == OUTCOMES_KEPT else None)
    assert (told.merges[OP].position, told.merges[OP].renames) == (at, CALLED)
    # Of a merge that failed, and of one that never was, nothing is told.
    assert all(not each.renames for op, each in told.merges.items() if op != OP)
    assert "n" not in (await looked(store, op="n", after=0)).merges


@pytest.mark.parametrize("policy", ["signed", "open"])
async def test_widenings_are_found_for_a_run_that_is_asked_to_freeze(policy: str) -> None:
    """An open policy compares nothing, and that is not the same as a merge that widens nothing."""
    signed = {} if policy == "open" else {"policy": SIGNED_POLICY}
    store = InMemoryStore()
    one = await stored(store, ONE, crew("a", **signed))
    two = await stored(store, TWO, crew("b", **signed))
    task = ReadOtherRun(run=TWO, definition=two.state.definition, other=ONE, merge=OP)

    async def read() -> ReadOtherRunResult:
        find = task.model_copy(update={"find_widenings": True})
        found = await ActivityEnvironment().run(merges(store, Server()).read_other_run, find)
        return ReadOtherRunResult.from_json(json.loads(json.dumps(found.to_json())))

    before = await read()
    assert (before.widens, before.compared, before.refused) == (None, "", "")
    accepted = j.MergeAccepted(
        merge=OP,
        other=TWO,
        status="coordinating",
        requester=ONE,
        operation=EDGE,
        deadline=9,
        other_position=3,
    )
    one.engine.record(accepted)
    await keep(store, one)
    found = await read()
    assert found.refused == ""
    assert (found.widens is None) == (policy == "open")
    assert found.compared == ("" if policy == "open" else two.state.definition)


class Counting(InMemoryStore):
    """A store that knows which of its entries were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[int, int]] = []

    async def read_journal(self, run: RunId, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        self.read.append((after, limit))
        return await super().read_journal(run, after, limit)


async def read_for(store: Counting, run: RunId, by: RunId, op: str) -> list[tuple[int, int]]:
    """What is read of a run's journal for one that was in a merge, beyond that run's state."""
    task = ReadOtherRun(run=by, definition=ContentHash("d"), other=run, merge="unknown")
    read: list[list[tuple[int, int]]] = []
    for about in ("unknown", op):
        store.read = []
        looks = task.model_copy(update={"merge": about})
        await ActivityEnvironment().run(merges(store, Server()).read_other_run, looks)
        read.append(store.read)
    assert read[1][: len(read[0])] == read[0]
    return read[1][len(read[0]) :]


async def test_one_entry_is_read_if_the_state_has_its_position() -> None:
    """A journal is long, and is looked at often."""
    store = Counting()
    one = await stored(store, ONE, crew("a"))
    two = await stored(store, TWO, crew("b"))
    await freeze(store, two)
    apply_merge(one.engine, await prepared(store, one), op=OP)
    at = one.state.position
    one.engine.record(j.MergeFailed(merge="n", other=RunId("three"), reason="it is busy"))
    await keep(store, one)
    assert await read_for(store, ONE, TWO, OP) == [(at - 1, 1)]
    assert await read_for(store, ONE, TWO, "n") == []
    # Of the one that joined, too: what it was called there, its journal does not say.
    two.engine.record(j.RunEndedByMerge(merge=OP, run=ONE, position=at))
    await keep(store, two)
    assert await read_for(store, TWO, ONE, OP) == [(two.state.position - 1, 1)]


async def test_a_long_journal_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "PAGE", 2)
    store = Counting()
    one = await stored(store, ONE, crew("a"))
    await freeze(store, await stored(store, TWO, crew("b")))
    apply_merge(one.engine, await prepared(store, one), op=OP)
    at = one.state.position
    for number in range(OUTCOMES_KEPT):
        one.engine.record(
            j.MergeFailed(merge=f"m{number}", other=RunId("three"), reason="it is busy")
        )
    await keep(store, one)
    assert at > 2
    assert (await looked(store, after=0)).merges[OP].position == at
    assert "n" not in (await looked(store, op="n", after=0)).merges


@pytest.mark.parametrize("ending", [None, (), ("e",)], ids=["none", "never", "over"])
async def test_a_run_without_stored_state(ending: tuple[str, ...] | None) -> None:
    class Ended(Server):
        async def find_last_executions(self, run: RunId) -> tuple[str, ...] | None:
            assert run == ONE
            return ending

    server = Ended()
    store = InMemoryStore()
    task = ReadOtherRun(run=TWO, definition=ContentHash("d"), other=ONE, merge=OP, sure=False)
    found = await ActivityEnvironment().run(merges(store, server).read_other_run, task)
    assert found.state is None
    assert found.gone == (ending is not None)
    # Of one that has ended by itself, the store knows all: the server is not asked.
    one = await stored(store, TWO, crew("a"))
    one.engine.record(j.RunStopped())
    await keep(store, one)
    task = task.model_copy(update={"run": ONE, "other": TWO})
    assert not (await ActivityEnvironment().run(merges(store, server).read_other_run, task)).gone


class Shutting(InMemoryStore):
    """A store that is told a last thing before it refuses what an execution says."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: list[tuple[RunId, tuple[str, ...]]] = []
        self.last: Simulation | None = None

    async def reject_executions(self, run: RunId, executions: Collection[str]) -> None:
        assert self.last is not None
        self.last.engine.record(j.MergeFailed(merge="n", other=RunId("three"), reason="it is busy"))
        await keep(self, self.last)
        await super().reject_executions(run, executions)
        self.closed.append((run, (*executions,)))


async def test_a_terminated_run_is_rejected_and_then_read() -> None:
    """What it still stores must not come after what follows from its end."""
    store = Shutting()
    one = store.last = await stored(store, ONE, crew("a"))

    class Ended(Server):
        async def find_last_executions(self, run: RunId) -> tuple[str, ...] | None:
            assert run == ONE
            return ("e1", "e2")

    server = Ended()
    task = ReadOtherRun(run=TWO, definition=one.state.definition, other=ONE, merge=OP, sure=False)
    found = await ActivityEnvironment().run(merges(store, server).read_other_run, task)
    assert store.closed == [(ONE, ("e1", "e2"))]
    assert found.gone
    assert CrewState.from_json(found.state or {}).position == one.state.position
    task = task.model_copy(update={"sure": True})
    sure = await ActivityEnvironment().run(merges(store, server).read_other_run, task)
    assert not sure.gone
    assert len(store.closed) == 1


async def test_only_the_merge_state_of_the_other_run_is_read() -> None:
    """Whoever may signal a run can have it look at any other one, and reads what it keeps."""
    store = InMemoryStore()
    await stored(store, ONE, crew("a"))
    two = await stored(store, TWO, crew("b"))
    two.engine.record(
        j.MergeRequested(
            merge="theirs",
            other=RunId("three"),
            status="requested",
            operation={"op": "connect", "name": "secret"},
            what="secret",
            agents=1,
            deadline=9,
            by="eve",
        )
    )
    await keep(store, two)
    assert two.state.pending_merge is not None
    task = ReadOtherRun(run=ONE, definition=ContentHash("d"), other=TWO, merge=OP)
    found = await ActivityEnvironment().run(merges(store, Server()).read_other_run, task)
    assert found.state is not None
    assert {*found.state} <= {"run", "position", "status", "started_at", "merges"}
    text = json.dumps(found.to_json())
    assert "three" not in text
    assert "secret" not in text
    assert "eve" not in text
    own = task.model_copy(update={"merge": "theirs"})
    found = await ActivityEnvironment().run(merges(store, Server()).read_other_run, own)
    assert CrewState.from_json(found.state or {}).pending_merge == two.state.pending_merge
