"""What crews remember beyond one run: the seam, and what both stores have in common.

A memory is a text in a scope of a crew (`agent:A`, `group:G`, `public`), under a key of its own.
Who may see it is not decided here: whoever asks names the scopes, and gets nothing of any other.

Words are cut here, and not by the database, so that both stores find the same: a memory is the
better the more of the words that are looked for it has, then the newer it is.

`PostgresMemories`: what crews remember, in Postgres.

By meaning it searches with pgvector, where the database has it, or may have it: the first search
that needs it creates the extension. A scope is bounded, so every comparison is made and none is
left to an index that only finds most.
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

MOST_AT_ONCE = 20
"""Memories that one call writes."""
MOST_FOUND = 50
"""Memories that one search gives."""
HALF_LIVES = 6
"""After so many half-lives a memory is gone: it counts less than two hundredths of a new one."""
LONGEST_KEY = 200
LONGEST_QUERY = 2_000
LONGEST_METADATA = 4_096
"""Bytes of a memory's metadata, as JSON."""
LONGEST_WORD = 64
"""Characters of a word that count."""
MOST_WORDS = 32
"""Different words that a search looks for."""

_SINGLE = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
"""Characters that are words by themselves: Chinese and Japanese put no spaces."""


class NewMemory(Model):
    """Something that is to be remembered."""

    text: str = Field(min_length=1)
    """What."""
    key: str = Field(default="", max_length=LONGEST_KEY)
    """Its name in the scope: a later artifact of that key takes its place. By default its own."""
    metadata: dict[str, Json] = Field(default_factory=dict)
    """Data about it."""
    keep: Wait | None = None
    """How long it is kept, e.g. `7d`; never longer than the crew's retention."""


class Author(Model):
    """Who remembers something."""

    agent: AgentName = AgentName("")
    """The agent; empty where a person does."""
    run: RunId = RunId("")
    step: StepId = StepId("")
    by: str = ""
    """The person; empty where an agent does."""

    @property
    def name(self) -> str:
        """The agent or the person."""
        return self.agent or self.by or "somebody"


class Memory(Model):
    """Something that is remembered."""

    crew: CrewName
    scope: str
    """`agent:A`, `group:G` or `public`."""
    key: str
    text: str
    metadata: dict[str, Json] = Field(default_factory=dict[str, Json])
    author: Author = Author()
    at: int = 0
    """When it was written, in milliseconds since the epoch."""
    expires: int | None = None
    """When it is gone, in milliseconds since the epoch; none where nothing was said."""


class ScopeCount(Model):
    """A scope of a crew that has memories."""

    crew: CrewName
    scope: str
    count: int
    """How many."""
    newest: int
    """When the last one was written, in milliseconds since the epoch."""


class MemorySearchResult(Model):
    """What a search gave."""

    memories: tuple[Memory, ...] = ()
    """The best first."""
    by: Literal["time", "words", "meaning"] = "time"
    """How they were found: the newest ones, by the words, or by an embedding."""
    note: str = ""
    """Why not by an embedding, where one is set."""


@dataclass(frozen=True)
class Embeddings:
    """Vectors of some texts, and which model made them."""

    model: str
    vectors: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is looked for; neither words nor a vector: the newest memories."""

    words: tuple[str, ...] = ()
    language: Language = "simple"
    embedded: Embeddings | None = None
    """The query's vector."""
    limit: int = 5
    half_life: int = 0
    """Milliseconds after which a memory counts half; 0: none fades."""


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """On what terms something is written."""

    now: int
    """Milliseconds since the epoch: when all of it is written."""
    since: int = 0
    """What was written at this time or before is over, by the crew's retention."""
    most: int = 1_000
    """Memories of the scope; beyond, the oldest go."""
    language: Language = "simple"
    call: str = ""
    """The key of the call that writes: a second time it writes nothing. Empty: it always does."""
    embedded: Embeddings | None = None
    """The vectors of the memories, in their order."""


@dataclass(frozen=True, kw_only=True)
class MemoryFilter:
    """Which memories are to be removed: those that all of this holds for."""

    crew: CrewName | None = None
    scope: str | None = None
    key: str | None = None
    run: RunId | None = None
    step: StepId | None = None
    before: int | None = None
    """Written before this time."""
    expired: int | None = None
    """Expired at this time."""


class Memories(Protocol):
    """The memories of a store. All methods raise `StoreUnavailable` when it is away."""

    async def write(self, memories: Sequence[Memory], terms: WriteOptions) -> bool:
        """Writes memories of one scope, all or none; those of the same keys are replaced.

        What is over in the scope is removed, and then the oldest beyond `terms.most`.

        Returns:
            Whether they were written now; false where the call has written before.
        """
        ...

    async def search(
        self, crew: CrewName, scopes: Sequence[str], wanted: Wanted, *, now: int, since: int = 0
    ) -> MemorySearchResult:
        """The best memories of some scopes, and of no other, that are not over.

        Args:
            crew: The crew.
            scopes: The scopes.
            wanted: What is looked for.
            now: Milliseconds since the epoch.
            since: What was written at this time or before is over.
        """
        ...

    async def newest(
        self, crew: CrewName, scope: str | None = None, *, now: int, limit: int = 100
    ) -> list[Memory]:
        """The newest memories of a crew, or of a scope, that have not expired."""
        ...

    async def scopes(self, crew: CrewName | None = None) -> list[ScopeCount]:
        """The scopes that have memories, of a crew or of all, by name."""
        ...

    async def forget(self, which: MemoryFilter) -> int:
        """Removes memories; how many there were."""
        ...


