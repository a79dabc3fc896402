"""What histories tell of a run, as what a store is made of: pure, without a server.

pick(events)       the payloads that tell facts; whoever calls decodes them
extract(told)      batches, bodies, definitions and snapshots of one execution
join(batches)      batches that overlap or touch, as the fewest that do not
gaps(batches)      the positions that nobody told
pieces(batch)      a long batch in parts that a store takes at a time

An activity's input is in the history from its scheduling on, so the facts in it hold even where the
activity never ran. Its result is there once it ended; a local activity's is in a marker.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pydantic import ValidationError
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from crewlog.canonical_json import hash_json
from crewlog.errors import CrewlogError
from crewlog.graph.plan import GraphPlan
from crewlog.ids import ContentHash, LogName, RunId
from crewlog.model import Json
from crewlog.state import calls
from crewlog.state.batch_codec import unpack
from crewlog.state.body_metadata import body_metadata as told_by
from crewlog.state.carry import read_carry
from crewlog.state.drafts import draft_text
from crewlog.state.journal import Batch, preceding_position
from crewlog.state.logs import heads_after_batch
from crewlog.state.model import CrewState
from crewlog.store.protocol import Snapshot

START = "start"
"""The name of what an execution was started with."""
_CARRY = "carry"
"""The key of the carry in a continued execution's start input."""
_LOCAL = "core_local_activity"
"""The marker of a local activity; Temporal's name."""


Way = Literal["input", "result"]


class Place(NamedTuple):
    """Where a history has a value."""

    name: str
    """The activity's type, or `START`."""
    way: Way
    event: int
    """The event's number."""
    activity: str = ""
    """The activity's id."""
    attempt: int = 1
    """Which try gave a result, by Temporal's count."""

    def __str__(self) -> str:
        return f"event {self.event} ({self.name} {self.way})"


class Told(NamedTuple):
    """A value in a history."""

    place: Place
    value: Json


class Picked(NamedTuple):
    """A value in a history that is not decoded yet."""

    place: Place
    payload: Payload


@dataclass(frozen=True)
class Ends:
    """Where an execution stands in its chain, by its first and last event."""

    before: str
    """The execution that it continues; empty for the first."""
    after: str
    """The execution that continues it; empty where there is none."""
    workflow: str = ""
    """The workflow's type, by its first event as all that follows: nobody who starts one can say
    that otherwise."""
    queue: str = ""
    """The task queue on which it was started."""
    ended: Literal["", "itself", "outside"] = ""
    """Whether it has ended, and by whom: from outside it may have recorded what was never
    stored."""
    others: frozenset[str] = frozenset()
    """The first execution of its chain, and the one that it was reset from."""


@dataclass
class Extracted:
    """What one execution tells."""

    batches: list[Batch] = field(default_factory=list[Batch])
    """The journal, joined."""
    bodies: dict[ContentHash, Json] = field(default_factory=dict[ContentHash, Json])
    """Bodies that are not in the journal's entries themselves, by hash."""
    messages: dict[ContentHash, dict[str, Json]] = field(
        default_factory=dict[ContentHash, dict[str, Json]]
    )
    """Those of them that calls answered with."""
    definitions: dict[ContentHash, dict[str, Json]] = field(
        default_factory=dict[ContentHash, dict[str, Json]]
    )
    """Definitions by hash."""
    snapshots: list[Snapshot] = field(default_factory=list[Snapshot])
    """States by position."""
    carried: CrewState | None = None
    """The state that the execution began with; none for the first one of a run that is neither
    forked nor taken up again."""
    reopened: bool = False
    """Whether it goes on with a run that had ended."""
    calls: dict[str, calls.CallTool] = field(default_factory=dict[str, calls.CallTool])
    """The tool calls that were scheduled, by the activity's id."""
    attempts: dict[str, int] = field(default_factory=dict[str, int])
    """Which try gave a tool's result, by the activity's id."""
    counted: dict[str, tuple[dict[str, str], int]] = field(
        default_factory=dict[str, tuple[dict[str, str], int]]
    )
    """The quotas that count calls, as `CallToolResult.counted`, and when: by `STEP/CALL@STARTED`,
    as
    `calls.quota_idempotency_key` names them."""
    stored: int = 0
    """The last position that is known to have been stored: what an activity is given to store
    begins after that."""
    flushes: dict[str, int] = field(default_factory=dict[str, int])
    """The last positions of what was given to those activities that only store, by their ids."""
    plans: list[GraphPlan] = field(default_factory=list[GraphPlan])
    """The plan that the execution followed, with those that people were asked about."""
    problems: list[str] = field(default_factory=list[str])
    """What could not be understood."""

    @property
    def end(self) -> int:
        """The last position that it tells of."""
        carried = self.carried.position if self.carried else 0
        return max([carried, *(last(batch) for batch in self.batches)])


