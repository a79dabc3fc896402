"""What a crew's `memory` means, checked: scopes that somebody has, agents that have their logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from crewlog.definition.audiences import Audiences
from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.model import (
    GROUP,
    MEMORY_TOOLS,
    OWN_SCOPE,
    CrewDefinition,
)

_EMBEDDING = re.compile(r"hash:[1-9]\d{0,3}|(?!hash:)[a-z][a-z0-9_-]*:\S+")


def memory_findings(definition: CrewDefinition) -> Iterator[Finding]:
    """Everything that is wrong with a crew's memory."""
    memory = definition.memory
    if memory is None:
        return
    for name in MEMORY_TOOLS:
        if name in definition.tools:
            say = f"a tool cannot be called {name!r}: a crew with a memory has one of that name"
            yield Finding(("tools", name), say, "Choose another name.")
    if memory.embedding is not None and not _EMBEDDING.fullmatch(memory.embedding):
        say = f"the embedding {memory.embedding!r} is neither PROVIDER:NAME nor hash:NUMBER"
        remedy = "For example: embedding: openai:text-embedding-3-small"
        yield Finding(("memory", "embedding"), say, remedy)
    yield from _table(definition, "read", memory.read)
    yield from _table(definition, "write", memory.write)


def _table(
    definition: CrewDefinition,
    way: Literal["read", "write"],
    table: dict[str, tuple[str, ...] | None],
) -> Iterator[Finding]:
    groups = _groups(definition)
    for scope, named in table.items():
        path: Path = ("memory", way, scope)
        if scope.startswith(GROUP) and scope not in groups:
            name = scope.removeprefix(GROUP)
            say = f"memory.{way} names the group {name!r}, which is not defined."
            known = [each.removeprefix(GROUP) for each in groups]
            has = f"The crew's groups: {listed(known)}." if known else "The crew has no groups."
            remedy = did_you_mean(name, known, f"{has} Define it under 'groups:'.")
            yield Finding(path, say, remedy, at="key")
            continue
        if scope.startswith(GROUP) and not any(
            scope in logs_of(definition, agent, way) for agent in definition.agents
        ):
            say = f"memory.{way} names {scope!r}, and no agent {way}s the log {scope!r}"
            remedy = f"Add it to the '{way}s' of the agents that are to have it."
            yield Finding(path, say, remedy, at="key", severity="warning")
        for i, name in enumerate(named or ()):
            if name not in definition.agents:
                say = f"memory.{way} gives {scope!r} to the agent {name!r}, which is not defined."
                remedy = did_you_mean(name, definition.agents, "Agents are under 'agents:'.")
                yield Finding((*path, i), say, remedy)
            elif scope != OWN_SCOPE and scope not in logs_of(definition, name, way):
                say = f"memory.{way} gives {scope!r} to {name!r}, who does not {way} that log"
                remedy = f"Add {scope} to the agent's '{way}s', or leave {name!r} out."
                yield Finding((*path, i), say, remedy)


def _groups(definition: CrewDefinition) -> tuple[str, ...]:
    """The scopes of groups that there are: those defined; where none is, those that agents list."""
    if definition.groups:
        return tuple(f"{GROUP}{name}" for name in definition.groups)
    lists = (log for each in definition.agents.values() for log in (*each.reads, *each.writes))
    return tuple(dict.fromkeys(log for log in lists if log.startswith(GROUP)))


def logs_of(
    definition: CrewDefinition, agent: str, way: Literal["read", "write"]
) -> tuple[str, ...]:
    """The logs that an agent reads, or writes to, besides its own."""
    audiences = Audiences(definition)
    return audiences.reads(agent) if way == "read" else audiences.writes(agent)
