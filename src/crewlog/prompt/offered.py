"""What a definition has that its registry does not offer: of an edit of what a prompt was made to.

A person who approves a crew may change it, and no further than prompts reach: who edits is not who
says what the crew's prompts may use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from crewlog.definition.context_checks import summary_models
from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.load import CREW
from crewlog.definition.model import BuilderPhase, CrewDefinition, Limits, ToolDefinition
from crewlog.definition.phases import phases
from crewlog.definition.reaching import parse_host
from crewlog.definition.shape import Form
from crewlog.definition.times import duration_words
from crewlog.definition.unused import callers
from crewlog.prompt.registry import LONGEST_WAIT, WAIT_REMEDY, OfferedTool, Registry
from crewlog.prompt.standing import not_standing

_OWN = {"prompt", "words", "description"}
"""What an edit may change of the registry's agents."""


def offered_form(registry: Registry, *, besides: Collection[str] = ()) -> Form[CrewDefinition]:
    """Crews that a registry's prompts may be made to; as `crewlog.definition.load.CREW`.

    Args:
        registry: The registry.
        besides: Agents that people or agents added to a live run, who are no prompt's; neither are
            the tools that only they call.
    """

    def check(crew: CrewDefinition) -> list[Finding]:
        found = not_offered(crew, registry)
        return [*CREW.check(crew), *(f for f in found if not _apart(f.path, crew, besides))]

    return replace(CREW, check=check)


def _apart(path: Path, crew: CrewDefinition, agents: Collection[str]) -> bool:
    """Whether something of a crew belongs to some agents alone."""
    match path:
        case ("agents", name, *_):
            return name in agents
        case ("tools", tool, *_):
            return {*agents} >= {*callers(crew, str(tool))} != set()
        case _:
            return False


def not_offered(crew: CrewDefinition, registry: Registry) -> Iterator[Finding]:
    """What a crew has, and the registry does not offer."""
    yield from _tools(crew, registry)
    yield from _agents(crew, registry)
    yield from _models(crew, registry)
    yield from _builders(crew, registry)
    yield from _approvals(crew, registry)
    yield from not_standing(crew, registry.groups, registry.rules)
    yield from _bounds(crew, registry)
    yield from _waits(crew)


def _tools(crew: CrewDefinition, registry: Registry) -> Iterator[Finding]:
    for name, tool in crew.tools.items():
        offered = registry.tools.get(name)
        if offered is None:
            say = f"the registry offers no tool {name!r}"
            yield Finding(("tools", name), say, did_you_mean(name, registry.tools), at="key")
        elif tool != offered.definition() and not narrower(tool, offered):
            say = f"the tool {name!r} is not as the registry has it"
            yield Finding(("tools", name), say, "Leave tools as they were compiled.", at="key")
        else:
            for agent in callers(crew, name):
                yield from _grant(crew, agent, name, offered, registry)


def narrower(tool: ToolDefinition, offered: OfferedTool) -> bool:
    """Whether a tool is the registry's, and only reaches less than it is offered with."""
    alike = tool == offered.definition().model_copy(update={"hosts": tool.hosts})
    return alike and bool(tool.hosts) and all(reaches(offered.hosts, h) for h in tool.hosts)


def _grant(
    crew: CrewDefinition, agent: str, tool: str, offered: OfferedTool, registry: Registry
) -> Iterator[Finding]:
    own = registry.agents.get(agent)
    if own is not None and tool in (own.tools or ()):
        return
    if offered.grant is None or agent in offered.grant:
        return
    tools = crew.agents[agent].tools
    place = ("tools", tools.index(tool)) if tools and tool in tools else ()
    whom = f"only to {listed(offered.grant)}" if offered.grant else "to nobody"
    yield Finding(
        ("agents", agent, *place),
        f"{tool!r} may not be given to {agent!r}",
        f"The registry lets prompts, and edits, give it {whom}.",
        at="value" if place else "key",
    )


def _agents(crew: CrewDefinition, registry: Registry) -> Iterator[Finding]:
    for name, agent in crew.agents.items():
        own = registry.agents.get(name)
        if own is None and not registry.new_agents:
            say = f"the registry offers no agent {name!r}, and no new ones"
            yield Finding(("agents", name), say, did_you_mean(name, registry.agents), at="key")
        for key in sorted(own.model_fields_set - _OWN) if own is not None else ():
            if not _kept(key, getattr(agent, key), getattr(own, key)):
                say = f"the registry sets {key!r} of its agent {name!r}"
                yield Finding(("agents", name, key), say, "Leave it as it was compiled.")


