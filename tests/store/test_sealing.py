"""A store whose rows are not those of who opens it is refused as it is opened, with the remedy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from crewlog.encryption.keys import Keyring, new_key_file, write_keys
from crewlog.encryption.rows import RowCipher
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing
from crewlog.ids import ContentHash, RunId
from crewlog.store import PostgresStore
from crewlog.store.key_check import find_key_problem
from crewlog.store.protocol import Snapshot
from crewlog.store.reencryption import reencrypt
from store.journals import Journal, asked, started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_keys(tmp_path / "keys.json", new_key_file())
    return tmp_path / "keys.json"


def keyed(path: Path, namespace: str = "default", *, plain: bool = False) -> RowCipher:
    return RowCipher(Keyring(path, accept_plain=plain), namespace)


OFF = RowCipher(None, "default")


async def write(database: str, cipher: RowCipher, content: str = "any") -> None:
    store = await PostgresStore.connect(database, max_size=1, cipher=cipher)
    await store.put_definition(RunId("r"), {"crew": content})
    await store.close()


async def opened(database: str, cipher: RowCipher) -> None:
    """Opens it, and finds that nobody is told otherwise beforehand."""
    if (told := await find_key_problem(database, cipher)) is not None:
        with pytest.raises(type(told), match=re.escape(str(told))):
            await PostgresStore.connect(database, max_size=1, cipher=cipher)
        raise told
    await (await PostgresStore.connect(database, max_size=1, cipher=cipher)).close()


async def remembered(database: str) -> list[tuple[str, bool]]:
    connection = await asyncpg.connect(database)
    rows = await connection.fetch("SELECT * FROM crewlog.key_checks")
    await connection.close()
    return [(row["namespace"], row["only_encrypted"]) for row in rows]


async def run_sql(database: str, sql: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(sql)
    await connection.close()


async def test_plain_rows_are_refused_until_they_are_encrypted(database: str, path: Path) -> None:
    await write(database, OFF)
    with pytest.raises(DecryptionFailed, match=r"not encrypted.*definitions\.definition") as told:
        await opened(database, keyed(path))
    for word in ("CREWLOG_ENCRYPTION_ACCEPT_PLAIN=true", "crewlog encryption reencrypt"):
        assert word in told.value.remedy
    assert await remembered(database) == []
    await opened(database, OFF)

    accepting = await PostgresStore.connect(database, cipher=keyed(path, plain=True))
    assert await remembered(database) == [("default", False)]
    await opened(database, OFF)  # which may go on while encryption is being turned on
    await accepting.put_definition(RunId("r"), {"crew": "other"})
    assert await reencrypt(accepting, lambda _text: None) == 1
    await accepting.close()
    await write(database, OFF, "late")  # by a process that was not yet started anew
    with pytest.raises(DecryptionFailed, match="not encrypted"):
        await opened(database, keyed(path))
    accepting = await PostgresStore.connect(database, cipher=keyed(path, plain=True))
    assert await reencrypt(accepting, lambda _text: None) == 1
    await accepting.close()
    await opened(database, keyed(path))
    assert await remembered(database) == [("default", True)]
    with pytest.raises(EncryptionKeyMissing, match="this process has no keys"):
        await opened(database, OFF)


async def test_it_is_looked_through_once(database: str, path: Path) -> None:
    await asyncio.gather(*(opened(database, keyed(path)) for _ in range(3)))
    assert await remembered(database) == [("default", True)]
    await run_sql(database, "INSERT INTO crewlog.bodies VALUES ('h', '1')")
    await opened(database, keyed(path))  # what stands there is refused where it is read
    await run_sql(database, "DELETE FROM crewlog.key_checks")
    with pytest.raises(DecryptionFailed, match=r"bodies\.body"):
        await opened(database, keyed(path))


async def test_a_store_is_one_namespace_s(database: str, path: Path) -> None:
    await opened(database, keyed(path, "one"))
    await opened(database, OFF)
    await opened(database, keyed(path, "two"))  # nothing was written yet
    await write(database, keyed(path, "one"))
    for plain in (False, True):
        with pytest.raises(DecryptionFailed, match=r"the namespace 'one'.*uses 'two'"):
            await opened(database, keyed(path, "two", plain=plain))
    await opened(database, keyed(path, "one"))


async def test_a_database_without_tables_is_not_refused(database: str, path: Path) -> None:
    assert await find_key_problem(database, keyed(path)) is None
    assert await find_key_problem(database, OFF) is None
    connection = await asyncpg.connect(database)
    assert await connection.fetchval("SELECT to_regnamespace('crewlog')") is None
    await connection.close()


Read = Callable[[PostgresStore], Awaitable[object]]
ONE, TWO = ContentHash("1" * 64), ContentHash("2" * 64)
RUN, OTHER = RunId("one"), RunId("two")
MOVES: dict[str, tuple[str, str, Read]] = {
    "body": ("bodies.body", "hash", lambda store: store.get_bodies([ONE])),
    "definition": ("definitions.definition", "hash", lambda store: store.get_definition(ONE)),
    "entry": ("journal_entries.entry", "run", lambda store: store.read_journal(RUN)),
    "snapshot": ("snapshots.state", "run", lambda store: store.get_snapshot(RUN, 1)),
    "interrupt": ("interrupts.interrupt", "run", lambda store: store.list_interrupts()),
    "started_by": ("runs.started_by", "run", lambda store: store.get_run(RUN)),
}
"""By what a text is: its column, what its rows are told apart by here, and who reads the first."""


@pytest.fixture
async def filled(database: str, path: Path) -> AsyncIterator[PostgresStore]:
    """A store with two rows of each kind."""
    store = await PostgresStore.connect(database, max_size=1, cipher=keyed(path))
    for run in (RUN, OTHER):
        journal = Journal(run, [started(run), asked("i1", 5)])
        await store.append(run, journal.batch())
        await store.put_snapshot(run, Snapshot(position=1, state={"run": run}))
    for hash_ in (ONE, TWO):
        await store.put_bodies(RUN, {hash_: hash_})
        sealed = store.cipher.encrypt(f'"{hash_}"', "definition", hash_)
        await run_sql(database, f"INSERT INTO crewlog.definitions VALUES ('{hash_}', '{sealed}')")  # noqa: S608
    yield store
    await store.close()


@pytest.mark.parametrize("kind", MOVES)
async def test_a_row_that_is_moved_plain_or_another_namespace_s_is_refused_with_its_place(
    filled: PostgresStore, database: str, path: Path, kind: str
) -> None:
    named, by, read = MOVES[kind]
    table, column = named.split(".")
    mine, other = (ONE, TWO) if by == "hash" else (RUN, OTHER)
    place = rf"\({kind} '{mine}"
    assert await read(filled)
    elsewhere = await PostgresStore.connect(
        database, max_size=1, cipher=keyed(path, "other"), allow_unreadable=True
    )
    with pytest.raises(DecryptionFailed, match=f"changed or moved since.*{place}"):
        await read(elsewhere)
    await elsewhere.close()
    await run_sql(
        database,
        f"UPDATE crewlog.{table} AS mine SET {column} = other.{column} FROM crewlog.{table} AS other "  # noqa: E501, S608
        f"WHERE mine.{by} = '{mine}' AND other.{by} = '{other}'",
    )
    with pytest.raises(DecryptionFailed, match=f"changed or moved since.*{place}"):
        await read(filled)
    await run_sql(database, f"UPDATE crewlog.{table} SET {column} = '1' WHERE {by} = '{mine}'")  # noqa: S608
    text = f"encryption is on, and it is not encrypted {place}"
    with pytest.raises(DecryptionFailed, match=text):
        await read(filled)
