"""Definitions by hash, parsed once per worker."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from crewlog.definition.model import AgentDefinition, CrewDefinition
from crewlog.errors import InternalError
from crewlog.ids import AgentName, ContentHash
from crewlog.model import Json
from crewlog.store.protocol import Store

T = TypeVar("T")


class Recent(Generic[T]):
    """The values that were used last, by hash; never more than `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[ContentHash, T] = OrderedDict()

    def get(self, hash_: ContentHash) -> T | None:
        """The value of that hash, if it is kept."""
        if hash_ in self._kept:
            self._kept.move_to_end(hash_)
        return self._kept.get(hash_)

    def put(self, hash_: ContentHash, value: T) -> T:
        """Keeps a value, and returns it."""
        self._kept[hash_] = value
        self._kept.move_to_end(hash_)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return value


class Definitions:
    """A cache of parsed definitions; a definition never changes under its hash."""

    def __init__(self, store: Store, most: int = 256) -> None:
        self._store = store
        self._parsed: Recent[CrewDefinition] = Recent(most)
        self.checked: Recent[tuple[CrewDefinition, dict[str, Json]]] = Recent(most)
        """Definitions that runs were started with, as they came, checked and lowered."""

    async def get(self, hash_: ContentHash) -> CrewDefinition:
        """The definition of that hash."""
        found = self._parsed.get(hash_)
        if found is None:
            data = await self._store.get_definition(hash_)
            found = self._parsed.put(hash_, CrewDefinition.from_json(data))
        return found

    def put(self, hash_: ContentHash, definition: CrewDefinition) -> None:
        """Keeps a definition that is at hand."""
        self._parsed.put(hash_, definition)


def agent_of(definition: CrewDefinition, agent: AgentName) -> AgentDefinition:
    """An agent of a crew; the workflow only ever names those that there are."""
    found = definition.agents.get(agent)
    if found is None:
        raise InternalError(f"the crew {definition.crew!r} has no agent {agent!r}")
    return found
