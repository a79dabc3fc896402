"""`InMemoryMemories`: what crews remember, without a database; as Postgres, by the same tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crewlog.ids import CrewName
from crewlog.store.memories import (
    MOST_FOUND,
    MOST_WORDS,
    Memory,
    MemoryFilter,
    MemorySearchResult,
    ScopeCount,
    Wanted,
    WriteOptions,
    cosine_similarity,
    memory_weight,
    searched,
    where,
    words_of,
)
from crewlog.store.postgres_memories import merged


@dataclass(frozen=True, slots=True)
class _StoredMemory:
    """A memory, with what it is found by."""

    kept: Memory
    words: frozenset[str]
    embedder: str
    vector: tuple[float, ...]

    @property
    def memory(self) -> Memory:
        """A copy: its metadata may be changed by whoever gets it."""
        return self.kept.model_copy(deep=True)


class InMemoryMemories:
    """See `Memories`. It takes words as they are, whatever their language."""

    def __init__(self, claims: dict[str, str]) -> None:
        self._claims = claims
        """The store's: the calls that have written are among them."""
        self._held: dict[tuple[str, str, str], _StoredMemory] = {}
        """By crew, scope and key."""

    async def write(self, memories: Sequence[Memory], terms: WriteOptions) -> bool:
        """See `Memories`."""
        if terms.call:
            if terms.call in self._claims:
                return False
            self._claims[terms.call] = "memory"
        place = memories[0].crew, memories[0].scope
        new = {(*place, each.key) for each in memories}
        old = [at for at in self._held if at[:2] == place and at not in new]
        gone = [at for at in old if _over(self._held[at].memory, terms.now, terms.since)]
        alive = sorted(
            (at for at in old if at not in gone),
            key=lambda at: (self._held[at].memory.at, at[2]),
            reverse=True,
        )
        for at in [*gone, *alive[max(0, terms.most - len(new)) :]]:
            del self._held[at]
        for number, each in enumerate(memories):
            self._held[*place, each.key] = _StoredMemory(
                kept=each.model_copy(update={"at": terms.now}, deep=True),
                words=frozenset(words_of(searched(each))),
                embedder=terms.embedded.model if terms.embedded else "",
                vector=terms.embedded.vectors[number] if terms.embedded else (),
            )
        return True

    async def search(
        self, crew: CrewName, scopes: Sequence[str], wanted: Wanted, *, now: int, since: int = 0
    ) -> MemorySearchResult:
        """See `Memories`."""
        limit = min(wanted.limit, MOST_FOUND)
        found = [
            (held, memory)
            for (of, scope, _), held in self._held.items()
            if of == crew and scope in scopes and not _over(memory := held.memory, now, since)
        ]
        alike: list[Memory] = []
        if wanted.embedded is not None:
            model, vector = wanted.embedded.model, wanted.embedded.vectors[0]
            near = [
                (-_similarity(held, vector, wanted, now), *_newest(memory), memory)
                for held, memory in found
                if held.embedder == model and len(held.vector) == len(vector)
            ]
            alike = [each[-1] for each in sorted(near, key=lambda each: each[:-1])[:limit]]
        words = frozenset(wanted.words[:MOST_WORDS])
        if len(alike) == limit or (alike and not words):
            return MemorySearchResult(memories=tuple(alike), by="meaning")
        ranked = [
            (
                -round(
                    len(words & held.words) * memory_weight(memory.at, now, wanted.half_life), 9
                ),
                *_newest(memory),
                memory,
            )
            for held, memory in found
            if words & held.words or not words
        ]
        best = [each[-1] for each in sorted(ranked, key=lambda each: each[:-1])[:limit]]
        return merged(alike, best, limit, words=bool(words))

    async def newest(
        self, crew: CrewName, scope: str | None = None, *, now: int, limit: int = 100
    ) -> list[Memory]:
        """See `Memories`."""
        found = [
            memory
            for memory in self._all()
            if memory.crew == crew and scope in {None, memory.scope} and not _over(memory, now, -1)
        ]
        return sorted(found, key=_newest)[:limit]

    async def scopes(self, crew: CrewName | None = None) -> list[ScopeCount]:
        """See `Memories`."""
        times: dict[tuple[CrewName, str], list[int]] = {}
        for memory in self._all():
            if crew in {None, memory.crew}:
                times.setdefault((memory.crew, memory.scope), []).append(memory.at)
        return [
            ScopeCount(crew=of, scope=scope, count=len(at), newest=max(at))
            for (of, scope), at in sorted(times.items())
        ]

    async def forget(self, which: MemoryFilter) -> int:
        """See `Memories`."""
        where(which)
        gone = [at for at, held in self._held.items() if _named(held.memory, which)]
        for at in gone:
            del self._held[at]
        return len(gone)

    def _all(self) -> Iterator[Memory]:
        return (held.memory for held in self._held.values())


def _similarity(held: _StoredMemory, vector: Sequence[float], wanted: Wanted, now: int) -> float:
    """How like a query a memory is, from 0 to 1, as far as it has not faded."""
    return (
        (1 + cosine_similarity(held.vector, vector))
        / 2
        * memory_weight(held.kept.at, now, wanted.half_life)
    )


def _over(memory: Memory, now: int, since: int) -> bool:
    return memory.at <= since or (memory.expires is not None and memory.expires <= now)


def _newest(memory: Memory) -> tuple[int, str, str]:
    return -memory.at, memory.scope, memory.key


def _named(memory: Memory, which: MemoryFilter) -> bool:
    author = memory.author
    pairs = (
        (which.crew, memory.crew),
        (which.scope, memory.scope),
        (which.key, memory.key),
        (which.run, author.run),
        (which.step, author.step),
    )
    return (
        all(wanted in {None, there} for wanted, there in pairs)
        and (which.before is None or memory.at < which.before)
        and (
            which.expired is None
            or (memory.expires is not None and memory.expires <= which.expired)
        )
    )
