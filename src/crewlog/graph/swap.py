"""A swap: what another graph does to a run, before it is done and when it is.

    plan_swap(old, new, state) -> SwapReport

Pure: no Temporal and no LangGraph. The report says what becomes of every node and of every step of
the frontier, what is blocked and why; its `remap` is all that `reduce` needs to do it.
"""

from __future__ import annotations

from typing import Literal

from crewlog.graph.plan import GraphPlan
from crewlog.ids import NodeName, StepId
from crewlog.model import Model
from crewlog.state.journal import Remap
from crewlog.state.model import CrewState

Fate = Literal["kept", "leaves", "abandoned", "parked", "returns", "retracted", "starts"]
"""What becomes of a step: `kept` goes on as it is; `leaves` ends its turn, and nothing follows;
`abandoned` is cut off; `parked` is kept aside; `returns` was; `retracted` was reached and must wait
again; `starts` is reached by the swap itself."""


class StepFate(Model):
    """What becomes of a step."""

    step: StepId
    node: NodeName
    fate: Fate
    doing: str = ""
    """What it does now, for people: `running: 1 call under way`, `waits for backend.ready`."""
    because: str = ""
    """Why, for people."""


class Blocked(Model):
    """Something that cannot come any more."""

    node: NodeName
    """Who waits for it."""
    requirement: str
    """What: a condition, or sources of a join."""
    because: str
    """Why it cannot come: `only backend sets models_ready`."""
    then: str
    """What the run will do: ask people, skip, or take the declared alternative."""


class SwapReport(Model):
    """What another graph does to a run."""

    graph_version: int
    """The version that the new graph gets; the one that there is, where it is the same graph."""
    swap: bool
    """Whether the graph is another one; else only rules change, at once and without a swap."""
    added: tuple[NodeName, ...] = ()
    removed: tuple[NodeName, ...] = ()
    kept: tuple[NodeName, ...] = ()
    """Nodes that are the same thing in both: of the same kind, and of the same agent."""
    changed: tuple[NodeName, ...] = ()
    """Kept nodes with other joins, conditions or decisions."""
    steps: tuple[StepFate, ...] = ()
    """Every step of the frontier, of those kept aside, and those that start."""
    blocked: tuple[Blocked, ...] = ()
    notes: tuple[str, ...] = ()
    """What else there is to know: agents switched on or off, tools, permissions; new nodes that
    the run has passed already."""
    remap: Remap = Remap()


def plan_swap(
    old: GraphPlan, new: GraphPlan, state: CrewState, *, abandon: bool = False
) -> SwapReport:
    """What going on with `new` instead of `old` does to a run in `state`.

    Args:
        old: The plan that the run has.
        new: The plan that it is to have.
        state: Where it is.
        abandon: Whether steps in mid-turn whose nodes are gone are cut off.
    """
    raise NotImplementedError
