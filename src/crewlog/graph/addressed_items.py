"""Addressed items: elements of an output that only the agents they name may see.

Each item becomes an element of the output with its own audience, and is read by the same rules as
every other output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crewlog.definition.findings import listed
from crewlog.graph.outputs import EXCERPT_LENGTH
from crewlog.graph.run_context import RunContext
from crewlog.ids import READERS, AgentName, LogName, StepId, is_group_log, private_log
from crewlog.state import journal as j
from crewlog.state.calls import OutputValue
from crewlog.state.excerpt import excerpt

ALL = "all"
"""The recipient that means every reader of the agent's outputs."""


def set_addressed_items(
    run: RunContext,
    step: StepId,
    agent: AgentName,
    key: str,
    items: Sequence[OutputValue],
    *,
    stored: bool,
) -> None:
    """Sets an output to items, each for the recipients that it names.

    Args:
        run: The run.
        step: The step.
        agent: The agent whose output it is.
        key: The output.
        items: Its items.
        stored: Whether the store has the bodies of large items.
    """
    if not run.has_list_reducer(f"{agent}.{key}"):
        audience = run.output_audience(agent, step)
        run.record(j.OutputSet(agent=agent, key=key, value=[], logs=audience))
    for number, item in enumerate(items, 1):
        logs = _audience(run, step, agent, item)
        if logs is None:
            names = listed(map(repr, item.recipients)) if item.recipients else "nobody"
            run.record(
                j.AddressedItemUndelivered(
                    step=step,
                    agent=agent,
                    key=key,
                    item=number,
                    recipients=excerpt(names, EXCERPT_LENGTH),
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


def _audience(
    run: RunContext, step: StepId, agent: AgentName, item: OutputValue
) -> tuple[LogName, ...] | None:
    """The logs whose readers may see an item; none if a recipient is unknown or there is none."""
    recipients = item.recipients or ()
    if any(each.casefold() == ALL for each in recipients):
        return run.output_audience(agent, step)
    known = {name.casefold(): name for name in run.plan.agents}
    agents = [known[each.casefold()] for each in recipients if each.casefold() in known]
    groups = [LogName(each) for each in recipients if each in set(_group_logs(run))]
    if len(agents) + len(groups) < len(recipients) or not recipients:
        return None
    reader_log = [LogName(READERS + "+".join(dict.fromkeys(agents)))] if agents else []
    return (*reader_log, *groups, private_log(agent))


def _group_logs(run: RunContext) -> Iterator[str]:
    for agent in run.plan.agents.values():
        yield from (log for log in agent.reads if is_group_log(log))
