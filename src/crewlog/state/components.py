"""Components: the agents that are connected, and what a change makes of them.

    split_components(run, component, …) the components that one falls into, by run id
    surviving_run_id(components)        which run survives a run merge
    merged_component(edge, …)           two components as one
    change_of_components(old, new)      the `ComponentChange` of an operation

Two agents with channels are connected if both send to or listen to one channel, or by a wire or a
parent link. Components are never declared: each operation derives them anew, with the same result
in every process. Names break ties between equal sizes, and nothing depends on the order of a set.
A flow stays with its run: its component keeps the run id, whatever its size, and others are merged
into it.

Pure. `crewlog.definition.regrouping` applies an operation to a definition, and
`crewlog.graph.lowering.components.component_of` reads the component of a definition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple

from pydantic import Field

from crewlog.canonical_json import hash_json
from crewlog.definition.audiences import CHANNEL
from crewlog.definition.findings import did_you_mean
from crewlog.definition.operations import Connect, Wire
from crewlog.errors import ComponentConflict
from crewlog.ids import AgentName, RunId
from crewlog.model import Model

_ID_KEPT = 160
"""Characters of a run id that the ids of its split runs begin with: ids have a limited length."""
_NAME_LENGTH = 64
"""The most characters of a name."""
_NAMED = 20
"""The most names that a remedy lists."""


class ChannelAgent(Model):
    """An agent with channels, with its connections."""

    listen: tuple[str, ...] = ()
    """The channels whose messages wake it."""
    send: tuple[str, ...] = ()
    """The channels that it may send to."""
    wires: tuple[str, ...] = ()
    """Where its final messages go: agents, or `channel:C`."""
    parent: AgentName | None = None
    """Its parent agent."""
    beside: AgentName | None = None
    """An agent whose component it joined without a channel."""
    privileged: bool = False
    """Whether it has the group tools."""

    @property
    def channels(self) -> frozenset[str]:
        """The channels that it listens to, sends to, or has a wire to."""
        return frozenset((*self.listen, *self.outlets))

    @property
    def outlets(self) -> tuple[str, ...]:
        """The channels that it sends to, or has a wire to."""
        if not self.wires:
            return tuple(dict.fromkeys(self.send))
        wired = (to.removeprefix(CHANNEL) for to in self.wires if to.startswith(CHANNEL))
        return tuple(dict.fromkeys((*self.send, *wired)))

    @property
    def linked_agents(self) -> Iterator[AgentName]:
        """The agents that it is connected with by wires and parent links."""
        yield from (AgentName(to) for to in self.wires if not to.startswith(CHANNEL))
        yield from (each for each in (self.parent, self.beside) if each is not None)


class Channel(Model):
    """A channel of a component."""

    born: str = ""
    """The run in which it was made; empty: the run that has it. Two channels are the same if their
    name and this are. It is set when a channel moves to another run, since two runs of one recipe
    have different channels with equal names."""
    about: str = ""
    """Its purpose, for the agents that use it."""


class Component(Model):
    """The agents with channels of a run, and their channels."""

    agents: dict[AgentName, ChannelAgent] = Field(default_factory=dict[AgentName, ChannelAgent])
    channels: dict[str, Channel] = Field(default_factory=dict[str, Channel])
    flow: tuple[AgentName, ...] = ()
    """The agents of the flow, which are in one component."""

    def listeners(self, channel: str, sender: AgentName | None = None) -> tuple[AgentName, ...]:
        """The agents that a message in a channel wakes, by name; never its sender."""
        return tuple(
            sorted(
                name
                for name, agent in self.agents.items()
                if channel in agent.listen and name != sender
            )
        )


Components = Mapping[RunId, Component]
"""Components by run id. No agent and no channel is in two of them; names may repeat."""


class Rename(Model):
    """A new name in a run merge, for one that exists in the surviving run already."""

    kind: Literal["agent", "channel", "group"]
    run: RunId
    """The merged run."""
    was: str
    now: str


class ComponentChange(Model):
    """The change of components by one operation (C110)."""

    kind: Literal["merge", "split", "nothing"] = "nothing"
    old_graph_ids: tuple[RunId, ...] = ()
    """The run ids of the components before, sorted."""
    new_graph_ids: tuple[RunId, ...] = ()
    """The run ids of the components after, sorted."""
    affected_creatures: tuple[AgentName, ...] = ()
    """After a merge or a split: the agents whose component has other agents. Else the agents that
    were added, removed, or have other neighbors. By their new names, sorted."""
    renamed: tuple[Rename, ...] = ()
    """The renames of a merge."""


def change_of_components(
    old: Components, new: Components, renamed: tuple[Rename, ...] = ()
) -> ComponentChange:
    """The change between components before and after an operation.

    Args:
        old: The components before.
        new: The components after: as many; more, by `split_components`; or one of several.
        renamed: The renames.
    """
    kinds: dict[bool, Literal["merge", "split"]] = {True: "split", False: "merge"}
    same = len(new) == len(old)
    return ComponentChange(
        kind="nothing" if same else kinds[len(new) > len(old)],
        old_graph_ids=tuple(sorted(old)),
        new_graph_ids=tuple(sorted(new)),
        affected_creatures=(affected_agents if same else _agents_in_other_components)(
            old, new, renamed
        ),
        renamed=renamed,
    )


def connected_agents(component: Component) -> list[tuple[AgentName, ...]]:
    """The connected sets of agents, each by name. The first one keeps the run id.

    The one with the flow is first, then the largest; of two equal ones, the one whose first name is
    smaller.
    """
    parents: dict[AgentName, AgentName] = {name: name for name in component.agents}

    def root(of: AgentName) -> AgentName:
        while parents[of] != of:
            parents[of] = parents[parents[of]]
            of = parents[of]
        return of

    def connect(one: AgentName, two: AgentName) -> None:
        first, second = root(one), root(two)
        parents[second] = first

    first_on_channel: dict[str, AgentName] = {}
    for name, agent in component.agents.items():
        for channel in _channels(agent):
            if (first_agent := first_on_channel.setdefault(channel, name)) != name:
                connect(first_agent, name)
        for other in agent.linked_agents:
            if other in parents:
                connect(other, name)
    flow = [name for name in component.flow if name in parents]
    for one, two in pairwise(flow):
        connect(one, two)
    members: dict[AgentName, list[AgentName]] = {}
    for name in sorted(parents):
        members.setdefault(root(name), []).append(name)
    flow_root = root(flow[0]) if flow else None
    order = sorted(members, key=lambda of: (of != flow_root, -len(members[of]), members[of][0]))
    return [tuple(members[of]) for of in order]


def _channels(agent: ChannelAgent) -> Iterator[str]:
    """An agent's channels, in the order of the definition; some more than once."""
    yield from agent.listen
    yield from agent.send
    for to in agent.wires:
        if to.startswith(CHANNEL):
            yield to.removeprefix(CHANNEL)


