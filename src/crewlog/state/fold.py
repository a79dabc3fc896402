"""`fold(state, entry) -> state`: the only function that changes the state of a run.

It is pure: no plan, no store, no clock. Folding a journal from the empty state gives the live
state. Each kind of entry has one handler, found by the class of the entry.
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
from crewlog.state.answers import ESCALATED, answer_changes, approval_fields, turn_with_model_call
from crewlog.state.command_outcomes import add_outcome, outcome_of
from crewlog.state.edits import fold_state_edited
from crewlog.state.excerpt import excerpt
from crewlog.state.finish_reason import ACCEPTED_FAULTS
from crewlog.state.frontier import (
    child_step_started,
    failed_step_changes,
    parent_of,
    with_queued_steps,
)
from crewlog.state.live_permissions import agent_permission_change, tool_permission_change
from crewlog.state.logs import chain, empty_log_head, merged_head
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
    conflict_count,
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
"""The most changes that the state keeps; the journal has all of them."""
CHANGES_BYTES = 3 * 1024
"""The most bytes of JSON of these changes, unless there is only one: every execution carries
them."""

REASON_LENGTH = 500
"""Characters of a reason that the state keeps; the journal has all of it."""
PERMISSION_REASON_LENGTH = 200
"""The same for the reason of a permission: it must not displace older changes."""

K = TypeVar("K")
V = TypeVar("V")


def fold(
    state: CrewState, entry: j.JournalEntry, *, entry_hash: ContentHash | None = None
) -> CrewState:
    """The state after one more entry.

    Args:
        state: The state before; it is not changed.
        entry: The entry.
        entry_hash: The hash of `entry_to_json(entry)`, if the caller has it already.
    """
    position = entry.position_after(state.position)
    changes: dict[str, Any] = {
        "position": position,
        "execution_trace": LogHead(
            head=chain(
                state.execution_trace.head,
                position,
                entry_hash or hash_json(j.entry_to_json(entry)),
            ),
            length=position,
        ),
    }
    if (ref := entry.message) is not None:
        changes["messages"] = _with_message(state, ref, position)
    if entry.log_merges:
        changes["messages"] = _with_merged_logs(
            changes.get("messages", state.messages), entry, position
        )
    if type(entry) in _COMMAND_ENTRIES and (command := getattr(entry, "command", None)) is not None:
        changes["commands"], changes["older_commands"] = add_outcome(
            state.commands, state.older_commands, command, outcome_of(entry, position)
        )
    handler = _HANDLERS.get(type(entry))
    if handler is not None:
        changes.update(handler(state, entry, position))
    return state.model_copy(update=changes)


def fold_journal(run: RunId, entries: Iterable[j.JournalEntry], *, base: int = 0) -> CrewState:
    """The state after a whole journal.

    Args:
        run: The run.
        entries: The journal.
        base: The position after which the journal begins: above 0 for a forked or split run.
    """
    state = CrewState(run=run, position=base)
    for entry in entries:
        state = fold(state, entry)
    return state


def fold_at_positions(state: CrewState, entries: Iterable[tuple[int, j.JournalEntry]]) -> CrewState:
    """The state after some entries at their positions, without the entries between them."""
    for position, entry in entries:
        state = fold(state.model_copy(update={"position": position - 1}), entry)
    return state


_COMMAND_ENTRIES = frozenset(
    kind for kind in get_args(get_args(j.JournalEntry)[0]) if "command" in kind.model_fields
)
"""The kinds of entries that record a command."""
Changes = dict[str, Any]
Frontier = dict[StepId, FrontierStep]
_HANDLERS: dict[type, Callable[[CrewState, Any, int], Changes]] = {}
E = TypeVar("E")


def _on(entry_type: type[E]) -> Callable[[Callable[[CrewState, E, int], Changes]], Any]:
    def register(handler: Callable[[CrewState, E, int], Changes]) -> Any:
        _HANDLERS[entry_type] = cast("Any", handler)
        return handler

    return register


def _with(mapping: dict[K, V], key: K, value: V) -> dict[K, V]:
    return {**mapping, key: value}


def _without(mapping: dict[K, V], key: K) -> dict[K, V]:
    return {k: v for k, v in mapping.items() if k != key}


def _with_message(state: CrewState, ref: j.MessageRef, position: int) -> dict[Any, LogHead]:
    logs = dict(state.messages)
    for log in ref.logs:
        before = logs.get(log)
        head = before.head if before else empty_log_head(state.run, log)
        logs[log] = LogHead(
            head=chain(head, position, ref.body), length=(before.length if before else 0) + 1
        )
    return logs


def _with_merged_logs(
    messages: Mapping[LogName, LogHead], entry: j.Entry, position: int
) -> dict[LogName, LogHead]:
    logs = dict(messages)
    for merge in entry.log_merges:
        before = logs.get(merge.log)
        head = merged_head(merge.one, merge.two, position)
        logs[merge.log] = LogHead(head=head, length=(before.length if before else 0) + merge.more)
    return logs


def _with_step(state: CrewState, step: StepId, **changes: Any) -> Changes:
    """The frontier with a changed step; nothing if the step is not in it."""
    found = state.frontier.get(step)
    if found is None:
        return {}
    return {"frontier": _with(state.frontier, step, found.model_copy(update=changes))}


def _turn_of(state: CrewState, step: StepId) -> Turn:
    current = state.frontier.get(step)
    return (current.turn if current else None) or Turn()


def _turn_with_call(
    state: CrewState, step: StepId, call: int | None, **changes: Any
) -> Turn | None:
    """The turn of a step with one changed call."""
    current = state.frontier.get(step)
    if current is None or current.turn is None:
        return None
    calls = tuple(c.model_copy(update=changes) if c.call == call else c for c in current.turn.calls)
    return current.turn.model_copy(update={"calls": calls})


@_on(j.RunStarted)
def _fold_run_started(_state: CrewState, entry: j.RunStarted, _position: int) -> Changes:
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
def _fold_prompt_received(_state: CrewState, entry: j.PromptReceived, _position: int) -> Changes:
    prompt = PromptState(text=entry.prompt, registry=entry.registry)
    return {"started_at": entry.at, "prompt": prompt}


def _with_prompt(state: CrewState, **changes: Any) -> Changes:
    return {} if state.prompt is None else {"prompt": state.prompt.model_copy(update=changes)}


@_on(j.PromptRead)
def _fold_prompt_read(state: CrewState, entry: j.PromptRead, _position: int) -> Changes:
    usage = state.usage.get(entry.agent, Usage()) + entry.usage
    return {
        "usage": _with(state.usage, entry.agent, usage),
        **_with_prompt(state, rounds=entry.round),
    }


@_on(j.PromptCompiled)
def _fold_prompt_compiled(state: CrewState, entry: j.PromptCompiled, _position: int) -> Changes:
    return _with_prompt(
        state,
        reader=entry.reader,
        definition=entry.definition,
        diagnostics=entry.diagnostics,
        requirements=entry.requirements,
    )


@_on(j.PromptCompileFailed)
def _fold_prompt_compile_failed(
    state: CrewState, entry: j.PromptCompileFailed, _position: int
) -> Changes:
    return _with_prompt(state, reader=entry.reader, diagnostics=entry.diagnostics)


@_on(j.DefinitionEdited)
def _fold_definition_edited(state: CrewState, entry: j.DefinitionEdited, _position: int) -> Changes:
    # The diagnostics of the prompt's own definition do not apply to another one.
    return _with_prompt(
        state, definition=entry.definition, edited=True, diagnostics=(), requirements=()
    )


@_on(j.DefinitionApproved)
def _fold_definition_approved(
    state: CrewState, entry: j.DefinitionApproved, _position: int
) -> Changes:
    return _with_prompt(state, approved=entry.definition, approved_by=entry.by)


@_on(j.NodesReached)
def _fold_nodes_reached(state: CrewState, entry: j.NodesReached, position: int) -> Changes:
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
    _add_steps(frontier, visits, entry.to, position)
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


def _add_steps(
    frontier: Frontier,
    visits: dict[NodeName, int],
    to: Iterable[j.ReachedNode],
    position: int,
    heard: WakingMessage | None = None,
) -> None:
    """Adds a step for each reached node; it is queued if its node has another step."""
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
            waking_message=heard,
        )
        busy_nodes.add(reached.node)


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
    """The routing after a completion. The engine needs it before it records the entry."""
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
        frontier = _with(state.frontier, entry.step, child)
        return {**changes, "frontier": _with_started_child_step(frontier, child)}
    current = state.frontier.get(entry.step)
    if state.limit_reached and current is not None and current.node == state.limit_node:
        changes["limit_reached"] = ""  # another attempt
    return {
        **changes,
        **_with_step(state, entry.step, status="running", since=position, turn=turn),
    }


@_on(j.ParentStepStarted)
def _fold_parent_step_started(
    state: CrewState, entry: j.ParentStepStarted, position: int
) -> Changes:
    output = _find_output(state, entry.agent, entry.key)
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
    return _with_step(state, entry.step, status="running", since=position, child_steps=progress)


@_on(j.ItemsRefused)
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
    return _with(frontier, parent.step, parent.model_copy(update={"child_steps": progress}))


@_on(j.RequirementMet)
def _fold_requirement_met(state: CrewState, entry: j.RequirementMet, position: int) -> Changes:
    return _with_step(state, entry.step, status="ready", since=position, requirement="", deadline=0)


@_on(j.TimerStarted)
def _fold_timer_started(state: CrewState, entry: j.TimerStarted, position: int) -> Changes:
    current = state.frontier.get(entry.step)
    if current is not None and current.turn is not None:  # a timeout: the turn continues
        return _with_step(state, entry.step, deadline=entry.deadline)
    return _with_step(state, entry.step, status="waiting", since=position, deadline=entry.deadline)


@_on(j.TimerFired)
def _fold_timer_fired(state: CrewState, entry: j.TimerFired, position: int) -> Changes:
    current = state.frontier.get(entry.step)
    if current is None or current.requirement:  # a timeout: an entry that follows says what happens
        return {}
    return _with_step(state, entry.step, status="running", since=position)


@_on(j.ModelCallCompleted)
def _fold_model_call_completed(
    state: CrewState, entry: j.ModelCallCompleted, position: int
) -> Changes:
    turn = _turn_of(state, entry.step)
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
        changes["agent_outputs"] = _outputs_with_text(state, entry, entry.ref.body, position)
        changes |= _accepted_reply_warning(state, entry)
    return {**changes, **_with_step(state, entry.step, turn=after)}


def _accepted_reply_warning(state: CrewState, entry: j.ModelCallCompleted) -> Changes:
    """A warning that an accepted final message is not usable.

    An agent that a message woke may reply with nothing.
    """
    silent = entry.ending == "empty" and state.frontier[entry.step].waking_message is not None
    if not entry.ending or silent:
        return {}
    fault = ACCEPTED_FAULTS[entry.ending]
    return {"warning": f"The reply of {entry.agent!r} is taken as it is: {fault}."}


def _outputs_with_text(
    state: CrewState,
    entry: j.ModelCallCompleted | j.TurnLimitReached,
    body: ContentHash,
    position: int,
) -> dict[AgentName, dict[str, Output]]:
    """The outputs with an agent's final message as its text."""
    message_logs = entry.ref.logs if entry.ref is not None else ()
    logs = () if PUBLIC in message_logs else message_logs
    text = Output(body=body, position=position, logs=logs)
    if entry.append:
        element_at = element_position(state, entry.step, position)
        element = ListElement(body=body, position=element_at, logs=logs)
        text = output_with_value(_find_output(state, entry.agent, "text"), element, position)
    return _outputs_with(state, entry.agent, "text", text)