# -- picking ---------------------------------------------------------------------------------


def pick(events: Iterable[HistoryEvent]) -> Iterator[Picked]:
    """The payloads of an execution's events that tell facts, in order."""
    places: dict[int, Place] = {}
    for event in events:
        number = event.event_id
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                started = event.workflow_execution_started_event_attributes
                if started.continued_execution_run_id:
                    yield from _picked(Place(START, "input", number), started.input)
            case EventType.EVENT_TYPE_MARKER_RECORDED:
                marker = event.marker_recorded_event_attributes
                if marker.marker_name == _LOCAL and "result" in marker.details:
                    name = _local_type(marker.details["data"].payloads)
                    yield from _picked(Place(name, "result", number), marker.details["result"])
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                scheduled = event.activity_task_scheduled_event_attributes
                name = scheduled.activity_type.name
                place = places[number] = Place(name, "input", number, scheduled.activity_id)
                yield from _picked(place, scheduled.input)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                begun = event.activity_task_started_event_attributes
                if known := places.get(begun.scheduled_event_id):
                    places[known.event] = known._replace(attempt=begun.attempt)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                completed = event.activity_task_completed_event_attributes
                if known := places.get(completed.scheduled_event_id):
                    known = known._replace(way="result", event=number)
                    yield from _picked(known, completed.result)
            case _:
                pass


_TELLING = {
    (START, "input"),
    (calls.PREPARE_RUN, "result"),
    (calls.PREPARE_CHANGE, "result"),
    (calls.PREPARE_MERGE, "result"),
    (calls.COMPILE_PROMPT, "input"),
    (calls.CALL_MODEL, "input"),
    (calls.CALL_MODEL, "result"),
    (calls.CALL_TOOL, "input"),
    (calls.CALL_TOOL, "result"),
    (calls.RESTORE_STATE, "input"),
    (calls.RESTORE_STATE, "result"),
    (calls.STORE_BATCH, "input"),
    (calls.END_RUN, "input"),
}


def _picked(place: Place, payloads: Payloads) -> Iterator[Picked]:
    if (place.name, place.way) in _TELLING:
        for payload in payloads.payloads[:1]:  # every call has one argument
            yield Picked(place, payload)


def _local_type(payloads: Iterable[Payload]) -> str:
    for payload in payloads:  # written by Temporal's core, past all converters
        return str(json.loads(payload.data).get("activity_type", ""))
    return ""


_ENDED: dict[EventType.ValueType, Literal["itself", "outside"]] = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: "itself",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: "itself",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: "itself",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "outside",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "outside",
    # Itself, after it has stored its end; or since an activity was refused what it was to store.
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "outside",
}
"""Which event says that an execution has ended, and by whom."""


def ends_of(first: HistoryEvent, last: HistoryEvent) -> Ends:
    """Where an execution stands in its chain."""
    began = first.workflow_execution_started_event_attributes
    return Ends(
        before=began.continued_execution_run_id,
        after=last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id,
        workflow=began.workflow_type.name,
        queue=began.task_queue.name,
        ended=_ENDED.get(last.event_type, ""),
        others=frozenset({began.first_execution_run_id, began.original_execution_run_id}),
    )


# -- extracting ------------------------------------------------------------------------------


def extract(told: Iterable[Told]) -> Extracted:
    """What the values of one execution's history mean for a store.

    A value that is none of ours becomes a problem: the rest is worth having.
    """
    out = Extracted()
    batches: list[Batch] = []
    for item in told:
        try:
            batches += _carried(item, _take(item, out), out)
        except (ValidationError, CrewlogError, TypeError, KeyError) as error:
            text = str(error).splitlines()[0]
            out.problems.append(f"{item.place} is not understood: {text}")
    facts = {hash_: told_by(body) for hash_, body in out.messages.items()}
    whole: list[Batch] = []
    for batch in batches:
        if batch.entries:
            try:
                whole.append(unpack(batch, facts))
            except KeyError as missing:
                text = f"the entries from {batch.first} tell of a message that is gone: {missing}"
                out.problems.append(text)
    out.batches = join(whole)
    return out