def surviving_run_id(components: Components) -> RunId:
    """The run that survives a run merge: the first by `survival_order`."""

    def order(run: RunId) -> tuple[bool, int, RunId]:
        component = components[run]
        return survival_order(run, len(component.agents), has_flow=bool(component.flow))

    return min(components, key=order)


def survival_order(run: RunId, agents: int, *, has_flow: bool) -> tuple[bool, int, RunId]:
    """The place of a run among those of a run merge: the first one survives.

    A run with a flow comes first, since no other run can continue its flow, then the one with most
    agents, then the first by id.
    """
    return not has_flow, -agents, run


class AgentNeighbors(NamedTuple):
    """The part of its component that an agent sees.

    A privileged agent, which may change the component, sees all of it.
    """

    own: ChannelAgent
    """Its own connections."""
    senders: tuple[tuple[str, tuple[AgentName, ...]], ...]
    """By channel that it listens to: the agents that send to it."""
    listeners: tuple[tuple[str, tuple[AgentName, ...]], ...]
    """By channel that it sends to, or has a wire to: the agents that listen to it."""
    wired: tuple[AgentName, ...]
    """The agents with a wire to it."""
    workers: tuple[AgentName, ...]
    """The agents whose parent it is."""
    component: Component | None
    """The whole component, for a privileged agent."""