@_on(j.StructuredOutputParsed)
def _fold_structured_output_parsed(
    state: CrewState, entry: j.StructuredOutputParsed, _position: int
) -> Changes:
    confidence: Changes = {} if entry.confidence is None else {"confidence": entry.confidence}
    turn = _turn_of(state, entry.step).model_copy(update={"refused": 0, "faults": (), **confidence})
    return _with_step(state, entry.step, turn=turn)


@_on(j.StructuredOutputRejected)
def _fold_structured_output_rejected(
    state: CrewState, entry: j.StructuredOutputRejected, _position: int
) -> Changes:
    turn = _turn_of(state, entry.step)
    turn = turn if entry.ref is None else turn_with_model_call(turn)
    faults = (*turn.faults, excerpt("; ".join(entry.errors)))
    changes: Changes = {"refused": entry.attempt, "faults": faults}
    return _with_step(state, entry.step, turn=turn.model_copy(update=changes))


@_on(j.TurnLimitReached)
def _fold_turn_limit_reached(state: CrewState, entry: j.TurnLimitReached, position: int) -> Changes:
    turn = _turn_of(state, entry.step).model_copy(update={"calls": (), "draft": None})
    changes = _with_step(state, entry.step, turn=turn)
    if entry.ref is not None:
        changes["agent_outputs"] = _outputs_with_text(state, entry, entry.ref.body, position)
    most = "model call is its" if entry.calls == 1 else "model calls are its"
    return {
        **changes,
        **exchanges.limit_changes(
            f"{entry.agent} was cut off, since {entry.calls} {most} most",
            "call_limit_reached",
            state.frontier[entry.step].node,
        ),
    }


