"""What is there and has no use: tools no one may call, flags no one sets, settled conditions.

All are warnings: the crew runs, perhaps not as its author thinks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from crewlog.definition.agent_outputs import keeping_errors, outputs_of
from crewlog.definition.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Fact,
    Not,
    facts_in,
    holds,
    is_never,
)
from crewlog.definition.findings import Finding, Path, listed
from crewlog.definition.model import (
    AgentPhase,
    AskPhase,
    CrewDefinition,
    DecisionPhase,
    RoutePhase,
    WaitPhase,
)
from crewlog.definition.parent_checks import ancestors
from crewlog.definition.phases import Phase
from crewlog.definition.pool_checks import counted_conflicts
from crewlog.definition.rule_checks import refusing


def unused_findings(definition: CrewDefinition, found: list[Phase]) -> Iterator[Finding]:
    """Everything of a definition that has no use."""
    yield from _tools(definition)
    yield from _in_vain(definition)
    yield from _approvals(definition)
    facts = _Facts.of(definition, found)
    yield from _flags(definition, facts)
    for phase in found:
        for key, condition in conditions_of(phase).items():
            yield from _settled(phase, key, condition, facts)


def conditions_of(phase: Phase) -> dict[str, Condition]:
    """The conditions of a phase, by their keys."""
    item = phase.item
    found: dict[str, Condition | None] = {}
    if isinstance(item, AgentPhase):
        found = {"when": item.when, "only_if": item.only_if}
    elif isinstance(item, AskPhase | WaitPhase):
        found = {"only_if": item.only_if}
    elif isinstance(item, DecisionPhase):
        found = {"if": item.if_}
    elif isinstance(item, RoutePhase):
        found = {"route": named_by(item.route), "only_if": item.only_if}
    return {key: condition for key, condition in found.items() if condition is not None}


def named_by(output: str) -> Fact:
    """What a route reads, as a condition reads it."""
    agent, _, name = output.partition(".")
    return Fact(agent=agent, name=name)


def callers(definition: CrewDefinition, tool: str) -> list[str]:
    """The agents that may call a tool."""
    allowed = definition.permissions.get(tool)
    return [
        name
        for name, agent in definition.agents.items()
        if (agent.tools is None or tool in agent.tools)
        and (allowed is None or name in allowed)
        and agent.enabled
        and refusing(definition, name, tool) is None
    ]


def _tools(definition: CrewDefinition) -> Iterator[Finding]:
    for tool in definition.tools:
        if callers(definition, tool):
            continue
        lists = [n for n, agent in definition.agents.items() if tool in (agent.tools or ())]
        allowed = definition.permissions.get(tool)
        having = [n for n, a in definition.agents.items() if a.tools is None or n in lists]
        forbidden = all(
            refusing(definition, n, tool) is not None for n in having or definition.agents
        )
        if (allowed == () and not lists) or forbidden:
            continue  # it is said that no one may: perhaps until somebody allows it
        say = f"no agent may call the tool {tool!r}"
        off = [name for name in lists if not definition.agents[name].enabled]
        if allowed is not None and lists and not off:
            say += f": {listed(lists)} may use it, and the permissions do not name them"
        elif off:
            say += (
                f": {listed(off)} takes no part" if len(off) == 1 else ": its agents take no part"
            )
        yield _warning(("tools", tool), say, "Add it to an agent's 'tools', or remove it.", "key")


def _lacking(definition: CrewDefinition, name: str, tool: str) -> str | None:
    """The agent that one works for, however far above, that may never call a tool itself."""
    for above in ancestors(definition, name):
        allowed, tools = definition.permissions.get(tool), definition.agents[above].tools
        has = (tools is None or tool in tools) and (allowed is None or above in allowed)
        if not has or refusing(definition, above, tool) is not None:
            return above
    return None


def _in_vain(definition: CrewDefinition) -> Iterator[Finding]:
    """Tools that an agent lists, and may not call: for the agent above it, or for a rule.

    A rule for every agent says that a tool is off: nobody is told that one may not call it.
    """
    for name, agent in definition.agents.items():
        for i, tool in enumerate(agent.tools or ()):
            place, above = refusing(definition, name, tool), _lacking(definition, name, tool)
            path: Path = ("agents", name, "tools", i)
            if place is not None:
                if definition.rules[place].agents is not None:
                    say = f"{name!r} has the tool {tool!r}, and rules[{place}] says never"
                    yield _warning(path, say, "Take one of the two back.")
            elif above is not None and not _is_off(definition, above, tool):
                say = f"{name!r} has the tool {tool!r}, and may not call it: {above!r}, whom it"
                remedy = f"Let {above!r} call it too, or take it from {name!r}."
                yield _warning(path, f"{say} works for, may not", remedy)


def _is_off(definition: CrewDefinition, name: str, tool: str) -> bool:
    """Whether it is said of a tool itself that no agent calls it."""
    place = refusing(definition, name, tool)
    off = place is not None and definition.rules[place].agents is None
    return off or definition.permissions.get(tool) == ()


def _approvals(definition: CrewDefinition) -> Iterator[Finding]:
    for tool, named in definition.approvals.items():
        if tool not in definition.tools:
            continue
        alone = callers(definition, tool)
        may = [name for name in alone if _lacking(definition, name, tool) is None]
        if not may:
            say = f"calls of {tool!r} wait for a yes, and no agent may call it"
            how = "Remove it, or let an agent call it."
            yield replace(_warning(("approvals", tool), say, how, "key"), unsound=True)
            continue
        for i, name in enumerate(named or ()):
            if name in definition.agents and name not in may:
                say = f"calls of {tool!r} by {name!r} wait for a yes, and {name!r} may not call it"
                yield _warning(("approvals", tool, i), say, f"It may be called by {listed(may)}.")


@dataclass(frozen=True)
class _Facts:
    """What conditions look at: who sets it, and what it is where nobody does."""

    setters: Mapping[str, frozenset[str]]
    """The agents that take part, by what they set: a flag, or `agent.output`; people are ''."""
    first: Mapping[str, object]
    off: frozenset[str]
    """Agents that take no part."""

    @classmethod
    def of(cls, definition: CrewDefinition, found: list[Phase]) -> _Facts:
        setters: dict[str, set[str]] = {}
        errors = keeping_errors(definition, found)
        for name, agent in definition.agents.items():
            if agent.enabled:
                for key in (*agent.writes_flags, *(f"{name}.{k}" for k in outputs_of(agent))):
                    setters.setdefault(key, set()).add(name)
                setters.setdefault(f"{name}.text", set()).add(name)
                if name in errors:
                    setters.setdefault(f"{name}.error", set()).add(name)
        for flag in counted_conflicts(definition):
            setters[flag] = {*definition.agents}
        for phase in found:
            if isinstance(phase.item, AskPhase) and phase.item.sets:
                setters.setdefault(phase.item.sets, set()).add("")
        off = frozenset(name for name, a in definition.agents.items() if not a.enabled)
        return cls({k: frozenset(v) for k, v in setters.items()}, dict(definition.flags), off)

    def open(self, fact: Fact) -> bool:
        """Whether anybody may set what a fact looks at."""
        return fact.name in self.setters or (
            fact.agent is not None and f"{fact.agent}.{fact.name}" in self.setters
        )

    def value(self, condition: Condition) -> bool | None:
        """Whether a condition holds, whatever happens; none where that depends."""
        match condition:
            case Fact():
                return None if self.open(condition) else holds(condition, dict(self.first), {})
            case Not():
                inner = self.value(condition.of)
                return None if inner is None else not inner
            case AllOf():
                parts = [self.value(part) for part in condition.of]
                return False if False in parts else None if None in parts else True
            case AnyOf():
                parts = [self.value(part) for part in condition.of]
                return True if True in parts else None if None in parts else False


def _flags(definition: CrewDefinition, facts: _Facts) -> Iterator[Finding]:
    for flag, first in definition.flags.items():
        if first is None and flag not in facts.setters:
            say = f"nobody sets the flag {flag!r}, and it has no first value"
            remedy = "Add it to an agent's writes_flags, or give it a value."
            yield _warning(("flags", flag), say, remedy, "key")


def _settled(phase: Phase, key: str, condition: Condition, facts: _Facts) -> Iterator[Finding]:
    if is_never(condition):
        return
    value = facts.value(condition)
    closed = [fact for fact in facts_in(condition) if not facts.open(fact)]
    path: Path = (*phase.path, key)
    for fact in closed:
        if fact.agent in facts.off:
            say = f"the condition looks at {fact.agent!r}, which takes no part: 'enabled' is false"
            yield _warning(
                path, say, "Enable it, or leave the condition out.", word=fact.agent or ""
            )
            return
    if value is None:
        return
    item = phase.item
    if isinstance(item, DecisionPhase):
        goes = f"{'always' if value else 'never'} goes to {item.go!r}"
        if value and item.at_most:
            goes += f", until it has {item.at_most} times"
    elif key == "route":
        goes = "always takes its 'else'"
    elif key == "when":
        goes = "never waits" if value else "waits for what can never hold"
    else:
        goes = "is never skipped" if value else "is always skipped"
    names = listed(dict.fromkeys(repr(fact.name) for fact in closed))
    say = f"{phase.name!r} {goes}: nobody sets {names}"
    yield _warning(path, say, "Let an agent set it, by 'writes_flags' or 'outputs'.")


def _warning(path: Path, say: str, remedy: str, at: str = "value", word: str = "") -> Finding:
    return Finding(
        path, say, remedy, at="key" if at == "key" else "value", word=word, severity="warning"
    )
