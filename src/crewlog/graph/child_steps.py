"""Nodes with a step for each item of a list that is known only when they are reached.

    reached ──(a list)──► mapped: a step for each item, side by side ──(all done)──► completed
       ├──(an empty list)──► skipped
       └──(no list)──► people are asked

The visit itself stands in the frontier as long as its items do, with how many of them are started
and done. So a join downstream sees one completion for each visit, and a visit that comes while
this one is under way queues behind it, as behind any other. Steps are started in the order of the
items as there is room, not all at once: the frontier of a list of 1,000 items is no longer than
one of 64. It is a pool: what is applied when a step ends starts the next one, in the same task of
the workflow. Items that wait for others start when those are done, see `crewlog.graph.item_order`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from crewlog.graph.item_order import ItemOrder, item_order, next_ready_item
from crewlog.graph.outputs import is_set
from crewlog.graph.plan import ASK_HUMAN, NEXT, SKIP, PlanNode
from crewlog.graph.run_context import RunContext, disabled_reason
from crewlog.ids import (
    CREW,
    AgentName,
    NodeName,
    StepId,
    child_step_id,
    private_log,
)
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.frontier import child_steps_of
from crewlog.state.item_specs import ItemSpec, ListSpec, bounded_spec, item_spec, joined, list_spec
from crewlog.state.model import ChildStepProgress, FrontierStep, Item, Output

ASKING = 64
"""Items of a visit that may ask people at a time, besides those that are at work: an error that
all of 1,000 items have is no reason for 1,000 questions."""

Completed = Callable[..., Awaitable[None]]
"""Completes a step as `Engine` does."""
MayStart = Callable[[StepId, NodeName], bool]
"""Whether a step may start now; where not, people are asked."""


class ChildSteps:
    """The visits of a run that have a step for each item of a list.

    Args:
        run: The run.
        complete: Completes a visit and routes on.
        may_start: Says whether another step may start; raises the question where it may not.
    """

    def __init__(self, run: RunContext, complete: Completed, may_start: MayStart) -> None:
        self._run = run
        self._complete = complete
        self._may_start = may_start

    async def start_parent_step(self, entry: FrontierStep, node: PlanNode) -> None:
        """Maps a visit that is ready: over a list, over nothing, or people are asked."""
        step, name = entry.step, node.for_each or ""
        agent, _, key = name.partition(".")
        count, fault = self._count(name)
        if fault:
            said = f"{step} has a step for each item of {name}, {fault}."
            await self._refuse(entry, node, said, f"there is no list {name}")
            return
        if count == 0:
            await self._complete(step, because=f"{name} is empty", skipped=True)
            return
        order = self._order(node, count)
        if order.faults:
            said = _list_error_text(name, order)
            self._run.record(
                j.ItemsRefused(step=step, agent=AgentName(agent), key=key, errors=order.faults)
            )
            await self._refuse(entry, node, said, f"{name} cannot be worked on")
            return
        self._run.record(
            j.ParentStepStarted(
                step=step,
                agent=AgentName(agent),
                key=key,
                of=count,
                agents=order.agents,
                owners=order.whose,
                after=order.after,
            )
        )

    async def _refuse(self, entry: FrontierStep, node: PlanNode, said: str, because: str) -> None:
        """Goes where the node's `else` says instead of over a list, or asks people about it."""
        if node.otherwise != ASK_HUMAN:
            outcome = NEXT if node.otherwise == SKIP else node.otherwise
            await self._complete(entry.step, outcome=outcome, because=because, skipped=True)
            return
        self._run.ask(
            "requirement",
            said,
            step=entry.step,
            options=("again", "skip", "stop"),
            detail=node.for_each or "",
        )

    def has_new_list(self, step: StepId, node: PlanNode) -> bool:
        """Whether a visit that asks people about its list looks at it again.

        It does where there is one now, and where something else is wrong with it than was asked.
        """
        if node.for_each is None:
            return False
        count, fault = self._count(node.for_each)
        if fault or not count:
            return not fault
        order = self._order(node, count)
        asked = [q.question for q in self._run.state.interrupts.values() if q.step == step]
        return not order.faults or _list_error_text(node.for_each, order) not in asked

    def _order(self, node: PlanNode, count: int) -> ItemOrder:
        """Who works on the items of the list that is there, and in which order."""
        agent, _, key = (node.for_each or "").partition(".")
        output = self._run.state.agent_outputs[AgentName(agent)][key]
        shape = output_list_spec(output, node.by)
        return item_order(node, None if shape is None else bounded_spec(shape), count)

    async def start_child_steps(self, visit: FrontierStep, node: PlanNode) -> None:
        """Starts steps of a mapped visit, as far as there is room: in order, or those that are due.

        None of one whose node a change took away: its items at work end, and it with them.
        """
        if visit.is_detached:
            return
        while self._room(visit.step, node) and (number := self._next(visit.step)) is not None:
            if not self._may_start(visit.step, visit.node):
                return
            await self._start(visit, number, node)

    def _next(self, visit: StepId) -> int | None:
        """The item that is to start next; none where all are started, or wait for others."""
        mapped = self._mapped(visit)
        if mapped is None or mapped.started == mapped.of:
            return None
        if not mapped.after:
            return mapped.started + 1
        at_work = [entry.item for entry in self._at_work(visit)]
        return next_ready_item(mapped.unstarted, mapped.after, at_work)

    async def _start(self, parent: FrontierStep, number: int, node: PlanNode) -> None:
        """Starts the child step of an item, and skips it where its agent cannot take it."""
        step = child_step_id(parent.step, number)
        mapped = self._mapped(parent.step)
        named = mapped.agent(number) if mapped is not None else None
        why = self._skip_reason(named, node) if named is not None else ""
        agent = None if why else named or node.agent
        composed = self._run.has_no_model(agent)
        self._run.record(
            j.StepStarted(
                step=step, parent=parent.step, item=number, agent=agent, without_model=composed
            )
        )
        if why:
            await self._complete(step, because=why, skipped=True)

    def _skip_reason(self, agent: AgentName, node: PlanNode) -> str:
        """Why the agent that an item names cannot take its step; empty where it can."""
        rules = self._run.plan.agents.get(agent)
        if rules is None:
            return f"there is no agent {agent!r} any more"
        if not rules.enabled:
            return disabled_reason(agent)
        return self._run.missing_tool_reason(agent, node.needs)

    async def complete_child_step(
        self,
        step: StepId,
        parent: StepId,
        *,
        because: str,
        skipped: bool,
        handoff: Sequence[NodeName],
    ) -> None:
        """Completes a child step; with the last one, its parent step."""
        self._run.record(
            j.StepCompleted(step=step, because=because, skipped=skipped, goto=tuple(handoff))
        )
        found = self._run.state.frontier.get(parent)
        if found is None or found.child_steps is None:
            return
        mapped = found.child_steps
        if mapped.done == (mapped.started if found.is_detached else mapped.of):
            await self._complete(parent, because=_done(mapped), handoff=mapped.goto)

    def failure_fields(self, step: StepId, agent: AgentName | None) -> dict[str, Any]:
        """What a fact says of a step that failed and that the run goes on without."""
        return {} if agent is None else {"agent": agent, "logs": (private_log(agent),)}

    def announce_failure(self, step: StepId, error_type: str) -> None:
        """Tells those who read what an agent writes that a step of it failed.

        Not with which words: these are of what the agent did, and may hold what only it may see.
        """
        agent, entry = self._run.agent_of(step), self._run.state.frontier.get(step)
        if agent is None or entry is None:
            return
        what = f"{agent} failed on item {entry.item}" if entry.parent else f"{agent} failed"
        text, message = f"{what}: {error_type}", f"{step}/failed"
        self._run.say(text, by=CREW, to=self._run.writable_logs(agent, step), message_id=message)

    def item(self, step: StepId) -> Item | None:
        """The item that a step is for, as its agent may see it; none for any other step."""
        child = self._run.state.frontier.get(step)
        if child is None or child.parent is None:
            return None
        mapped, agent = self._mapped(child.parent), self._run.agent_of(step)
        if mapped is None or agent is None:
            return None
        return self._run.visible_item(agent, mapped.item(child.item), step)

    def _mapped(self, visit: StepId) -> ChildStepProgress | None:
        found = self._run.state.frontier.get(visit)
        return found.child_steps if found else None

    def _at_work(self, parent: StepId) -> list[FrontierStep]:
        """The child steps of a parent step that are started and not done."""
        return [*child_steps_of(self._run.state.frontier, parent).values()]

    def _room(self, visit: StepId, node: PlanNode) -> bool:
        """Whether another item may start. One that asks people keeps its place in a pool."""
        items = self._at_work(visit)
        if node.at_once is not None and len(items) >= node.at_once:
            return False
        asking = sum(entry.status == "interrupted" for entry in items)
        return asking < ASKING and len(items) - asking < self._run.plan.limits.parallel

    def _count(self, name: str) -> tuple[int, str]:
        """How many items a list has, or what is wrong with it, for people."""
        agent, _, key = name.partition(".")
        outputs = self._run.state.agent_outputs.get(AgentName(agent), {})
        found = outputs.get(key)
        if found is None:
            return 0, "which nobody has set"
        if not is_set(found):
            return 0, "which has no value"
        count = item_count(found)
        return (0, f"which is {_kind(found.value)} and no list") if count is None else (count, "")


