"""`reduce(state, entry) -> state`: the only thing that changes a run's state.

Pure: no plan, no store, no clock. Folding a journal from the empty state gives the live state,
which is what makes the journal the truth. Each kind of entry has one small function, found by the
entry's class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast, get_args

from crewlog.authority.permissions import with_live_permission, without_milder_permissions
from crewlog.canonical_json import canonical, hash_json
from crewlog.ids import (
    PUBLIC,
    RESERVED,
    AgentName,
    ContentHash,
    LogName,
    NodeName,
    RunId,
    StepId,
    child_step_log,
    step_id,
)
from crewlog.state import exchanges
from crewlog.state import journal as j
from crewlog.state.answers import ESCALATED, answer_changes, approval, turn_with_model_call
from crewlog.state.command_outcomes import outcome_of, remember
from crewlog.state.edits import fold_state_edited
from crewlog.state.excerpt import excerpt
from crewlog.state.finish_reason import TAKEN
from crewlog.state.frontier import (
    child_step_started,
    failed_step_changes,
    parent_of,
    with_queued_steps,
)
from crewlog.state.live_permissions import agent_permission_change, tool_permission_change
from crewlog.state.logs import chain, empty_log_head, joined
from crewlog.state.model import (
    NEVER_RESTORED,
    Call,
    ChangeRecord,
    ChildStepProgress,
    CrewState,
    FrontierStep,
    Idle,
    ListElement,
    LogHead,
    MergeOutcome,
    Output,
    PendingChange,
    PendingMerge,
    PromptState,
    Routing,
    SourceRun,
    StatusReason,
    Turn,
    WakingMessage,
)
from crewlog.state.reducers import (
    CONFLICTS,
    appended_values,
    conflicts,
    element_position,
    output_with_value,
    output_with_write,
    reduced_value,
)
from crewlog.state.run_merge.protocol import outcome_changes
from crewlog.state.run_merge.renames import merged_runs_after
from crewlog.state.run_merge.surviving_state import MergeNames, merged_state_changes
from crewlog.state.split import original_run_changes
from crewlog.usage import Usage

CHANGES_KEPT = 100
"""Changes that the state tells of, at most; the journal has them all."""
CHANGES_BYTES = 3 * 1024
"""Bytes of JSON that they take, at most, but for the last: every execution carries them."""

REASON_LENGTH = 500
"""Characters of a reason that the state keeps; the journal has all of it."""
PERMISSION_REASON_LENGTH = 200
"""The same of why people said who may call what: it must not push out older changes."""

K = TypeVar("K")
V = TypeVar("V")


def fold(
    state: CrewState, entry: j.JournalEntry, *, digest: ContentHash | None = None
) -> CrewState:
    """The state after one more entry.

    Args:
        state: The state before; it is not changed.
        entry: The fact.
        digest: The hash of `entry_to_json(entry)`, where the caller has it already.
    """
    position = entry.position_after(state.position)
    changes: dict[str, Any] = {
        "position": position,
        "execution_trace": LogHead(
            head=chain(
                state.execution_trace.head,
                position,
                digest or hash_json(j.entry_to_json(entry)),
            ),
            length=position,
        ),
    }
    if (ref := entry.message) is not None:
        changes["messages"] = _extend(state, ref, position)
    if entry.log_merges:
        changes["messages"] = _joined(changes.get("messages", state.messages), entry, position)
    if type(entry) in _OF_COMMANDS and (command := getattr(entry, "command", None)) is not None:
        changes["commands"], changes["older_commands"] = remember(
            state.commands, state.older_commands, command, outcome_of(entry, position)
        )
    handler = _HANDLERS.get(type(entry))
    if handler is not None:
        changes.update(handler(state, entry, position))
    return state.model_copy(update=changes)


def fold_journal(run: RunId, entries: Iterable[j.JournalEntry], *, base: int = 0) -> CrewState:
    """The state that a journal stands for, from the beginning.

    Args:
        run: The run.
        entries: The journal.
        base: The position after which it begins: not 0 for a run that was forked.
    """
    state = CrewState(run=run, position=base)
    for entry in entries:
        state = fold(state, entry)
    return state


def fold_at_positions(state: CrewState, landed: Iterable[tuple[int, j.JournalEntry]]) -> CrewState:
    """The state after some entries, at their positions, without those that stand between them."""
    for position, entry in landed:
        state = fold(state.model_copy(update={"position": position - 1}), entry)
    return state


_OF_COMMANDS = frozenset(
    kind for kind in get_args(get_args(j.JournalEntry)[0]) if "command" in kind.model_fields
)
"""The kinds of entries that commands lead to."""
Changes = dict[str, Any]
Frontier = dict[StepId, FrontierStep]
_HANDLERS: dict[type, Callable[[CrewState, Any, int], Changes]] = {}
E = TypeVar("E")


def _on(kind: type[E]) -> Callable[[Callable[[CrewState, E, int], Changes]], Any]:
    def register(handler: Callable[[CrewState, E, int], Changes]) -> Any:
        _HANDLERS[kind] = cast("Any", handler)
        return handler

    return register


def _with(mapping: dict[K, V], key: K, value: V) -> dict[K, V]:
    return {**mapping, key: value}


def _without(mapping: dict[K, V], key: K) -> dict[K, V]:
    return {k: v for k, v in mapping.items() if k != key}


def _extend(state: CrewState, ref: j.MessageRef, position: int) -> dict[Any, LogHead]:
    logs = dict(state.messages)
    for log in ref.logs:
        before = logs.get(log)
        head = before.head if before else empty_log_head(state.run, log)
        logs[log] = LogHead(
            head=chain(head, position, ref.body), length=(before.length if before else 0) + 1
        )
    return logs


def _joined(
    messages: Mapping[LogName, LogHead], entry: j.Entry, position: int
) -> dict[LogName, LogHead]:
    logs = dict(messages)
    for join in entry.log_merges:
        before = logs.get(join.log)
        head = joined(join.one, join.two, position)
        logs[join.log] = LogHead(head=head, length=(before.length if before else 0) + join.more)
    return logs


def _entry(state: CrewState, step: StepId, **changes: Any) -> Changes:
    """The frontier with one entry changed; nothing where the step is gone."""
    found = state.frontier.get(step)
    if found is None:
        return {}
    return {"frontier": _with(state.frontier, step, found.model_copy(update=changes))}


def _turn(state: CrewState, step: StepId) -> Turn:
    found = state.frontier.get(step)
    return (found.turn if found else None) or Turn()


def _call_changed(state: CrewState, step: StepId, call: int | None, **changes: Any) -> Turn | None:
    """A step's turn with one call changed."""
    found = state.frontier.get(step)
    if found is None or found.turn is None:
        return None
    calls = tuple(c.model_copy(update=changes) if c.call == call else c for c in found.turn.calls)
    return found.turn.model_copy(update={"calls": calls})


