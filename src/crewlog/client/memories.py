"""What crews remember, for people and programs: read, written, forgotten.

    found = await client.memory.read("support", "public", "refunds")
    await client.memory.write("support", "public", ["Refunds take 14 days."])
    await client.memory.forget("support", "public", key="refunds")

Who has the store may do all of this: the scopes of a crew bind its agents.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence

from crewlog.client.catalog import Catalog
from crewlog.definition.model import MemoryPolicy
from crewlog.embeddings import Embedders
from crewlog.errors import UsageError
from crewlog.ids import CrewName, RunId, StepId
from crewlog.memory import search_memories, write_memories
from crewlog.store.memories import (
    MOST_RESULTS,
    Author,
    Memory,
    MemoryFilter,
    MemorySearchResult,
    NewMemory,
    ScopeCount,
    build_memories,
    check_query,
)
from crewlog.store.protocol import Store

_SCOPE = re.compile(r"public|(?:agent|group):[A-Za-z][A-Za-z0-9_-]{0,63}")


class CrewMemory:
    """Reads and writes what crews remember.

    A crew's policy (retention, bounds, language, embedding) is that of its newest registered
    version; one that is not registered has the defaults. All of it raises `StoreUnavailable`
    where the store is away.
    """

    def __init__(
        self, store: Callable[[], Awaitable[Store]], catalog: Catalog, user: Callable[[], str]
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._user = user
        self._embedding = Embedders()

    async def read(
        self, crew: str, scope: str | None = None, query: str = "", *, limit: int = 5
    ) -> MemorySearchResult:
        """The best memories of a scope, or of all scopes, that are not over.

        Args:
            crew: The crew's name.
            scope: `agent:A`, `group:G` or `public`; by default all that there are.
            query: What is looked for; empty: the newest.
            limit: How many at most.

        Raises:
            UsageError: there is no such scope, or the query is too long.
            ModelError: the crew's embedding does not answer.
        """
        memories = (await self._store()).memories
        policy, now = await self._policy(crew), _now()
        name = CrewName(crew)
        if not 0 < limit <= MOST_RESULTS:
            raise UsageError(
                f"{limit} memories cannot be shown", remedy=f"Ask for 1 to {MOST_RESULTS}."
            )
        text = check_query(query)
        if scope is None:
            scopes = [each.scope for each in await memories.list_scopes(name)]
        else:
            scopes = [checked_scope(scope)]
        return await search_memories(
            memories, self._embedding, policy, name, scopes, text, limit=limit, now=now
        )

    async def write(
        self,
        crew: str,
        scope: str,
        artifacts: Sequence[NewMemory | str],
        *,
        by: str | None = None,
        call: str = "",
    ) -> list[Memory]:
        """Writes memories into a scope, as a person.

        Args:
            crew: The crew's name.
            scope: `agent:A`, `group:G` or `public`.
            artifacts: What is to be remembered.
            by: Who says so; by default the system's user.
            call: A name for this writing: a second time under it writes nothing.

        Raises:
            UsageError: there is no such scope, or one of them is too long.
            ModelError: the crew's embedding does not answer.
        """
        policy, now = await self._policy(crew), _now()
        given = [NewMemory(text=each) if isinstance(each, str) else each for each in artifacts]
        memories = build_memories(
            CrewName(crew),
            checked_scope(scope),
            given,
            Author(by=self._user() if by is None else by),
            policy,
            now=now,
            key_seed=call or secrets.token_hex(8),
        )
        claim = f"memory of {crew}: {call}" if call else ""
        store = (await self._store()).memories
        await write_memories(store, self._embedding, policy, memories, call=claim, now=now)
        return memories

    async def newest(
        self, crew: str, scope: str | None = None, *, limit: int = 100
    ) -> list[Memory]:
        """The newest memories of a crew, or of one of its scopes."""
        store = await self._store()
        where = None if scope is None else checked_scope(scope)
        return await store.memories.list_newest(CrewName(crew), where, now=_now(), limit=limit)

    async def scopes(self, crew: str | None = None) -> list[ScopeCount]:
        """The scopes that have memories, of a crew or of all."""
        name = None if crew is None else CrewName(crew)
        return await (await self._store()).memories.list_scopes(name)

    async def forget(
        self,
        crew: str,
        scope: str | None = None,
        *,
        key: str | None = None,
        run: str | None = None,
        step: str | None = None,
        older_than: float | None = None,
    ) -> int:
        """Removes memories of a crew for good: those that all of this holds for.

        Args:
            crew: The crew's name.
            scope: Of this scope.
            key: Of this key, in the scope.
            run: That this run wrote.
            step: That this step wrote, in its run.
            older_than: That were written at least so many seconds ago.

        Returns:
            How many there were.

        Raises:
            UsageError: nothing but the crew is said, or a key without a scope.
        """
        if (scope, key, run, step, older_than) == (None,) * 5:
            raise UsageError(
                f"say what of the crew {crew!r} is to be forgotten",
                remedy="Name a scope, a key, a run or an age; `delete` removes everything.",
            )
        before = None if older_than is None else _now() - int(older_than * 1000) + 1
        return await (await self._store()).memories.forget(
            MemoryFilter(
                crew=CrewName(crew),
                scope=None if scope is None else checked_scope(scope),
                key=key,
                run=None if run is None else RunId(run),
                step=None if step is None else StepId(step),
                before=before,
            )
        )

    async def delete(self, crew: str) -> int:
        """Removes everything that a crew remembers, for good; how many memories there were."""
        return await (await self._store()).memories.forget(MemoryFilter(crew=CrewName(crew)))

    async def _policy(self, crew: str) -> MemoryPolicy:
        row = await (await self._store()).get_crew(CrewName(crew))
        if row is None:
            return MemoryPolicy()
        return (await self._catalog.crew(crew)).definition.memory or MemoryPolicy()


def checked_scope(scope: str) -> str:
    """A scope as it was said.

    Raises:
        UsageError: there is no such scope.
    """
    if not _SCOPE.fullmatch(scope):
        raise UsageError(
            f"there is no memory scope {scope!r}",
            remedy="A scope is public, agent:NAME or group:NAME.",
        )
    return scope


def _now() -> int:
    return int(time.time() * 1000)
