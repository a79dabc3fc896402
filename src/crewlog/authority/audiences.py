"""Who may read and write a log: asked before a view is made, and again before it is hydrated.

Logs are audiences: what is in one is for those who read it, and for nobody else. The logs that a
crew's agents read and write follow from its definition (`crewlog.definition.audiences`); a plan has
them by agent.

Who sees an artifact and who may change it: asked of views, and where operations land.

An artifact's audience is its own: it says itself who reads and who writes it, whatever an agent
lists under `reads` and `writes`. So a stage that reads no log can still work on the artifact.
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
    """Whether an agent may read a log, in a step.

    Args:
        agent: The agent.
        log: The log.
        reads: The logs that it reads besides its own; none at all where it reads nothing else, not
            even what names it.
        step: The step: that of an item has a log of its own.
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
    """Whether what an agent says at the end of a turn may go to a log."""
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
    """Whether an agent may be given what is for the readers of some logs: an item of a list.

    What is public is for every agent whose phase the definition gives it to, also for one that
    lists no log, so that its prompt is short.

    Args:
        agent: The agent.
        logs: The logs: who reads one of them may see it. None at all: it is for everybody.
        reads: The logs that the agent reads besides its own.
        step: The step.
    """
    for log in logs:
        if may_read(agent, log, reads=reads, step=step).allowed:
            return Decision(allowed=True, reason=f"{agent!r} reads {log!r}")
    if not logs or PUBLIC in logs:
        return Decision(allowed=True, reason="it is for everybody")
    return Decision(
        allowed=False, reason=f"it is for who reads {listed(logs, 'or')}, and {agent!r} does not"
    )


def may_read_input(
    agent: AgentName,
    logs: Collection[LogName],
    *,
    reads: Collection[LogName],
    step: StepId | None = None,
) -> Decision:
    """Whether an agent may be given an output that it asks for by name, under `inputs`.

    As `may_see_item`; and what is for an agent by name reaches it also where it reads no log: that
    keeps transcripts short, and nobody else is meant.
    """
    for log in logs:
        if agent in named_readers(log):
            return Decision(allowed=True, reason=f"{log!r} names {agent!r}")
    return may_see_item(agent, logs, reads=reads, step=step)


def authorize_artifact(
    does: str, agent: str, name: str, allowed: Collection[str] | None, *, known: bool = True
) -> Decision:
    """Whether an agent may see or change an artifact.

    Args:
        does: `see` or `change`, for the reason.
        agent: The agent.
        name: The artifact.
        allowed: Who may; none: every agent.
        known: Whether there is such an artifact.
    """
    if not known:
        return Decision(allowed=False, reason=f"there is no artifact {name!r}")
    if allowed is None or agent in allowed:
        return Decision(allowed=True, reason=f"{agent!r} may {does} the artifact {name!r}")
    return Decision(allowed=False, reason=f"{agent!r} may not {does} the artifact {name!r}")