@_on(j.MessageAdded)
def _fold_message_added(_state: CrewState, entry: j.MessageAdded, _position: int) -> Changes:
    return {"request": entry.ref.body} if entry.asks else {}


@_on(j.ToolCallCompleted)
def _fold_tool_call_completed(
    state: CrewState, entry: j.ToolCallCompleted, _position: int
) -> Changes:
    turn = _turn_of(state, entry.step)
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
    usage = state.usage.get(entry.agent, Usage()) + Usage(tool_calls=1)
    return {
        "usage": _with(state.usage, entry.agent, usage),
        **_with_step(state, entry.step, turn=turn.model_copy(update=after)),
    }


@_on(j.ArtifactOperationsApplied)
def _fold_artifact_operations_applied(
    state: CrewState, entry: j.ArtifactOperationsApplied, _position: int
) -> Changes:
    if not entry.moved:  # they are in the log already, which is all
        return {}
    turn = _turn_of(state, entry.step)
    unresolved = tuple(dict.fromkeys((*turn.unresolved, entry.call)))
    return _with_step(state, entry.step, turn=turn.model_copy(update={"unresolved": unresolved}))


@_on(j.CompletionBuffered)
def _fold_completion_buffered(
    state: CrewState, entry: j.CompletionBuffered, _position: int
) -> Changes:
    turn = _turn_with_call(
        state, entry.step, entry.call, status="buffered", completion=list(entry.entries)
    )
    return _with_step(state, entry.step, turn=turn) if turn else {}


