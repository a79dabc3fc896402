"""Definitions by hash, parsed and written out once per worker: builders and patterns in place.

Registries by name: what the prompts of a crew may use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from crewlog.activities.caches import LruCache
from crewlog.definition.audiences import PRIVATE, Audiences
from crewlog.definition.expand import expand
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import AgentDefinition, AgentPhase, CrewDefinition
from crewlog.definition.phases import phases
from crewlog.definition.reading import Form
from crewlog.definition.reply_checks import form_findings
from crewlog.errors import Diagnostic, InternalError, InvalidDefinition
from crewlog.graph.awareness import AwarenessBlocks
from crewlog.ids import AgentName, ContentHash, LogName, StepId, artifact_log, node_of
from crewlog.model import Json
from crewlog.prompt.registry import Registry
from crewlog.prompt.registry_file import load_registry_data
from crewlog.store.protocol import Store


class Sees(NamedTuple):
    """What an agent may read of a run, and what not."""

    reads: tuple[LogName, ...]
    """The logs that it reads besides its own."""
    barred: tuple[LogName, ...]
    """The crew's other logs."""
    artifacts: Mapping[str, Json]
    """The artifacts that it sees, each with what it is before anybody changes it."""


class Definitions:
    """A cache of definitions; a definition never changes under its hash."""

    def __init__(self, store: Store, most: int = 256) -> None:
        self._store = store
        self._written_out: LruCache[ContentHash, CrewDefinition] = LruCache(most)
        self._tasks: LruCache[ContentHash, Mapping[str, str]] = LruCache(most)
        self._sees: LruCache[tuple[ContentHash, AgentName], Sees] = LruCache(most)
        self._graphs: LruCache[ContentHash, AwarenessBlocks] = LruCache(most)
        self._forms: LruCache[tuple[ContentHash, AgentName], Form] = LruCache(most)
        self.checked: LruCache[ContentHash, tuple[CrewDefinition, dict[str, Json]]] = LruCache(most)
        """Definitions that runs were started with, as they came, checked and lowered."""
        self.ran: LruCache[ContentHash, tuple[CrewDefinition, dict[str, Json]]] = LruCache(most)
        """The same of runs that there were, which may have what no new one may."""

    async def get(self, hash_: ContentHash) -> CrewDefinition:
        """The definition of that hash, without builders and patterns.

        What they stand for is in it: their phases, and the outputs and flags that these need.
        """
        found = self._written_out.get(hash_)
        if found is None:
            data = await self._store.get_definition(hash_)
            found = self.put(hash_, CrewDefinition.from_json(data))
        return found

    def put(self, hash_: ContentHash, definition: CrewDefinition) -> CrewDefinition:
        """Keeps a definition that is at hand, as it was written; returns it written out.

        Raises:
            InvalidDefinition: where this worker lacks a builder.
        """
        expanded = expand(definition)
        if expanded.faults:  # a builder that this worker lacks, and others have
            raise InvalidDefinition([fault.diagnostic() for fault in expanded.faults])
        return self._written_out.put(hash_, expanded.definition)

    async def sees(self, hash_: ContentHash, agent: AgentName) -> Sees:
        """What an agent may read, by the definition of that hash."""
        found = self._sees.get((hash_, agent))
        if found is None:
            found = self._sees.put((hash_, agent), _sees(await self.get(hash_), agent))
        return found

    async def awareness(self, hash_: ContentHash, agent: AgentName) -> str:
        """What an agent is told of its graph, by the definition of that hash; empty: no graph."""
        found = self._graphs.get(hash_)
        if found is None:
            found = self._graphs.put(hash_, AwarenessBlocks(await self.get(hash_)))
        return found.block(agent)

    async def form(self, hash_: ContentHash, agent: AgentName) -> Form | None:
        """The form of an agent's replies, by the definition of that hash; none where it has none.

        Raises:
            InvalidDefinition: where this worker lacks the decision.
        """
        crew = await self.get(hash_)
        if agent_of(crew, agent).reply is None:
            return None
        found = self._forms.get((hash_, agent))
        if found is None:
            found = Form.of(crew, agent)
            if missing := [each.diagnostic() for each in form_findings(agent, found.reply)]:
                raise InvalidDefinition(missing)
            self._forms.put((hash_, agent), found)
        return found

    async def task(self, hash_: ContentHash, step: StepId) -> str | None:
        """What the agent is to do in a step, by its phase in the definition of that hash."""
        found = self._tasks.get(hash_)
        if found is None:
            found = self._tasks.put(hash_, _tasks(await self.get(hash_)))
        return found.get(node_of(step))


def _tasks(definition: CrewDefinition) -> Mapping[str, str]:
    return {
        phase.name: phase.item.task
        for phase in phases(definition)
        if isinstance(phase.item, AgentPhase) and phase.item.task
    }


def _sees(definition: CrewDefinition, agent: AgentName) -> Sees:
    agent_of(definition, agent)
    audiences = Audiences(definition)
    every = [*audiences.logs(), *(f"{PRIVATE}{name}" for name in definition.agents)]
    artifacts = definition.every_artifact
    seen = [name for name in artifacts if agent in audiences.artifact_readers(name)]
    hidden = [artifact_log(name) for name in artifacts if name not in seen]
    return Sees(
        tuple(LogName(log) for log in audiences.reads(agent)),
        (*(LogName(log) for log in every if audiences.no_reader(agent, log)), *hidden),
        {name: artifacts[name].initial for name in seen},
    )


def agent_of(definition: CrewDefinition, agent: AgentName) -> AgentDefinition:
    """An agent of a crew; the workflow only ever names those that there are."""
    found = definition.agents.get(agent)
    if found is None:
        raise InternalError(f"the crew {definition.crew!r} has no agent {agent!r}")
    return found


async def registry_of(store: Store, name: str, model: str) -> Registry:
    """The registry of that name, in its newest version.

    Args:
        store: Where registries are.
        name: Its name; empty: a registry of nothing.
        model: The model of crews, in the place of the registry's; empty: the registry's.

    Raises:
        InvalidDefinition: where none is registered under the name.
        StoreUnavailable: the store is away.
    """
    found = Registry() if not name else await _registered(store, name)
    return found.with_model(model)


async def _registered(store: Store, name: str) -> Registry:
    row = await store.get_catalog_entry("registry", name)
    if row is None:
        known = [each.name for each in await store.list_catalog_entries("registry")]
        how = did_you_mean(name, known, "Register it: `crewlog crews add FILE`.")
        fault = Diagnostic(f"no registry is registered as {name!r}", path=("registry",), remedy=how)
        raise InvalidDefinition([fault])
    return load_registry_data(await store.get_definition(row.content))
