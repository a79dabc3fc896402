"""Wakes: a message starts a step of each agent that reads its channel, except of its sender.

    a message in a channel ──► AgentsWoken: a step of each reader
    a turn ends ──► its final message goes along the agent's output wires, and wakes agents there
    nothing to do ──► IdleStarted ──(`idle` is over, or `ends_on` holds)──► RunCompleted

The steps of an agent run in the order of their messages. If the message queue of an agent is full,
its last step gets the next message too: no message is lost, and the state stays limited. No edge
leads to such a step, and nothing follows from it.
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
    """The wakes of a run.

    Args:
        run: The run.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run

    @property
    def is_enabled(self) -> bool:
        """Whether the run has agents with channels."""
        return self._run.plan.graph is not None

    # -- messages ----------------------------------------------------------------------------

    def wake_readers(
        self, log: LogName, body: ContentHash, by: str, speaker: AgentName | None = None
    ) -> None:
        """Starts a step of each agent that a message wakes.

        Args:
            log: The log of the message.
            body: Its hash.
            by: Its sender.
            speaker: The agent that sent it, which it does not wake; none: people.
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
            waiting = sum(e.node == node and e.turn is None for e in run.state.frontier.values())
            (to if waiting < policy.queue else also).append(node)
        if to or also:
            run.record(j.AgentsWoken(log=log, body=body, by=by, to=tuple(to), also=tuple(also)))

    def channel_message(
        self, id_: str, step: StepId, agent: AgentName, sent: SentMessage
    ) -> j.MessageAdded:
        """The entry of a message that an agent sends to a channel.

        Args:
            id_: The message's id.
            step: The step that sends it.
            agent: The sender.
            sent: The text and the channel.
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

    # -- output wires ------------------------------------------------------------------------

    def output_wire_logs(self, agent: AgentName) -> tuple[LogName, ...]:
        """The logs at the ends of an agent's output wires."""
        component = self._run.plan.component
        if component is None or agent not in component.agents:
            return ()
        return tuple(
            LogName(to if to.startswith(CHANNEL) else f"{READERS}{to}")
            for to in component.agents[agent].wires
        )

    def wake_along_output_wires(
        self, agent: AgentName, body: ContentHash, logs: Collection[LogName]
    ) -> None:
        """Wakes the agents at the ends of output wires by a final message.

        Args:
            agent: The sender.
            body: The message's hash.
            logs: The logs of the message.
        """
        for log in self.output_wire_logs(agent):
            if log in logs:
                self.wake_readers(log, body, agent, agent)

    # -- idle --------------------------------------------------------------------------------

    def may_idle(self) -> bool:
        """Whether all steps that are left wait for disabled agents."""
        run = self._run
        return all(
            entry.status in ("ready", "queued") and run.plan.node_of(entry).is_wake_node
            for entry in run.state.frontier.values()
        )

    def record_idle(self, is_idle_time_over: bool) -> None:
        """Ends the run if it is idle for too long or `ends_on` holds; else it waits for a message.

        The idle time does not end a run with a pending run merge.
        """
        run, policy = self._run, self._run.plan.graph
        if policy is None:
            return
        if any(run.holds(each) for each in policy.ends_on):
            run.record(j.RunCompleted())
        elif is_idle_time_over and run.state.pending_merge is None:
            run.record(j.RunCompleted(end_reason="idle"))
        elif run.state.idle is None:
            deadline = 0 if policy.idle is None else due_in(policy.idle, run.at)
            run.record(j.IdleStarted(deadline=deadline))


def waking_message(state: CrewState, step: StepId) -> WakingMessage | None:
    """The message that woke a step; none: no message did."""
    entry = state.frontier.get(step)
    return entry.waking_message if entry is not None else None


# -- changes of the component ----------------------------------------------------------------


def plan_component_change(old: GraphPlan, new: GraphPlan, run: RunId) -> ComponentChange | None:
    """How another plan changes the component of a run; none: not at all.

    Args:
        old: The current plan.
        new: The next plan.
        run: The run.
    """
    before, after = old.component or Component(), new.component or Component()
    if before == after:
        return None
    return change_of_components({run: before}, {run: after})


