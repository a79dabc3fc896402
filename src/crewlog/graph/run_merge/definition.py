"""What two graphs that become one lead to: one definition, of which all live.

    united(one, two, stays=…, joins=…, edge=…, asks=…) -> United(definition, renamed, …)

The crew of the run that joins comes into that of the run that stays. Of an agent the word of the
run holds in which it lives: what its definition says, which groups it is in, what it may call. So
who was away comes back as it is now, and nobody is given what its own run did not give it.

What is said of the crew as a whole stays as the surviving run has it: its name, limits, questions,
checkpoints, time zone, memory, root. The model, the window and the inherited tools of the crew that
joins are written at its agents, where they are others; its rules and approvals that were for every
agent are for those that come; its root stays privileged. Rules of the surviving run that are for
every agent are for those that come, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter

from crewlog.authority.permissions import definition_permissions
from crewlog.definition.audiences import CHANNEL
from crewlog.definition.context import Window
from crewlog.definition.counting import bare, counting_at, places_of
from crewlog.definition.creatures import creatures_of
from crewlog.definition.expand import expand
from crewlog.definition.model import (
    GROUP,
    AgentDefinition,
    ChannelDefinition,
    Counted,
    CrewDefinition,
    GraphPolicy,
    Rule,
)
from crewlog.definition.operations import Connect, Wire
from crewlog.definition.phases import phases
from crewlog.definition.quotas import is_per_run
from crewlog.definition.regrouping import channels_of, connect, wire
from crewlog.definition.renaming import NewNames
from crewlog.errors import ComponentConflict
from crewlog.graph.lowering.components import expanded_component, wake_nodes
from crewlog.ids import AgentName, NodeName, RunId
from crewlog.model import Json
from crewlog.state.components import (
    ComponentChange,
    MergedComponent,
    Rename,
    change_of_components,
    free_names,
    merged_component,
)

_SHARED: Mapping[str, str] = {
    "tools": "tool",
    "mcp": "MCP server",
    "flags": "flag",
    "artifacts": "artifact",
    "logs": "log",
}
"""What both crews may have under one name only where they say the same of it."""
_EDGE: TypeAdapter[Connect | Wire] = TypeAdapter(Connect | Wire)


class MergedDefinition(NamedTuple):
    """The crew that two are."""

    definition: CrewDefinition
    renamed: tuple[Rename, ...]
    """What came under another name."""
    change: ComponentChange
    """What becomes of the graphs."""
    comes: tuple[AgentName, ...]
    """Those who come, as they are called now."""
    nodes: dict[NodeName, NodeName]
    """Where those hear that come: the nodes that they have now, by those that they had."""
    fresh: frozenset[NodeName]
    """Those nodes of now whose agents were not in the surviving run before, or have another one
    there: what their visits are called there, they do not know."""
    quotas: dict[str, str]
    """The keys of quotas that are called otherwise now, by those that they had."""


def merged_definition(
    one: CrewDefinition,
    two: CrewDefinition,
    *,
    stays: RunId,
    joins: RunId,
    edge: Mapping[str, Json],
    asks: RunId,
    family: Collection[RunId] = (),
    gone: Collection[str] = (),
) -> MergedDefinition:
    """The crew of a run that takes in another one, with the edge that connects them.

    Args:
        one: The crew of the run that stays.
        two: The crew of the run that joins.
        stays: The run that stays.
        joins: The run that joins.
        edge: A `connect` or a `wire`: its sender, or name, as its own run calls it, and its
            listener, or end, as the other one does.
        asks: The run of the sender.
        family: The runs that the joining one goes on from: who left for one of these comes home.
        gone: Agents that were removed from the run that stays. Who comes of a run that does not go
            on from it is none of them, and does not get their turns and notes by their names.

    Raises:
        ComponentConflict: they cannot be one crew.
    """
    if asks not in (stays, joins):
        raise ComponentConflict(
            f"the runs {stays!r} and {joins!r} are not those of the edge",
            remedy="Name the run of the other creature.",
        )
    world = {stays: expanded_component(one), joins: expanded_component(two)}
    if one.policy != two.policy:
        raise ComponentConflict(
            f"the runs {stays!r} and {joins!r} are not commanded by the same principals",
            remedy="Change the 'policy' of one of them, so that both say the same.",
        )
    if world[joins].flow or two.flow:
        raise ComponentConflict(
            f"the run {joins!r} has a flow, which only its own run can go on with",
            remedy="Wait until it is over, or have the two talk over people.",
        )
    homes = {joins, *family}
    comes = creatures_of(two)
    strangers = {n for n in comes if n in one.away and one.away[n] not in homes}
    # A phase keeps its name: an agent of that name would hear elsewhere than it did.
    held = _phases(one)
    strangers |= {n for n in comes if n in held and n not in one.away}
    left = {*gone} - {*one.agents} if stays not in family else set[str]()
    strangers |= left.intersection(comes)
    channels = _channels(one), _channels(two)
    # Strangers have not the names of those who left the surviving run, and nobody is called anew as
    # who is away, in either run.
    named = {*one.agents, *two.agents, *held, *left}.union(*channels)
    told = merged_component(
        _parsed_connection(edge), asks, world, stays, taken=strangers, reserved=named
    )
    channels[1].difference_update(world[joins].channels)
    made = _DefinitionMerge(one, two, stays, joins, told, homes, channels, held)
    crew = _connected(made.crew(), told.edge)
    change = change_of_components(world, {stays: expanded_component(crew)}, made.renamed)
    before = wake_nodes(two)
    nodes = made.nodes(before, crew)
    return MergedDefinition(
        definition=crew,
        renamed=made.renamed,
        change=change,
        comes=tuple(map(AgentName, sorted(made.lives))),
        nodes=nodes,
        fresh=frozenset(
            nodes[node]
            for node, was in before.items()
            if made.names.agent(was) not in one.away or nodes[node] != node
        ),
        quotas=made.quotas(crew),
    )


def _parsed_connection(said: Mapping[str, Json]) -> Connect | Wire:
    """What connects two runs."""
    if said.get("op") not in ("connect", "wire"):
        raise ComponentConflict(
            f"{said.get('op')!r} connects no two runs", remedy="Use 'connect', or 'wire'."
        )
    return _EDGE.validate_python(said)


def _connected(crew: CrewDefinition, edge: Connect | Wire) -> CrewDefinition:
    """The crew with the edge; that it can be there, the topology has said."""
    return connect(crew, edge) if isinstance(edge, Connect) else wire(crew, edge)


class _MergedPermission(NamedTuple):
    """A rule of the crew that two are."""

    rule: Rule
    counted: Counted | None
    """Where its calls are counted; none: where they are by its name."""
    came: str = ""
    """The key that its quota had in the run that joins."""


class _DefinitionMerge:
    """Two crews as one, before anything connects them."""

    def __init__(
        self,
        one: CrewDefinition,
        two: CrewDefinition,
        stays: RunId,
        joins: RunId,
        told: MergedComponent,
        homes: Collection[RunId],
        logs: tuple[Collection[str], Collection[str]],
        held: frozenset[str],
    ) -> None:
        """As `united`; the logs are channels that each names, those of the second's graph apart.

        Held are the names of the phases that the run has which stays.
        """
        self.one, self.stays, self.joins, self.told = one, stays, joins, told
        self.old = two
        self.there = one.graph or GraphPolicy()
        policy = two.graph or GraphPolicy()
        comes = creatures_of(two)
        agents = _by_kind(told.renamed, "creature")
        channels = _by_kind(told.renamed, "channel")
        # They were one run before: what they call the same is the same.
        self.kin = stays in policy.away.values() or not {*homes}.isdisjoint(
            self.there.away.values()
        )
        absent = self._third_run_agents(policy.away)
        apart = [n for n in absent if n in one.agents or n in held]
        agents |= free_names(apart, {*one.agents, *two.agents, *held, *agents.values()})
        if not self.kin:
            channels |= free_names(logs[1], {*logs[0], *told.channels})
        groups = {} if self.kin else self._groups(two, NewNames(agents, channels))
        self.names = NewNames(agents, channels, groups)
        self.two = self._called(two)
        self.lives = frozenset(map(self.names.agent, comes))
        """Those who come, as they are called now."""
        self.away = {self.names.agent(name): home for name, home in absent.items()}
        """Those who are still elsewhere, and whom the surviving run does not know."""
        self.renamed = (*told.renamed, *self._told(told.renamed))
        self.rules = tuple(self._rules())

    def _third_run_agents(self, away: Mapping[str, str]) -> dict[str, str]:
        """Agents that are in a third run, and that the surviving run does not have.

        One of a name that it has is another one where neither a home nor a definition is the same.
        Who is said to live in the surviving run, and whom that has not, lives nowhere any more: it
        is forgotten, where nothing that comes names it.
        """
        return {
            name: home
            for name, home in away.items()
            if (
                not (
                    self.kin
                    or home in (self.stays, self.there.away.get(name))
                    or self.one.agents[name] == self.old.agents[name]
                )
                if name in self.one.agents
                else home != self.stays or self._names(name)
            )
        }

    def _names(self, name: str) -> bool:
        """Whether the crew that joins names an agent in what is taken over as it is."""
        comes = (self.old.agents[each] for each in creatures_of(self.old))
        said = json.dumps([each.to_json() for each in (*comes, *self.old.rules)])
        return re.search(rf"\b{re.escape(name)}\b", f"{said} {[*self.old.merge]}") is not None

    def _groups(self, two: CrewDefinition, names: NewNames) -> dict[str, str]:
        """Groups of strangers are others, though they are called the same: they are not mixed."""
        apart = [
            group
            for group, members in two.groups.items()
            if group in self.one.groups and {*names.members(members)} != {*self.one.groups[group]}
        ]
        return free_names(apart, {*self.one.groups, *two.groups})

    def _told(self, before: Iterable[Rename]) -> Iterable[Rename]:
        known = {(each.kind, each.was) for each in before}
        kinds: Sequence[tuple[Literal["creature", "channel", "group"], Mapping[str, str]]] = (
            ("creature", self.names.agents),
            ("channel", self.names.channels),
            ("group", self.names.groups),
        )
        for kind, names in kinds:
            for was, now in sorted(names.items()):
                if was != now and (kind, was) not in known:
                    yield Rename(kind=kind, graph=self.joins, was=was, now=now)

    def _called(self, two: CrewDefinition) -> CrewDefinition:
        """The crew that joins, by the names that it has from now on."""
        names = self.names
        if not names.any:
            return two
        update: dict[str, Any] = {
            "agents": {names.agent(n): names.of_agent(each) for n, each in two.agents.items()},
            "groups": {names.groups.get(g, g): names.members(who) for g, who in two.groups.items()},
            "rules": tuple(map(names.of_rule, two.rules)),
            "permissions": names.table(two.permissions),
            "approvals": names.table(two.approvals),
            "merge": {names.fact(key): how for key, how in two.merge.items()},
            "logs": {names.channel(n): names.of_readers(each) for n, each in two.logs.items()},
            "artifacts": {n: names.of_readers(each) for n, each in two.artifacts.items()},
            "memory": two.memory and names.of_memory(two.memory),
        }
        return two.model_copy(update=update)

    # -- the crew ----------------------------------------------------------------------------

    def crew(self) -> CrewDefinition:
        one, two = self.one, self.two
        self._refuse()
        update: dict[str, Any] = {
            "agents": self._agents(),
            "channels": self._channels(),
            "graph": self._policy(),
            "groups": self._merged_groups(),
            "permissions": self._permissions(),
            "approvals": self._approvals(),
            "rules": tuple(each.rule for each in self.rules),
            "merge": {**two.merge, **one.merge},
            **{key: {**getattr(two, key), **getattr(one, key)} for key in _SHARED},
        }
        # What only the surviving run had is written as it wrote it.
        changed = {key: value for key, value in update.items() if value != getattr(one, key)}
        return counting_at(one.model_copy(update=changed), [each.counted for each in self.rules])

    def _refuse(self) -> None:
        """Refuses crews that say different things under one name."""
        one, two = self.one, self.two
        for key, what in (*_SHARED.items(), ("merge", "way of combining")):
            mine, theirs = getattr(one, key), getattr(two, key)
            differ = sorted(n for n in mine.keys() & theirs.keys() if mine[n] != theirs[n])
            if differ:
                raise ComponentConflict(
                    f"the runs {self.stays!r} and {self.joins!r} mean different things by the "
                    f"{what} {', '.join(map(repr, differ))}",
                    remedy=f"Change {key!r} of one of them: another name, or the same words.",
                )
        if two.memory != one.memory:  # what one's agents keep, the other's would read and write
            has, lacks = (
                (self.joins, self.stays) if two.memory is not None else (self.stays, self.joins)
            )
            raise ComponentConflict(
                f"the run {has!r} has a memory that the run {lacks!r} has not",
                remedy=f"Say the same under 'memory' of both, or take it out of {has!r}.",
            )

    def _agents(self) -> dict[str, AgentDefinition]:
        found = dict(self.one.agents)
        for name, agent in self.two.agents.items():
            if name in self.lives:
                found[name] = self._own(name, agent)
            elif name in self.away:
                found[name] = agent
        return found

    def _own(self, name: str, agent: AgentDefinition) -> AgentDefinition:
        """An agent that comes, with what its crew said for all of its agents."""
        one, two = self.one, self.two
        own: dict[str, Any] = {}
        if agent.model is None and not agent.does and two.model != one.model:
            own["model"] = two.model
        if agent.window is None and two.window != one.window:
            own["window"] = two.window or Window()
        if agent.tools is None and {*one.tools} - {*two.tools}:
            own["tools"] = tuple(sorted(two.tools))  # as they were inherited
        root = two.graph.root if two.graph is not None else None
        if root is not None and self.names.agent(root) == name and self.there.root != name:
            own["privileged"] = True
        return agent.model_copy(update=own) if own else agent

    def _channels(self) -> dict[str, ChannelDefinition]:
        said = dict(self.one.channels)
        words = {self.names.channel(n): each for n, each in self.two.channels.items()}

        @cache  # there may be hundreds, most of which are alike
        def made(about: str | None, born: str) -> ChannelDefinition:
            return ChannelDefinition(description=about, born=born)

        for name, channel in self.told.channels.items():
            text = said.get(name) or words.get(name)
            if text is None and not channel.born:
                continue  # nobody says anything of it
            about = text.description if text is not None else None
            if text is None or text.born != channel.born:
                text = made(about, channel.born)
            said[name] = text
        return said

    def _policy(self) -> GraphPolicy:
        before = (self.two.graph or GraphPolicy()).away
        away: dict[str, str] = {}
        for name, home in self.there.away.items():
            if name not in self.lives:
                # Who had moved on from the run that joins, it knows where.
                away[name] = before.get(name, home) if home == self.joins else home
        away |= self.away
        return self.there.model_copy(update={"away": dict(sorted(away.items()))})

    # -- who may do what ---------------------------------------------------------------------

    def _word(self, one: Sequence[str] | None, two: Sequence[str] | None) -> tuple[str, ...]:
        """Agents that two lists name: of those who come the second's word counts."""
        mine = {*self.lives, *self.away}
        first = tuple(self.one.agents) if one is None else one
        second = tuple(self.two.agents) if two is None else two
        wanted = {n for n in second if n in mine or n.startswith(GROUP)}
        kept = [n for n in first if n not in mine or n in wanted]
        return tuple(dict.fromkeys((*kept, *(n for n in second if n in wanted))))

    def _merged_groups(self) -> dict[str, tuple[str, ...]]:
        one, two = self.one.groups, self.two.groups
        return {
            group: self._word(one.get(group, ()), two.get(group, ()))
            for group in dict.fromkeys((*one, *two))
        }

    def _permissions(self) -> dict[str, tuple[str, ...] | None]:
        one, two = self.one, self.two
        found = dict(one.permissions)
        inherit = any(agent.tools is None and not agent.does for agent in one.agents.values())
        for tool in dict.fromkeys((*one.permissions, *two.permissions, *two.tools)):
            mine, theirs = one.permissions.get(tool), two.permissions.get(tool)
            if mine == theirs and (tool in one.callable_tools or not inherit):
                continue
            if tool not in one.callable_tools:
                if theirs is not None or inherit:
                    found[tool] = self._word((), theirs)
            elif tool in two.callable_tools:
                found[tool] = self._word(mine, theirs)
        return found

    def _approvals(self) -> dict[str, tuple[str, ...] | None]:
        one, two = self.one.approvals, self.two.approvals
        found: dict[str, tuple[str, ...] | None] = {}
        for tool in dict.fromkeys((*one, *two)):
            if tool in one and one[tool] is None:
                found[tool] = None
            elif named := self._word(one.get(tool, ()), two.get(tool, ())):
                found[tool] = named
        return found

    def _rules(self) -> Iterable[_MergedPermission]:
        """The rules of both; what both say is said once."""
        one = [*zip(map(bare, self.one.rules), places_of(self.one), strict=True)]
        two: list[_MergedPermission] = []
        for said, was in zip(self.two.rules, places_of(self.old), strict=True):
            rule, place = bare(said), was
            if not self.kin and rule.quota is not None and is_per_run(rule.quota):
                # What strangers count in their run is another quota, whatever its name is.
                place = next((where for mine, where in one if mine == rule), None)
            two.append(_MergedPermission(rule, place, was.key if was is not None else ""))
        for rule, place in one:
            came = next((each.came for each in two if each[:2] == (rule, place)), None)
            if rule.agents is None or came is not None:
                yield _MergedPermission(rule, place, came or "")
            elif named := self._word(rule.agents, ()):
                yield _MergedPermission(rule.model_copy(update={"agents": named}), place)
        for each in two:
            if each[:2] not in one and (named := self._word((), each.rule.agents)):
                yield each._replace(rule=each.rule.model_copy(update={"agents": named}))

    # -- what it is called now ---------------------------------------------------------------

    def nodes(
        self, before: Mapping[NodeName, AgentName], crew: CrewDefinition
    ) -> dict[NodeName, NodeName]:
        """The nodes of those who come, by those that they had."""
        now = {str(agent): node for node, agent in wake_nodes(crew).items()}
        return {node: now[self.names.agent(was)] for node, was in before.items()}

    def quotas(self, crew: CrewDefinition) -> dict[str, str]:
        """The keys of quotas that are others for those who come."""
        now = {each.place: each.key for each in definition_permissions(crew)}
        pairs = ((each.came, now.get(n, "")) for n, each in enumerate(self.rules))
        return {came: key for came, key in pairs if came and key not in ("", came)}


def _by_kind(renamed: Iterable[Rename], kind: str) -> dict[str, str]:
    return {each.was: each.now for each in renamed if each.kind == kind}


def _phases(crew: CrewDefinition) -> frozenset[str]:
    """The names of the phases of a crew's flow, with those of its builders."""
    return frozenset(phase.name for phase in phases(expand(crew).definition))


def _channels(crew: CrewDefinition) -> set[str]:
    """The channels that a crew names, those among them that nobody listens or sends to."""
    found = {*channels_of(crew), *crew.logs}
    for agent in crew.agents.values():
        logs = (*agent.reads, *agent.writes, *(agent.shares or ()))
        found.update(log.removeprefix(CHANNEL) for log in logs if log.startswith(CHANNEL))
    return found
