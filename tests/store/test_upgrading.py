"""A database that an older version filled says the same, once it is migrated, as a new one."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from crewlog.ids import CommandId, RunId, StepId, node_of
from crewlog.state import journal as j
from crewlog.state.hashing import hash_json, log_root
from crewlog.state.logs import links_of
from crewlog.store import InMemoryStore, PostgresStore
from crewlog.store.codec import dump_json, pack
from crewlog.store.loading import load_state
from crewlog.store.migrate import migrate
from crewlog.store.sql import migrations
from store.conftest import new_database
from store.journals import Journal, answered, asked, random_journal, rows_of, seeded, started

OLD = 3
"""The schema before runs could be changed, rolled back and forked."""
COUNTS = 14
"""The schema that keeps how many calls a quota counts."""
WORDS = 18
"""The schema that keeps what tools said when they were approved."""
STATUS: dict[str, str] = {
    "RunStarted": "running",
    "Resumed": "running",
    "Paused": "paused",
    "RunCompleted": "completed",
    "RunStopped": "stopped",
    "RunFailed": "failed",
}
Rows = list[tuple[Any, ...]]


class OldRows:
    """What the version of schema 3 stored of a journal."""

    def __init__(self, journal: Journal) -> None:
        run = journal.run
        self.run: dict[str, Any] = {
            "crew": None,
            "definition": None,
            "started": None,
            "started_by": None,
            "status": "running",
            "since": 0,
            "ended": None,
            "error": "",
            "position": 0,
        }
        self.tables: dict[str, Rows] = {
            "journal (run, position, digest, entry)": [
                (run, position, hash_json(entry), dump_json(entry))
                for position, entry in enumerate(journal.entries, 1)
            ],
            "bodies (hash, body)": [(h, dump_json(body)) for h, body in journal.bodies.items()],
            "links (head, previous, position, body, first)": [
                (k.head, k.previous, k.position, k.body, k.previous == log_root(run, k.log))
                for k in links_of(run, journal.batch())
            ],
            "steps (run, step, agent)": [],
            "checkpoints (run, position, step, node, at)": [],
        }
        self.questions: dict[str, dict[str, Any]] = {}
        for position, data in enumerate(journal.entries, 1):
            self._add(run, position, j.entry_from_json(data))
        self.tables[
            "interrupts (run, id, position, at, interrupt, decision, answered_by)"
        ] = [
            (run, id_, *(told.get(key) for key in ("position", "at", "asked", "decision", "by")))
            for id_, told in self.questions.items()
        ]  # fmt: skip
        self.tables[f"runs (run, {', '.join(self.run)})"] = [(run, *self.run.values())]

    def _add(self, run: RunId, position: int, entry: j.JournalEntry) -> None:
        match entry:
            case j.StepStarted(agent=str(agent)):
                self.tables["steps (run, step, agent)"].append((run, entry.step, pack(agent)))
            case j.StepCompleted():
                row = (run, position, entry.step, node_of(entry.step), entry.at)
                self.tables["checkpoints (run, position, step, node, at)"].append(row)
            case j.InterruptRaised():
                question = entry.interrupt.model_copy(update={"position": position}).to_json()
                told = {"position": position, "at": entry.at, "asked": dump_json(question)}
                self.questions.setdefault(entry.interrupt.id, {}).update(told)
                self.run["position"] = position
            case j.InterruptAnswered():
                told = {"decision": pack(entry.decision), "by": pack(entry.by)}
                self.questions.setdefault(entry.interrupt, {}).update(told)
                self.run["position"] = position
            case j.RunStarted():
                self.run |= {"crew": entry.crew, "definition": entry.definition}
                self.run |= {"started": entry.at, "started_by": pack(entry.by)}
            case _:
                pass
        if (status := STATUS.get(entry.kind)) is not None:
            ended = entry.at if status in ("completed", "stopped", "failed") else None
            error = pack(entry.error) if isinstance(entry, j.RunFailed) else ""
            self.run |= {"status": status, "since": position, "position": position}
            self.run |= {"ended": ended, "error": error}

    async def insert(self, connection: asyncpg.Connection[Any]) -> None:
        for table, rows in self.tables.items():
            places = ", ".join(f"${n + 1}" for n in range(table.count(",") + 1))
            statement = f"INSERT INTO crewlog.{table} VALUES ({places}) ON CONFLICT DO NOTHING"  # noqa: S608
            await connection.executemany(statement, rows)


async def at_schema(url: str, version: int, journals: list[Journal]) -> None:
    connection: Any = await asyncpg.connect(url)
    try:
        await migrate(connection, migrations()[:version])
        for journal in journals:
            await OldRows(journal).insert(connection)
    finally:
        await connection.close()


def journals() -> list[Journal]:
    found = [random_journal(RunId(f"old-{seed}"), seeded(seed)) for seed in range(12)]
    open_ = Journal(RunId("open"), [started(RunId("open")), asked("i1", 5), asked("i2", 6)])
    open_.add(answered("i1", "x\x00'"))
    open_.add(j.Paused(command=CommandId("one")))
    return [*found, open_]


@pytest.fixture
async def both(postgres_dsn: str) -> Any:
    """A store on a database that was migrated from schema 3, and one that has had no other."""
    url = await new_database(postgres_dsn)
    await at_schema(url, OLD, journals())
    migrated, fresh = await PostgresStore.connect(url), InMemoryStore()
    for journal in journals():
        await fresh.append(journal.run, journal.batch(), journal.bodies)
    yield migrated, fresh
    await migrated.close()


async def test_everything_reads_the_same(both: tuple[PostgresStore, InMemoryStore]) -> None:
    migrated, fresh = both
    for journal in journals():
        assert await rows_of(migrated, journal) == await rows_of(fresh, journal)
        assert await load_state(migrated, journal.run) == await load_state(fresh, journal.run)
    assert await migrated.list_runs() == await fresh.list_runs()
    assert await migrated.list_interrupts() == await fresh.list_interrupts()
    found = await migrated.find_command(RunId("open"), "one")
    assert found == await fresh.find_command(RunId("open"), "one") is not None


async def test_the_runs_go_on(both: tuple[PostgresStore, InMemoryStore]) -> None:
    """Questions are answered, asked again, pruned and tagged; a batch of before comes once more."""
    for journal in journals():
        first = len(journal) + 1
        journal.add(answered("i2", "later"))
        journal.add(asked("i1", 77))
        journal.add(asked("i3", 78))
        at = journal.add(j.StepCompleted(at=79, step=StepId("n1#99")))
        journal.add(j.CheckpointTagged(at=80, checkpoint=at, tag="good"))
        journal.add(answered("i1", "again"))
        journal.add(j.RunCompleted(at=81))
        for store in both:
            await store.append(journal.run, journal.batch(1, first - 1))
            await store.append(journal.run, journal.batch(first))
            checkpoints = await store.list_checkpoints(journal.run)
            pruned = [each.position for each in checkpoints[:1] if not each.tags]
            await store.prune(journal.run, pruned, [], len(journal))
        migrated, fresh = [await rows_of(store, journal) for store in both]
        assert migrated == fresh
        assert await both[0].list_checkpoints(journal.run, pruned=True) == (
            await both[1].list_checkpoints(journal.run, pruned=True)
        )


async def test_they_are_deleted_whole(both: tuple[PostgresStore, InMemoryStore]) -> None:
    migrated, fresh = both
    runs = [journal.run for journal in journals()]
    for run in runs:
        told = [await store.delete([run], 1, grace=0) for store in (migrated, fresh)]
        assert told[0] == told[1]
    assert await migrated.list_runs() == []
    rows = await migrated._pool.fetch("SELECT count(*) FROM crewlog.bodies")
    assert rows[0]["count"] == 0


async def test_calls_that_were_counted_before_there_were_counts_are_counted(
    postgres_dsn: str,
) -> None:
    url = await new_database(postgres_dsn)
    connection: Any = await asyncpg.connect(url)
    await migrate(connection, [each for each in migrations() if each.version < COUNTS])
    rows = [("t/k", f"c{n}", "monday" if n < 3 else "tuesday", 1) for n in range(5)]
    await connection.executemany("INSERT INTO crewlog.reservations VALUES ($1, $2, $3, $4)", rows)
    await connection.close()
    store = await PostgresStore.connect(url)
    spans = [("t/k", "monday"), ("t/k", "tuesday")]
    assert [*(await store.counted(spans)).values()] == [3, 2]
    await store.release("c0", ["t/k"])
    assert [*(await store.counted(spans)).values()] == [2, 2]
    await store.close()


async def test_tools_that_were_approved_before_their_words_were_kept_stay_approved(
    postgres_dsn: str,
) -> None:
    url = await new_database(postgres_dsn)
    connection: Any = await asyncpg.connect(url)
    await migrate(connection, [each for each in migrations() if each.version < WORDS])
    row = ("mcp:s", "add", "digest", "ada", 1)
    statement = "INSERT INTO crewlog.tool_approvals (source, tool, digest, approver, at) VALUES "
    await connection.execute(f"{statement} ($1, $2, $3, $4, $5)", *row)
    await connection.close()
    store = await PostgresStore.connect(url)
    assert await store.tool_approvals("mcp:s") == {"add": "digest"}
    assert await store.approved_words("mcp:s") == {}
    await store.approve_tool("mcp:s", "add", "other", "ben", 2, "Adds.")
    assert await store.approved_words("mcp:s") == {"add": "Adds."}
