"""Who reads and who writes which log of a crew.

| log | who reads it | who may write to it |
| --- | --- | --- |
| `public` | agents that list it | agents that list it |
| `group:G` | the members of G; without `groups`, agents that list it | the same |
| `channel:C` | as `logs` says of C, else agents that list it, or listen | the same, or send |
| `readers:A+B` | A and B | agents that list it |
| `private:A` | A | A |

Who is named as a reader reads a log, listed or not; who is not named cannot list it. An agent with
`reads: []` reads its own log alone. Where an agent writes, it lists, as far as it may.

This is the one place that knows it: plans have what comes of it, and activities ask it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from crewlog.definition.artifacts import SCRATCH_TOOLS, ArtifactDefinition, Scratch
from crewlog.definition.findings import listed
from crewlog.definition.model import AgentDefinition, CrewDefinition, LogDefinition
from crewlog.ids import GROUP, PRIVATE, PUBLIC, READERS, named_readers

CHANNEL = "channel:"


class Audiences:
    """The audiences of a crew's logs.

    Args:
        crew: The crew.
    """

    def __init__(self, crew: CrewDefinition) -> None:
        self._crew = crew

    def named(self, log: str, *, write: bool = False) -> tuple[str, ...] | None:
        """The agents that a log is for; none where it is for those that list it.

        Args:
            log: The log.
            write: Whether to write to it; else to read it.
        """
        crew = self._crew
        kind, _, name = log.partition(":")
        if kind == "private":
            return (name,)
        if kind == "readers":
            return None if write else named_readers(log)
        if kind == "group" and crew.groups:
            return crew.groups.get(name, ())
        if kind == "channel" and name in crew.logs:
            said = crew.logs[name].writers if write else crew.logs[name].readers
            return None if said is None else tuple(self.members(said))
        return None

    def members(self, named: Iterable[str]) -> Iterator[str]:
        """The agents among agents and groups."""
        for each in named:
            if each.startswith(GROUP):
                yield from self._crew.groups.get(each.removeprefix(GROUP), ())
            else:
                yield each

    def artifact_readers(self, name: str) -> tuple[str, ...]:
        """The agents that see an artifact: all of them, where it does not say which."""
        return self._of_artifact(self._crew.every_artifact[name].readers)

    def artifact_writers(self, name: str) -> tuple[str, ...]:
        """The agents that may change an artifact."""
        return self._of_artifact(self._crew.every_artifact[name].writers)

    def notes_seen(self, agent: str) -> tuple[str, ...]:
        """The agents whose scratch notes an agent sees, itself among them where it makes some."""
        return tuple(
            name
            for name, said in self._notes
            if name == agent or agent in self.members(said.readers)
        )

    def _of_artifact(self, named: tuple[str, ...] | None) -> tuple[str, ...]:
        every = tuple(self._crew.agents)
        return every if named is None else tuple(dict.fromkeys(self.members(named)))

    def no_reader(self, agent: str, log: str) -> str:
        """Why an agent may not read a log, for people; empty where it may."""
        found = self._crew.agents.get(agent)
        if found is None:
            return f"there is no agent {agent!r}"
        if log == f"{PRIVATE}{agent}":
            return ""
        hears = log in heard(found)
        if not found.reads and not hears:
            return f"{agent!r} reads no log but its own"
        named = self.named(log)
        if named is None:
            return (
                ""
                if hears or log in found.reads
                else f"{agent!r} does not list {log!r} under 'reads'"
            )
        return "" if agent in named else f"{log!r} is read by {listed(named) or 'nobody'} alone"

    def no_writer(self, agent: str, log: str) -> str:
        """Why an agent may not write to a log, for people; empty where it may."""
        found = self._crew.agents.get(agent)
        if found is None:
            return f"there is no agent {agent!r}"
        if log == f"{PRIVATE}{agent}":
            return ""
        named = self.named(log, write=True)
        if named is not None and agent not in named:
            return f"{log!r} is written by {listed(named) or 'nobody'} alone"
        return "" if log in found.writes else f"{agent!r} does not list {log!r} under 'writes'"

    def logs(self) -> tuple[str, ...]:
        """All logs that the crew names, but for those of one agent each."""
        return self._logs

    # What is asked of each agent, and there may be thousands.

    @cached_property
    def _notes(self) -> list[tuple[str, Scratch]]:
        """The agents that make scratch notes, with what is said of these."""
        agents = self._crew.agents.items()
        return [(name, agent.scratch) for name, agent in agents if agent.scratch is not None]

    @cached_property
    def _addressed(self) -> list[str]:
        """The logs that are for certain agents."""
        return [log for log in self._logs if self.named(log) is not None]

    @cached_property
    def _logs(self) -> tuple[str, ...]:
        crew = self._crew
        found = [PUBLIC, *(f"{GROUP}{name}" for name in crew.groups)]
        found += [f"{CHANNEL}{name}" for name in crew.logs]
        for agent in crew.agents.values():
            named = (*agent.reads, *agent.writes, *(agent.shares or ()), *heard(agent))
            found += (log for log in named if not log.startswith(PRIVATE))
        return tuple(dict.fromkeys(found))

    def reads(self, agent: str) -> tuple[str, ...]:
        """The logs that an agent reads besides its own: those it lists, and those that name it."""
        found = self._crew.agents[agent]
        own = (*found.reads, *heard(found))
        every = dict.fromkeys((*own, *self._addressed))
        return tuple(log for log in every if self._sees(agent, log))

    def listed(self, agent: str) -> tuple[str, ...]:
        """The logs that an agent reads, but for those of the channels that it listens to."""
        hears = heard(self._crew.agents[agent])
        own = self._crew.agents[agent].reads
        return tuple(log for log in self.reads(agent) if log in own or log not in hears)

    def _sees(self, agent: str, log: str) -> bool:
        return not self.no_reader(agent, log)

    def writes(self, agent: str) -> tuple[str, ...]:
        """The logs that an agent's final messages go to: those it lists, as far as it may."""
        own = self._crew.agents[agent].writes
        return tuple(log for log in dict.fromkeys(own) if not self.no_writer(agent, log))

    def pairs(self) -> set[tuple[str, str]]:
        """Each agent with each other agent that reads a log that it writes to."""
        logs = {(agent, log) for agent in self._crew.agents for log in self.writes(agent)}
        readers = {log: self.readers(log) for _, log in logs}
        return {(agent, each) for agent, log in logs for each in readers[log] if each != agent}

    def shares(self, agent: str) -> tuple[str, ...]:
        """The logs whose readers may see an agent's outputs, besides itself."""
        own = self._crew.agents[agent].shares
        if own is None:
            return self.writes(agent)
        named = {log: self.named(log, write=True) for log in own}
        return tuple(log for log, who in named.items() if who is None or agent in who)

    def readers(self, log: str) -> tuple[str, ...]:
        """The agents that read a log."""
        return tuple(agent for agent in self._crew.agents if not self.no_reader(agent, log))


