"""What stays where a prompt changes a crew, and the refusal of a change that would lose the rest.

A prompt is compiled to a whole new crew. `CREW`, `AGENT` and `TOOL` say for each field of a
definition how the new crew and the one that is there (the base) are put together. Then both are
compared: a difference that drops or loosens what people wrote refuses the change, with its path.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, cast

from crewlog.authority.compared_crews import ComparedCrews
from crewlog.authority.rights import is_permitted
from crewlog.definition.audiences import Audiences, without_member
from crewlog.definition.creatures import among_agents
from crewlog.definition.diff import Change, diff
from crewlog.definition.findings import Finding, Path, listed
from crewlog.definition.model import GROUP, AgentDefinition, CrewDefinition, Limits, ToolDefinition
from crewlog.definition.validate import all_findings
from crewlog.errors import InvalidDefinition
from crewlog.model import Model
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.offered import reaches
from crewlog.prompt.registry import Registry
from crewlog.prompt.standing import CHANNEL, with_channels, with_standing

How = Literal["prompt", "unless", "strict", "base", "both"]
"""`prompt`: the field is the prompt's. `unless`: it is the prompt's where it states it, else the
base's. `strict`: as `unless`, and a looser value refuses the change. `base`: it is the base's,
and another value in the registry refuses the change. `both`: the entries of both; of an entry that
both have, the base's or the stricter."""


def _fields(**keys: str) -> dict[str, How]:
    return {key: cast("How", how) for how, named in keys.items() for key in named.split()}


CREW = _fields(
    prompt="model agents tools flow",  # of agents and tools, see below
    unless="conversation window",
    strict="permissions limits interrupts approval",
    base="crew description mcp timezone channels graph checkpoints memory policy",
    both="flags approvals groups rules logs artifacts merge",
)
AGENT = _fields(
    prompt="prompt tools",
    unless="does model reply on_cap on_error enabled pattern window inputs",
    strict="reads writes max_calls ask_below",
    base="in_order description model_settings timeout heartbeat retry parent shares scratch "
    "listen send wires beside privileged",
    both="outputs writes_flags",
)
TOOL = _fields(
    strict="hosts",
    base="run description effects retry timeout heartbeat policy on_error queue placed paths "
    "secrets checks approved risk",
)

_REMEDY = "Say it as the crew has it, or change the crew first: `crewlog change RUN --edit …`."
_LOGS = ("reads", "writes")
_M = TypeVar("_M", bound=Model)
Allowed = Mapping[str, tuple[str, ...] | None]


def kept(
    base: CrewDefinition,
    fresh: CrewDefinition,
    registry: Registry,
    *,
    own: bool,
    permissions: Allowed | None = None,
) -> CrewDefinition:
    """The crew of a prompt, with all that stays of the crew that it changes.

    Args:
        base: The crew that is changed.
        fresh: The compiled prompt, with the names that the crew has.
        registry: What the prompt could use.
        own: Whether the registry is what the crew itself has.
        permissions: Permissions that people set while the run lived.

    Raises:
        InvalidDefinition: the change would lose or loosen something; each thing is named.
    """
    if base.groups and not fresh.groups:
        fresh = with_channels(fresh)
    allowed = _joined(base.permissions, permissions or {}, wider=False)
    base = base.model_copy(update={"permissions": allowed})
    there = _among(base, fresh.agents)
    found = _put_together(there, fresh, registry, own=own)
    new = [name for name in fresh.agents if name not in base.agents]
    lost = [*_renamed(base, there, new), *_given(there, fresh), *_seen(there, found)]
    for each in diff(there, found).changes:
        if _is_loss(each, there, found):
            say = f"the prompt, or its registry, would change {each.words}"
            lost.append(Finding(each.path, say, _REMEDY))
    if lost:
        raise InvalidDefinition([each.diagnostic() for each in lost])
    return found


def replacing(
    found: CompiledPrompt, before: CrewDefinition, registry: Registry, file: str
) -> CompiledPrompt:
    """A compiled prompt over the file of an earlier one: what people wrote into the file stays.

    Args:
        found: The compiled prompt, with the names that the file has.
        before: The crew in the file.
        registry: What the prompt could use.
        file: The file's name in messages.

    Raises:
        InvalidDefinition: as `kept`, and where the crew that comes out has faults.
    """
    if found.definition is None:
        return found
    try:
        crew = kept(before, found.definition, registry, own=False)
    except InvalidDefinition as error:
        remedy = f"Say it in the prompt as {file} has it, or take it out of {file} first."
        raise InvalidDefinition([replace(d, remedy=remedy) for d in error.diagnostics]) from error
    crew = crew.model_copy(update={"crew": found.definition.crew})
    if faults := [each for each in all_findings(crew) if each.severity == "error"]:
        raise InvalidDefinition([each.diagnostic() for each in faults])
    return replace(found, definition=crew)


