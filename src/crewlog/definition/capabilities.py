"""Who can do what, over all crews and registries that somebody has at hand.

    callers("write_file", offers)   who may call a tool, and who lists it in vain
    writers("models_ready", offers) which agents and questions set a flag or an output
    readers("models_ready", offers) which phases wait for it or decide by it
    log_users("group:ui", offers)   which agents read and write a log
    idle_tools(offers)              which tools nobody may call

Each answer has its reason in words. An `Offer` is a crew, or what a registry offers to prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from crewlog.definition.agent_outputs import outputs_of
from crewlog.definition.audiences import Audiences
from crewlog.definition.conditions import Condition, facts_in, render_condition, skips_words
from crewlog.definition.expand import expand
from crewlog.definition.findings import listed
from crewlog.definition.model import (
    AgentDefinition,
    AgentPhase,
    AskPhase,
    CrewDefinition,
    DecisionPhase,
    RoutePhase,
    ToolDefinition,
    WaitPhase,
)
from crewlog.definition.phases import Phase, phases
from crewlog.definition.rule_checks import refusing
from crewlog.ids import AgentName, private_log
from crewlog.model import Model

Agents = tuple[str, ...] | None
"""Some agents by name; none means all."""


@dataclass(frozen=True)
class Offer:
    """A crew, or what a registry offers: agents, tools, and who may call which."""

    kind: Literal["crew", "registry"]
    name: str
    version: int | None
    """Its registered version, where it has one."""
    agents: Mapping[str, AgentDefinition]
    tools: Mapping[str, ToolDefinition]
    permissions: Mapping[str, Agents] = field(default_factory=dict[str, Agents])
    """As a crew's: who may call a tool."""
    approvals: Mapping[str, Agents] = field(default_factory=dict[str, Agents])
    """As a crew's: whose calls wait for a person's yes."""
    grants: Mapping[str, Agents] = field(default_factory=dict[str, Agents])
    """A registry's: to whom prompts may give a tool."""
    crew: CrewDefinition | None = None
    """The crew; none for a registry."""

    @property
    def label(self) -> str:
        """`release-notes@2`."""
        return self.name if self.version is None else f"{self.name}@{self.version}"


class Capability(Model):
    """Something that somebody can do, or cannot."""

    who: str
    """The agent or phase; empty for agents that a prompt may bring."""
    kind: Literal["agent", "phase", "prompt"]
    """What `who` is. `prompt`: agents that get it from a prompt."""
    can: Literal["call", "write", "read", "need"]
    what: str
    """The tool, flag, output or log."""
    allowed: bool = True
    """Whether it is so; false for an agent that lists a tool which it may not call."""
    reason: str
    """Why, or how."""
    of: Literal["crew", "registry"]
    name: str
    """The crew or registry."""
    version: int | None = None
    """Its registered version."""

    @property
    def place(self) -> str:
        """`crew release-notes@2`."""
        version = "" if self.version is None else f"@{self.version}"
        return f"{self.of} {self.name}{version}"


def offer_of(definition: CrewDefinition, version: int | None = None) -> Offer:
    """A crew as an offer, with what its builders bring put in its place."""
    expanded = expand(definition)
    whole = definition if expanded.faults else expanded.definition
    return Offer(
        kind="crew",
        name=definition.crew,
        version=version,
        agents=whole.agents,
        tools=whole.tools,
        permissions=whole.permissions,
        approvals=whole.approvals,
        crew=whole,
    )


def callers(tool: str, offers: Iterable[Offer]) -> list[Capability]:
    """Who may call a tool and why; also who lists it and may not."""
    return [found for offer in offers if tool in offer.tools for found in _callers(tool, offer)]


def _callers(tool: str, offer: Offer) -> Iterator[Capability]:
    permitted = offer.permissions.get(tool)
    for name, agent in offer.agents.items():
        if agent.tools is not None and tool not in agent.tools:
            continue
        # In a crew, whoever lists no tools has all that permissions allow; in a registry, none.
        if agent.tools is None and offer.kind == "registry":
            continue
        how = "lists it" if agent.tools is not None else "lists no tools, so it has every one"
        allowed = permitted is None or name in permitted
        if permitted is not None and allowed:
            how += ", and permissions name it"
        elif not allowed:
            if agent.tools is None:
                continue
            only = f"only {listed(permitted)} may" if permitted else "nobody may"
            how += f", but permissions say that {only}"
        rule = None if offer.crew is None else refusing(offer.crew, name, tool)
        if allowed and rule is not None:
            allowed = False
            how += f", but rules[{rule}] says never"
        if allowed and _covers(offer.approvals, tool, name):
            how += "; each call waits for a person's yes"
        if not agent.enabled:
            how += "; it is not enabled"
        yield _capability(offer, name, "agent", "call", tool, how, allowed=allowed)
    if offer.kind == "registry":
        granted = offer.grants.get(tool)
        whom = "any agent" if granted is None else listed(granted, "or")
        if whom:
            how = f"a prompt may give it to {whom}"
            yield _capability(offer, "", "prompt", "call", tool, how)


def _covers(table: Mapping[str, Agents], tool: str, agent: str) -> bool:
    named = table.get(tool)
    return tool in table and (named is None or agent in named)


def idle_tools(offers: Iterable[Offer]) -> list[Capability]:
    """Tools that nobody may call, and why."""
    found: list[Capability] = []
    for offer in offers:
        for tool in offer.tools:
            known = list(_callers(tool, offer))
            if not any(each.allowed for each in known):
                why = "no agent has it"
                if offer.permissions.get(tool) == ():
                    why = "permissions say that nobody may"
                elif known:
                    why = f"{listed(each.who for each in known)} may not, by the permissions"
                found.append(_capability(offer, "", "agent", "call", tool, why, allowed=False))
    return found


