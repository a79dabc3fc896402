"""What the store has of another run, for one that is to be one graph with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from crewlog.activities.clock import Clock
from crewlog.errors import UsageError
from crewlog.ids import RunId
from crewlog.state import journal as j
from crewlog.state.calls import ReadOtherRun, ReadOtherRunResult
from crewlog.state.joining import recall, state_for_merge
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CrewState
from crewlog.store.checkpoints import load_last_state
from crewlog.store.claiming import Over
from crewlog.store.protocol import Store


@dataclass(frozen=True)
class Ending:
    """What the server says of a workflow that does not run."""

    executions: tuple[str, ...] = ()
    """Its last execution, by Temporal's run id; none where there never was one."""


Ended = Callable[[RunId], Awaitable[Ending | None]]
"""Asks the server whether a run's workflow has ended; none while it has not."""


PAGE = 1000
"""Entries of a journal that are read at once."""


async def find_no_end(run: RunId) -> Ending | None:
    """Takes every run for one that goes on: where there is no server."""
    del run
    return None


def ended_executions(ended: Ended) -> Over:
    """What the server says of a run's last executions, for those who look where creatures live."""

    async def over(run: RunId) -> tuple[str, ...] | None:
        ending = await ended(run)
        return None if ending is None else ending.executions

    return over


async def look_at_run(task: ReadOtherRun, store: Store, ended: Ended) -> ReadOtherRunResult:
    """The last stored state of another run.

    One that was ended from outside has no say in it: what it still stores is refused from here on.

    Args:
        task: Whom to look at.
        store: Where.
        ended: Tells whether it has ended, as the server knows.
    """
    clock = Clock()
    state = await _last(store, task.other)
    gone = False
    if (state is None or not state.closed) and not task.sure:
        ending = await ended(task.other)
        if ending is not None:
            await store.shut(task.other, ending.executions)
            state = await _last(store, task.other)
            gone = state is None or not state.closed
    if state is not None:
        state = await _with_merge_outcome(store, state, task)
    return ReadOtherRunResult(
        op=task.op,
        state=state_for_merge(state, task.op).to_json() if state is not None else None,
        gone=gone,
        recalled=task.recall,
        at=clock.now(),
    )


async def _last(store: Store, run: RunId) -> CrewState | None:
    try:
        return await load_last_state(store, run)
    except UsageError:
        return None  # nothing of it is stored yet, or there is no such run


async def _with_merge_outcome(store: Store, state: CrewState, task: ReadOtherRun) -> CrewState:
    """A run's state that tells of the merge as its journal does, where it took the other one in.

    What it calls otherwise since is in the journal only. Where that is, the state tells; where it
    may have forgotten, all of the journal is searched.
    """
    word = state.merges.get(task.op)
    at = word.position if word is not None and word.outcome == "merged" else 0
    if not at and not task.recall:
        return state
    after, limit = (at - 1, 1) if at else (0, PAGE)
    while rows := await store.read_journal(task.other, after, limit):
        for row in rows:
            entry = entry_from_json(row.entry)
            if isinstance(entry, j.RunMerged) and entry.op == task.op:
                return recall(state, task.op, row.position, entry.renamed)
        if at:
            break
        after = rows[-1].position
    return state
