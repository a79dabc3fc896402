"""A store whose rows are not those of who opens it is refused as it is opened, with the remedy."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import asyncpg
import pytest

from crewlog.encryption.keys import KeyFile, Keyring, new_key, write_keys
from crewlog.encryption.rows import RowSeal
from crewlog.errors import KeyMissing, SealBroken
from crewlog.store import PostgresStore
from crewlog.store.migrate import migrate
from crewlog.store.resealing import reseal
from crewlog.store.sealing import COLUMNS, refused
from crewlog.store.sql import migrations


@pytest.fixture
def path(tmp_path: Path) -> Path:
    key = new_key(1)
    write_keys(tmp_path / "keys.json", KeyFile(keys=(key,), current=key.id))
    return tmp_path / "keys.json"


def keyed(path: Path, namespace: str = "default", *, plain: bool = False) -> RowSeal:
    return RowSeal(Keyring(path, accept_plain=plain), namespace)


OFF = RowSeal(None, "default")


async def write(database: str, seal: RowSeal, content: str = "any") -> None:
    store = await PostgresStore.connect(database, max_size=1, seal=seal)
    await store.put_definition({"crew": content})
    await store.close()


async def opened(database: str, seal: RowSeal) -> None:
    """Opens it, and finds that nobody is told otherwise beforehand."""
    if (told := await refused(database, seal)) is not None:
        with pytest.raises(type(told), match=re.escape(str(told))):
            await PostgresStore.connect(database, max_size=1, seal=seal)
        raise told
    await (await PostgresStore.connect(database, max_size=1, seal=seal)).close()


async def remembered(database: str) -> list[tuple[str, int]]:
    connection = await asyncpg.connect(database)
    rows = await connection.fetch("SELECT * FROM crewlog.sealing")
    await connection.close()
    return [(row["namespace"], len(row["columns"])) for row in rows]


async def run_sql(database: str, sql: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(sql)
    await connection.close()


async def test_plain_rows_are_refused_until_they_are_encrypted(database: str, path: Path) -> None:
    await write(database, OFF)
    with pytest.raises(SealBroken, match=r"not encrypted.*definitions\.definition") as told:
        await opened(database, keyed(path))
    for word in ("CREWLOG_ENCRYPTION_ACCEPT_PLAIN=true", "crewlog encryption reseal"):
        assert word in told.value.remedy
    assert await remembered(database) == []
    await opened(database, OFF)

    accepting = await PostgresStore.connect(database, seal=keyed(path, plain=True))
    await opened(database, OFF)  # which may go on while encryption is being turned on
    await accepting.put_definition({"crew": "other"})
    assert await reseal(accepting, lambda _text: None) == 1
    await accepting.close()
    await write(database, OFF, "late")  # by a process that was not yet started anew
    with pytest.raises(SealBroken, match="not encrypted"):
        await opened(database, keyed(path))
    accepting = await PostgresStore.connect(database, seal=keyed(path, plain=True))
    assert await reseal(accepting, lambda _text: None) == 1
    await accepting.close()
    await opened(database, keyed(path))
    assert await remembered(database) == [("default", len(COLUMNS))]
    with pytest.raises(KeyMissing, match="this process has no keys"):
        await opened(database, OFF)


async def test_it_is_looked_through_once(database: str, path: Path) -> None:
    await asyncio.gather(*(opened(database, keyed(path)) for _ in range(3)))
    assert await remembered(database) == [("default", len(COLUMNS))]
    await run_sql(database, "INSERT INTO crewlog.bodies VALUES ('h', '1')")
    await opened(database, keyed(path))  # what stands there is refused where it is read
    await run_sql(database, "DELETE FROM crewlog.sealing")
    with pytest.raises(SealBroken, match=r"bodies\.body"):
        await opened(database, keyed(path))


async def test_a_version_that_encrypts_more_looks_at_that_alone(database: str, path: Path) -> None:
    await write(database, keyed(path))
    await run_sql(
        database,
        "UPDATE crewlog.sealing SET columns = array_remove(columns, 'runs.error'); "
        "INSERT INTO crewlog.bodies VALUES ('h', '1')",
    )
    await opened(database, keyed(path))
    await run_sql(
        database,
        "UPDATE crewlog.sealing SET columns = array_remove(columns, 'runs.error'); "
        "INSERT INTO crewlog.runs (run, status, since, error, position) "
        "VALUES ('r', 'failed', 1, 'plain', 1)",
    )
    with pytest.raises(SealBroken, match=r"encrypts more than .*runs\.error"):
        await opened(database, keyed(path))


async def test_a_store_is_one_namespace_s(database: str, path: Path) -> None:
    await opened(database, keyed(path, "one"))
    await opened(database, OFF)
    await opened(database, keyed(path, "two"))  # nothing was written yet
    await write(database, keyed(path, "one"))
    for plain in (False, True):
        with pytest.raises(SealBroken, match=r"the namespace 'one'.*is in 'two'"):
            await opened(database, keyed(path, "two", plain=plain))
    await opened(database, keyed(path, "one"))


async def test_rows_of_an_older_version_are_looked_at(database: str, path: Path) -> None:
    connection = await asyncpg.connect(database)
    await migrate(connection, [each for each in migrations() if each.version <= 10])  # type: ignore[arg-type]
    assert await refused(database, keyed(path)) is None
    await connection.execute("INSERT INTO crewlog.bodies VALUES ('h', '1')")
    await connection.close()
    assert await refused(database, OFF) is None
    with pytest.raises(SealBroken, match=r"bodies\.body"):
        await opened(database, keyed(path))
    await opened(database, OFF)
