"""What is wrong with who reads and writes what: names that are not there, and what cannot be kept.

Errors are logs that an agent lists and may not have, and items that it may not see; warnings are
logs that are written for nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from crewlog.definition.audiences import CHANNEL, Audiences
from crewlog.definition.findings import Finding, Path, did_you_mean, listed, suggestion
from crewlog.definition.model import NAME_PATTERN, AgentDefinition, AgentPhase, CrewDefinition
from crewlog.definition.phases import Phase
from crewlog.ids import GROUP, PRIVATE, PUBLIC, READERS, is_artifact, named_readers

_NAME = NAME_PATTERN.strip("^$")
_LOG = re.compile(rf"public|(group|channel|private):{_NAME}|{READERS}{_NAME}(\+{_NAME})*")
_AGENTS = "Agents are under 'agents:'."


def log_findings(agents: Mapping[str, AgentDefinition]) -> Iterator[Finding]:
    """What is wrong with the logs that agents list by themselves, in whatever offers them."""
    for name, agent in agents.items():
        for key, logs in _listed(agent):
            for i, log in enumerate(logs):
                path: Path = ("agents", name, key, i)
                if not _LOG.fullmatch(log):
                    say = f"agent {name!r} {key} {log!r}, which is not a log"
                    remedy = "A log is public, group:NAME, channel:NAME or readers:NAME+NAME."
                    if is_artifact(log):
                        remedy = "Who sees and changes an artifact is said under 'artifacts:'."
                    yield Finding(path, say, did_you_mean(log, [PUBLIC], remedy))
                elif log.startswith(PRIVATE) and log != f"{PRIVATE}{name}":
                    say = f"agent {name!r} {key} {log!r}, which only {log[8:]!r} may"
                    yield Finding(path, say, "Share through public, group:NAME or channel:NAME.")


def _listed(agent: AgentDefinition) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The logs that an agent lists, by the key at which it does."""
    return (("reads", agent.reads), ("writes", agent.writes), ("shares", agent.shares or ()))


def audience_findings(crew: CrewDefinition, found: list[Phase]) -> Iterator[Finding]:
    """What is wrong with the audiences of a crew."""
    yield from _members(crew)
    audiences = Audiences(crew)
    for name in crew.agents:
        yield from _lists(crew, audiences, name)
    yield from _items(crew, audiences, found)
    yield from _unread(crew, audiences)


# -- names ---------------------------------------------------------------------------------------


def _members(crew: CrewDefinition) -> Iterator[Finding]:
    """Agents and groups that groups and logs name."""
    for group, members in crew.groups.items():
        for i, name in enumerate(members):
            if name not in crew.agents:
                say = f"the group {group!r} has the agent {name!r}, which is not defined."
                yield Finding(("groups", group, i), say, did_you_mean(name, crew.agents, _AGENTS))
    for log, said in crew.logs.items():
        if log == PUBLIC:
            say = f"a channel cannot be called {PUBLIC!r}: that is the log of all who list it"
            yield Finding(("logs", log), say, "Choose another name.", at="key")
        for key, named in (("readers", said.readers), ("writers", said.writers)):
            for i, name in enumerate(named or ()):
                yield from _named(crew, name, ("logs", log, key, i), f"the log {log!r} names")


def _named(crew: CrewDefinition, name: str, path: Path, names: str) -> Iterator[Finding]:
    """An agent or a group that something names."""
    if name.startswith(GROUP):
        if name.removeprefix(GROUP) not in crew.groups:
            yield Finding(
                path, f"{names} {name!r}, and there is no such group.", _groups(crew, name)
            )
    elif name not in crew.agents:
        say = f"{names} the agent {name!r}, which is not defined."
        yield Finding(path, say, did_you_mean(name, crew.agents, _AGENTS))


def _groups(crew: CrewDefinition, log: str) -> str:
    groups = [f"{GROUP}{name}" for name in crew.groups]
    return did_you_mean(log, groups, "Groups are under 'groups:'.")


# -- what agents list ----------------------------------------------------------------------------


def _lists(crew: CrewDefinition, audiences: Audiences, name: str) -> Iterator[Finding]:
    """Logs that an agent lists and is not among the readers or writers of."""
    agent = crew.agents[name]
    for key, logs in _listed(agent):
        for i, log in enumerate(logs):
            path: Path = ("agents", name, key, i)
            if log.startswith(PRIVATE) or not _LOG.fullmatch(log):
                continue  # said where it stands by itself
            named = audiences.named(log, write=key != "reads")
            if unknown := [each for each in named_readers(log) if each not in crew.agents]:
                yield _unknown_reader(crew, name, key, path, log, unknown[0])
            elif log.startswith(GROUP) and crew.groups and log[6:] not in crew.groups:
                say = f"agent {name!r} {key} {log!r}, and there is no such group."
                yield Finding(path, say, _groups(crew, log))
            elif named is not None and name not in named:
                yield _not_among(crew, name, key, path, log, named)
            elif (near := _slip(crew, log)) is not None:
                yield _near_channel(name, key, path, log, near)


