"""The memory of crews: its protocol, the rules that both stores share, and `PostgresMemories`.

A memory is a text in a scope of a crew (`agent:A`, `group:G`, `public`), with a key that is unique
in the scope. The store checks no permissions: a search returns memories of the scopes it names.

This module, not the database, splits texts into words, so that both stores find the same memories.
A memory ranks higher the more words of the query it has, then the newer it is.

`PostgresMemories` compares embeddings with pgvector. The first search with an embedding creates the
extension if the database offers it. The number of memories in a scope is limited, so a search
compares all of them and needs no approximate index.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol

import asyncpg
from pydantic import Field

from crewlog.canonical_json import canonical, check_depth, hash_bytes, utf8_json, utf8_text
from crewlog.definition.model import Language, MemoryPolicy, Wait
from crewlog.encryption.rows import KEY_CODE, RowCipher
from crewlog.errors import InternalError, StoreUnavailable, UsageError
from crewlog.ids import AgentName, CrewName, RunId, StepId
from crewlog.model import Json, Model
from crewlog.store.codec import dump_json, load_json, pack, pack_optional, unpack
from crewlog.store.pool import Pool

MOST_WRITES = 20
"""Memories that one call writes."""
MOST_RESULTS = 50
"""Memories that one search returns."""
HALF_LIVES = 6
"""Half-lives after which a memory expires: its weight is below 0.02 then."""
LONGEST_KEY = 200
LONGEST_QUERY = 2_000
LONGEST_METADATA = 4_096
"""Bytes of a memory's metadata, as JSON."""
LONGEST_WORD = 64
"""Characters of a word that are compared."""
MOST_WORDS = 32
"""Different words of a query."""

_SINGLE = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
"""Characters that are words of their own, since Chinese and Japanese put no spaces."""


class NewMemory(Model):
    """A memory to write."""

    text: str = Field(min_length=1)
    """Its text."""
    key: str = Field(default="", max_length=LONGEST_KEY)
    """Its name in the scope: a later memory with the same key replaces it. Default: a new key."""
    metadata: dict[str, Json] = Field(default_factory=dict)
    """JSON data about it."""
    keep: Wait | None = None
    """How long to keep it, e.g. `7d`; never longer than the crew's retention."""


class Author(Model):
    """The author of a memory."""

    agent: AgentName = AgentName("")
    """The agent; empty if a principal wrote it."""
    run: RunId = RunId("")
    step: StepId = StepId("")
    by: str = ""
    """The principal; empty if an agent wrote it."""

    @property
    def name(self) -> str:
        """The agent or the principal."""
        return self.agent or self.by or "somebody"


class Memory(Model):
    """A stored memory."""

    crew: CrewName
    scope: str
    """`agent:A`, `group:G` or `public`."""
    key: str
    text: str
    metadata: dict[str, Json] = Field(default_factory=dict[str, Json])
    author: Author = Author()
    at: int = 0
    """When it was written, in milliseconds since the epoch."""
    expires_at: int | None = None
    """When it expires, in milliseconds since the epoch; None if it does not."""


class ScopeCount(Model):
    """A scope of a crew that has memories."""

    crew: CrewName
    scope: str
    count: int
    """The number of its memories."""
    newest: int
    """When the last one was written, in milliseconds since the epoch."""


class MemorySearchResult(Model):
    """The result of a search."""

    memories: tuple[Memory, ...] = ()
    """The best first."""
    by: Literal["time", "words", "meaning"] = "time"
    """How they were found: `time` means the newest ones, `meaning` by their embeddings."""
    note: str = ""
    """Why they were not found by embeddings although the crew has an embedding model."""


@dataclass(frozen=True)
class Embeddings:
    """The vectors of some texts, with the model that computed them."""

    model: str
    vectors: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, kw_only=True)