def _carried(item: Told, batches: Iterable[Batch], out: Extracted) -> Iterable[Batch]:
    """The batches of a value, and what they tell of how far the journal was stored by then."""
    for batch in batches:
        if batch.entries:
            out.stored = max(out.stored, batch.first - 1)
        if item.place.name == calls.STORE_BATCH and item.place.way == "input":
            out.flushes[item.place.activity] = last(batch)
        yield batch


_CALLS: dict[str, type[calls.CompilePrompt | calls.CallModel | calls.RestoreState]] = {
    calls.COMPILE_PROMPT: calls.CompilePrompt,
    calls.CALL_MODEL: calls.CallModel,
    calls.RESTORE_STATE: calls.RestoreState,
}


_MAKERS: dict[
    str, type[calls.PrepareRunResult | calls.PrepareChangeResult | calls.PrepareMergeResult]
] = {
    calls.PREPARE_RUN: calls.PrepareRunResult,
    calls.PREPARE_CHANGE: calls.PrepareChangeResult,
    calls.PREPARE_MERGE: calls.PrepareMergeResult,
}


def _take(item: Told, out: Extracted) -> Iterable[Batch]:
    value: Json = item.value
    match item.place.name, item.place.way:
        case (calls.COMPILE_PROMPT | calls.CALL_MODEL | calls.RESTORE_STATE) as name, "input":
            return [_CALLS[name].model_validate(value, extra="ignore").batch]
        case calls.CALL_TOOL, "input":
            call = calls.CallTool.model_validate(value, extra="ignore")
            out.calls[item.place.activity] = call
            return [call.batch]
        case calls.CALL_MODEL, "result":
            reply = calls.CallModelResult.model_validate(value, extra="ignore")
            out.messages[reply.hash] = reply.body
            _keep(out, item, reply.hash, reply.body)
            _keep_parts(out, item, reply)
        case calls.CALL_TOOL, "result":
            answer = calls.CallToolResult.model_validate(value, extra="ignore")
            out.attempts[item.place.activity] = item.place.attempt
            out.messages[answer.hash] = answer.body
            if answer.quota_periods:  # a local call's input is in no history: its message names it
                named = calls.quota_idempotency_key(str(answer.body["id"]), answer.run_started_at)
                out.counted[named] = (answer.quota_periods, answer.at)
            _keep_all(out, item, answer)
        case calls.STORE_BATCH, "input":
            flush = calls.StoreBatch.model_validate(value, extra="ignore")
            if flush.state is not None:
                _snap(out, last(flush.batch), flush.state)
            return [flush.batch]
        case calls.END_RUN, "input":
            closing = calls.EndRun.model_validate(value, extra="ignore")
            if closing.batch.entries:
                _snap(out, last(closing.batch), closing.state)
            return [closing.batch]
        case _:
            return _begin(item, out)
    return ()


def _keep_parts(out: Extracted, item: Told, reply: calls.CallModelResult) -> None:
    """Takes the bodies that the outcome of a model call names."""
    outcome = reply.outcome
    match outcome.accepted if isinstance(outcome, calls.MessageUnusable) else outcome:
        case calls.ToolCallsRequested(draft=str(draft)):
            _keep(out, item, draft, draft_text(reply.body))
        case calls.FinalMessage(output=calls.StructuredOutput(outputs=outputs)):
            _keep_outputs(out, item, outputs)
        case _:
            pass


def _keep_outputs(out: Extracted, item: Told, outputs: Iterable[calls.OutputValue]) -> None:
    for output in outputs:
        if output.body is not None:
            _keep(out, item, output.body, output.content)


def _begin(item: Told, out: Extracted) -> Iterable[Batch]:
    """Takes what a run, or an execution, begins with."""
    value: Json = item.value
    match item.place.name, item.place.way:
        case (calls.PREPARE_RUN | calls.PREPARE_CHANGE | calls.PREPARE_MERGE) as name, "result":
            made = _MAKERS[name].model_validate(value, extra="ignore")
            if made.definition:  # else a model that reads a prompt is asked once more
                _define(made.definition, made.plan, out)
            if isinstance(made, calls.PrepareChangeResult):
                out.definitions |= {hash_json(p.definition): p.definition for p in made.split_runs}
                if made.basis:
                    out.definitions[hash_json(made.basis)] = made.basis
                if made.pending is not None:
                    _define(made.pending.definition, made.pending.plan, out)
        case calls.RESTORE_STATE, "result":
            loaded = calls.RestoreStateResult.model_validate(value, extra="ignore")
            _define(loaded.definition, loaded.plan, out)
            out.definitions |= {hash_json(each): each for each in loaded.older}
            if not item.place.activity:  # a local one: the run begins with it
                out.reopened = bool(loaded.last)
                began = loaded.last or loaded.state
                out.carried = CrewState.model_validate(began, extra="ignore")
                out.stored = max(out.stored, out.carried.position)
        case _:
            carry = read_carry(value[_CARRY])
            out.carried = CrewState.model_validate(carry.state, extra="ignore")
            if carry.plan:  # a prompt has none until it is compiled
                out.plans.append(GraphPlan.model_validate(carry.plan, extra="ignore"))
            if not carry.batch.entries:  # else it was not stored before it was carried
                _snap(out, out.carried.position, carry.state)
                out.stored = max(out.stored, out.carried.position)
            return [carry.batch]
    return ()


