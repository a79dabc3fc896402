"""Rows of older keys, and plain ones: they are encrypted with the current key, and still found."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from crewlog.encryption.keys import KeyFile, Keyring, new_key_file, write_keys
from crewlog.encryption.rows import PREFIX, RowCipher
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing, UsageError
from crewlog.ids import AgentName, CrewName
from crewlog.store import InMemoryStore, PostgresStore
from crewlog.store.memories import (
    Author,
    Memory,
    MemoryFilter,
    MemoryQuery,
    WriteOptions,
    split_words,
)
from crewlog.store.reencryption import key_uses, reencrypt

CREW = CrewName("canary-free")
FIRST = new_key_file()
ROTATED = FIRST.rotate()
CANARIES = ("harpsichord", "zeppelin", "marmalade")
"""In a memory's key, its text and its metadata."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "keys.json"
    write_keys(found, FIRST)
    return found


def rotated() -> KeyFile:
    return ROTATED


def retired() -> KeyFile:
    return ROTATED.retire(FIRST.current)


async def opened(database: str, path: Path | None, **options: Any) -> PostgresStore:
    """A store of a process that has just begun."""
    keys = Keyring(path, **options) if path else None
    return await PostgresStore.connect(database, max_size=2, cipher=RowCipher(keys, "default"))


def note(key: str, text: str, at: int = 10, scope: str = "public") -> Memory:
    author = Author(agent=AgentName("a"))
    metadata = {"about": CANARIES[2]}
    return Memory(
        crew=CREW, scope=scope, key=key, text=text, metadata=metadata, author=author, at=at
    )


async def write(store: PostgresStore, *memories: Memory, most: int = 100) -> None:
    assert await store.memories.write(
        memories, WriteOptions(now=memories[0].at, most_memories=most)
    )


async def found(store: PostgresStore, text: str = "") -> list[tuple[str, str]]:
    wanted = MemoryQuery(words=tuple(split_words(text)), limit=20)
    hits = await store.memories.search(CREW, ["public"], wanted, now=100)
    return [(each.key, each.text) for each in hits.memories]