@_on(j.RunOutputSet)
def _fold_run_output_set(state: CrewState, entry: j.RunOutputSet, position: int) -> Changes:
    if not entry.append:
        value = reduced_value(entry.reducer, state.flags.get(entry.flag), entry.value)
        return {"flags": _with(state.flags, entry.flag, value)}
    values, positions = appended_values(
        entry.reducer,
        state.flags.get(entry.flag),
        state.flag_positions.get(entry.flag, ()),
        entry.value,
        element_position(state, entry.step, position),
    )
    return {
        "flags": _with(state.flags, entry.flag, values),
        "flag_positions": _with(state.flag_positions, entry.flag, positions),
    }


def _find_output(state: CrewState, agent: AgentName, key: str) -> Output | None:
    return state.agent_outputs.get(agent, {}).get(key)


def _outputs_with(
    state: CrewState, agent: AgentName, key: str, output: Output
) -> dict[AgentName, dict[str, Output]]:
    return _with(state.agent_outputs, agent, _with(state.agent_outputs.get(agent, {}), key, output))


@_on(j.OutputSet)
def _fold_output_set(state: CrewState, entry: j.OutputSet, position: int) -> Changes:
    current = _find_output(state, entry.agent, entry.key)
    if entry.append:
        element = ListElement(
            value=entry.value,
            body=entry.body,
            position=element_position(state, entry.step, position),
            logs=entry.logs,
            spec=next(iter(entry.specs), None),
        )
        output = output_with_write(entry.reducer, current, element, position)
    else:
        output = Output(
            value=reduced_value(entry.reducer, current.value if current else None, entry.value),
            body=entry.body,
            position=position,
            items=entry.items,
            spec=entry.spec,
            logs=entry.logs,
        )
    return {"agent_outputs": _outputs_with(state, entry.agent, entry.key, output)}


@_on(j.WriteRefused)
def _fold_write_refused(state: CrewState, _entry: j.WriteRefused, _position: int) -> Changes:
    return {"flags": _with(state.flags, CONFLICTS, conflict_count(state.flags) + 1)}


def _without_step(state: CrewState, step: StepId, position: int) -> Changes:
    """The frontier without a step; the next step queued behind it moves up."""
    if step not in state.frontier:
        return {}
    current = state.frontier[step]
    node = current.node
    frontier = _without(state.frontier, step)
    if current.status == "queued":  # an earlier step of its node is not done
        return {"frontier": frontier}
    if current.parent:  # the store keeps its messages
        return {"frontier": frontier, "messages": _without(state.messages, child_step_log(step))}
    return {"frontier": with_queued_steps(frontier, position, only=node)}


