"""Checkpoints in the journal of a run: their states, the point to reopen it from, and pruning.

Pruning removes only rows that serve the list of checkpoints and speed: checkpoints and snapshots.
Journal, logs and bodies stay, so that every state can be folded, forks keep what they share with
the run, and a rebuild makes the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from crewlog.definition.model import CheckpointPolicy
from crewlog.errors import StoreIncomplete, UsageError
from crewlog.ids import NodeName, RunId
from crewlog.run_status import ENDED
from crewlog.state.checkpoints import checkpoint_kind, nearest, no_checkpoint_message
from crewlog.state.fold import fold_at_positions
from crewlog.state.journal import CommandRejected, JournalEntry, RunForked, entry_from_json
from crewlog.state.model import CrewState
from crewlog.state.restore import (
    ReopenPoint,
    checkpoint_length,
    ends_run,
    reopen_point,
)
from crewlog.store.claims import EndedExecutions
from crewlog.store.journal_reader import load_state
from crewlog.store.missing_rows import missing_rows_error
from crewlog.store.protocol import CheckpointRow, JournalRow, Store
from crewlog.store.remote_agents import check_claimable

_PAGE = 300
"""The number of entries that one read returns."""


async def checkpoint_state_position(store: Store, run: RunId, position: int) -> int:
    """Returns the position of a checkpoint's state: that of the last entry that belongs to it.

    Raises:
        UsageError: the position is not a checkpoint; the remedy names the nearest ones.
    """
    rows = await _read_transaction_rest(store, run, position)
    entries = [entry_from_json(row.entry) for row in rows]
    count = checkpoint_length(entries)
    if count is None:
        raise await _no_checkpoint_error(store, run, position, is_end=_ends_run(entries))
    return rows[count - 1].position


async def _read_transaction_rest(store: Store, run: RunId, position: int) -> list[JournalRow]:
    """Returns the entry at a position and the later ones of its transaction; empty: no entry."""
    transaction: list[JournalRow] = []
    while rows := await store.read_journal(run, position - 1, _PAGE):
        # The journal of a fork begins after its base, and the position may be before that.
        if not transaction and rows[0].position != position:
            return []
        for row in rows:
            if transaction and not row.entry.get("transaction"):
                return transaction
            transaction.append(row)
        position = transaction[-1].position + 1
    return transaction


def _ends_run(entries: list[JournalEntry]) -> bool:
    """Whether the run ended with the first entry, so that nothing can continue from it."""
    return (
        bool(entries)
        and checkpoint_kind(entries[0].kind, None, " ") is not None
        and ends_run(entries)
    )


async def _no_checkpoint_error(
    store: Store, run: RunId, position: int, *, is_end: bool
) -> UsageError:
    """Returns the error for a position that is not a checkpoint, with the nearest checkpoints."""
    checkpoints = [position async for position in _checkpoint_positions(store, run)]
    remedy = nearest(run, position, checkpoints)
    if is_end:
        return UsageError(
            f"the run {run!r} ended with position {position}: nothing can continue from there",
            remedy=remedy,
        )
    return UsageError(no_checkpoint_message(run, position), remedy=remedy)


async def _checkpoint_positions(store: Store, run: RunId) -> AsyncIterator[int]:
    """Yields the positions of all checkpoints: the start of the run, and the listed ones."""
    first = 0
    for row in await store.read_journal(run, 0, 20):
        if not first and checkpoint_length([entry_from_json(row.entry)]) is not None:
            first = row.position
            yield first
    after = first
    while checkpoints := await store.list_checkpoints(run, after):
        for checkpoint in checkpoints:
            yield checkpoint.position
        after = checkpoints[-1].position


async def find_reopen_point(
    store: Store, run: RunId, end: int, *, rested: bool = False
) -> ReopenPoint:
    """Returns the point from which an ended run continues when it is reopened.

    Args:
        store: The store.
        run: The run.
        end: The last position of its journal.
        rested: Whether it was idle when it ended.

    Raises:
        UsageError: the run is completed.
        StoreIncomplete: the store lacks the end of its journal.
    """
    length = _PAGE
    while True:
        first = max(0, end - length)
        rows = await store.read_journal(run, first, end - first)
        if not rows or rows[-1].position != end:
            raise missing_rows_error(run, "its journal", position=end)
        tail = [(row.position, entry_from_json(row.entry)) for row in rows]
        # The journal of a fork begins after its base, so nothing precedes `RunForked`.
        if isinstance(tail[0][1], RunForked) or not first or await _has_ending(store, run, tail):
            return reopen_point(run, tail, rested=rested)
        length *= 4


async def _has_ending(store: Store, run: RunId, tail: Sequence[tuple[int, JournalEntry]]) -> bool:
    """Whether the tail of a journal has all entries that ended the run.

    It has them if the run was open before the first complete transaction of the tail. Commands that
    were rejected after the end do not count.
    """
    first = next((i for i, (_, entry) in enumerate(tail) if i and not entry.transaction), None)
    if first is None or all(isinstance(entry, CommandRejected) for _, entry in tail[first:]):
        return False
    state = await load_state(store, run, tail[first - 1][0])
    return state.status not in _ENDING


_ENDING = {*ENDED, "stopping"}


async def load_reopen_state(
    store: Store, run: RunId, end: CrewState, ended_executions: EndedExecutions | None = None
) -> tuple[ReopenPoint, CrewState]:
    """Returns the point from which an ended run continues, and its state there.

    Args:
        store: The store.
        run: The run.
        end: The last state of the run in the store.
        ended_executions: See `check_claimable`.

    Raises:
        UsageError: the run is completed, or has no crew, or is frozen for a run merge whose outcome
            it does not know; or the run that its agents came from has claimed them.
        StoreIncomplete: the store lacks rows of the run.
    """
    if end.pending_merge is not None and end.pending_merge.status == "frozen":
        other = end.pending_merge.other
        raise UsageError(
            f"the run {run!r} is frozen for a merge with {other!r} and does not know the outcome, "
            "which the journal of that run has",
            remedy=f"See that run with `crewlog show {other}`, or continue from a checkpoint of "
            f"this one with `crewlog fork {run}@POSITION`.",
        )
    point = await find_reopen_point(store, run, end.position, rested=end.idle is not None)
    if not point.position:
        raise _no_crew_error(run)
    state = fold_at_positions(await load_state(store, run, point.position), point.later_entries)
    if not state.definition:
        raise _no_crew_error(run)
    await check_claimable(store, state, end, ended_executions)
    return point, state


def _no_crew_error(run: RunId) -> UsageError:
    return UsageError(
        f"the run {run!r} ended before it had a crew: the crew of its prompt was not approved",
        remedy="Start a new run with the prompt: `crewlog run PROMPT`.",
        place=f"run {run!r}",
    )


async def load_last_state(store: Store, run: RunId) -> CrewState:
    """Returns the last stored state of a run that is to be reopened.

    Raises:
        UsageError: the store does not have the journal of the run.
        StoreIncomplete: the store lacks a part of it.
    """
    try:
        return await load_state(store, run)
    except StoreIncomplete:
        if await store.read_journal(run, 0, 1):
            raise
    raise UsageError(
        f"the run {run!r} has no journal: it ended before it stored anything, or the store was "
        "lost",
        remedy=f"Restore its journal from its history with `crewlog rebuild {run}`, and resume the "
        "run again; or start a run with another id.",
        place=f"run {run!r}",
    )


_ALL = 2**31


class PrunablePositions(NamedTuple):
    """The positions of checkpoints and snapshots that a policy removes."""

    checkpoints: tuple[int, ...] = ()
    snapshots: tuple[int, ...] = ()


def find_prunable(
    policy: CheckpointPolicy, checkpoints: Sequence[CheckpointRow], snapshots: Iterable[int]
) -> PrunablePositions:
    """Finds the checkpoints and snapshots that a policy removes.

    It keeps the newest snapshot, from which the last state is loaded, and the snapshot before each
    checkpoint that it keeps.

    Args:
        policy: The policy.
        checkpoints: The listed checkpoints, by position.
        snapshots: The positions of snapshots, in order.
    """
    if policy.keep_last is None and policy.keep_per_phase is None:
        return PrunablePositions()
    kept = _kept_checkpoints(policy, checkpoints)
    positions = list(snapshots)
    needed = {max((at for at in positions if at <= each), default=0) for each in kept}
    needed |= set(positions[-1:])
    return PrunablePositions(
        tuple(row.position for row in checkpoints if row.position not in kept),
        tuple(at for at in positions if at not in needed),
    )


def _kept_checkpoints(policy: CheckpointPolicy, checkpoints: Sequence[CheckpointRow]) -> set[int]:
    """Returns the positions of the checkpoints that a policy keeps."""
    positions: set[int] = set()
    counts: Counter[NodeName] = Counter()
    steps = [row for row in checkpoints if row.kind == "step"]
    for number, row in enumerate(reversed(steps), 1):
        counts[row.node] += 1
        if number <= (policy.keep_last or 0) or counts[row.node] <= (policy.keep_per_phase or 0):
            positions.add(row.position)
    for row in checkpoints:
        if row.kind != "step" or (row.tags and policy.keep_tagged):
            positions.add(row.position)
    return positions


async def prune(store: Store, run: RunId, policy: CheckpointPolicy, position: int) -> None:
    """Removes the checkpoints and snapshots that a policy does not keep. It is idempotent.

    Args:
        store: The store.
        run: The run.
        policy: The policy of its crew.
        position: The position of the run: a checkpoint that is tagged after it is listed again.
    """
    if policy == CheckpointPolicy(keep_tagged=policy.keep_tagged):
        return
    rows = await store.list_checkpoints(run, limit=_ALL)
    prunable = find_prunable(policy, rows, await store.list_snapshots(run))
    if any(prunable):
        await store.prune(run, prunable.checkpoints, prunable.snapshots, position)
