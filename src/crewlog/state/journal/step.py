"""Routing and steps."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.ids import AgentName, CommandId, LogName, NodeName, StepId
from crewlog.model import Model
from crewlog.state.journal.entry import Entry

__all__ = [
    "BranchTargetRefused",
    "ItemsRefused",
    "NodesReached",
    "ParentStepStarted",
    "ReachedNode",
    "RequirementMet",
    "StepCancelled",
    "StepCompleted",
    "StepEntry",
    "StepFailed",
    "StepRedirected",
    "StepRetried",
    "StepStarted",
    "TimerFired",
    "TimerStarted",
]


class ReachedNode(Model):
    """A node that gets a step."""

    node: NodeName
    requirement: str = ""
    """The condition that it waits for; empty if it is ready."""


class NodesReached(Entry):
    """A completion was applied to the graph, and these nodes follow."""

    kind: Literal["NodesReached"] = "NodesReached"
    source: NodeName | None = None
    """The node that completed; none at the start."""
    to: tuple[ReachedNode, ...] = ()
    """The nodes that get a step."""
    arrived: tuple[NodeName, ...] = ()
    """The joins that the source arrived at; at the start, the entry points."""
    outcome: tuple[str, ...] = ("next",)
    """Where the completion leads: `next`, `end`, `fail`, or nodes."""
    because: str = ""
    """The reason of a branch."""
    loop: bool = False
    """Whether a branch took its loop, which counts against `at_most`."""
    generations: dict[NodeName, dict[NodeName, int | None]] = Field(
        default_factory=dict[NodeName, dict[NodeName, int | None]]
    )
    """The joins whose generation starts anew, with the arrivals of their sources so far. Null: the
    source counts as done."""
    loop_reset: bool = False
    """Whether people reset the count of a branch's loop."""
    branched: tuple[NodeName, ...] = ()
    """The nodes that a branch chose by an output, which counts."""


class BranchTargetRefused(Entry):
    """A branch does not go where its output says: no such target, or a reached limit."""

    kind: Literal["BranchTargetRefused"] = "BranchTargetRefused"
    step: StepId
    by: str
    """The output, `agent.output`."""
    because: str
    """Why, for people."""
    goes: str
    """What happens instead: a node, `next`, `end`, `ask_human` or `fail`."""
    used_up: bool = False
    """Whether the target exists, and its limit is reached."""
    exhausted_target: NodeName | None = None
    """Then: the target; the attempt counts like a choice."""


class StepStarted(Entry):
    """A step started."""

    kind: Literal["StepStarted"] = "StepStarted"
    step: StepId
    agent: AgentName | None = None
    """The agent whose turn it is; none for branches and questions."""
    without_model: bool = False
    """Whether it is an agent without a model."""
    parent: StepId | None = None
    """The parent step of a child step; none for any other step."""
    item: int = 0
    """The number of the item of a child step, from 1; 0 for any other step."""


class ParentStepStarted(Entry):
    """A step started that has a child step for each item of a list."""

    kind: Literal["ParentStepStarted"] = "ParentStepStarted"
    step: StepId
    agent: AgentName
    """The agent with the output that is the list."""
    key: str
    """The output."""
    of: int
    """The number of items."""
    agents: tuple[AgentName, ...] = ()
    """The agents that items name; empty if they name none."""
    owners: tuple[int, ...] = ()
    """By item: the index of its agent in `agents`, from 0."""
    after: tuple[tuple[int, ...], ...] = ()
    """By item: the numbers of the items that it waits for, see
    `crewlog.state.item_specs.pack_numbers`. Empty if no item waits for another."""


class ItemsRefused(Entry):
    """A list has invalid items: no child step starts."""

    kind: Literal["ItemsRefused"] = "ItemsRefused"
    step: StepId
    agent: AgentName
    """The agent with the output that is the list."""
    key: str
    """The output."""
    errors: tuple[str, ...]
    """The first errors, for people."""


class RequirementMet(Entry):
    """The requirement of a waiting step is met, or people waived it: the step is ready."""

    kind: Literal["RequirementMet"] = "RequirementMet"
    step: StepId
    waived: bool = False


class StepCompleted(Entry):
    """A step completed."""

    kind: Literal["StepCompleted"] = "StepCompleted"
    step: StepId
    because: str = ""
    """Why a step was skipped, or what was answered."""
    skipped: bool = False
    goto: tuple[NodeName, ...] = ()
    """Of a child step: the nodes that it hands off to, once all items are done."""
    used_up: bool = False
    """Of a branch: whether it would take its loop, whose limit is reached."""


class StepFailed(Entry):
    """A step failed; the agent's `on_error` says what follows."""

    kind: Literal["StepFailed"] = "StepFailed"
    step: StepId
    call: int | None = None
    error: str
    error_type: str = ""
    agent: AgentName | None = None
    """The agent, if the run continues without the step: its output `error` has the error."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see that output; empty: `public`."""
    has_stand_in: bool = False
    """Whether its stand-in runs."""


class StepRetried(Entry):
    """A failed step continues with another attempt, by people or a policy."""

    kind: Literal["StepRetried"] = "StepRetried"
    step: StepId
    call: int | None = None
    by: str = ""


class StepCancelled(Entry):
    """A running step was cancelled."""

    kind: Literal["StepCancelled"] = "StepCancelled"
    step: StepId


class StepRedirected(Entry):
    """People redirected a step to another node."""

    kind: Literal["StepRedirected"] = "StepRedirected"
    step: StepId
    node: NodeName
    """The node that follows the step, instead of what would."""
    cut: bool = False
    """Whether the step ends now; else its turn runs to its end."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class TimerStarted(Entry):
    """A step waits for a time, or a started step got a timeout."""

    kind: Literal["TimerStarted"] = "TimerStarted"
    step: StepId
    deadline: int
    """In milliseconds since the epoch."""


class TimerFired(Entry):
    """The timer of a step fired."""

    kind: Literal["TimerFired"] = "TimerFired"
    step: StepId


StepEntry = (
    NodesReached
    | BranchTargetRefused
    | StepStarted
    | ParentStepStarted
    | ItemsRefused
    | RequirementMet
    | StepCompleted
    | StepFailed
    | StepRetried
    | StepCancelled
    | StepRedirected
    | TimerStarted
    | TimerFired
)