def _kept(key: str, given: Any, own: Any) -> bool:
    """Whether what the registry sets holds: what an agent sets may only become more."""
    if key in {"writes_flags", "outputs"}:
        return set(own) <= set(given)
    return key == "tools" or bool(given == own)


def _models(crew: CrewDefinition, registry: Registry) -> Iterator[Finding]:
    offered = [model for model in (registry.model, *registry.models) if model]
    own = [agent.model for agent in registry.agents.values() if agent.model]
    named: list[tuple[Path, str | None]] = [(("model",), crew.model)]
    named += [(("agents", name, "model"), agent.model) for name, agent in crew.agents.items()]
    named += [(path, model) for model, path in summary_models(crew)]
    for path, model in named:
        if model is not None and model not in offered and model not in own:
            there = f"It offers: {', '.join(offered)}." if offered else "It offers none."
            yield Finding(
                path, f"the registry offers no model {model!r}", did_you_mean(model, offered, there)
            )


def _builders(crew: CrewDefinition, registry: Registry) -> Iterator[Finding]:
    if registry.builders is None:
        return
    for i, item in enumerate(crew.flow):
        if isinstance(item, BuilderPhase) and item.use not in registry.builders:
            say = f"the registry offers no builder {item.use!r}"
            yield Finding(("flow", i, "use"), say, did_you_mean(item.use, registry.builders))
    for name, agent in crew.agents.items():
        own = registry.agents.get(name)
        if agent.pattern is None or (own is not None and own.pattern is not None):
            continue
        if agent.pattern.use not in registry.builders:
            say = f"the registry offers no builder {agent.pattern.use!r}"
            remedy = did_you_mean(agent.pattern.use, registry.builders)
            yield Finding(("agents", name, "pattern"), say, remedy)


def _approvals(crew: CrewDefinition, registry: Registry) -> Iterator[Finding]:
    for tool, whose in registry.approvals.items():
        if tool not in crew.tools:
            continue
        held = crew.approvals.get(tool, ())
        for agent in callers(crew, tool):
            if (whose is None or agent in whose) and held is not None and agent not in held:
                say = f"calls of {tool!r} by {agent!r} must wait for a yes: the registry says so"
                yield Finding(("approvals", tool), say, f"Add it: approvals: {{{tool}: }}.")
    if crew.approval != registry.approval:
        say = f"the registry's 'approval' is {registry.approval!r}"
        yield Finding(("approval",), say, "Leave it as it was compiled.")


def _bounds(crew: CrewDefinition, registry: Registry) -> Iterator[Finding]:
    for key in Limits.model_fields:
        most, has = getattr(registry.limits, key), getattr(crew.limits, key)
        if most is not None and (has is None or has > most):
            say = f"the registry's limit of {key!r} is {most}"
            yield Finding(("limits", key), say, "A crew can only lower it.")


def _waits(crew: CrewDefinition) -> Iterator[Finding]:
    """Waits that are longer than prompts may have; until a date they may be."""
    for phase in phases(crew):
        for key in ("wait", "within", "timeout"):
            seconds = getattr(phase.item, key, None)
            if seconds is not None and seconds > LONGEST_WAIT:
                say = f"{duration_words(seconds)} is longer than prompts, and edits, may wait"
                yield Finding((*phase.path, key), say, WAIT_REMEDY)


def reaches(hosts: Sequence[str], host: str) -> bool:
    """Whether some hosts have in them all that a host, or `*.` and a host, stands for.

    Names open no private address, so that `*` has every plain name in it, and no number.
    """
    for offered in hosts:
        if offered.lower() == host.lower():
            return True
        wanted, has = _name(host), _name(offered)
        if wanted and has == "*":
            return True
        if wanted and has.startswith("*.") and wanted.removeprefix("*").endswith(has[1:]):
            return True
    return False


def _name(host: str) -> str:
    """The plain name of a host without a scheme or a port; empty where it is something else."""
    try:
        rule = parse_host(host)
    except ValueError:
        return ""
    plain = rule.port is None and rule.network is None and "://" not in host
    return rule.name if plain and "/" not in host else ""
