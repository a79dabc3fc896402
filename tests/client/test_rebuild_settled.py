"""`Rebuild` of a run that was ended from outside, by made histories: what it stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from client.made_histories import give
from crewlog.client import others as others_module
from crewlog.client import rebuild as module
from crewlog.client.extract import Ends, Extracted, join
from crewlog.client.gateway import Gateway
from crewlog.client.histories import Chain, Execution
from crewlog.client.rebuild import Rebuild, RebuildReport
from crewlog.errors import RemoteAgentConflict, UsageError, WorkerMissing
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName, ContentHash, CrewName, RunId, StepId, ToolName
from crewlog.state import calls
from crewlog.state import journal as j
from crewlog.state.calls import start_record_key
from crewlog.state.claim import ClaimedAgent
from crewlog.state.journal import Batch, entry_to_json
from crewlog.state.model import CrewState
from crewlog.state.split import SplitContents
from crewlog.store import InMemoryStore, Store
from crewlog.store.protocol import Snapshot

ONE, TWO, PART = RunId("one"), RunId("two"), RunId("one-part")
GRAPH: dict[str, Any] = {
    "crew": CrewName("c"),
    "definition": ContentHash("d"),
    "graph_version": 2,
    "what": "it is another one",
}
BEGINS = j.RunStarted(at=5, run=ONE, crew=CrewName("c"), definition=ContentHash("d"))
ACCEPTS = j.MergeAccepted(
    merge="tie",
    other=TWO,
    status="coordinating",
    requester=TWO,
    deadline=9,
    other_position=2,
    other_started_at=5,
)
TAKES = j.RunMerged(
    position=9,
    previous_position=2,
    merged_run=TWO,
    merged_run_position=2,
    merged_run_started_at=5,
    merge="tie",
    **GRAPH,
)
PARTS = j.ComponentChanged(
    split_runs=(
        j.SplitRun(
            run=PART,
            definition=ContentHash("d"),
            contents=SplitContents(agents=(AgentName("ann"),), nodes=()),
        ),
    ),
    **GRAPH,
)
FAILS = j.MergeFailed(merge="tie", other=ONE, reason="it ended")
PAUSES = j.Paused(by="ann")


def batch(first: int, *entries: j.JournalEntry) -> Batch:
    return Batch(first=first, entries=tuple(map(entry_to_json, entries)))


def execution(id_: str, *batches: Batch, ended: Any = "outside", **more: Any) -> Execution:
    ends = more.pop("ends", Ends("", "", ended=ended))
    return Execution(id_, ends, Extracted(batches=join(batches), **more), frozenset())


@dataclass
class World:
    """Runs that a server has, with their histories, and a store."""

    chains: dict[str, Chain] = field(default_factory=dict[str, Chain])
    store: InMemoryStore = field(default_factory=InMemoryStore)

    def has(self, run: RunId, *executions: Execution, **more: Any) -> None:
        self.chains[run] = Chain([*executions], **more)

    async def rebuilt(self, *, replace: bool = False) -> RebuildReport:
        async def opened() -> Store:
            return self.store

        return await Rebuild(cast("Gateway", self), opened, ONE)(replace=replace)

    async def kinds(self) -> list[str]:
        return [row.entry["kind"] for row in await self.store.read_journal(ONE)]

    # -- as a gateway ------------------------------------------------------------------------

    async def query(self, *_: Any) -> Any:
        raise WorkerMissing("nobody polls")

    async def describe(self, run: RunId) -> Any:
        raw = SimpleNamespace(pending_activities=[])
        return SimpleNamespace(run_id=self.chains[run].executions[-1].id, raw_description=raw)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    give(monkeypatch, made.chains, module, others_module)
    return made


FREEZES = j.MergeFrozen(merge="tie", other=ONE)
ALONE = execution("t", batch(1, BEGINS, FREEZES, FAILS), ended="")
"""The other run's, which went on by itself."""
JOURNAL = batch(1, BEGINS, ACCEPTS, TAKES, PAUSES)


