"""What the clauses of a prompt became in its crew, a line for each part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crewlog.authority.rules import rule_words
from crewlog.authority.rules import rules_of as call_rules
from crewlog.authority.telling import questions
from crewlog.definition.findings import Path, listed
from crewlog.definition.model import CrewDefinition
from crewlog.definition.phases import phases
from crewlog.definition.times import duration_words
from crewlog.graph.lower import lower_checked, rules_of

if TYPE_CHECKING:
    from crewlog.prompt.assessment import CompiledPrompt


def part_lines(compiled: CompiledPrompt) -> dict[int, tuple[str, ...]]:
    """The parts that each clause became, by its number.

    Args:
        compiled: The prompt; without a definition nothing became of it.
    """
    definition = compiled.definition
    if definition is None:
        return {}
    told = _Told(definition, runs=compiled.partial)
    found: dict[int, dict[str, None]] = {}
    for source in compiled.sources:
        for line in told.lines(source.path):
            for number in source.clauses:
                found.setdefault(number, {})[line] = None
    return {number: tuple(lines) for number, lines in found.items()}


def clauses_of_node(compiled: CompiledPrompt, node: str) -> tuple[int, ...]:
    """The clauses that a node of the graph comes from.

    Args:
        compiled: The prompt.
        node: The node's name.
    """
    if compiled.definition is None:
        return ()
    path = next((p.path for p in phases(compiled.definition) if p.name == node), None)
    found = (n for source in compiled.sources if source.path == path for n in source.clauses)
    return tuple(dict.fromkeys(found))


class _Told:
    """Says parts of one definition in words."""

    def __init__(self, definition: CrewDefinition, *, runs: bool) -> None:
        self.definition = definition
        self.names = {phase.path: phase.name for phase in phases(definition)}
        nodes = lower_checked(definition).nodes if runs else {}
        self.rules = {str(name): "; ".join(rules_of(name, node)) for name, node in nodes.items()}
        self.calls = {rule.place: rule_words(rule) for rule in call_rules(definition)}

    def lines(self, path: Path) -> Iterator[str]:
        """A part of the definition in words; nothing for what other parts say."""
        match path:
            case ("flow", *_):
                name = self.names.get(path)
                if name is not None:
                    yield self.rules.get(name) or f"{name}: works"
            case (("tools" | "permissions" | "approvals"), str() as tool):
                yield self._tool(tool)
            case ("rules", int() as place):
                yield self.calls.get(place, "")
            case ("agents", str() as agent, str() as key):
                yield f"{agent} {key}: {self._value(agent, key)}"
            case ("groups", str() as name):
                yield f"group {name}: {listed(self.definition.groups.get(name, ()))}"
            case ("limits", str() as key):
                yield f"limit {key}: {getattr(self.definition.limits, key)}"
            case ("interrupts",):
                yield from (f"questions: {text}" for text in questions(self.definition.interrupts))
            case ("conversation",):
                idle = self.definition.conversation and self.definition.conversation.idle
                yield "conversation" + (f", ends after {duration_words(idle)} idle" if idle else "")
            case _:
                if path[:1] != ("agents",):
                    yield ".".join(map(str, path))

    def _tool(self, tool: str) -> str:
        agents = self.definition.agents.items()
        having = [name for name, agent in agents if agent.tools and tool in agent.tools]
        allowed = self.definition.permissions.get(tool)
        if allowed is not None:
            having = [name for name in having if name in allowed]
        text = f"{tool}: {listed(having) if having else 'nobody'}"
        if tool in self.definition.approvals:
            whom = self.definition.approvals[tool]
            text += ", after approval" if whom is None else f", after approval for {listed(whom)}"
        return text

    def _value(self, agent: str, key: str) -> str:
        data: dict[str, Any] = self.definition.agents[agent].to_json()
        value: Any = data.get(key)
        if isinstance(value, list):
            several: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            return listed(map(str, several)) if several else "nothing"
        return str(value)
