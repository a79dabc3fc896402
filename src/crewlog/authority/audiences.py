"""Authorization of agents to read and write logs, items, inputs and artifacts.

Log permissions are checked when a view is built, and again when it is hydrated. The logs that an
agent reads and writes follow from the definition (`crewlog.definition.audiences`).

An artifact declares its own readers and writers, independent of the `reads` and `writes` of agents.
So an agent that reads no log can still work on an artifact.
"""

from __future__ import annotations

from collections.abc import Collection

from crewlog.authority.permissions import Decision
from crewlog.definition.findings import listed
from crewlog.ids import (
    PUBLIC,
    AgentName,
    LogName,
    StepId,
    child_step_log,
    named_readers,
    private_log,
)


def may_read(
    agent: AgentName, log: LogName, *, reads: Collection[LogName], step: StepId | None = None
) -> Decision:
    """Decides whether an agent may read a log in a step.

    Args:
        agent: The agent.
        log: The log.
        reads: The logs that it reads besides its own. If empty, it does not even read logs that
            name it as a reader.
        step: The step; a child step has a log of its own.
    """
    if log == private_log(agent):
        return Decision(allowed=True, reason=f"it is the log of {agent!r}")
    if step is not None and log == child_step_log(step):
        return Decision(allowed=True, reason=f"it is the log of {step}")
    if log in reads:
        return Decision(allowed=True, reason=f"{agent!r} reads {log!r}")
    if reads and agent in named_readers(log):
        return Decision(allowed=True, reason=f"{log!r} names {agent!r}")
    return Decision(allowed=False, reason=f"{agent!r} may not read {log!r}")


def may_write(agent: AgentName, log: LogName, *, writes: Collection[LogName]) -> Decision:
    """Decides whether an agent may write its final messages to a log."""
    if log in writes or log == private_log(agent):
        return Decision(allowed=True, reason=f"{agent!r} writes to {log!r}")
    return Decision(allowed=False, reason=f"{agent!r} may not write to {log!r}")


def may_see_item(
    agent: AgentName,
    logs: Collection[LogName],
    *,
    reads: Collection[LogName],
    step: StepId | None = None,
) -> Decision:
    """Decides whether an agent may see an item of a list.

    A public item may be seen by every agent whose phase handles it, also by an agent that reads no
    logs.

    Args:
        agent: The agent.
        logs: The logs whose readers may see the item; empty: it is public.
        reads: The logs that the agent reads besides its own.
        step: The step.
    """
    for log in logs:
        if may_read(agent, log, reads=reads, step=step).allowed:
            return Decision(allowed=True, reason=f"{agent!r} reads {log!r}")
    if not logs or PUBLIC in logs:
        return Decision(allowed=True, reason="it is public")
    return Decision(
        allowed=False, reason=f"it is for readers of {listed(logs, 'or')}, and {agent!r} reads none"
    )


def may_read_input(
    agent: AgentName,
    logs: Collection[LogName],
    *,
    reads: Collection[LogName],
    step: StepId | None = None,
) -> Decision:
    """Decides whether an agent may read an output that it names under `inputs`.

    As `may_see_item`. Also, an agent may read an output whose audience names it even if it reads no
    log.
    """
    for log in logs:
        if agent in named_readers(log):
            return Decision(allowed=True, reason=f"{log!r} names {agent!r}")
    return may_see_item(agent, logs, reads=reads, step=step)


def authorize_artifact(
    action: str, agent: str, name: str, allowed: Collection[str] | None, *, known: bool = True
) -> Decision:
    """Decides whether an agent may see or change an artifact.

    Args:
        action: `see` or `change`, for the reason.
        agent: The agent.
        name: The artifact.
        allowed: The agents that may; None: all.
        known: Whether the artifact exists.
    """
    if not known:
        return Decision(allowed=False, reason=f"there is no artifact {name!r}")
    if allowed is None or agent in allowed:
        return Decision(allowed=True, reason=f"{agent!r} may {action} the artifact {name!r}")
    return Decision(allowed=False, reason=f"{agent!r} may not {action} the artifact {name!r}")