async def test_what_comes_after_what_never_was_is_not_the_runs(world: World) -> None:
    task = calls.CallTool(
        step=StepId("a#1"),
        call=1,
        agent=AgentName("a"),
        definition=ContentHash("d"),
        tool=ToolName("pay"),
        id="c1",
        message=ContentHash("m"),
        batch=batch(9, TAKES, PAUSES),
    )
    before = task.model_copy(update={"call": 2, "batch": batch(1, BEGINS)})
    plan = GraphPlan.model_construct(
        tools={ToolName("pay"): SimpleNamespace(repeat="never")}, definition="d", policy=None
    )
    made = execution(
        "e",
        JOURNAL,
        snapshots=[Snapshot(position=at, state={"run": ONE, "position": at}) for at in (1, 10)],
        calls={"1": task, "2": before},
    )
    made.extracted.plans.append(plan)
    world.has(ONE, made)
    world.has(TWO, ALONE)
    await world.store.put_definition(ONE, {})
    report = await world.rebuilt()
    assert await world.kinds() == ["RunStarted", "MergeAccepted"]
    assert await world.store.list_snapshots(ONE) == [1]
    assert await world.store.key_owner(start_record_key(ONE, before)) is not None
    assert await world.store.key_owner(start_record_key(ONE, task)) is None
    (left,) = report.left_out
    assert (left.first, left.last, left.execution) == (9, 10, "e")
    assert left.why == (
        "it was ended from outside, and the journal of 'two' has `MergeFailed` at 3: it lives on "
        "alone"
    )
    assert (report.position, report.positions, report.missing, report.tail) == (2, 2, (), "stored")


@pytest.mark.parametrize("ended", ["", "itself"])
async def test_a_run_that_was_not_ended_from_outside_is_believed(world: World, ended: Any) -> None:
    world.has(ONE, execution("e", JOURNAL, ended=ended))
    world.has(TWO, ALONE)
    report = await world.rebuilt()
    assert (await world.kinds())[-2:] == ["RunMerged", "Paused"]
    assert report.left_out == ()


async def test_what_is_known_to_have_been_stored_is_not_asked_about(world: World) -> None:
    world.has(ONE, execution("e", JOURNAL, stored=9))
    world.has(TWO, ALONE)
    assert (await world.rebuilt()).left_out == ()
    assert len(await world.kinds()) == 4


async def test_what_the_store_has_only_the_other_runs_word_undoes(world: World) -> None:
    world.has(ONE, execution("e", JOURNAL))
    await world.store.append(ONE, JOURNAL)
    await world.store.reject_executions(ONE, ["e"])
    for other in (execution("t", batch(1, BEGINS)), execution("t", problems=["no key"])):
        world.has(TWO, other)
        report = await world.rebuilt()
        assert (report.left_out, report.problems, report.position) == ((), (), 10)
    world.has(TWO, ALONE)  # an earlier rebuild may have stored it
    with pytest.raises(UsageError, match="from position 3 on"):
        await world.rebuilt()
    report = await world.rebuilt(replace=True)
    assert report.replaced_after == 2
    assert await world.kinds() == ["RunStarted", "MergeAccepted"]


async def test_where_the_other_run_cannot_be_read_nobody_is_taken_in(world: World) -> None:
    world.has(ONE, execution("e", JOURNAL))
    world.has(TWO, execution("t", problems=["event 7: no key"]))
    report = await world.rebuilt()
    assert await world.kinds() == ["RunStarted", "MergeAccepted"]
    assert (report.whole, report.problems) == (False, ("event 7: no key",))
    world.has(TWO, ALONE)
    assert (await world.rebuilt()).problems == ()


async def test_the_store_says_what_nobody_else_does(world: World) -> None:
    world.has(ONE, execution("e", JOURNAL, stored=2))
    await world.store.reject_executions(ONE, ["e"])
    report = await world.rebuilt()
    assert await world.kinds() == ["RunStarted", "MergeAccepted"]
    assert "the store takes nothing more of it" in report.left_out[0].why
    assert await world.rebuilt() == report
    world.store = InMemoryStore()
    assert (await world.rebuilt()).left_out == ()
    assert len(await world.kinds()) == 4


async def test_of_a_shut_execution_only_what_is_known_to_have_been_stored_comes_back(
    world: World,
) -> None:
    world.has(ONE, execution("e", batch(1, BEGINS, PAUSES, j.RunResumed(), PAUSES), stored=2))
    await world.store.reject_executions(ONE, ["e"])
    report = await world.rebuilt()
    assert await world.kinds() == ["RunStarted", "Paused"]
    (left,) = report.left_out
    assert (left.first, left.last, report.position) == (3, 4, 2)
    # What is in the store nobody removes.
    await world.store.append(ONE, batch(3, j.RunResumed()))
    report = await world.rebuilt(replace=True)
    assert (report.left_out[0].first, report.position, report.replaced_after) == (4, 3, None)


