"""What rules over tool calls say, checked: names that exist, and no contradictions."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator, Sequence

from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.model import EVERY_TOOL, GROUP, CrewDefinition, Rule


def members(definition: CrewDefinition, named: Sequence[str] | None) -> tuple[str, ...] | None:
    """The agents that some names stand for, groups put in their places; null: every agent."""
    if named is None:
        return None
    found: list[str] = []
    for name in named:
        group = (
            definition.groups.get(name.removeprefix(GROUP), ()) if name.startswith(GROUP) else None
        )
        found += [name] if group is None else group
    return tuple(dict.fromkeys(found))


def refusing(definition: CrewDefinition, agent: str, tool: str) -> int | None:
    """The rule by which an agent never calls a tool, whatever holds, by its place from 0."""
    for i, rule in enumerate(definition.rules):
        if rule.do == "never" and rule.if_ is None and _names(rule, tool):
            named = members(definition, rule.agents)
            if named is None or agent in named:
                return i
    return None


def rule_findings(definition: CrewDefinition) -> Iterator[Finding]:
    """What is wrong with the rules, and with the time zone that their quotas count by."""
    for i, rule in enumerate(definition.rules):
        yield from _tools(definition, rule, i)
        for n, name in enumerate(rule.agents or ()):
            yield from _agent(definition, name, ("rules", i, "agents", n), f"rules[{i}]")
        if rule.agents == ():
            say = f"rules[{i}] holds for no agent"
            remedy = "Name agents, or leave 'agents' out: it then holds for all."
            yield Finding(("rules", i, "agents"), say, remedy)
        if rule.quota is not None and rule.do == "never":
            say = f"rules[{i}] counts calls that it says are never made"
            yield Finding(("rules", i, "quota"), say, "Leave out 'quota', or 'do: never'.")
    yield from _contradictions(definition)
    yield from _zone(definition.timezone)


def _tools(definition: CrewDefinition, rule: Rule, place: int) -> Iterator[Finding]:
    path: Path = ("rules", place, "tool")
    alone = isinstance(rule.tool, str)
    if not rule.tools:
        say = f"rules[{place}] names no tool"
        yield Finding(path, say, 'Name tools, or "*" for all of them.')
    for i, tool in enumerate(rule.tools):
        if tool in definition.callable_tools or (alone and tool == EVERY_TOOL):
            continue
        here = path if alone else (*path, i)
        if tool == EVERY_TOOL:
            yield Finding(here, '"*" stands alone: it is every tool', 'Write tool: "*".')
            continue
        say = f"rules[{place}] names the tool {tool!r}, which is not defined."
        where = "Tools are defined under 'tools:'."
        yield Finding(here, say, f"{did_you_mean(tool, definition.tools)} {where}".strip())


def _agent(definition: CrewDefinition, name: str, path: Path, of: str) -> Iterator[Finding]:
    if name.startswith(GROUP):
        group = name.removeprefix(GROUP)
        if group not in definition.groups:
            say = f"{of} names the group {group!r}, which is not defined."
            known = [GROUP + each for each in definition.groups]
            remedy = did_you_mean(name, known, "Groups are under 'groups:'.")
            yield Finding(path, say, remedy)
    elif name not in definition.agents:
        say = f"{of} names the agent {name!r}, which is not defined."
        remedy = did_you_mean(name, definition.agents, "Agents are under 'agents:'.")
        if name in definition.groups:
            remedy = f"Did you mean {GROUP + name!r}?"
        yield Finding(path, say, remedy)


def _contradictions(definition: CrewDefinition) -> Iterator[Finding]:
    """Calls that one line makes always, and another one never, or only with a yes: both lines."""
    rules = [(i, r) for i, r in enumerate(definition.rules) if not r.limits]
    for i, always in rules:
        if always.do != "always":
            continue
        for n, other in rules:
            both = other.do != "always" and other.if_ == always.if_
            cells = _both(definition, always, other) if both else ""
            if cells:
                say = f"rules[{i}] says always and rules[{n}] says {other.do}: {cells}"
                remedy = "Take one back, or say by 'if' or 'agents' when each of them holds."
                yield Finding(("rules", max(i, n)), say, remedy, other=("rules", min(i, n)))
        if always.if_ is not None:
            continue
        for tool, named in definition.approvals.items():
            asks = Rule(tool=tool, agents=named, do="ask")
            cells = _both(definition, always, asks) if named != () else ""
            if cells:
                say = f"rules[{i}] says always, and approvals say that people are asked: {cells}"
                remedy = "Take one of the two back."
                yield Finding(("rules", i), say, remedy, other=("approvals", tool))
        yield from _not_permitted(definition, i, always)


def _both(definition: CrewDefinition, one: Rule, other: Rule) -> str:
    """The calls that two rules are about, in a few words; empty where there are none."""
    tools = [t for t in definition.callable_tools if _names(one, t) and _names(other, t)]
    mine, theirs = members(definition, one.agents), members(definition, other.agents)
    agents = [
        a
        for a in definition.agents
        if (mine is None or a in mine) and (theirs is None or a in theirs)
    ]
    if not tools or not agents:
        return ""
    every = mine is None and theirs is None
    return f"{listed(tools)} by {'every agent' if every else listed(agents)}"


def _names(rule: Rule, tool: str) -> bool:
    return rule.tool == EVERY_TOOL or tool in rule.tools


def _not_permitted(definition: CrewDefinition, i: int, always: Rule) -> Iterator[Finding]:
    """Agents whose calls a rule makes always, and whom permissions do not name.

    A rule that names no agents is about those who may call: it is for nobody where none may.
    """
    named = members(definition, always.agents)
    for tool, allowed in definition.permissions.items():
        if allowed is None or not _names(always, tool):
            continue
        have = [a for a, b in definition.agents.items() if b.tools is None or tool in b.tools]
        about = have if named is None else [a for a in named if a in definition.agents]
        out = [agent for agent in about if agent not in allowed]
        if out and (named is not None or out == have):
            say = f"rules[{i}] says always, and permissions do not let {listed(out)} call {tool}"
            remedy = "Take one of the two back."
            yield Finding(("rules", i), say, remedy, other=("permissions", tool))


def _zone(name: str) -> Iterator[Finding]:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = sorted(zoneinfo.available_timezones())
        remedy = did_you_mean(name, known, "It is a name like UTC or Europe/Berlin.")
        yield Finding(("timezone",), f"there is no time zone {name!r}", remedy)