def _unknown_reader(
    crew: CrewDefinition, name: str, key: str, path: Path, log: str, unknown: str
) -> Finding:
    say = f"agent {name!r} {key} {log!r}: the agent {unknown!r} is not defined."
    return Finding(path, say, did_you_mean(unknown, crew.agents, _AGENTS), word=unknown)


def _not_among(
    crew: CrewDefinition, name: str, key: str, path: Path, log: str, named: tuple[str, ...]
) -> Finding:
    does = "read" if key == "reads" else "write"  # who shares outputs with a log writes to it
    whom = f"{'only ' if named else ''}{listed(map(repr, named)) or 'nobody'}"
    say = f"agent {name!r} {key} {log!r}, which {whom} may {does}"
    if log.startswith(GROUP):
        remedy = f"Add {name} to the group {log[6:]!r} under 'groups:'"
    elif log.startswith(CHANNEL):
        whose = "readers" if key == "reads" else "writers"
        remedy = f"Add {name} to the {whose} of {log[8:]!r} under 'logs:'"
    else:
        remedy = f"Name it there: {log}+{name}"
    return Finding(path, say, f"{remedy}, or do not list it here.")


def _slip(crew: CrewDefinition, log: str) -> str | None:
    """The channel that has readers and writers, and is probably meant by one that has not."""
    name = log.removeprefix(CHANNEL)
    if name == log or name in crew.logs:
        return None
    return suggestion(name, crew.logs) or None


def _near_channel(name: str, key: str, path: Path, log: str, near: str) -> Finding:
    """A channel that is for everybody, with almost the name of one that is not."""
    say = f"agent {name!r} {key} {log!r}, which is for all who list it; 'logs' has {near!r}"
    return Finding(path, say, f"Did you mean {CHANNEL + near!r}?", severity="warning")


# -- what nobody may see ---------------------------------------------------------------------------


def _items(crew: CrewDefinition, audiences: Audiences, found: list[Phase]) -> Iterator[Finding]:
    """Lists of whose items an agent has a step each, and that it may not see."""
    for phase in found:
        item = phase.item
        if not isinstance(item, AgentPhase) or item.for_each is None:
            continue
        maker, _, key = item.for_each.partition(".")
        for agent in item.agents:
            if not {maker, agent} <= {*crew.agents} or maker == agent:
                continue
            reply = crew.agents[maker].reply
            if reply is not None and key in reply.tagged:
                continue  # each item says whom it is for
            said = key == "text" or crew.agents[maker].shares is None
            shares = audiences.writes(maker) if said else audiences.shares(maker)
            if any(log == PUBLIC or agent in named_readers(log) for log in shares):
                continue  # what is public is for everybody whom the flow gives it to
            if any(not audiences.no_reader(agent, log) for log in shares):
                continue
            does = "writes to" if said else "shares its outputs with"
            where = f"{does} {listed(shares) or 'nobody but itself'}"
            say = f"{agent!r} may not see {item.for_each}, its list: {maker!r} {where}"
            remedy = f"Let {agent} read what {maker} writes, or {maker} write what it reads."
            yield Finding((*phase.path, "for_each"), say, remedy, word=item.for_each)


def _unread(crew: CrewDefinition, audiences: Audiences) -> Iterator[Finding]:
    """Logs that are written, or named, for nobody."""
    for name, agent in crew.agents.items():
        for i, log in enumerate(agent.writes):
            if log == PUBLIC or log.startswith(PRIVATE) or not _LOG.fullmatch(log):
                continue  # the public log is for people, too
            if not audiences.readers(log):
                say = f"agent {name!r} writes to {log!r}, which no agent reads"
                remedy = "Let an agent read it; people see it in any case."
                yield _warning(("agents", name, "writes", i), say, remedy)
    for log, said in crew.logs.items():
        for i, name in enumerate(said.readers or ()):
            reader = crew.agents.get(name)
            if reader is not None and not reader.reads:
                say = f"{name!r} is a reader of {log!r}, and has 'reads: []': it reads no log"
                yield _warning(("logs", log, "readers", i), say, "Remove one of the two.")


def _warning(path: Path, say: str, remedy: str) -> Finding:
    return Finding(path, say, remedy, severity="warning")
