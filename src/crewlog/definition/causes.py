"""One fault for one cause: an agent that a builder names and that is not there is told once.

What the builder makes of it has faults of its own, in conditions, lists and replies that nobody
wrote: they say nothing more, and they name what stands nowhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator

from crewlog.definition.expand import Expanded, texts_in
from crewlog.definition.findings import Finding, Path, listed
from crewlog.definition.model import AgentDefinition, CrewDefinition


def causes(found: Iterable[Finding], written: CrewDefinition) -> Iterator[Finding]:
    """Findings without those that only follow from an agent's name which a builder cannot know.

    Args:
        found: Findings at the places where their causes are written.
        written: The definition as written.
    """
    all_ = list(found)
    unknown = {each.word for each in all_ if _at_an_option(each, written)}
    told: set[Path] = set()
    for each in all_:
        if each.path in told or _of_a_builder(each, written, unknown):
            continue
        if _at_an_option(each, written):
            told.add(each.path)
        yield each


def _at_an_option(finding: Finding, written: CrewDefinition) -> bool:
    """Whether it is about an option of a builder or a pattern that names no agent there is."""
    return "with" in finding.path[2:] and finding.word not in {"", *written.agents}


def _of_a_builder(finding: Finding, written: CrewDefinition, unknown: Collection[str]) -> bool:
    """Whether it is about a name in an agent that a builder put there from its options."""
    name = re.split(r"[.\s]", finding.word)[0]
    if finding.path[:1] != ("agents",) or name not in unknown or len(finding.path) < 3:
        return False
    agent = written.agents.get(str(finding.path[1]))
    return agent is not None and name not in _named(agent)


def _named(agent: AgentDefinition) -> set[str]:
    """The words of what an agent is written to be, but for what it is told."""
    data = {key: value for key, value in agent.to_json().items() if key != "prompt"}
    return set(re.findall(r"\w[\w-]*", json.dumps(data)))


def lists_of_agents(expanded: Expanded) -> str:
    """The options of the builders in a flow that list agents, in words; empty where none does."""
    agents = expanded.definition.agents
    found: dict[str, None] = {}
    for origin in expanded.origins:
        for key, value in origin.options.items() if origin.use[:1] == ("flow",) else ():
            if any(name in agents for path, name in texts_in(value) if len(path) == 1):
                found[f"{key!r}"] = None
    return listed(found, "or")
