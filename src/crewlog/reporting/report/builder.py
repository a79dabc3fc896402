"""Builds the report of a run from its journal.

    run_report(journal) → ReportView(steps, plans, decisions, agents, outputs, errors, usage, …)

The journal is enough. Large values and texts are bodies in the store: the report has their hashes,
and `with_bodies` adds the bodies that a client has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from crewlog.ids import (
    AgentName,
    ContentHash,
    RunId,
    StepId,
    child_step_id,
    item_number,
)
from crewlog.model import Json
from crewlog.reporting.report.view import (
    AgentReport,
    ArtifactReport,
    DecisionKind,
    DecisionReport,
    ErrorReport,
    ExchangeReport,
    ItemListReport,
    OpenInterrupt,
    ReportView,
    StepReport,
    Value,
)
from crewlog.reporting.trace.builder import run_trace
from crewlog.reporting.trace.view import StepTrace, TraceView
from crewlog.state import journal as j
from crewlog.state.excerpt import excerpt
from crewlog.state.finish_reason import BadEnding
from crewlog.state.fold import fold
from crewlog.state.model import CrewState, Interrupt, Output
from crewlog.usage import Usage

TEXT = "text"
"""The output that is an agent's last final message."""


def run_report(entries: Iterable[tuple[int, j.JournalEntry]]) -> ReportView:
    """The report of a journal.

    Args:
        entries: The journal from its beginning, each entry with its position.
    """
    found = list(entries)
    state = CrewState(run=RunId(""), position=found[0][0] - 1 if found else 0)
    notes = _JournalNotes()
    for position, entry in found:
        state = fold(state, entry)
        notes.add(position, entry, state)
    trace = run_trace(found)
    steps = tuple(_step(each) for each in trace.steps)
    last, text = _last(state)
    return ReportView(
        run=RunId(trace.run or state.run),
        crew=str(state.crew or trace.crew),
        definition=state.definition or ContentHash(""),
        status=state.status,
        end_reason=state.end_reason,
        error=state.error if state.status == "failed" else "",
        position=state.position,
        started_at=trace.started_at,
        ended_at=trace.ended_at or 0,
        input=notes.input,
        summary=text,
        summary_agent=last,
        summary_ending=_ending(trace, last, text),
        step_count=state.steps,
        steps=steps,
        item_lists=tuple(_item_lists(notes, trace)),
        decisions=tuple(notes.decisions),
        agents=_agents(trace, notes, state),
        outputs={
            agent: {key: _value(out) for key, out in outs.items() if key != TEXT}
            for agent, outs in state.agent_outputs.items()
            if set(outs) - {TEXT}
        },
        flags=state.flags,
        artifacts={name: _artifact(made) for name, made in notes.artifacts.items()},
        errors=tuple(notes.errors),
        exchanges=tuple(notes.exchanges),
        interrupts=tuple(
            OpenInterrupt(id=asked.id, step=asked.step, question=asked.question)
            for asked in state.interrupts.values()
        ),
        usage=sum(state.usage.values(), Usage()),
    )


def with_bodies(report: ReportView, bodies: Mapping[ContentHash, Json]) -> ReportView:
    """The report with the values of bodies.

    Args:
        report: The report.
        bodies: The bodies that were read, of `report.bodies`.
    """
    return ReportView.model_validate(_replace_bodies(report.model_dump(), bodies))


def _replace_bodies(data: Any, bodies: Mapping[ContentHash, Json]) -> Any:
    if isinstance(data, dict):
        pairs = cast("dict[str, Any]", data)
        if pairs.keys() == Value.model_fields.keys():
            body = pairs["body"]
            value = _body_value(bodies[body]) if body in bodies else pairs["value"]
            return {**pairs, "value": value, "parts": _replace_bodies(pairs["parts"], bodies)}
        return {key: _replace_bodies(value, bodies) for key, value in pairs.items()}
    if isinstance(data, list | tuple):
        return [_replace_bodies(each, bodies) for each in cast("Iterable[Any]", data)]
    return data


def _body_value(body: Json) -> Json:
    """A body as a value: the text of a message, anything else as it is."""
    if not isinstance(body, dict):
        return body
    message = cast("dict[str, Json]", body)
    if not {"type", "content"} <= message.keys():
        return message
    content = message["content"]
    if not isinstance(content, list):
        return content
    parts: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
    return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in parts)