@_on(j.RunStarted)
def _run_started(_state: CrewState, entry: j.RunStarted, _position: int) -> Changes:
    return {
        "crew": entry.crew,
        "definition": entry.definition,
        "recipe": entry.definition,
        "flags": dict(entry.flags),
        "tool_permissions": dict(entry.permissions),
        "coordination_rules": entry.coordination_rules,
        "started_at": entry.started_at or entry.at,
    }


@_on(j.PromptReceived)
def _prompt_received(_state: CrewState, entry: j.PromptReceived, _position: int) -> Changes:
    prompt = PromptState(text=entry.prompt, registry=entry.registry)
    return {"started_at": entry.at, "prompt": prompt}


def _prompt(state: CrewState, **changes: Any) -> Changes:
    return {} if state.prompt is None else {"prompt": state.prompt.model_copy(update=changes)}


@_on(j.PromptRead)
def _prompt_read(state: CrewState, entry: j.PromptRead, _position: int) -> Changes:
    used = state.usage.get(entry.agent, Usage()) + entry.usage
    return {"usage": _with(state.usage, entry.agent, used), **_prompt(state, rounds=entry.round)}


@_on(j.PromptCompiled)
def _prompt_compiled(state: CrewState, entry: j.PromptCompiled, _position: int) -> Changes:
    return _prompt(
        state,
        reader=entry.reader,
        definition=entry.definition,
        diagnostics=entry.diagnostics,
        requirements=entry.requirements,
    )


@_on(j.PromptCompileFailed)
def _prompt_refused(state: CrewState, entry: j.PromptCompileFailed, _position: int) -> Changes:
    return _prompt(state, reader=entry.reader, diagnostics=entry.diagnostics)


@_on(j.DefinitionEdited)
def _definition_edited(state: CrewState, entry: j.DefinitionEdited, _position: int) -> Changes:
    # What was remarked of the prompt's own definition does not hold for another one.
    return _prompt(state, definition=entry.definition, edited=True, diagnostics=(), requirements=())


@_on(j.DefinitionApproved)
def _definition_approved(state: CrewState, entry: j.DefinitionApproved, _position: int) -> Changes:
    return _prompt(state, approved=entry.definition, approved_by=entry.by)


@_on(j.NodesReached)
def _routed(state: CrewState, entry: j.NodesReached, position: int) -> Changes:
    visits = dict(state.visits)
    frontier = dict(state.frontier)
    routing = routing_after(
        state.routing,
        entry.source,
        entry.arrived,
        loop=entry.loop,
        reset=entry.reset,
        late=entry.late,
        rearmed=entry.loop_reset,
    )
    sent = dict(routing.sent)
    for reached in entry.to:
        if reached.node not in entry.arrived:
            sent[reached.node] = sent.get(reached.node, 0) + 1
    _reach(frontier, visits, entry.to, position)
    changes: Changes = {
        "visits": visits,
        "frontier": frontier,
        "routing": routing.model_copy(update={"sent": sent}),
        "idle": None if entry.to else state.idle,
    }
    if entry.branched:
        counts = dict(state.execution_count)
        for node in entry.branched:
            counts[node] = counts.get(node, 0) + 1
        changes["execution_count"] = counts
    return changes


def _reach(
    frontier: Frontier,
    visits: dict[NodeName, int],
    to: Iterable[j.ReachedNode],
    position: int,
    heard: WakingMessage | None = None,
) -> None:
    """Adds visits of the nodes reached, each queued behind those of its node that are there."""
    active = {found.node for found in frontier.values()}
    for reached in to:
        visits[reached.node] = visits.get(reached.node, 0) + 1
        step = step_id(reached.node, visits[reached.node])
        queued = reached.node in active
        frontier[step] = FrontierStep(
            step=step,
            node=reached.node,
            status="queued" if queued else "waiting" if reached.requirement else "ready",
            since=position,
            reached=position,
            requirement=reached.requirement,
            waking_message=heard,
        )
        active.add(reached.node)