def words_of(text: str) -> list[str]:
    """The different words of a text, in their order, as both stores compare them."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = _SINGLE.sub(r" \1 ", plain)
    cut = "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in plain)
    return list(dict.fromkeys(word[:LONGEST_WORD] for word in cut.split(" ") if word))


def clean_query(text: str) -> str:
    """What is looked for, as it can be.

    Raises:
        UsageError: it is too long.
    """
    if len(text) > LONGEST_QUERY:
        raise UsageError(
            f"what is looked for has {len(text):,} characters, and may have {LONGEST_QUERY:,}",
            remedy="Look for some words of it.",
        )
    return utf8_text(text)


def expiry_cutoff(policy: MemoryPolicy, now: int) -> int:
    """The time at which, or before which, something was written that is over by now.

    It is over by the crew's retention, or since it has faded.
    """
    faded = None if policy.half_life is None else policy.half_life * HALF_LIVES
    longest = min((s for s in (policy.retention, faded) if s is not None), default=None)
    return 0 if longest is None else max(0, now - int(longest * 1000))


def memory_weight(at: int, now: int, half_life: int) -> float:
    """What a memory counts that was written at a time: 1 when it is new, then less and less."""
    return 2.0 ** (-max(now - at, 0) / half_life) if half_life > 0 else 1.0


def write_options(
    policy: MemoryPolicy, now: int, *, call: str = "", embedded: Embeddings | None = None
) -> WriteOptions:
    """On what terms a crew's memory is written."""
    return WriteOptions(
        now=now,
        since=expiry_cutoff(policy, now),
        most=policy.max,
        language=policy.language,
        call=call,
        embedded=embedded,
    )


def new_memories(
    crew: CrewName,
    scope: str,
    artifacts: Sequence[NewMemory],
    author: Author,
    policy: MemoryPolicy,
    *,
    now: int,
    name: str,
) -> list[Memory]:
    """Artifacts as memories of a scope.

    Args:
        crew: The crew.
        scope: The scope.
        artifacts: What is to be remembered.
        author: Who says so.
        policy: The crew's.
        now: Milliseconds since the epoch.
        name: What the keys of those are made of that have none, e.g. the call's key.

    Raises:
        UsageError: there are none or too many, one is too long, or two have one key.
    """
    if not 0 < len(artifacts) <= min(MOST_AT_ONCE, policy.max):
        raise UsageError(
            f"{len(artifacts)} memories cannot be written at once",
            remedy=f"Write 1 to {min(MOST_AT_ONCE, policy.max)} of them.",
        )
    found: dict[str, Memory] = {}
    for number, artifact in enumerate(artifacts, 1):
        key = utf8_text(artifact.key).strip()
        key = key or hash_bytes(name.encode(), str(number).encode())[:12]
        if key in found:
            raise UsageError(f"two memories have the key {key!r}", remedy="Give each its own.")
        _check_size(artifact, number, policy)
        ends = [s for s in (artifact.keep, policy.retention) if s is not None]
        found[key] = Memory(
            crew=crew,
            scope=scope,
            key=key,
            text=utf8_text(artifact.text),
            metadata=utf8_json(artifact.metadata),
            author=author,
            at=now,
            expires=now + int(min(ends) * 1000) if ends else None,
        )
    return list(found.values())


def _check_size(artifact: NewMemory, number: int, policy: MemoryPolicy) -> None:
    if len(artifact.text) > policy.longest:
        raise UsageError(
            f"memory {number} has {len(artifact.text):,} characters, and one may have "
            f"{policy.longest:,}",
            remedy="Shorten it, or write several.",
        )
    try:
        check_depth(artifact.metadata)
        size = len(canonical(artifact.metadata))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the metadata of memory {number} cannot be kept: {error}",
            remedy="Give it text, numbers, lists or dicts.",
        ) from error
    if size > LONGEST_METADATA:
        raise UsageError(
            f"the metadata of memory {number} has {size:,} bytes, and may have "
            f"{LONGEST_METADATA:,}",
            remedy="Put what is long into the text.",
        )


def searched(memory: Memory) -> str:
    """The text whose words a memory is found by."""
    return f"{memory.key} {memory.text}"


def cosine_similarity(one: Sequence[float], other: Sequence[float]) -> float:
    """How alike two vectors are, from -1 to 1; 0 where one of them is nothing."""
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    size = (sum(a * a for a in one) * sum(b * b for b in other)) ** 0.5
    return dot / size if size else 0.0


