"""Definitions by hash, parsed once per worker."""

from __future__ import annotations

from collections import OrderedDict

from crewlog.definition.model import AgentDefinition, CrewDefinition
from crewlog.errors import InternalError
from crewlog.ids import AgentName, ContentHash
from crewlog.store.protocol import Store


class Definitions:
    """A cache of parsed definitions; a definition never changes under its hash."""

    def __init__(self, store: Store, most: int = 256) -> None:
        self._store = store
        self._most = most
        self._parsed: OrderedDict[ContentHash, CrewDefinition] = OrderedDict()

    async def get(self, hash_: ContentHash) -> CrewDefinition:
        """The definition of that hash."""
        found = self._parsed.get(hash_)
        if found is None:
            found = CrewDefinition.from_json(await self._store.get_definition(hash_))
            self.put(hash_, found)
        self._parsed.move_to_end(hash_)
        return found

    def put(self, hash_: ContentHash, definition: CrewDefinition) -> None:
        """Keeps a definition that is at hand."""
        self._parsed[hash_] = definition
        while len(self._parsed) > self._most:
            self._parsed.popitem(last=False)


def agent_of(definition: CrewDefinition, agent: AgentName) -> AgentDefinition:
    """An agent of a crew; the workflow only ever names those that there are."""
    found = definition.agents.get(agent)
    if found is None:
        raise InternalError(f"the crew {definition.crew!r} has no agent {agent!r}")
    return found
