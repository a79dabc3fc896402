"""The outcome of a command that no state remembers any more: in both stores."""

from __future__ import annotations

import pytest

from crewlog.ids import CommandId, ContentHash, CrewName, RunId
from crewlog.state import journal as j
from crewlog.state.journal import Batch, entry_to_json
from crewlog.store import PostgresStore, Store
from crewlog.store.journal_reader import find_command
from crewlog.store.sql import queries
from store.journals import Journal, started

IDS = [
    "one",
    'qu"ote',
    "back\\slash",
    "nul\x00",
    "é😀",
    "lone \ud83d",
    "\ud83d\ude00",
    "%_'; --",
    "\\005c",
    "\x7f\u2028",
]


@pytest.mark.parametrize("id_", IDS)
async def test_it_is_found_by_its_id(store: Store, run: RunId, id_: str) -> None:
    journal = Journal(run, [started(run)])
    at = journal.add(j.Paused(command=CommandId(id_), command_hash="d"))
    journal.add(j.RunResumed(command=CommandId(f"{id_}x")))
    journal.add(j.RunResumed(reason=id_, command=CommandId(f"x{id_}")))
    await store.append(run, journal.batch())
    row = await store.find_command(run, id_)
    assert row is not None
    assert (row.position, row.entry["kind"], row.entry["command_hash"]) == (at, "Paused", "d")
    outcome = await find_command(store, run, id_)
    assert outcome is not None
    assert (outcome.ok, outcome.position, outcome.hash) == (True, at, "d")


async def test_beside_what_utf_8_cannot_hold(store: Store, run: RunId) -> None:
    """Such an entry is spelled otherwise as a whole."""
    reason = "lone \ud83d, back\\slash"
    journal = Journal(run, [started(run)])
    for id_ in IDS:
        journal.add(j.CommandRejected(name="x", reason=reason, command=CommandId(id_)))
    await store.append(run, journal.batch())
    for position, id_ in enumerate(IDS, 2):
        outcome = await find_command(store, run, id_)
        assert outcome is not None, id_
        assert (outcome.ok, outcome.position) == (False, position)


async def test_what_only_looks_like_it_is_not_taken(store: Store, run: RunId) -> None:
    """Another run's, another field's, or one within the text of a message."""
    other = RunId(f"{run}-other")
    theirs = Journal(other, [started(other), j.Paused(command=CommandId("one"))])
    await store.append(other, theirs.batch())
    journal = Journal(run, [started(run), j.Paused(by="one", reason='"command":"one"')])
    journal.add(j.StateEdited(edits=(j.Edit(path="shared.x", value={"command": "one"}),)))
    await store.append(run, journal.batch())
    assert await store.find_command(run, "one") is None
    assert await find_command(store, run, "one") is None
    assert await find_command(store, RunId("nobody"), "one") is None


async def test_a_forgotten_one_is_not_found(store: Store, run: RunId) -> None:
    journal = Journal(run, [started(run), j.Paused(), j.RunResumed(command=CommandId("one"))])
    await store.append(run, journal.batch())
    await store.truncate_journal(run, 2)
    assert await store.find_command(run, "one") is None


async def test_it_reads_one_run_by_its_key(postgres: PostgresStore) -> None:
    rows = await postgres._pool.fetch(f"EXPLAIN {queries()['find_command']}", "r", "a", "b")
    assert "Seq Scan" not in "\n".join(row[0] for row in rows)


async def test_what_was_said_to_a_run_that_was_taken_in_is_found(store: Store, run: RunId) -> None:
    """That run, and one that it had taken in; not one of which a run is a copy."""
    first, second, copied = (RunId(f"{run}-{each}") for each in ("first", "second", "copied"))
    ids = {first: "one", second: "two", copied: "three"}
    for other, id_ in ids.items():
        said = Journal(other, [started(other), j.Paused(command=CommandId(id_))])
        await store.append(other, said.batch())
    forked = j.RunForked(run=second, source=copied, to=2, state={})
    await store.append(second, Batch(first=3, entries=(entry_to_json(forked),)))
    for taker, taken in ((second, first), (run, second)):
        merged = j.RunMerged(
            merged_run=taken,
            merged_run_position=3,
            merged_run_started_at=1,
            parents=(taken,),
            merge="tie",
            crew=CrewName("c"),
            definition=ContentHash("d"),
            graph_version=2,
            position=20,
            previous_position=3 if taker == second else 1,
            what="both",
        )
        if taker == run:
            await store.append(run, Journal(run, [started(run)]).batch())
        await store.append(taker, Batch(first=20, entries=(entry_to_json(merged),)))
    for id_ in ("one", "two"):
        assert (await find_command(store, run, id_)) is not None, id_
    assert await find_command(store, first, "two") is None
    assert await find_command(store, run, "three") is None