@_on(j.StepCompleted)
def _fold_step_completed(state: CrewState, entry: j.StepCompleted, position: int) -> Changes:
    changes = _without_step(state, entry.step, position)
    current = state.frontier.get(entry.step)
    if current is None:
        return changes
    parent = parent_of(state.frontier, current)
    if current.is_detached and not current.parent:
        # Nothing follows, but if its node is added again, it counts as completed.
        completed = _with(
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
        changes |= exchanges.limit_changes(reason, "retry_budget_exhausted", current.node)
    elif state.limit_reached == "retry_budget_exhausted" and current.node == state.limit_node:
        changes["limit_reached"] = ""  # this time the branch went on
    return changes


@_on(j.StepCancelled)
def _fold_step_cancelled(state: CrewState, entry: j.StepCancelled, position: int) -> Changes:
    return _without_step(state, entry.step, position)


@_on(j.StepFailed)
def _fold_step_failed(state: CrewState, entry: j.StepFailed, position: int) -> Changes:
    turn = _turn_with_call(state, entry.step, entry.call, status="interrupted")
    changes: Changes = {"turn": turn} if turn else {}
    failed = _with_step(
        state, entry.step, status="interrupted", since=position, deadline=0, **changes
    )
    return {
        **failed,
        **exchanges.exchange_error(state, entry.error),
        **exchanges.failed_step_warning(state, entry),
        **failed_step_changes(state, entry, position, failed.get("frontier", state.frontier)),
    }


@_on(j.StepRetried)
def _fold_step_retried(state: CrewState, entry: j.StepRetried, position: int) -> Changes:
    current = state.frontier.get(entry.step)
    if current is None:
        return {}
    if current.turn is None:
        return _with_step(state, entry.step, status="ready", since=position)
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
    return _with_step(state, entry.step, status="running", since=position, turn=turn)


@_on(j.InterruptRaised)
def _fold_interrupt_raised(state: CrewState, entry: j.InterruptRaised, position: int) -> Changes:
    interrupt = entry.interrupt.model_copy(update={"position": position})
    changes: Changes = {
        "interrupt_count": state.interrupt_count + 1,
        "interrupts": _with(state.interrupts, interrupt.id, interrupt),
    }
    if interrupt.kind == "manual":
        reached = {NodeName("*"), state.frontier[interrupt.step].node} if interrupt.step else {"*"}
        changes["breakpoints"] = tuple(n for n in state.breakpoints if n not in reached)
    if interrupt.step is None or interrupt.kind == "mcp_approval":
        return changes  # the call is repeated without an answer
    # An earlier approval of the call is not valid any more.
    unapproved = {"approved": "", "binding": "", "arguments": interrupt.arguments, "edited": False}
    turn = _turn_with_call(
        state,
        interrupt.step,
        interrupt.call,
        status="interrupted",
        **(unapproved if interrupt.kind == "tool_approval" else {}),
    )
    step_changes: Changes = {"turn": turn} if turn else {}
    # A turn with other calls stays running; only this call is interrupted.
    if interrupt.call is None or interrupt.kind == "step_failed":
        step_changes["status"] = "interrupted"
    return {**changes, **_with_step(state, interrupt.step, since=position, **step_changes)}


@_on(j.InterruptAnswered)
def _fold_interrupt_answered(
    state: CrewState, entry: j.InterruptAnswered, position: int
) -> Changes:
    interrupt = state.interrupts.get(entry.interrupt)
    changes: Changes = {"interrupts": _without(state.interrupts, entry.interrupt)}
    if interrupt is not None:
        changes |= answer_changes(state, interrupt, entry)
    current = state.frontier.get(interrupt.step) if interrupt and interrupt.step else None
    if current is None or interrupt is None or interrupt.kind == "mcp_approval":
        return changes
    if interrupt.kind == "tool_approval" and entry.decision in ("approve", "edit"):
        approved = approval_fields(state, interrupt, entry)
        turn = _turn_with_call(state, current.step, interrupt.call, status="ready", **approved)
        current = current.model_copy(update={"turn": turn})
        changes["frontier"] = _with(state.frontier, current.step, current)
    final = ("withdrawn", ESCALATED, "go on", "stop")
    if interrupt.kind == "low_confidence" and entry.decision not in final:
        current = current.model_copy(
            update={"turn": turn_with_model_call(_turn_of(state, current.step))}
        )
    if current.status != "interrupted":
        return changes
    running = current.turn is not None or current.child_steps is not None
    if interrupt.kind == "ask" and entry.decision in ("withdrawn", ESCALATED):
        running = True  # it has started, and asks again when it continues
    status = "waiting" if current.requirement else "running" if running else "ready"
    after = current.model_copy(update={"status": status, "since": position})
    return {**changes, "frontier": _with(state.frontier, current.step, after)}


@_on(j.InterruptDeadlineSet)
def _fold_interrupt_deadline_set(
    state: CrewState, entry: j.InterruptDeadlineSet, _position: int
) -> Changes:
    interrupt = state.interrupts.get(entry.interrupt)
    if interrupt is None:
        return {}
    after = interrupt.model_copy(update={"deadline": entry.deadline})
    return {"interrupts": _with(state.interrupts, interrupt.id, after)}


@_on(j.BreakpointSet)
def _fold_breakpoint_set(state: CrewState, entry: j.BreakpointSet, _position: int) -> Changes:
    if entry.node in state.breakpoints:
        return {}
    return {"breakpoints": (*state.breakpoints, entry.node)}


@_on(j.Paused)
def _fold_paused(_state: CrewState, entry: j.Paused, position: int) -> Changes:
    reason = StatusReason(reason=entry.reason[:REASON_LENGTH], by=entry.by, position=position)
    return {"status": "paused", "status_reason": reason}


@_on(j.RunResumed)
def _fold_run_resumed(_state: CrewState, _entry: j.RunResumed, _position: int) -> Changes:
    return {"status": "running", "status_reason": None}


@_on(j.StopRequested)
def _fold_stop_requested(_state: CrewState, entry: j.StopRequested, position: int) -> Changes:
    reason = StatusReason(
        reason=entry.reason[:REASON_LENGTH],
        by=entry.by,
        position=position,
        end_reason=entry.end_reason,
    )
    return {"status": "stopping", "status_reason": reason}


@_on(j.ExecutionContinuedAsNew)
def _fold_execution_continued_as_new(
    _state: CrewState, entry: j.ExecutionContinuedAsNew, _position: int
) -> Changes:
    return {"execution": entry.execution}


@_on(j.ChangeAccepted)
def _fold_change_accepted(_state: CrewState, entry: j.ChangeAccepted, position: int) -> Changes:
    change = PendingChange(
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
    return {"pending_change": change}


@_on(j.SwapFailed)
def _fold_swap_failed(_state: CrewState, _entry: j.SwapFailed, _position: int) -> Changes:
    return {"pending_change": None}


@_on(j.MergeRequested)
def _fold_merge_requested(state: CrewState, entry: j.MergeRequested, position: int) -> Changes:
    pending = PendingMerge(
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
    return {"pending_merge": pending}


@_on(j.MergeAccepted)
def _fold_merge_accepted(state: CrewState, entry: j.MergeAccepted, position: int) -> Changes:
    pending = state.pending_merge
    if pending is None or pending.merge != entry.merge:
        pending = PendingMerge(
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
    return {"pending_merge": pending.model_copy(update=changes)}


@_on(j.MergeOffered)
def _fold_merge_offered(state: CrewState, entry: j.MergeOffered, _position: int) -> Changes:
    if state.pending_merge is None:
        return {}
    changes = {"status": "offered", "at": entry.at, "deadline": 0}
    return {"pending_merge": state.pending_merge.model_copy(update=changes)}


@_on(j.MergeFailed)
def _fold_merge_failed(state: CrewState, entry: j.MergeFailed, position: int) -> Changes:
    reason = excerpt(entry.reason, REASON_LENGTH)
    outcome = MergeOutcome(outcome="failed", other=entry.other, position=position, reason=reason)
    return outcome_changes(state, entry.merge, outcome)


@_on(j.RunEndedByMerge)
def _fold_run_ended_by_merge(state: CrewState, entry: j.RunEndedByMerge, _position: int) -> Changes:
    outcome = MergeOutcome(
        outcome="merged", other=entry.run, position=entry.position, renames=entry.renames
    )
    changes: Changes = {"status": "merged", "interrupts": {}, "status_reason": None}
    return {**outcome_changes(state, entry.merge, outcome), **changes}


_Change = (
    j.DefinitionChanged
    | j.GraphReplacement
    | j.ToolPermissionSet
    | j.AgentPermissionSet
    | j.RunRolledBack
)
"""The entries that change a live run, and are listed among its changes."""


def _with_change_record(
    state: CrewState,
    entry: _Change,
    position: int,
    what: str,
    *,
    version: int | None = None,
    definition: ContentHash | None = None,
    reason: str = "",
) -> tuple[ChangeRecord, ...]:
    """The last changes of a run with one more.

    Args:
        state: The run before it.
        entry: The entry that changes it.
        position: The position of the entry.
        what: What it changes, for people.
        version: The graph version after it; none: unchanged.
        definition: The definition after it; none: unchanged.
        reason: The reason, if the run reports it later.
    """
    earlier = state.changes
    record = ChangeRecord(
        position=position,
        at=entry.at,
        by=entry.by,
        what=excerpt(what, REASON_LENGTH),
        graph_version=state.graph_version if version is None else version,
        definition=state.definition if definition is None else definition,
        number=(earlier[-1].number if earlier else 0) + 1,
        reason=excerpt(reason, PERMISSION_REASON_LENGTH),
    )
    records = [*earlier, record][-CHANGES_KEPT:]
    while (
        len(records) > 1 and sum(len(canonical(each.to_json())) for each in records) > CHANGES_BYTES
    ):
        del records[0]
    return tuple(records)


def _definition_changes(
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
        "changes": _with_change_record(
            state, entry, position, entry.what, version=version, definition=entry.definition
        ),
    }


@_on(j.DefinitionChanged)
def _fold_definition_changed(
    state: CrewState, entry: j.DefinitionChanged, position: int
) -> Changes:
    return _definition_changes(state, entry, state.graph_version, position)


@_on(j.ComponentChanged)
def _fold_component_changed(state: CrewState, entry: j.ComponentChanged, position: int) -> Changes:
    changes = cast("Changes", _replace_graph(state, entry, position))
    for split_run in entry.split_runs:
        changes |= original_run_changes(state.model_copy(update=changes), split_run.contents)
        changes["rollback_floor"] = position
    return changes | entry.remaining_budget.state_changes(state)


@_on(j.GraphSwapped)
def _replace_graph(state: CrewState, entry: j.GraphReplacement, position: int) -> Changes:
    remap = entry.remap
    frontier, detached = _with_moved_steps(state, remap)
    visits, sent = dict(state.visits), dict(state.routing.sent)
    for step in remap.retracted:
        node = frontier.pop(step).node
        visits[node] -= 1
        if node in sent:
            sent[node] = max(0, sent[node] - 1)
    for step, requirement in remap.requirements.items():
        current = frontier[step]
        status = current.status
        if status in ("ready", "waiting"):
            status = "waiting" if requirement else "ready"
        changes = {"requirement": requirement, "status": status, "since": position, "deadline": 0}
        frontier[step] = current.model_copy(update=changes)
    _add_steps(frontier, visits, remap.reached, position)
    routing = state.routing.model_copy(
        update={
            "arrivals": {**state.routing.arrivals, **remap.arrivals},
            "fired": {**state.routing.fired, **remap.fired},
            "completed_before": {**state.routing.completed_before, **remap.completed_before},
            "sent": sent,
        }
    )
    return {
        **_definition_changes(state, entry, entry.graph_version, position),
        "graph_version": entry.graph_version,
        "pending_change": None,
        "frontier": with_queued_steps(frontier, position),
        "detached_steps": detached,
        "visits": {node: count for node, count in visits.items() if count},
        "routing": routing,
    }


@_on(j.RunMerged)
def _fold_run_merged(state: CrewState, entry: j.RunMerged, position: int) -> Changes:
    merged = CrewState.from_json(entry.merged_state)
    changes = merged_state_changes(state, merged, MergeNames.of(entry, state.visits))
    both = state.model_copy(update=changes)
    outcome = MergeOutcome(outcome="merged", other=entry.merged_run, position=position)
    return {
        **changes,
        **_replace_graph(both, entry, position),
        **outcome_changes(state, entry.merge, outcome),
        **entry.remaining_budget.state_changes(both),
        "rollback_floor": position,
        "merged_runs": merged_runs_after(state, merged, entry.merged_run, entry.renames),
    }


def _with_moved_steps(state: CrewState, remap: j.Remap) -> tuple[Frontier, Frontier]:
    """The frontier and the detached steps after steps were detached or reattached."""
    frontier, detached = dict(state.frontier), dict(state.detached_steps)
    for step in remap.detached_turns:
        changes = {"is_detached": True, "definition": state.definition}
        frontier[step] = frontier[step].model_copy(update=changes)
    for step in remap.detached:
        current = frontier.pop(step)
        changes = {"is_detached": False, "definition": current.definition or state.definition}
        detached[step] = current.model_copy(update=changes)
    for step in remap.reattached:
        current = detached.pop(step) if step in detached else frontier[step]
        changes = {"is_detached": False, "definition": ContentHash("")}
        frontier[step] = current.model_copy(update=changes)
    return frontier, detached


_on(j.StateEdited)(fold_state_edited)


@_on(j.AgentsWoken)
def _fold_agents_woken(state: CrewState, entry: j.AgentsWoken, position: int) -> Changes:
    frontier, visits = dict(state.frontier), dict(state.visits)
    message = WakingMessage(log=entry.log, body=entry.body, by=entry.by)
    _add_steps(frontier, visits, [j.ReachedNode(node=node) for node in entry.to], position, message)
    for node in entry.also:
        waiting = [e for e in frontier.values() if e.node == node and e.waking_message is not None]
        if waiting and (last := waiting[-1].waking_message) is not None:
            waking_message = last.model_copy(update={"more": last.more + 1})
            frontier[waiting[-1].step] = waiting[-1].model_copy(
                update={"waking_message": waking_message}
            )
    return {"frontier": frontier, "visits": visits, "idle": None}


@_on(j.IdleStarted)
def _fold_idle_started(_state: CrewState, entry: j.IdleStarted, position: int) -> Changes:
    return {"idle": Idle(deadline=entry.deadline, position=position)}


_on(j.MessageQueued)(exchanges.fold_message_queued)
_on(j.ExchangeStarted)(exchanges.fold_exchange_started)
_on(j.ExchangeEnded)(exchanges.fold_exchange_ended)
_on(j.IdleDeadlineSet)(exchanges.fold_idle_deadline_set)
_on(j.BranchTargetRefused)(exchanges.fold_branch_target_refused)


@_on(j.StepRedirected)
def _fold_step_redirected(state: CrewState, entry: j.StepRedirected, _position: int) -> Changes:
    return _with_step(state, entry.step, redirect=entry.node)


@_on(j.ToolPermissionSet)
def _fold_tool_permission_set(
    state: CrewState, entry: j.ToolPermissionSet, position: int
) -> Changes:
    what = tool_permission_change(entry.tool, entry.agents)
    return {
        "tool_permissions": _with(state.tool_permissions, entry.tool, entry.agents),
        "live_permissions": without_milder_permissions(
            state.live_permissions, entry.tool, entry.agents
        ),
        "changes": _with_change_record(state, entry, position, what, reason=entry.reason),
    }


@_on(j.AgentPermissionSet)
def _fold_agent_permission_set(
    state: CrewState, entry: j.AgentPermissionSet, position: int
) -> Changes:
    what = agent_permission_change(entry.tool, entry.agent, entry.do)
    return {
        "live_permissions": with_live_permission(
            state.live_permissions, entry.tool, entry.agent, entry.do
        ),
        "changes": _with_change_record(state, entry, position, what, reason=entry.reason),
    }


@_on(j.QuotaConsumed)
def _fold_quota_consumed(state: CrewState, entry: j.QuotaConsumed, _position: int) -> Changes:
    return _with_counted_call(state, entry, entry.quotas, 1)


@_on(j.QuotaReleased)
def _fold_quota_released(state: CrewState, entry: j.QuotaReleased, _position: int) -> Changes:
    return _with_counted_call(state, entry, (), -1)


def _with_counted_call(
    state: CrewState,
    entry: j.QuotaConsumed | j.QuotaReleased,
    counted_by: tuple[str, ...],
    change: int,
) -> Changes:
    """The state after quotas start or stop counting a call.

    Args:
        state: The state before.
        entry: The entry.
        counted_by: The quotas that count the call from now on.
        change: 1 or -1, for the quotas of the entry.
    """
    turn = _turn_with_call(state, entry.step, entry.call, quotas=counted_by)
    quotas = {**state.quotas}
    for key in entry.quotas:
        quotas[key] = max(0, quotas.get(key, 0) + change)
    return {
        "quotas": quotas,
        **_with_step(state, entry.step, **({} if turn is None else {"turn": turn})),
    }


@_on(j.CheckpointTagged)
def _fold_checkpoint_tagged(state: CrewState, entry: j.CheckpointTagged, _position: int) -> Changes:
    return {"tags": _with(state.tags, entry.tag, entry.checkpoint)}


@_on(j.RunCompleted)
def _fold_run_completed(_state: CrewState, entry: j.RunCompleted, _position: int) -> Changes:
    return {"status": "completed", "end_reason": entry.end_reason, "status_reason": None}


@_on(j.RunStopped)
def _fold_run_stopped(_state: CrewState, entry: j.RunStopped, _position: int) -> Changes:
    return {"status": "stopped", "end_reason": entry.end_reason, "interrupts": {}}


@_on(j.RunFailed)
def _fold_run_failed(_state: CrewState, entry: j.RunFailed, _position: int) -> Changes:
    return {
        "status": "failed",
        "end_reason": entry.end_reason,
        "error": entry.error,
        "error_type": entry.error_type,
        "interrupts": {},
    }


# -- rollback, fork and reopen ---------------------------------------------------------------


_RESTORED_FIELDS = CrewState.model_fields.keys() - NEVER_RESTORED


def _restored_fields(state: CrewState, data: dict[str, Any]) -> Changes:
    """The fields of a recorded state, except those that are never restored."""
    restored = CrewState.from_json(data)
    return {**{name: getattr(restored, name) for name in _RESTORED_FIELDS}, "end_reason": ""}


@_on(j.RunRolledBack)
def _fold_run_rolled_back(state: CrewState, entry: j.RunRolledBack, position: int) -> Changes:
    changes = _restored_fields(state, entry.state)
    version, definition = changes["graph_version"], changes["definition"]
    what = f"rolled back to {entry.to}"
    changes_made = _with_change_record(
        state, entry, position, what, version=version, definition=definition
    )
    return {**changes, "changes": changes_made}


@_on(j.RunForked)
def _fold_run_forked(state: CrewState, entry: j.RunForked, _position: int) -> Changes:
    source_state = CrewState.from_json(entry.state)
    return {
        **_restored_fields(state, entry.state),
        # Two runs of a split may not use more than one; a fork starts from zero.
        **(
            {"usage": source_state.usage, "added_budgets": source_state.added_budgets}
            if entry.split
            else {}
        ),
        "interrupt_count": source_state.interrupt_count,
        "exchanges": source_state.exchanges,
        "recipe": source_state.definition,
        "basis": ContentHash(""),
        "started_at": entry.at,
        "source": SourceRun(
            run=entry.source, position=entry.to, checkpoint=entry.checkpoint, split=entry.split
        ),
    }


@_on(j.RunReopened)
def _fold_run_reopened(state: CrewState, entry: j.RunReopened, _position: int) -> Changes:
    # The run's own commands, such as Temporal's cancel, may be given again.
    commands = {k: v for k, v in state.commands.items() if not k.startswith(RESERVED)}
    changes = {"execution": state.execution + 1, "commands": commands}
    return {**_restored_fields(state, entry.state), **changes}
