"""Parting: what of a run's state goes with some of its creatures, and what stays.

    parted(state, run, share)      the first state of the run that they are from now on
    staying(state, share)          what the run keeps that they leave

Logs go by their heads: both sides have all that was said until then, and nothing is copied. What
belongs to a creature goes with it: its visits, the position inside its turn, its private log. What
belongs to all of them stays, and goes as well: flags, outputs, what people ruled, what was used.
What was left of quotas and budgets is divided (`crewlog.graph.budgets`), so that nobody may do
more in two runs than they could in one.

Bounds: how far a run is within what its crew may use, where that is more than its own use.

A graph that falls apart divides what it had left: what one of the runs may use still, no other may.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field

from crewlog.definition.audiences import CHANNEL
from crewlog.ids import (
    PUBLIC,
    AgentName,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
    is_artifact,
    named_readers,
    private_log,
)
from crewlog.model import Model
from crewlog.state.field_policy import fields_where
from crewlog.state.model import CrewState, FrontierStep, Interrupt, LogHead


class RemainingBudget(Model):
    """What counts from here on in a run, of the bounds that are other than by its use alone."""

    quotas: dict[str, int] = Field(default_factory=dict[str, int])
    """Quotas per run: how many calls count as used, by the quota's key."""
    added_budgets: dict[str, float] = Field(default_factory=dict[str, float])
    """Budgets: what is allowed beyond the limit; below 0: that much less."""

    def state_changes(self, state: CrewState) -> dict[str, Any]:
        """What they change in a state."""
        found: dict[str, Any] = {}
        if self.quotas:
            found["quotas"] = {**state.quotas, **self.quotas}
        if self.added_budgets:
            found["added_budgets"] = {**state.added_budgets, **self.added_budgets}
        return found


PRIVATE = "private:"


class SplitContents(Model):
    """What goes: creatures, with where they hear, and their channels."""

    agents: tuple[AgentName, ...]
    nodes: tuple[NodeName, ...]
    """The nodes of these creatures: no node of the flow is among them."""
    channels: tuple[str, ...] = ()
    """The channels that only they send or listen to."""
    remaining_budget: RemainingBudget = RemainingBudget()
    """What they may use still."""


_RESET_BY_SPLIT = fields_where(CrewState, lambda policy: policy.split == "reset")


def split_run_state(state: CrewState, run: RunId, share: SplitContents) -> CrewState:
    """The first state of the run that some creatures are from now on.

    Visits, turns and questions keep their names, and the journal goes on after the position of the
    old one: so what was said before and what is said from now on have one order. What was approved
    was approved in the old run: those calls are asked about again.

    Args:
        state: The run that they leave, at the position where they do. No call of theirs is under
            way.
        run: The new one.
        share: What goes.
    """
    fresh = CrewState(run=run)
    steps = _steps(state.frontier.values(), share)
    return state.model_copy(
        update={
            **{name: getattr(fresh, name) for name in _RESET_BY_SPLIT},
            "frontier": {step: state.frontier[step] for step in steps},
            "detached_steps": _of(state.detached_steps, share),
            "interrupts": _asked(state, share),
            "visits": {n: count for n, count in state.visits.items() if n in share.nodes},
            "messages": _logs(state, share),
            **share.remaining_budget.state_changes(state),
        }
    )


def original_run_changes(state: CrewState, share: SplitContents) -> dict[str, Any]:
    """What is otherwise in a run that some creatures leave, as a change of its state.

    Visits keep their numbers: who comes back goes on with them.
    """
    gone = {LogName(f"{CHANNEL}{name}") for name in share.channels}
    gone |= {private_log(name) for name in share.agents}
    theirs = _asked(state, share)
    return {
        "frontier": {s: e for s, e in state.frontier.items() if e.node not in share.nodes},
        "detached_steps": {
            s: e for s, e in state.detached_steps.items() if e.node not in share.nodes
        },
        "interrupts": {i: asked for i, asked in state.interrupts.items() if i not in theirs},
        "messages": {log: head for log, head in state.messages.items() if log not in gone},
    }


def _steps(entries: Iterable[FrontierStep], share: SplitContents) -> list[StepId]:
    return [entry.step for entry in entries if entry.node in share.nodes]


def _of(entries: dict[StepId, FrontierStep], share: SplitContents) -> dict[StepId, FrontierStep]:
    return {step: entry for step, entry in entries.items() if entry.node in share.nodes}


def _asked(state: CrewState, share: SplitContents) -> dict[InterruptId, Interrupt]:
    """The open questions about steps that go."""
    steps = {*_steps(state.frontier.values(), share)}
    return {i: asked for i, asked in state.interrupts.items() if asked.step in steps}


def _logs(state: CrewState, share: SplitContents) -> dict[LogName, LogHead]:
    """The logs that are known where creatures go: none that only others may read."""

    def goes(log: LogName) -> bool:
        if log.startswith(PRIVATE):
            return log in own
        if named := named_readers(log):
            return bool({*named} & {*share.agents})
        if log.startswith(CHANNEL):
            return log.removeprefix(CHANNEL) in share.channels
        return log == PUBLIC or is_artifact(log) or log.startswith("group:")

    own = {private_log(name) for name in share.agents}
    return {log: head for log, head in state.messages.items() if goes(log)}


def split_source_run_id(state: CrewState) -> RunId:
    """The run that a run parted from as it began; empty where it began otherwise."""
    source = state.source
    return source.run if source is not None and source.split else RunId("")
