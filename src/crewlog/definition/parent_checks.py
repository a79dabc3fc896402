"""Who works for whom, checked: an agent has no more than the one that it works for.

Its calls are bounded where they are checked, whatever its definition says; what it reads, writes,
remembers and decides is bounded here, so that what stands in the definition is what holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from crewlog.definition.audiences import Audiences
from crewlog.definition.conditions import facts_in
from crewlog.definition.creatures import creatures_of
from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.model import OWN_SCOPE, CrewDefinition
from crewlog.ids import READERS


def ancestors(definition: CrewDefinition, name: str) -> tuple[str, ...]:
    """The agents that one works for, the nearest first; each once, and itself in a ring."""
    found: list[str] = []
    at = definition.agents[name].parent
    while at is not None and at in definition.agents and at not in found:
        found.append(at)
        at = definition.agents[at].parent
    return tuple(found)


def parent_findings(definition: CrewDefinition) -> Iterator[Finding]:
    """Parents that are none, and agents that have more than theirs.

    Who is in another run is looked at there: what stands here of it may be long out of date.
    """
    audiences = Audiences(definition)
    for name in creatures_of(definition):
        agent = definition.agents[name]
        if agent.parent is None:
            continue
        path: Path = ("agents", name, "parent")
        if agent.parent not in definition.agents:
            say = f"agent {name!r} works for {agent.parent!r}, which is not defined."
            remedy = did_you_mean(agent.parent, definition.agents, "Agents are under 'agents:'.")
            yield Finding(path, say, remedy)
        elif name in ancestors(definition, name):
            say = f"agent {name!r} works for itself, in the end"
            yield Finding(path, say, "Leave out 'parent' of one of them.")
        else:
            yield from _logs(audiences, name, agent.parent, path)
            yield from _channels(definition, name, agent.parent)
            yield from _scopes(definition, name, agent.parent)
            yield from _flags(definition, name, agent.parent)


def _logs(audiences: Audiences, name: str, parent: str, path: Path) -> Iterator[Finding]:
    """Logs beyond the parent's; what is addressed to an agent by name is its own affair."""
    ways = (("read", audiences.listed), ("write", audiences.writes))
    for way, logs in ways:
        more = [x for x in logs(name) if x not in logs(parent) and not x.startswith(READERS)]
        if more:
            which = listed([repr(log) for log in more])
            say = f"agent {name!r} {way}s {which}, which {parent!r}, whom it works for, does not"
            yield Finding(path, say, f"Take it from {name!r}, or let {parent!r} {way} it too.")
    theirs = (*audiences.writes(parent), *audiences.shares(parent))
    shared = [x for x in audiences.shares(name) if x not in theirs and not x.startswith(READERS)]
    if shared and shared != [x for x in audiences.writes(name) if x in shared]:
        which = listed([repr(log) for log in shared])
        say = f"agent {name!r} shares its outputs with {which}, which {parent!r}, whom it works for"
        remedy = f"Take it from its 'shares', or let {parent!r} write to it or share with it."
        yield Finding(path, f"{say}, does not", remedy)


def _channels(definition: CrewDefinition, name: str, parent: str) -> Iterator[Finding]:
    """Channels beyond the parent's: what the one hears, the other may say there."""
    own, above = definition.agents[name], definition.agents[parent]
    theirs = {*above.listen, *above.send}
    for key, channels in (("listen", own.listen), ("send", own.send)):
        for i, channel in enumerate(channels):
            if channel not in theirs:
                does = "listens" if key == "listen" else "sends"
                say = f"agent {name!r} {does} to {channel!r}, where {parent!r}, whom it works for"
                remedy = f"Let {parent!r} listen or send there too, or take it out."
                yield Finding(("agents", name, key, i), f"{say}, neither listens nor sends", remedy)


def _scopes(definition: CrewDefinition, name: str, parent: str) -> Iterator[Finding]:
    if definition.memory is None:
        return
    tables: tuple[tuple[Literal["read", "write"], dict[str, tuple[str, ...] | None]], ...] = (
        ("read", definition.memory.read),
        ("write", definition.memory.write),
    )
    for way, table in tables:
        for scope, named in table.items():
            if scope == OWN_SCOPE or named is None or name not in named or parent in named:
                continue
            path: Path = ("memory", way, scope, named.index(name))
            say = f"memory.{way} gives {scope!r} to {name!r}, and not to {parent!r}, for whom"
            remedy = f"Name {parent!r} there too, or leave {name!r} out."
            yield Finding(path, f"{say} it works", remedy)


def _flags(definition: CrewDefinition, name: str, parent: str) -> Iterator[Finding]:
    """Flags that lift or set a rule: who sets one decides what may be called."""
    theirs = definition.agents[parent].writes_flags
    for i, flag in enumerate(definition.agents[name].writes_flags):
        place = next(
            (
                n
                for n, rule in enumerate(definition.rules)
                if rule.if_ is not None
                and any(f.agent is None and f.name == flag for f in facts_in(rule.if_))
            ),
            None,
        )
        if place is not None and flag not in theirs:
            path: Path = ("agents", name, "writes_flags", i)
            say = f"agent {name!r} sets {flag!r}, which rules[{place}] looks at, and {parent!r},"
            remedy = f"Let {parent!r} set it too, or the rule look at something else."
            yield Finding(path, f"{say} whom it works for, may not", remedy)
