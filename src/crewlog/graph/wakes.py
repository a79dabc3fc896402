"""Listening: a message gives each agent that listens where it was said a visit of its own.

    said in a channel ──► AgentsWoken: a visit for each that listens, but for who said it
    a turn ends ──► its final message goes along the agent's wires, each is heard there
    nothing is to do ──► IdleStarted ──(`idle` is over, or `ends_on` holds)──► RunCompleted

A visit waits behind the earlier ones of its agent, in the order in which messages came. Where as
many wait as may, the last of them is for the next message, too: nothing is lost, and the state
stays bounded. No route leads to such a visit and nothing follows from it: who hears is decided by
the graph as it is when the message is said.

Who hears what is said in a log, and whether anybody does: else it is lost without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from crewlog.canonical_json import hash_json
from crewlog.definition.audiences import CHANNEL
from crewlog.definition.findings import suggestion
from crewlog.definition.times import due_in
from crewlog.errors import CommandRejected
from crewlog.graph.plan import GraphPlan
from crewlog.graph.run_context import RunContext
from crewlog.ids import (
    PUBLIC,
    READERS,
    AgentName,
    ContentHash,
    LogName,
    NodeName,
    RunId,
    StepId,
    child_step_log,
    named_readers,
    private_log,
)
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.calls import SentMessage
from crewlog.state.components import ChannelAgent, Component, ComponentChange, change_of_components
from crewlog.state.model import CrewState, FrontierStep, WakingMessage


class Wakes:
    """Who hears what in a run.

    Args:
        run: The run.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run

    @property
    def is_enabled(self) -> bool:
        """Whether agents of the run hear."""
        return self._run.plan.graph is not None

    # -- what is said ------------------------------------------------------------------------

    def wake_readers(
        self, log: LogName, body: ContentHash, by: str, speaker: AgentName | None = None
    ) -> None:
        """Gives a visit to each agent that hears a message.

        Args:
            log: Where it was said.
            body: Its hash.
            by: Who said it.
            speaker: The agent that did, which does not hear itself; none: people.
        """
        run, policy = self._run, self._run.plan.graph
        if policy is None or run.state.is_ended:
            return
        to: list[NodeName] = []
        also: list[NodeName] = []
        for agent in woken_agents(run.plan, log, speaker):
            node = run.plan.wake_node_of(AgentName(agent))
            if node is None:
                continue
            waits = sum(e.node == node and e.turn is None for e in run.state.frontier.values())
            (to if waits < policy.queue else also).append(node)
        if to or also:
            run.record(j.AgentsWoken(log=log, body=body, by=by, to=tuple(to), also=tuple(also)))

    def channel_message(
        self, id_: str, step: StepId, agent: AgentName, sent: SentMessage
    ) -> j.MessageAdded:
        """The fact that an agent said something in a channel; once it is recorded, it is heard.

        Args:
            id_: The message's id.
            step: The step in which it does.
            agent: Who says it.
            sent: What, and where.
        """
        log = LogName(f"{CHANNEL}{sent.channel}")
        body: dict[str, Json] = {
            "type": "ai",
            "content": sent.text,
            "name": agent,
            "id": id_,
        }
        ref = j.MessageRef(body=hash_json(body), logs=(log,), inline=body)
        return j.MessageAdded(at=self._run.at, ref=ref, by=agent, step=step)

    # -- wires -------------------------------------------------------------------------------

    def output_wire_logs(self, agent: AgentName) -> tuple[LogName, ...]:
        """The logs that an agent's final message goes to by its wires."""
        topology = self._run.plan.topology
        if topology is None or agent not in topology.creatures:
            return ()
        return tuple(
            LogName(to if to.startswith(CHANNEL) else f"{READERS}{to}")
            for to in topology.creatures[agent].wires
        )

    def wake_along_output_wires(
        self, agent: AgentName, body: ContentHash, logs: Collection[LogName]
    ) -> None:
        """Has a final message heard where its agent is wired to.

        Args:
            agent: Who said it.
            body: Its hash.
            logs: Where it was said.
        """
        for log in self.output_wire_logs(agent):
            if log in logs:
                self.wake_readers(log, body, agent, agent)

    # -- resting -----------------------------------------------------------------------------

    def may_idle(self) -> bool:
        """Whether all that is left waits for agents that are stopped."""
        run = self._run
        return all(
            entry.status in ("ready", "queued") and run.plan.node_of(entry).hears
            for entry in run.state.frontier.values()
        )

    def record_idle(self, idle_is_over: bool) -> None:
        """Ends the run where its rules say so; else it waits for the next message.

        While another run is to come, or this one to join it, its idle time does not end it.
        """
        run, policy = self._run, self._run.plan.graph
        if policy is None:
            return
        over = idle_is_over and run.state.pending_merge is None
        if any(run.holds(each) for each in policy.ends_on):
            run.record(j.RunCompleted())
        elif over:
            run.record(j.RunCompleted(end_reason="idle"))
        elif run.state.idle is None:
            due = 0 if policy.idle is None else due_in(policy.idle, run.at)
            run.record(j.IdleStarted(deadline=due))


def waking_message(state: CrewState, step: StepId) -> WakingMessage | None:
    """The message that a step is for; none where its agent did not hear one."""
    entry = state.frontier.get(step)
    return entry.waking_message if entry is not None else None


# -- the graph as it changes -----------------------------------------------------------------


def plan_component_change(old: GraphPlan, new: GraphPlan, run: RunId) -> ComponentChange | None:
    """What becomes of a run's graph with another plan; none where it stays as it is.

    Args:
        old: The plan that it has.
        new: The plan that it is to have.
        run: The run.
    """
    before, after = old.topology or Component(), new.topology or Component()
    if before == after:
        return None
    return change_of_components({run: before}, {run: after})