def _define(definition: dict[str, Json], plan: dict[str, Json], out: Extracted) -> None:
    out.definitions[hash_json(definition)] = definition
    out.plans.append(GraphPlan.model_validate(plan, extra="ignore"))


def _keep(out: Extracted, item: Told, hash_: ContentHash, body: Json) -> None:
    if hash_json(body) != hash_:
        out.problems.append(f"{item.place} has a body of another hash")
        return
    out.bodies[hash_] = body


def _keep_all(out: Extracted, item: Told, answer: calls.CallToolResult) -> None:
    """Keeps the bodies that a tool's result made."""
    _keep(out, item, answer.hash, answer.body)
    for change in answer.returned.operations:
        _keep(out, item, change.body, change.content)
    _keep_outputs(out, item, answer.returned.outputs)


def _snap(out: Extracted, position: int, state: dict[str, Json]) -> None:
    out.snapshots.append(Snapshot(position=position, state=state))


# -- batches ---------------------------------------------------------------------------------


def last(batch: Batch) -> int:
    """The last position of a batch; the one before its first where it is empty."""
    return batch.last


def join(batches: Iterable[Batch]) -> list[Batch]:
    """Batches that overlap or touch as one, by position.

    A batch's heads are those before it of the logs that it extends. For a log that only a later
    part extends, the head before that part is the one before the whole, too.
    """
    out: list[_Open] = []
    for batch in sorted(batches, key=lambda batch: (batch.first, -len(batch.entries))):
        current = out[-1] if out else None
        if current is None or not _touches(batch, current.last):
            out.append(_Open(batch, dict(batch.heads), list(batch.entries), batch.last))
        elif last(batch) > current.last:
            for log, head in batch.heads.items():
                current.heads.setdefault(log, head)
            placed = zip(batch.positions(), batch.entries, strict=True)
            current.entries.extend([entry for at, entry in placed if at > current.last])
            current.last = batch.last
    return [
        each.start.model_copy(update={"heads": each.heads, "entries": tuple(each.entries)})
        for each in out
    ]


@dataclass
class _Open:
    """Batches that are being joined."""

    start: Batch
    heads: dict[LogName, ContentHash]
    entries: list[dict[str, Json]]
    last: int


def _touches(batch: Batch, at: int) -> bool:
    """Whether a batch begins no later than right after a position."""
    first = batch.entries[0] if batch.entries else None
    before = batch.first - 1 if first is None else preceding_position(first, batch.first)
    return before <= at


def gaps(batches: Iterable[Batch], end: int, base: int = 0) -> list[tuple[int, int]]:
    """The positions after `base` and up to `end` that joined batches leave out, as ranges."""
    found: list[tuple[int, int]] = []
    at = base
    for batch in batches:
        before = preceding_position(batch.entries[0], batch.first) if batch.entries else at
        if before > at:
            found.append((at + 1, before))
        at = max(at, last(batch))
    if at < end:
        found.append((at + 1, end))
    return found


def pieces(run: RunId, batch: Batch, size: int, cut: int = 0) -> Iterator[Batch]:
    """A batch in parts of at most `size` entries, each with the heads before it.

    Args:
        run: The run.
        batch: The batch.
        size: How many.
        cut: A position before which a part ends, where the batch has it.
    """
    heads, positions = dict(batch.heads), list(batch.positions())
    start = 0
    while start < len(positions):
        stop = start + size
        if cut > positions[start]:
            stop = min(stop, bisect_left(positions, cut))
        piece = Batch(first=positions[start], heads=dict(heads), entries=batch.entries[start:stop])
        yield piece
        heads = heads_after_batch(run, heads, piece)
        start = stop
