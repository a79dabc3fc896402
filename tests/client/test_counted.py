"""Quotas over runs that a store has lost: what a run's calls used of them is counted again."""

from __future__ import annotations

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from crewlog.canonical_json import hash_json
from crewlog.client.counted import count
from crewlog.client.extract import Ends, Extracted, Place, Told, extract
from crewlog.client.histories import Chain, Execution
from crewlog.client.outcomes import uncertain
from crewlog.ids import AgentName, ContentHash, CrewName, RunId, StepId, ToolName
from crewlog.state import calls
from crewlog.store import InMemoryStore
from crewlog.store.protocol import COUNTED_CALL_RETENTION, QuotaPeriod

RUN, DAY = RunId("r"), 86_400_000
NOW = 20 * DAY
QUOTA = calls.CallQuota(key="k", crew=CrewName("c"), quota="1 per day")
TODAY, YESTERDAY = ("c/k", "1970-01-21"), ("c/k", "1970-01-20")


def task(call: int, *quotas: calls.CallQuota, started: int = 0) -> calls.CallTool:
    return calls.CallTool(
        run_started_at=started,
        step=StepId("a#1"),
        call=call,
        agent=AgentName("a"),
        definition=ContentHash("d"),
        tool=ToolName("t"),
        id=f"c{call}",
        message=ContentHash("m"),
        quotas=quotas,
    )


def result(call: int, at: int, counted: dict[str, str], started: int = 0) -> Told:
    """A result of a call, as a history has it; a local one's input is in none."""
    body = {"type": "tool", "content": "done", "id": f"a#1/{call}"}
    made = calls.CallToolResult(
        body=body, hash=hash_json(body), at=at, quota_periods=counted, run_started_at=started
    )
    return Told(Place(calls.CALL_TOOL, "result", call), made.to_json())


async def counts(execution: Execution, times: int = 2) -> tuple[int, int]:
    """What the quota has of today and of yesterday."""
    store = InMemoryStore()
    for _ in range(times):
        await count(store, RUN, Chain([execution]), NOW)
    found = await store.counted_calls([TODAY, YESTERDAY])
    return found[TODAY], found[YESTERDAY]


async def test_results_say_where_their_calls_count() -> None:
    told = [
        result(1, NOW - DAY, dict([YESTERDAY])),
        result(2, NOW, dict([TODAY])),
        result(3, NOW, dict([TODAY])),  # more than the quota allows: it was made
        result(4, NOW, {}),  # refused
        result(
            5, NOW - COUNTED_CALL_RETENTION, {"c/k": "1970-01-21"}
        ),  # so long ago that it is forgotten
    ]
    assert await counts(Execution("e", Ends("", ""), extract(told), frozenset())) == (2, 1)


async def test_a_call_counts_of_which_nobody_knows_whether_it_was_made() -> None:
    unknown = QUOTA.model_copy(update={"zone": "Nowhere/At_All"})
    found = Extracted(
        calls={
            "open": task(1, QUOTA),
            "lost": task(2, QUOTA),
            "never": task(3, QUOTA),
            "answered": task(4, QUOTA),
            "free": task(5),
            "elsewhere": task(6, unknown),
        },
        attempts={"answered": 1},
    )
    execution = Execution(
        "e",
        Ends("", ""),
        found,
        frozenset({"open", "free", "elsewhere"}),
        uncertain={"lost": NOW - DAY, "answered": NOW},
    )
    assert await counts(execution) == (1, 1)


async def test_a_call_is_counted_once_as_its_run_and_as_no_other_of_that_id() -> None:
    store = InMemoryStore()
    for each, known in (("r/a#1/1@7", 1), ("r/a#1/2@7", 2), ("r/a#1/3@7", 3)):
        await store.count_call(each, [QuotaPeriod(quota="c/k", period=TODAY[1], limit=known)], NOW)
    found = extract([result(n, NOW, dict([TODAY]), at) for n, at in ((1, 7), (1, 8), (3, 7))])
    found.calls = {"e": task(2, QUOTA, started=7), "f": task(2, QUOTA, started=8)}
    await count(store, RUN, Chain([Execution("e", Ends("", ""), found, frozenset("ef"))]), NOW)
    assert await store.counted_calls([TODAY]) == {TODAY: 3 + 2}


def events(*told: tuple[str, int, str]) -> list[HistoryEvent]:
    """Events of activities, each with the number of the event that scheduled it."""
    found: list[HistoryEvent] = []
    for number, (kind, scheduled, more) in enumerate(told, 1):
        name = f"ACTIVITY_TASK_{kind}" if scheduled or kind == "SCHEDULED" else kind
        event = HistoryEvent(event_id=number, event_type=EventType.Value(f"EVENT_TYPE_{name}"))
        event.event_time.FromMilliseconds(number)
        if name != kind:
            about = getattr(event, f"{name.lower()}_event_attributes")
            if scheduled:
                about.scheduled_event_id = scheduled
            if kind == "SCHEDULED":
                about.activity_id = more
            elif kind == "STARTED":
                about.attempt = int(more)
            elif kind == "FAILED":
                about.failure.application_failure_info.type = more
        found.append(event)
    return found


def test_what_may_have_begun_is_uncertain() -> None:
    failed = [("SCHEDULED", 0, "a"), ("STARTED", 1, "1"), ("FAILED", 1, "ToolFailed")]
    assert uncertain(events(*failed)) == {"a": 3}
    assert uncertain(events(*failed[:2])) == {}, "it is open"
    assert uncertain(events(*failed[:2], ("COMPLETED", 1, ""))) == {}
    assert uncertain(events(failed[0], ("TIMED_OUT", 1, ""))) == {}, "it never began"
    assert uncertain(events(*failed[:2], ("TIMED_OUT", 1, ""))) == {"a": 3}
    assert uncertain(events(*failed[:2], ("FAILED", 1, "PermissionsChanged"))) == {}
    again = [failed[0], ("STARTED", 1, "2"), ("FAILED", 1, "PermissionsChanged")]
    assert uncertain(events(*again)) == {"a": 3}, "nobody knows of its first try"
    assert uncertain(events(failed[0], ("WORKFLOW_EXECUTION_TERMINATED", 0, ""))) == {"a": 2}