class MemoryQuery:
    """A query; without words and embeddings it finds the newest memories."""

    words: tuple[str, ...] = ()
    language: Language = "simple"
    embeddings: Embeddings | None = None
    """The vector of the query."""
    limit: int = 5
    half_life: int = 0
    """Milliseconds in which the weight of a memory halves; 0: it stays the same."""


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How memories are written."""

    now: int
    """The time of all of them, in milliseconds since the epoch."""
    expired_at: int = 0
    """Memories that were written at this time or earlier have expired."""
    most_memories: int = 1_000
    """The most memories of the scope; the oldest ones beyond it are removed."""
    language: Language = "simple"
    call: str = ""
    """The idempotency key of the call: a second write with it does nothing. Empty: none."""
    embeddings: Embeddings | None = None
    """The vectors of the memories, in their order."""


@dataclass(frozen=True, kw_only=True)
class MemoryFilter:
    """Selects memories to remove: those to which all conditions apply."""

    crew: CrewName | None = None
    scope: str | None = None
    key: str | None = None
    run: RunId | None = None
    step: StepId | None = None
    before: int | None = None
    """Written before this time."""
    expired_at: int | None = None
    """Expired at this time, by their own `expires_at`."""


class Memories(Protocol):
    """The memories of a store. All methods raise `StoreUnavailable` if it does not answer."""

    async def write(self, memories: Sequence[Memory], options: WriteOptions) -> bool:
        """Writes memories of one scope, all or none; they replace those with the same keys.

        Removes expired memories of the scope, then the oldest ones beyond `most_memories`.

        Returns:
            Whether they were written; False if the call has written them before.
        """
        ...

    async def search(
        self,
        crew: CrewName,
        scopes: Sequence[str],
        query: MemoryQuery,
        *,
        now: int,
        expired_at: int = 0,
    ) -> MemorySearchResult:
        """The best matches in some scopes that have not expired.

        Args:
            crew: The crew.
            scopes: The scopes.
            query: The query.
            now: The time, in milliseconds since the epoch.
            expired_at: Memories that were written at this time or earlier have expired.
        """
        ...

    async def list_newest(
        self, crew: CrewName, scope: str | None = None, *, now: int, limit: int = 100
    ) -> list[Memory]:
        """The newest memories of a crew, or of a scope, that have not expired."""
        ...

    async def list_scopes(self, crew: CrewName | None = None) -> list[ScopeCount]:
        """The scopes that have memories, of a crew or of all, by name."""
        ...

    async def forget(self, memory_filter: MemoryFilter) -> int:
        """Removes memories and returns their number."""
        ...


def split_words(text: str) -> list[str]:
    """The different words of a text, in their order."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = _SINGLE.sub(r" \1 ", plain)
    cut = "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in plain)
    return list(dict.fromkeys(word[:LONGEST_WORD] for word in cut.split(" ") if word))


def check_query(text: str) -> str:
    """The text of a query as valid UTF-8.

    Raises:
        UsageError: it is too long.
    """
    if len(text) > LONGEST_QUERY:
        raise UsageError(
            f"the query has {len(text):,} characters, and may have {LONGEST_QUERY:,}",
            remedy="Search for some words of it.",
        )
    return utf8_text(text)


def expiry_cutoff(policy: MemoryPolicy, now: int) -> int:
    """Memories written at this time or earlier have expired, by the retention or the half-life."""
    half_lives = None if policy.half_life is None else policy.half_life * HALF_LIVES
    longest = min((s for s in (policy.retention, half_lives) if s is not None), default=None)
    return 0 if longest is None else max(0, now - int(longest * 1000))


def memory_weight(at: int, now: int, half_life: int) -> float:
    """The weight of a memory that was written at a time: 1 if it is new, halved per half-life."""
    return 2.0 ** (-max(now - at, 0) / half_life) if half_life > 0 else 1.0


def write_options(
    policy: MemoryPolicy, now: int, *, call: str = "", embeddings: Embeddings | None = None
) -> WriteOptions:
    """The write options of a crew's policy."""
    return WriteOptions(
        now=now,
        expired_at=expiry_cutoff(policy, now),
        most_memories=policy.max,
        language=policy.language,
        call=call,
        embeddings=embeddings,
    )


