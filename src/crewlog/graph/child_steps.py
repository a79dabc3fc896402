"""Child steps: one for each item of a list that is known only when the node is reached.

    reached ──(a list)──► a child step for each item, side by side ──(all done)──► completed
       ├──(an empty list)──► skipped
       └──(no list)──► people are asked

The parent step stays in the frontier while its child steps do, and counts how many of them have
started and are done. So a join downstream gets one arrival for each parent step, and another step
of the node queues behind this one. Child steps start in the order of the items, up to the
concurrency limit: the frontier of a list of 1,000 items is no longer than that of one with 64. The
completion of a child step starts the next one in the same workflow task. Items that wait for other
items start when those are done (`crewlog.graph.item_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from crewlog.graph.item_order import ItemOrder, item_order, next_ready_item
from crewlog.graph.outputs import is_set
from crewlog.graph.plan import ASK_HUMAN, NEXT, SKIP, PlanNode
from crewlog.graph.run_context import CompleteStep, RunContext, disabled_reason
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
from crewlog.state.item_specs import (
    ItemSpec,
    ListSpec,
    bounded_spec,
    item_spec,
    list_spec,
    spec_of_items,
)
from crewlog.state.model import ChildStepProgress, FrontierStep, Item, Output

MAX_INTERRUPTED = 64
"""The most child steps of a step that wait for people at a time, besides those that run: an error
in all of 1,000 items must not raise 1,000 interrupts."""

MayStart = Callable[[StepId, NodeName], bool]
"""Whether a step may start now; if not, people are asked."""


class ChildSteps:
    """The child steps of a run and their parent steps.

    Args:
        run: The run.
        complete: Completes a step and routes on.
        may_start: Whether another step may start; if not, it raises an interrupt.
    """

    def __init__(self, run: RunContext, complete: CompleteStep, may_start: MayStart) -> None:
        self._run = run
        self._complete = complete
        self._may_start = may_start

    async def start_parent_step(self, entry: FrontierStep, node: PlanNode) -> None:
        """Starts a parent step with its list; skips it if the list is empty; else asks people."""
        step, name = entry.step, node.for_each or ""
        agent, _, key = name.partition(".")
        count, error = self._count(name)
        if error:
            question = f"{step} has a step for each item of {name}, {error}."
            await self._refuse_list(entry, node, question, f"there is no list {name}")
            return
        if count == 0:
            await self._complete(step, because=f"{name} is empty", skipped=True)
            return
        order = self._order(node, count)
        if order.errors:
            question = _list_error_text(name, order)
            self._run.record(
                j.ItemsRefused(step=step, agent=AgentName(agent), key=key, errors=order.errors)
            )
            await self._refuse_list(entry, node, question, f"{name} cannot be worked on")
            return
        self._run.record(
            j.ParentStepStarted(
                step=step,
                agent=AgentName(agent),
                key=key,
                of=count,
                agents=order.agents,
                owners=order.owners,
                after=order.after,
            )
        )

    async def _refuse_list(
        self, entry: FrontierStep, node: PlanNode, question: str, because: str
    ) -> None:
        """Continues by the node's `else`, or asks people about the list."""
        if node.otherwise != ASK_HUMAN:
            outcome = NEXT if node.otherwise == SKIP else node.otherwise
            await self._complete(entry.step, outcome=outcome, because=because, skipped=True)
            return
        self._run.ask(
            "requirement",
            question,
            step=entry.step,
            options=("again", "skip", "stop"),
            detail=node.for_each or "",
        )

    def has_new_list(self, step: StepId, node: PlanNode) -> bool:
        """Whether the list of a step that asks people about it has changed.

        That is so if it is a list that can be used now, or if its errors are other ones.
        """
        if node.for_each is None:
            return False
        count, error = self._count(node.for_each)
        if error or not count:
            return not error
        order = self._order(node, count)
        questions = [q.question for q in self._run.state.interrupts.values() if q.step == step]
        return not order.errors or _list_error_text(node.for_each, order) not in questions

    def _order(self, node: PlanNode, count: int) -> ItemOrder:
        """The agents of the items and their order."""
        agent, _, key = (node.for_each or "").partition(".")
        output = self._run.state.agent_outputs[AgentName(agent)][key]
        spec = output_list_spec(output, node.by)
        return item_order(node, None if spec is None else bounded_spec(spec), count)

    async def start_child_steps(self, parent: FrontierStep, node: PlanNode) -> None:
        """Starts as many child steps as the concurrency limit allows.

        A detached step starts none: it ends with those that run.
        """
        if parent.is_detached:
            return
        while self._has_capacity(parent.step, node):
            number = self._next_item(parent.step)
            if number is None or not self._may_start(parent.step, parent.node):
                return
            await self._start(parent, number, node)

    def _next_item(self, parent: StepId) -> int | None:
        """The item to start next; none if all have started or wait for other items."""
        progress = self._progress(parent)
        if progress is None or progress.started == progress.of:
            return None
        if not progress.after:
            return progress.started + 1
        running = [entry.item for entry in self._child_steps(parent)]
        return next_ready_item(progress.unstarted, progress.after, running)

    async def _start(self, parent: FrontierStep, number: int, node: PlanNode) -> None:
        """Starts the child step of an item; skips it if its agent cannot take it."""
        step = child_step_id(parent.step, number)
        progress = self._progress(parent.step)
        named = progress.agent(number) if progress is not None else None
        reason = self._skip_reason(named, node) if named is not None else ""
        agent = None if reason else named or node.agent
        self._run.record(
            j.StepStarted(
                step=step,
                parent=parent.step,
                item=number,
                agent=agent,
                without_model=self._run.has_no_model(agent),
            )
        )
        if reason:
            await self._complete(step, because=reason, skipped=True)

    def _skip_reason(self, agent: AgentName, node: PlanNode) -> str:
        """Why the agent that an item names cannot take its step; empty if it can."""
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
        entry = self._run.state.frontier.get(parent)
        if entry is None or entry.child_steps is None:
            return
        progress = entry.child_steps
        if progress.done == (progress.started if entry.is_detached else progress.of):
            await self._complete(parent, because=_progress_text(progress), handoff=progress.goto)

    def failure_fields(self, step: StepId, agent: AgentName | None) -> dict[str, Any]:
        """Fields of `StepFailed` if `on_error` is neither `ask` nor `fail`."""
        return {} if agent is None else {"agent": agent, "logs": (private_log(agent),)}

    def announce_failure(self, step: StepId, error_type: str) -> None:
        """Sends a message about a failed step to the logs that its agent writes to.

        It has the type of the error only: the text may hold what only the agent may see.
        """
        agent, entry = self._run.agent_of(step), self._run.state.frontier.get(step)
        if agent is None or entry is None:
            return
        what = f"{agent} failed on item {entry.item}" if entry.parent else f"{agent} failed"
        text, message = f"{what}: {error_type}", f"{step}/failed"
        self._run.say(text, by=CREW, to=self._run.writable_logs(agent, step), message_id=message)

    def item(self, step: StepId) -> Item | None:
        """The item of a child step, as its agent may see it; none for any other step."""
        child = self._run.state.frontier.get(step)
        if child is None or child.parent is None:
            return None
        progress, agent = self._progress(child.parent), self._run.agent_of(step)
        if progress is None or agent is None:
            return None
        return self._run.visible_item(agent, progress.item(child.item), step)

    def _progress(self, parent: StepId) -> ChildStepProgress | None:
        entry = self._run.state.frontier.get(parent)
        return entry.child_steps if entry else None

    def _child_steps(self, parent: StepId) -> list[FrontierStep]:
        """The child steps that have started and are not done."""
        return [*child_steps_of(self._run.state.frontier, parent).values()]

    def _has_capacity(self, parent: StepId, node: PlanNode) -> bool:
        """Whether another child step may start.

        Those that wait for people count for the node's limit, and not for the run's.
        """
        children = self._child_steps(parent)
        if node.at_once is not None and len(children) >= node.at_once:
            return False
        interrupted = sum(entry.status == "interrupted" for entry in children)
        running = len(children) - interrupted
        return interrupted < MAX_INTERRUPTED and running < self._run.plan.limits.parallel

    def _count(self, name: str) -> tuple[int, str]:
        """The number of items of a list, and why it cannot be used, for people."""
        agent, _, key = name.partition(".")
        output = self._run.state.agent_outputs.get(AgentName(agent), {}).get(key)
        if output is None:
            return 0, "which is not set"
        if not is_set(output):
            return 0, "which has no value"
        count = item_count(output)
        return (0, f"which is {_kind(output.value)} and no list") if count is None else (count, "")


