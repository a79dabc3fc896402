"""Definitions by hash, parsed once per worker."""

from __future__ import annotations

from crewlog.activities.recent import Recent
from crewlog.definition.expand import expand
from crewlog.definition.model import AgentDefinition, CrewDefinition
from crewlog.errors import InternalError, InvalidDefinition
from crewlog.ids import AgentName, ContentHash
from crewlog.model import Json
from crewlog.store.protocol import Store


class Definitions:
    """A cache of parsed definitions; a definition never changes under its hash.

    They are kept as agents take part in them, with what builders add to agents' outputs and flags.
    """

    def __init__(self, store: Store, most: int = 256) -> None:
        self._store = store
        self._parsed: Recent[ContentHash, CrewDefinition] = Recent(most)
        self.checked: Recent[ContentHash, tuple[CrewDefinition, dict[str, Json]]] = Recent(most)
        """Definitions that runs were started with, as they came, checked and lowered."""

    async def get(self, hash_: ContentHash) -> CrewDefinition:
        """The definition of that hash.

        Raises:
            InvalidDefinition: where this worker lacks a builder that the crew uses.
        """
        found = self._parsed.get(hash_)
        if found is None:
            data = await self._store.get_definition(hash_)
            found = self._parsed.put(hash_, _expanded(CrewDefinition.from_json(data)))
        return found

    def put(self, hash_: ContentHash, definition: CrewDefinition) -> None:
        """Keeps a definition that is at hand."""
        self._parsed.put(hash_, _expanded(definition))


def _expanded(definition: CrewDefinition) -> CrewDefinition:
    expanded = expand(definition)
    if expanded.faults:
        raise InvalidDefinition([fault.diagnostic() for fault in expanded.faults])
    return expanded.definition


def agent_of(definition: CrewDefinition, agent: AgentName) -> AgentDefinition:
    """An agent of a crew; the workflow only ever names those that there are."""
    found = definition.agents.get(agent)
    if found is None:
        raise InternalError(f"the crew {definition.crew!r} has no agent {agent!r}")
    return found
