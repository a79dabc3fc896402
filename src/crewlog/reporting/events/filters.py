"""Filters that select events by kind, agent, run and channel.

    EventFilter(kinds={"CREATURE_STARTED"}, agents={"scout"})

The kinds of an event are the kind of its journal entry and the changes of components in it:
`ComponentChanged` and `RunMerged` are also `TOPOLOGY_CHANGED`, and each of the component events
that they hold. A filter checks each of these aspects by itself: the start of `late` does not match
a filter for `scout`, although the same entry affects `scout`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, get_args

from crewlog.definition.audiences import CHANNEL
from crewlog.definition.creatures import INBOX
from crewlog.definition.findings import did_you_mean, listed
from crewlog.errors import UsageError
from crewlog.ids import RunId, node_of
from crewlog.reporting.events.view import Event
from crewlog.state import journal as j

TOPOLOGY_CHANGED = "TOPOLOGY_CHANGED"
SESSION_FORKED = "SESSION_FORKED"
GRAPH_EVENTS: tuple[str, ...] = (
    *get_args(j.ComponentEvent.model_fields["event"].annotation),
    TOPOLOGY_CHANGED,
    *(f"{TOPOLOGY_CHANGED}:{change}" for change in ("merge", "split", "nothing")),
)
"""The names of changes of components, agents with channels and runs."""
ENTRY_KINDS: tuple[str, ...] = tuple(
    str(each.model_fields["kind"].default) for each in get_args(get_args(j.JournalEntry)[0])
)
"""The kinds of journal entries."""
_RUN_EVENTS = ("SESSION_FORKED", "CREATURE_SESSION_ATTACHED")
"""Component events that name a run."""
_CHANGES = (j.ComponentChanged, j.RunMerged)


_NO_AGENT = ("",)
"""A name that no agent has."""


class Aspect(NamedTuple):
    """An entry, or one component event in it."""

    kinds: frozenset[str]
    """Its kinds."""
    agents: frozenset[str]
    """The agents that it concerns."""
    graphs: frozenset[str]
    """The runs that it names, without the run of the journal."""
    channels: frozenset[str]
    """The channels that it names."""


@dataclass(frozen=True)
class EventFilter:
    """Selects events with an aspect that matches every field; an empty field matches all.

    Raises:
        UsageError: there is no such kind of event.
    """

    kinds: Collection[str] = ()
    """Kinds of journal entries (`ToolCallCompleted`) and changes of components
    (`CREATURE_STARTED`, `TOPOLOGY_CHANGED`, `TOPOLOGY_CHANGED:split`)."""
    agents: Collection[str] = ()
    """Agents that the event concerns: that act, read the message, or are affected."""
    graphs: Collection[str] = ()
    """The runs of the event: of its journal, or named in it."""
    channels: Collection[str] = ()
    """Channels of a message or an output wire, with or without `channel:`."""

    def __post_init__(self) -> None:
        for each in fields(self):
            values: Collection[str] = getattr(self, each.name)
            names = frozenset([values] if isinstance(values, str) else values)
            object.__setattr__(self, each.name, names)
        bare = frozenset(name.removeprefix(CHANNEL) for name in self.channels)
        object.__setattr__(self, "channels", bare)
        known = (*GRAPH_EVENTS, *ENTRY_KINDS)
        for kind in sorted(self.kinds):
            if kind not in known:
                raise UsageError(
                    f"there is no event of the kind {kind!r}",
                    remedy=did_you_mean(
                        kind, known, f"Kinds of components: {listed(GRAPH_EVENTS)}; else a kind of "
                        "journal entry, as `crewlog log` has it."
                    ),
                )  # fmt: skip

    @property
    def all(self) -> bool:
        """Whether it selects every event."""
        return not (self.kinds or self.agents or self.graphs or self.channels)

    def after_merge(self, merged: j.RunMerged) -> EventFilter:
        """The filter of a merged run, for the surviving run: with the agents' new names.

        It leaves out agents that the merge did not bring: the surviving run may have other agents
        with these names.
        """
        names = {(each.kind, each.was): each.now for each in merged.renames}
        agents = {names.get(("agent", each), each) for each in self.agents}
        channels = {names.get(("channel", each), each) for each in self.channels}
        merged_agents = {str(each) for each in merged.merged_agents}
        # An empty set would match all agents.
        left = agents & merged_agents or (_NO_AGENT if self.agents else ())
        return replace(self, agents=left, channels=channels)

    def union(self, other: EventFilter) -> EventFilter:
        """The filter that also selects the agents and channels of another one."""
        agents, channels = {*self.agents, *other.agents}, {*self.channels, *other.channels}
        return replace(self, agents=agents, channels=channels)

    def __call__(self, event: Event) -> bool:
        """Whether it selects an event."""
        return any(self._matches(event.run, each) for each in aspects(event.entry))

    def _matches(self, run: RunId, aspect: Aspect) -> bool:
        fields_of_aspect: tuple[tuple[Collection[str], frozenset[str]], ...] = (
            (self.kinds, aspect.kinds),
            (self.agents, aspect.agents),
            (self.graphs, aspect.graphs | {run}),
            (self.channels, aspect.channels),
        )
        return all(not wanted or not found.isdisjoint(wanted) for wanted, found in fields_of_aspect)


def aspects(entry: j.JournalEntry) -> Iterator[Aspect]:
    """The aspects of an entry: the entry itself, and each component event in it."""
    names: set[str] = {entry.kind}
    if isinstance(entry, _CHANGES):
        names |= {TOPOLOGY_CHANGED, f"{TOPOLOGY_CHANGED}:{entry.change}"}
    elif isinstance(entry, j.RunForked):
        names.add(SESSION_FORKED)
    agents = frozenset(str(name).removesuffix(INBOX) for name in _agents(entry) if name)
    graphs = frozenset(str(run) for run in _graphs(entry))
    channels = frozenset(
        log.removeprefix(CHANNEL) for log in _logs(entry) if log.startswith(CHANNEL)
    )
    yield Aspect(frozenset(names), agents, graphs, channels)
    for event in entry.events if isinstance(entry, (*_CHANGES, j.DefinitionChanged)) else ():
        yield _aspect(event)


def _aspect(event: j.ComponentEvent) -> Aspect:
    kinds = frozenset({event.event})
    agent = frozenset({str(event.agent)})
    none: frozenset[str] = frozenset()
    to = frozenset({event.to} - {""})
    if event.event in _RUN_EVENTS:
        return Aspect(kinds, agent, to, none)
    if event.to.startswith(CHANNEL):
        return Aspect(kinds, agent, none, frozenset({event.to.removeprefix(CHANNEL)}))
    return Aspect(kinds, agent | to, none, none)


def _agents(entry: j.JournalEntry) -> Iterator[str]:
    """The nodes and agents that an entry names."""
    match entry:
        case j.AgentsWoken():
            yield from (entry.by, *entry.to, *entry.also)
        case j.NodesReached():
            yield from (entry.source or "", *(each.node for each in entry.to))
        case j.BreakpointSet() | j.StepRedirected():
            yield entry.node
        case j.ComponentChanged() | j.RunMerged():
            yield from entry.affected_creatures
            yield from (each.agent for each in entry.events)
        case j.ToolPermissionSet():
            yield from entry.agents or ()
        case j.InterruptRaised():
            yield node_of(entry.interrupt.step) if entry.interrupt.step else ""
        case _:
            pass
    yield str(_field(entry, "agent"))
    yield node_of(_field(entry, "step"))


def _graphs(entry: j.JournalEntry) -> Iterator[str]:
    match entry:
        case j.ComponentChanged() | j.RunMerged():
            yield from (*entry.old_graph_ids, *entry.new_graph_ids)
        case j.RunForked():
            yield entry.source
        case j.RunEndedByMerge():
            yield entry.run
        case _:
            yield str(_field(entry, "other"))  # of a pending merge
    yield from entry.log_source_run_ids


def _logs(entry: j.JournalEntry) -> Iterator[str]:
    """The logs that an entry names."""
    for ref in (entry.message, _field(entry, "ref")):
        if isinstance(ref, j.MessageRef):
            yield from ref.logs
    yield from _field(entry, "logs")
    yield str(_field(entry, "log"))
    yield from (each.log for each in entry.log_merges)


def _field(entry: j.JournalEntry, name: str) -> Any:
    return getattr(entry, name, None) or ""


def successors(event: Event) -> dict[RunId, int]:
    """The runs that continue a run after a split or a run merge, by an event of it.

    Returns:
        By run, the position after which its journal has new entries.
    """
    entry = event.entry
    if isinstance(entry, j.ComponentChanged) and entry.change == "split":
        return {run: 0 for run in entry.new_graph_ids if run != event.run}
    if isinstance(entry, j.RunEndedByMerge):
        return {entry.run: max(entry.position - 1, 0)}
    return {}
