"""`PostgresMemories`: what crews remember, in Postgres.

By meaning it searches with pgvector, where the database has it, or may have it: the first search
that needs it creates the extension. A scope is bounded, so every comparison is made and none is
left to an index that only finds most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import asyncpg

from crewlog.encryption.rows import KEY_CODE, RowCipher
from crewlog.errors import InternalError, StoreUnavailable
from crewlog.ids import AgentName, CrewName, RunId, StepId
from crewlog.store.codec import dump_json, load_json, pack, pack_optional, unpack
from crewlog.store.memories import (
    MOST_FOUND,
    MOST_WORDS,
    Author,
    Embeddings,
    Memory,
    MemoryFilter,
    MemorySearchResult,
    ScopeCount,
    Wanted,
    WriteOptions,
    searched,
    where,
    words_of,
)
from crewlog.store.pool import Pool

NO_PGVECTOR = "this database has no pgvector, so they are found by their words"
_KEY = "memory_key"
"""What a memory's key is encrypted as."""


class PostgresMemories:
    """See `Memories`."""

    def __init__(self, pool: Pool, sql: Mapping[str, str], seal: RowCipher) -> None:
        self._pool = pool
        self._seal = seal
        self._sql = sql
        self._schema: str | None = None
        """Where pgvector is; empty where there is none, None where nobody has looked."""

    async def _fetch(self, name: str, *args: object) -> list[asyncpg.Record]:
        return await self._pool.fetch(self._sql[name], *args)

    async def write(self, memories: Sequence[Memory], terms: WriteOptions) -> bool:
        """See `Memories`."""
        first, author = memories[0], memories[0].author
        place = pack(first.crew), pack(first.scope)
        rows = [sealed(self._seal, each) for each in memories]
        args = [
            *place,
            pack(terms.call),
            [row.key for row in rows],
            [row.text for row in rows],
            [row.metadata for row in rows],
            [each.expires for each in memories],
            [" ".join(row.words) for row in rows],
            _vectors(terms.embedded, len(memories)),
            pack(author.agent),
            pack(author.run),
            pack(author.step),
            [row.said_by for row in rows],
            terms.now,
            terms.since,
            terms.most,
            self._dictionary(terms.language),
            terms.embedded.model if terms.embedded else None,
            [row.sealed_key for row in rows],
            [key for each in memories for key in self._older(*place, pack(each.key))],
        ]
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(self._sql["lock_memories"], *place)
            return bool(await connection.fetch(self._sql["write_memories"], *args))

    async def search(
        self, crew: CrewName, scopes: Sequence[str], wanted: Wanted, *, now: int, since: int = 0
    ) -> MemorySearchResult:
        """See `Memories`."""
        limit = min(wanted.limit, MOST_FOUND)
        place = pack(crew), [pack(scope) for scope in scopes], now, since
        alike: list[Memory] = []
        note = ""
        if wanted.embedded is not None:
            schema = await self._pgvector()
            if not schema:
                note = NO_PGVECTOR
            else:
                sql = self._sql["compare_memories"].replace("@schema", schema)
                rows = await self._pool.fetch(
                    sql,
                    *place,
                    wanted.embedded.model,
                    list(wanted.embedded.vectors[0]),
                    limit,
                    wanted.half_life,
                )
                alike = self._in_order(rows)[:limit]
        words = self._seal.search_word_codes(wanted.words[:MOST_WORDS])
        if len(alike) == limit or (alike and not words):
            return MemorySearchResult(memories=tuple(alike), by="meaning")
        rows = await self._fetch(
            "find_memories",
            *place,
            words,
            self._dictionary(wanted.language),
            limit,
            wanted.half_life,
        )
        found = self._in_order(rows)
        return merged(alike, found[:limit], limit, words=bool(words), note=note)

    async def newest(
        self, crew: CrewName, scope: str | None = None, *, now: int, limit: int = 100
    ) -> list[Memory]:
        """See `Memories`."""
        rows = await self._fetch("list_memories", pack(crew), pack_optional(scope), now, limit)
        return self._in_order(rows)[:limit]

    async def scopes(self, crew: CrewName | None = None) -> list[ScopeCount]:
        """See `Memories`."""
        return [
            ScopeCount(
                crew=CrewName(unpack(row["crew"])),
                scope=unpack(row["scope"]),
                count=row["count"],
                newest=row["newest"],
            )
            for row in await self._fetch("list_memory_scopes", pack_optional(crew))
        ]

    async def forget(self, which: MemoryFilter) -> int:
        """See `Memories`."""
        where(which)
        crew, scope, key = map(pack_optional, (which.crew, which.scope, which.key))
        keys = None
        if crew is not None and scope is not None and key is not None:  # a key is within both
            keys = [self._seal.key(key, _KEY, crew, scope), *self._older(crew, scope, key)]
        rows = await self._fetch(
            *("forget_memories", crew, scope, keys),
            *(pack_optional(which.run), pack_optional(which.step), which.before, which.expired),
        )
        return len(rows)

    def _older(self, crew: str, scope: str, key: str) -> list[str]:
        """What a row may be known by that was written with an older key, or without any."""
        keys = self._seal.keys
        if keys is None:
            return []
        codes = self._seal.keys_of(key, _KEY, crew, scope)[1:]
        # Where plain rows count no more, the database is not told the key. And no row is named by
        # a code that somebody guessed: a key may have any text.
        return [*codes, key] if keys.accept_plain and not key.startswith(KEY_CODE) else codes

    def _in_order(self, rows: Iterable[asyncpg.Record]) -> list[Memory]:
        """Memories by their places, and those of one place by their keys."""
        found = [(row["place"], self._memory(row)) for row in rows]
        found.sort(key=lambda each: (each[0], pack(each[1].key)))
        return [memory for _, memory in found]

    def _memory(self, row: asyncpg.Record) -> Memory:
        return opened(self._seal, row)

    def _dictionary(self, language: str) -> str:
        """What finds the stems of words; codes of words have none."""
        if language == "simple" or self._seal.on:
            return "pg_catalog.simple"
        return f"pg_catalog.{language}_stem"

    async def _pgvector(self) -> str:
        """The schema that pgvector is in; empty where the database cannot have it."""
        if self._schema is None:
            row = (await self._fetch("find_pgvector"))[0]
            if row["schema"] is None and row["available"]:
                # No right to, or another worker has just made it: the next look tells.
                with suppress(InternalError, StoreUnavailable):
                    await self._fetch("create_pgvector")
                row = (await self._fetch("find_pgvector"))[0]
            self._schema = str(row["schema"] or "")
        return self._schema


