"""What every store must do: the same tests for Postgres and for memory."""

import asyncio
from typing import Any

import pytest

from crewlog.authority.signatures import Signature, SignedApproval
from crewlog.canonical_json import hash_json
from crewlog.errors import HistoryConflict, InternalError, StoreIncomplete
from crewlog.ids import (
    PUBLIC,
    ContentHash,
    CrewName,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
)
from crewlog.state import journal as j
from crewlog.state.logs import empty_log_head
from crewlog.state.model import CrewState, Interrupt
from crewlog.store import InMemoryStore, Store
from crewlog.store.protocol import CheckpointRow, InterruptRow, Kind, RunRow, Snapshot
from store.journals import (
    CHANNEL,
    PRIVATE,
    A,
    Journal,
    answered,
    asked,
    random_journal,
    rows_of,
    seeded,
    started,
)

HOSTILE = (
    "NUL \x00, lone \ud83d and \ude00, cut \ud83d\ude00, 😀 é, '; DROP TABLE x;-- \\0000 \\ %s $1 ~"
)
VALUES: list[Any] = [
    HOSTILE,
    {HOSTILE: [HOSTILE]},
    1.0,
    1,
    -0.0,
    1e308,
    0.1 + 0.2,
    10**4000,
    True,
    None,
    "",
    "~",
    "null",
    [],
    {},
    {"b": 1, "a": {"d": 1, "c": 2}},
    {"": [[[[]]]]},
    "\u2028\x1f\x7f\ufffe\uffff",
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
async def test_bodies_come_back_exactly(store: Store, value: Any) -> None:
    hash_ = hash_json(value)
    await store.put_bodies(RunId("r"), {hash_: value})
    found = (await store.get_bodies([hash_]))[hash_]
    assert found == value
    assert type(found) is type(value)
    assert hash_json(found) == hash_
    if isinstance(value, dict):
        assert list(found) == list(value), "key order is what a model sees"


async def test_a_body_of_5_mb(store: Store) -> None:
    body = {"text": "é😀" * 1_250_000, "n": 1.0}
    hash_ = hash_json(body)
    await store.put_bodies(RunId("r"), {hash_: body})
    assert hash_json((await store.get_bodies([hash_]))[hash_]) == hash_


async def test_missing_bodies_are_named(store: Store) -> None:
    known = hash_json("known")
    await store.put_bodies(RunId("r"), {known: "known"})
    with pytest.raises(StoreIncomplete, match="no body 'x1', 'x2', 'x3' and 1 more") as caught:
        await store.get_bodies([known, *(ContentHash(f"x{n}") for n in (1, 2, 3, 4))])
    assert "rebuild" in caught.value.remedy
    assert await store.get_bodies([]) == {}
    assert await store.get_bodies([known, known]) == {known: "known"}


async def test_what_is_stored_is_not_the_callers_object(store: Store, run: RunId) -> None:
    body = {"list": [1]}
    hash_ = hash_json(body)
    await store.put_bodies(RunId("r"), {hash_: body})
    body["list"].append(2)
    (await store.get_bodies([hash_]))[hash_]["list"].append(3)
    assert await store.get_bodies([hash_]) == {hash_: {"list": [1]}}


async def test_definitions(store: Store, run: RunId) -> None:
    definition = {"name": HOSTILE, "agents": {"b": {}, "a": {}}}
    hash_ = await store.put_definition(run, definition)
    assert hash_ == hash_json(definition)
    assert await store.put_definition(run, definition) == hash_
    assert list((await store.get_definition(hash_))["agents"]) == ["b", "a"]
    with pytest.raises(StoreIncomplete, match="no definition 'nope'"):
        await store.get_definition(ContentHash("nope"))


async def test_crews_are_removed_and_their_versions_go_on(store: Store, run: RunId) -> None:
    name = CrewName(f"gone-{run}-{HOSTILE}")
    other = CrewName(f"kept-{run}")
    for version in (1, 2):
        await store.register_crew(name, {"v": version}, 10)
    kept = await store.register_crew(other, {"v": 1}, 10)
    await store.set_default_crew(name)
    assert await store.default_crew() == name
    assert (await store.remove_crew(name), await store.remove_crew(name)) == (2, 0)
    assert (await store.get_crew(name), await store.get_crew(name, 1)) == (None, None)
    assert await store.default_crew() is None
    assert [row for row in await store.list_crews() if row.name in (name, other)] == [kept]
    again = await store.register_crew(name, {"v": 2}, 11)
    assert (again.version, await store.get_crew(name)) == (3, again)
    every = await store.list_crews(all_versions=True)
    assert [row for row in every if row.name == name] == [again]
    await store.set_default_crew(other)
    await store.set_default_crew(name)
    assert await store.default_crew() == name
    await store.set_default_crew(None)
    assert await store.default_crew() is None


async def test_crews_get_versions(store: Store, run: RunId) -> None:
    name = CrewName(f"crew-{run}-{HOSTILE}")
    assert await store.get_crew(name) is None
    first = await store.register_crew(name, {"v": 1}, 10)
    assert (first.name, first.version, first.at) == (name, 1, 10)
    assert first.definition == hash_json({"v": 1})
    assert await store.register_crew(name, {"v": 1}, 11) == first
    second = await store.register_crew(name, {"v": 2}, 12)
    assert second.version == 2
    third = await store.register_crew(name, {"v": 1}, 13)
    assert third.version == 3, "going back is a change"
    assert await store.get_crew(name) == third
    assert await store.get_crew(name, 2) == second
    assert await store.get_crew(name, 4) is None
    assert await store.get_crew(name, 0) is None
    assert [row for row in await store.list_crews() if row.name == name] == [third]
    every = await store.list_crews(all_versions=True)
    assert [row for row in every if row.name == name] == [first, second, third]


async def test_registrations_at_once(store: Store, run: RunId) -> None:
    name = CrewName(f"crew-{run}")
    rows = await asyncio.gather(*(store.register_crew(name, {"v": n // 2}, n) for n in range(12)))
    newest = await store.get_crew(name)
    assert newest is not None
    by_version = {row.version: row for row in rows}
    assert sorted(by_version) == list(range(1, newest.version + 1))
    assert by_version[newest.version] == newest


async def test_registered_parts_get_versions(store: Store, run: RunId) -> None:
    name = f"{run}-{HOSTILE}"
    assert await store.get_catalog_entry("registry", name) is None
    assert await store.list_catalog_entries("registry", name) == []
    tool = {"run": "m:f", "words": [HOSTILE, "é"], "b": 1, "a": 1.0}
    [registry, part] = await store.register(
        {("registry", name): {"tools": {"t": tool}}, ("tool", f"{name}/t"): tool}, 10
    )
    assert (registry.kind, registry.name, registry.version, registry.at) == (
        "registry",
        name,
        1,
        10,
    )
    assert (part.kind, part.name, part.version) == ("tool", f"{name}/t", 1)
    assert part.content == hash_json(tool)
    assert list(await store.get_definition(part.content)) == ["run", "words", "b", "a"]
    # In another order, with one change: only what changed has a new version.
    again = await store.register(
        {("tool", f"{name}/t"): tool, ("registry", name): {"tools": {}}}, 11
    )
    assert again == [part, await store.get_catalog_entry("registry", name, 2)]
    back = await store.register({("registry", name): {"tools": {"t": tool}}}, 12)
    assert [row.version for row in back] == [3], "going back is a change"
    assert await store.get_catalog_entry("registry", name) == back[0]
    assert await store.get_catalog_entry("registry", name, 1) == registry
    assert await store.get_catalog_entry("registry", name, 4) is None
    assert await store.get_catalog_entry("registry", name, 0) is None
    assert await store.get_catalog_entry("agent", f"{name}/t") is None, "a name is of one kind"
    assert await store.list_catalog_entries("registry", name) == [registry, again[1], back[0]]
    assert [row for row in await store.list_catalog_entries("registry") if row.name == name] == back
    assert await store.register({}, 13) == []


async def test_registered_names_are_listed_in_order(store: Store, run: RunId) -> None:
    names = [f"{run}{end}" for end in ("", "-", "/", "A", "Z", "_", "a", "é", "😀")]
    await store.register({("model", name): {"of": name} for name in reversed(names)}, 1)
    listed = [row.name for row in await store.list_catalog_entries("model")]
    assert [name for name in listed if name.startswith(f"{run}")] == names


async def test_nothing_of_a_registration_that_fails_is_kept(store: Store, run: RunId) -> None:
    with pytest.raises(ValueError, match="JSON"):
        await store.register({("agent", run): {"good": 1}, ("tool", run): {"bad": float("nan")}}, 1)
    assert await store.get_catalog_entry("agent", run) is None


async def test_registrations_of_many_parts_at_once(store: Store, run: RunId) -> None:
    """Consecutive versions, and no deadlock, whatever the order of the parts."""
    keys: list[tuple[Kind, str]] = [("tool", f"{run}/{n}") for n in range(6)]
    results = await asyncio.gather(
        *(
            store.register({key: {"v": n // 2} for key in (keys if n % 2 else reversed(keys))}, n)
            for n in range(12)
        )
    )
    for key in keys:
        versions = await store.list_catalog_entries(*key)
        assert [row.version for row in versions] == list(range(1, len(versions) + 1))
        assert 6 <= len(versions) <= 12
        found = {row.version: row for rows in results for row in rows if row.name == key[1]}
        assert [found[version] for version in sorted(found)] == versions
    counts = {len(await store.list_catalog_entries(*key)) for key in keys}
    assert len(counts) == 1, "each registration came whole after another"


async def test_a_runs_life(store: Store, run: RunId) -> None:
    journal = Journal(run, [started(run, at=7)])
    await store.append(run, journal.batch())
    row = RunRow(
        run=run,
        crew=CrewName("band"),
        definition=ContentHash("def"),
        recipe=ContentHash("def"),
        status="running",
        position=1,
        started_at=7,
        started_by="eve",
    )
    assert await store.get_run(run) == row
    for entry, status in [
        (j.Paused(), "paused"),
        (j.RunResumed(), "running"),
        (asked("i1"), "waiting"),
        (j.Paused(), "paused"),
        (j.RunResumed(), "waiting"),
        (asked("i2"), "waiting"),
        (answered("i1"), "waiting"),
        (answered("i2"), "running"),
        (asked("i3"), "waiting"),
        (j.StopRequested(), "stopping"),
        (j.RunStopped(at=99), "stopped"),
    ]:
        position = journal.add(entry)
        await store.append(run, journal.batch(position))
        changes: dict[str, Any] = {"status": status, "position": position}
        changes |= {"ended_at": 99} if status == "stopped" else {}
        assert await store.get_run(run) == row.model_copy(update=changes)
    assert await store.list_interrupts(run) == [], "a question of an ended run is not open"
    assert len(await store.list_interrupts(run, open_only=False)) == 3


@pytest.mark.parametrize(
    ("entry", "status", "error"),
    [
        (j.RunFailed(at=9, error=HOSTILE), "failed", HOSTILE),
        (j.RunCompleted(at=9), "completed", ""),
        (j.RunEndedByMerge(at=9, merge="o", run=RunId("other"), position=7), "merged", ""),
    ],
)
async def test_how_a_run_ends(
    store: Store, run: RunId, entry: j.JournalEntry, status: str, error: str
) -> None:
    journal = Journal(run, [started(run, by=HOSTILE), entry])
    await store.append(run, journal.batch(2))
    early = await store.get_run(run)
    assert early is not None
    assert (early.status, early.crew, early.started_at) == (status, "", 0)
    await store.append(run, journal.batch(1, 1))
    row = await store.get_run(run)
    assert row is not None
    assert (row.status, row.error, row.ended_at, row.position) == (status, error, 9, 2)
    assert (row.crew, row.started_at, row.started_by) == ("band", 1, HOSTILE)


async def test_no_run(store: Store) -> None:
    nobody = RunId("nobody")
    assert await store.get_run(nobody) is None
    assert await store.read_journal(nobody) == []
    assert await store.list_interrupts(nobody) == []
    assert await store.list_checkpoints(nobody) == []
    assert await store.get_snapshot(nobody, 9) is None


async def test_list_runs(store: Store, run: RunId) -> None:
    before = await store.count_runs()
    base = 10**12  # newer than the runs of other tests
    for n, tail in enumerate([[], [asked("i1")], [j.RunCompleted()], [j.Paused()], [j.Paused()]]):
        one = RunId(f"{run}-{n}")
        journal = Journal(one, [started(one, at=base + n), *tail])
        await store.append(one, journal.batch())

    async def found(*statuses: Any, limit: int = 100) -> list[int]:
        rows = await store.list_runs(statuses=statuses, limit=limit)
        return [int(row.run.rpartition("-")[2]) for row in rows if row.run.startswith(f"{run}-")]

    assert await found() == [4, 3, 2, 1, 0]
    assert await store.count_runs() == before + 5
    assert await found(limit=2) == [4, 3]
    assert await found("running") == [0]
    assert await found("waiting") == [1]
    assert await found("waiting", "running") == [1, 0]
    assert await found("completed", "paused", limit=2) == [4, 3]
    assert await found("failed") == []


async def test_interrupts(store: Store, run: RunId) -> None:
    question = Interrupt(id=InterruptId("i1"), kind="manual", question=HOSTILE, detail="d")
    journal = Journal(run, [started(run), j.InterruptRaised(at=5, interrupt=question)])
    journal.add(answered("i1", HOSTILE, by=HOSTILE))
    await store.append(run, journal.batch(3))
    assert await store.list_interrupts(run) == []
    assert await store.list_interrupts(run, open_only=False) == [], "not asked, as far as is known"
    await store.append(run, journal.batch(1, 2))
    assert await store.list_interrupts(run) == []
    [row] = await store.list_interrupts(run, open_only=False)
    assert row == InterruptRow(
        run=run,
        id=InterruptId("i1"),
        position=2,
        at=5,
        interrupt=row.interrupt,
        decision=HOSTILE,
        answered_by=HOSTILE,
    )
    assert Interrupt.from_json(row.interrupt) == question.model_copy(update={"position": 2})


async def test_interrupts_of_all_runs_oldest_first(store: Store, run: RunId) -> None:
    for n, at in [(1, 50), (2, 40), (3, 60)]:
        one = RunId(f"{run}-{n}")
        await store.append(one, Journal(one, [started(one), asked("i1", at)]).batch())
    rows = [row for row in await store.list_interrupts() if row.run.startswith(f"{run}-")]
    assert [row.at for row in rows] == [40, 50, 60]


async def test_checkpoints(store: Store, run: RunId) -> None:
    step, question = StepId("a b#c#12"), StepId("ask#1")
    journal = Journal(run, [started(run), j.StepStarted(step=step, agent="ann")])
    journal.add(j.StepCompleted(step=step, at=8))
    journal.add(j.StepStarted(step=question))
    journal.add(j.StepCompleted(step=question, at=9))
    await store.append(run, journal.batch(3))  # the end before the start
    await store.append(run, journal.batch(1, 4))
    first = CheckpointRow(run=run, position=3, step=step, node="a b#c", agent="ann", at=8)
    second = CheckpointRow(run=run, position=5, step=question, node=NodeName("ask"), at=9)
    assert await store.list_checkpoints(run) == [first, second]
    assert await store.list_checkpoints(run, after=3) == [second]
    assert await store.list_checkpoints(run, limit=1) == [first]


async def test_another_entry_at_a_position(store: Store, run: RunId) -> None:
    journal = Journal(run, [started(run), j.Paused(), j.RunResumed()])
    await store.append(run, journal.batch())
    other = Journal(run, [started(run), j.Paused(), j.RunCompleted(), j.Paused()])
    position = other.say("fork")
    with pytest.raises(HistoryConflict, match=f"position 3 of run '{run}'.*different entry"):
        await store.append(run, other.batch(2), other.bodies)
    row = await store.get_run(run)
    assert row is not None
    assert (row.status, row.position) == ("running", 3)
    assert len(await store.read_journal(run)) == 3, "nothing of the batch is stored"
    with pytest.raises(StoreIncomplete):
        await store.read_log(other.heads[position][PUBLIC])
    with pytest.raises(StoreIncomplete):
        await store.get_bodies(list(other.bodies))
    await store.append(run, journal.batch())


async def test_conflicts_at_once(store: Store, run: RunId) -> None:
    journals = [Journal(run, [started(run, at=n)]) for n in range(8)]
    results = await asyncio.gather(
        *(store.append(run, one.batch()) for one in journals), return_exceptions=True
    )
    assert {type(result) for result in results} == {HistoryConflict, int}
    assert len([result for result in results if isinstance(result, int)]) == 1


async def test_key_order_is_no_difference(store: Store, run: RunId) -> None:
    batch = Journal(run, [started(run)]).batch()
    turned = dict(reversed(batch.entries[0].items()))
    await store.append(run, batch)
    await store.append(run, batch.model_copy(update={"entries": (turned,)}))
    assert list((await store.read_journal(run))[0].entry) == list(batch.entries[0])


async def test_an_unknown_entry(store: Store, run: RunId) -> None:
    with pytest.raises(InternalError, match="not one that this version of Crewlog knows"):
        await store.append(run, j.Batch(entries=({"kind": "FromTheFuture"},)))
    assert await store.read_journal(run) == []


async def test_an_empty_batch_stores_its_bodies(store: Store, run: RunId) -> None:
    await store.append(run, j.Batch.EMPTY)
    await store.append(run, j.Batch.EMPTY, {hash_json(run): run})
    assert await store.get_bodies([hash_json(run)]) == {hash_json(run): run}
    assert await store.get_run(run) is None


async def test_journal_stops_at_a_gap(store: Store, run: RunId) -> None:
    journal = Journal(run, [started(run), *[j.Paused(at=n) for n in range(9)]])
    await store.append(run, journal.batch(1, 3))
    await store.append(run, journal.batch(6, 8))

    async def positions(after: int = 0, limit: int = 1000) -> list[int]:
        return [row.position for row in await store.read_journal(run, after, limit)]

    assert await positions() == [1, 2, 3]
    assert await positions(3) == []
    assert await positions(4) == []
    assert await positions(5) == [6, 7, 8]
    assert await positions(99) == []
    await store.append(run, journal.batch(3, 7))
    assert await positions() == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_a_large_journal_in_pages(store: Store, run: RunId) -> None:
    journal = Journal(run, [started(run), *[j.Paused(at=n, reason="x" * 100) for n in range(4999)]])
    for first in range(1, 5001, 1000):
        await store.append(run, journal.batch(first, first + 999))
    entries: list[Any] = []
    while page := await store.read_journal(run, len(entries), 700):
        entries += [row.entry for row in page]
    assert entries == journal.entries


async def test_logs(store: Store, run: RunId) -> None:
    journal = Journal(run, [started(run)])
    heads = []
    for n in range(5):
        journal.say(f"m{n}", PUBLIC, *([PRIVATE] if n % 2 else [CHANNEL]))
        heads.append(journal.heads[-1][PUBLIC])
    await store.append(run, journal.batch(), journal.bodies)
    links = await store.read_log(heads[-1])
    assert [link.head for link in links] == heads
    assert [link.position for link in links] == [2, 3, 4, 5, 6]
    assert [link.body for link in links] == [hash_json(f"m{n}") for n in range(5)]
    assert [link.previous for link in links] == [empty_log_head(run, PUBLIC), *heads[:-1]]
    assert await store.read_log(heads[2]) == links[:3], "a head names its own transcript"
    assert await store.read_log(heads[4], {heads[2]}) == links[3:]
    assert await store.read_log(heads[4], heads[:2]) == links[2:]
    assert await store.read_log(heads[4], heads) == []
    private = await store.read_log(journal.heads[-1][PRIVATE])
    assert [link.body for link in private] == [hash_json("m1"), hash_json("m3")]


async def test_logs_with_gaps(store: Store, run: RunId) -> None:
    journal = Journal(run, [started(run)])
    heads = [journal.heads[journal.say(f"m{n}")][PUBLIC] for n in range(6)]
    await store.append(run, journal.batch(1, 3))
    await store.append(run, journal.batch(5))
    with pytest.raises(StoreIncomplete, match=f"no link of the log head '{heads[2]}'"):
        await store.read_log(heads[5])
    assert len(await store.read_log(heads[5], [heads[2]])) == 3
    with pytest.raises(StoreIncomplete):
        await store.read_log(heads[2])
    root = empty_log_head(run, "group:none")
    with pytest.raises(StoreIncomplete):
        await store.read_log(root)
    assert await store.read_log(root, [root]) == []
    await store.append(run, journal.batch(4, 4))
    assert len(await store.read_log(heads[5])) == 6


async def test_inline_bodies_are_stored(store: Store, run: RunId) -> None:
    message = {"role": "user", "content": HOSTILE}
    ref = j.MessageRef(body=hash_json(message), logs=(PUBLIC,), inline=message)
    await store.append(run, Journal(run, [started(run), j.MessageAdded(ref=ref)]).batch())
    assert await store.get_bodies([ref.body]) == {ref.body: message}


async def test_hostile_names(store: Store, run: RunId) -> None:
    # Temporal's ids are UTF-8: they can have a NUL, but no lone surrogates.
    name = RunId(f"{run} NUL \x00 '; DROP TABLE x;-- \\0000 \\ 😀")
    journal = Journal(name, [started(name), j.StepStarted(step=f"{HOSTILE}#1", agent=HOSTILE)])
    journal.add(j.StepCompleted(step=StepId(f"{HOSTILE}#1")))
    journal.say("x", PUBLIC, LogName("group:\x00'"))
    journal.add(asked(HOSTILE))
    await store.append(name, journal.batch(), journal.bodies)
    row = await store.get_run(name)
    assert row is not None
    assert row.run == name
    [checkpoint] = await store.list_checkpoints(name)
    assert (checkpoint.node, checkpoint.agent) == (HOSTILE, HOSTILE)
    assert [found.id for found in await store.list_interrupts(name)] == [HOSTILE]
    assert [found.entry for found in await store.read_journal(name)] == journal.entries


async def test_values_are_appended_exactly(store: Store, run: RunId) -> None:
    bodies = {hash_json(value): value for value in VALUES}
    entries = tuple({"kind": "RunOutputSet", "flag": HOSTILE, "value": value} for value in VALUES)
    await store.append(run, j.Batch(entries=entries), bodies)
    rows = await store.read_journal(run)
    assert [hash_json(row.entry) for row in rows] == [hash_json(entry) for entry in entries]
    found = await store.get_bodies(list(bodies))
    assert [hash_json(body) for body in found.values()] == list(bodies)


async def test_hostile_texts_in_every_row(store: Store, run: RunId) -> None:
    other = RunId(f"{run} NUL \x00 '; DROP TABLE x;-- \\0000 \\ 😀")
    journal = Journal(run, [started(run, by=HOSTILE), asked("i", question=HOSTILE)])
    journal.add(answered("i", decision=HOSTILE, by=HOSTILE))
    journal.add(j.CheckpointTagged(checkpoint=1, tag=HOSTILE))
    journal.add(j.LogsMerged(parents=(other,)))
    journal.add(j.RunFailed(error=HOSTILE))
    await store.append(run, journal.batch())
    await store.append(run, journal.batch())  # it merges each row with itself
    row = await store.get_run(run)
    assert row is not None
    assert (row.started_by, row.error) == (HOSTILE, HOSTILE)
    [question] = await store.list_interrupts(run, open_only=False)
    assert (question.interrupt["question"], question.decision) == (HOSTILE, HOSTILE)
    assert question.answered_by == HOSTILE
    [checkpoint] = await store.list_checkpoints(run)
    assert checkpoint.tags == (HOSTILE,)
    assert [tie.source for tie in await store.lineage_links([run])] == [other]
    assert [found.entry for found in await store.read_journal(run)] == journal.entries


async def test_snapshots(store: Store, run: RunId) -> None:
    state = CrewState(run=run, position=4, flags={"f": HOSTILE})  # type: ignore[dict-item]
    await store.put_snapshot(run, Snapshot(position=4, state=state.to_json()))
    await store.put_snapshot(run, Snapshot(position=4, state={"other": 1}))
    await store.put_snapshot(run, Snapshot(position=9, state={"nine": 1.0}))
    assert await store.get_snapshot(run, 3) is None
    for position in (4, 8):
        found = await store.get_snapshot(run, position)
        assert found is not None
        assert found.position == 4
        assert CrewState.from_json(found.state) == state
    assert await store.get_snapshot(run, 99) == Snapshot(position=9, state={"nine": 1.0})
    assert await store.get_run(run) is None


@pytest.mark.parametrize("seed", range(8))
async def test_what_is_forgotten_was_never_there(store: Store, run: RunId, seed: int) -> None:
    rng = seeded(2000 + seed)
    journal, other = random_journal(run, rng), random_journal(RunId(f"{run}-other"), rng)
    for one in (journal, other):
        await store.append(one.run, one.batch(), one.bodies)
        for position in range(1, len(one) + 1, 5):
            await store.put_snapshot(one.run, Snapshot(position=position, state={"at": position}))
    whole, others = await rows_of(store, journal), await rows_of(store, other)
    after = rng.randrange(len(journal))
    await store.truncate_journal(run, after)
    expected = InMemoryStore()
    await expected.append(run, journal.batch(1, after), journal.bodies)
    lists = ("run", "journal", "open", "interrupts", "checkpoints")
    found, wanted = await rows_of(store, journal), await rows_of(expected, journal, logs=False)
    assert {name: found[name] for name in lists} == {name: wanted[name] for name in lists}
    # What may be shared is still there.
    assert (found["logs"], found["bodies"]) == (whole["logs"], whole["bodies"])
    newest = await store.get_snapshot(run, 999)
    assert (newest.position if newest else None) == ((after - 1) // 5 * 5 + 1 if after else None)
    assert await rows_of(store, other) == others
    await store.append(run, journal.batch(after + 1))
    assert await rows_of(store, journal) == whole
    await store.truncate_journal(run)
    assert await store.get_run(run) is None
    assert await store.read_journal(run) == []
    assert await store.get_snapshot(run, 999) is None
    await store.truncate_journal(RunId(f"{run}-unknown"))


async def test_another_history_may_follow_what_was_forgotten(store: Store, run: RunId) -> None:
    steps = [started(run), j.StepStarted(step=StepId("a#1"), agent=A), asked("i1"), answered("i1")]
    first = Journal(run, [*steps, j.StepCompleted(step=StepId("a#1")), j.RunCompleted(at=9)])
    await store.append(run, first.batch())
    await store.truncate_journal(run, 3)
    assert [row.decision for row in await store.list_interrupts(run)] == [None]
    row = await store.get_run(run)
    assert row is not None
    assert (row.status, row.ended_at, row.position) == ("waiting", None, 3)
    second = Journal(run, [*steps[:3], answered("i1", "reject"), j.RunStopped(at=10)])
    await store.append(run, second.batch())
    [question] = await store.list_interrupts(run, open_only=False)
    assert question.decision == "reject"
    assert [row.entry for row in await store.read_journal(run)] == second.entries


async def test_memory_survives_close() -> None:
    store = InMemoryStore()
    await store.put_bodies(RunId("r"), {hash_json(1): 1})
    await store.close()
    assert await store.get_bodies([hash_json(1)]) == {hash_json(1): 1}


async def test_what_a_tool_said_when_it_was_approved_is_kept(store: Store, run: RunId) -> None:
    await store.approve_tool(run, "add", "D", "ada", 1, "Adds \U0001f600.")
    await store.approve_tool(run, "sub", "D", "ada", 1, "Subtracts.")
    assert await store.list_approved_descriptions(run) == {
        "add": "Adds \U0001f600.",
        "sub": "Subtracts.",
    }
    await store.approve_tool(run, "add", "E", "ada", 2, "Adds two.")
    assert await store.list_approved_descriptions(run) == {"add": "Adds two.", "sub": "Subtracts."}
    assert await store.list_approved_tools(run) == {"add": "E", "sub": "D"}


async def test_signed_approvals_are_kept_by_key(store: Store, run: RunId) -> None:
    def made(tool: str, key: str, digest: str, at: int) -> SignedApproval:
        proof = Signature(key=key, expires=at + 9, signature=f"{key}{digest}")
        return SignedApproval(source=run, tool=tool, hash=digest, by="ada", at=at, signature=proof)

    old, new = made("add", "k1", "D", 1), made("add", "k1", "E", 2)
    others = [made("add", "k2", "D", 3), made("sub", "k1", "D", 1)]
    for each in (old, *others, new, new):
        await store.put_signed_approval(each)
    assert list(await store.list_signed_approvals(run)) == [others[0], new, others[1]]
    assert not await store.list_signed_approvals(f"{run}-x")
