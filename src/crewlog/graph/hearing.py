"""Who hears what is said in a log, and whether anybody does: else it is lost without a word."""

from __future__ import annotations

from collections.abc import Iterable

from crewlog.definition.audiences import CHANNEL
from crewlog.definition.findings import suggestion
from crewlog.errors import CommandRejected
from crewlog.graph.plan import GraphPlan
from crewlog.ids import (
    PUBLIC,
    AgentName,
    LogName,
    StepId,
    child_step_log,
    item_number,
    named_readers,
    private_log,
)


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


def unheard(plan: GraphPlan, log: LogName) -> tuple[str, str]:
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


def check_log(plan: GraphPlan, log: str, steps: Iterable[StepId] = ()) -> None:
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
    readable |= {child_step_log(step) for step in steps if item_number(step)}
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