def routing_after(
    routing: Routing,
    source: NodeName | None,
    arrived: Iterable[NodeName],
    *,
    loop: bool = False,
    reset: dict[NodeName, tuple[NodeName, ...]] | None = None,
    late: dict[NodeName, dict[NodeName, int]] | None = None,
    rearmed: bool = False,
) -> Routing:
    """The routing facts after a completion; the applier needs them before the entry is made."""
    if source is None:
        return routing
    arrivals = dict(routing.arrivals)
    for target in arrived:
        counts = arrivals.get(target, {})
        arrivals[target] = _with(counts, source, counts.get(source, 0) + 1)
    changes: Changes = {
        "completed": _with(routing.completed, source, routing.completed.get(source, 0) + 1),
        "arrivals": arrivals,
    }
    if loop or rearmed:
        used = 0 if rearmed else routing.loops.get(source, 0)
        changes["loops"] = _with(routing.loops, source, used + (1 if loop else 0))
    if reset:
        for target in reset:
            arrivals.pop(target, None)
        for target, owed in (late or {}).items():
            arrivals[target] = {source: -count for source, count in owed.items()}
        changes["completed_before"] = {**routing.completed_before, **reset}
        changes["sent"] = {n: count for n, count in routing.sent.items() if n not in reset}
        changes["fired"] = {n: count for n, count in routing.fired.items() if n not in reset}
    return routing.model_copy(update=changes)


@_on(j.StepStarted)
def _step_started(state: CrewState, entry: j.StepStarted, position: int) -> Changes:
    turn = None
    if entry.agent is not None:
        turn = Turn(calls=(Call(call=1),), next_call=2, model_calls=1, start_position=position)
    changes: Changes = {"steps": state.steps + 1, "idle": None}
    parent = state.frontier.get(entry.parent) if entry.parent is not None else None
    if parent is not None:
        started = FrontierStep(
            step=entry.step,
            node=parent.node,
            parent=parent.step,
            item=entry.item,
            status="running",
            since=position,
            turn=turn,
        )
        frontier = _with(state.frontier, entry.step, started)
        return {**changes, "frontier": _with_started_child_step(frontier, started)}
    found = state.frontier.get(entry.step)
    if state.limit_reached and found is not None and found.node == state.limit_node:
        changes["limit_reached"] = ""  # it is tried once more
    return {
        **changes,
        **_entry(state, entry.step, status="running", since=position, turn=turn),
    }


@_on(j.ParentStepStarted)
def _step_mapped(state: CrewState, entry: j.ParentStepStarted, position: int) -> Changes:
    found = _found(state, entry.agent, entry.key)
    mapped = ChildStepProgress(
        of=entry.of,
        position=position,
        items=found.value if found and not found.elements else None,
        list_body=found.body if found else None,
        elements=found.elements if found else (),
        logs=found.logs if found else (),
        agents=entry.agents,
        owners=entry.owners,
        after=entry.after,
        unstarted=tuple(range(1, entry.of + 1)) if entry.after else (),
    )
    return _entry(state, entry.step, status="running", since=position, child_steps=mapped)


@_on(j.ItemsRefused)
def _items_refused(_state: CrewState, _entry: j.ItemsRefused, _position: int) -> Changes:
    return {}  # what follows, a question or another way, is a fact of its own


def _with_started_child_step(frontier: Frontier, child: FrontierStep) -> Frontier:
    """The frontier in which the parent step counts a child step as started."""
    parent = parent_of(frontier, child)
    if parent is None or parent.child_steps is None:
        return frontier
    return _with_child_steps(frontier, parent, **child_step_started(parent.child_steps, child.item))


def _with_child_steps(frontier: Frontier, parent: FrontierStep, **changes: Any) -> Frontier:
    """The frontier with other counts of the child steps of a parent step."""
    if parent.child_steps is None:
        return frontier
    mapped = parent.child_steps.model_copy(update=changes)
    return _with(frontier, parent.step, parent.model_copy(update={"child_steps": mapped}))


@_on(j.RequirementMet)
def _condition_met(state: CrewState, entry: j.RequirementMet, position: int) -> Changes:
    return _entry(state, entry.step, status="ready", since=position, requirement="", deadline=0)


@_on(j.TimerStarted)
def _timer_set(state: CrewState, entry: j.TimerStarted, position: int) -> Changes:
    found = state.frontier.get(entry.step)
    if found is not None and found.turn is not None:  # its time is limited, and it goes on
        return _entry(state, entry.step, deadline=entry.deadline)
    return _entry(state, entry.step, status="waiting", since=position, deadline=entry.deadline)


@_on(j.TimerFired)
def _timer_fired(state: CrewState, entry: j.TimerFired, position: int) -> Changes:
    found = state.frontier.get(entry.step)
    if found is None or found.requirement:  # a bound is over: what follows is decided at once
        return {}
    return _entry(state, entry.step, status="running", since=position)


@_on(j.ModelCallCompleted)
def _model_replied(state: CrewState, entry: j.ModelCallCompleted, position: int) -> Changes:
    turn = _turn(state, entry.step)
    changes: Changes = {
        "usage": _with(
            state.usage, entry.agent, state.usage.get(entry.agent, Usage()) + entry.usage
        ),
    }
    rest = tuple(c for c in turn.calls if c.call != entry.call)
    after = turn.model_copy(
        update={
            "calls": rest + entry.calls,
            "next_call": turn.next_call + len(entry.calls),
            "expected": len(entry.calls),
            "returned": 0,
            "unresolved": (),
            "cut": turn.cut + 1 if entry.ending == "cut" else 0,
            "refusal": entry.excerpt if entry.ending == "refused" else "",
        }
    )
    if entry.draft is not None:
        after = after.model_copy(update={"draft": entry.draft})
    if not entry.calls and not entry.refused:
        changes["agent_outputs"] = _text(state, entry, entry.ref.body, position)
        changes |= _acceptance(state, entry)
    return {**changes, **_entry(state, entry.step, turn=after)}


def _acceptance(state: CrewState, entry: j.ModelCallCompleted) -> Changes:
    """A final reply that is no good answer counts: whoever asked is told so.

    An agent that heard a message need not say anything.
    """
    silent = entry.ending == "empty" and state.frontier[entry.step].waking_message is not None
    if not entry.ending or silent:
        return {}
    return {"warning": f"The reply of {entry.agent!r} is taken as it is: {TAKEN[entry.ending]}."}


