"""Artifacts in a run: which heads an agent's view has, and what becomes of a tool's operations.

The workflow never sees an artifact, only the head of its log. A tool's activity tries the
operations on what its view names, and says which apply; that holds if the log still has that head
when the result is applied. Where others came before, the entry says so, and the next model call of
the turn, which folds the log anyhow, says what became of them.
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
    """The artifacts that an agent sees and that somebody has changed, each at its head.

    In a step that ends though its node is gone, those that it saw then and sees still.
    """
    found: dict[LogName, ContentHash] = {}
    detached = (
        plan.detached_step(state.frontier.get(step)) if step and plan.detached_steps else None
    )
    for name, rules in plan.artifacts.items():
        log = artifact_log(name)
        at = state.messages.get(log)
        if at is None or not authorize_artifact("see", agent, name, rules.readers).allowed:
            continue
        was = rules if detached is None else detached.artifacts.get(name)
        if was is not None and authorize_artifact("see", agent, name, was.readers).allowed:
            found[log] = at.head
    return found


def unresolved_calls(state: CrewState, step: StepId) -> tuple[int, ...]:
    """The calls of a step's turn of whose operations it is not known which apply."""
    found = state.frontier.get(step)
    return found.turn.unresolved if found is not None and found.turn is not None else ()


def authorize_artifact_operation(plan: GraphPlan, agent: AgentName, name: str) -> Decision:
    """Whether an agent's tools may change an artifact, by the definition in force."""
    rules = plan.artifacts.get(name)
    allowed = None if rules is None else rules.writers
    return authorize_artifact("change", agent, name, allowed, known=rules is not None)


def operation_entries(
    plan: GraphPlan, step: StepId, call: int, agent: AgentName, result: CallToolResult, at: int
) -> Iterator[j.ArtifactOperationsApplied | Decision]:
    """What a tool's result does to artifacts, as facts; or why it may not.

    Args:
        plan: The plan in force.
        step: The step.
        call: The call's number.
        agent: The agent whose tool it is.
        result: The result.
        at: The time of the facts.
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


def with_known_result(
    entry: j.ArtifactOperationsApplied, state: CrewState
) -> j.ArtifactOperationsApplied:
    """The fact as it is recorded now: what the tool was told holds only where nobody came before.

    Args:
        entry: The fact, as it was made when the tool returned.
        state: The run right before it.
    """
    log = artifact_log(entry.artifact)
    known = state.messages.get(log)
    head = known.head if known is not None else empty_log_head(state.run, log)
    if entry.base == head:
        return entry.model_copy(update={"base": ContentHash("")})
    unknown = {"base": ContentHash(""), "moved": True, "refused": 0, "reasons": ()}
    return entry.model_copy(update=unknown)