def _among(base: CrewDefinition, there: Container[str]) -> CrewDefinition:
    """The base without the agents that are gone, wherever it names them."""
    crew = base
    for name in [name for name in base.agents if name not in there]:
        memory, talk = crew.memory, crew.conversation
        more = {"memory": memory and memory.without(name), **without_member(crew, name)}
        crew = crew.model_copy(update={**more, "conversation": talk and talk.without(name)})
    agents = {name: agent for name, agent in base.agents.items() if name in there}
    left: dict[str, Any] = {"agents": agents, "rules": (), "groups": {}}
    for key in ("permissions", "approvals"):
        table = getattr(base, key).items()
        left[key] = {tool: who and tuple(n for n in who if n in there) for tool, who in table}
    bare = among_agents(crew.model_copy(update=left))
    ruled = with_standing(bare, base.groups, base.rules)
    return ruled.model_copy(update={"groups": {**crew.groups, **ruled.groups}})


def _put_together(
    there: CrewDefinition, fresh: CrewDefinition, registry: Registry, *, own: bool
) -> CrewDefinition:
    """The crew that the tables make of the prompt and the base; losses are not looked at."""
    stays = (k for k, how in CREW.items() if how == "base" or k not in fresh.model_fields_set)
    logs = ((name, log) for name, agent in fresh.agents.items() for log in agent.writes)
    stated = {log for name, log in logs if _whose(log) == name}
    same = {n: _agent(old, fresh.agents[n], stated) for n, old in there.agents.items()}
    for name, old in there.agents.items() if own else ():  # such a prompt takes no tool away
        tools_of = old.tools and _both(old.tools, same[name].tools or ())
        same[name] = same[name].model_copy(update={"tools": tools_of})
    agents = {**fresh.agents, **same}
    tools = {name: _tool(there.tools.get(name), tool) for name, tool in fresh.tools.items()}
    artifacts = {n: _over(old, fresh.artifacts.get(n)) for n, old in there.artifacts.items()}
    found = fresh.model_copy(
        update={
            **{key: getattr(there, key) for key in stays},
            "agents": agents,
            "tools": {**there.tools, **tools} if own else tools,
            "mcp": {**there.mcp, **fresh.mcp} if own else fresh.mcp,
            "flags": {**fresh.flags, **there.flags},
            "logs": {**there.logs, **fresh.logs},
            "artifacts": {**fresh.artifacts, **artifacts},
            "limits": _limits(there.limits, fresh.limits, registry.limits),
            "interrupts": _over(there.interrupts, fresh.interrupts),
            "conversation": _over(there.conversation, fresh.conversation),
        }
    )
    facts = {*found.flags, *(f for agent in agents.values() for f in agent.writes_flags)}
    facts |= {f"{name}.{key}" for name, a in agents.items() for key in (*a.outputs, "text")}
    said = {tool: who for tool, who in fresh.permissions.items() if who is not None}
    permissions = {**there.permissions, **said}.items()
    approvals = _joined(there.approvals, fresh.approvals, wider=True).items()
    found = found.model_copy(
        update={
            "merge": {**fresh.merge, **{k: m for k, m in there.merge.items() if k in facts}},
            "approvals": {t: who for t, who in approvals if t in found.callable_tools},
            "permissions": {t: who for t, who in permissions if t in found.callable_tools},
        }
    )
    found = with_standing(found, there.groups, there.rules)
    return found.model_copy(update={"groups": {**there.groups, **found.groups}})


def _agent(old: AgentDefinition, new: AgentDefinition, stated: set[str]) -> AgentDefinition:
    """An agent that both have; of the logs that the prompt states, it states all readers."""
    stays = {k for k, how in AGENT.items() if how != "prompt" and k not in new.model_fields_set}
    update: dict[str, Any] = {key: getattr(old, key) for key in stays}
    if "reads" in stays:
        update["reads"] = tuple(log for log in old.reads if log not in stated)
    for key in (key for key, how in AGENT.items() if how == "both"):
        update[key] = _both(getattr(old, key), getattr(new, key))
    said = {*new.model_fields_set, *(stays & {*old.said_defaults})}
    return new.model_copy(update=update).saying(said)


def _tool(old: ToolDefinition | None, new: ToolDefinition) -> ToolDefinition:
    """A tool with the hosts of the base where these are fewer."""
    if old is None or _within(new.hosts, old.hosts) or not _within(old.hosts, new.hosts):
        return new
    return new.model_copy(update={"hosts": old.hosts})


def _limits(old: Limits, new: Limits, offered: Limits) -> Limits:
    """The limits that the prompt states; of one that it does not state, the lower of both."""
    update: dict[str, Any] = {}
    for key in Limits.model_fields:
        both = [each for each in (getattr(new, key), getattr(old, key)) if each is not None]
        if both and getattr(new, key) == getattr(offered, key):
            update[key] = min(both)
    return new.model_copy(update=update)


def _over(old: _M | None, new: _M | None) -> _M | None:
    """The old value with the fields that the new one states."""
    if old is None or new is None:
        return new or old
    return old.model_copy(update={key: getattr(new, key) for key in new.model_fields_set})


