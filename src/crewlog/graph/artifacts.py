"""Artifacts in a run: the heads in an agent's view, and the operations of a tool's result.

The workflow never sees an artifact, only the head of its log. A tool's activity tries the
operations on the head that its view names, and reports which of them apply. That report is valid
only if the log still has that head when the result is applied. Otherwise the entry is marked as
moved, and the next model call of the turn, which folds the log, reports the outcome.
"""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.authority.audiences import authorize_artifact
from crewlog.authority.permissions import Decision
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName, ContentHash, LogName, StepId, artifact_log
from crewlog.state import journal as j
from crewlog.state.calls import CallToolResult
from crewlog.state.logs import empty_log_head
from crewlog.state.model import CrewState


def artifact_heads(
    plan: GraphPlan, state: CrewState, agent: AgentName, step: StepId | None = None
) -> dict[LogName, ContentHash]:
    """The heads of the artifacts that an agent may read and that have entries.

    In a detached step, the agent must have been allowed to read them before the change, too.
    """
    heads: dict[LogName, ContentHash] = {}
    detached = (
        plan.detached_step(state.frontier.get(step)) if step and plan.detached_steps else None
    )
    for name, rules in plan.artifacts.items():
        log = artifact_log(name)
        log_head = state.messages.get(log)
        if log_head is None or not authorize_artifact("see", agent, name, rules.readers).allowed:
            continue
        earlier = rules if detached is None else detached.artifacts.get(name)
        if earlier is not None and authorize_artifact("see", agent, name, earlier.readers).allowed:
            heads[log] = log_head.head
    return heads


def unresolved_calls(state: CrewState, step: StepId) -> tuple[int, ...]:
    """The calls of a step's turn for which it is unknown which of their operations apply."""
    entry = state.frontier.get(step)
    return entry.turn.unresolved if entry is not None and entry.turn is not None else ()


def authorize_artifact_operation(plan: GraphPlan, agent: AgentName, name: str) -> Decision:
    """Whether an agent's tools may change an artifact, by the definition in force."""
    rules = plan.artifacts.get(name)
    allowed = None if rules is None else rules.writers
    return authorize_artifact("change", agent, name, allowed, known=rules is not None)


def operation_entries(
    plan: GraphPlan, step: StepId, call: int, agent: AgentName, result: CallToolResult, at: int
) -> Iterator[j.ArtifactOperationsApplied | Decision]:
    """The entries of a tool result's artifact operations; a decision for each one not permitted.

    Args:
        plan: The plan in force.
        step: The step.
        call: The call's number.
        agent: The agent whose tool it is.
        result: The result.
        at: The time of the entries, in milliseconds since the epoch.
    """
    for change in result.returned.operations:
        decision = authorize_artifact_operation(plan, agent, change.artifact)
        if not decision.allowed:
            yield decision
            continue
        inline = None if result.stored else change.content
        yield j.ArtifactOperationsApplied(
            at=at,
            step=step,
            call=call,
            agent=agent,
            artifact=change.artifact,
            ref=j.MessageRef(
                body=change.body, logs=(artifact_log(change.artifact),), inline=inline
            ),
            count=change.count,
            refused=change.refused,
            reasons=change.reasons,
            base=change.base,
        )


def drop_stale_result(
    entry: j.ArtifactOperationsApplied, state: CrewState
) -> j.ArtifactOperationsApplied:
    """The entry to record: without the tool's report if the artifact has changed since.

    Args:
        entry: The entry from when the tool returned.
        state: The run right before it is recorded.
    """
    log = artifact_log(entry.artifact)
    log_head = state.messages.get(log)
    head = log_head.head if log_head is not None else empty_log_head(state.run, log)
    if entry.base == head:
        return entry.model_copy(update={"base": ContentHash("")})
    unknown = {"base": ContentHash(""), "moved": True, "refused": 0, "reasons": ()}
    return entry.model_copy(update=unknown)
