"""Hand-offs: lists of which each item reaches only those whom it names.

An item becomes a part of the output with an audience of its own, and the same rules hold for it as
for whatever else is said: who is no reader of it is not shown it, as an input or as an item.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crewlog.definition.findings import listed
from crewlog.graph.outputs import SHOWN
from crewlog.graph.run_context import RunContext
from crewlog.ids import READERS, AgentName, LogName, StepId, private_log
from crewlog.state import journal as j
from crewlog.state.calls import OutputValue
from crewlog.state.excerpt import excerpt

ALL = "all"
"""Whom an item names that is for everybody who may see the agent's outputs."""
_GROUP = "group:"


def set_addressed_items(
    run: RunContext,
    step: StepId,
    agent: AgentName,
    key: str,
    items: Sequence[OutputValue],
    *,
    stored: bool,
) -> None:
    """Sets an output to items, each of which is for those whom it names.

    Args:
        run: The run.
        step: The step.
        agent: The agent that hands them on.
        key: The output.
        items: Its items.
        stored: Whether the store has what is large of them.
    """
    if not run.has_list_reducer(f"{agent}.{key}"):
        shared = run.output_audience(agent, step)
        run.record(j.OutputSet(agent=agent, key=key, value=[], logs=shared))
    for number, item in enumerate(items, 1):
        logs = _logs(run, step, agent, item)
        if logs is None:
            said = (
                excerpt(listed(map(repr, item.recipients)), SHOWN) if item.recipients else "nobody"
            )
            run.record(
                j.AddressedItemUndelivered(
                    step=step, agent=agent, key=key, item=number, recipients=said
                )
            )
        run.record(
            j.OutputSet(
                agent=agent,
                key=key,
                value=item.value,
                body=item.body,
                inline=None if stored or item.body is None else item.content,
                append=True,
                logs=(private_log(agent),) if logs is None else logs,
                **(
                    run.item_spec_fields(f"{agent}.{key}", [item.content])
                    if item.body is not None
                    else {}
                ),
            )
        )


def _logs(
    run: RunContext, step: StepId, agent: AgentName, item: OutputValue
) -> tuple[LogName, ...] | None:
    """The logs whose readers an item is for; none where it names nobody that there is."""
    whom = item.recipients or ()
    if any(each.casefold() == ALL for each in whom):
        return run.output_audience(agent, step)
    known = {name.casefold(): name for name in run.plan.agents}
    agents = [known[each.casefold()] for each in whom if each.casefold() in known]
    groups = [LogName(each) for each in whom if each in set(_groups(run))]
    if len(agents) + len(groups) < len(whom) or not whom:
        return None
    named = [LogName(READERS + "+".join(dict.fromkeys(agents)))] if agents else []
    return (*named, *groups, private_log(agent))


def _groups(run: RunContext) -> Iterator[str]:
    """The logs of the crew's groups."""
    for rules in run.plan.agents.values():
        yield from (log for log in rules.reads if log.startswith(_GROUP))