def agent_neighbors(component: Component, name: AgentName) -> AgentNeighbors:
    """The part of its component that an agent sees."""
    own = component.agents[name]
    others = sorted(component.agents.items())
    outlets = {each: agent.outlets for each, agent in others}
    return AgentNeighbors(
        own=own,
        senders=tuple(
            (channel, tuple(each for each, _ in others if channel in outlets[each]))
            for channel in sorted(own.listen)
        ),
        listeners=tuple(
            (channel, tuple(each for each, agent in others if channel in agent.listen))
            for channel in sorted(own.outlets)
        ),
        wired=tuple(each for each, agent in others if name in agent.wires),
        workers=tuple(each for each, agent in others if agent.parent == name),
        component=component if own.privileged else None,
    )


# -- run merge and split ---------------------------------------------------------------------


def _moved_channels(channels: Mapping[str, Channel], from_: RunId, to: RunId) -> dict[str, Channel]:
    """The channels of one run in another run, which may be the one in which they were made."""
    source, target = _run_label(from_), _run_label(to)

    @cache
    def in_target(born: str, about: str) -> Channel:
        return Channel(born="" if born == target else born, about=about)

    return {name: in_target(each.born or source, each.about) for name, each in channels.items()}


def _run_label(run: RunId) -> str:
    """How `Channel.born` names a run: its id, if that is short."""
    return run if len(run) <= _ID_KEPT else f"{run[:_ID_KEPT]}.{hash_json(run)[:8]}"


def _renames(
    kind: Literal["agent", "channel"], run: RunId, names: Mapping[str, str]
) -> Iterator[Rename]:
    for was, now in sorted(names.items()):
        if was != now:
            yield Rename(kind=kind, run=run, was=was, now=now)


def free_names(
    names: Iterable[str], taken: Collection[str], reserved: Collection[str] = ()
) -> dict[str, str]:
    """A free name for each: its own, or with the first number behind it that makes it free.

    A name that is too long for the number is cut.

    Args:
        names: The wanted names.
        taken: The names of others.
        reserved: Names that nothing is renamed to.
    """
    result: dict[str, str] = {}
    wanted = sorted(names)
    unavailable = {*taken, *wanted, *reserved}
    for name in wanted:
        if name not in taken:
            result[name] = name
            continue
        number, candidate = 2, name
        while candidate in unavailable:
            end = f"-{number}"
            candidate = name[: _NAME_LENGTH - len(end)] + end
            number += 1
        result[name] = candidate
        unavailable.add(candidate)
    return result


class MergedComponent(NamedTuple):
    """Two components as one."""

    edge: Connect | Wire
    """What connects them, with the names in the merged component."""
    channels: dict[str, Channel]
    renamed: tuple[Rename, ...]
    """The renames of the merged run."""


