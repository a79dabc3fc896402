"""What is wrong with phases that have a step for each item of a list: who takes it, and when."""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.definition.findings import Finding, Path
from crewlog.definition.model import AgentPhase, CrewDefinition
from crewlog.definition.phases import Phase

CONFLICTS = "conflicts"
"""The flag that counts the values which did not fit what others had set."""


def pool_findings(phase: Phase, item: AgentPhase) -> Iterator[Finding]:
    """What is wrong with the pool of a phase, or with one that has none."""
    keys = {"at_once": item.at_once is not None, "by": item.by is not None, "among": item.among}
    if item.for_each is None:
        for key in (key for key, said in keys.items() if said):
            say = f"{key!r} is about the items of a list, and {phase.name!r} has no 'for_each'"
            yield Finding((*phase.path, key), say, "Add for_each: AGENT.OUTPUT, or remove it.")
        return
    if item.by is None:
        if item.among:
            say = f"'among' says which agents items may name, and {phase.name!r} has no 'by'"
            remedy = "Say at which key of an item its agent stands, e.g. by: agent"
            yield Finding((*phase.path, "among"), say, remedy, at="key")
        elif not item.agent:
            say = f"{phase.name!r} has no agent"
            remedy = (
                "Add agent: NAME; or by: KEY and among: [NAMES], where each item names its own."
            )
            yield Finding((*phase.path, "for_each"), say, remedy, at="key")
        return
    if not item.among:
        say = f"items of {phase.name!r} name their agents at {item.by!r}, and none may be named"
        yield Finding((*phase.path, "by"), say, "Add among: [NAMES].", at="key")
    if item.phase is None and not item.agent:
        say = "a phase whose items name their agents has no name of its own"
        yield Finding((*phase.path, "by"), say, "Add phase: NAME.", at="key")


def pattern_findings(item: AgentPhase, crew: CrewDefinition, path: Path) -> Iterator[Finding]:
    """Agents that items may name, and that work by a pattern."""
    for name in item.agents:
        agent = crew.agents.get(name)
        if agent is not None and agent.pattern is not None:
            say = f"{name!r} works by a pattern, and the step of an item that names it is one turn"
            remedy = "Leave the pattern out, or give the agent a phase of its own."
            yield Finding((*path, "by"), say, remedy, at="key")


def counter_findings(crew: CrewDefinition) -> Iterator[Finding]:
    """A flag of the crew's own that has the name of the one that counts conflicts."""
    for name in counted_conflicts(crew):
        say = f"the flag {name!r} counts values that did not fit; the crew has one of its own"
        if name in crew.flags:
            yield Finding(("flags", name), say, "Choose another name.", at="key")
        for who, agent in crew.agents.items():
            if name in agent.writes_flags:
                at = ("agents", who, "writes_flags", agent.writes_flags.index(name))
                yield Finding(at, say, "Choose another name.")


def counted_conflicts(crew: CrewDefinition) -> Iterator[str]:
    """The flag that counts conflicts, where values may not fit."""
    if any(how not in ("last", "append") for how in crew.merge.values()):
        yield CONFLICTS
