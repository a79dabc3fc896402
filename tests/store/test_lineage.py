"""Runs that are changed, rolled back, reopened and forked: their rows, the same in both stores."""

import random
from itertools import permutations

import pytest

from crewlog.ids import ContentHash, CrewName, InterruptId, NodeName, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.checkpoints import exchange_number
from crewlog.state.journal import Batch
from crewlog.state.model import CrewState, Interrupt
from crewlog.store import Store
from store.journals import Journal, answered, asked, started

OLD, NEW = ContentHash("def"), ContentHash("new")


def state(
    run: RunId, *questions: str, definition: ContentHash = OLD, **more: object
) -> dict[str, object]:
    """A state as a rollback has it, with open questions."""
    open_ = {
        InterruptId(q): Interrupt(id=InterruptId(q), kind="ask", question="Well?", position=2)
        for q in questions
    }
    made = CrewState(run=run, crew=CrewName("band"), definition=definition, interrupts=open_)
    return made.model_copy(update=more).to_json()


async def store_in_any_order(store: Store, journal: Journal, seed: int) -> None:
    batches = [journal.batch(n, n) for n in range(1, len(journal) + 1) if journal.entries[n - 1]]
    random.Random(seed).shuffle(batches)  # noqa: S311
    for batch in [*batches, batches[0]]:
        await store.append(journal.run, batch)


@pytest.mark.parametrize("seed", range(8))
async def test_a_change_and_a_rollback(store: Store, run: RunId, seed: int) -> None:
    journal = Journal(run, [started(run)])
    swapped = j.GraphSwapped(graph_version=2, crew=CrewName("trio"), definition=NEW)
    journal.add(swapped)
    await store_in_any_order(store, journal, seed)
    row = await store.get_run(run)
    assert row is not None
    assert (row.crew, row.definition, row.recipe) == ("trio", NEW, OLD)
    journal.add(j.RunFailed(error="no", at=5))
    journal.add(j.RunReopened(to=2, state=state(run, definition=NEW), at=9))
    await store_in_any_order(store, journal, seed)
    row = await store.get_run(run)
    assert row is not None
    assert (row.status, row.ended_at, row.error, row.definition) == ("running", None, "", NEW)
    journal.add(j.RunRolledBack(to=1, state=state(run, status="paused")))
    await store_in_any_order(store, journal, seed)
    row = await store.get_run(run)
    assert row is not None
    assert (row.status, row.definition, row.recipe, row.crew) == ("paused", OLD, OLD, "band")
    rules = j.DefinitionChanged(crew=CrewName("band"), definition=NEW)
    journal.add(rules)
    await store_in_any_order(store, journal, seed)
    row = await store.get_run(run)
    assert row is not None
    assert (row.definition, row.recipe, row.source_position, row.source) == (NEW, OLD, 0, None)


@pytest.mark.parametrize("seed", range(8))
async def test_questions_over_a_rollback(store: Store, run: RunId, seed: int) -> None:
    journal = Journal(run, [started(run), asked("i1", at=2), answered("i1"), asked("i2", at=4)])
    await store_in_any_order(store, journal, seed)
    assert [q.id for q in await store.list_interrupts(run)] == ["i2"]
    back = j.RunRolledBack(to=2, state=state(run, "i1"), at=9)
    journal.add(back)
    await store_in_any_order(store, journal, seed)
    (question,) = await store.list_interrupts(run)
    assert (question.id, question.decision, question.answered_by, question.at) == (
        "i1",
        None,
        "",
        2,
    )
    row = await store.get_run(run)
    assert row is not None
    assert row.status == "waiting"
    assert [q.id for q in await store.list_interrupts(run, open_only=False)] == ["i1", "i2"]
    journal.add(answered("i1", "reject", "ann"))
    await store_in_any_order(store, journal, seed)
    assert await store.list_interrupts(run) == []
    first, second = await store.list_interrupts(run, open_only=False)
    assert (first.decision, first.answered_by) == ("reject", "ann")
    assert second.decision is None
    row = await store.get_run(run)
    assert row is not None
    assert row.status == "running"


@pytest.mark.parametrize("seed", range(4))
async def test_a_fork(store: Store, run: RunId, seed: int) -> None:
    base = 7
    source = RunId("source")
    forked = j.RunForked(run=run, source=source, to=base, by="ann", at=50, state=state(run, "i1"))
    entries = [j.entry_to_json(e) for e in (forked, j.Paused(), answered("i1"))]
    batches = [j.Batch(first=base + 1 + n, entries=(e,)) for n, e in enumerate(entries)]
    for batch in list(permutations(batches))[seed]:
        await store.append(run, batch)
    row = await store.get_run(run)
    assert row is not None
    assert (row.source_position, row.source, row.status, row.started_at) == (
        base,
        source,
        "paused",
        50,
    )
    assert (row.crew, row.definition, row.recipe, row.started_by) == ("band", OLD, OLD, "ann")
    for after in (0, 3, base):
        rows = await store.read_journal(run, after)
        assert [r.position for r in rows] == [8, 9, 10], after
    assert [r.position for r in await store.read_journal(run, 8)] == [9, 10]
    (question,) = await store.list_interrupts(run, open_only=False)
    assert (question.id, question.decision, question.position) == ("i1", "approve", 2)
    assert [(c.position, c.kind) for c in await store.list_checkpoints(run)] == [(8, "fork")]
    await store.truncate_journal(run, 8)
    row = await store.get_run(run)
    assert row is not None
    assert (row.source_position, row.status) == (base, "waiting")