def heard(agent: AgentDefinition) -> tuple[str, ...]:
    """The logs of the channels that an agent listens to."""
    return tuple(f"{CHANNEL}{channel}" for channel in agent.listen)


def scratch_tools(crew: CrewDefinition, audiences: Audiences, agent: str) -> tuple[str, ...]:
    """The tools of scratch notes that an agent has: who only looks at others' makes none."""
    if crew.agents[agent].scratch is not None:
        return SCRATCH_TOOLS
    return SCRATCH_TOOLS[1:] if audiences.notes_seen(agent) else ()


def without_member(crew: CrewDefinition, name: str) -> dict[str, Any]:
    """The groups, logs and artifacts of a crew that an agent leaves."""

    def others(named: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if named is None else tuple(each for each in named if each != name)

    def left(said: LogDefinition | ArtifactDefinition) -> dict[str, Any]:
        return {"readers": others(said.readers), "writers": others(said.writers)}

    logs = {log: said.model_copy(update=left(said)) for log, said in crew.logs.items()}
    artifacts = {name: said.model_copy(update=left(said)) for name, said in crew.artifacts.items()}
    return {
        "groups": {group: others(members) for group, members in crew.groups.items()},
        "logs": logs,
        "artifacts": artifacts,
    }


def without_reader(agents: Mapping[str, AgentDefinition], name: str) -> dict[str, AgentDefinition]:
    """Agents that address a log no more to one that has left; to nobody, where it was alone."""
    return {each: _reaching(agent, name) for each, agent in agents.items()}


def _reaching(agent: AgentDefinition, name: str) -> AgentDefinition:
    fields: dict[str, Any] = {
        "reads": tuple(_without(agent.reads, name)),
        "writes": tuple(_without(agent.writes, name)),
        "shares": None if agent.shares is None else tuple(_without(agent.shares, name)),
        "scratch": agent.scratch and _unread(agent.scratch, name),
        "inputs": tuple(i for i in agent.inputs if (i.output or ("",))[0] != name),
    }
    changed = {key: value for key, value in fields.items() if value != getattr(agent, key)}
    if not changed:
        return agent
    left = agent.model_copy(update=changed)
    if agent.inputs and not left.inputs:  # nobody said that it is shown nothing
        return left.saying(left.model_fields_set - {"inputs"})
    return left


def _unread(scratch: Scratch, name: str) -> Scratch:
    readers = tuple(each for each in scratch.readers if each != name)
    return (
        scratch if readers == scratch.readers else scratch.model_copy(update={"readers": readers})
    )


def _without(logs: Iterable[str], name: str) -> Iterator[str]:
    for log in logs:
        readers = named_readers(log)
        left = [reader for reader in readers if reader != name]
        if left or not readers:
            yield log if len(left) == len(readers) else READERS + "+".join(left)
