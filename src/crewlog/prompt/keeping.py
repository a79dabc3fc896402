"""What stands where a prompt changes a crew: all that people wrote, and no prompt can say.

A prompt is read to a whole new crew. `CREW`, `AGENT` and `TOOL` say of each field of a definition
what becomes of what the crew had there; a field that stands in none of them is a fault of ours.
Where the prompt's registry says otherwise of what stands, and where an agent that something is
said of by name goes while others come, the change fails and names what would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from crewlog.definition.artifacts import ArtifactDefinition
from crewlog.definition.audiences import without_member
from crewlog.definition.creatures import among_agents
from crewlog.definition.findings import Finding, listed
from crewlog.definition.model import (
    GROUP,
    AgentDefinition,
    CrewDefinition,
    Limits,
    LogDefinition,
    MemoryPolicy,
    ToolDefinition,
)
from crewlog.definition.reaching import servers_of
from crewlog.errors import InvalidDefinition
from crewlog.prompt.keeping_questions import asked, not_asked
from crewlog.prompt.offered import reaches
from crewlog.prompt.registry import Registry
from crewlog.prompt.standing import CHANNEL, with_channels, with_standing

How = Literal["said", "unless", "kept", "joined", "stands"]
"""`said`: the prompt, or its registry, says all of it; `unless`: what was there, unless these say
otherwise; `kept`: what was there, as far as its agents are still there; `joined`: both hold, the
stricter first; `stands`: what was there, and where these say otherwise the change fails."""

CREW: dict[str, How] = {
    "crew": "kept",
    "description": "kept",
    "model": "said",
    "agents": "joined",  # see AGENT
    "tools": "joined",  # see TOOL
    "mcp": "stands",
    "flow": "said",
    "flags": "joined",
    "permissions": "joined",
    "approvals": "joined",
    "groups": "joined",
    "rules": "joined",
    "timezone": "kept",
    "logs": "joined",
    "channels": "kept",
    "graph": "kept",
    "artifacts": "joined",
    "merge": "joined",
    "limits": "stands",
    "interrupts": "joined",
    "checkpoints": "kept",
    "memory": "kept",
    "conversation": "unless",
    "window": "unless",
    "approval": "stands",
    "policy": "kept",
}
AGENT: dict[str, How] = {
    "does": "unless",
    "in_order": "unless",
    "prompt": "said",
    "description": "unless",
    "model": "unless",
    "model_settings": "unless",
    "tools": "joined",
    "reads": "stands",
    "writes": "stands",
    "outputs": "joined",
    "writes_flags": "joined",
    "reply": "unless",
    "max_calls": "unless",
    "on_cap": "unless",
    "timeout": "unless",
    "heartbeat": "unless",
    "retry": "unless",
    "on_error": "unless",
    "ask_below": "stands",
    "enabled": "unless",
    "pattern": "unless",
    "parent": "stands",
    "window": "unless",
    "inputs": "unless",
    "shares": "stands",
    "scratch": "unless",
    "listen": "unless",
    "send": "unless",
    "wires": "unless",
    "beside": "unless",
    "privileged": "unless",
}
TOOL: dict[str, How] = {
    "run": "said",
    "description": "said",
    "effects": "stands",
    "retry": "stands",
    "timeout": "said",
    "heartbeat": "said",
    "policy": "said",
    "on_error": "said",
    "queue": "said",
    "placed": "said",
    "paths": "stands",
    "secrets": "stands",
    "hosts": "joined",
    "checks": "stands",
    "approved": "stands",
    "risk": "stands",
}

_STRICT = ("none", "understood", "required")
_OPERATIONS = "Say the change by operations, or change the registry first."
_SAYABLE = {"public"}

V = TypeVar("V")
Allowed = Mapping[str, tuple[str, ...] | None]


def kept(
    base: CrewDefinition,
    fresh: CrewDefinition,
    registry: Registry,
    *,
    own: bool,
    permissions: Allowed | None = None,
) -> CrewDefinition:
    """The crew of a prompt, with all that stands of the crew that it changes.

    Args:
        base: The crew that is changed.
        fresh: What the prompt was compiled to, under the names that the crew has.
        registry: What the prompt could use.
        own: Whether that is what the crew itself has.
        permissions: Who may call a tool by what people said while the run lived.

    Raises:
        InvalidDefinition: something would be lost; each of these is named.
    """
    if base.groups and not fresh.groups:
        fresh = with_channels(fresh)
    lost = [*_renamed(base, fresh), *_otherwise(base, fresh, registry)]
    if lost:
        raise InvalidDefinition([each.diagnostic() for each in lost])
    there = fresh.agents
    found = fresh.model_copy(
        update={
            **{key: getattr(base, key) for key, how in CREW.items() if how == "kept"},
            **{key: getattr(base, key) for key in _unless(fresh)},
            "agents": _agents(base, fresh, own=own),
            "flags": {**fresh.flags, **base.flags},
            "logs": _logs(base, fresh),
            "interrupts": asked(base.interrupts, fresh.interrupts),
            "tools": {name: _tool(name, base, tool) for name, tool in fresh.tools.items()},
            "memory": _memory(base, there),
            "artifacts": {**fresh.artifacts, **_artifacts(base, there)},
        }
    )
    found = among_agents(_answered(found))
    found = _with_tools(base, found) if own else found
    found = found.model_copy(
        update={
            "approvals": _approvals(base, found),
            "limits": _limits(base.limits, found.limits),
            "merge": {**fresh.merge, **_merges(base, found)},
        }
    )
    # A registry says itself who may have a tool; what people said since holds all the same.
    might = [*(() if own is False else base.permissions.items()), *(permissions or {}).items()]
    found = found.model_copy(update={"permissions": narrowed(found, might)})
    found = with_standing(found, base.groups, base.rules)
    # Also those that nobody is left in: in a crew without groups, their logs are for everybody.
    empty: dict[str, tuple[str, ...]] = dict.fromkeys(base.groups, ())
    return found.model_copy(update={"groups": {**empty, **found.groups}})


def _unless(fresh: CrewDefinition) -> Iterator[str]:
    """What the prompt could have said of the crew, and did not."""
    yield from (k for k, how in CREW.items() if how == "unless" and k not in fresh.model_fields_set)


def _answered(crew: CrewDefinition) -> CrewDefinition:
    """The crew, where nobody answers in its conversation who is not there any more."""
    talk = crew.conversation
    if talk is None or all(name in crew.agents for name in talk.respond):
        return crew
    left = tuple(name for name in talk.respond if name in crew.agents)
    return crew.model_copy(update={"conversation": talk.model_copy(update={"respond": left})})


def narrowed(
    crew: CrewDefinition, might: Iterable[tuple[str, tuple[str, ...] | None]]
) -> dict[str, tuple[str, ...] | None]:
    """Who may call a tool: whoever might before, and of these whom the prompt names.

    Also where it was people who said while the run lived who may not: a prompt that says less of a
    tool than the definition did must not give it back to them.
    """
    found = dict(crew.permissions)
    for tool, before in might:
        if tool in crew.callable_tools and before is not None:
            now = found.get(tool)
            found[tool] = tuple(
                each for each in before if each in crew.agents and (now is None or each in now)
            )
    return found


# -- what holds on -------------------------------------------------------------------------------


def _agents(base: CrewDefinition, fresh: CrewDefinition, *, own: bool) -> dict[str, Any]:
    speaks = _speaks_of_sight(fresh, base)
    found: dict[str, AgentDefinition] = {}
    for name, agent in fresh.agents.items():
        old = base.agents.get(name)
        if old is None:
            found[name] = agent
            continue
        update: dict[str, Any] = {
            "outputs": _both(old.outputs, agent.outputs),
            "writes_flags": _both(old.writes_flags, agent.writes_flags),
        }
        if own:
            # Who may not call a tool is said by permissions and rules: an agent still has it.
            update["tools"] = _both(_tools_of(base, name), agent.tools or ())
        for key, how in AGENT.items():
            unsaid = how == "unless" and key not in agent.model_fields_set
            if unsaid or (how == "stands" and _unsaid(key, old, agent, base, speaks=speaks)):
                update[key] = getattr(old, key)
        said = {key for key in old.said_defaults if key in update}
        made = agent.model_copy(update=update)
        found[name] = made.saying({*made.model_fields_set, *said}) if said else made
    return found


def _tools_of(base: CrewDefinition, name: str) -> tuple[str, ...]:
    """The tools that an agent has, also where it may call none now."""
    tools = base.agents[name].tools
    if tools is not None:
        return tools
    allowed = base.permissions
    return tuple(t for t in base.tools if (who := allowed.get(t)) is None or name in who)


def _unsaid(
    key: str, old: AgentDefinition, new: AgentDefinition, base: CrewDefinition, *, speaks: bool
) -> bool:
    """Whether nobody says anew what stands of an agent."""
    if getattr(new, key) != AgentDefinition.model_fields[key].get_default(
        call_default_factory=True
    ):
        return False
    return not (speaks and _by_prompt(key, old, base))


def _by_prompt(key: str, agent: AgentDefinition, base: CrewDefinition) -> bool:
    """Whether a prompt could have said which logs an agent has: then another one says it anew."""
    if key not in {"reads", "writes"}:
        return False
    logs: tuple[str, ...] = getattr(agent, key)
    return bool(logs) and all(
        log in _SAYABLE
        or (
            log.startswith(CHANNEL)
            and (name := log.removeprefix(CHANNEL)) in base.logs
            and _is_own(name, base.logs[name], base)
        )
        or (log.startswith(GROUP) and log[len(GROUP) :] in base.agents and not base.groups)
        for log in logs
    )


def _speaks_of_sight(fresh: CrewDefinition, base: CrewDefinition) -> bool:
    """Whether the prompt says who sees what."""
    plain = AgentDefinition(prompt="-")
    return any(
        getattr(agent, key) not in {getattr(base.agents.get(name, plain), key), ("public",)}
        for name, agent in fresh.agents.items()
        for key in ("reads", "writes")
    )


def _with_tools(base: CrewDefinition, found: CrewDefinition) -> CrewDefinition:
    """The crew with the tools that its agents list, also those that none may call now."""
    listed_ = {tool for agent in found.agents.values() for tool in agent.tools or ()}
    tools = {**found.tools}
    for name, tool in base.tools.items():
        if name in listed_:
            tools.setdefault(name, tool)
    order = [*(name for name in base.tools if name in tools), *tools]
    tools = {name: tools[name] for name in order}
    mcp = {**servers_of((tool.run for tool in tools.values()), base.mcp), **found.mcp}
    return found.model_copy(update={"tools": tools, "mcp": mcp})


def _logs(base: CrewDefinition, fresh: CrewDefinition) -> dict[str, LogDefinition]:
    """The logs of both; of one that both have, what people wrote, unless a prompt says it anew."""
    speaks = _speaks_of_sight(fresh, base)
    found = dict(fresh.logs)
    for name, log in base.logs.items():
        if name in found and speaks and _is_own(name, log, base):
            continue
        readers, writers = _left(log.readers, fresh.agents), _left(log.writers, fresh.agents)
        found[name] = log.model_copy(update={"readers": readers, "writers": writers})
    return {**{name: found[name] for name in base.logs if name in found}, **found}


def _is_own(name: str, log: LogDefinition, crew: CrewDefinition) -> bool:
    """Whether a channel is that of one agent, as a prompt makes it."""
    agent = crew.agents.get(name)
    return agent is not None and log.writers == (name,) and agent.writes == (f"{CHANNEL}{name}",)


def _tool(name: str, base: CrewDefinition, tool: ToolDefinition) -> ToolDefinition:
    """A tool that reaches no more than it did."""
    old = base.tools.get(name)
    if old is None or not old.hosts or all(reaches(old.hosts, host) for host in tool.hosts):
        return tool
    return tool.model_copy(update={"hosts": old.hosts})


def _memory(base: CrewDefinition, there: Iterable[str]) -> MemoryPolicy | None:
    memory = base.memory
    for name in set(base.agents) - set(there):
        memory = memory and memory.without(name)
    return memory


def _artifacts(base: CrewDefinition, there: Iterable[str]) -> dict[str, ArtifactDefinition]:
    found = base
    for name in sorted(set(base.agents) - set(there)):
        found = found.model_copy(update=without_member(found, name))
    return found.artifacts


def _approvals(base: CrewDefinition, found: CrewDefinition) -> dict[str, Any]:
    approvals = dict(found.approvals)
    for tool, named in base.approvals.items():
        if tool not in found.callable_tools:
            continue
        left, now = _left(named, found.agents), approvals.get(tool, ())
        if left is None or now is None:
            approvals[tool] = None
        elif left or tool in approvals:
            approvals[tool] = _both(left, now)
    return approvals


def _limits(before: Limits, now: Limits) -> Limits:
    """The lower of both, bound by bound; none is higher than any."""
    update: dict[str, Any] = {}
    for key in Limits.model_fields:
        both = [most for most in (getattr(before, key), getattr(now, key)) if most is not None]
        update[key] = min(both) if both else None
    return now.model_copy(update=update)


def _merges(base: CrewDefinition, found: CrewDefinition) -> dict[str, Any]:
    flags = {*found.flags, *(f for agent in found.agents.values() for f in agent.writes_flags)}
    outputs = {f"{name}.{o}" for name, a in found.agents.items() for o in (*a.outputs, "text")}
    return {key: how for key, how in base.merge.items() if key in flags or key in outputs}


def _left(named: tuple[str, ...] | None, there: Iterable[str]) -> tuple[str, ...] | None:
    if named is None:
        return None
    return tuple(name for name in named if name.startswith(GROUP) or name in set(there))


def _both(one: Sequence[V], other: Sequence[V]) -> tuple[V, ...]:
    return tuple(dict.fromkeys((*one, *other)))


# -- what would be lost ----------------------------------------------------------------------------


def _otherwise(
    base: CrewDefinition, fresh: CrewDefinition, registry: Registry
) -> Iterator[Finding]:
    """What stands, and the prompt or its registry says otherwise."""
    yield from _agents_otherwise(base, fresh)
    yield from _tools_otherwise(base, fresh)
    for key, what in not_asked(base.interrupts, fresh.interrupts):
        yield _lost(("interrupts", key), what)
    for name in _common(base.mcp, fresh.mcp):
        if base.mcp[name] != fresh.mcp[name]:
            yield _lost(("mcp", name), f"the MCP server {name!r} as the crew has it")
    for key in Limits.model_fields:
        before, now = getattr(base.limits, key), getattr(fresh.limits, key)
        said = now is not None and now != getattr(registry.limits, key)
        if said and before is not None and now > before:
            say = f"the crew's limit of {key!r} is {before}, and the prompt says {now}"
            yield Finding(("limits", key), say, "A prompt can only lower it.")
    if _STRICT.index(registry.approval) < _STRICT.index(base.approval):
        yield _lost(("approval",), f"that approval is {base.approval!r}")


def _agents_otherwise(base: CrewDefinition, fresh: CrewDefinition) -> Iterator[Finding]:
    speaks = _speaks_of_sight(fresh, base)
    for name in _common(base.agents, fresh.agents):
        old, new = base.agents[name], fresh.agents[name]
        for key in _differing(AGENT, AgentDefinition, old, new):
            if key == "ask_below" and (new.ask_below or 0) > (old.ask_below or 0):
                continue  # people are asked more often
            if not _unsaid(key, old, new, base, speaks=speaks) and not (
                speaks and _by_prompt(key, old, base)
            ):
                yield _lost(("agents", name, key), f"{key!r} of the agent {name!r}")


def _tools_otherwise(base: CrewDefinition, fresh: CrewDefinition) -> Iterator[Finding]:
    for name in _common(base.tools, fresh.tools):
        for key in _differing(TOOL, ToolDefinition, base.tools[name], fresh.tools[name]):
            yield _lost(("tools", name, key), f"{key!r} of the tool {name!r}")
        if _reaches_else(base.tools[name].hosts, fresh.tools[name].hosts):
            yield _lost(("tools", name, "hosts"), f"'hosts' of the tool {name!r}")


def _reaches_else(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether neither of two lists of hosts is within the other: what is less holds."""
    within = all(reaches(old, host) for host in new) and bool(new)
    return bool(old) and not within and not all(reaches(new, host) for host in old)


