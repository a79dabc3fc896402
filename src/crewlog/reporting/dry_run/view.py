"""A dry run as a typed view: steps with reasons, interrupts, and nodes that are never reached."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.ids import AgentName, NodeName, StepId
from crewlog.model import Json, Model

DryRunEnd = Literal["completed", "failed", "stopped", "cut"]
"""How a dry run ended; `cut`: it reached its step limit."""


class ConditionCheckView(Model):
    """A condition, its result, and the values that it used."""

    kind: Literal["when", "only_if", "decide"]
    """`when`: a requirement. `only_if`: if it is false, the step is skipped. `decide`: a branch."""
    condition: str
    """The condition as text."""
    holds: bool
    """Its result."""
    values: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The values of its outputs; null: not set."""


class IncompleteJoinView(Model):
    """A join that a step arrived at and did not start."""

    node: NodeName
    """The node of the join."""
    missing: tuple[NodeName, ...] = ()
    """The sources that it still waits for; empty: it has run already."""


class DryRunInterruptView(Model):
    """An interrupt, and the answer of the dry run."""

    kind: str
    """The kind of the interrupt: `ask`, `requirement`, `limit`, …"""
    node: NodeName | None = None
    """The node that waits for the answer; none: the whole run."""
    step: StepId | None = None
    """The step that waits for the answer; none: the whole run."""
    question: str
    options: tuple[str, ...]
    answer: str
    """The answer: the first option, unless it would only repeat the question."""


class DryRunStepView(Model):
    """A step of a dry run."""

    step: StepId
    node: NodeName
    kind: Literal["agent", "decide", "ask", "wait", "route"]
    agent: AgentName | None = None
    reason: str
    """Why the node was reached."""
    conditions: tuple[ConditionCheckView, ...] = ()
    """The conditions that were checked, in order."""
    outcome: Literal["done", "skipped", "failed", "open"] = "open"
    """`failed`: it is assumed to fail. `open`: the run ended before it did."""
    because: str = ""
    """Why it was skipped or failed, or what a branch or an answer selected."""
    items: int | None = None
    """The number of its child steps; none if it has no list."""
    values: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The outputs that it is assumed to set."""
    to: tuple[NodeName, ...] = ()
    """The nodes that follow."""
    incomplete_joins: tuple[IncompleteJoinView, ...] = ()
    """The joins that it arrived at and did not start."""


class UnmetRequirementView(Model):
    """A requirement that was not met."""

    node: NodeName
    requirement: str
    alternative: str
    """What follows: an interrupt, a skipped step, or another node."""


class UnreachedNodeView(Model):
    """A node without a step."""

    node: NodeName
    reason: str


class DryRunView(Model):
    """The route of a crew on an empty state."""

    crew: str
    flags: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The assumed run outputs."""
    outputs: dict[str, dict[str, Json]] = Field(default_factory=dict[str, dict[str, Json]])
    """The assumed outputs, by agent and key."""
    errors: dict[str, str] = Field(default_factory=dict[str, str])
    """The assumed errors, by node or by agent."""
    steps: tuple[DryRunStepView, ...] = ()
    """The steps, in the order in which their nodes were reached."""
    interrupts: tuple[DryRunInterruptView, ...] = ()
    """The interrupts, in order."""
    unmet_requirements: tuple[UnmetRequirementView, ...] = ()
    """The requirements that were not met."""
    unreached_nodes: tuple[UnreachedNodeView, ...] = ()
    """The nodes that were not reached, in the order of the plan."""
    end: DryRunEnd = "completed"
    because: str = ""
    """Why it did not complete."""
