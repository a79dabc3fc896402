"""Reading and writing a crew's memory on its policy's terms: as agents' tools and people do it.

Asking an embedding model is I/O, and takes time: it is done before the store is asked for anything.
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


async def recall(
    memories: Memories,
    embedding: Embedders,
    policy: MemoryPolicy,
    crew: CrewName,
    scopes: Sequence[str],
    query: str,
    *,
    limit: int,
    now: int,
) -> MemorySearchResult:
    """The best memories of some scopes that are not over.

    Args:
        memories: Where they are.
        embedding: The embedding models.
        policy: The crew's.
        crew: The crew.
        scopes: The scopes that are looked through.
        query: What is looked for, as `clean_query` gives it; empty: the newest.
        limit: How many at most.
        now: Milliseconds since the epoch.
    """
    embedded = None
    if policy.embedding is not None and query.strip():
        embedded = await embedding.embedded(policy.embedding, [query])
    wanted = MemoryQuery(
        words=tuple(split_words(query)),
        language=policy.language,
        embeddings=embedded,
        limit=limit,
        half_life=int((policy.half_life or 0) * 1000),
    )
    return await memories.search(
        crew, scopes, wanted, now=now, expired_at=expiry_cutoff(policy, now)
    )


async def keep(
    memories: Memories,
    embedding: Embedders,
    policy: MemoryPolicy,
    kept: Sequence[Memory],
    *,
    call: str,
    now: int,
) -> None:
    """Writes memories.

    Args:
        memories: Where they go.
        embedding: The embedding models.
        policy: The crew's.
        kept: What is to be remembered, as `new_memories` gives it.
        call: Whose call it is: a second time under that name writes nothing. Empty: nobody's.
        now: Milliseconds since the epoch.
    """
    embedded = None
    if policy.embedding is not None:
        embedded = await embedding.embedded(policy.embedding, [search_text(each) for each in kept])
    await memories.write(kept, write_options(policy, now, call=call, embeddings=embedded))
