"""Other names for agents, channels and groups of a crew, wherever they stand in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from crewlog.definition.artifacts import NOTES, ArtifactDefinition
from crewlog.definition.audiences import CHANNEL
from crewlog.definition.conditions import Fact, mapped
from crewlog.definition.context import ARTIFACT, Input
from crewlog.definition.doing import DoneCall, reference
from crewlog.definition.model import GROUP, AgentDefinition, LogDefinition, MemoryPolicy, Rule
from crewlog.definition.replies import Reply
from crewlog.ids import READERS, named_readers
from crewlog.model import Json

Table = Mapping[str, tuple[str, ...] | None]
_R = TypeVar("_R", LogDefinition, ArtifactDefinition)


class NewNames(NamedTuple):
    """New names by old ones; what is not among them keeps its name."""

    agents: Mapping[str, str] = {}
    channels: Mapping[str, str] = {}
    groups: Mapping[str, str] = {}

    @property
    def any(self) -> bool:
        """Whether anything has another name."""
        return any(was != now for names in self for was, now in names.items())

    # -- names ------------------------------------------------------------------------------

    def agent(self, name: str) -> str:
        """An agent."""
        return self.agents.get(name, name)

    def member(self, name: str) -> str:
        """An agent, or `group:G`."""
        if name.startswith(GROUP):
            group = name.removeprefix(GROUP)
            return GROUP + self.groups.get(group, group)
        return self.agent(name)

    def members(self, names: Iterable[str]) -> tuple[str, ...]:
        """Agents, and groups as `group:G`."""
        return tuple(self.member(name) for name in names)

    def channel(self, name: str) -> str:
        """A channel."""
        return self.channels.get(name, name)

    def log(self, name: str) -> str:
        """A log that agents read or write: `public`, `group:G`, `channel:C`, `readers:A+B`."""
        if name.startswith(CHANNEL):
            return CHANNEL + self.channel(name.removeprefix(CHANNEL))
        if readers := named_readers(name):
            return READERS + "+".join(self.agent(reader) for reader in readers)
        return self.member(name) if name.startswith(GROUP) else name

    def wire(self, to: str) -> str:
        """Where a wire leads."""
        return self.log(to) if to.startswith(CHANNEL) else self.agent(to)

    def fact(self, text: str) -> str:
        """`agent.output`, or a text that is no such thing."""
        agent, dot, key = text.partition(".")
        return f"{self.agent(agent)}.{key}" if dot else text

    def artifact(self, name: str) -> str:
        """An artifact: the notes of an agent are called as it is."""
        of = name.removesuffix(NOTES)
        return name if of == name else self.agent(of) + NOTES

    # -- what names them --------------------------------------------------------------------

    def table(self, said: Table) -> dict[str, tuple[str, ...] | None]:
        """Agents by tool, or by scope of a memory."""
        return {key: None if who is None else self.members(who) for key, who in said.items()}

    def of_agent(self, agent: AgentDefinition) -> AgentDefinition:
        """An agent's definition."""
        # Most agents have few of these, and a graph may have hundreds of agents.
        fields: dict[str, Any] = {
            "reads": agent.reads and tuple(map(self.log, agent.reads)),
            "writes": agent.writes and tuple(map(self.log, agent.writes)),
            "shares": agent.shares and tuple(map(self.log, agent.shares)),
            "listen": agent.listen and tuple(map(self.channel, agent.listen)),
            "send": agent.send and tuple(map(self.channel, agent.send)),
            "wires": agent.wires and tuple(map(self.wire, agent.wires)),
            "parent": agent.parent and self.agent(agent.parent),
            "beside": agent.beside and self.agent(agent.beside),
            "inputs": agent.inputs and tuple(map(self._input, agent.inputs)),
            "scratch": agent.scratch
            and agent.scratch.model_copy(update={"readers": self.members(agent.scratch.readers)}),
            "does": agent.does and tuple(map(self._call, agent.does)),
            "reply": agent.reply and self._reply(agent.reply),
            "pattern": agent.pattern
            and agent.pattern.model_copy(update={"with_": self._options(agent.pattern.with_)}),
        }
        said = vars(agent)
        changed = {key: value for key, value in fields.items() if value != said[key]}
        return agent.model_copy(update=changed) if changed else agent

    def of_rule(self, rule: Rule) -> Rule:
        """A rule over calls of tools."""
        agents = None if rule.agents is None else self.members(rule.agents)
        condition = None if rule.if_ is None else mapped(rule.if_, self._fact)
        return rule.model_copy(update={"agents": agents, "if_": condition})

    def of_readers(self, said: _R) -> _R:
        """A log, or an artifact, that names its readers and writers."""
        readers = None if said.readers is None else self.members(said.readers)
        writers = None if said.writers is None else self.members(said.writers)
        return said.model_copy(update={"readers": readers, "writers": writers})

    def of_memory(self, memory: MemoryPolicy) -> MemoryPolicy:
        """What a crew remembers."""

        def scopes(said: Table) -> dict[str, tuple[str, ...] | None]:
            return {self.member(scope): who for scope, who in self.table(said).items()}

        return memory.model_copy(
            update={"read": scopes(memory.read), "write": scopes(memory.write)}
        )

    def _fact(self, fact: Fact) -> Fact:
        if fact.agent is None or fact.agent not in self.agents:
            return fact
        return fact.model_copy(update={"agent": self.agent(fact.agent)})

    def _input(self, shown: Input) -> Input:
        source = shown.from_
        if shown.kind == "output":
            source = self.fact(source)
        elif shown.kind == "artifact":
            source = ARTIFACT + self.artifact(shown.name)
        # What it is called in the prompt stays: nobody is shown another text by that.
        as_ = shown.as_ or (shown.from_ if source != shown.from_ else None)
        return shown.model_copy(update={"from_": source, "as_": as_})

    def _call(self, call: DoneCall) -> DoneCall:
        return call.model_copy(update={"args": self._arguments(call.args)})

    def _arguments(self, args: Json) -> Json:
        if (found := reference(args)) is not None:
            return {"from": self.fact(found)}
        if isinstance(args, dict):
            pairs: dict[str, Json] = args  # pyright: ignore[reportUnknownVariableType]
            return {key: self._arguments(value) for key, value in pairs.items()}
        if isinstance(args, list):
            parts: list[Json] = args  # pyright: ignore[reportUnknownVariableType]
            return [self._arguments(value) for value in parts]
        return args

    def _reply(self, reply: Reply) -> Reply:
        fallback = self._options(reply.fallback) if reply.decision else reply.fallback
        among = tuple(map(self.agent, reply.among))
        return reply.model_copy(update={"among": among, "fallback": fallback})

    def _options(self, options: Json) -> Json:
        """Data in which a text may be an agent, or `agent.output`."""
        if isinstance(options, str):
            return self.agents.get(options) or self.fact(options)
        if isinstance(options, dict):
            pairs: dict[str, Json] = options  # pyright: ignore[reportUnknownVariableType]
            return {key: self._options(value) for key, value in pairs.items()}
        if isinstance(options, list):
            parts: list[Json] = options  # pyright: ignore[reportUnknownVariableType]
            return [self._options(value) for value in parts]
        return options