def writers(key: str, offers: Iterable[Offer]) -> list[Capability]:
    """Which agents and questions set a flag or an output; `agent.key` asks for one agent's."""
    return [found for offer in offers for found in _writers(key, offer)]


def _writers(key: str, offer: Offer) -> Iterator[Capability]:
    owner, _, name = key.rpartition(".")
    for who, agent in offer.agents.items():
        if owner in {"", who}:
            for say, names in (("flag", agent.writes_flags), ("output", outputs_of(agent))):
                if name in names:
                    yield _capability(offer, who, "agent", "write", name, f"declares the {say}")
    for phase in _phases(offer):
        if isinstance(phase.item, AskPhase) and phase.item.sets == key:
            how = "people's answer sets it"
            yield _capability(offer, phase.name, "phase", "write", key, how)


def readers(key: str, offers: Iterable[Offer]) -> list[Capability]:
    """Which phases wait for a flag or output, decide by it, or take their list of it."""
    return [
        found
        for offer in offers
        for phase in _phases(offer)
        for found in _readers(key, offer, phase)
    ]


def _readers(key: str, offer: Offer, phase: Phase) -> Iterator[Capability]:
    item = phase.item
    if isinstance(item, AgentPhase):
        if item.when is not None and _names(item.when, key):
            how = f"waits for {render_condition(item.when)}"
            yield _capability(offer, phase.name, "phase", "need", key, how)
        if item.for_each is not None and key in {item.for_each, item.for_each.partition(".")[2]}:
            how = f"has a step for each of {item.for_each}"
            yield _capability(offer, phase.name, "phase", "need", key, how)
    if (
        isinstance(item, AgentPhase | AskPhase | WaitPhase | RoutePhase)
        and item.only_if is not None
        and _names(item.only_if, key)
    ):
        how = f"is {skips_words(item.only_if)}"
        yield _capability(offer, phase.name, "phase", "read", key, how)
    if isinstance(item, RoutePhase) and key in {item.route, item.route.partition(".")[2]}:
        how = f"goes where {item.route} says"
        yield _capability(offer, phase.name, "phase", "read", key, how)
    if isinstance(item, DecisionPhase) and _names(item.if_, key):
        how = f"goes to {item.go} if {render_condition(item.if_)}"
        yield _capability(offer, phase.name, "phase", "read", key, how)


def _names(condition: Condition, key: str) -> bool:
    owner, _, name = key.rpartition(".")
    return any(
        fact.name == name and owner in {"", fact.agent or ""} for fact in facts_in(condition)
    )


def needing(tool: str, offers: Iterable[Offer]) -> list[Capability]:
    """Which phases are skipped where their agent may not call a tool."""
    return [
        _capability(offer, phase.name, "phase", "need", tool, "is skipped without it")
        for offer in offers
        for phase in _phases(offer)
        if isinstance(phase.item, AgentPhase) and tool in phase.item.needs
    ]


def log_users(log: str, offers: Iterable[Offer]) -> list[Capability]:
    """Which agents read and write a log: `public`, `group:G`, `channel:C`, `private:A`."""
    found: list[Capability] = []
    for offer in offers:
        audiences = Audiences(offer.crew) if offer.crew is not None else None
        for name, agent in offer.agents.items():
            own = log == private_log(AgentName(name))
            listing = log in agent.reads
            if own or (listing if audiences is None else not audiences.no_reader(name, log)):
                how = "lists it under reads" if listing else "the log names it as a reader"
                how = "its own log" if own else how
                found.append(_capability(offer, name, "agent", "read", log, how))
            if own or log in agent.writes:
                how = "its work goes there" if own else "its final messages go there"
                found.append(_capability(offer, name, "agent", "write", log, how))
    return found


def known_words(offers: Iterable[Offer]) -> dict[str, Literal["tool", "key", "log"]]:
    """Everything that can be asked for, and what it is; tools win over keys of the same name."""
    words: dict[str, Literal["tool", "key", "log"]] = {}
    for offer in offers:
        words.update((log, "log") for a in offer.agents.values() for log in (*a.reads, *a.writes))
        words.update((private_log(AgentName(name)), "log") for name in offer.agents)
        if offer.crew is not None:
            words.update((log, "log") for log in Audiences(offer.crew).logs())
        for agent in offer.agents.values():
            for key in (*agent.writes_flags, *outputs_of(agent)):
                words.setdefault(key, "key")
        if offer.crew is not None:
            for key in offer.crew.flags:
                words.setdefault(key, "key")
            for phase in _phases(offer):
                if isinstance(phase.item, AskPhase) and phase.item.sets:
                    words.setdefault(phase.item.sets, "key")
        words.update((tool, "tool") for tool in offer.tools)
    return words


def who(word: str, offers: Iterable[Offer]) -> list[Capability]:
    """Everything above about one word: a tool, a flag, an output, or a log."""
    every = list(offers)
    return [
        *callers(word, every),
        *needing(word, every),
        *writers(word, every),
        *readers(word, every),
        *log_users(word, every),
    ]


def _phases(offer: Offer) -> list[Phase]:
    return [] if offer.crew is None else phases(offer.crew)


def _capability(
    offer: Offer,
    who: str,
    kind: Literal["agent", "phase", "prompt"],
    can: Literal["call", "write", "read", "need"],
    what: str,
    reason: str,
    *,
    allowed: bool = True,
) -> Capability:
    return Capability(
        who=who,
        kind=kind,
        can=can,
        what=what,
        allowed=allowed,
        reason=reason,
        of=offer.kind,
        name=offer.name,
        version=offer.version,
    )