def build_memories(
    crew: CrewName,
    scope: str,
    entries: Sequence[NewMemory],
    author: Author,
    policy: MemoryPolicy,
    *,
    now: int,
    key_seed: str,
) -> list[Memory]:
    """Checks new memories and completes them for their scope.

    Args:
        crew: The crew.
        scope: The scope.
        entries: The new memories.
        author: Their author.
        policy: The memory policy of the crew.
        now: The time, in milliseconds since the epoch.
        key_seed: A unique text, e.g. the idempotency key of the call, from which the missing keys
            are derived.

    Raises:
        UsageError: there are none or too many, one is too long, or two have one key.
    """
    if not 0 < len(entries) <= min(MOST_WRITES, policy.max):
        raise UsageError(
            f"{len(entries)} memories cannot be written at once",
            remedy=f"Write 1 to {min(MOST_WRITES, policy.max)} of them.",
        )
    found: dict[str, Memory] = {}
    for number, entry in enumerate(entries, 1):
        key = utf8_text(entry.key).strip()
        key = key or hash_bytes(key_seed.encode(), str(number).encode())[:12]
        if key in found:
            raise UsageError(f"two memories have the key {key!r}", remedy="Give each its own key.")
        _check_size(entry, number, policy)
        lifetimes = [s for s in (entry.keep, policy.retention) if s is not None]
        found[key] = Memory(
            crew=crew,
            scope=scope,
            key=key,
            text=utf8_text(entry.text),
            metadata=utf8_json(entry.metadata),
            author=author,
            at=now,
            expires_at=now + int(min(lifetimes) * 1000) if lifetimes else None,
        )
    return list(found.values())


def _check_size(entry: NewMemory, number: int, policy: MemoryPolicy) -> None:
    if len(entry.text) > policy.longest:
        raise UsageError(
            f"memory {number} has {len(entry.text):,} characters, and one may have "
            f"{policy.longest:,}",
            remedy="Shorten it, or write several.",
        )
    try:
        check_depth(entry.metadata)
        size = len(canonical(entry.metadata))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the metadata of memory {number} cannot be stored: {error}",
            remedy="Use text, numbers, lists and dicts.",
        ) from error
    if size > LONGEST_METADATA:
        raise UsageError(
            f"the metadata of memory {number} has {size:,} bytes, and may have "
            f"{LONGEST_METADATA:,}",
            remedy="Move long values into the text.",
        )


def search_text(memory: Memory) -> str:
    """The text that is searched by words."""
    return f"{memory.key} {memory.text}"