class _JournalNotes:
    """Collects what neither the state nor the trace has."""

    def __init__(self) -> None:
        self.input = Value()
        self.decisions: list[DecisionReport] = []
        self.errors: list[ErrorReport] = []
        self.item_lists: dict[StepId, tuple[str, int, Value]] = {}
        self.artifacts: dict[str, list[tuple[AgentName, int, int]]] = {}
        self.exchanges: list[ExchangeReport] = []
        self._agents: dict[StepId, AgentName | None] = {}
        self._interrupts: dict[str, Interrupt] = {}

    def add(self, position: int, entry: j.JournalEntry, state: CrewState) -> None:
        match entry:
            case j.MessageAdded():
                if self.input == Value() and entry.command is None:
                    self.input = Value(body=entry.ref.body)
            case j.StepStarted():
                self._agents[entry.step] = entry.agent
            case j.ParentStepStarted():
                source = state.agent_outputs.get(entry.agent, {}).get(entry.key)
                items = _value(source) if source is not None else Value()
                self.item_lists[entry.step] = (f"{entry.agent}.{entry.key}", entry.of, items)
            case j.StepFailed():
                self._add_error(position, entry.step, entry.error, entry.error_type)
            case j.RunFailed():
                self._add_error(position, None, entry.error, entry.error_type)
            case j.ArtifactOperationsApplied():
                made = self.artifacts.setdefault(entry.artifact, [])
                made.append((entry.agent, entry.count, entry.refused))
            case j.InterruptRaised():
                self._interrupts[entry.interrupt.id] = entry.interrupt
            case j.ExchangeStarted():
                exchange = ExchangeReport(
                    exchange=entry.exchange,
                    at=entry.at,
                    by=entry.by,
                    message=Value(body=entry.body),
                )
                self.exchanges.append(exchange)
            case j.ExchangeEnded() if (
                self.exchanges and self.exchanges[-1].exchange == entry.exchange
            ):
                answer = entry.response or (entry.ref.body if entry.ref is not None else None)
                ended: dict[str, Any] = {"end_position": position, "agent": entry.agent}
                ended |= {"response": Value(body=answer), "error": entry.error}
                ended |= {"warning": entry.warning, "end_reason": entry.end_reason}
                self.exchanges[-1] = self.exchanges[-1].model_copy(update=ended)
            case _:
                if decision := _decision(entry, self._interrupts):
                    self.decisions.append(
                        DecisionReport.model_validate(
                            {"position": position, "at": entry.at, **decision}
                        )
                    )

    def _add_error(self, position: int, step: StepId | None, error: str, kind: str) -> None:
        agent = self._agents.get(step) if step else None
        self.errors.append(
            ErrorReport(position=position, step=step, agent=agent, error=error, type=kind)
        )


def _decision(entry: j.JournalEntry, asked: Mapping[str, Interrupt]) -> dict[str, Any] | None:
    """The decision that an entry records; none for other entries."""
    match entry:
        case j.StructuredOutputParsed():
            why = {"lenient": "as it was meant", "fallback": "no reply was any good"}
            what = f"{entry.decision}: {entry.excerpt}" if entry.decision else entry.excerpt
            return _fields("reply", entry.agent, entry.step, what, why.get(entry.how, ""))
        case j.StructuredOutputRejected():
            what = f"reply {entry.attempt} of {entry.of} cannot be used"
            return _fields("refused", entry.agent, entry.step, what, "; ".join(entry.errors))
        case j.NodesReached(source=str(source)) if entry.because:
            goes = ", ".join(reached.node for reached in entry.to) or "on"
            what = f"back to {goes}" if entry.loop else f"to {goes}"
            return _fields("route", source, None, what, entry.because)
        case j.InterruptAnswered() if entry.decision not in ("withdrawn", "escalated"):
            question = asked.get(entry.interrupt)
            what = f"{question.question} {entry.decision}" if question else entry.decision
            who = entry.by or ("nobody, in time" if entry.expired else "")
            return _fields("person", who, question.step if question else None, what, entry.reason)
        case j.DefinitionApproved():
            return _fields("person", entry.by, None, "approved the crew", "")
        case j.PermissionDenied():
            return _fields("denied", entry.agent, entry.step, f"no {entry.tool}", entry.reason)
        case j.WriteRefused():
            what = f"{entry.key} stays {entry.kept}, and does not become {entry.refused}"
            return _fields("conflict", entry.by, entry.step, what, entry.because)
        case j.GraphReplacement() | j.DefinitionChanged():
            return _fields("change", entry.by, None, entry.what, "")
        case j.StateEdited() | j.StepRedirected() | j.ToolPermissionSet() | j.AgentPermissionSet():
            what = {
                "StateEdited": "edited the state",
                "StepRedirected": "sent the run elsewhere",
                "ToolPermissionSet": "changed who may call a tool",
                "AgentPermissionSet": "ruled of calls of a tool",
            }[entry.kind]
            return _fields("change", entry.by, None, what, getattr(entry, "reason", ""))
        case _:
            return None