def _done(mapped: ChildStepProgress) -> str:
    """How a visit ended, for people."""
    if mapped.done < mapped.of:
        return f"{mapped.done} of {mapped.of} items are done, and its node is gone"
    if mapped.failed or mapped.skipped:
        counts = {"failed": mapped.failed, "skipped": mapped.skipped}
        rest = [f"{count} {what}" for what, count in counts.items() if count]
        return f"{mapped.of} items: {', '.join([f'{_succeeded_count(mapped)} done', *rest])}"
    return f"all {mapped.of} items are done"


def _list_error_text(name: str, order: ItemOrder) -> str:
    """What is wrong with a list, for people."""
    return f"The list {name} cannot be worked on: {'; '.join(order.faults)}."


def _succeeded_count(mapped: ChildStepProgress) -> int:
    return mapped.done - mapped.failed - mapped.skipped


def output_list_spec(output: Output, by: str) -> ListSpec | None:
    """What the items of a list say of how they are worked on; none where that is nothing."""
    keys = {by} if by else set[str]()
    if output.elements:
        parts = output.elements
        found = [p.spec or ItemSpec() if p.body else item_spec(p.value, keys) for p in parts]
        return joined(found, keys) if by or any(shape.after for shape in found) else None
    if isinstance(output.value, list):
        items: list[Json] = output.value  # pyright: ignore[reportUnknownVariableType]
        return list_spec(items, keys)
    return output.spec


def item_count(output: Output) -> int | None:
    """How many items an output has; none where it is no list."""
    if output.elements:
        return len(output.elements)
    if isinstance(output.value, list):
        return len(output.value)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return output.items if output.body is not None else None


def _kind(value: Any) -> str:
    kinds = {str: "a text", bool: "a truth value", dict: "an object", type(None): "a large value"}
    return kinds.get(type(value), "a number")  # pyright: ignore[reportUnknownArgumentType]