def cosine_similarity(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine similarity of two vectors, from -1 to 1; 0 if one of them is zero."""
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    size = (sum(a * a for a in one) * sum(b * b for b in other)) ** 0.5
    return dot / size if size else 0.0


def check_filter(memory_filter: MemoryFilter) -> Mapping[str, str | int]:
    """The conditions of a filter, by name.

    Raises:
        UsageError: it selects no crew and no run; or it has a key without crew and scope.
    """
    conditions = {name: value for name, value in vars(memory_filter).items() if value is not None}
    if "crew" not in conditions and "run" not in conditions:
        raise UsageError("memories to remove need a crew or a run", remedy="Name one of them.")
    if "key" in conditions and not {"crew", "scope"} <= conditions.keys():
        raise UsageError(
            "a key is unique only within a scope of a crew",
            remedy="Name the crew and the scope, too.",
        )
    return conditions


NO_PGVECTOR = "the database has no pgvector, so the search compared words instead of embeddings"
_KEY = "memory_key"
"""The kind of text for `RowCipher`."""


class PostgresMemories:
    """See `Memories`."""

    def __init__(self, pool: Pool, sql: Mapping[str, str], cipher: RowCipher) -> None:
        self._pool = pool
        self._cipher = cipher
        self._sql = sql
        self._schema: str | None = None
        """The schema of pgvector; empty if there is none, None until it is looked up."""

    async def _fetch(self, name: str, *args: object) -> list[asyncpg.Record]:
        return await self._pool.fetch(self._sql[name], *args)

    async def write(self, memories: Sequence[Memory], options: WriteOptions) -> bool:
        """See `Memories`."""
        first, author = memories[0], memories[0].author
        place = pack(first.crew), pack(first.scope)
        rows = [encrypt_memory(self._cipher, each) for each in memories]
        vectors = _vectors(options.embeddings, len(memories))
        new: list[Json] = [
            {
                "key": row.key,
                "encrypted_key": row.encrypted_key,
                "text": row.text,
                "metadata": row.metadata,
                "expires_at": each.expires_at,
                "words": " ".join(row.words),
                "embedding": vector,
                "written_by": row.written_by,
            }
            for each, row, vector in zip(memories, rows, vectors, strict=True)
        ]
        shared: Json = {
            "call": pack(options.call),
            "agent": pack(author.agent),
            "run": pack(author.run),
            "step": pack(author.step),
            "now": options.now,
            "expired_at": options.expired_at,
            "most_memories": options.most_memories,
            "language": self._dictionary(options.language),
            "embedder": options.embeddings.model if options.embeddings else None,
            "older_keys": [
                key for each in memories for key in self._older_keys(*place, pack(each.key))
            ],
        }
        args = *place, dump_json(new), dump_json(shared)
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(self._sql["lock_memories"], *place)
            return bool(await connection.fetch(self._sql["write_memories"], *args))

    async def search(
        self,
        crew: CrewName,
        scopes: Sequence[str],
        query: MemoryQuery,
        *,
        now: int,
        expired_at: int = 0,
    ) -> MemorySearchResult:
        """See `Memories`."""
        limit = min(query.limit, MOST_RESULTS)
        place = pack(crew), [pack(scope) for scope in scopes], now, expired_at
        alike: list[Memory] = []
        note = ""
        if query.embeddings is not None:
            schema = await self._pgvector()
            if not schema:
                note = NO_PGVECTOR
            else:
                sql = self._sql["compare_memories"].replace("@schema", schema)
                rows = await self._pool.fetch(
                    sql,
                    *place,
                    query.embeddings.model,
                    list(query.embeddings.vectors[0]),
                    limit,
                    query.half_life,
                )
                alike = self._in_order(rows)[:limit]
        words = self._cipher.search_word_codes(query.words[:MOST_WORDS])
        if len(alike) == limit or (alike and not words):
            return MemorySearchResult(memories=tuple(alike), by="meaning")
        rows = await self._fetch(
            "find_memories",
            *place,
            words,
            self._dictionary(query.language),
            limit,
            query.half_life,
        )
        found = self._in_order(rows)
        return merge_results(alike, found[:limit], limit, has_words=bool(words), note=note)

    async def list_newest(
        self, crew: CrewName, scope: str | None = None, *, now: int, limit: int = 100
    ) -> list[Memory]:
        """See `Memories`."""
        rows = await self._fetch("list_memories", pack(crew), pack_optional(scope), now, limit)
        return self._in_order(rows)[:limit]

    async def list_scopes(self, crew: CrewName | None = None) -> list[ScopeCount]:
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

    async def forget(self, memory_filter: MemoryFilter) -> int:
        """See `Memories`."""
        check_filter(memory_filter)
        crew, scope, key = map(
            pack_optional, (memory_filter.crew, memory_filter.scope, memory_filter.key)
        )
        keys = None
        if crew is not None and scope is not None and key is not None:  # a key is within both
            keys = [
                self._cipher.key_code(key, _KEY, crew, scope),
                *self._older_keys(crew, scope, key),
            ]
        rows = await self._fetch(
            *("forget_memories", crew, scope, keys),
            *(
                pack_optional(memory_filter.run),
                pack_optional(memory_filter.step),
                memory_filter.before,
                memory_filter.expired_at,
            ),
        )
        return len(rows)

    def _older_keys(self, crew: str, scope: str, key: str) -> list[str]:
        """The keys that a row may have if it was written with another encryption key, or none."""
        keys = self._cipher.keys
        if keys is None:
            return []
        codes = self._cipher.key_codes(key, _KEY, crew, scope)[1:]
        # If plain rows are refused, the plain key must not reach the database. And users choose
        # keys freely: one that looks like a code must not match the row of that code.
        return [*codes, key] if keys.accept_plain and not key.startswith(KEY_CODE) else codes

    def _in_order(self, rows: Iterable[asyncpg.Record]) -> list[Memory]:
        """Memories by rank, and those of one rank by their keys."""
        found = [(row["place"], decrypt_memory(self._cipher, row)) for row in rows]
        found.sort(key=lambda each: (each[0], pack(each[1].key)))
        return [memory for _, memory in found]

    def _dictionary(self, language: str) -> str:
        """The Postgres dictionary that finds word stems; encrypted words have none."""
        if language == "simple" or self._cipher.is_enabled:
            return "pg_catalog.simple"
        return f"pg_catalog.{language}_stem"

    async def _pgvector(self) -> str:
        """The schema of pgvector; empty if the database does not offer it."""
        if self._schema is None:
            row = (await self._fetch("find_pgvector"))[0]
            if row["schema"] is None and row["available"]:
                # It fails without the right to, or if another worker creates it at this moment.
                with suppress(InternalError, StoreUnavailable):
                    await self._fetch("create_pgvector")
                row = (await self._fetch("find_pgvector"))[0]
            self._schema = str(row["schema"] or "")
        return self._schema


def merge_results(
    by_meaning: Sequence[Memory],
    by_words: Sequence[Memory],
    limit: int,
    *,
    has_words: bool,
    note: str = "",
) -> MemorySearchResult:
    """Memories found by embeddings, then those found by words, up to the limit.

    Some memories may have no vector of the model, so only their words can be compared.

    Args:
        by_meaning: The memories found by embeddings.
        by_words: The memories found by words; the newest ones if the query has no words.
        limit: The most memories.
        has_words: Whether the query has words.
        note: See `MemorySearchResult.note`.
    """
    both = list(dict.fromkeys((each.scope, each.key) for each in (*by_meaning, *by_words)))
    by_place = {(each.scope, each.key): each for each in (*by_meaning, *by_words)}
    return MemorySearchResult(
        memories=tuple(by_place[place] for place in both[:limit]),
        by="meaning" if by_meaning else "words" if has_words else "time",
        note=note,
    )


def _vectors(embedded: Embeddings | None, count: int) -> list[str | None]:
    if embedded is None:
        return [None] * count
    return ["{" + ",".join(map(repr, vector)) + "}" for vector in embedded.vectors]


@dataclass(frozen=True, slots=True)
class EncryptedMemory:
    """The columns of a memory that are encrypted if encryption is on."""

    key: str
    encrypted_key: str | None
    text: str
    metadata: str
    words: list[str]
    written_by: str
    """The principal; empty for the memory of an agent."""


def encrypt_memory(cipher: RowCipher, memory: Memory) -> EncryptedMemory:
    """Encrypts the columns of a memory, each bound to crew, scope and key."""
    key, within = pack(memory.key), (pack(memory.crew), pack(memory.scope))
    place = *within, cipher.key_code(key, _KEY, *within)
    return EncryptedMemory(
        key=place[-1],
        encrypted_key=cipher.encrypt(key, _KEY, *place) if cipher.is_enabled else None,
        text=cipher.encrypt(pack(memory.text), "memory", *place),
        metadata=cipher.encrypt(dump_json(memory.metadata), "memory_metadata", *place),
        words=cipher.word_codes(split_words(search_text(memory))),
        written_by=cipher.encrypt(pack(by), "memory_by", *place)
        if (by := memory.author.by)
        else "",
    )


def decrypt_memory(cipher: RowCipher, row: asyncpg.Record) -> Memory:
    """Decrypts the memory of a row.

    Raises:
        EncryptionKeyMissing: the process does not have the key.
        DecryptionFailed: the row was changed or moved, or is not encrypted.
    """
    place = row["crew"], row["scope"], row["key"]
    key = cipher.decrypt(row["encrypted_key"] or row["key"], _KEY, *place)
    return Memory(
        crew=CrewName(unpack(row["crew"])),
        scope=unpack(row["scope"]),
        key=unpack(key),
        text=unpack(cipher.decrypt(row["text"], "memory", *place)),
        metadata=load_json(cipher.decrypt(row["metadata"], "memory_metadata", *place)),
        author=Author(
            agent=AgentName(unpack(row["agent"])),
            run=RunId(unpack(row["run"])),
            step=StepId(unpack(row["step"])),
            by=unpack(cipher.decrypt(by, "memory_by", *place)) if (by := row["written_by"]) else "",
        ),
        at=row["at"],
        expires_at=row["expires_at"],
    )
