"""Reads a registry from YAML or JSON, with every fault at its place, as crews are read.

What is checked beyond the shape: agents' tools are offered, grants and approvals name what there
is or may be, builders exist, and nothing that people say means two tools or two agents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath

from crewlog.definition.builders import find_builder
from crewlog.definition.findings import Finding, Path, did_you_mean
from crewlog.definition.load import read_data, read_text, text_of
from crewlog.definition.model import EVERY_TOOL, GROUP, Rule
from crewlog.definition.reach_checks import tool_faults
from crewlog.definition.shape import Form
from crewlog.definition.validate import model_findings, part_findings, secret_findings
from crewlog.model import Json
from crewlog.prompt.registry import OfferedAgent, OfferedTool, Registry

_SEPARATORS = re.compile(r"[\W_]+")


def load_registry(text: str, file: str = "registry.yaml") -> Registry:
    """The registry that a YAML or JSON text holds, checked for shape and meaning.

    Args:
        text: The text.
        file: What to call it in messages.

    Raises:
        InvalidDefinition: with every fault found, in the order of the text.
    """
    return read_text(text, file, REGISTRY)


def load_registry_file(path: str | FilePath) -> Registry:
    """The registry in a file.

    Raises:
        UsageError: where the file cannot be read.
        InvalidDefinition: with every fault found.
    """
    return load_registry(text_of(path, "registry's YAML or JSON file"), str(path))


def load_registry_data(data: Json) -> Registry:
    """The registry in plain data, with the same checks; places are paths in the data.

    Raises:
        InvalidDefinition: with every fault found.
    """
    return read_data(data, REGISTRY)


def registry_findings(registry: Registry) -> list[Finding]:
    """Everything that is wrong with the meaning of a registry."""
    return [
        *part_findings(registry.agents, registry.tools),
        *_models(registry),
        *_words("tools", registry.tools),
        *_words("agents", registry.agents),
        *_grants(registry),
        *_approvals(registry),
        *_rules(registry),
        *_builders(registry),
        *secret_findings(registry.to_json()),
        *tool_faults(registry.tools, registry.mcp),
    ]


REGISTRY = Form(
    Registry,
    "registry",
    "It begins with 'registry: NAME'; then come its tools.",
    registry_findings,
)
"""A registry's file."""


def _models(registry: Registry) -> Iterator[Finding]:
    if registry.model is not None:
        yield from model_findings(registry.model, ("model",))
    for i, model in enumerate(registry.models):
        yield from model_findings(model, ("models", i))


def _words(section: str, offered: Mapping[str, OfferedTool | OfferedAgent]) -> Iterator[Finding]:
    """What people say must mean one of them: a name, spoken, or one of its words."""
    one = section[:-1]
    said = {_spoken(name): name for name in offered}
    for name, part in offered.items():
        for i, words in enumerate(part.words):
            path: Path = (section, name, "words", i)
            spoken = _spoken(words)
            if not spoken:
                say = f"{one} {name!r} has words without a letter: {words!r}"
                yield Finding(path, say, "Write how people say it, or remove it.")
                continue
            other = said.setdefault(spoken, name)
            if other != name:
                say = f"{words!r} can mean the {section} {other!r} and {name!r}"
                yield Finding(path, say, "Give the words to one of the two.")


def _spoken(words: str) -> str:
    return " ".join(_SEPARATORS.sub(" ", words.casefold()).split())


def _grants(registry: Registry) -> Iterator[Finding]:
    for tool, offered in registry.tools.items():
        for i, agent in enumerate(offered.grant or ()):
            if fault := _stranger(registry, agent):
                say = f"tool {tool!r} may be given to the agent {agent!r}, {fault}"
                yield Finding(("tools", tool, "grant", i), say, _who(registry, agent))


def _approvals(registry: Registry) -> Iterator[Finding]:
    for tool, agents in registry.approvals.items():
        if tool not in registry.tools:
            say = f"approvals name the tool {tool!r}, which is not defined."
            remedy = f"{did_you_mean(tool, registry.tools)} Tools are defined under 'tools:'."
            yield Finding(("approvals", tool), say, remedy.strip(), at="key")
        for i, agent in enumerate(agents or ()):
            if fault := _stranger(registry, agent):
                say = f"the approval for {tool!r} names the agent {agent!r}, {fault}"
                yield Finding(("approvals", tool, i), say, _who(registry, agent))


def _rules(registry: Registry) -> Iterator[Finding]:
    for group, named in registry.groups.items():
        for i, agent in enumerate(named):
            if fault := _stranger(registry, agent):
                say = f"the group {group!r} names the agent {agent!r}, {fault}"
                yield Finding(("groups", group, i), say, _who(registry, agent))
    for n, rule in enumerate(registry.rules):
        yield from _rule(registry, n, rule)


def _rule(registry: Registry, n: int, rule: Rule) -> Iterator[Finding]:
    for tool in rule.tools:
        if tool != EVERY_TOOL and tool not in registry.tools:
            say = f"rules[{n}] names the tool {tool!r}, which is not defined."
            remedy = f"{did_you_mean(tool, registry.tools)} Tools are defined under 'tools:'."
            yield Finding(("rules", n, "tool"), say, remedy.strip())
    for i, name in enumerate(rule.agents or ()):
        path: Path = ("rules", n, "agents", i)
        if name.startswith(GROUP):
            group = name.removeprefix(GROUP)
            if group not in registry.groups:
                say = f"rules[{n}] names the group {group!r}, which is not defined."
                known = "Groups are under 'groups:'."
                yield Finding(path, say, did_you_mean(group, registry.groups, known))
        elif fault := _stranger(registry, name):
            say = f"rules[{n}] names the agent {name!r}, {fault}"
            yield Finding(path, say, _who(registry, name))
    if rule.if_ is not None:
        say = f"rules[{n}] has a condition, and a registry knows no crew's flags"
        yield Finding(("rules", n, "if"), say, "Leave out 'if': the rule then holds always.")


def _stranger(registry: Registry, agent: str) -> str:
    """Why a crew of this registry can have no agent of that name; empty where it can."""
    if agent in registry.agents or registry.new_agents:
        return ""
    return "which is not defined, and prompts may bring no new ones."


def _who(registry: Registry, agent: str) -> str:
    return did_you_mean(agent, registry.agents, "Agents are under 'agents:'.")


def _builders(registry: Registry) -> Iterator[Finding]:
    for i, name in enumerate(registry.builders or ()):
        yield from _builder(name, ("builders", i))
    for name, agent in registry.agents.items():
        if agent.pattern is not None:
            path: Path = ("agents", name, "pattern", "use")
            yield from _builder(agent.pattern.use, path, kinds=("agent",))


def _builder(
    name: str, path: Path, kinds: tuple[str, ...] = ("agent", "flow")
) -> Iterator[Finding]:
    try:
        builder = find_builder(name)
    except LookupError as error:
        yield Finding(path, f"no builder is called {name!r}", str(error))
        return
    if builder.kind not in kinds:
        say = f"the builder {name!r} is for the flow, as {{use: …}}"
        yield Finding(path, say, "An agent's pattern is a builder for agents.")
