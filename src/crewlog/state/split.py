"""Split: the state of a split run, and of the original run afterwards.

Logs are named by their heads: both runs have all earlier messages, and nothing is copied. What
belongs to an agent goes with it: its steps, the position inside its turn, its private log. What
belongs to the whole run stays, and is copied: run outputs, outputs, permissions, usage. The
remaining quotas and budgets are divided (`crewlog.graph.budgets`), so that two runs may not use
more than one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field

from crewlog.definition.audiences import CHANNEL
from crewlog.ids import (
    PUBLIC,
    AgentName,
    ContentHash,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
    is_artifact,
    is_group_log,
    is_private_log,
    named_readers,
    private_log,
)
from crewlog.model import Model
from crewlog.state.field_policy import fields_where
from crewlog.state.model import CrewState, FrontierStep, Interrupt, LogHead


class RemainingBudget(Model):
    """The counts of quotas and budgets from now on, after a split or a run merge."""

    quotas: dict[str, int] = Field(default_factory=dict[str, int])
    """Quotas per run: how many calls count as used, by the quota's key."""
    added_budgets: dict[str, float] = Field(default_factory=dict[str, float])
    """Budgets: what is added to the limit; below 0: how much less is allowed."""

    def state_changes(self, state: CrewState) -> dict[str, Any]:
        """What they change in a state."""
        changes: dict[str, Any] = {}
        if self.quotas:
            changes["quotas"] = {**state.quotas, **self.quotas}
        if self.added_budgets:
            changes["added_budgets"] = {**state.added_budgets, **self.added_budgets}
        return changes


class SplitContents(Model):
    """The agents, nodes and channels of a split run."""

    agents: tuple[AgentName, ...]
    nodes: tuple[NodeName, ...]
    """The nodes of these agents; none of them is a node of the flow."""
    channels: tuple[str, ...] = ()
    """The channels that only these agents send to or listen to."""
    remaining_budget: RemainingBudget = RemainingBudget()
    """What they may still use."""


_RESET_BY_SPLIT = fields_where(CrewState, lambda policy: policy.split == "reset")


def split_run_state(
    state: CrewState,
    run: RunId,
    contents: SplitContents,
    definition: ContentHash,
    rules: tuple[str, ...],
) -> CrewState:
    """The first state of a split run.

    Steps, turns and interrupts keep their ids, and positions continue, so that the messages of both
    runs have one order. Approvals are bound to the original run: people are asked again.

    Args:
        state: The state of the original run at the split. No call of the agents is in flight.
        run: The split run.
        contents: What it gets.
        definition: The hash of its definition.
        rules: The coordination rules of its plan.
    """
    defaults = CrewState(run=run)
    steps = _step_ids(state.frontier.values(), contents)
    return state.model_copy(
        update={
            **{name: getattr(defaults, name) for name in _RESET_BY_SPLIT},
            "run": run,
            "definition": definition,
            "coordination_rules": rules,
            "frontier": {step: state.frontier[step] for step in steps},
            "detached_steps": _steps_of(state.detached_steps, contents),
            "interrupts": _interrupts_of(state, contents),
            "visits": {n: count for n, count in state.visits.items() if n in contents.nodes},
            "messages": _readable_logs(state, contents),
            **contents.remaining_budget.state_changes(state),
        }
    )


def original_run_changes(state: CrewState, contents: SplitContents) -> dict[str, Any]:
    """What a split changes in the state of the original run.

    Visit numbers are kept: an agent that returns continues them.
    """
    moved_logs = {LogName(f"{CHANNEL}{name}") for name in contents.channels}
    moved_logs |= {private_log(name) for name in contents.agents}
    moved_interrupts = _interrupts_of(state, contents)
    return {
        "frontier": {s: e for s, e in state.frontier.items() if e.node not in contents.nodes},
        "detached_steps": {
            s: e for s, e in state.detached_steps.items() if e.node not in contents.nodes
        },
        "interrupts": {
            i: interrupt for i, interrupt in state.interrupts.items() if i not in moved_interrupts
        },
        "messages": {log: head for log, head in state.messages.items() if log not in moved_logs},
    }


def _step_ids(entries: Iterable[FrontierStep], contents: SplitContents) -> list[StepId]:
    return [entry.step for entry in entries if entry.node in contents.nodes]


def _steps_of(
    entries: dict[StepId, FrontierStep], contents: SplitContents
) -> dict[StepId, FrontierStep]:
    return {step: entry for step, entry in entries.items() if entry.node in contents.nodes}


def _interrupts_of(state: CrewState, contents: SplitContents) -> dict[InterruptId, Interrupt]:
    """The open interrupts about steps of the split run."""
    steps = {*_step_ids(state.frontier.values(), contents)}
    return {i: interrupt for i, interrupt in state.interrupts.items() if interrupt.step in steps}


def _readable_logs(state: CrewState, contents: SplitContents) -> dict[LogName, LogHead]:
    """The logs that the agents of the split run may read."""

    def may_read(log: LogName) -> bool:
        if is_private_log(log):
            return log in private_logs
        if readers := named_readers(log):
            return bool({*readers} & {*contents.agents})
        if log.startswith(CHANNEL):
            return log.removeprefix(CHANNEL) in contents.channels
        return log == PUBLIC or is_artifact(log) or is_group_log(log)

    private_logs = {private_log(name) for name in contents.agents}
    return {log: head for log, head in state.messages.items() if may_read(log)}


def split_source_run_id(state: CrewState) -> RunId:
    """The run that a run was split from; empty if it is no split run."""
    source = state.source
    return source.run if source is not None and source.split else RunId("")
