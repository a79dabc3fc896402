"""How entries of steps change the state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from crewlog.ids import NodeName, StepId, child_step_log, step_id
from crewlog.run_status import EndReason, error_end_reason
from crewlog.state import journal as j
from crewlog.state.fold.handlers import (
    Changes,
    Frontier,
    handles,
    limit_changes,
    node_of_step,
    turn_with_call,
    with_item,
    with_step,
    without_item,
)
from crewlog.state.fold.output import find_output
from crewlog.state.frontier import (
    child_step_started,
    failed_step_changes,
    parent_of,
    with_queued_steps,
)
from crewlog.state.model import (
    Call,
    ChildStepProgress,
    CrewState,
    FrontierStep,
    Routing,
    Turn,
    WakingMessage,
)

NEXT = "next"
"""The outcome by which a node arrives at the joins after it."""

ASK_HUMAN = "ask_human"
"""Where a branch goes at its limit if people may raise that."""


@handles(j.NodesReached)
def _fold_nodes_reached(state: CrewState, entry: j.NodesReached, position: int) -> Changes:
    visits = dict(state.visits)
    frontier = dict(state.frontier)
    routing = routing_after(
        state.routing,
        entry.source,
        is_arrival=NEXT in entry.outcome,
        loop=entry.loop,
        generations=entry.generations,
        rearmed=entry.loop_reset,
    )
    for step, current in frontier.items():
        if current.by_join and current.node in entry.generations:
            frontier[step] = current.model_copy(update={"by_join": False})
    sent, firings = dict(routing.sent), dict(routing.firings)
    for reached in entry.to:
        counts = firings if reached.node in entry.arrived else sent
        counts[reached.node] = counts.get(reached.node, 0) + 1
    add_steps(frontier, visits, entry.to, position, by_join=entry.arrived)
    changes: Changes = {
        "visits": visits,
        "frontier": frontier,
        "routing": routing.model_copy(update={"sent": sent, "firings": firings}),
        "idle": None if entry.to else state.idle,
    }
    if entry.branched:
        counts = dict(state.execution_count)
        for node in entry.branched:
            counts[node] = counts.get(node, 0) + 1
        changes["execution_count"] = counts
    return changes


def add_steps(
    frontier: Frontier,
    visits: dict[NodeName, int],
    to: Iterable[j.ReachedNode],
    position: int,
    waking_message: WakingMessage | None = None,
    *,
    by_join: Collection[NodeName] = (),
    by_change: bool = False,
) -> None:
    """Adds a step for each reached node; it is queued if its node has another step.

    Args:
        frontier: The frontier.
        visits: The visit numbers.
        to: The nodes.
        position: The position of the entry.
        waking_message: The message that starts the steps.
        by_join: The nodes whose joins fired.
        by_change: Whether a change starts the steps.
    """
    busy_nodes = {step.node for step in frontier.values()}
    for reached in to:
        visits[reached.node] = visits.get(reached.node, 0) + 1
        step = step_id(reached.node, visits[reached.node])
        queued = reached.node in busy_nodes
        frontier[step] = FrontierStep(
            step=step,
            node=reached.node,
            status="queued" if queued else "waiting" if reached.requirement else "ready",
            since=position,
            reached=position,
            requirement=reached.requirement,
            by_join=reached.node in by_join,
            by_change=by_change,
            waking_message=waking_message,
        )
        busy_nodes.add(reached.node)


def routing_after(
    routing: Routing,
    source: NodeName | None,
    *,
    is_arrival: bool,
    loop: bool = False,
    generations: Mapping[NodeName, dict[NodeName, int | None]] | None = None,
    rearmed: bool = False,
) -> Routing:
    """The routing after a completion. The engine needs it before it records the entry."""
    if source is None:
        return routing
    changes: Changes = {
        "completed": with_item(routing.completed, source, routing.completed.get(source, 0) + 1),
    }
    if is_arrival:
        count = routing.arrivals.get(source, 0) + 1
        changes["arrivals"] = with_item(routing.arrivals, source, count)
    if loop or rearmed:
        used = 0 if rearmed else routing.loops.get(source, 0)
        changes["loops"] = with_item(routing.loops, source, used + (1 if loop else 0))
    if generations:
        changes["generations"] = {**routing.generations, **generations}
        changes["sent"] = {n: c for n, c in routing.sent.items() if n not in generations}
        changes["firings"] = {n: c for n, c in routing.firings.items() if n not in generations}
    return routing.model_copy(update=changes)


@handles(j.StepStarted)
def _fold_step_started(state: CrewState, entry: j.StepStarted, position: int) -> Changes:
    turn = None
    if entry.agent is not None:
        turn = Turn(calls=(Call(call=1),), next_call=2, model_calls=1, start_position=position)
    changes: Changes = {"steps": state.steps + 1, "idle": None}
    parent = state.frontier.get(entry.parent) if entry.parent is not None else None
    if parent is not None:
        child = FrontierStep(
            step=entry.step,
            node=parent.node,
            parent=parent.step,
            item=entry.item,
            status="running",
            since=position,
            turn=turn,
        )
        frontier = with_item(state.frontier, entry.step, child)
        return {**changes, "frontier": _with_started_child_step(frontier, child)}
    current = state.frontier.get(entry.step)
    if state.limit_reached and current is not None and current.node == state.limit_node:
        changes["limit_reached"] = ""  # another attempt
    return {
        **changes,
        **with_step(state, entry.step, status="running", since=position, turn=turn),
    }


@handles(j.ParentStepStarted)
def _fold_parent_step_started(
    state: CrewState, entry: j.ParentStepStarted, position: int
) -> Changes:
    output = find_output(state, entry.agent, entry.key)
    progress = ChildStepProgress(
        of=entry.of,
        position=position,
        items=output.value if output and not output.elements else None,
        list_body=output.body if output else None,
        elements=output.elements if output else (),
        logs=output.logs if output else (),
        agents=entry.agents,
        owners=entry.owners,
        after=entry.after,
        unstarted=tuple(range(1, entry.of + 1)) if entry.after else (),
    )
    return with_step(state, entry.step, status="running", since=position, child_steps=progress)


@handles(j.ItemsRefused)
def _fold_items_refused(_state: CrewState, _entry: j.ItemsRefused, _position: int) -> Changes:
    return {}  # an interrupt or a branch that follows has an entry of its own


def _with_started_child_step(frontier: Frontier, child: FrontierStep) -> Frontier:
    """The frontier in which the parent step counts a child step as started."""
    parent = parent_of(frontier, child)
    if parent is None or parent.child_steps is None:
        return frontier
    return _with_child_steps(frontier, parent, **child_step_started(parent.child_steps, child.item))


def _with_child_steps(frontier: Frontier, parent: FrontierStep, **changes: Any) -> Frontier:
    """The frontier with a changed progress of a parent step."""
    if parent.child_steps is None:
        return frontier
    progress = parent.child_steps.model_copy(update=changes)
    return with_item(frontier, parent.step, parent.model_copy(update={"child_steps": progress}))


@handles(j.RequirementMet)
def _fold_requirement_met(state: CrewState, entry: j.RequirementMet, position: int) -> Changes:
    return with_step(state, entry.step, status="ready", since=position, requirement="", deadline=0)


@handles(j.TimerStarted)
def _fold_timer_started(state: CrewState, entry: j.TimerStarted, position: int) -> Changes:
    current = state.frontier.get(entry.step)
    if current is not None and current.turn is not None:  # a timeout: the turn continues
        return with_step(state, entry.step, deadline=entry.deadline)
    return with_step(state, entry.step, status="waiting", since=position, deadline=entry.deadline)


@handles(j.TimerFired)
def _fold_timer_fired(state: CrewState, entry: j.TimerFired, position: int) -> Changes:
    current = state.frontier.get(entry.step)
    if current is None or current.requirement:  # a timeout: an entry that follows says what happens
        return {}
    return with_step(state, entry.step, status="running", since=position)


def _without_step(state: CrewState, step: StepId, position: int) -> Changes:
    """The frontier without a step; the next step queued behind it moves up."""
    if step not in state.frontier:
        return {}
    current = state.frontier[step]
    node = current.node
    frontier = without_item(state.frontier, step)
    if current.status == "queued":  # an earlier step of its node is not done
        return {"frontier": frontier}
    if current.parent:  # the store keeps its messages
        return {
            "frontier": frontier,
            "messages": without_item(state.messages, child_step_log(step)),
        }
    return {"frontier": with_queued_steps(frontier, position, only=node)}


@handles(j.StepCompleted)
def _fold_step_completed(state: CrewState, entry: j.StepCompleted, position: int) -> Changes:
    changes = _without_step(state, entry.step, position)
    current = state.frontier.get(entry.step)
    if current is None:
        return changes
    parent = parent_of(state.frontier, current)
    if current.is_detached and not current.parent:
        # Nothing follows, but if its node is added again, it counts as completed.
        completed = with_item(
            state.routing.completed, current.node, state.routing.completed.get(current.node, 0) + 1
        )
        changes["routing"] = state.routing.model_copy(update={"completed": completed})
    if parent is not None and parent.child_steps is not None:
        goto = tuple(dict.fromkeys((*parent.child_steps.goto, *entry.goto)))
        counts = {
            "done": parent.child_steps.done + 1,
            "skipped": parent.child_steps.skipped + entry.skipped,
        }
        changes["frontier"] = _with_child_steps(changes["frontier"], parent, goto=goto, **counts)
    if entry.used_up:
        reason = f"{current.node} {entry.because}"
        changes |= limit_changes(reason, "retry_budget_exhausted", current.node)
    elif state.limit_reached == "retry_budget_exhausted" and current.node == state.limit_node:
        changes["limit_reached"] = ""  # this time the branch went on
    return changes


@handles(j.StepCancelled)
def _fold_step_cancelled(state: CrewState, entry: j.StepCancelled, position: int) -> Changes:
    return _without_step(state, entry.step, position)


@handles(j.StepFailed)
def _fold_step_failed(state: CrewState, entry: j.StepFailed, position: int) -> Changes:
    turn = turn_with_call(state, entry.step, entry.call, status="interrupted")
    changes: Changes = {"turn": turn} if turn else {}
    failed = with_step(
        state, entry.step, status="interrupted", since=position, deadline=0, **changes
    )
    return {
        **failed,
        **_exchange_error(state, entry.error),
        **_failed_step_warning(state, entry),
        **failed_step_changes(state, entry, position, failed.get("frontier", state.frontier)),
    }


@handles(j.StepRetried)
def _fold_step_retried(state: CrewState, entry: j.StepRetried, position: int) -> Changes:
    current = state.frontier.get(entry.step)
    if current is None:
        return {}
    if current.turn is None:
        return with_step(state, entry.step, status="ready", since=position)
    # People approved one attempt: without its binding the approval is invalid, and they are asked
    # again.
    changes: Changes = {"status": "ready", "binding": ""}
    calls = tuple(
        c.model_copy(update={**changes, "attempt": c.attempt + 1}) if c.call == entry.call else c
        for c in current.turn.calls
    )
    # The next reply of the model is a first attempt again.
    turn = current.turn.model_copy(update={"calls": calls, "refused": 0, "faults": ()})
    if turn.results and any(c.call == entry.call and c.tool is None for c in calls):
        # An agent without a model does not repeat its successful calls.
        turn = turn.model_copy(update={"results": tuple(each for each in turn.results if each.ok)})
    return with_step(state, entry.step, status="running", since=position, turn=turn)


@handles(j.BranchTargetRefused)
def _fold_branch_target_refused(
    state: CrewState, entry: j.BranchTargetRefused, _position: int
) -> Changes:
    """A branch did not go where the output said: the response of the exchange may report that."""
    changes: Changes = {}
    if entry.used_up:
        reason: EndReason = "" if entry.goes == ASK_HUMAN else "route_limit_reached"
        changes = limit_changes(entry.because, reason, node_of_step(state, entry.step))
    if entry.exhausted_target is not None:
        count = state.execution_count.get(entry.exhausted_target, 0) + 1
        changes["execution_count"] = {**state.execution_count, entry.exhausted_target: count}
    if state.conversation is not None:
        changes["conversation"] = state.conversation.model_copy(update={"warning": entry.because})
    return changes


def _failed_step_warning(state: CrewState, entry: j.StepFailed) -> Changes:
    """The warning that the run continues without a failed step.

    It does not quote the error, which may contain what only the agent may see.
    """
    if entry.agent is None or entry.has_stand_in:
        return {}
    changes = {
        "warning": f"The run went on without {entry.step}, which failed: {entry.error_type}."
    }
    reason = error_end_reason(entry.error_type)
    node = node_of_step(state, entry.step)
    return {**changes, "limit_reached": reason, "limit_node": node} if reason else changes


def _exchange_error(state: CrewState, error: str) -> Changes:
    """The last error of an exchange, when a step of a conversation fails."""
    return {} if state.conversation is None else {"error": error}


@handles(j.StepRedirected)
def _fold_step_redirected(state: CrewState, entry: j.StepRedirected, _position: int) -> Changes:
    return with_step(state, entry.step, redirect=entry.node)
