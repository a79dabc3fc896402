"""What a crew's artifacts and scratch notes mean, checked: who sees them, how they begin."""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.canonical_json import DEEPEST, canonical, check_depth
from crewlog.definition.artifacts import (
    LARGEST_INITIAL,
    SCRATCH_TOOLS,
    ArtifactDefinition,
    notes_of,
)
from crewlog.definition.audiences import Audiences
from crewlog.definition.findings import Finding, Path, did_you_mean
from crewlog.definition.json_schemas import schema_faults, unusable
from crewlog.definition.model import CrewDefinition
from crewlog.definition.parent_checks import ancestors
from crewlog.ids import GROUP
from crewlog.model import Json


def artifact_findings(definition: CrewDefinition) -> Iterator[Finding]:
    """Everything that is wrong with a crew's artifacts and scratch notes."""
    for name, artifact in definition.artifacts.items():
        path: Path = ("artifacts", name)
        yield from _shape(name, artifact, path)
        yield from _schema(name, artifact, path)
        for key, named in (("readers", artifact.readers), ("writers", artifact.writers)):
            for i, each in enumerate(named or ()):
                yield from _named(definition, name, each, (*path, key, i))
        yield from _parents(definition, name, path)
    for name, agent in definition.agents.items():
        path = ("agents", name, "scratch", "readers")
        for i, each in enumerate(agent.scratch.readers if agent.scratch is not None else ()):
            yield from _named(definition, notes_of(name), each, (*path, i))
        yield from _notes(definition, name)
    yield from _scratch(definition)


def schema_kept(artifact: ArtifactDefinition, value: Json) -> tuple[bool | None, list[str]]:
    """Whether a content keeps its artifact's schema, and how it does not.

    None where the artifact has no schema, or where looking takes too long.
    """
    if artifact.schema_ is None:
        return None, []
    faults = schema_faults(artifact.schema_, value, called="its schema")
    return (None if faults == [UNKNOWN] else not faults), faults


UNKNOWN = "all: to hold them against its schema takes too long"
"""The fault of what is too large to be looked at."""


def _shape(name: str, artifact: ArtifactDefinition, path: Path) -> Iterator[Finding]:
    try:
        check_depth(artifact.initial)
        size = len(canonical(artifact.initial))
    except (TypeError, ValueError, RecursionError):
        say = f"the artifact {name!r} begins as what no run can keep"
        remedy = f"Let 'initial' be JSON that is at most {DEEPEST} levels deep."
        yield Finding((*path, "initial"), say, remedy)
        return
    if size > LARGEST_INITIAL:
        say = f"the artifact {name!r} begins with {size:,} bytes; there may be {LARGEST_INITIAL:,}"
        yield Finding((*path, "initial"), say, "Let a first step build it by operations.")


def _schema(name: str, artifact: ArtifactDefinition, path: Path) -> Iterator[Finding]:
    if artifact.schema_ is not None and (fault := unusable(artifact.schema_)):
        say = f"the schema of the artifact {name!r} is none: {fault}"
        yield Finding((*path, "schema"), say, "Write a JSON Schema, e.g. {type: object}.")


def _named(definition: CrewDefinition, name: str, who: str, path: Path) -> Iterator[Finding]:
    """An agent or a group that an artifact names."""
    if who.startswith(GROUP):
        if (group := who.removeprefix(GROUP)) not in definition.groups:
            say = f"the artifact {name!r} names the group {group!r}, which is not defined."
            remedy = did_you_mean(group, definition.groups, "Groups are under 'groups:'.")
            yield Finding(path, say, remedy)
    elif who not in definition.agents:
        say = f"the artifact {name!r} names the agent {who!r}, which is not defined."
        yield Finding(
            path, say, did_you_mean(who, definition.agents, "Agents are under 'agents:'.")
        )


def _parents(definition: CrewDefinition, name: str, path: Path) -> Iterator[Finding]:
    """Agents that see or change more than the one that they work for."""
    audiences, said = Audiences(definition), definition.artifacts[name]
    ways = (
        ("readers", "see", said.readers, audiences.artifact_readers(name)),
        ("writers", "change", said.writers, audiences.artifact_writers(name)),
    )
    for key, does, named, who in ways:
        if named is None:
            continue
        for agent in who:
            for parent in ancestors(definition, agent) if agent in definition.agents else ():
                if parent not in who:
                    say = f"{agent!r} may {does} the artifact {name!r}, and {parent!r} may not,"
                    remedy = f"Name {parent!r} there too, or leave {agent!r} out."
                    yield Finding((*path, key), f"{say} for whom it works", remedy)
                    break


def _notes(definition: CrewDefinition, name: str) -> Iterator[Finding]:
    """Agents that see another one's notes, and work for one that does not."""
    scratch = definition.agents[name].scratch
    seen = (
        {name, *Audiences(definition).members(scratch.readers)} if scratch is not None else {name}
    )
    for agent in sorted(seen - {name}):
        for parent in ancestors(definition, agent) if agent in definition.agents else ():
            if parent not in seen:
                say = f"{agent!r} may see the notes of {name!r}, and {parent!r} may not, for whom"
                remedy = f"Name {parent!r} there too, or leave {agent!r} out."
                path: Path = ("agents", name, "scratch", "readers")
                yield Finding(path, f"{say} it works", remedy)
                break


def _scratch(definition: CrewDefinition) -> Iterator[Finding]:
    if all(agent.scratch is None for agent in definition.agents.values()):
        return
    for name in SCRATCH_TOOLS:
        if name in definition.tools:
            say = f"a tool cannot be called {name!r}: a crew with scratch notes has one"
            yield Finding(("tools", name), f"{say} of that name", "Choose another name.")