def _text(
    state: CrewState,
    entry: j.ModelCallCompleted | j.TurnLimitReached,
    body: ContentHash,
    position: int,
) -> dict[AgentName, dict[str, Output]]:
    """The outputs with an agent's final message as its text."""
    said_in = entry.ref.logs if entry.ref is not None else ()
    logs = () if PUBLIC in said_in else said_in
    text = Output(body=body, position=position, logs=logs)
    if entry.append:
        place = element_position(state, entry.step, position)
        part = ListElement(body=body, position=place, logs=logs)
        text = output_with_value(_found(state, entry.agent, "text"), part, position)
    return _output(state, entry.agent, "text", text)


@_on(j.StructuredOutputParsed)
def _reply_taken(state: CrewState, entry: j.StructuredOutputParsed, _position: int) -> Changes:
    told: Changes = {} if entry.confidence is None else {"confidence": entry.confidence}
    turn = _turn(state, entry.step).model_copy(update={"refused": 0, "faults": (), **told})
    return _entry(state, entry.step, turn=turn)


@_on(j.StructuredOutputRejected)
def _reply_refused(state: CrewState, entry: j.StructuredOutputRejected, _position: int) -> Changes:
    turn = _turn(state, entry.step)
    turn = turn if entry.ref is None else turn_with_model_call(turn)
    faults = (*turn.faults, excerpt("; ".join(entry.errors)))
    tried: Changes = {"refused": entry.attempt, "faults": faults}
    return _entry(state, entry.step, turn=turn.model_copy(update=tried))


@_on(j.TurnLimitReached)
def _turn_capped(state: CrewState, entry: j.TurnLimitReached, position: int) -> Changes:
    turn = _turn(state, entry.step).model_copy(update={"calls": (), "draft": None})
    changes = _entry(state, entry.step, turn=turn)
    if entry.ref is not None:
        changes["agent_outputs"] = _text(state, entry, entry.ref.body, position)
    times = "model call is its" if entry.calls == 1 else "model calls are its"
    return {
        **changes,
        **exchanges.limit_changes(
            f"{entry.agent} was cut off, since {entry.calls} {times} most",
            "call_limit_reached",
            state.frontier[entry.step].node,
        ),
    }


@_on(j.MessageAdded)
def _message_added(_state: CrewState, entry: j.MessageAdded, _position: int) -> Changes:
    return {"request": entry.ref.body} if entry.asks else {}


@_on(j.ToolCallCompleted)
def _tool_returned(state: CrewState, entry: j.ToolCallCompleted, _position: int) -> Changes:
    turn = _turn(state, entry.step)
    calls = tuple(c for c in turn.calls if c.call != entry.call)
    after: Changes = {
        "calls": calls,
        "returned": turn.returned + 1,
        "goto": turn.goto + entry.goto,
    }
    if entry.confidence is not None:
        after["confidence"] = entry.confidence
    if entry.result is not None:
        after["results"] = (*turn.results, entry.result)
    if entry.model_next:
        after["calls"] = (*calls, Call(call=turn.next_call))
        after["next_call"] = turn.next_call + 1
        after["model_calls"] = turn.model_calls + 1
    used = state.usage.get(entry.agent, Usage()) + Usage(tool_calls=1)
    return {
        "usage": _with(state.usage, entry.agent, used),
        **_entry(state, entry.step, turn=turn.model_copy(update=after)),
    }


@_on(j.ArtifactOperationsApplied)
def _operations_applied(
    state: CrewState, entry: j.ArtifactOperationsApplied, _position: int
) -> Changes:
    if not entry.moved:  # the log has grown already: that is all
        return {}
    turn = _turn(state, entry.step)
    unsettled = tuple(dict.fromkeys((*turn.unresolved, entry.call)))
    return _entry(state, entry.step, turn=turn.model_copy(update={"unresolved": unsettled}))


@_on(j.CompletionBuffered)
def _call_held(state: CrewState, entry: j.CompletionBuffered, _position: int) -> Changes:
    turn = _call_changed(
        state, entry.step, entry.call, status="buffered", completion=list(entry.entries)
    )
    return _entry(state, entry.step, turn=turn) if turn else {}


@_on(j.RunOutputSet)
def _flag_set(state: CrewState, entry: j.RunOutputSet, position: int) -> Changes:
    if not entry.append:
        value = reduced_value(entry.reducer, state.flags.get(entry.flag), entry.value)
        return {"flags": _with(state.flags, entry.flag, value)}
    values, places = appended_values(
        entry.reducer,
        state.flags.get(entry.flag),
        state.flag_positions.get(entry.flag, ()),
        entry.value,
        element_position(state, entry.step, position),
    )
    return {
        "flags": _with(state.flags, entry.flag, values),
        "flag_positions": _with(state.flag_positions, entry.flag, places),
    }


def _found(state: CrewState, agent: AgentName, key: str) -> Output | None:
    return state.agent_outputs.get(agent, {}).get(key)


def _output(
    state: CrewState, agent: AgentName, key: str, output: Output
) -> dict[AgentName, dict[str, Output]]:
    return _with(state.agent_outputs, agent, _with(state.agent_outputs.get(agent, {}), key, output))


@_on(j.OutputSet)
def _output_set(state: CrewState, entry: j.OutputSet, position: int) -> Changes:
    there = _found(state, entry.agent, entry.key)
    if entry.append:
        part = ListElement(
            value=entry.value,
            body=entry.body,
            position=element_position(state, entry.step, position),
            logs=entry.logs,
            spec=next(iter(entry.specs), None),
        )
        output = output_with_write(entry.reducer, there, part, position)
    else:
        output = Output(
            value=reduced_value(entry.reducer, there.value if there else None, entry.value),
            body=entry.body,
            position=position,
            items=entry.items,
            spec=entry.spec,
            logs=entry.logs,
        )
    return {"agent_outputs": _output(state, entry.agent, entry.key, output)}


