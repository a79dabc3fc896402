"""Builds a trace from a journal, entry by entry.

    run_trace(journal) → Trace(steps=[StepTrace(calls=[CallTrace, …], items=[StepTrace, …]), …])

Everything follows from the journal; the values themselves are bodies in the store, named by their
hashes. A step that a rollback brings back has a second trace from there on.
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
    private_log,
    step_id,
    visit_of,
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
    j.MergeOffered,
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
        entries: The journal, from its beginning.
        reads: The logs that each agent reads besides its own; without it they are not told.
    """
    tracer = _TraceBuilder(reads or {})
    for position, entry in entries:
        tracer.take(position, entry)
    return tracer.trace


class _TraceBuilder:
    """A trace while it grows."""

    def __init__(self, reads: Mapping[AgentName, Sequence[LogName]]) -> None:
        self.trace = TraceView()
        self._reads = reads
        self._open: dict[StepId, StepTrace] = {}
        self._last: dict[NodeName, StepTrace] = {}
        self._visits: dict[NodeName, int] = {}
        self._agents: dict[NodeName, AgentName] = {}
        self._questions: dict[InterruptId, InterruptTrace] = {}
        """What is open."""
        self._raised: dict[InterruptId, int] = {}
        """When each question was asked: one that is open again was asked then."""
        self._logs: dict[LogName, int] = {}
        self._again: dict[tuple[StepId, int], int] = {}
        """When calls were made again."""
        self._setting: StepTrace | None = None
        """The step whose tool set what comes next."""

    def take(self, position: int, entry: j.JournalEntry) -> None:
        trace = self.trace
        trace.position = position
        if entry.message is not None:
            for log in entry.message.logs:
                self._logs[log] = self._logs.get(log, 0) + 1
        for join in entry.log_merges:
            self._logs[join.log] = self._logs.get(join.log, 0) + join.more
        self._run(position, entry)
        if isinstance(entry, RUN_EVENTS) and not _silent(entry):
            event = Event(position, entry.at, entry, RunId(trace.run))
            trace.events.append(event_view(event))
        self._step(position, entry)
        self._call(entry)

    def _run(self, position: int, entry: j.JournalEntry) -> None:
        trace = self.trace
        match entry:
            case j.RunStarted():
                trace.run, trace.crew = entry.run, entry.crew
                trace.started = trace.started or entry.started_at or entry.at
            case j.PromptReceived():
                trace.run, trace.started = entry.run, entry.at
            case j.RunForked() | j.RunRolledBack() | j.RunReopened():
                if isinstance(entry, j.RunForked):
                    trace.run, trace.started = entry.run, entry.at
                    trace.crew = str(entry.state.get("crew", ""))
                trace.ended, trace.status, trace.error = None, "running", ""
                then = CrewState.from_json({**entry.state, "run": trace.run})
                self._restore(position, entry.at, then)
            case j.GraphReplacement():
                self._swapped(position, entry)
                if isinstance(entry, j.RunMerged):
                    self._taken_in(position, entry)
            case j.RunCompleted() | j.RunStopped() | j.RunFailed() | j.RunEndedByMerge():
                self._withdraw(self._questions.values(), entry.at)
                trace.ended, trace.status = entry.at, _ENDS[entry.kind]
                trace.error = entry.error if isinstance(entry, j.RunFailed) else ""
            case _:
                pass

    def _restore(self, position: int, at: int, state: CrewState) -> None:
        for under_way in self._open.values():
            under_way.status, under_way.ended = "undone", at
        self._open.clear()
        self._logs = {log: head.length for log, head in state.messages.items()}
        self._visits = dict(state.visits)
        self._restore_steps(position, at, state)
        for question in state.interrupts.values():  # of a run that is taken up: the same ones
            self._ask(question, self._raised.get(question.id, at))

    def _taken_in(self, position: int, entry: j.RunMerged) -> None:
        """What was under way in a run that is a part of this one now."""
        part = CrewState.from_json(entry.merged_state)
        names = MergeNames.of(entry, self._visits)
        steps = merged_steps(part, names)
        self._restore_steps(position, entry.at, part.model_copy(update={"frontier": steps}))
        self._visits = merged_visit_numbers(self._visits, part, names)

    def _restore_steps(self, position: int, at: int, state: CrewState) -> None:
        for step, found in sorted(state.frontier.items(), key=lambda pair: item_number(pair[0])):
            again = self._add(step, position, at)
            if found.status == "running" or found.turn is not None:
                again.status, again.started, again.began = "running", at, position
                again.agent = item_agent(state, step) or self._agents.get(again.node)
            again.waited_for = found.requirement
            again.of = found.child_steps.of if found.child_steps else 0
            calls = found.turn.calls if found.turn else ()
            again.calls = [_call(call, at) for call in calls]

    def _withdraw(self, asked: Iterable[InterruptTrace], at: int) -> None:
        """What nobody needs the answers of any more; who withdrew them may be told later."""
        for each in asked:
            if each.answered is None:
                each.answered, each.decision = at, "withdrawn"

    def _swapped(self, position: int, entry: j.GraphReplacement) -> None:
        remap = entry.remap
        for step in remap.detached:
            if found := self._open.get(step):
                found.status = "detached"
        for step in remap.reattached:
            if found := self._open.get(step):
                found.status = "reached" if found.started is None else "running"
        for step in remap.retracted:  # it has not begun, and its number is free again
            self._visits[node_of(step)] -= 1
            retracted = self._open.pop(step, None)
            self.trace.steps = [each for each in self.trace.steps if each is not retracted]
        for step, requirement in remap.requirements.items():
            if found := self._open.get(step):
                found.waited_for = requirement or found.waited_for
        for reached in remap.reached:
            self._reached(position, entry.at, reached)

    # -- steps --------------------------------------------------------------------------------

    def _add(self, step: StepId, position: int, at: int) -> StepTrace:
        made = StepTrace(step=step, node=node_of(step), reached=at, position=position)
        visit = self._open.get(visit_of(step)) if item_number(step) else None
        (visit.items if visit is not None else self.trace.steps).append(made)
        self._open[step] = made
        self._last[made.node] = made
        return made

    def _step(self, position: int, entry: j.JournalEntry) -> None:
        match entry:
            case j.NodesReached():
                self._routed(position, entry)
            case j.StepStarted():
                self._started(position, entry)
            case j.StepCompleted() | j.StepCancelled():
                self._ended(position, entry)
            case j.ParentStepStarted() | j.StepFailed() | j.StepRetried() | j.ItemsRefused():
                self._changed(position, entry)
            case j.InterruptRaised():
                self._raised[entry.interrupt.id] = entry.at
                self._ask(entry.interrupt, entry.at)
            case j.InterruptAnswered():
                if asked := self._questions.pop(entry.interrupt, None):
                    asked.answered, asked.decision, asked.by = entry.at, entry.decision, entry.by
            case _:
                pass

    def _started(self, position: int, entry: j.StepStarted) -> None:
        found = self._open.get(entry.step) or self._add(entry.step, position, entry.at)
        found.status, found.started, found.agent = "running", entry.at, entry.agent
        found.began = position
        if entry.agent is not None:
            self._agents[found.node] = entry.agent
            found.reads = self._readable(entry.step, entry.agent)
            found.calls.append(CallTrace(call=1, start=entry.at))

    def _changed(
        self,
        position: int,
        entry: j.ParentStepStarted | j.StepFailed | j.StepRetried | j.ItemsRefused,
    ) -> None:
        found = self._open.get(entry.step)
        if found is None:
            return
        if isinstance(entry, j.ParentStepStarted):
            found.status, found.started, found.of = "running", entry.at, entry.of
            found.began = position
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
            self._again[(found.step, call.call)] = entry.at

    def _routed(self, position: int, entry: j.NodesReached) -> None:
        source = self._last.get(entry.source) if entry.source else None
        if source is not None:
            source.went = tuple(reached.node for reached in entry.to)
            source.because = source.because or entry.because
        for reached in entry.to:
            self._reached(position, entry.at, reached)
        if source is not None:  # what its own visit queues behind it is reached, and not it
            self._last[source.node] = source

    def _reached(self, position: int, at: int, reached: j.ReachedNode) -> None:
        visit = self._visits[reached.node] = self._visits.get(reached.node, 0) + 1
        made = self._add(step_id(reached.node, visit), position, at)
        made.waited_for = reached.requirement

    def _ended(self, position: int, entry: j.StepCompleted | j.StepCancelled) -> None:
        found = self._open.pop(entry.step, None)
        if found is None:
            return
        found.ended, found.checkpoint = entry.at, position
        found.status = "cancelled"
        if isinstance(entry, j.StepCancelled):
            self._withdraw(found.asked, entry.at)
        else:
            found.status = "skipped" if entry.skipped else "completed"
            found.because = entry.because
        self._last[found.node] = found

    def _ask(self, question: Interrupt, at: int) -> None:
        asked = InterruptTrace(
            id=question.id, kind=question.kind, question=question.question, raised=at
        )
        step = self._open.get(question.step) if question.step else None
        (step.asked if step is not None else self.trace.asked).append(asked)
        self._questions[question.id] = asked

    def _readable(self, step: StepId, agent: AgentName) -> dict[LogName, int]:
        logs = [*self._reads.get(agent, ()), private_log(agent)]
        if self._reads.get(agent):
            logs += (log for log in self._logs if agent in named_readers(log))
        logs += [child_step_log(step)] if item_number(step) else []
        return {log: self._logs[log] for log in logs if self._logs.get(log)}

    # -- calls --------------------------------------------------------------------------------

    def _call(self, entry: j.JournalEntry) -> None:
        match entry:
            case j.ModelCallCompleted():
                if found := self._open.get(entry.step):
                    self._replied(found, entry)
            case (
                j.StructuredOutputParsed()
                | j.StructuredOutputRejected()
                | j.TurnLimitReached()
                | j.ToolCallCompleted()
            ):
                if found := self._open.get(entry.step):
                    self._applied(found, entry)
                    self._setting = found
            case j.PermissionDenied():
                if found := self._open.get(entry.step):
                    for call in (c for c in found.calls if c.call == entry.call):
                        call.denied = entry.reason
            case j.RunOutputSet() | j.OutputSet() | j.WriteRefused():
                self._set(entry)
            case _:
                pass

    def _set(self, entry: j.RunOutputSet | j.OutputSet | j.WriteRefused) -> None:
        """What a step sets, or would have set, after the call that does."""
        by = entry.agent if isinstance(entry, j.OutputSet) else entry.by
        if self._setting is None or by != self._setting.agent:
            return
        match entry:
            case j.RunOutputSet():
                self._setting.sets[entry.flag] = entry.value
            case j.OutputSet():
                value = entry.value if entry.body is None else {"body": entry.body}
                self._setting.sets[f"{entry.agent}.{entry.key}"] = value
            case j.WriteRefused():
                self._setting.errors.append(entry.description)

    def _replied(self, found: StepTrace, entry: j.ModelCallCompleted) -> None:
        if entry.without_model and entry.calls:  # what the definition says: nobody was asked
            found.calls = [call for call in found.calls if call.call != entry.call]
        for at, call in enumerate(found.calls):
            if call.call == entry.call:
                # One that a rollback brought back began after what was said of it before.
                since = max(call.start, self._again.get((found.step, call.call), 0))
                late = entry.delay.retries_ms + entry.delay.queue_ms if entry.delay else 0
                found.calls[at] = call.model_copy(
                    update={
                        "end": entry.at,
                        "ms": max(entry.at - since - late, 0),
                        "delay": entry.delay,
                        "ok": True,
                        "result": entry.excerpt,
                        "body": entry.ref.body,
                        "model": entry.model,
                        "usage": entry.usage,
                        "accepted": "" if entry.refused else entry.ending,
                        "composed": entry.without_model,
                    }
                )
        found.calls += [_call(call, entry.at) for call in entry.calls]

    def _applied(self, found: StepTrace, entry: j.Entry) -> None:
        """What a tool returned, or what became of a final message: what is set next is of it."""
        if isinstance(entry, j.ToolCallCompleted):
            self._returned(found, entry)
        elif isinstance(
            entry, j.TurnLimitReached
        ):  # the call that would have come next is not made
            found.calls = [call for call in found.calls if call.end is not None]
        elif isinstance(entry, j.StructuredOutputRejected):
            self._refused(found, entry)

    def _refused(self, found: StepTrace, entry: j.StructuredOutputRejected) -> None:
        for call in (each for each in found.calls if each.call == entry.call):
            call.ok = False
            call.errors += entry.errors
        if entry.ref is not None:
            number = max((call.call for call in found.calls), default=0) + 1
            found.calls.append(CallTrace(call=number, start=entry.at))

    def _returned(self, found: StepTrace, entry: j.ToolCallCompleted) -> None:
        for call in found.calls:
            if call.call == entry.call:
                call.end, call.ok, call.result = entry.at, entry.ok, entry.excerpt
                call.body, call.ms, call.delay = entry.ref.body, entry.ms, entry.delay
        if entry.model_next:
            number = max(call.call for call in found.calls) + 1
            composed = entry.result is not None
            found.calls.append(CallTrace(call=number, start=entry.at, composed=composed))


def _call(call: Call, at: int) -> CallTrace:
    return CallTrace(
        call=call.call, tool=call.tool, start=at, arguments=call.excerpt, message=call.message
    )


def _silent(entry: j.Entry) -> bool:
    """Whether it is no command of anybody's: the run's own input."""
    return isinstance(entry, j.MessageAdded) and entry.command is None
