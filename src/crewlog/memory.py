"""Searches and writes the memory of a crew by its policy, for memory tools and clients.

The embedding model is called before the store, since it may take long.
"""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.definition.model import MemoryPolicy
from crewlog.embeddings import Embedders
from crewlog.ids import CrewName
from crewlog.store.memories import (
    Memories,
    Memory,
    MemoryQuery,
    MemorySearchResult,
    expiry_cutoff,
    search_text,
    split_words,
    write_options,
)


async def search_memories(
    memories: Memories,
    embedders: Embedders,
    policy: MemoryPolicy,
    crew: CrewName,
    scopes: Sequence[str],
    query: str,
    *,
    limit: int,
    now: int,
) -> MemorySearchResult:
    """The best matches in some scopes that have not expired.

    Args:
        memories: The memories of the store.
        embedders: The embedding models.
        policy: The memory policy of the crew.
        crew: The crew.
        scopes: The scopes.
        query: The query, as `check_query` returns it; empty: the newest memories.
        limit: The most memories.
        now: The time, in milliseconds since the epoch.
    """
    embeddings = None
    if policy.embedding is not None and query.strip():
        embeddings = await embedders.embed_texts(policy.embedding, [query])
    memory_query = MemoryQuery(
        words=tuple(split_words(query)),
        language=policy.language,
        embeddings=embeddings,
        limit=limit,
        half_life=int((policy.half_life or 0) * 1000),
    )
    return await memories.search(
        crew, scopes, memory_query, now=now, expired_at=expiry_cutoff(policy, now)
    )


async def write_memories(
    memories: Memories,
    embedders: Embedders,
    policy: MemoryPolicy,
    entries: Sequence[Memory],
    *,
    call: str,
    now: int,
) -> None:
    """Writes memories.

    Args:
        memories: The memories of the store.
        embedders: The embedding models.
        policy: The memory policy of the crew.
        entries: The memories, as `build_memories` returns them.
        call: The idempotency key of the call: a second write with it does nothing. Empty: none.
        now: The time, in milliseconds since the epoch.
    """
    embeddings = None
    if policy.embedding is not None:
        embeddings = await embedders.embed_texts(
            policy.embedding, [search_text(each) for each in entries]
        )
    await memories.write(entries, write_options(policy, now, call=call, embeddings=embeddings))