@_on(j.WriteRefused)
def _merge_conflicted(state: CrewState, _entry: j.WriteRefused, _position: int) -> Changes:
    return {"flags": _with(state.flags, CONFLICTS, conflicts(state.flags) + 1)}


def _leave(state: CrewState, step: StepId, position: int) -> Changes:
    """The frontier without a step; the next visit queued behind it moves up."""
    if step not in state.frontier:
        return {}
    left = state.frontier[step]
    node = left.node
    frontier = _without(state.frontier, step)
    if left.status == "queued":  # the visit that it was queued behind is there still
        return {"frontier": frontier}
    if left.parent:  # the parent step goes on; the messages of this one are in the store
        return {"frontier": frontier, "messages": _without(state.messages, child_step_log(step))}
    return {"frontier": with_queued_steps(frontier, position, only=node)}


@_on(j.StepCompleted)
def _step_completed(state: CrewState, entry: j.StepCompleted, position: int) -> Changes:
    changes = _leave(state, entry.step, position)
    left = state.frontier.get(entry.step)
    if left is None:
        return changes
    parent = parent_of(state.frontier, left)
    if left.is_detached and not left.parent:
        # Nothing follows, but where its node comes back it is known to have run.
        times = _with(
            state.routing.completed, left.node, state.routing.completed.get(left.node, 0) + 1
        )
        changes["routing"] = state.routing.model_copy(update={"completed": times})
    if parent is not None and parent.child_steps is not None:
        goto = tuple(dict.fromkeys((*parent.child_steps.goto, *entry.goto)))
        counts = {
            "done": parent.child_steps.done + 1,
            "skipped": parent.child_steps.skipped + entry.skipped,
        }
        changes["frontier"] = _with_child_steps(changes["frontier"], parent, goto=goto, **counts)
    if entry.used_up:
        because = f"{left.node} {entry.because}"
        changes |= exchanges.limit_changes(because, "retry_budget_exhausted", left.node)
    elif state.limit_reached == "retry_budget_exhausted" and left.node == state.limit_node:
        changes["limit_reached"] = ""  # this time it was content
    return changes


@_on(j.StepCancelled)
def _step_cancelled(state: CrewState, entry: j.StepCancelled, position: int) -> Changes:
    return _leave(state, entry.step, position)


@_on(j.StepFailed)
def _step_failed(state: CrewState, entry: j.StepFailed, position: int) -> Changes:
    turn = _call_changed(state, entry.step, entry.call, status="interrupted")
    changes: Changes = {"turn": turn} if turn else {}
    failed = _entry(state, entry.step, status="interrupted", since=position, deadline=0, **changes)
    return {
        **failed,
        **exchanges.exchange_error(state, entry.error),
        **exchanges.failed_step_warning(state, entry),
        **failed_step_changes(state, entry, position, failed.get("frontier", state.frontier)),
    }


@_on(j.StepRetried)
def _step_retried(state: CrewState, entry: j.StepRetried, position: int) -> Changes:
    found = state.frontier.get(entry.step)
    if found is None:
        return {}
    if found.turn is None:
        return _entry(state, entry.step, status="ready", since=position)
    # People approved one try: without the seal their approval holds for no other, and they are
    # asked again.
    again: Changes = {"status": "ready", "binding": ""}
    calls = tuple(
        c.model_copy(update={**again, "attempt": c.attempt + 1}) if c.call == entry.call else c
        for c in found.turn.calls
    )
    # What the model says from here on is a first try again.
    turn = found.turn.model_copy(update={"calls": calls, "refused": 0, "faults": ()})
    if turn.results and any(c.call == entry.call and c.tool is None for c in calls):
        # Of an agent without a model, what went well is not done again.
        turn = turn.model_copy(update={"results": tuple(each for each in turn.results if each.ok)})
    return _entry(state, entry.step, status="running", since=position, turn=turn)


@_on(j.InterruptRaised)
def _interrupt_raised(state: CrewState, entry: j.InterruptRaised, position: int) -> Changes:
    question = entry.interrupt.model_copy(update={"position": position})
    changes: Changes = {
        "interrupt_count": state.interrupt_count + 1,
        "interrupts": _with(state.interrupts, question.id, question),
    }
    if question.kind == "manual":
        gone = {NodeName("*"), state.frontier[question.step].node} if question.step else {"*"}
        changes["breakpoints"] = tuple(n for n in state.breakpoints if n not in gone)
    if question.step is None or question.kind == "mcp_approval":
        return changes  # its call is made again by itself
    # A yes to the call that there was before is none any more.
    unsealed = {"approved": "", "binding": "", "arguments": question.arguments, "edited": False}
    turn = _call_changed(
        state,
        question.step,
        question.call,
        status="interrupted",
        **(unsealed if question.kind == "tool_approval" else {}),
    )
    entry_changes: Changes = {"turn": turn} if turn else {}
    # A turn whose other calls go on stays running; only the call asks.
    if question.call is None or question.kind == "step_failed":
        entry_changes["status"] = "interrupted"
    return {**changes, **_entry(state, question.step, since=position, **entry_changes)}