async def test_a_gap_behind_a_base_is_one(store: Store, run: RunId) -> None:
    await store.append(run, j.Batch(first=9, entries=(j.entry_to_json(j.Paused()),)))
    assert await store.read_journal(run) == []


async def test_kinds_of_checkpoints_and_tags(store: Store, run: RunId) -> None:
    journal = Journal(
        run,
        [
            started(run),
            j.NodesReached(at=2, to=(j.ReachedNode(node=NodeName("a")),)),
            j.StepCompleted(at=3, step=StepId("a#1")),
            j.NodesReached(at=4, source=NodeName("a")),
            j.RunRolledBack(at=5, to=2, state=state(run)),
            j.CheckpointTagged(at=6, checkpoint=3, tag="good"),
            j.CheckpointTagged(at=7, checkpoint=3, tag="best"),
            j.CheckpointTagged(at=8, checkpoint=5, tag="good"),
            j.CheckpointTagged(at=9, checkpoint=4, tag="odd"),
        ],
    )
    await store_in_any_order(store, journal, 3)
    found = [(c.position, c.kind, c.node, c.tags) for c in await store.list_checkpoints(run)]
    assert found == [
        (2, "start", "", ()),
        (3, "step", "a", ("best",)),
        (4, "tag", "", ("odd",)),
        (5, "rollback", "", ("good",)),
    ]
    assert [c.position for c in await store.list_checkpoints(run, after=3, limit=1)] == [4]


async def test_the_end_of_a_turn_is_named_by_its_number(store: Store, run: RunId) -> None:
    journal = Journal(run, [started(run), j.ExchangeEnded(at=2, exchange=7)])
    await store_in_any_order(store, journal, 3)
    (row,) = await store.list_checkpoints(run)
    assert (row.kind, row.step, row.node, exchange_number(row.step)) == (
        "exchange",
        "exchange:7",
        "",
        7,
    )
    assert [exchange_number(name) for name in ("exchange:x", "exchange:", "writer#2", "7")] == [
        None
    ] * 4


async def test_a_body_in_an_edit_is_stored(store: Store, run: RunId) -> None:
    journal = Journal(run, [started(run)])
    body = journal.body(["large"])
    edit = j.Edit(path="outputs.ann.list", body=body, inline=["large"])
    journal.add(j.StateEdited(edits=(edit,)))
    await store.append(run, journal.batch())
    assert await store.get_bodies([body]) == {body: ["large"]}


async def test_what_a_fork_goes_on_from_is_known_when_that_is_gone(store: Store) -> None:
    first, middle, last, side = (RunId(f"line-{name}") for name in ("a", "b", "c", "d"))
    await store.append(first, Journal(first, [started(first)]).batch(1, 1))
    for run, source in ((middle, first), (last, middle), (side, first)):
        forked = j.RunForked(run=run, source=source, to=1, state=state(source), at=1)
        await store.append(run, Batch(first=2, entries=(j.entry_to_json(forked),)))
    assert [await store.lineage(run) for run in (first, middle, last, side)] == [
        set(), {first}, {first, middle}, {first},
    ]  # fmt: skip
    await store.truncate_journal(middle)
    assert await store.lineage(last) == {first, middle}
    await store.delete([first], 1)
    assert await store.lineage(last) == {first, middle}
    assert await store.lineage(middle) == {first}
    await store.delete([last, side], 1)  # nothing goes on from them any more
    assert await store.lineage(middle) == set()


async def test_how_a_deleted_run_went_on_from_another_is_known(store: Store) -> None:
    """It began from the one, and took in its own part, which it seems to have begun from, too."""
    first, run, part, last = (RunId(f"kin-{name}") for name in ("a", "b", "c", "d"))
    await store.append(first, Journal(first, [started(first)]).batch(1, 1))
    for each, source in ((run, first), (part, run), (last, run)):
        forked = j.RunForked(run=each, source=source, to=1, state=state(source), at=1)
        await store.append(each, Batch(first=2, entries=(j.entry_to_json(forked),)))
    joined = j.LogsMerged(parents=(part,), at=2)
    await store.append(run, Batch(first=3, entries=(j.entry_to_json(joined),)))
    wanted = {(run, first, False), (run, part, True), (part, run, False), (last, run, False)}

    async def told() -> set[tuple[RunId, RunId, bool]]:
        return {
            (each.run, each.source, each.by_merge)
            for each in await store.lineage_links([run, part])
        }

    assert await told() == wanted
    await store.delete([run], 1)
    assert await told() == wanted
    await store.delete([part], 1)
    assert await told() == wanted