def merged(
    alike: Sequence[Memory], worded: Sequence[Memory], limit: int, *, words: bool, note: str = ""
) -> MemorySearchResult:
    """What is alike, filled up with what has the words: a memory may have no vector of the model.

    Args:
        alike: What an embedding found.
        worded: What the words found, or the newest ones where there are none.
        limit: How many there may be.
        words: Whether there were words.
        note: Why nothing was found by an embedding.
    """
    both = list(dict.fromkeys((each.scope, each.key) for each in (*alike, *worded)))
    by_place = {(each.scope, each.key): each for each in (*alike, *worded)}
    return MemorySearchResult(
        memories=tuple(by_place[place] for place in both[:limit]),
        by="meaning" if alike else "words" if words else "time",
        note=note,
    )


def _vectors(embedded: Embeddings | None, count: int) -> list[str | None]:
    if embedded is None:
        return [None] * count
    return ["{" + ",".join(map(repr, vector)) + "}" for vector in embedded.vectors]


@dataclass(frozen=True, slots=True)
class EncryptedMemory:
    """What of a memory is encrypted where encryption is on, as the table has it."""

    key: str
    sealed_key: str | None
    text: str
    metadata: str
    words: list[str]
    said_by: str
    """Empty where nobody did: an agent's memory."""


def sealed(seal: RowCipher, memory: Memory) -> EncryptedMemory:
    """A memory as the table has it: all that is encrypted is bound to its place."""
    key, within = pack(memory.key), (pack(memory.crew), pack(memory.scope))
    place = *within, seal.key(key, _KEY, *within)
    return EncryptedMemory(
        key=place[-1],
        sealed_key=seal.seal(key, _KEY, *place) if seal.on else None,
        text=seal.seal(pack(memory.text), "memory", *place),
        metadata=seal.seal(dump_json(memory.metadata), "memory_metadata", *place),
        words=seal.words(words_of(searched(memory))),
        said_by=seal.seal(pack(by), "memory_by", *place) if (by := memory.author.by) else "",
    )


def opened(seal: RowCipher, row: asyncpg.Record) -> Memory:
    """The memory of a row.

    Raises:
        EncryptionKeyMissing: the process does not have its key.
        DecryptionFailed: it was changed or moved, or is not encrypted.
    """
    place = row["crew"], row["scope"], row["key"]
    key = seal.open(row["sealed_key"] or row["key"], _KEY, *place)
    return Memory(
        crew=CrewName(unpack(row["crew"])),
        scope=unpack(row["scope"]),
        key=unpack(key),
        text=unpack(seal.open(row["text"], "memory", *place)),
        metadata=load_json(seal.open(row["metadata"], "memory_metadata", *place)),
        author=Author(
            agent=AgentName(unpack(row["agent"])),
            run=RunId(unpack(row["run"])),
            step=StepId(unpack(row["step"])),
            by=unpack(seal.open(by, "memory_by", *place)) if (by := row["said_by"]) else "",
        ),
        at=row["at"],
        expires=row["expires"],
    )