@_on(j.InterruptAnswered)
def _interrupt_answered(state: CrewState, entry: j.InterruptAnswered, position: int) -> Changes:
    question = state.interrupts.get(entry.interrupt)
    changes: Changes = {"interrupts": _without(state.interrupts, entry.interrupt)}
    if question is not None:
        changes |= answer_changes(state, question, entry)
    found = state.frontier.get(question.step) if question and question.step else None
    if found is None or question is None or question.kind == "mcp_approval":
        return changes
    if question.kind == "tool_approval" and entry.decision in ("approve", "edit"):
        approved = approval(state, question, entry)
        turn = _call_changed(state, found.step, question.call, status="ready", **approved)
        found = found.model_copy(update={"turn": turn})
        changes["frontier"] = _with(state.frontier, found.step, found)
    done = ("withdrawn", ESCALATED, "go on", "stop")
    if question.kind == "low_confidence" and entry.decision not in done:
        found = found.model_copy(update={"turn": turn_with_model_call(_turn(state, found.step))})
    if found.status != "interrupted":
        return changes
    running = found.turn is not None or found.child_steps is not None
    if question.kind == "ask" and entry.decision in ("withdrawn", ESCALATED):
        running = True  # it has begun, and asks again where it goes on
    status = "waiting" if found.requirement else "running" if running else "ready"
    moved = found.model_copy(update={"status": status, "since": position})
    return {**changes, "frontier": _with(state.frontier, found.step, moved)}


@_on(j.InterruptDeadlineSet)
def _interrupt_due(state: CrewState, entry: j.InterruptDeadlineSet, _position: int) -> Changes:
    question = state.interrupts.get(entry.interrupt)
    if question is None:
        return {}
    changed = question.model_copy(update={"deadline": entry.deadline})
    return {"interrupts": _with(state.interrupts, question.id, changed)}


@_on(j.BreakpointSet)
def _break_requested(state: CrewState, entry: j.BreakpointSet, _position: int) -> Changes:
    if entry.node in state.breakpoints:
        return {}
    return {"breakpoints": (*state.breakpoints, entry.node)}


@_on(j.Paused)
def _paused(_state: CrewState, entry: j.Paused, position: int) -> Changes:
    info = StatusReason(reason=entry.reason[:REASON_LENGTH], by=entry.by, position=position)
    return {"status": "paused", "status_reason": info}


@_on(j.RunResumed)
def _resumed(_state: CrewState, _entry: j.RunResumed, _position: int) -> Changes:
    return {"status": "running", "status_reason": None}


@_on(j.StopRequested)
def _stop_requested(_state: CrewState, entry: j.StopRequested, position: int) -> Changes:
    info = StatusReason(
        reason=entry.reason[:REASON_LENGTH],
        by=entry.by,
        position=position,
        end_reason=entry.end_reason,
    )
    return {"status": "stopping", "status_reason": info}


@_on(j.ExecutionContinuedAsNew)
def _continued(_state: CrewState, entry: j.ExecutionContinuedAsNew, _position: int) -> Changes:
    return {"execution": entry.execution}


@_on(j.ChangeAccepted)
def _change_accepted(_state: CrewState, entry: j.ChangeAccepted, position: int) -> Changes:
    changing = PendingChange(
        command=entry.command or "",
        graph_version=entry.graph_version,
        definition=entry.definition,
        what=entry.what,
        by=entry.by,
        position=position,
        abandon=entry.abandon,
        nodes=entry.nodes,
        basis=entry.basis,
    )
    return {"pending_change": changing}


@_on(j.SwapFailed)
def _swap_failed(_state: CrewState, _entry: j.SwapFailed, _position: int) -> Changes:
    return {"pending_change": None}


@_on(j.MergeRequested)
def _merge_asked(state: CrewState, entry: j.MergeRequested, position: int) -> Changes:
    joining = PendingMerge(
        merge=entry.merge,
        other=entry.other,
        status="requested",
        at=entry.at,
        deadline=entry.deadline,
        operation=entry.operation,
        agents=entry.agents,
        has_flow=entry.has_flow,
        priority=(entry.at, state.run),
        position=position,
        by=entry.by,
    )
    return {"pending_merge": joining}


@_on(j.MergeAccepted)
def _merge_accepted(state: CrewState, entry: j.MergeAccepted, position: int) -> Changes:
    joining = state.pending_merge
    if joining is None or joining.merge != entry.merge:
        joining = PendingMerge(
            merge=entry.merge,
            other=entry.other,
            status=entry.status,
            operation=entry.operation,
            agents=entry.agents,
            has_flow=entry.has_flow,
            priority=(entry.requested_at, entry.other),
            position=position,
            by=entry.by,
        )
    changes = {
        "status": entry.status,
        "at": entry.at,
        "deadline": entry.deadline,
        "other_position": entry.other_position,
        "other_started_at": entry.other_started_at,
    }
    return {"pending_merge": joining.model_copy(update=changes)}


@_on(j.MergeOffered)
def _merge_offered(state: CrewState, entry: j.MergeOffered, _position: int) -> Changes:
    if state.pending_merge is None:
        return {}
    offered = {"status": "offered", "at": entry.at, "deadline": 0}
    return {"pending_merge": state.pending_merge.model_copy(update=offered)}


@_on(j.MergeFailed)
def _merge_failed(state: CrewState, entry: j.MergeFailed, position: int) -> Changes:
    why = excerpt(entry.reason, REASON_LENGTH)
    failed = MergeOutcome(outcome="failed", other=entry.other, position=position, reason=why)
    return outcome_changes(state, entry.merge, failed)


@_on(j.RunEndedByMerge)
def _merged_into(state: CrewState, entry: j.RunEndedByMerge, _position: int) -> Changes:
    merged = MergeOutcome(
        outcome="merged", other=entry.run, position=entry.position, renames=entry.renames
    )
    left: Changes = {"status": "merged", "interrupts": {}, "status_reason": None}
    return {**outcome_changes(state, entry.merge, merged), **left}


_Mutating = (
    j.DefinitionChanged
    | j.GraphReplacement
    | j.ToolPermissionSet
    | j.AgentPermissionSet
    | j.RunRolledBack
)
"""What changes a run while it lives, and is told as such."""


