"""Builds a trace from a journal, entry by entry.

    run_trace(journal) → TraceView(steps=[StepTrace(calls=[CallTrace, …], items=[StepTrace, …]), …])

The journal is enough. Large values are bodies in the store, and the trace has their hashes. A step
that a rollback restores has a second `StepTrace` from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from crewlog.ids import (
    AgentName,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
    child_step_log,
    item_number,
    named_readers,
    node_of,
    parent_or_self,
    private_log,
    step_id,
)
from crewlog.reporting.events.view import Event, event_view
from crewlog.reporting.trace.view import CallTrace, InterruptTrace, StepTrace, TraceView
from crewlog.state import journal as j
from crewlog.state.frontier import item_agent
from crewlog.state.model import Call, CrewState, Interrupt
from crewlog.state.run_merge.surviving_state import MergeNames, merged_steps, merged_visit_numbers

Entries = Iterable[tuple[int, j.JournalEntry]]
"""A journal: entries with their positions, in order."""


RUN_EVENTS: tuple[type[j.Entry], ...] = (
    j.Paused,
    j.RunResumed,
    j.StopRequested,
    j.BreakpointSet,
    j.MessageAdded,
    j.MessageQueued,
    j.ExchangeStarted,
    j.ExchangeEnded,
    j.BranchTargetRefused,
    j.AddressedItemUndelivered,
    j.CommandRejected,
    j.ExecutionContinuedAsNew,
    j.ChangeAccepted,
    j.GraphReplacement,
    j.SwapFailed,
    j.MergeRequested,
    j.MergeAccepted,
    j.MergeFrozen,
    j.MergeFailed,
    j.RunEndedByMerge,
    j.DefinitionChanged,
    j.ToolPermissionSet,
    j.AgentPermissionSet,
    j.StateEdited,
    j.StepRedirected,
    j.CheckpointTagged,
    j.RunRolledBack,
    j.RunForked,
    j.RunReopened,
    j.DefinitionEdited,
    j.DefinitionApproved,
)
_ENDS = {
    "RunCompleted": "completed",
    "RunStopped": "stopped",
    "RunFailed": "failed",
    "RunEndedByMerge": "merged",
}


def run_trace(
    entries: Entries, reads: Mapping[AgentName, Sequence[LogName]] | None = None
) -> TraceView:
    """The trace of a journal.

    Args:
        entries: The journal from its beginning.
        reads: The logs that each agent reads besides its own. By default the trace leaves them out.
    """
    builder = _TraceBuilder(reads or {})
    for position, entry in entries:
        builder.add(position, entry)
    return builder.trace


class _TraceBuilder:
    """Builds a trace entry by entry."""

    def __init__(self, reads: Mapping[AgentName, Sequence[LogName]]) -> None:
        self.trace = TraceView()
        self._reads = reads
        self._open_steps: dict[StepId, StepTrace] = {}
        self._last_steps: dict[NodeName, StepTrace] = {}
        self._visits: dict[NodeName, int] = {}
        self._agents: dict[NodeName, AgentName] = {}
        self._interrupts: dict[InterruptId, InterruptTrace] = {}
        """The open interrupts."""
        self._raised_at: dict[InterruptId, int] = {}
        """When each interrupt was raised first: a restored one keeps that time."""
        self._log_lengths: dict[LogName, int] = {}
        self._repeated_at: dict[tuple[StepId, int], int] = {}
        """When calls were repeated."""
        self._writer: StepTrace | None = None
        """The step whose call set the next values."""

    def add(self, position: int, entry: j.JournalEntry) -> None:
        trace = self.trace
        trace.position = position
        if entry.message is not None:
            for log in entry.message.logs:
                self._log_lengths[log] = self._log_lengths.get(log, 0) + 1
        for join in entry.log_merges:
            self._log_lengths[join.log] = self._log_lengths.get(join.log, 0) + join.more
        self._apply_to_run(position, entry)
        if isinstance(entry, RUN_EVENTS) and not _is_run_input(entry):
            event = Event(position, entry.at, entry, RunId(trace.run))
            trace.events.append(event_view(event))
        self._apply_to_step(position, entry)
        self._apply_to_call(entry)

    def _apply_to_run(self, position: int, entry: j.JournalEntry) -> None:
        trace = self.trace
        match entry:
            case j.RunStarted():
                trace.run, trace.crew = entry.run, entry.crew
                trace.started_at = trace.started_at or entry.started_at or entry.at
            case j.PromptReceived():
                trace.run, trace.started_at = entry.run, entry.at
            case j.RunForked() | j.RunRolledBack() | j.RunReopened():
                if isinstance(entry, j.RunForked):
                    trace.run, trace.started_at = entry.run, entry.at
                    trace.crew = str(entry.state.get("crew", ""))
                trace.ended_at, trace.status, trace.error = None, "running", ""
                then = CrewState.from_json({**entry.state, "run": trace.run})
                self._restore_state(position, entry.at, then)
            case j.GraphReplacement():
                self._apply_remap(position, entry)
                if isinstance(entry, j.RunMerged):
                    self._apply_merge(position, entry)
            case j.RunCompleted() | j.RunStopped() | j.RunFailed() | j.RunEndedByMerge():
                self._withdraw(self._interrupts.values(), entry.at)
                trace.ended_at, trace.status = entry.at, _ENDS[entry.kind]
                trace.error = entry.error if isinstance(entry, j.RunFailed) else ""
            case _:
                pass

    def _restore_state(self, position: int, at: int, state: CrewState) -> None:
        for under_way in self._open_steps.values():
            under_way.status, under_way.ended_at = "undone", at
        self._open_steps.clear()
        self._log_lengths = {log: head.length for log, head in state.messages.items()}
        self._visits = dict(state.visits)
        self._restore_steps(position, at, state)
        for interrupt in state.interrupts.values():
            self._add_interrupt(interrupt, self._raised_at.get(interrupt.id, at))

    def _apply_merge(self, position: int, entry: j.RunMerged) -> None:
        """Adds the steps of the frontier of the merged run."""
        part = CrewState.from_json(entry.merged_state)
        names = MergeNames.of(entry, self._visits)
        steps = merged_steps(part, names)
        self._restore_steps(position, entry.at, part.model_copy(update={"frontier": steps}))
        self._visits = merged_visit_numbers(self._visits, part, names)

    def _restore_steps(self, position: int, at: int, state: CrewState) -> None:
        for step, found in sorted(state.frontier.items(), key=lambda pair: pair[1].item):
            again = self._add_step(step, position, at)
            if found.status == "running" or found.turn is not None:
                again.status, again.started_at, again.start_position = "running", at, position
                again.agent = item_agent(state, step) or self._agents.get(again.node)
            again.requirement = found.requirement
            again.item_count = found.child_steps.of if found.child_steps else 0
            calls = found.turn.calls if found.turn else ()
            again.calls = [_new_call(call, at) for call in calls]

    def _withdraw(self, asked: Iterable[InterruptTrace], at: int) -> None:
        """Closes interrupts that need no answer any more."""
        for each in asked:
            if each.answered_at is None:
                each.answered_at, each.decision = at, "withdrawn"

    def _apply_remap(self, position: int, entry: j.GraphReplacement) -> None:
        remap = entry.remap
        for step in remap.detached:
            if found := self._open_steps.get(step):
                found.status = "detached"
        for step in remap.reattached:
            if found := self._open_steps.get(step):
                found.status = "reached" if found.started_at is None else "running"
        for step in remap.retracted:  # not started: its visit number is free again
            self._visits[node_of(step)] -= 1
            retracted = self._open_steps.pop(step, None)
            self.trace.steps = [each for each in self.trace.steps if each is not retracted]
        for step, requirement in remap.requirements.items():
            if found := self._open_steps.get(step):
                found.requirement = requirement or found.requirement
        for reached in remap.reached:
            self._reach_node(position, entry.at, reached)

    # -- steps --------------------------------------------------------------------------------

    def _add_step(self, step: StepId, position: int, at: int) -> StepTrace:
        made = StepTrace(step=step, node=node_of(step), reached_at=at, position=position)
        visit = self._open_steps.get(parent_or_self(step)) if item_number(step) else None
        (visit.items if visit is not None else self.trace.steps).append(made)
        self._open_steps[step] = made
        self._last_steps[made.node] = made
        return made

    def _apply_to_step(self, position: int, entry: j.JournalEntry) -> None:
        match entry:
            case j.NodesReached():
                self._reach_nodes(position, entry)
            case j.StepStarted():
                self._start_step(position, entry)
            case j.StepCompleted() | j.StepCancelled():
                self._end_step(position, entry)
            case j.ParentStepStarted() | j.StepFailed() | j.StepRetried() | j.ItemsRefused():
                self._update_step(position, entry)
            case j.InterruptRaised():
                self._raised_at[entry.interrupt.id] = entry.at
                self._add_interrupt(entry.interrupt, entry.at)
            case j.InterruptAnswered():
                if asked := self._interrupts.pop(entry.interrupt, None):
                    asked.answered_at, asked.decision, asked.by = entry.at, entry.decision, entry.by
            case _:
                pass

    def _start_step(self, position: int, entry: j.StepStarted) -> None:
        found = self._open_steps.get(entry.step) or self._add_step(entry.step, position, entry.at)
        found.status, found.started_at, found.agent = "running", entry.at, entry.agent
        found.start_position = position
        if entry.agent is not None:
            self._agents[found.node] = entry.agent
            found.reads = self._readable_logs(entry.step, entry.agent)
            found.calls.append(CallTrace(call=1, scheduled_at=entry.at))

    def _update_step(
        self,
        position: int,
        entry: j.ParentStepStarted | j.StepFailed | j.StepRetried | j.ItemsRefused,
    ) -> None:
        found = self._open_steps.get(entry.step)
        if found is None:
            return
        if isinstance(entry, j.ParentStepStarted):
            found.status, found.started_at, found.item_count = "running", entry.at, entry.of
            found.start_position = position
            return
        if isinstance(entry, j.ItemsRefused):
            found.errors += entry.errors
            return
        calls = [call for call in found.calls if call.call == entry.call]
        if isinstance(entry, j.StepFailed):
            (calls[0].errors if calls else found.errors).append(entry.error)
            return
        found.retries += 1
        for call in calls:
            call.retries += 1
            self._repeated_at[(found.step, call.call)] = entry.at

    def _reach_nodes(self, position: int, entry: j.NodesReached) -> None:
        source = self._last_steps.get(entry.source) if entry.source else None
        if source is not None:
            source.next_nodes = tuple(reached.node for reached in entry.to)
            source.because = source.because or entry.because
        for reached in entry.to:
            self._reach_node(position, entry.at, reached)
        if source is not None:  # a node that reaches itself has a newer step, which is not done
            self._last_steps[source.node] = source

    def _reach_node(self, position: int, at: int, reached: j.ReachedNode) -> None:
        visit = self._visits[reached.node] = self._visits.get(reached.node, 0) + 1
        made = self._add_step(step_id(reached.node, visit), position, at)
        made.requirement = reached.requirement

    def _end_step(self, position: int, entry: j.StepCompleted | j.StepCancelled) -> None:
        found = self._open_steps.pop(entry.step, None)
        if found is None:
            return
        found.ended_at, found.checkpoint = entry.at, position
        found.status = "cancelled"
        if isinstance(entry, j.StepCancelled):
            self._withdraw(found.interrupts, entry.at)
        else:
            found.status = "skipped" if entry.skipped else "completed"
            found.because = entry.because
        self._last_steps[found.node] = found

    def _add_interrupt(self, interrupt: Interrupt, at: int) -> None:
        asked = InterruptTrace(
            id=interrupt.id, kind=interrupt.kind, question=interrupt.question, raised_at=at
        )
        step = self._open_steps.get(interrupt.step) if interrupt.step else None
        (step.interrupts if step is not None else self.trace.interrupts).append(asked)
        self._interrupts[interrupt.id] = asked

    def _readable_logs(self, step: StepId, agent: AgentName) -> dict[LogName, int]:
        logs = [*self._reads.get(agent, ()), private_log(agent)]
        if self._reads.get(agent):
            logs += (log for log in self._log_lengths if agent in named_readers(log))
        logs += [child_step_log(step)] if item_number(step) else []
        return {log: self._log_lengths[log] for log in logs if self._log_lengths.get(log)}

    # -- calls --------------------------------------------------------------------------------

    def _apply_to_call(self, entry: j.JournalEntry) -> None:
        match entry:
            case j.ModelCallCompleted():
                if found := self._open_steps.get(entry.step):
                    self._complete_model_call(found, entry)
            case (
                j.StructuredOutputParsed()
                | j.StructuredOutputRejected()
                | j.TurnLimitReached()
                | j.ToolCallCompleted()
            ):
                if found := self._open_steps.get(entry.step):
                    self._apply_result(found, entry)
                    self._writer = found
            case j.PermissionDenied():
                if found := self._open_steps.get(entry.step):
                    for call in (c for c in found.calls if c.call == entry.call):
                        call.denial_reason = entry.reason
            case j.RunOutputSet() | j.OutputSet() | j.WriteRefused():
                self._add_value(entry)
            case _:
                pass

    def _add_value(self, entry: j.RunOutputSet | j.OutputSet | j.WriteRefused) -> None:
        """Adds a value that a call set, or the error of a refused write."""
        by = entry.agent if isinstance(entry, j.OutputSet) else entry.by
        if self._writer is None or by != self._writer.agent:
            return
        match entry:
            case j.RunOutputSet():
                self._writer.values[entry.flag] = entry.value
            case j.OutputSet():
                value = entry.value if entry.body is None else {"body": entry.body}
                self._writer.values[f"{entry.agent}.{entry.key}"] = value
            case j.WriteRefused():
                self._writer.errors.append(entry.description)

    def _complete_model_call(self, found: StepTrace, entry: j.ModelCallCompleted) -> None:
        if entry.without_model and entry.calls:  # of an agent without a model
            found.calls = [call for call in found.calls if call.call != entry.call]
        for at, call in enumerate(found.calls):
            if call.call == entry.call:
                # A call that a rollback restored counts from its repetition.
                since = max(call.scheduled_at, self._repeated_at.get((found.step, call.call), 0))
                late = entry.delay.retries_ms + entry.delay.queue_ms if entry.delay else 0
                found.calls[at] = call.model_copy(
                    update={
                        "ended_at": entry.at,
                        "ms": max(entry.at - since - late, 0),
                        "delay": entry.delay,
                        "ok": True,
                        "result": entry.excerpt,
                        "body": entry.ref.body,
                        "model": entry.model,
                        "usage": entry.usage,
                        "accepted_ending": "" if entry.refused else entry.ending,
                        "without_model": entry.without_model,
                    }
                )
        found.calls += [_new_call(call, entry.at) for call in entry.calls]

    def _apply_result(self, found: StepTrace, entry: j.Entry) -> None:
        """Applies the result of a tool call, or of a structured output."""
        if isinstance(entry, j.ToolCallCompleted):
            self._complete_tool_call(found, entry)
        elif isinstance(entry, j.TurnLimitReached):  # the next call is not made
            found.calls = [call for call in found.calls if call.ended_at is not None]
        elif isinstance(entry, j.StructuredOutputRejected):
            self._refuse_output(found, entry)

    def _refuse_output(self, found: StepTrace, entry: j.StructuredOutputRejected) -> None:
        for call in (each for each in found.calls if each.call == entry.call):
            call.ok = False
            call.errors += entry.errors
        if entry.ref is not None:
            number = max((call.call for call in found.calls), default=0) + 1
            found.calls.append(CallTrace(call=number, scheduled_at=entry.at))

    def _complete_tool_call(self, found: StepTrace, entry: j.ToolCallCompleted) -> None:
        for call in found.calls:
            if call.call == entry.call:
                call.ended_at, call.ok, call.result = entry.at, entry.ok, entry.excerpt
                call.body, call.ms, call.delay = entry.ref.body, entry.ms, entry.delay
        if entry.model_next:
            number = max(call.call for call in found.calls) + 1
            composed = entry.result is not None
            found.calls.append(
                CallTrace(call=number, scheduled_at=entry.at, without_model=composed)
            )


def _new_call(call: Call, at: int) -> CallTrace:
    return CallTrace(
        call=call.call,
        tool=call.tool,
        scheduled_at=at,
        arguments=call.excerpt,
        message=call.message,
    )


def _is_run_input(entry: j.Entry) -> bool:
    """Whether it is the run input, and not a command."""
    return isinstance(entry, j.MessageAdded) and entry.command is None