async def raw(database: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(database)
    rows = await connection.fetch("SELECT * FROM crewlog.memories ORDER BY at, key")
    await connection.close()
    return rows


async def test_nothing_of_a_memory_is_readable_but_where_it_belongs(
    database: str, path: Path
) -> None:
    store = await opened(database, path)
    await write(store, note("harpsichord tuning", "the zeppelin lands"))
    await write(store, note("harpsichord tuning", "the zeppelin lands", scope="group:g"))
    rows = await raw(database)
    assert len(rows) == 2
    for canary in CANARIES:
        assert canary not in repr(rows)
    assert rows[0]["key"] != rows[1]["key"], "equal keys of two scopes are not seen to be equal"
    assert await found(store, "harpsichord") == [("harpsichord tuning", "the zeppelin lands")]
    await store.close()


async def test_a_key_is_one_whichever_key_its_row_was_written_with(
    database: str, path: Path
) -> None:
    old = await opened(database, path)
    await write(old, note("refunds", "14 days"), note("hours", "nine to five"))
    await old.close()
    write_keys(path, rotated())
    store = await opened(database, path)
    await write(store, note("refunds", "30 days", at=11))
    assert await found(store) == [("refunds", "30 days"), ("hours", "nine to five")]
    assert await found(store, "refunds five") == [("refunds", "30 days"), ("hours", "nine to five")]
    assert await store.memories.forget(MemoryFilter(crew=CREW, scope="public", key="hours")) == 1
    assert await found(store) == [("refunds", "30 days")]
    await store.close()


async def test_memories_are_found_after_their_key_is_retired(database: str, path: Path) -> None:
    store = await opened(database, path)
    for number in range(3):
        await write(store, note(f"k{number}", f"tea number {number}", at=10 + number))
    await store.close()
    write_keys(path, rotated())
    store = await opened(database, path)
    assert await key_uses(store) == {FIRST.current: 9}
    told: list[str] = []
    assert await reencrypt(store, told.append) == 3
    assert told == ["memories: 3 rows"]
    assert await key_uses(store) == {ROTATED.current: 9}
    assert await reencrypt(store, told.append) == 0, "it is done once"
    await store.close()
    write_keys(path, retired())
    store = await opened(database, path)
    assert [key for key, _ in await found(store, "tea")] == ["k2", "k1", "k0"]
    assert await found(store, "k1") == [("k1", "tea number 1")]
    await write(store, note("k1", "coffee", at=20))
    assert await found(store, "k1") == [("k1", "coffee")]
    assert len(await raw(database)) == 3
    await store.close()


async def test_plain_memories_are_encrypted_with_their_keys_and_words(
    database: str, path: Path
) -> None:
    plain = await opened(database, None)
    await write(plain, note("harpsichord", "a zeppelin"), note("encrypted:key:x", "b"))
    await plain.close()
    store = await opened(database, path, accept_plain=True)
    assert await found(store, "zeppelin") == [("harpsichord", "a zeppelin")]
    await write(store, note("harpsichord", "two zeppelins", at=11))
    assert len(await raw(database)) == 2, "it took the place of the plain one"
    assert await reencrypt(store, lambda _text: None) == 1
    await store.close()
    rows = await raw(database)
    assert not any(canary in repr(rows) for canary in CANARIES)
    assert all(row["encrypted_key"].startswith(PREFIX) for row in rows)
    store = await opened(database, path)
    assert await found(store) == [("harpsichord", "two zeppelins"), ("encrypted:key:x", "b")]
    await store.close()


async def test_of_two_rows_of_one_memory_the_newer_stays(database: str, path: Path) -> None:
    """A process that has not yet seen the new key writes beside one that has."""
    first = path.with_name("first.json")
    write_keys(first, FIRST)
    write_keys(path, rotated())
    behind, ahead = await opened(database, first), await opened(database, path)
    await write(ahead, note("a", "older", at=10), note("b", "b", at=10))
    await write(behind, note("a", "newer", at=11))
    await behind.close()
    assert len(await raw(database)) == 3
    await reencrypt(ahead, lambda _text: None)
    assert await found(ahead) == [("a", "newer"), ("b", "b")]
    await ahead.close()


async def test_what_was_changed_is_refused(database: str, path: Path) -> None:
    store = await opened(database, path)
    await write(store, note("one", "1"), note("two", "2", at=10))
    connection = await asyncpg.connect(database)
    await connection.execute(
        "UPDATE crewlog.memories AS m SET encrypted_key = (SELECT max(o.encrypted_key) "
        "FROM crewlog.memories AS o WHERE o.key <> m.key)"
    )
    with pytest.raises(DecryptionFailed, match="changed or moved"):
        await found(store)
    await connection.execute("UPDATE crewlog.memories SET encrypted_key = NULL")
    with pytest.raises(DecryptionFailed, match="not encrypted"):
        await found(store)
    await connection.close()
    await store.close()


async def test_without_the_keys_nothing_is_read(database: str, path: Path) -> None:
    store = await opened(database, path)
    await write(store, note("one", "1"))
    await store.close()
    with pytest.raises(EncryptionKeyMissing, match="this process has no keys"):
        await opened(database, None)
    store = await PostgresStore.connect(database, allow_unreadable=True)
    with pytest.raises(EncryptionKeyMissing, match="CREWLOG_ENCRYPTION_KEYS"):
        await found(store)
    with pytest.raises(UsageError, match="encryption is off"):
        await reencrypt(store, lambda _text: None)
    await store.close()
    with pytest.raises(UsageError, match="encryption is off"):
        await reencrypt(InMemoryStore(), lambda _text: None)


async def test_a_key_is_within_a_crew_and_a_scope(database: str, path: Path) -> None:
    store = await opened(database, path)
    which = MemoryFilter(crew=CREW, scope="public", key="k")
    for lacking in ({"crew": None, "run": "r"}, {"scope": None}):
        with pytest.raises(UsageError, match="a key is unique only within a scope"):
            await store.memories.forget(dataclasses.replace(which, **lacking))
    await store.close()


async def test_what_a_tool_said_when_it_was_approved_is_encrypted(
    database: str, path: Path
) -> None:
    plain = await opened(database, None)
    await plain.approve_tool("mcp:s", "add", "D", "ada", 1, CANARIES[0])
    store = await opened(database, path, accept_plain=True)
    assert await store.list_approved_descriptions("mcp:s") == {"add": CANARIES[0]}
    await reencrypt(store, lambda _: None)
    strict = await opened(database, path)
    assert await strict.list_approved_descriptions("mcp:s") == {"add": CANARIES[0]}
    (row,) = await strict.scan("SELECT description FROM crewlog.tool_approvals")
    assert row["description"].startswith(PREFIX)
    await strict.change("UPDATE crewlog.tool_approvals SET tool = $1", [("sub",)])
    with pytest.raises(DecryptionFailed):
        await strict.list_approved_descriptions("mcp:s")
    for each in (plain, store, strict):
        await each.close()
