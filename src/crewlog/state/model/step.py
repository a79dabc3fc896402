"""The steps of the frontier, and the facts that routers read."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.ids import ContentHash, LogName, NodeName, StepId
from crewlog.model import Model
from crewlog.state.model.item import ChildStepProgress
from crewlog.state.model.turn import Turn


class WakingMessage(Model):
    """The message that started a step."""

    log: LogName
    """The log that has it."""
    body: ContentHash
    """The hash of the message."""
    by: str = ""
    """Its sender."""
    more: int = 0
    """Later messages that the step is for as well, since the node may have no more waiting
    steps."""


class FrontierStep(Model):
    """A step that is not done."""

    step: StepId
    node: NodeName
    parent: StepId | None = None
    """The parent step of a child step; none for any other step."""
    item: int = 0
    """The number of the item of a child step, from 1; 0 for any other step."""
    status: Literal["ready", "running", "waiting", "interrupted", "queued"] = "ready"
    """`waiting` for its requirement or a timer, `interrupted` while it waits for people, `queued`
    behind an earlier step of its node."""
    since: int = 0
    """The journal position of the last change of the status."""
    reached: int = 0
    """The journal position at which it became the first step of its node."""
    requirement: str = ""
    """The condition that a waiting step needs, as text."""
    turn: Turn | None = None
    """The position inside its turn, once it runs."""
    child_steps: ChildStepProgress | None = None
    """The progress of a parent step."""
    deadline: int = 0
    """When the timer fires that it waits for, or the timeout of a started step, in milliseconds
    since the epoch; 0: none."""
    by_join: bool = False
    """Whether `Routing.firings` counts it: its join started it in this generation."""
    by_change: bool = False
    """Whether a change started it, without an arrival."""
    is_detached: bool = False
    """Whether a change removed its node: its turn runs to its end, and nothing follows."""
    definition: ContentHash = ContentHash("")
    """Of a detached step: the definition that has its node; else empty."""
    redirect: NodeName | None = None
    """The node that people redirected it to: the run goes there when the step is done."""
    waking_message: WakingMessage | None = None
    """The message that woke its agent; none if no message started it."""

    @property
    def parent_or_self(self) -> StepId:
        """The parent step of a child step; any other step itself."""
        return self.parent or self.step


class Routing(Model):
    """Completed nodes and arrivals at joins: what LangGraph's routers read."""

    completed: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """The number of completed steps, by node."""
    arrivals: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """How often each node has arrived at the joins that wait for it."""
    generations: dict[NodeName, dict[NodeName, int | None]] = Field(
        default_factory=dict[NodeName, dict[NodeName, int | None]]
    )
    """The arrivals of its sources when the generation of a join started, by join and source, where
    they are not 0. Null: the source counts as done. Includes sources that a change removed."""
    passed: tuple[NodeName, ...] = ()
    """Nodes that the run had passed when a change added them: `arrivals` counts each once more."""
    loops: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """How often a branch took its loop, since it was last reset."""
    firings: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """How many steps of a node its join started since its generation started, apart from detached
    ones. An entry point counts as a join that fires at the start."""
    sent: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """How often a node was reached without its join, since the join's generation started."""
