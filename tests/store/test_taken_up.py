"""From where a run goes on that has ended: whatever was recorded since, and however much."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from crewlog.canonical_json import hash_json
from crewlog.errors import UsageError
from crewlog.ids import ContentHash, CrewName, FlagName, InterruptId, NodeName, RunId, StepId
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.model import Interrupt
from crewlog.store import InMemoryStore
from crewlog.store.checkpoints import find_reopen_point, load_last_state, load_reopen_state

MANY = 700
RUN = RunId("long")
STEP = StepId("gate#1")
BEGIN: list[j.JournalEntry] = [
    j.RunStarted(run=RUN, crew=CrewName("c"), definition=ContentHash("d"), at=1),
    j.NodesReached(
        at=2, to=(j.ReachedNode(node=NodeName("gate")), j.ReachedNode(node=NodeName("slow")))
    ),
    j.StepStarted(at=3, step=STEP),
    j.InterruptRaised(
        at=4,
        interrupt=Interrupt(id=InterruptId("i1"), kind="ask", question="Well?", step=STEP),
    ),
]
ANSWER: list[j.JournalEntry] = [
    j.InterruptAnswered(at=5, interrupt=InterruptId("i1"), decision="stop"),
    j.StepCompleted(at=5, step=STEP, transaction=1),
    j.StopRequested(at=5, reason="answered 'stop'", transaction=1),
]
END: list[j.JournalEntry] = [
    j.StepCancelled(at=9, step=StepId("slow#1")),
    j.RunStopped(at=9, transaction=1),
]
"""Like `ANSWER`, a transaction: `stored` puts its position in place of the 1."""


def refused(count: int = MANY) -> list[j.JournalEntry]:
    """Commands that came too late, each with a record of its own."""
    return [j.CommandRejected(at=10, name="message", reason="ended") for _ in range(count)]


def said(count: int = MANY) -> list[j.JournalEntry]:
    """What came in while the calls under way were waited for."""
    return [j.RunOutputSet(at=6, flag=FlagName("n"), value=n) for n in range(count)]


async def stored(entries: Iterable[j.JournalEntry], base: int = 0) -> tuple[InMemoryStore, int]:
    store = InMemoryStore()
    rows: list[dict[str, Json]] = []
    first = 0
    for position, entry in enumerate(entries, base + 1):
        first = first if entry.transaction else position
        rows.append(j.entry_to_json(entry) | ({"transaction": first} if entry.transaction else {}))
    await store.append(RUN, j.Batch(first=base + 1, entries=tuple(rows)))
    return store, base + len(rows)


@pytest.mark.parametrize(
    ("entries", "goes_on_at"),
    [
        ([*BEGIN, *ANSWER, *END], 4),
        ([*BEGIN, *ANSWER, *END, *refused()], 4),
        ([*BEGIN, *ANSWER, *said(), *END], 4),
        ([*BEGIN, *said(), *ANSWER, *said(), *END, *refused()], 4 + MANY),
        ([*BEGIN, *said(), j.RunFailed(at=8, error="no"), *refused()], 4 + MANY),
        ([*BEGIN, *said(), *refused()], 4 + MANY),
    ],
    ids=["near", "refused", "said", "between", "failed", "from outside"],
)
async def test_it_goes_on_right_before_what_ended_it(
    entries: list[j.JournalEntry], goes_on_at: int
) -> None:
    store, end = await stored(entries)
    found = await find_reopen_point(store, RUN, end)
    assert (found.position, found.decision) == (goes_on_at, None)
    _, then = await load_reopen_state(store, RUN, await load_last_state(store, RUN))
    assert (then.status, list(then.interrupts), list(then.frontier)) == (
        "running",
        ["i1"],
        ["gate#1", "slow#1"],
    )


async def test_what_is_completed_is_done_however_many_came_too_late() -> None:
    store, end = await stored([*BEGIN, j.RunCompleted(at=9), *refused()])
    with pytest.raises(UsageError, match="is completed: it has no work left"):
        await find_reopen_point(store, RUN, end)


async def test_a_frozen_run_is_not_reopened_before_the_outcome_is_known() -> None:
    joins = j.MergeAccepted(
        at=5,
        merge="o",
        other=RunId("x"),
        requester=RunId("x"),
        status="draining",
        deadline=9,
        other_position=3,
    )
    offered = j.MergeFrozen(at=6, merge="o", other=RunId("x"))
    for end in ([], [j.StopRequested(at=7), *END]):
        store, _ = await stored([*BEGIN, joins, offered, *end])
        with pytest.raises(UsageError, match="is frozen for a merge with 'x'") as caught:
            await load_reopen_state(store, RUN, await load_last_state(store, RUN))
        assert "crewlog show x" in caught.value.remedy
    merged = j.RunEndedByMerge(at=8, merge="o", run=RunId("x"), position=7)
    store, _ = await stored([*BEGIN, joins, offered, merged, *refused()])
    with pytest.raises(UsageError, match="is part of the run 'x' now"):
        await load_reopen_state(store, RUN, await load_last_state(store, RUN))


async def test_a_run_without_a_journal_is_not_taken_up() -> None:
    with pytest.raises(UsageError, match="has no journal") as caught:
        await load_last_state(InMemoryStore(), RUN)
    assert "crewlog rebuild long" in caught.value.remedy


async def test_a_prompt_that_was_never_approved_has_nothing_to_go_on_with() -> None:
    prompt = j.PromptReceived(at=1, run=RUN, prompt=hash_json("p"), inline="p")
    store, _ = await stored([prompt, j.StopRequested(at=2, command="s"), j.RunStopped(at=3)])
    with pytest.raises(UsageError, match="ended before it had a crew") as caught:
        await load_reopen_state(store, RUN, await load_last_state(store, RUN))
    assert "crewlog run PROMPT" in caught.value.remedy