def merged_component(
    edge: Connect | Wire,
    source: RunId,
    components: Components,
    surviving: RunId,
    *,
    taken: Collection[str] = (),
    reserved: Collection[str] = (),
) -> MergedComponent:
    """Two components as one, with what connects them.

    Channels with the same name and `born` are the same. Anything else in the merged run whose name
    exists in the surviving run gets another name.

    Args:
        edge: What connects them, with the names of each run.
        source: The run of its sender, or of the agent with the wire.
        components: The two components.
        surviving: The surviving run, by `surviving_run_id`.
        taken: Further names of agents that no agent of the merged run keeps.
        reserved: Names that nothing is renamed to.

    Raises:
        ComponentConflict: a name is unknown in its own run.
    """
    (other,), (merged,) = {*components} - {source}, {*components} - {surviving}
    # Each name is checked in its own run: in the merged component any agent would pass.
    own_component, other_component = components[source], components[other]
    if isinstance(edge, Connect):
        _check_agent(own_component, edge.sender, source)
        _check_agent(other_component, edge.listener, other)
    else:
        _check_agent(own_component, edge.name, source)
        _check_wire_target(other_component, edge.to, other)
    channels, renamed = _merged_channels(surviving, merged, components, taken, reserved)
    new_names = {(each.kind, each.was): each.now for each in renamed}

    def name(kind: Literal["agent", "channel"], old_name: str, run: RunId) -> str:
        return new_names.get((kind, old_name), old_name) if run == merged else old_name

    if isinstance(edge, Connect):
        update = {
            "sender": name("agent", edge.sender, source),
            "listener": name("agent", edge.listener, other),
            # A channel that the sender's run does not have keeps its name, which is free there.
            "channel": name("channel", edge.over, source),
        }
    elif edge.to.startswith(CHANNEL):
        to = CHANNEL + name("channel", edge.to.removeprefix(CHANNEL), other)
        update = {"name": name("agent", edge.name, source), "to": to}
    else:
        update = {
            "name": name("agent", edge.name, source),
            "to": name("agent", edge.to, other),
        }
    return MergedComponent(edge.model_copy(update={**update, "other": None}), channels, renamed)


def _merged_channels(
    surviving: RunId,
    merged: RunId,
    components: Components,
    taken: Collection[str],
    reserved: Collection[str],
) -> tuple[dict[str, Channel], tuple[Rename, ...]]:
    """The channels of both runs, and the renames of the merged run."""
    one, two = components[surviving], components[merged]
    agent_names = free_names(two.agents, {*one.agents, *taken}, reserved)
    merged_channels = _moved_channels(two.channels, merged, surviving)
    surviving_channels = _moved_channels(one.channels, surviving, surviving)
    distinct = [
        name
        for name, channel in merged_channels.items()
        if name not in surviving_channels or surviving_channels[name].born != channel.born
    ]
    channel_names = free_names(distinct, surviving_channels, reserved)
    channels = {
        **surviving_channels,
        **{channel_names.get(name, name): each for name, each in merged_channels.items()},
    }
    return channels, (
        *_renames("agent", merged, agent_names),
        *_renames("channel", merged, channel_names),
    )


def split_components(run: RunId, component: Component, command: str) -> dict[RunId, Component]:
    """The components of a run, by run id; the first one keeps the id and the unused channels."""
    parts = connected_agents(component)
    if len(parts) < 2:  # none: a run with channels and no agents
        return {run: component}
    component_number = {
        channel: number
        for number, names in enumerate(parts)
        for name in names
        for channel in _channels(component.agents[name])
    }
    result: dict[RunId, Component] = {}
    for number, names in enumerate(parts):
        id_ = split_run_id(run, command, names[0]) if number else run
        channels = {
            name: channel
            for name, channel in component.channels.items()
            if component_number.get(name, 0) == number
        }
        result[id_] = Component(
            agents={name: component.agents[name] for name in names},
            channels=_moved_channels(channels, run, id_) if number else channels,
            flow=() if number else component.flow,
        )
    return result


def split_run_id(run: RunId, command: str, first: AgentName) -> RunId:
    """The id of a split run, the same in every process.

    Args:
        run: The original run.
        command: The command that splits it.
        first: The first agent of the split run, by name.
    """
    return RunId(f"{run[:_ID_KEPT]}.{hash_json([run, command, first])[:8]}")


def _agents_in_other_components(
    old: Components, new: Components, renamed: Collection[Rename]
) -> tuple[AgentName, ...]:
    """After a merge or a split: the agents whose component has other agents, and those affected."""
    result = {*affected_agents(old, new, renamed)}
    for id_, component in new.items():
        if id_ not in old or old[id_].agents.keys() != component.agents.keys():
            result |= {*component.agents}
    return tuple(sorted(result))