def _common(old: Iterable[str], new: Iterable[str]) -> list[str]:
    there = set(new)
    return [name for name in old if name in there]


def _differing(table: Mapping[str, How], of: Any, old: Any, new: Any) -> Iterator[str]:
    for key, how in table.items():
        default = of.model_fields[key].get_default(call_default_factory=True)
        if how == "stands" and getattr(old, key) not in (default, getattr(new, key)):
            yield key


def _lost(path: tuple[str | int, ...], what: str) -> Finding:
    say = f"{what} would be lost: the prompt, or its registry, says otherwise"
    return Finding(path, say, _OPERATIONS)


def _renamed(base: CrewDefinition, fresh: CrewDefinition) -> Iterator[Finding]:
    """What is said by name of an agent that goes while others come: they may be the same one.

    Where agents only go, what is said of them goes with them, as by `remove_agent`.
    """
    gone = [name for name in base.agents if name not in fresh.agents]
    new = [name for name in fresh.agents if name not in base.agents]
    for name in gone if new else ():
        for path, what in _of_agent(base, name):
            are = "is" if len(new) == 1 else "are"
            say = (
                f"{what} {name!r}, which the prompt does not have; {listed(map(repr, new))} "
                f"{are} new there"
            )
            remedy = (
                f"Call it {name!r} in the prompt, too. If it goes, remove it first "
                f"(`crewlog change RUN --remove {name}`), and say of the new one what holds for it."
            )
            yield Finding(path, say, remedy)


_At = tuple[tuple[str | int, ...], str]


def _of_agent(base: CrewDefinition, name: str) -> Iterator[_At]:
    """Where people say something of an agent by its name, and what."""
    for i, rule in enumerate(base.rules):
        if name in (rule.agents or ()):
            yield ("rules", i), f"rules[{i}] is about"
    for tool, named in base.approvals.items():
        if name in (named or ()):
            yield ("approvals", tool), f"approvals of {tool!r} name"
    yield from _in_audiences(base, name)
    for key in ("ask_below", "parent"):
        if getattr(base.agents[name], key) is not None:
            yield ("agents", name, key), f"{key!r} is set of"


def _in_audiences(base: CrewDefinition, name: str) -> Iterator[_At]:
    for group, members in base.groups.items():
        if name in members:
            yield ("groups", group), f"the group {group!r} has"
    for log, said in base.logs.items():
        if name in (*(said.readers or ()), *(said.writers or ())):
            yield ("logs", log), f"the log {log!r} names"
    for key in ("read", "write") if base.memory is not None else ():
        for scope, who in getattr(base.memory, key).items():
            if name in (who or ()):
                yield ("memory", key, scope), f"who may {key} the memory {scope!r} names"