def component_events(
    old: GraphPlan, new: GraphPlan, parts: Mapping[RunId, Component] | None = None
) -> Iterator[j.ComponentEvent]:
    """What becomes of creatures and wires with another plan, by creature.

    Args:
        old: The plan that the run had.
        new: The plan that it has from now on.
        parts: The graphs that fall off, by the runs that they are from now on.
    """
    parts = parts or {}
    before = old.topology.creatures if old.topology is not None else {}
    after = {**(new.topology.creatures if new.topology is not None else {})}
    for graph in parts.values():
        after |= graph.creatures

    def lives(plan: GraphPlan, name: AgentName) -> bool:
        return name in (before if plan is old else after) and plan.agents[name].enabled

    for name in sorted({*before, *after}):
        was, now = before.get(name, ChannelAgent()), after.get(name, ChannelAgent())
        if lives(new, name) and not lives(old, name):
            yield j.ComponentEvent(event="CREATURE_STARTED", creature=name)
        if lives(old, name) and not lives(new, name):
            yield j.ComponentEvent(event="CREATURE_STOPPED", creature=name)
        for to in now.wires:
            if to not in was.wires:
                yield j.ComponentEvent(event="OUTPUT_WIRE_ADDED", creature=name, to=to)
        for to in was.wires:
            if to not in now.wires:
                yield j.ComponentEvent(event="OUTPUT_WIRE_REMOVED", creature=name, to=to)
        if was.parent != now.parent:
            yield j.ComponentEvent(event="PARENT_LINK_CHANGED", creature=name, to=now.parent or "")
    yield from _attached(parts)


def _attached(parts: Mapping[RunId, Component]) -> Iterator[j.ComponentEvent]:
    """Who goes on in which run."""
    for run, graph in sorted(parts.items()):
        yield j.ComponentEvent(event="SESSION_FORKED", creature=min(graph.creatures), to=run)
        for name in sorted(graph.creatures):
            yield j.ComponentEvent(event="CREATURE_SESSION_ATTACHED", creature=name, to=run)


def woken_agents(
    plan: GraphPlan, log: LogName, speaker: AgentName | None = None
) -> tuple[str, ...]:
    """Who has a turn for what is said in a log: of `public`, which all may read, the root alone.

    Args:
        plan: The run's.
        log: The log.
        speaker: The agent that says it, which does not hear itself; none: people.
    """
    topology = plan.topology
    if topology is None:
        return ()
    if log == PUBLIC:
        root = plan.graph.root if plan.graph is not None else None
        return () if root is None or speaker is not None else (root,)
    if log.startswith(CHANNEL):
        return topology.listeners(log.removeprefix(CHANNEL), speaker)
    if named := named_readers(log):
        return tuple(name for name in named if name != speaker)
    return tuple(name for name in topology.creatures if log == private_log(name))


def unread_log_reason(plan: GraphPlan, log: LogName) -> tuple[str, str]:
    """Why nobody has a turn for what people say in a log of creatures, and where somebody has.

    Args:
        plan: The run's.
        log: The log.

    Returns:
        Both empty where somebody has one, or a flow is there, whose agents read it.
    """
    topology = plan.topology
    if topology is None:
        return "", ""
    if any(plan.wake_node_of(AgentName(name)) is not None for name in woken_agents(plan, log)):
        return "", ""
    if topology.flow and not log.startswith(CHANNEL):
        return "", ""
    why = "who reads it does so in the next turn that something else gives"
    if log == PUBLIC:
        why = "the graph has no root, which hears what is said to public"
    elif log.startswith(CHANNEL):
        why = f"no agent listens to {log.removeprefix(CHANNEL)!r}"
    heard = sorted({channel for each in topology.creatures.values() for channel in each.listen})
    ways = [f"--to {CHANNEL}{channel}" for channel in heard[:3]]
    ways.append(f"--to {private_log(min(topology.creatures, default=AgentName('AGENT')))}")
    return why, f"Say it where somebody listens: {', '.join(ways)}."


def check_log(plan: GraphPlan, log: str, steps: Iterable[FrontierStep] = ()) -> None:
    """Checks that an agent reads a log.

    Args:
        plan: The run's.
        log: The log.
        steps: The steps of its frontier: an item's has a log of its own.

    Raises:
        CommandRejected: nobody does.
    """
    readable = {"public"}
    elsewhere: dict[str, str] = {}
    for agent, rules in plan.agents.items():
        own = {*rules.reads, f"private:{agent}"}
        if agent in plan.away:
            elsewhere |= dict.fromkeys(own, plan.away[agent])
        else:
            readable |= own
    readable |= {child_step_log(each.step) for each in steps if each.parent}
    named = named_readers(log)
    reading = {
        agent for agent, rules in plan.agents.items() if rules.reads and agent not in plan.away
    }
    if log not in readable and not (named and reading.issuperset(named)):
        there = f"It is read in the run {elsewhere[log]}. " if log in elsewhere else ""
        meant = _meant(log, readable) if not there else ""
        hint = f"Did you mean {meant!r}? " if meant else ""
        raise CommandRejected(
            f"nobody reads {log!r}", remedy=f"{there}{hint}Logs: {', '.join(sorted(readable))}."
        )


def _meant(log: str, readable: Iterable[str]) -> str:
    """The log that was probably meant: by its name without its kind, or by a slip."""
    known = sorted(readable)
    bare = [each for each in known if each.partition(":")[2] == log]
    return bare[0] if bare else suggestion(log, known)