def _joined(one: Allowed, other: Allowed, *, wider: bool) -> Allowed:
    """Of each tool the agents that one table names, or that both do; null is every agent."""
    found = {**other, **one}
    for tool in one.keys() & other.keys():
        mine, theirs = one[tool], other[tool]
        if mine is None or theirs is None:
            found[tool] = None if wider else theirs if mine is None else mine
        else:
            found[tool] = _both(mine, theirs) if wider else tuple(n for n in mine if n in theirs)
    return found


def _both(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _is_loss(change: Change, there: CrewDefinition, found: CrewDefinition) -> bool:
    """Whether a difference drops or loosens what people wrote into the base."""
    section, *rest = change.path
    old, new, crews = change.old, change.new, ComparedCrews(there, found)
    match section:
        case "agents" if len(rest) > 1:
            agent, key = there.agents[rest[0]], rest[1]
            if key in _LOGS:
                return _states(agent, key) and _others(old, found) != _others(new, found)
            looser = AGENT[key] == "strict" and not is_permitted(change, crews)
            return _states(agent, key) and (AGENT[key] == "base" or looser)
        case "tools" if len(rest) > 1:
            within = rest[1] == "hosts" and _within(new, old)
            return _states(there.tools[rest[0]], rest[1]) and not within
        case "limits":
            return _states(there.limits, rest[0]) and not is_permitted(change, crews)
        case "interrupts" if rest[0] == "people":
            return bool(old) and not _is_less(old, new)
        case "interrupts" if rest[0] == "valid":
            return old is not None and (new is None or new > old)
        case "interrupts":  # what holds without an answer
            outside = rest[0] == "escalate_to" and bool(there.interrupts.people)
            return outside or there.interrupts.expires is not None
        case "logs" | "artifacts" if change.kind == "changed":
            return not _is_less(old, new)
        case "approval":
            return not is_permitted(change, crews)
        case _:
            return CREW[section] == "base" and len(rest) > 1  # a part of an MCP server


def _given(there: CrewDefinition, fresh: CrewDefinition) -> Iterator[Finding]:
    """Tools that the prompt gives to agents that the permissions exclude."""
    for tool, named in there.permissions.items():
        had = {n for n, a in there.agents.items() if a.tools is None or tool in a.tools}
        new = [n for n, a in fresh.agents.items() if tool in (a.tools or ()) and n not in had]
        now = new if (said := fresh.permissions.get(tool)) is None else said
        if more := [name for name in now if named is not None and name not in named]:
            say = f"permissions do not let {listed(more)} call {tool}, and the prompt does"
            yield Finding(("permissions", tool), say, _REMEDY)


def _seen(there: CrewDefinition, found: CrewDefinition) -> Iterator[Finding]:
    """Work that an agent would see, and does not see now."""
    for of, reader in sorted(Audiences(found).pairs() - Audiences(there).pairs()):
        old = there.agents.get(of)
        if old is not None and (reader in there.agents or "public" not in old.writes):
            say = f"{reader!r} would see the work of {of!r}, and does not see it now"
            yield Finding(("agents", of, "writes"), say, _REMEDY)


def _renamed(base: CrewDefinition, there: CrewDefinition, new: list[str]) -> Iterator[Finding]:
    """What names an agent that goes while others come, and may be one of these."""
    gone = [name for name in base.agents if name not in there.agents]
    if not gone or not new:
        return
    found: list[tuple[Path, str]] = []
    for change in diff(base, there).changes:
        section, *rest = change.path
        how = AGENT[rest[1]] if section == "agents" and len(rest) > 1 else CREW[section]
        path: Path = tuple(rest) if section == "rules" else change.path
        found += [(path, change.words)] if how not in {"prompt", "unless"} else []
    for name, agent in ((name, base.agents[name]) for name in gone):
        keys = [key for key, how in AGENT.items() if how in {"base", "strict"}]
        keys = [key for key in keys if _states(agent, key) and key not in _LOGS]
        keys += [key for key in _LOGS if _others(getattr(agent, key), base)]
        found += [(("agents", name, key), f"agent {name}: {key}") for key in keys]
    for path, words in found:
        say = f"{words} would be lost: the prompt has {listed(new)} as new, and no {listed(gone)}"
        yield Finding(
            path, say, f"Keep the name, or first: `crewlog change RUN --remove {gone[0]}`."
        )


def _whose(log: str) -> str:
    """The agent whose log a prompt makes, where only some see its work."""
    return log.removeprefix(GROUP).removeprefix(CHANNEL)


def _others(logs: Iterable[str], crew: CrewDefinition) -> set[str]:
    """The logs that no prompt can name."""
    return {log for log in logs if log != "public" and _whose(log) not in crew.agents}


def _states(model: Model, key: str) -> bool:
    """Whether a value is written, and not the default alone."""
    default = type(model).model_fields[key].get_default(call_default_factory=True)
    return getattr(model, key) != default or key in getattr(model, "said_defaults", ())


def _within(hosts: Sequence[str], others: Sequence[str]) -> bool:
    return bool(hosts) and all(reaches(others, host) for host in hosts)


def _is_less(old: Sequence[str] | None, new: Sequence[str] | None) -> bool:
    """Whether a list of names is within another; null stands for every name."""
    return old is None or (new is not None and {*new} <= {*old})
