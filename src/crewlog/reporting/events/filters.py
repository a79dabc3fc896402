"""Which events an observer wants: by kind, by creature, by graph and by channel.

    EventFilter(kinds={"CREATURE_STARTED"}, creatures={"scout"})

An event has the name of its journal entry, and what it means for a graph: `ComponentChanged` and
`RunMerged` are `TOPOLOGY_CHANGED`, and besides each of the graph events that they hold. Each of
these meanings is looked at by itself: that `late` began to live is not about `scout`, though
`scout` is affected.
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
"""The names of what becomes of graphs, creatures and sessions."""
ENTRIES: tuple[str, ...] = tuple(
    str(each.model_fields["kind"].default) for each in get_args(get_args(j.JournalEntry)[0])
)
"""The kinds of journal entries."""
_RUNS = ("SESSION_FORKED", "CREATURE_SESSION_ATTACHED")
"""Graph events that lead to a run."""
_CHANGES = (j.ComponentChanged, j.RunMerged)


_NOBODY = ("",)
"""A name that no agent has."""


class Aspect(NamedTuple):
    """One meaning of an entry."""

    kinds: frozenset[str]
    """Its names."""
    creatures: frozenset[str]
    """Who is concerned."""
    graphs: frozenset[str]
    """The runs that it names, besides the one that it happened in."""
    channels: frozenset[str]
    """The channels that it is about."""


@dataclass(frozen=True)
class EventFilter:
    """Events that satisfy all that is said, each by one of its names; what is empty, all satisfy.

    Raises:
        UsageError: there is no event of such a kind.
    """

    kinds: Collection[str] = ()
    """Kinds of journal entries, as `ToolCallCompleted`, and names of graph events, as
    `CREATURE_STARTED`, `TOPOLOGY_CHANGED`, or `TOPOLOGY_CHANGED:split`."""
    creatures: Collection[str] = ()
    """Agents that are concerned: they do it, hear it, are told of it or are affected by it."""
    graphs: Collection[str] = ()
    """Runs in which it happened, or that it names."""
    channels: Collection[str] = ()
    """Channels in which something is said, or to which a wire leads: with or without `channel:`."""

    def __post_init__(self) -> None:
        for each in fields(self):
            given: Collection[str] = getattr(self, each.name)
            names = frozenset([given] if isinstance(given, str) else given)
            object.__setattr__(self, each.name, names)
        bare = frozenset(name.removeprefix(CHANNEL) for name in self.channels)
        object.__setattr__(self, "channels", bare)
        known = (*GRAPH_EVENTS, *ENTRIES)
        for kind in sorted(self.kinds):
            if kind not in known:
                raise UsageError(
                    f"there is no event of the kind {kind!r}",
                    remedy=did_you_mean(
                        kind, known, f"Of graphs there are {listed(GRAPH_EVENTS)}; else a kind of "
                        "journal entry, as `crewlog log` has it."
                    ),
                )  # fmt: skip

    @property
    def all(self) -> bool:
        """Whether it lets everything pass."""
        return not (self.kinds or self.creatures or self.graphs or self.channels)

    def over(self, merged: j.RunMerged) -> EventFilter:
        """What is meant in the run that took in the one that this filter was for.

        Only who comes is: somebody else may live there who is called as one of these was.
        """
        names = {(each.kind, each.was): each.now for each in merged.renames}
        creatures = {names.get(("creature", each), each) for each in self.creatures}
        channels = {names.get(("channel", each), each) for each in self.channels}
        comes = {str(each) for each in merged.merged_agents}
        # Where nobody of them comes, nobody is meant: none at all would mean everybody.
        there = creatures & comes or (_NOBODY if self.creatures else ())
        return replace(self, creatures=there, channels=channels)

    def also(self, other: EventFilter) -> EventFilter:
        """The same filter for the creatures and channels of another one, too."""
        creatures, channels = {*self.creatures, *other.creatures}, {*self.channels, *other.channels}
        return replace(self, creatures=creatures, channels=channels)

    def __call__(self, event: Event) -> bool:
        """Whether an event passes."""
        return any(self._takes(event.run, each) for each in aspects(event.entry))

    def _takes(self, run: RunId, aspect: Aspect) -> bool:
        asked: tuple[tuple[Collection[str], frozenset[str]], ...] = (
            (self.kinds, aspect.kinds),
            (self.creatures, aspect.creatures),
            (self.graphs, aspect.graphs | {run}),
            (self.channels, aspect.channels),
        )
        return all(not wanted or not there.isdisjoint(wanted) for wanted, there in asked)


def aspects(entry: j.JournalEntry) -> Iterator[Aspect]:
    """What an entry means: what it is itself, and each event of a graph that it holds."""
    names: set[str] = {entry.kind}
    if isinstance(entry, _CHANGES):
        names |= {TOPOLOGY_CHANGED, f"{TOPOLOGY_CHANGED}:{entry.change}"}
    elif isinstance(entry, j.RunForked):
        names.add(SESSION_FORKED)
    creatures = frozenset(str(name).removesuffix(INBOX) for name in _creatures(entry) if name)
    graphs = frozenset(str(run) for run in _graphs(entry))
    channels = frozenset(
        log.removeprefix(CHANNEL) for log in _logs(entry) if log.startswith(CHANNEL)
    )
    yield Aspect(frozenset(names), creatures, graphs, channels)
    for event in entry.events if isinstance(entry, (*_CHANGES, j.DefinitionChanged)) else ():
        yield _aspect(event)


def _aspect(event: j.ComponentEvent) -> Aspect:
    kinds = frozenset({event.event})
    creature = frozenset({str(event.creature)})
    nobody: frozenset[str] = frozenset()
    to = frozenset({event.to} - {""})
    if event.event in _RUNS:
        return Aspect(kinds, creature, to, nobody)
    if event.to.startswith(CHANNEL):
        return Aspect(kinds, creature, nobody, frozenset({event.to.removeprefix(CHANNEL)}))
    return Aspect(kinds, creature | to, nobody, nobody)


def _creatures(entry: j.JournalEntry) -> Iterator[str]:
    """Nodes and agents that an entry names."""
    match entry:
        case j.AgentsWoken():
            yield from (entry.by, *entry.to, *entry.also)
        case j.NodesReached():
            yield from (entry.source or "", *(each.node for each in entry.to))
        case j.BreakpointSet() | j.StepRedirected():
            yield entry.node
        case j.ComponentChanged() | j.RunMerged():
            yield from entry.affected_creatures
            yield from (each.creature for each in entry.events)
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
            yield str(_field(entry, "other"))  # of what leads to a merge
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
    """The runs that a run goes on in besides itself, or instead, by what an event says.

    By run, the position after which its journal tells what is new.
    """
    entry = event.entry
    if isinstance(entry, j.ComponentChanged) and entry.change == "split":
        return {run: 0 for run in entry.new_graph_ids if run != event.run}
    if isinstance(entry, j.RunEndedByMerge):
        return {entry.run: max(entry.position - 1, 0)}
    return {}