async def test_who_read_a_later_entry_has_read_those_before(world: World) -> None:
    """Nobody knows of the part any more; the other run was taken in after it had left."""
    takes = TAKES.model_copy(update={"previous_position": 3})
    world.has(ONE, execution("e", batch(1, BEGINS, ACCEPTS, PARTS, takes), stored=2))
    joins = j.RunEndedByMerge(merge="tie", run=ONE, position=9)
    world.has(TWO, execution("t", batch(1, BEGINS, FREEZES, joins), ended="itself"))
    await world.store.reject_executions(ONE, ["e"])
    assert (await world.rebuilt()).left_out == ()
    assert (await world.kinds())[-2:] == ["ComponentChanged", "RunMerged"]


# -- who came home -----------------------------------------------------------------------------

LEFT = ClaimedAgent(run=PART, name=AgentName("ann"), began=6, execution=1)
HOME = j.RunReopened(at=8, to=2, state={}, claimed={AgentName("ann"): LEFT})
STAYS = entry_to_json(
    j.RunForked(at=6, run=PART, source=ONE, to=2, state=CrewState(run=PART).to_json())
)


@pytest.mark.parametrize("rows", ["stored", "lost"])
async def test_who_went_on_elsewhere_did_not_come_home(world: World, rows: str) -> None:
    world.has(ONE, execution("e", batch(1, BEGINS, PAUSES, HOME, PAUSES), stored=2))
    on = entry_to_json(j.RunReopened(at=9, to=3, state={}))
    theirs = Batch(first=3, entries=(STAYS, on))
    if rows == "stored":
        await world.store.append(PART, theirs)
    else:
        world.has(PART, execution("p", theirs, ended=""))
    report = await world.rebuilt()
    assert await world.kinds() == ["RunStarted", "Paused"]
    assert "'one-part' went on with its creatures at 4 itself" in report.left_out[0].why
    assert await world.store.key_owner(LEFT.key(1)) is None


async def test_who_came_home_is_claimed_again(world: World) -> None:
    world.has(ONE, execution("e", batch(1, BEGINS, PAUSES, HOME, PAUSES), stored=2))
    theirs = Batch(first=3, entries=(STAYS, entry_to_json(j.RunReopened(at=7, to=3, state={}))))
    await world.store.append(PART, theirs)  # before that
    for _ in range(2):
        assert (await world.rebuilt()).left_out == ()
        assert (await world.kinds())[2:] == ["RunReopened", "Paused"]
        assert await world.store.key_owner(LEFT.key(1)) == "one/2/"
        assert await world.store.key_owner(LEFT.key(2)) is None


# -- to replace rows ---------------------------------------------------------------------------

RESET = Ends("", "", others=frozenset({"e0"}))
"""Of an execution that was reset from another one."""


async def test_an_id_that_another_run_has_now_is_free_of_what_was(world: World) -> None:
    await world.store.append(ONE, batch(1, BEGINS, PAUSES, PARTS))
    forked = {"kind": "RunForked", "run": PART, "source": ONE, "to": 2, "state": {}}
    await world.store.append(PART, Batch(first=3, entries=(forked,)))
    anew = batch(1, BEGINS.model_copy(update={"at": 6}))
    world.has(ONE, execution("e", anew, ends=RESET))
    with pytest.raises(RemoteAgentConflict, match="creatures left it for 'one-part'"):
        await world.rebuilt(replace=True)
    world.has(ONE, execution("e", anew, ended=""))
    assert (await world.rebuilt(replace=True)).replaced_after == 0
    assert await world.kinds() == ["RunStarted"]


async def test_rows_of_a_part_that_never_began_may_be_replaced(world: World) -> None:
    await world.store.append(ONE, batch(1, BEGINS, PAUSES, PARTS))
    world.has(ONE, execution("e", batch(1, BEGINS, j.RunResumed()), ends=RESET))
    world.has(PART, execution("p"))
    assert (await world.rebuilt(replace=True)).replaced_after == 1
    assert await world.kinds() == ["RunStarted", "RunResumed"]