def where(which: MemoryFilter) -> Mapping[str, str | int]:
    """What is said of the memories that are to be removed, by name.

    Raises:
        UsageError: nothing is; or a part of what is kept per crew, and not the crew.
    """
    said = {name: value for name, value in vars(which).items() if value is not None}
    if not said or ("crew" not in said and "run" not in said):
        raise UsageError("say of which crew or run memories are to be removed")
    if "key" in said and not {"crew", "scope"} <= said.keys():
        raise UsageError(
            "a key is one within a scope of a crew", remedy="Name the crew and the scope, too."
        )
    return said


NO_PGVECTOR = "this database has no pgvector, so they are found by their words"
_KEY = "memory_key"
"""What a memory's key is encrypted as."""


class PostgresMemories:
    """See `Memories`."""

    def __init__(self, pool: Pool, sql: Mapping[str, str], cipher: RowCipher) -> None:
        self._pool = pool
        self._cipher = cipher
        self._sql = sql
        self._schema: str | None = None
        """Where pgvector is; empty where there is none, None where nobody has looked."""

    async def _fetch(self, name: str, *args: object) -> list[asyncpg.Record]:
        return await self._pool.fetch(self._sql[name], *args)

    async def write(self, memories: Sequence[Memory], terms: WriteOptions) -> bool:
        """See `Memories`."""
        first, author = memories[0], memories[0].author
        place = pack(first.crew), pack(first.scope)
        rows = [sealed(self._cipher, each) for each in memories]
        vectors = _vectors(terms.embedded, len(memories))
        given: list[Json] = [
            {
                "key": row.key,
                "encrypted_key": row.encrypted_key,
                "text": row.text,
                "metadata": row.metadata,
                "expires": each.expires,
                "words": " ".join(row.words),
                "embedding": vector,
                "written_by": row.written_by,
            }
            for each, row, vector in zip(memories, rows, vectors, strict=True)
        ]
        shared: Json = {
            "call": pack(terms.call),
            "agent": pack(author.agent),
            "run": pack(author.run),
            "step": pack(author.step),
            "now": terms.now,
            "since": terms.since,
            "most": terms.most,
            "language": self._dictionary(terms.language),
            "embedder": terms.embedded.model if terms.embedded else None,
            "older_keys": [key for each in memories for key in self._older(*place, pack(each.key))],
        }
        args = *place, dump_json(given), dump_json(shared)
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
        words = self._cipher.search_word_codes(wanted.words[:MOST_WORDS])
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
            keys = [self._cipher.key(key, _KEY, crew, scope), *self._older(crew, scope, key)]
        rows = await self._fetch(
            *("forget_memories", crew, scope, keys),
            *(pack_optional(which.run), pack_optional(which.step), which.before, which.expired),
        )
        return len(rows)

    def _older(self, crew: str, scope: str, key: str) -> list[str]:
        """What a row may be known by that was written with an older key, or without any."""
        keys = self._cipher.keys
        if keys is None:
            return []
        codes = self._cipher.keys_of(key, _KEY, crew, scope)[1:]
        # Where plain rows count no more, the database is not told the key. And no row is named by
        # a code that somebody guessed: a key may have any text.
        return [*codes, key] if keys.accept_plain and not key.startswith(KEY_CODE) else codes

    def _in_order(self, rows: Iterable[asyncpg.Record]) -> list[Memory]:
        """Memories by their places, and those of one place by their keys."""
        found = [(row["place"], self._memory(row)) for row in rows]
        found.sort(key=lambda each: (each[0], pack(each[1].key)))
        return [memory for _, memory in found]

    def _memory(self, row: asyncpg.Record) -> Memory:
        return opened(self._cipher, row)

    def _dictionary(self, language: str) -> str:
        """What finds the stems of words; codes of words have none."""
        if language == "simple" or self._cipher.on:
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
    encrypted_key: str | None
    text: str
    metadata: str
    words: list[str]
    written_by: str
    """Empty where nobody did: an agent's memory."""


def sealed(cipher: RowCipher, memory: Memory) -> EncryptedMemory:
    """A memory as the table has it: all that is encrypted is bound to its place."""
    key, within = pack(memory.key), (pack(memory.crew), pack(memory.scope))
    place = *within, cipher.key(key, _KEY, *within)
    return EncryptedMemory(
        key=place[-1],
        encrypted_key=cipher.encrypt(key, _KEY, *place) if cipher.on else None,
        text=cipher.encrypt(pack(memory.text), "memory", *place),
        metadata=cipher.encrypt(dump_json(memory.metadata), "memory_metadata", *place),
        words=cipher.words(words_of(searched(memory))),
        written_by=cipher.encrypt(pack(by), "memory_by", *place)
        if (by := memory.author.by)
        else "",
    )


def opened(cipher: RowCipher, row: asyncpg.Record) -> Memory:
    """The memory of a row.

    Raises:
        EncryptionKeyMissing: the process does not have its key.
        DecryptionFailed: it was changed or moved, or is not encrypted.
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
        expires=row["expires"],
    )
