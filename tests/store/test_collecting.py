"""Content is deleted once no run refers to it, also if a run stores it again meanwhile."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from crewlog.canonical_json import hash_json
from crewlog.errors import HistoryConflict, StoreIncomplete
from crewlog.ids import PUBLIC, ContentHash, CrewName, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.model import Call, CrewState, FrontierStep, Output, Turn
from crewlog.store import PostgresStore, Store
from crewlog.store.protocol import GRACE
from store.journals import A, Journal, seeded, started
from store.waiting import held

NOW = 10 * GRACE
BODY = {"text": "shared"}
HASH = hash_json(BODY)


async def exists(store: Store, hash_: ContentHash) -> bool:
    try:
        await store.get_bodies([hash_])
    except StoreIncomplete:
        return False
    return True


async def has_definition(store: Store, hash_: ContentHash) -> bool:
    try:
        await store.get_definition(hash_)
    except StoreIncomplete:
        return False
    return True


def speech(run: RunId) -> Journal:
    journal = Journal(run, [started(run)])
    journal.say({"text": f"shared by {run.removesuffix('-new')}"}, PUBLIC)
    return journal


async def test_a_body_stays_until_the_run_that_stored_it_is_deleted(
    store: Store, run: RunId
) -> None:
    await store.put_bodies(run, {HASH: BODY})
    await store.put_bodies(RunId(f"{run}-b"), {HASH: BODY})
    await store.delete([run], NOW, grace=0)
    assert await exists(store, HASH)
    await store.delete([RunId(f"{run}-b")], NOW, grace=0)
    assert not await exists(store, HASH)


async def test_a_definition_stays_until_the_run_that_stored_it_is_deleted(
    store: Store, run: RunId
) -> None:
    """Its journal need not name it: a change may be pending, a dry run, or refused."""
    other, definition = RunId(f"{run}-b"), {"crew": run}
    hash_ = await store.put_definition(run, definition)
    await store.put_definition(other, definition)
    await store.delete([run], NOW)
    await store.delete([], NOW + GRACE)
    assert await has_definition(store, hash_)
    assert await store.put_definition(other, definition) == hash_
    deleted = await store.delete([other], NOW + GRACE)
    assert (deleted.definitions, await has_definition(store, hash_)) == (0, True)
    deleted = await store.delete([], NOW + 2 * GRACE)
    assert (deleted.definitions, await has_definition(store, hash_)) == (1, False)


async def test_a_definition_of_a_run_with_another_history_stays(store: Store, run: RunId) -> None:
    journal = speech(run)
    hash_ = await store.put_definition(run, {"crew": run})
    await store.append(run, journal.batch(), journal.bodies)
    await store.truncate_journal(run, 1)
    await store.delete([], NOW, grace=0)
    assert await has_definition(store, hash_)


async def test_a_definition_of_the_catalog_stays(store: Store, run: RunId) -> None:
    definition, name = {"crew": run}, CrewName(f"crew-{run}")
    hash_ = await store.put_definition(run, definition)
    await store.delete([run], NOW)
    await store.register_crew(name, definition, 1)
    await store.delete([], NOW + GRACE)
    await store.remove_crew(name)
    await store.put_definition(run, definition)
    await store.delete([run], NOW + GRACE, grace=0)
    assert await has_definition(store, hash_)


@pytest.mark.parametrize("seed", range(20))
async def test_content_that_a_run_refers_to_stays_in_any_order_of_calls(
    store: Store, run: RunId, seed: int
) -> None:
    """Each run stores some bodies, in its entries or before them, and some definitions."""
    rng, alive, now = seeded(seed), dict[RunId, set[ContentHash]](), NOW
    bodies = {hash_json(body): body for body in ({"text": f"{run} {n}"} for n in range(4))}
    crews = {hash_json(crew): crew for crew in ({"crew": f"{run} {n}"} for n in range(4))}
    used = dict[RunId, set[ContentHash]]()
    for number in range(30):
        now += rng.choice([1, GRACE // 2, GRACE])
        hash_ = rng.choice([*bodies])
        match rng.randrange(5):
            case 0:
                new = RunId(f"{run}-{number}")
                journal = Journal(new, [started(new)])
                journal.say(bodies[hash_], PUBLIC)
                await store.append(new, journal.batch(), journal.bodies)
                alive[new] = {hash_}
            case 1 if alive:
                other = rng.choice([*alive])
                await store.put_bodies(other, {hash_: bodies[hash_]})
                alive[other].add(hash_)
            case 2 if alive:
                other, definition = rng.choice([*alive]), rng.choice([*crews])
                assert await store.put_definition(other, crews[definition]) == definition
                used.setdefault(other, set()).add(definition)
            case 3 if alive:
                del alive[gone := rng.choice([*alive])]
                used.pop(gone, None)
                await store.delete([gone], now, grace=rng.choice([0, GRACE]))
            case _:
                await store.delete([], now, grace=rng.choice([0, GRACE]))
        for each in set[ContentHash]().union(*alive.values()):
            assert await exists(store, each)
        for each in set[ContentHash]().union(*used.values()):
            assert await has_definition(store, each)
    await store.delete([*alive], now, grace=0)
    assert not [each for each in bodies if await exists(store, each)]
    assert not [each for each in crews if await has_definition(store, each)]


async def test_hashes_in_the_state_of_a_fork_count(store: Store, run: RunId) -> None:
    """Its first entry has the state as JSON, with buffered completions inside of calls."""
    output, message = {"text": f"{run} large"}, {"text": f"{run} buffered"}
    source = Journal(run, [started(run)])
    source.add(j.OutputSet(agent=A, key="list", body=source.body(output)))
    await store.append(run, source.batch(), source.bodies)
    await store.put_bodies(run, {hash_json(message): message})
    ref = j.MessageRef(body=hash_json(message), logs=(PUBLIC,))
    answer = j.ToolCallCompleted(step=StepId("a#1"), call=2, agent=A, tool="t", ref=ref)
    call = Call(call=2, tool="t", status="buffered", completion=[j.entry_to_json(answer)])
    state = CrewState(
        run=run,
        crew=CrewName("band"),
        agent_outputs={A: {"list": Output(body=hash_json(output), position=2)}},
        frontier={
            StepId("a#1"): FrontierStep.from_json(
                {"step": "a#1", "node": "a", "turn": Turn(calls=(call,)).to_json()}
            )
        },
    )
    fork = RunId(f"{run}-fork")
    forked = j.RunForked(run=fork, source=run, to=2, state=state.to_json())
    await store.append(fork, j.Batch(first=3, entries=(j.entry_to_json(forked),)))
    await store.delete([run], NOW, grace=0)
    assert await exists(store, hash_json(output))
    assert await exists(store, hash_json(message))
    await store.delete([fork], NOW, grace=0)
    assert not await exists(store, hash_json(output))
    assert not await exists(store, hash_json(message))


@pytest.mark.parametrize("writes", ["append", "put_bodies"])
async def test_a_body_that_is_stored_again_while_it_is_deleted_stays(
    postgres_store: PostgresStore, database: str, run: RunId, writes: str
) -> None:
    store, old, new = postgres_store, speech(run), speech(RunId(f"{run}-new"))
    [hash_] = new.bodies
    await store.append(run, old.batch(), old.bodies)
    await store.delete([run], NOW)  # it is marked

    async def write() -> None:
        if writes == "append":
            await store.append(new.run, new.batch(), new.bodies)
        else:
            await store.put_bodies(new.run, new.bodies)

    # Both wait for the row: the deletion was first.
    async with held(
        database, "SELECT FROM crewlog.bodies WHERE hash = $1 FOR UPDATE", hash_
    ) as gate:
        deletion = await gate.begin(store.delete([], NOW + GRACE))
        writing = await gate.begin(write())
    await asyncio.gather(deletion, writing)
    assert await exists(store, hash_)


@pytest.mark.parametrize("writes", ["append", "put_bodies"])
async def test_a_body_that_is_being_stored_again_is_not_deleted(
    postgres_store: PostgresStore, database: str, run: RunId, writes: str
) -> None:
    store, old, new = postgres_store, speech(run), speech(RunId(f"{run}-new"))
    [hash_] = new.bodies
    await store.append(run, old.batch(), old.bodies)
    await store.delete([run], NOW)
    # A writer of another process, which has not committed: it has unmarked the row.
    unmark = "UPDATE crewlog.bodies SET unreferenced_at = NULL WHERE hash = $1"
    async with held(database, unmark, hash_) as gate:
        deletion = await gate.begin(store.delete([], NOW + GRACE))
        assert not deletion.done(), "it waits for the writer"
    assert (await deletion).bodies == 0
    if writes == "append":
        await store.append(new.run, new.batch(), new.bodies)
    else:
        await store.put_bodies(new.run, new.bodies)
    await store.delete([], NOW + 9 * GRACE, grace=0)
    assert await exists(store, hash_)


@pytest.mark.parametrize("writes", ["put_definition", "register_crew"])
async def test_a_definition_that_is_stored_again_while_it_is_deleted_stays(
    postgres_store: PostgresStore, database: str, run: RunId, writes: str
) -> None:
    store, definition = postgres_store, {"crew": run}
    hash_ = await store.put_definition(run, definition)
    await store.delete([run], NOW)  # it is marked

    async def write() -> None:
        if writes == "put_definition":
            await store.put_definition(RunId(f"{run}-new"), definition)
        else:
            await store.register_crew(CrewName(f"crew-{run}"), definition, 1)

    lock = "SELECT FROM crewlog.definitions WHERE hash = $1 FOR UPDATE"
    async with held(database, lock, hash_) as gate:
        deletion = await gate.begin(store.delete([], NOW + GRACE))
        writing = await gate.begin(write())
    await asyncio.gather(deletion, writing)
    assert await has_definition(store, hash_)
    await store.delete([], NOW + 9 * GRACE, grace=0)
    assert await has_definition(store, hash_)


async def test_writers_and_deletions_at_once(postgres_store: PostgresStore, run: RunId) -> None:
    """Each round, some runs store the same bodies while others that have them are deleted."""
    store, rng = postgres_store, random.Random(run)  # noqa: S311
    texts = [{"text": f"{run} shared {number}"} for number in range(20)]
    alive = list[RunId]()

    async def write(new: RunId) -> None:
        journal = Journal(new, [started(new)])
        for text in rng.sample(texts, len(texts)):
            journal.say(text, PUBLIC)
        await asyncio.sleep(rng.random() / 100)
        await store.put_bodies(new, journal.bodies)
        await store.append(new, journal.batch())

    for number in range(40):
        new = [RunId(f"{run}-{number}-{each}") for each in range(3)]
        gone, alive = alive, new
        await asyncio.gather(
            *(write(each) for each in new),
            *(store.delete([each], NOW + number * 2 * GRACE) for each in gone),
            store.delete([], NOW + number * 2 * GRACE),
        )
        assert all([await exists(store, hash_json(text)) for text in texts])
    await store.delete(alive, NOW, grace=0)
    assert not any([await exists(store, hash_json(text)) for text in texts])


DAY = 86_400_000


async def test_records_that_outlive_their_run_are_deleted_after_the_retention(
    store: Store, run: RunId
) -> None:
    journal, none = speech(run), RunId("")
    await store.append(run, journal.batch(), journal.bodies)
    await store.claim(run, f"{run}/a#1/1/1", "me")
    await store.claim(none, f"once:{run}", "me")
    await store.claim(RunId(f"{run}-gone"), f"{run}-gone/a#1/1/1", "me")
    await store.reject_executions(run, ["old"])
    for execution in ("e1", "e2"):
        await store.accept_executions(run, [execution])
        await asyncio.sleep(0.002)
    now = int(time.time() * 1000)
    assert (await store.delete([], now + 9 * DAY)).records == 0
    assert (await store.delete([], now + 9 * DAY, retention=10 * DAY)).records == 0
    late = Journal(run, [*map(j.entry_from_json, journal.entries)])
    late.say({"text": "late"}, PUBLIC)
    with pytest.raises(HistoryConflict):
        await store.append(run, late.batch(3), execution="old")
    assert (await store.delete([], now + 11 * DAY, retention=10 * DAY)).records >= 4
    assert await store.key_owner(f"{run}/a#1/1/1") == "me", "the run may be reopened"
    assert await store.key_owner(f"once:{run}") is None
    assert await store.key_owner(f"{run}-gone/a#1/1/1") is None
    assert [*await store.accepted_executions(run)] == ["e2"], "the last one stays"
    await store.append(run, late.batch(3), execution="old")


async def test_the_lineage_has_no_retention(store: Store, run: RunId) -> None:
    source = speech(run)
    await store.append(run, source.batch(), source.bodies)
    heir, now = RunId(f"{run}-heir"), int(time.time() * 1000)
    journal = Journal(heir, [started(heir)])
    merge = j.LogMerge(log=PUBLIC, two=source.heads[-1][PUBLIC])
    journal.add(j.LogsMerged(merged_logs=(merge,), parents=(run,)))
    await store.append(heir, journal.batch())
    await store.delete([run], now + 999 * DAY, grace=0, retention=0)
    assert await store.lineage(heir) == {run}
    [link] = await store.read_log(merge.two)
    assert await store.get_bodies([link.body])
    await store.delete([heir], now + 999 * DAY, grace=0, retention=0)
    assert await store.lineage(heir) == set()
    assert not await exists(store, link.body)