def _progress_text(progress: ChildStepProgress) -> str:
    """How a parent step ended, for people."""
    if progress.done < progress.of:
        return f"{progress.done} of {progress.of} items are done, and its node was removed"
    if progress.failed or progress.skipped:
        counts = {"failed": progress.failed, "skipped": progress.skipped}
        rest = [f"{count} {what}" for what, count in counts.items() if count]
        succeeded = progress.done - progress.failed - progress.skipped
        return f"{progress.of} items: {', '.join([f'{succeeded} done', *rest])}"
    return f"all {progress.of} items are done"


def _list_error_text(name: str, order: ItemOrder) -> str:
    return f"The list {name} cannot be worked on: {'; '.join(order.errors)}."


def output_list_spec(output: Output, by: str) -> ListSpec | None:
    """The agents and the order that the items of a list state; none if they state neither."""
    keys = {by} if by else set[str]()
    if output.elements:
        parts = output.elements
        specs = [p.spec or ItemSpec() if p.body else item_spec(p.value, keys) for p in parts]
        return spec_of_items(specs, keys) if by or any(spec.after for spec in specs) else None
    if isinstance(output.value, list):
        items: list[Json] = output.value  # pyright: ignore[reportUnknownVariableType]
        return list_spec(items, keys)
    return output.spec


def item_count(output: Output) -> int | None:
    """The number of items of an output; none if it is no list."""
    if output.elements:
        return len(output.elements)
    if isinstance(output.value, list):
        return len(output.value)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return output.items if output.body is not None else None


def _kind(value: Any) -> str:
    kinds = {str: "a text", bool: "a truth value", dict: "an object", type(None): "a large value"}
    return kinds.get(type(value), "a number")  # pyright: ignore[reportUnknownArgumentType]
