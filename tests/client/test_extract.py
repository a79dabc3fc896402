"""What histories tell, on recorded ones: without a server."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from crewlog.canonical_json import hash_json
from crewlog.client.extract import (
    Extracted,
    Place,
    Told,
    ends_of,
    extract,
    gaps,
    join,
    last,
    pick,
    pieces,
)
from crewlog.client.outcomes import completed, unanswered
from crewlog.client.rebuild import heads_after
from crewlog.ids import ContentHash, LogName, RunId
from crewlog.state import calls
from crewlog.state.drafts import draft_text
from crewlog.state.fold import fold_journal
from crewlog.state.journal import Batch, entry_from_json
from crewlog.state.logs import batch_links
from crewlog.state.model import CrewState
from crewlog.state.references import find_references
from crewlog.store import InMemoryStore

HISTORIES = Path(__file__).parents[1] / "replay" / "histories"
ENDED = ("join_quorum", "interrupt_answered", "denied_tool", "parallel_tools", "loop", "stop")


def events(name: str) -> list[HistoryEvent]:
    data = json.loads((HISTORIES / f"{name}.json").read_text())
    return list(WorkflowHistory.from_json(data.pop("workflow_id"), data).events)


def told(found: list[HistoryEvent]) -> list[Told]:
    return [Told(p.place, json.loads(p.payload.data)) for p in pick(found)]


def extracted(name: str) -> Extracted:
    return extract(told(events(name)))


def run_of(found: Extracted) -> RunId:
    return RunId(found.batches[0].entries[0]["run"])


@pytest.mark.parametrize("name", ENDED)
async def test_a_history_tells_everything(name: str) -> None:
    found = extracted(name)
    assert found.problems == []
    [batch] = found.batches
    assert batch.first == 1
    run = run_of(found)
    [snapshot] = found.snapshots
    assert snapshot.position == found.end == len(batch.entries)
    # The entries are the whole journal: they give the state that the run itself stored.
    state = fold_journal(run, [entry_from_json(data) for data in batch.entries])
    assert state == CrewState.from_json(snapshot.state)
    assert list(found.definitions) == [state.definition]
    # And the bodies are all that they name.
    store = InMemoryStore()
    await store.put_bodies(run, found.bodies)
    for piece in pieces(run, batch, 3):
        await store.append(run, piece)
    for log in state.messages.values():
        links = await store.read_log(log.head)
        assert len(links) == log.length
        await store.get_bodies([link.body for link in links])


def test_a_history_has_the_text_with_which_a_capped_turn_ends() -> None:
    call = {"name": "put", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
    body = {"type": "ai", "content": "So far.", "id": "a#1/1", "name": "a", "tool_calls": [call]}
    draft = draft_text(body)
    outcome = calls.ToolCallsRequested(calls=calls.requested_calls(body), draft=hash_json(draft))
    reply = calls.CallModelResult(body=body, hash=hash_json(body), outcome=outcome)
    found = extract([Told(Place(calls.CALL_MODEL, "result", 9), reply.to_json())])
    assert found.problems == []
    assert found.bodies == {hash_json(body): body, hash_json(draft): draft}


def test_executions_join() -> None:
    parts = [extracted(name) for name in chain()]
    assert not any(part.problems for part in parts)
    for before, after in itertools.pairwise(parts):
        assert after.carried is not None
        assert after.carried.position == before.end == after.batches[0].first - 1
        # What one execution stored at its end is what the next one was handed.
        assert before.snapshots[-1] == after.snapshots[0]
    assert not any(part.definitions for part in parts[1:])
    [whole] = join(batch for part in parts for batch in part.batches)
    run = run_of(parts[0])
    state = fold_journal(run, [entry_from_json(data) for data in whole.entries])
    assert state == CrewState.from_json(parts[-1].snapshots[-1].state)
    assert gaps([whole], last(whole)) == []
    assert gaps(parts[1].batches, last(whole)) == [
        (1, parts[0].end),
        (parts[1].end + 1, last(whole)),
    ]
    # Heads from the roots, or from what was carried; not where what moved them is gone.
    heads = {log: head.head for log, head in state.messages.items()}
    assert heads_after(run, [whole], None) == heads
    assert heads_after(run, parts[-1].batches, parts[-1].carried) == heads
    assert heads_after(run, [whole], parts[-1].carried) == heads
    assert heads_after(run, parts[-1].batches, None) is None
    assert heads_after(run, parts[-1].batches, parts[-2].carried) is None


def test_the_ends_of_executions() -> None:
    firsts = [ends_of(found[0], found[-1]) for found in map(events, chain())]
    assert firsts[0].before == ""
    assert firsts[-1].after == ""
    assert firsts[0].after
    assert firsts[1].before
    assert {each.ended for each in firsts} == {"itself"}
    whole = events(chain()[0])
    assert ends_of(whole[0], whole[-2]).ended == ""
    gone = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED)
    assert ends_of(whole[0], gone).ended == "outside"


def chain() -> list[str]:
    """The names of the recorded executions of one run: their number differs by how it was cut."""
    count = len([*HISTORIES.glob("continue_as_new_*.json")])
    assert count >= 3
    return [f"continue_as_new_{n}" for n in range(1, count + 1)]


def test_an_input_counts_although_its_activity_never_ended() -> None:
    whole = events("parallel_tools")
    number = next(
        at
        for at, event in enumerate(whole)
        if event.activity_task_scheduled_event_attributes.activity_type.name == calls.CALL_TOOL
    )
    found = extract(told(whole[: number + 1]))
    assert found.batches[0].first == 1
    assert [call.tool for call in found.calls.values()]
    assert found.attempts == {}
    assert len(extract(told(whole)).attempts) > 1
    assert found.snapshots == []


@pytest.mark.parametrize("name", ENDED)
def test_an_activity_is_unanswered_until_its_outcome(name: str) -> None:
    found = events(name)
    seen: set[str] = set()
    for count, event in enumerate(found[:-1], start=1):
        open_ = unanswered(found[:count])
        if event.HasField("activity_task_scheduled_event_attributes"):
            seen.add(event.activity_task_scheduled_event_attributes.activity_id)
            assert open_ == (open_ & seen)
            assert event.activity_task_scheduled_event_attributes.activity_id in open_
    assert seen
    assert unanswered(found) == set()


def test_an_activity_is_completed_from_its_result_on() -> None:
    found = events("parallel_tools")
    done = completed(found)
    assert "" not in done
    results = {item.place.activity for item in told(found) if item.place.way == "result"} - {""}
    assert results
    assert results <= done
    scheduled = [e for e in found if e.HasField("activity_task_scheduled_event_attributes")]
    assert completed(scheduled) == set()
    assert done <= {e.activity_task_scheduled_event_attributes.activity_id for e in scheduled}


def test_an_execution_that_ended_awaits_nothing() -> None:
    found = events("loop")
    [first, *_] = [
        number
        for number, event in enumerate(found)
        if event.HasField("activity_task_started_event_attributes")
    ]
    assert unanswered(found[:first])
    assert unanswered([*found[:first], found[-1]]) == set()


def test_what_is_not_understood_is_named_and_the_rest_is_kept() -> None:
    body = {"type": "ai", "content": "x"}
    good = calls.CallModelResult(body=body, hash=hash_json(body)).to_json()
    bad = {**good, "hash": "another"}
    found = extract(
        [
            Told(Place(calls.CALL_MODEL, "result", 7), {**good, "of_a_newer_build": 1}),
            Told(Place(calls.CALL_MODEL, "result", 8), bad),
            Told(Place(calls.CALL_TOOL, "input", 9), {"nothing": 1}),
            Told(Place("start", "input", 1), {"carry": {"schema_version": 99}}),
            Told(Place("start", "input", 1), None),
        ]
    )
    assert found.bodies == {hash_json(body): body}
    assert len(found.problems) == 4
    assert "event 8 (call_model result) has a body of another hash" in found.problems[0]
    assert "event 9 (call_tool input) is not understood" in found.problems[1]
    assert "schema version 99" in found.problems[2]


def test_large_outputs_are_bodies() -> None:
    value = {"text": "x" * 500}
    body = {"type": "tool", "content": "done"}
    outputs = (
        calls.OutputValue(key="large", body=hash_json(value), content=value),
        calls.OutputValue(key="small", value=1.0),
    )
    result = calls.CallToolResult(
        body=body, hash=hash_json(body), outcome=calls.ToolReturned(outputs=outputs)
    )
    found = extract([Told(Place(calls.CALL_TOOL, "result", 1), result.to_json())])
    assert found.bodies == {hash_json(body): body, hash_json(value): value}


def entries(first: int, count: int) -> tuple[dict[str, Any], ...]:
    """Messages in turns to two logs."""
    return tuple(
        {
            "kind": "MessageAdded",
            "ref": {"body": f"b{at}", "logs": ["public" if at % 2 else "private:a"]},
        }
        for at in range(first, first + count)
    )


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_batches_join_and_are_cut_with_the_right_heads(size: int) -> None:
    run = RunId("r")
    whole = Batch(first=1, entries=entries(1, 20))
    links = list(batch_links(run, whole))

    def heads(before: int) -> dict[LogName, ContentHash]:
        return {link.log: link.head for link in links if link.position < before}

    def part(first: int, end: int) -> Batch:
        own = entries(first, end - first + 1)
        logs = {log for entry in own for log in entry["ref"]["logs"]}
        before = {log: head for log, head in heads(first).items() if log in logs}
        return Batch(first=first, heads=before, entries=own)

    batches = [part(9, 9), part(5, 5), part(6, 8), part(5, 8), part(7, 12), part(16, 20)]
    joined = join(reversed(batches))
    assert [(batch.first, last(batch)) for batch in joined] == [(5, 12), (16, 20)]
    found = [
        link
        for batch in joined
        for piece in pieces(run, batch, size)
        for link in batch_links(run, piece)
    ]
    assert found == [link for link in links if 5 <= link.position <= 12 or link.position >= 16]
    assert gaps(joined, 22) == [(1, 4), (13, 15), (21, 22)]


@pytest.mark.parametrize("name", sorted(path.stem for path in HISTORIES.glob("*.json")))
def test_entries_refer_to_all_content_that_they_name(name: str) -> None:
    found = extracted(name)
    stored = found.bodies.keys() | found.definitions.keys()
    for entry in itertools.chain.from_iterable(batch.entries for batch in found.batches):
        text = json.dumps(entry)
        contained = {hash_ for hash_ in stored if f'"{hash_}"' in text}
        assert contained <= find_references([entry]), entry["kind"]
