"""A dry run as a typed view: steps with reasons, interrupts, and nodes that are never reached."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.ids import AgentName, NodeName, StepId
from crewlog.model import Json, Model

End = Literal["completed", "failed", "stopped", "cut"]
"""How a dry run ended; `cut` where it took too many steps."""


class ConditionCheckView(Model):
    """A condition that was looked at, and what it saw."""

    kind: Literal["when", "only_if", "decide"]
    """A requirement, a condition to work at all, or a decision's."""
    condition: str
    """As it is written."""
    holds: bool
    """Whether it held."""
    values: dict[str, Json] = Field(default_factory=dict[str, Json])
    """What its names stood for; null is what nobody has set."""


class IncompleteJoinView(Model):
    """A join that a node arrived at without making it run."""

    node: NodeName
    """The node with the join."""
    missing: tuple[NodeName, ...] = ()
    """What it lacks; empty where it has run already and needs no more."""


class DryRunInterruptView(Model):
    """A question that would be asked, and the answer that the dry run gave."""

    kind: str
    """Why it is asked: `ask`, `requirement`, `limit`, …"""
    node: NodeName | None = None
    """The node that waits for the answer; none for the whole run."""
    step: StepId | None = None
    """The visit that waits for it."""
    question: str
    options: tuple[str, ...]
    answer: str
    """What was answered here: the first option, as a rule."""


class DryRunStepView(Model):
    """A visit to a node."""

    step: StepId
    node: NodeName
    kind: Literal["agent", "decide", "ask", "wait", "route"]
    agent: AgentName | None = None
    why: str
    """Why it was reached."""
    conditions: tuple[ConditionCheckView, ...] = ()
    """The conditions that were looked at, in order."""
    outcome: Literal["done", "skipped", "failed", "open"] = "open"
    """`failed` where it was assumed to fail, `open` where the run ended before it."""
    because: str = ""
    """Why it was skipped, or where a decision or an answer went."""
    items: int | None = None
    """How many items it has a step for, where it has one for each item of a list."""
    sets: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The flags and outputs that it was assumed to set."""
    to: tuple[NodeName, ...] = ()
    """The nodes that follow."""
    unfilled: tuple[IncompleteJoinView, ...] = ()
    """Joins that it arrived at, and that do not run by it."""


class Unmet(Model):
    """A requirement that nothing met."""

    node: NodeName
    requirement: str
    then: str
    """What happens: people are asked, it is skipped, or another node takes its place."""


class Never(Model):
    """A node that was not reached."""

    node: NodeName
    why: str


class DryRunView(Model):
    """What a crew does where nobody says or sets anything."""

    crew: str
    flags: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The flags that were assumed."""
    outputs: dict[str, dict[str, Json]] = Field(default_factory=dict[str, dict[str, Json]])
    """The outputs that were assumed."""
    errors: dict[str, str] = Field(default_factory=dict[str, str])
    """The errors with which steps were assumed to fail, by node or by agent."""
    steps: tuple[DryRunStepView, ...] = ()
    """The visits, in the order in which nodes were reached."""
    questions: tuple[DryRunInterruptView, ...] = ()
    """What people would be asked, in order."""
    unmet: tuple[Unmet, ...] = ()
    """Requirements that nothing met."""
    never: tuple[Never, ...] = ()
    """Nodes that were not reached, in the order of the plan."""
    end: End = "completed"
    because: str = ""
    """Why it did not complete."""
