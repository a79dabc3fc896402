"""The cache of definitions by hash, each parsed and expanded once; registries by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cachetools import LRUCache

from crewlog.definition.audiences import Audiences
from crewlog.definition.expand import expand
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import AgentDefinition, AgentPhase, CrewDefinition
from crewlog.definition.phases import phases
from crewlog.definition.reading import Form
from crewlog.definition.reply_checks import form_findings
from crewlog.errors import Diagnostic, InternalError, InvalidDefinition
from crewlog.graph.awareness import AwarenessBlocks
from crewlog.ids import PRIVATE, AgentName, ContentHash, LogName, StepId, artifact_log, node_of
from crewlog.model import Json
from crewlog.prompt.registry import Registry
from crewlog.prompt.registry_file import load_registry_data
from crewlog.store.protocol import Store


class AgentAccess(NamedTuple):
    """The logs and artifacts that an agent may read."""

    reads: tuple[LogName, ...]
    """The logs that it reads, besides its own."""
    unreadable_logs: tuple[LogName, ...]
    """The logs of the crew that it does not read."""
    artifacts: Mapping[str, Json]
    """The artifacts that it sees, each with its initial value."""


class LoweredDefinition(NamedTuple):
    """A definition and its plan."""

    definition: CrewDefinition
    data: dict[str, Json]
    """The definition as JSON."""
    hash: ContentHash
    """The hash of the data."""
    plan: dict[str, Json]
    is_new: bool
    """Whether it passed the checks that only new definitions need."""


class Definitions:
    """A cache of definitions; the definition of a hash never changes."""

    def __init__(self, store: Store, most: int = 256) -> None:
        self._store = store
        self._expanded: LRUCache[ContentHash, CrewDefinition] = LRUCache(most)
        self._tasks: LRUCache[ContentHash, Mapping[str, str]] = LRUCache(most)
        self._access: LRUCache[tuple[ContentHash, AgentName], AgentAccess] = LRUCache(most)
        self._awareness: LRUCache[ContentHash, AwarenessBlocks] = LRUCache(most)
        self._outputs: LRUCache[tuple[ContentHash, AgentName], Form] = LRUCache(most)
        self.lowered: LRUCache[ContentHash, LoweredDefinition] = LRUCache(most)
        """Definitions by their data, validated and lowered."""

    async def get(self, hash_: ContentHash) -> CrewDefinition:
        """Returns the definition of a hash, with builders and patterns expanded."""
        definition = self._expanded.get(hash_)
        if definition is None:
            data = await self._store.get_definition(hash_)
            definition = self.put(hash_, CrewDefinition.from_json(data))
        return definition

    def put(self, hash_: ContentHash, definition: CrewDefinition) -> CrewDefinition:
        """Caches a definition as it was written; returns it expanded.

        Raises:
            InvalidDefinition: this worker lacks a builder.
        """
        if (known := self._expanded.get(hash_)) is not None:
            return known
        expanded = expand(definition)
        if expanded.faults:  # this worker lacks a builder that others have
            raise InvalidDefinition([fault.diagnostic() for fault in expanded.faults])
        return self._expanded.setdefault(hash_, expanded.definition)

    async def find_access(self, hash_: ContentHash, agent: AgentName) -> AgentAccess:
        """Returns what an agent may read, by the definition of a hash."""
        key = (hash_, agent)
        if key not in self._access:
            self._access[key] = _find_access(await self.get(hash_), agent)
        return self._access[key]

    async def awareness(self, hash_: ContentHash, agent: AgentName) -> str:
        """Returns the awareness block of an agent; empty: it has no channels."""
        blocks = self._awareness.get(hash_)
        if blocks is None:
            blocks = self._awareness.setdefault(hash_, AwarenessBlocks(await self.get(hash_)))
        return blocks.block(agent)

    async def form(self, hash_: ContentHash, agent: AgentName) -> Form | None:
        """Returns the structured output of an agent; None: it has none.

        Raises:
            InvalidDefinition: this worker lacks the decision.
        """
        crew = await self.get(hash_)
        if agent_of(crew, agent).reply is None:
            return None
        form = self._outputs.get((hash_, agent))
        if form is None:
            form = Form.of(crew, agent)
            if missing := [each.diagnostic() for each in form_findings(agent, form.reply)]:
                raise InvalidDefinition(missing)
            self._outputs[hash_, agent] = form
        return form

    async def task(self, hash_: ContentHash, step: StepId) -> str | None:
        """Returns the instruction for the agent in a step, by its phase."""
        tasks = self._tasks.get(hash_)
        if tasks is None:
            tasks = self._tasks.setdefault(hash_, _tasks(await self.get(hash_)))
        return tasks.get(node_of(step))


def _tasks(definition: CrewDefinition) -> Mapping[str, str]:
    return {
        phase.name: phase.item.task
        for phase in phases(definition)
        if isinstance(phase.item, AgentPhase) and phase.item.task
    }


def _find_access(definition: CrewDefinition, agent: AgentName) -> AgentAccess:
    agent_of(definition, agent)
    audiences = Audiences(definition)
    every = [*audiences.logs(), *(f"{PRIVATE}{name}" for name in definition.agents)]
    artifacts = definition.every_artifact
    seen = [name for name in artifacts if agent in audiences.artifact_readers(name)]
    hidden = [artifact_log(name) for name in artifacts if name not in seen]
    return AgentAccess(
        tuple(LogName(log) for log in audiences.reads(agent)),
        (*(LogName(log) for log in every if audiences.no_reader(agent, log)), *hidden),
        {name: artifacts[name].initial for name in seen},
    )


def agent_of(definition: CrewDefinition, agent: AgentName) -> AgentDefinition:
    """Returns an agent of a crew; the workflow names existing agents only."""
    found = definition.agents.get(agent)
    if found is None:
        raise InternalError(f"the crew {definition.crew!r} has no agent {agent!r}")
    return found


async def registry_of(store: Store, name: str, model: str) -> Registry:
    """Returns the newest version of a registry.

    Args:
        store: The store with the catalog.
        name: Its name; empty: an empty registry.
        model: The model of crews, instead of that of the registry; empty: that of the registry.

    Raises:
        InvalidDefinition: the catalog has no registry of that name.
        StoreUnavailable: the store does not answer.
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