def affected_agents(
    old: Components, new: Components, renamed: Collection[Rename] = ()
) -> tuple[AgentName, ...]:
    """The agents that were added, removed or moved to another run, or that have other neighbors.

    Args:
        old: The components before.
        new: The components after.
        renamed: The renames.
    """
    new_names = {(each.run, each.was): each.now for each in renamed if each.kind == "agent"}
    result: set[AgentName] = set()
    for id_, component in new.items():
        before = old.get(id_)
        result |= (
            {*component.agents}
            if before is None
            else _agents_with_other_neighbors(before, component)
        )
    for id_, component in old.items():
        former = {AgentName(new_names.get((id_, name), name)) for name in component.agents}
        present = new[id_].agents if id_ in new else {}
        result |= former - {*present}
    return tuple(sorted(result))


def _agents_with_other_neighbors(before: Component, after: Component) -> set[AgentName]:
    """The agents of a component that see another part of it than before.

    Only agents that differ are compared: few, even in a large component.
    """
    changed_agents: set[AgentName] = set()
    senders_changed: set[str] = set()
    listeners_changed: set[str] = set()
    connected: set[str] = set()
    for name in {**before.agents, **after.agents}:
        old, new = before.agents.get(name), after.agents.get(name)
        if old is new or old == new:
            continue
        changed_agents.add(name)
        if old is None or new is None:  # it was added or removed, with all its connections
            agent = old or new or ChannelAgent()
            senders_changed.update(agent.outlets)
            listeners_changed.update(agent.listen)
            connected.update(agent.wires)
            if agent.parent is not None:
                connected.add(agent.parent)
            continue
        senders_changed |= {*old.outlets} ^ {*new.outlets}
        listeners_changed |= {*old.listen} ^ {*new.listen}
        connected |= {*old.wires} ^ {*new.wires}
        if old.parent != new.parent:
            connected |= {each for each in (old.parent, new.parent) if each is not None}
    in_both = before.channels.keys() & after.channels.keys()
    about_changed = {
        each for each in in_both if before.channels[each].about != after.channels[each].about
    }
    unchanged = (
        not changed_agents and before.channels == after.channels and before.flow == after.flow
    )
    return {
        name
        for name, neighbor in after.agents.items()
        if name in changed_agents
        or name in connected
        or (neighbor.privileged and not unchanged)
        or not senders_changed.isdisjoint(neighbor.listen)
        or not listeners_changed.isdisjoint(neighbor.send)
        or (about_changed and not about_changed.isdisjoint(neighbor.channels))
        or (neighbor.wires and not listeners_changed.isdisjoint(neighbor.outlets))
    }


# -- errors ----------------------------------------------------------------------------------


def _existing_names(what: str, names: Iterable[str]) -> str:
    names_ = sorted(names)
    if not names_:
        return f"There are no {what}."
    more = f" and {len(names_) - _NAMED} more" if len(names_) > _NAMED else ""
    return f"There are the {what} {', '.join(names_[:_NAMED])}{more}."


def _check_agent(component: Component, name: str, run: RunId) -> None:
    if name not in component.agents:
        raise ComponentConflict(
            f"there is no agent {name!r} with channels in the run {run!r}",
            remedy=did_you_mean(
                name, component.agents, _existing_names("agents", component.agents)
            ),
        )


def _check_wire_target(component: Component, to: str, run: RunId) -> None:
    """Checks that a wire may lead there; a channel must be used by an agent."""
    name = to.removeprefix(CHANNEL)
    if name == to:
        return _check_agent(component, to, run)
    if name not in component.channels:
        raise ComponentConflict(
            f"there is no channel {name!r} in the run {run!r}",
            remedy=did_you_mean(
                name, component.channels, _existing_names("channels", component.channels)
            ),
        )
    if not any(name in _channels(each) for each in component.agents.values()):
        raise ComponentConflict(
            f"no agent of the run {run!r} listens or sends to the channel {name!r}",
            remedy="A channel alone connects no agents: name one that an agent of that run uses.",
        )
    return None
