"""The definition of the surviving run of a run merge.

    merged_definition(one, two, surviving=…, merged=…, edge=…, asks=…) -> MergedDefinition

The agents of the merged run are added to the definition of the surviving run. The run of an agent
decides its settings, its groups and its permissions, so that no agent gains rights by a merge.

The surviving run decides what holds for the whole crew: its name, limits, interrupts, checkpoints,
time zone, memory and root agent. Where they differ, the model, window and inherited tools of
the merged run are written at each of its agents; its permissions for every agent are restricted to
its agents; its root agent stays privileged. Permissions of the surviving run for every agent apply
to all agents.
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
"""What both crews may have under one name only if it is equal."""
_EDGE: TypeAdapter[Connect | Wire] = TypeAdapter(Connect | Wire)


class MergedDefinition(NamedTuple):
    """The result of a merge of two definitions."""

    definition: CrewDefinition
    renamed: tuple[Rename, ...]
    change: ComponentChange
    comes: tuple[AgentName, ...]
    """The agents of the merged run, by their new names."""
    nodes: dict[NodeName, NodeName]
    """The wake nodes of these agents: the new name by the old one."""
    fresh: frozenset[NodeName]
    """The new wake nodes whose agents were not in the surviving run before, or had another wake
    node there; their steps get new numbers."""
    quotas: dict[str, str]
    """The keys of quotas that change: the new key by the old one."""


def merged_definition(
    one: CrewDefinition,
    two: CrewDefinition,
    *,
    surviving: RunId,
    merged: RunId,
    edge: Mapping[str, Json],
    asks: RunId,
    family: Collection[RunId] = (),
    gone: Collection[str] = (),
) -> MergedDefinition:
    """The definition of two runs, with the operation that connects them.

    Args:
        one: The definition of the surviving run.
        two: The definition of the merged run.
        surviving: The surviving run.
        merged: The merged run.
        edge: A `connect` or a `wire`, each end by its name in its own run.
        asks: The run of the sender.
        family: The lineage of the merged run: remote agents in one of these runs return.
        gone: Agents that were removed from the surviving run. An agent of another lineage with
            such a name gets a new one, so that it does not get their turns and notes.

    Raises:
        ComponentConflict: the definitions cannot be merged.
    """
    if asks not in (surviving, merged):
        raise ComponentConflict(
            f"the run {asks!r} of the operation is neither {surviving!r} nor {merged!r}",
            remedy="Name the run of the other agent.",
        )
    components = {surviving: expanded_component(one), merged: expanded_component(two)}
    if one.policy != two.policy:
        raise ComponentConflict(
            f"the runs {surviving!r} and {merged!r} have different policies",
            remedy="Change the 'policy' of one of them, so that both are the same.",
        )
    if components[merged].flow or two.flow:
        raise ComponentConflict(
            f"cannot merge the run {merged!r}: it has a flow",
            remedy="Wait until its flow has ended, or let people pass messages between the runs.",
        )
    returning_from = {merged, *family}
    agents = creatures_of(two)
    renamed = {n for n in agents if n in one.away and one.away[n] not in returning_from}
    # A phase keeps its name: the wake node of an agent with this name would change.
    phase_names = _phase_names(one)
    renamed |= {n for n in agents if n in phase_names and n not in one.away}
    removed = {*gone} - {*one.agents} if surviving not in family else set[str]()
    renamed |= removed.intersection(agents)
    channels = _channels(one), _channels(two)
    # No new name is one that an agent of either run has or had.
    reserved = {*one.agents, *two.agents, *phase_names, *removed}.union(*channels)
    component = merged_component(
        _parse_edge(edge), asks, components, surviving, taken=renamed, reserved=reserved
    )
    channels[1].difference_update(components[merged].channels)
    merge = _DefinitionMerge(
        one, two, surviving, merged, component, returning_from, channels, phase_names
    )
    crew = _with_edge(merge.crew(), component.edge)
    change = change_of_components(components, {surviving: expanded_component(crew)}, merge.renamed)
    old_nodes = wake_nodes(two)
    nodes = merge.nodes(old_nodes, crew)
    return MergedDefinition(
        definition=crew,
        renamed=merge.renamed,
        change=change,
        comes=tuple(map(AgentName, sorted(merge.merged_agents))),
        nodes=nodes,
        fresh=frozenset(
            nodes[node]
            for node, agent in old_nodes.items()
            if merge.names.agent(agent) not in one.away or nodes[node] != node
        ),
        quotas=merge.quotas(crew),
    )


def _parse_edge(edge: Mapping[str, Json]) -> Connect | Wire:
    if edge.get("op") not in ("connect", "wire"):
        raise ComponentConflict(
            f"the operation {edge.get('op')!r} does not connect two runs",
            remedy="Use 'connect' or 'wire'.",
        )
    return _EDGE.validate_python(edge)


def _with_edge(crew: CrewDefinition, edge: Connect | Wire) -> CrewDefinition:
    """The crew with the edge, which `merged_component` has checked."""
    return connect(crew, edge) if isinstance(edge, Connect) else wire(crew, edge)


class _MergedPermission(NamedTuple):
    """A permission of the merged definition."""

    rule: Rule
    counted: Counted | None
    """The counter of its quota; none: the one of its own key."""
    old_key: str = ""
    """The key of its quota in the merged run."""


class _DefinitionMerge:
    """Merges two definitions, without the edge between them."""

    def __init__(
        self,
        one: CrewDefinition,
        two: CrewDefinition,
        surviving: RunId,
        merged: RunId,
        component: MergedComponent,
        returning_from: Collection[RunId],
        logs: tuple[Collection[str], Collection[str]],
        phase_names: frozenset[str],
    ) -> None:
        """Args as of `merged_definition`.

        `logs` are the channels that each definition names; of the second one, without those of its
        component. `phase_names` are those of the surviving run.
        """
        self.one, self.surviving, self.merged, self.component = one, surviving, merged, component
        self.original_two = two
        self.policy = one.graph or GraphPolicy()
        policy = two.graph or GraphPolicy()
        agents = _by_kind(component.renamed, "agent")
        channels = _by_kind(component.renamed, "channel")
        # They were one run before: equal names mean the same.
        self.were_one_run = surviving in policy.away.values() or not {*returning_from}.isdisjoint(
            self.policy.away.values()
        )
        remote = self._third_run_agents(policy.away)
        conflicts = [n for n in remote if n in one.agents or n in phase_names]
        agents |= free_names(conflicts, {*one.agents, *two.agents, *phase_names, *agents.values()})
        if not self.were_one_run:
            channels |= free_names(logs[1], {*logs[0], *component.channels})
        groups = {} if self.were_one_run else self._group_names(two, NewNames(agents, channels))
        self.names = NewNames(agents, channels, groups)
        self.two = self._with_new_names(two)
        self.merged_agents = frozenset(map(self.names.agent, creatures_of(two)))
        """The agents of the merged run, by their new names."""
        self.remote = {self.names.agent(name): run for name, run in remote.items()}
        """The remote agents of the merged run that the surviving run does not have."""
        self.renamed = (*component.renamed, *self._further_renames(component.renamed))
        self.rules = tuple(self._rules())

    def _third_run_agents(self, away: Mapping[str, str]) -> dict[str, str]:
        """Remote agents in a third run that the surviving run does not have.

        An agent with a name of the surviving run is another one if neither the run nor the
        definition is the same. One that should be in the surviving run, and is not, was removed: it
        is dropped unless the merged definition names it.
        """
        return {
            name: run
            for name, run in away.items()
            if (
                not (
                    self.were_one_run
                    or run in (self.surviving, self.policy.away.get(name))
                    or self.one.agents[name] == self.original_two.agents[name]
                )
                if name in self.one.agents
                else run != self.surviving or self._is_named(name)
            )
        }

    def _is_named(self, name: str) -> bool:
        """Whether an agent or a permission of the merged run names an agent."""
        two = self.original_two
        agents = (two.agents[each] for each in creatures_of(two))
        text = json.dumps([each.to_json() for each in (*agents, *two.rules)])
        return re.search(rf"\b{re.escape(name)}\b", f"{text} {[*two.merge]}") is not None

    def _group_names(self, two: CrewDefinition, names: NewNames) -> dict[str, str]:
        """New names of groups that the surviving run has with other members."""
        conflicts = [
            group
            for group, members in two.groups.items()
            if group in self.one.groups and {*names.members(members)} != {*self.one.groups[group]}
        ]
        return free_names(conflicts, {*self.one.groups, *two.groups})

    def _further_renames(self, renamed: Iterable[Rename]) -> Iterable[Rename]:
        known = {(each.kind, each.was) for each in renamed}
        kinds: Sequence[tuple[Literal["agent", "channel", "group"], Mapping[str, str]]] = (
            ("agent", self.names.agents),
            ("channel", self.names.channels),
            ("group", self.names.groups),
        )
        for kind, names in kinds:
            for was, now in sorted(names.items()):
                if was != now and (kind, was) not in known:
                    yield Rename(kind=kind, run=self.merged, was=was, now=now)

    def _with_new_names(self, two: CrewDefinition) -> CrewDefinition:
        """The definition of the merged run with the new names."""
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
        self._check_shared_names()
        update: dict[str, Any] = {
            "agents": self._agents(),
            "channels": self._channels(),
            "graph": self._graph_policy(),
            "groups": self._merged_groups(),
            "permissions": self._permissions(),
            "approvals": self._approvals(),
            "rules": tuple(each.rule for each in self.rules),
            "merge": {**two.merge, **one.merge},
            **{key: {**getattr(two, key), **getattr(one, key)} for key in _SHARED},
        }
        # What does not change is written as the surviving run has it.
        changed = {key: value for key, value in update.items() if value != getattr(one, key)}
        return counting_at(one.model_copy(update=changed), [each.counted for each in self.rules])

    def _check_shared_names(self) -> None:
        """Checks that no name means different things in the two definitions."""
        one, two = self.one, self.two
        for key, what in (*_SHARED.items(), ("merge", "reducer of")):
            first, second = getattr(one, key), getattr(two, key)
            conflicts = sorted(n for n in first.keys() & second.keys() if first[n] != second[n])
            if conflicts:
                raise ComponentConflict(
                    f"the runs {self.surviving!r} and {self.merged!r} define the "
                    f"{what} {', '.join(map(repr, conflicts))} differently",
                    remedy=f"Change {key!r} of one of them: use another name, or the same "
                    "definition.",
                )
        if two.memory != one.memory:  # the agents would read and write each other's memory
            has, lacks = (
                (self.merged, self.surviving)
                if two.memory is not None
                else (self.surviving, self.merged)
            )
            raise ComponentConflict(
                f"the run {has!r} has a memory that the run {lacks!r} does not have",
                remedy=f"Write the same 'memory' in both, or remove it from {has!r}.",
            )

    def _agents(self) -> dict[str, AgentDefinition]:
        agents = dict(self.one.agents)
        for name, agent in self.two.agents.items():
            if name in self.merged_agents:
                agents[name] = self._with_crew_settings(name, agent)
            elif name in self.remote:
                agents[name] = agent
        return agents

    def _with_crew_settings(self, name: str, agent: AgentDefinition) -> AgentDefinition:
        """An agent of the merged run, with the settings that its crew has for all agents."""
        one, two = self.one, self.two
        update: dict[str, Any] = {}
        if agent.model is None and not agent.does and two.model != one.model:
            update["model"] = two.model
        if agent.window is None and two.window != one.window:
            update["window"] = two.window or Window()
        if agent.tools is None and {*one.tools} - {*two.tools}:
            update["tools"] = tuple(sorted(two.tools))  # as they were inherited
        root = two.graph.root if two.graph is not None else None
        if root is not None and self.names.agent(root) == name and self.policy.root != name:
            update["privileged"] = True
        return agent.model_copy(update=update) if update else agent

    def _channels(self) -> dict[str, ChannelDefinition]:
        channels = dict(self.one.channels)
        others = {self.names.channel(n): each for n, each in self.two.channels.items()}

        @cache  # there may be hundreds of channels, and most of them are equal
        def build_channel(description: str | None, born: str) -> ChannelDefinition:
            return ChannelDefinition(description=description, born=born)

        for name, channel in self.component.channels.items():
            definition = channels.get(name) or others.get(name)
            if definition is None and not channel.born:
                continue  # it needs no definition
            description = definition.description if definition is not None else None
            if definition is None or definition.born != channel.born:
                definition = build_channel(description, channel.born)
            channels[name] = definition
        return channels

    def _graph_policy(self) -> GraphPolicy:
        others = (self.two.graph or GraphPolicy()).away
        away: dict[str, str] = {}
        for name, run in self.policy.away.items():
            if name not in self.merged_agents:
                # The merged run knows where its former agents are.
                away[name] = others.get(name, run) if run == self.merged else run
        away |= self.remote
        return self.policy.model_copy(update={"away": dict(sorted(away.items()))})

    # -- permissions -------------------------------------------------------------------------

    def _merge_names(self, one: Sequence[str] | None, two: Sequence[str] | None) -> tuple[str, ...]:
        """The agents of two lists; for agents of the merged run, the second list decides."""
        own = {*self.merged_agents, *self.remote}
        first = tuple(self.one.agents) if one is None else one
        second = tuple(self.two.agents) if two is None else two
        added = {n for n in second if n in own or n.startswith(GROUP)}
        kept = [n for n in first if n not in own or n in added]
        return tuple(dict.fromkeys((*kept, *(n for n in second if n in added))))

    def _merged_groups(self) -> dict[str, tuple[str, ...]]:
        one, two = self.one.groups, self.two.groups
        return {
            group: self._merge_names(one.get(group, ()), two.get(group, ()))
            for group in dict.fromkeys((*one, *two))
        }

    def _permissions(self) -> dict[str, tuple[str, ...] | None]:
        one, two = self.one, self.two
        permissions = dict(one.permissions)
        inherit = any(agent.tools is None and not agent.does for agent in one.agents.values())
        for tool in dict.fromkeys((*one.permissions, *two.permissions, *two.tools)):
            first, second = one.permissions.get(tool), two.permissions.get(tool)
            if first == second and (tool in one.callable_tools or not inherit):
                continue
            if tool not in one.callable_tools:
                if second is not None or inherit:
                    permissions[tool] = self._merge_names((), second)
            elif tool in two.callable_tools:
                permissions[tool] = self._merge_names(first, second)
        return permissions

    def _approvals(self) -> dict[str, tuple[str, ...] | None]:
        one, two = self.one.approvals, self.two.approvals
        approvals: dict[str, tuple[str, ...] | None] = {}
        for tool in dict.fromkeys((*one, *two)):
            if tool in one and one[tool] is None:
                approvals[tool] = None
            elif agents := self._merge_names(one.get(tool, ()), two.get(tool, ())):
                approvals[tool] = agents
        return approvals

    def _rules(self) -> Iterable[_MergedPermission]:
        """The permissions of both definitions, without duplicates."""
        one = [*zip(map(bare, self.one.rules), places_of(self.one), strict=True)]
        two: list[_MergedPermission] = []
        for original, counter in zip(self.two.rules, places_of(self.original_two), strict=True):
            rule, place = bare(original), counter
            if not self.were_one_run and rule.quota is not None and is_per_run(rule.quota):
                # Quotas per run of unrelated runs are different quotas, even with one key.
                place = next((where for other, where in one if other == rule), None)
            two.append(_MergedPermission(rule, place, counter.key if counter is not None else ""))
        for rule, place in one:
            old_key = next((each.old_key for each in two if each[:2] == (rule, place)), None)
            if rule.agents is None or old_key is not None:
                yield _MergedPermission(rule, place, old_key or "")
            elif agents := self._merge_names(rule.agents, ()):
                yield _MergedPermission(rule.model_copy(update={"agents": agents}), place)
        for each in two:
            if each[:2] not in one and (agents := self._merge_names((), each.rule.agents)):
                yield each._replace(rule=each.rule.model_copy(update={"agents": agents}))

    # -- new names ---------------------------------------------------------------------------

    def nodes(
        self, old_nodes: Mapping[NodeName, AgentName], crew: CrewDefinition
    ) -> dict[NodeName, NodeName]:
        """The new wake nodes of the merged run's agents, by the old ones."""
        new = {str(agent): node for node, agent in wake_nodes(crew).items()}
        return {node: new[self.names.agent(agent)] for node, agent in old_nodes.items()}

    def quotas(self, crew: CrewDefinition) -> dict[str, str]:
        """The changed keys of quotas: the new key by the old one."""
        keys = {each.place: each.key for each in definition_permissions(crew)}
        pairs = ((each.old_key, keys.get(n, "")) for n, each in enumerate(self.rules))
        return {old: new for old, new in pairs if old and new not in ("", old)}


def _by_kind(renamed: Iterable[Rename], kind: str) -> dict[str, str]:
    return {each.was: each.now for each in renamed if each.kind == kind}


def _phase_names(crew: CrewDefinition) -> frozenset[str]:
    """The names of the phases of a crew's flow, with those of its builders."""
    return frozenset(phase.name for phase in phases(expand(crew).definition))


def _channels(crew: CrewDefinition) -> set[str]:
    """All channels that a definition names, with those that no agent reads or writes."""
    channels = {*channels_of(crew), *crew.logs}
    for agent in crew.agents.values():
        logs = (*agent.reads, *agent.writes, *(agent.shares or ()))
        channels.update(log.removeprefix(CHANNEL) for log in logs if log.startswith(CHANNEL))
    return channels
