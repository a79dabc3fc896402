"""Whether anybody hears what people say to a log: else it would be lost without a word."""

from __future__ import annotations

from collections.abc import Iterable

from crewlog.errors import CommandRejected
from crewlog.graph.plan import GraphPlan
from crewlog.ids import StepId, item_log, item_of, named_readers


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
    away = plan.graph.away if plan.graph is not None else {}
    for agent, rules in plan.agents.items():
        own = {*rules.reads, f"private:{agent}"}
        if agent in away:
            elsewhere |= dict.fromkeys(own, away[agent])
        else:
            readable |= own
    readable |= {item_log(step) for step in steps if item_of(step)}
    named = named_readers(log)
    reading = {agent for agent, rules in plan.agents.items() if rules.reads and agent not in away}
    if log not in readable and not (named and reading.issuperset(named)):
        there = f"It is read in the run {elsewhere[log]}. " if log in elsewhere else ""
        raise CommandRejected(
            f"nobody reads {log!r}", remedy=f"{there}Logs: {', '.join(sorted(readable))}."
        )