def component_events(
    old: GraphPlan, new: GraphPlan, split_runs: Mapping[RunId, Component] | None = None
) -> Iterator[j.ComponentEvent]:
    """How another plan changes agents with channels and output wires, by agent.

    Args:
        old: The plan before.
        new: The plan from now on.
        split_runs: The components of the split runs.
    """
    split_runs = split_runs or {}
    before = old.component.agents if old.component is not None else {}
    after = {**(new.component.agents if new.component is not None else {})}
    for component in split_runs.values():
        after |= component.agents

    def is_started(plan: GraphPlan, name: AgentName) -> bool:
        return name in (before if plan is old else after) and plan.agents[name].enabled

    for name in sorted({*before, *after}):
        was, now = before.get(name, ChannelAgent()), after.get(name, ChannelAgent())
        if is_started(new, name) and not is_started(old, name):
            yield j.ComponentEvent(event="CREATURE_STARTED", agent=name)
        if is_started(old, name) and not is_started(new, name):
            yield j.ComponentEvent(event="CREATURE_STOPPED", agent=name)
        for to in now.wires:
            if to not in was.wires:
                yield j.ComponentEvent(event="OUTPUT_WIRE_ADDED", agent=name, to=to)
        for to in was.wires:
            if to not in now.wires:
                yield j.ComponentEvent(event="OUTPUT_WIRE_REMOVED", agent=name, to=to)
        if was.parent != now.parent:
            yield j.ComponentEvent(event="PARENT_LINK_CHANGED", agent=name, to=now.parent or "")
    yield from _split_run_events(split_runs)


def _split_run_events(split_runs: Mapping[RunId, Component]) -> Iterator[j.ComponentEvent]:
    for run, component in sorted(split_runs.items()):
        yield j.ComponentEvent(event="SESSION_FORKED", agent=min(component.agents), to=run)
        for name in sorted(component.agents):
            yield j.ComponentEvent(event="CREATURE_SESSION_ATTACHED", agent=name, to=run)


def woken_agents(
    plan: GraphPlan, log: LogName, speaker: AgentName | None = None
) -> tuple[str, ...]:
    """The agents that a message to a log wakes. One to `public` wakes only the root agent.

    Args:
        plan: The run's plan.
        log: The log.
        speaker: The agent that sends it, which it does not wake; none: people.
    """
    component = plan.component
    if component is None:
        return ()
    if log == PUBLIC:
        root = plan.graph.root if plan.graph is not None else None
        return () if root is None or speaker is not None else (root,)
    if log.startswith(CHANNEL):
        return component.listeners(log.removeprefix(CHANNEL), speaker)
    if readers := named_readers(log):
        return tuple(name for name in readers if name != speaker)
    return tuple(name for name in component.agents if log == private_log(name))


def unread_log_reason(plan: GraphPlan, log: LogName) -> tuple[str, str]:
    """Why a message to a log would wake no agent, and the logs in which it would.

    Args:
        plan: The run's plan.
        log: The log.

    Returns:
        The reason and the remedy; both empty if it wakes an agent, or a flow may read it.
    """
    component = plan.component
    if component is None:
        return "", ""
    if any(plan.wake_node_of(AgentName(name)) is not None for name in woken_agents(plan, log)):
        return "", ""
    if component.flow and not log.startswith(CHANNEL):
        return "", ""
    reason = "its readers read it only in their next turn, which it does not start"
    if log == PUBLIC:
        reason = "the graph has no root agent, which messages to public wake"
    elif log.startswith(CHANNEL):
        reason = f"no agent listens to {log.removeprefix(CHANNEL)!r}"
    channels = sorted({channel for each in component.agents.values() for channel in each.listen})
    options = [f"--to {CHANNEL}{channel}" for channel in channels[:3]]
    options.append(f"--to {private_log(min(component.agents, default=AgentName('AGENT')))}")
    return reason, f"Send it to a log that wakes an agent: {', '.join(options)}."


def check_log(plan: GraphPlan, log: str, steps: Iterable[FrontierStep] = ()) -> None:
    """Checks that an agent reads a log.

    Args:
        plan: The run's plan.
        log: The log.
        steps: The steps of its frontier: each child step has a log of its own.

    Raises:
        CommandRejected: no agent reads it.
    """
    readable = {"public"}
    remote: dict[str, str] = {}
    for agent, settings in plan.agents.items():
        logs = {*settings.reads, private_log(AgentName(agent))}
        if agent in plan.away:
            remote |= dict.fromkeys(logs, plan.away[agent])
        else:
            readable |= logs
    readable |= {child_step_log(each.step) for each in steps if each.parent}
    readers = named_readers(log)
    local = {name for name, each in plan.agents.items() if each.reads and name not in plan.away}
    if log not in readable and not (readers and local.issuperset(readers)):
        hint = f"It is read in the run {remote[log]}. " if log in remote else ""
        if not hint and (similar := _similar_log(log, readable)):
            hint = f"Did you mean {similar!r}? "
        raise CommandRejected(
            f"nobody reads {log!r}", remedy=f"{hint}Logs: {', '.join(sorted(readable))}."
        )


def _similar_log(log: str, readable: Iterable[str]) -> str:
    """The log with this name and any kind, or with a similar name; empty: none."""
    known = sorted(readable)
    same_name = [each for each in known if each.partition(":")[2] == log]
    return same_name[0] if same_name else suggestion(log, known)
