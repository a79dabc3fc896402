"""What the store has of another run, for one that is to be one graph with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from crewlog.activities.clock import Clock
from crewlog.errors import UsageError
from crewlog.ids import RunId
from crewlog.state import journal as j
from crewlog.state.calls import LookAtRun, LookedAt
from crewlog.state.joining import recall
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CrewState
from crewlog.store.checkpoints import last_state
from crewlog.store.protocol import Store


@dataclass(frozen=True)
class Ending:
    """What the server says of a workflow that does not run."""

    executions: tuple[str, ...] = ()
    """Its last execution, by Temporal's run id; none where there never was one."""


Ended = Callable[[RunId], Awaitable[Ending | None]]
"""Asks the server whether a run's workflow has ended; none while it has not."""


async def never_ended(run: RunId) -> Ending | None:
    """Takes every run for one that goes on: where there is no server."""
    del run
    return None


async def look_at_run(task: LookAtRun, store: Store, ended: Ended) -> LookedAt:
    """The last stored state of another run.

    One that was ended from outside has no say in it: what it still stores is refused from here on.

    Args:
        task: Whom to look at.
        store: Where.
        ended: Tells whether it has ended, as the server knows.
    """
    state = await _last(store, task.other)
    gone = False
    if (state is None or not state.closed) and not task.sure:
        ending = await ended(task.other)
        if ending is not None:
            await store.shut(task.other, ending.executions)
            state = await _last(store, task.other)
            gone = state is None or not state.closed
    if task.recall and state is not None:
        state = recall(state, task.op, await _taken_at(store, task.other, task.op))
    return LookedAt(
        op=task.op,
        state=state.to_json() if state is not None else None,
        gone=gone,
        recalled=task.recall,
        at=Clock().now(),
    )


async def _last(store: Store, run: RunId) -> CrewState | None:
    try:
        return await last_state(store, run)
    except UsageError:
        return None  # nothing of it is stored yet, or there is no such run


async def _taken_at(store: Store, run: RunId, op: str) -> int | None:
    """Where a run's journal says that it took another one in; none: nowhere."""
    after = 0
    while rows := await store.read_journal(run, after):
        for row in rows:
            entry = entry_from_json(row.entry)
            if isinstance(entry, j.GraphMerged) and entry.op == op:
                return row.position
        after = rows[-1].position
    return None