def _mutated(
    state: CrewState,
    entry: _Mutating,
    position: int,
    what: str,
    *,
    version: int | None = None,
    definition: ContentHash | None = None,
    reason: str = "",
) -> tuple[ChangeRecord, ...]:
    """The last changes of a run with another one, which is counted: the first ones are let go.

    Args:
        state: The run before it.
        entry: What changes it.
        position: Its position.
        what: What it does, for people.
        version: The graph's version after it; none: it stays.
        definition: The definition after it; none: it stays.
        reason: Why, where the run itself tells it later.
    """
    before = state.changes
    made = ChangeRecord(
        position=position,
        at=entry.at,
        by=entry.by,
        what=excerpt(what, REASON_LENGTH),
        graph_version=state.graph_version if version is None else version,
        definition=state.definition if definition is None else definition,
        number=(before[-1].number if before else 0) + 1,
        reason=excerpt(reason, PERMISSION_REASON_LENGTH),
    )
    kept = [*before, made][-CHANGES_KEPT:]
    while len(kept) > 1 and sum(len(canonical(each.to_json())) for each in kept) > CHANGES_BYTES:
        del kept[0]
    return tuple(kept)


def _ruled(
    state: CrewState, entry: j.GraphReplacement | j.DefinitionChanged, version: int, position: int
) -> Changes:
    """What a new definition changes besides the graph."""
    return {
        "crew": entry.crew,
        "definition": entry.definition,
        "basis": entry.basis,
        "tool_permissions": dict(entry.permissions),
        "flags": {**entry.flags, **state.flags},
        "coordination_rules": entry.coordination_rules,
        "changes": _mutated(
            state, entry, position, entry.what, version=version, definition=entry.definition
        ),
    }


@_on(j.DefinitionChanged)
def _rules_changed(state: CrewState, entry: j.DefinitionChanged, position: int) -> Changes:
    return _ruled(state, entry, state.graph_version, position)


@_on(j.ComponentChanged)
def _topology_changed(state: CrewState, entry: j.ComponentChanged, position: int) -> Changes:
    changes = cast("Changes", _new_graph(state, entry, position))
    for part in entry.split_runs:
        changes |= original_run_changes(state.model_copy(update=changes), part.contents)
        changes["rollback_floor"] = position
    return changes | entry.remaining_budget.state_changes(state)


@_on(j.GraphSwapped)
def _new_graph(state: CrewState, entry: j.GraphReplacement, position: int) -> Changes:
    remap = entry.remap
    frontier, parked = _moved(state, remap)
    visits, sent = dict(state.visits), dict(state.routing.sent)
    for step in remap.retracted:
        node = frontier.pop(step).node
        visits[node] -= 1
        if node in sent:
            sent[node] = max(0, sent[node] - 1)
    for step, requirement in remap.requirements.items():
        found = frontier[step]
        status = found.status
        if status in ("ready", "waiting"):
            status = "waiting" if requirement else "ready"
        changes = {"requirement": requirement, "status": status, "since": position, "deadline": 0}
        frontier[step] = found.model_copy(update=changes)
    _reach(frontier, visits, remap.reached, position)
    routing = state.routing.model_copy(
        update={
            "arrivals": {**state.routing.arrivals, **remap.arrivals},
            "fired": {**state.routing.fired, **remap.fired},
            "completed_before": {**state.routing.completed_before, **remap.completed_before},
            "sent": sent,
        }
    )
    return {
        **_ruled(state, entry, entry.graph_version, position),
        "graph_version": entry.graph_version,
        "pending_change": None,
        "frontier": with_queued_steps(frontier, position),
        "detached_steps": parked,
        "visits": {node: count for node, count in visits.items() if count},
        "routing": routing,
    }


@_on(j.RunMerged)
def _graph_merged(state: CrewState, entry: j.RunMerged, position: int) -> Changes:
    part = CrewState.from_json(entry.merged_state)
    taken = merged_state_changes(state, part, MergeNames.of(entry, state.visits))
    both = state.model_copy(update=taken)
    merged = MergeOutcome(outcome="merged", other=entry.merged_run, position=position)
    return {
        **taken,
        **_new_graph(both, entry, position),
        **outcome_changes(state, entry.merge, merged),
        **entry.remaining_budget.state_changes(both),
        "rollback_floor": position,
        "merged_runs": merged_runs_after(state, part, entry.merged_run, entry.renames),
    }


def _moved(state: CrewState, remap: j.Remap) -> tuple[Frontier, Frontier]:
    """The frontier and what is kept aside, with the steps moved whose nodes go or come back."""
    frontier, parked = dict(state.frontier), dict(state.detached_steps)
    for step in remap.detached_turns:
        changes = {"is_detached": True, "definition": state.definition}
        frontier[step] = frontier[step].model_copy(update=changes)
    for step in remap.detached:
        found = frontier.pop(step)
        changes = {"is_detached": False, "definition": found.definition or state.definition}
        parked[step] = found.model_copy(update=changes)
    for step in remap.reattached:
        found = parked.pop(step) if step in parked else frontier[step]
        changes = {"is_detached": False, "definition": ContentHash("")}
        frontier[step] = found.model_copy(update=changes)
    return frontier, parked


_on(j.StateEdited)(fold_state_edited)


@_on(j.AgentsWoken)
def _message_heard(state: CrewState, entry: j.AgentsWoken, position: int) -> Changes:
    frontier, visits = dict(state.frontier), dict(state.visits)
    heard = WakingMessage(log=entry.log, body=entry.body, by=entry.by)
    _reach(frontier, visits, [j.ReachedNode(node=node) for node in entry.to], position, heard)
    for node in entry.also:
        waiting = [e for e in frontier.values() if e.node == node and e.waking_message is not None]
        if waiting and (last := waiting[-1].waking_message) is not None:
            more = last.model_copy(update={"more": last.more + 1})
            frontier[waiting[-1].step] = waiting[-1].model_copy(update={"waking_message": more})
    return {"frontier": frontier, "visits": visits, "idle": None}