def _fields(
    kind: DecisionKind, by: str, step: StepId | None, decision: str, reason: str
) -> dict[str, Any]:
    return {
        "kind": kind,
        "by": by,
        "step": step,
        "decision": excerpt(decision, 300),
        "reason": excerpt(reason, 300),
    }


def _step(step: StepTrace) -> StepReport:
    errors = [*step.errors, *(error for call in step.calls for error in call.errors)]
    return StepReport(
        step=step.step,
        node=step.node,
        agent=step.agent,
        status=step.status,
        because=step.because,
        accepted_ending=step.accepted_ending,
        started_at=step.started_at or 0,
        ms=step.ended_at - step.started_at if step.ended_at and step.started_at else 0,
        tools=tuple(call.tool for call in step.calls if call.tool),
        errors=tuple(errors),
        retries=step.retries,
        values={key: _set(value) for key, value in step.values.items()},
        usage=step.usage,
        items=tuple(map(_step, sorted(step.items, key=lambda item: item_number(item.step)))),
    )


def _set(value: Json) -> Value:
    """A value that a step set, as its trace has it."""
    if isinstance(value, dict) and (pairs := cast("dict[str, Any]", value)).keys() == {"body"}:
        return Value(body=ContentHash(str(pairs["body"])))
    return Value(value=value)


def _value(output: Output) -> Value:
    if output.elements:
        return Value(parts=tuple(Value(value=p.value, body=p.body) for p in output.elements))
    return Value(value=output.value, body=output.body)


def _last(state: CrewState) -> tuple[AgentName | None, Value]:
    """The agent of the last final message, and the message."""
    texts = [(o[TEXT].position, agent) for agent, o in state.agent_outputs.items() if TEXT in o]
    if not texts:
        return None, Value()
    _, agent = max(texts)
    text = _value(state.agent_outputs[agent][TEXT])
    return agent, text.parts[-1] if text.parts else text


def _ending(trace: TraceView, agent: AgentName | None, text: Value) -> BadEnding:
    """Why an agent's final message was used although incomplete."""
    calls = (call for step in trace.all_steps() if step.agent == agent for call in step.calls)
    for call in calls:
        if call.accepted_ending and call.body == text.body:
            return call.accepted_ending
    return ""


def _item_lists(notes: _JournalNotes, trace: TraceView) -> Iterator[ItemListReport]:
    for step in trace.steps:
        if step.step not in notes.item_lists:
            continue
        source, of, items = notes.item_lists[step.step]
        statuses = {item.step: item.status for item in step.items}
        numbered = [statuses.get(child_step_id(step.step, n), "") for n in range(1, of + 1)]
        yield ItemListReport(
            step=step.step, source=source, item_count=of, items=items, statuses=tuple(numbered)
        )


def _agents(
    trace: TraceView, notes: _JournalNotes, state: CrewState
) -> dict[AgentName, AgentReport]:
    found: dict[AgentName, dict[str, Any]] = {}
    for step in trace.all_steps():
        agent = step.agent
        if agent is None or step.started_at is None:
            continue
        fields = found.setdefault(agent, {"steps": 0, "retries": 0, "tools": {}, "values": {}})
        fields["steps"] += 1
        fields["retries"] += step.retries
        for call in step.calls:
            if call.tool:
                fields["tools"][call.tool] = fields["tools"].get(call.tool, 0) + 1
        fields["values"] |= {key: _set(value) for key, value in step.values.items()}
    for name, fields in found.items():
        texts = state.agent_outputs.get(name, {}).get(TEXT)
        fields["errors"] = sum(error.agent == name for error in notes.errors)
        fields["usage"] = state.usage.get(name, Usage())
        fields["artifacts"] = {
            artifact: sum(count - refused for who, count, refused in made if who == name)
            for artifact, made in notes.artifacts.items()
            if any(who == name for who, _, _ in made)
        }
        if texts is not None:
            message = _value(texts)
            fields["final_message"] = message.parts[-1] if message.parts else message
    return {name: AgentReport.model_validate(fields) for name, fields in found.items()}


def _artifact(made: list[tuple[AgentName, int, int]]) -> ArtifactReport:
    return ArtifactReport(
        versions=len(made),
        operations=sum(count for _, count, _ in made),
        refused_operations=sum(refused for _, _, refused in made),
        agents=tuple(dict.fromkeys(who for who, _, _ in made)),
    )
