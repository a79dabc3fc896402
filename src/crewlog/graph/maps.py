"""Nodes with a step for each item of a list that is known only when they are reached.

    reached ──(a list)──► mapped: a step for each item, side by side ──(all done)──► completed
       ├──(an empty list)──► skipped
       └──(no list)──► people are asked

The visit itself stands in the frontier as long as its items do, with how many of them are started
and done. So a join downstream sees one completion for each visit, and a visit that comes while
this one is under way queues behind it, as behind any other. Steps are started in the order of the
items as there is room, not all at once: the frontier of a list of 1,000 items is no longer than
one of 64.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from crewlog.graph.facts import RunFacts
from crewlog.graph.plan import PlanNode
from crewlog.ids import AgentName, NodeName, StepId, item_of, item_step, visit_of
from crewlog.state import journal as j
from crewlog.state.model import FrontierEntry, Item, Mapped, Output

ASKING = 64
"""Items of a visit that may ask people at a time, besides those that are at work: an error that
all of 1,000 items have is no reason for 1,000 questions."""

Completed = Callable[..., Awaitable[None]]
"""Completes a step as `Engine` does."""
MayStart = Callable[[StepId, NodeName], bool]
"""Whether a step may start now; where not, people are asked."""


class Maps:
    """The visits of a run that have a step for each item of a list.

    Args:
        run: The run.
        complete: Completes a visit and routes on.
        may_start: Says whether another step may start; raises the question where it may not.
    """

    def __init__(self, run: RunFacts, complete: Completed, may_start: MayStart) -> None:
        self._run = run
        self._complete = complete
        self._may_start = may_start

    async def begin(self, step: StepId, node: PlanNode) -> None:
        """Maps a visit that is ready: over a list, over nothing, or people are asked."""
        name = node.for_each or ""
        agent, _, key = name.partition(".")
        count, fault = self._count(name)
        if fault:
            self._run.ask(
                "requirement",
                f"{step} has a step for each item of {name}, {fault}.",
                step=step,
                options=("again", "skip", "stop"),
                detail=name,
            )
        elif count == 0:
            await self._complete(step, because=f"{name} is empty", skipped=True)
        else:
            self._run.record(j.StepMapped, step=step, agent=AgentName(agent), key=key, of=count)

    def begins(self, node: PlanNode) -> bool:
        """Whether there is a list now, for a visit that asks people about it."""
        return node.for_each is not None and not self._count(node.for_each)[1]

    def start_items(self, visit: FrontierEntry, node: PlanNode) -> None:
        """Starts steps of a mapped visit, in order, as far as there is room.

        None of one whose node a change took away: its items at work end, and it with them.
        """
        if visit.leaving:
            return
        while (mapped := self._mapped(visit.step)) is not None and mapped.started < mapped.of:
            if not self._room(visit.step) or not self._may_start(visit.step, visit.node):
                return
            step = item_step(visit.step, mapped.started + 1)
            self._run.record(j.StepStarted, step=step, agent=node.agent)

    async def item_done(
        self, step: StepId, *, because: str, skipped: bool, handoff: Sequence[NodeName]
    ) -> None:
        """Completes an item's step; with the last of them, the visit."""
        self._run.record(
            j.StepCompleted, step=step, because=because, skipped=skipped, goto=tuple(handoff)
        )
        visit = visit_of(step)
        found = self._run.state.frontier.get(visit)
        if found is None or found.mapped is None:
            return
        mapped = found.mapped
        if mapped.done == (mapped.started if found.leaving else mapped.of):
            because = f"all {mapped.of} items are done"
            if mapped.done < mapped.of:
                because = f"{mapped.done} of {mapped.of} items are done, and its node is gone"
            await self._complete(visit, because=because, handoff=mapped.goto)

    def item(self, step: StepId) -> Item | None:
        """The item that a step is for, as its agent may see it; none for any other step."""
        number = item_of(step)
        mapped = self._mapped(visit_of(step)) if number else None
        agent = self._run.plan.node_at(step).agent
        if mapped is None or agent is None:
            return None
        return self._run.sees(agent, mapped.item(number), step)

    def _mapped(self, visit: StepId) -> Mapped | None:
        found = self._run.state.frontier.get(visit)
        return found.mapped if found else None

    def _room(self, visit: StepId) -> bool:
        items = [
            e for s, e in self._run.state.frontier.items() if s != visit and visit_of(s) == visit
        ]
        asking = sum(entry.status == "asking" for entry in items)
        return asking < ASKING and len(items) - asking < self._run.plan.limits.parallel

    def _count(self, name: str) -> tuple[int, str]:
        """How many items a list has, or what is wrong with it, for people."""
        agent, _, key = name.partition(".")
        outputs = self._run.state.agent_outputs.get(AgentName(agent), {})
        found = outputs.get(key)
        if found is None:
            return 0, "which nobody has set"
        count = count_of(found)
        return (0, f"which is {_kind(found.value)} and no list") if count is None else (count, "")


def count_of(output: Output) -> int | None:
    """How many items an output has; none where it is no list."""
    if output.parts:
        return len(output.parts)
    if isinstance(output.value, list):
        return len(output.value)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return output.items if output.body is not None else None


def _kind(value: Any) -> str:
    kinds = {str: "a text", bool: "a truth value", dict: "an object", type(None): "a large value"}
    return kinds.get(type(value), "a number")  # pyright: ignore[reportUnknownArgumentType]
