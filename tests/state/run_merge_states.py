"""States of two runs in a merge: `a` requests it, `b` is the other one."""

from __future__ import annotations

from typing import Any

from crewlog.ids import CommandId, ContentHash, RunId, merge_id
from crewlog.state import journal as j
from crewlog.state.fold import fold, fold_journal
from crewlog.state.model import CrewState, MergeOutcome, PendingMerge
from crewlog.state.run_merge import protocol
from crewlog.state.run_merge.protocol import (
    Refusal,
    RunSize,
)

A, B, C = RunId("a"), RunId("b"), RunId("c")
M = merge_id(A, CommandId("x"))
"""The merge that `a` requests of `b`."""
NOW = 1_000_000
ONE, TWO = RunSize(1, has_flow=False), RunSize(2, has_flow=False)
CHANGE = j.ChangeAccepted(graph_version=2, definition=ContentHash("e"))


def new_run(run: str, *entries: j.JournalEntry) -> CrewState:
    start = j.RunStarted(at=5, run=RunId(run), crew="t", definition=ContentHash("d"))
    return fold_journal(RunId(run), [start, *entries])


def request_merge(
    run: str = "a",
    other: str = "b",
    *,
    survives: bool = True,
    size: RunSize = ONE,
    own: CrewState | None = None,
    **more: Any,
) -> CrewState:
    """A run that has requested a merge."""
    own = own or new_run(run)
    entry = protocol.merge_request(
        own,
        RunId(other),
        CommandId("x"),
        survives=survives,
        at=NOW,
        operation={"op": "t"},
        what="connect",
        size=size,
        **more,
    )
    return fold(own, entry)


def answer(
    own: CrewState,
    other: CrewState | None,
    merge: str = M,
    *,
    at: int = NOW,
    size: RunSize = ONE,
) -> Any:
    return protocol.answer_request(own, other, merge, at, size)


def accept(own: CrewState, other: CrewState, merge: str = M, size: RunSize = ONE) -> CrewState:
    """A run that has accepted what the other one asks."""
    entries = answer(own, other, merge, size=size)
    assert not isinstance(entries, Refusal), entries
    assert entries
    for entry in entries:
        own = fold(own, entry.model_copy(update={"at": NOW}))
    return own


def advance(own: CrewState, at: int = NOW, *, has_drained: bool = True) -> CrewState:
    entry = protocol.next_entry(own, at, has_drained=has_drained)
    assert entry is not None
    return fold(own, entry.model_copy(update={"at": at}))


def freeze() -> tuple[CrewState, CrewState]:
    """`a`, which requests the merge and coordinates it, and `b`, which is frozen."""
    a = request_merge()
    return a, advance(accept(new_run("b"), a))


def freeze_requester() -> tuple[CrewState, CrewState]:
    """`a`, which requests the merge and is frozen, and `b`, which coordinates it."""
    a = request_merge(survives=False)
    b = accept(new_run("b"), a, size=TWO)
    return advance(accept(a, b)), b


def merge_runs(coordinator: CrewState, frozen: CrewState, merge: str = M) -> CrewState:
    """The coordinator after the merge."""
    theirs = frozen.pending_merge
    assert theirs is not None
    position = coordinator.position + 10
    outcome = MergeOutcome(
        outcome="merged",
        other=frozen.run,
        position=position,
        merged_position=theirs.frozen_position,
        merged_started_at=frozen.started_at,
    )
    changes = protocol.outcome_changes(coordinator, merge, outcome)
    return coordinator.model_copy(update={**changes, "position": position})


def pending(state: CrewState) -> PendingMerge:
    assert state.pending_merge is not None
    return state.pending_merge


def with_pending(state: CrewState, **changes: Any) -> CrewState:
    merge = pending(state).model_copy(update=changes)
    return state.model_copy(update={"pending_merge": merge})


def status(state: CrewState) -> str:
    return state.pending_merge.status if state.pending_merge is not None else ""


def states() -> dict[str, CrewState]:
    a, b = freeze()
    return {
        "requested": request_merge(survives=False),
        "coordinating": a,
        "draining": accept(new_run("b"), a),
        "frozen": b,
    }


def fail(state: CrewState, reason: str = "no room", *, may_retry: bool = False) -> CrewState:
    entry = protocol.merge_failed(state, Refusal(reason, may_retry))
    assert entry is not None
    return fold(state, entry)