@_on(j.IdleStarted)
def _rested(_state: CrewState, entry: j.IdleStarted, position: int) -> Changes:
    return {"idle": Idle(deadline=entry.deadline, position=position)}


_on(j.MessageQueued)(exchanges.fold_message_queued)
_on(j.ExchangeStarted)(exchanges.fold_exchange_started)
_on(j.ExchangeEnded)(exchanges.fold_exchange_ended)
_on(j.IdleDeadlineSet)(exchanges.fold_idle_deadline_set)
_on(j.BranchTargetRefused)(exchanges.fold_branch_target_refused)


@_on(j.StepRedirected)
def _redirected(state: CrewState, entry: j.StepRedirected, _position: int) -> Changes:
    return _entry(state, entry.step, redirect=entry.node)


@_on(j.ToolPermissionSet)
def _permission_set(state: CrewState, entry: j.ToolPermissionSet, position: int) -> Changes:
    what = tool_permission_change(entry.tool, entry.agents)
    return {
        "tool_permissions": _with(state.tool_permissions, entry.tool, entry.agents),
        "live_permissions": without_milder_permissions(
            state.live_permissions, entry.tool, entry.agents
        ),
        "changes": _mutated(state, entry, position, what, reason=entry.reason),
    }


@_on(j.AgentPermissionSet)
def _ruling_set(state: CrewState, entry: j.AgentPermissionSet, position: int) -> Changes:
    what = agent_permission_change(entry.tool, entry.agent, entry.do)
    return {
        "live_permissions": with_live_permission(
            state.live_permissions, entry.tool, entry.agent, entry.do
        ),
        "changes": _mutated(state, entry, position, what, reason=entry.reason),
    }


@_on(j.QuotaConsumed)
def _quota_taken(state: CrewState, entry: j.QuotaConsumed, _position: int) -> Changes:
    return _counted(state, entry, entry.quotas, 1)


@_on(j.QuotaReleased)
def _quota_given(state: CrewState, entry: j.QuotaReleased, _position: int) -> Changes:
    return _counted(state, entry, (), -1)


def _counted(
    state: CrewState, entry: j.QuotaConsumed | j.QuotaReleased, by: tuple[str, ...], more: int
) -> Changes:
    """A call is counted by some quotas from now on; those of the entry have so many more."""
    turn = _call_changed(state, entry.step, entry.call, quotas=by)
    quotas = {**state.quotas}
    for key in entry.quotas:
        quotas[key] = max(0, quotas.get(key, 0) + more)
    return {
        "quotas": quotas,
        **_entry(state, entry.step, **({} if turn is None else {"turn": turn})),
    }


@_on(j.CheckpointTagged)
def _tagged(state: CrewState, entry: j.CheckpointTagged, _position: int) -> Changes:
    return {"tags": _with(state.tags, entry.tag, entry.checkpoint)}


@_on(j.RunCompleted)
def _completed(_state: CrewState, entry: j.RunCompleted, _position: int) -> Changes:
    return {"status": "completed", "end_reason": entry.end_reason, "status_reason": None}


@_on(j.RunStopped)
def _stopped(_state: CrewState, entry: j.RunStopped, _position: int) -> Changes:
    return {"status": "stopped", "end_reason": entry.end_reason, "interrupts": {}}


@_on(j.RunFailed)
def _failed(_state: CrewState, entry: j.RunFailed, _position: int) -> Changes:
    return {
        "status": "failed",
        "end_reason": entry.end_reason,
        "error": entry.error,
        "error_type": entry.error_type,
        "interrupts": {},
    }


# -- going back, forking and taking up again -------------------------------------------------


_RESTORED = CrewState.model_fields.keys() - NEVER_RESTORED


def _put_back(state: CrewState, data: dict[str, Any]) -> Changes:
    """A state that an entry holds, but for what never goes back."""
    then = CrewState.from_json(data)
    return {**{name: getattr(then, name) for name in _RESTORED}, "end_reason": ""}


@_on(j.RunRolledBack)
def _rolled_back(state: CrewState, entry: j.RunRolledBack, position: int) -> Changes:
    changes = _put_back(state, entry.state)
    version, definition = changes["graph_version"], changes["definition"]
    what = f"rolled back to {entry.to}"
    mutations = _mutated(state, entry, position, what, version=version, definition=definition)
    return {**changes, "changes": mutations}


@_on(j.RunForked)
def _forked(state: CrewState, entry: j.RunForked, _position: int) -> Changes:
    then = CrewState.from_json(entry.state)
    return {
        **_put_back(state, entry.state),
        # Nobody may do more in two runs than in one; of a fork, there is nothing of these.
        **({"usage": then.usage, "added_budgets": then.added_budgets} if entry.split else {}),
        "interrupt_count": then.interrupt_count,
        "exchanges": then.exchanges,
        "recipe": then.definition,
        "basis": ContentHash(""),
        "started_at": entry.at,
        "source": SourceRun(
            run=entry.source, position=entry.to, checkpoint=entry.checkpoint, split=entry.split
        ),
    }


@_on(j.RunReopened)
def _reopened(state: CrewState, entry: j.RunReopened, _position: int) -> Changes:
    # What Temporal's cancel did once, it may do again.
    commands = {k: v for k, v in state.commands.items() if not k.startswith(RESERVED)}
    again = {"execution": state.execution + 1, "commands": commands}
    return {**_put_back(state, entry.state), **again}
