"""Places in a run's journal to go back to, to fork from, and to go on from after its end.

What a crew's policy takes away of a run's checkpoints: pure, and what applies it.

Only what is kept for the list and for speed goes: places in the list, and snapshots. Journal, logs
and bodies stay, so that every state can be folded, a fork has what it shares, and a rebuild makes
the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from crewlog.definition.model import CheckpointPolicy
from crewlog.errors import StoreIncomplete, UsageError
from crewlog.ids import NodeName, RunId
from crewlog.run_status import CLOSED
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
from crewlog.store.journal_reader import load_state
from crewlog.store.missing_rows import missing_rows_error
from crewlog.store.protocol import CheckpointRow, JournalRow, Store
from crewlog.store.remote_agents import check_claimable

_PAGE = 300
"""Entries that are read at once after a checkpoint, and before an end."""


async def checkpoint_state_position(store: Store, run: RunId, position: int) -> int:
    """The position of the state that a checkpoint stands for.

    Raises:
        UsageError: the position is no checkpoint; the remedy names the nearest that are.
    """
    rows = await _read_transaction_rest(store, run, position)
    entries = [entry_from_json(row.entry) for row in rows]
    count = checkpoint_length(entries)
    if count is None:
        raise await _no_checkpoint(store, run, position, ended=_ends(entries))
    return rows[count - 1].position


async def _read_transaction_rest(store: Store, run: RunId, position: int) -> list[JournalRow]:
    """The entry at a position and those of its transaction after it; empty without that entry."""
    found: list[JournalRow] = []
    while rows := await store.read_journal(run, position - 1, _PAGE):
        # A fork's journal begins after its base: the position may be before that.
        if not found and rows[0].position != position:
            return []
        for row in rows:
            if found and not row.entry.get("transaction"):
                return found
            found.append(row)
        position = found[-1].position + 1
    return found


def _ends(entries: list[JournalEntry]) -> bool:
    """Whether the run ended with the first entry: there is nothing to continue from."""
    return (
        bool(entries)
        and checkpoint_kind(entries[0].kind, None, " ") is not None
        and ends_run(entries)
    )


async def _no_checkpoint(store: Store, run: RunId, position: int, *, ended: bool) -> UsageError:
    """Why a position is none to go to, with the nearest that are."""
    known = [checkpoint async for checkpoint in _checkpoints(store, run)]
    remedy = nearest(run, position, known)
    if ended:
        return UsageError(
            f"the run {run!r} ended with position {position}: there is nothing to go on with",
            remedy=remedy,
        )
    return UsageError(no_checkpoint_message(run, position), remedy=remedy)


async def _checkpoints(store: Store, run: RunId) -> AsyncIterator[int]:
    """The places to go to: the run's beginning, and the ends of steps."""
    first = 0
    for row in await store.read_journal(run, 0, 20):
        if not first and checkpoint_length([entry_from_json(row.entry)]) is not None:
            first = row.position
            yield first
    at = first
    while found := await store.list_checkpoints(run, at):
        for checkpoint in found:
            yield checkpoint.position
        at = found[-1].position


async def find_reopen_position(
    store: Store, run: RunId, end: int, *, rested: bool = False
) -> ReopenPoint:
    """From where a run that has ended goes on.

    Args:
        store: The store.
        run: The run.
        end: The last position of its journal.
        rested: Whether it waited for a message when it ended.

    Raises:
        UsageError: it is completed.
        StoreIncomplete: the store lacks the end of its journal.
    """
    looked = _PAGE
    while True:
        first = max(0, end - looked)
        rows = await store.read_journal(run, first, end - first)
        if not rows or rows[-1].position != end:
            raise missing_rows_error(run, "its journal", position=end)
        tail = [(row.position, entry_from_json(row.entry)) for row in rows]
        # A fork's journal begins after its base: there is nothing before it to look at.
        if isinstance(tail[0][1], RunForked) or not first or await _has_ending(store, run, tail):
            return reopen_point(run, tail, rested=rested)
        looked *= 4


async def _has_ending(store: Store, run: RunId, tail: Sequence[tuple[int, JournalEntry]]) -> bool:
    """Whether the end of a journal has all that ended the run.

    It does where the run was at work before the first transaction that is whole in it. Commands
    that were rejected afterwards say nothing of the end.
    """
    first = next((at for at, (_, entry) in enumerate(tail) if at and not entry.transaction), None)
    if first is None or all(isinstance(entry, CommandRejected) for _, entry in tail[first:]):
        return False
    state = await load_state(store, run, tail[first - 1][0])
    return state.status not in _ENDING


_ENDING = {*CLOSED, "stopping"}


async def taken_up(store: Store, run: RunId, end: CrewState) -> tuple[ReopenPoint, CrewState]:
    """From where a run that has ended goes on, and its state there.

    Args:
        store: The store.
        run: The run.
        end: The last state that the store has of it.

    Raises:
        UsageError: it is completed, or has no crew to go on with; or its creatures live again in
            the run that they had left.
        StoreIncomplete: the store lacks rows of it.
    """
    if end.pending_merge is not None and end.pending_merge.status == "offered":
        raise UsageError(
            f"the run {run!r} has offered to be part of {end.pending_merge.other!r}: whether it "
            "is, that run's journal says, and nobody has read it here",
            remedy=f"`crewlog show {end.pending_merge.other}` shows that run; `crewlog fork "
            f"{run}@POSITION` goes on from a checkpoint of this one.",
        )
    found = await find_reopen_position(store, run, end.position, rested=end.idle is not None)
    if not found.position:
        raise _no_crew(run)
    then = fold_at_positions(await load_state(store, run, found.position), found.landed)
    if not then.definition:
        raise _no_crew(run)
    await check_claimable(store, then, end)
    return found, then


def _no_crew(run: RunId) -> UsageError:
    return UsageError(
        f"the run {run!r} ended before it had a crew: what its prompt makes was not approved",
        remedy="There is nothing to go on with. Start it anew, with its prompt: `crewlog run "
        "PROMPT`.",
        place=f"run {run!r}",
    )


async def load_last_state(store: Store, run: RunId) -> CrewState:
    """The last state that the store has of a run that is to be taken up again.

    Raises:
        UsageError: the store has no journal of it.
        StoreIncomplete: the store lacks a part of it.
    """
    try:
        return await load_state(store, run)
    except StoreIncomplete:
        if await store.read_journal(run, 0, 1):
            raise
    raise UsageError(
        f"the run {run!r} has no journal: it ended before anything of it was stored, or the store "
        "was lost",
        remedy=f"`crewlog rebuild {run}` makes its journal from its history, as far as that goes; "
        "then resume it again. Else start it anew, under another id.",
        place=f"run {run!r}",
    )


_ALL = 2**31


class Prunable(NamedTuple):
    """What goes, by position."""

    checkpoints: tuple[int, ...] = ()
    snapshots: tuple[int, ...] = ()


def find_prunable(
    policy: CheckpointPolicy, checkpoints: Sequence[CheckpointRow], snapshots: Iterable[int]
) -> Prunable:
    """What a policy takes away.

    Of the snapshots the newest stays, which the last state is loaded from, and of each checkpoint
    that is kept the one that it is loaded from.

    Args:
        policy: The policy.
        checkpoints: Those in the list, by position.
        snapshots: The positions of snapshots, in order.
    """
    if policy.keep_last is None and policy.keep_per_phase is None:
        return Prunable()
    kept = _kept(policy, checkpoints)
    there = list(snapshots)
    needed = {max((at for at in there if at <= one), default=0) for one in kept}
    needed |= set(there[-1:])
    return Prunable(
        tuple(row.position for row in checkpoints if row.position not in kept),
        tuple(at for at in there if at not in needed),
    )


def _kept(policy: CheckpointPolicy, checkpoints: Sequence[CheckpointRow]) -> set[int]:
    kept: set[int] = set()
    seen: Counter[NodeName] = Counter()
    steps = [row for row in checkpoints if row.kind == "step"]
    for number, row in enumerate(reversed(steps), 1):
        seen[row.node] += 1
        if number <= (policy.keep_last or 0) or seen[row.node] <= (policy.keep_per_phase or 0):
            kept.add(row.position)
    for row in checkpoints:
        if row.kind != "step" or (row.tags and policy.keep_tagged):
            kept.add(row.position)
    return kept


async def prune(store: Store, run: RunId, policy: CheckpointPolicy, position: int) -> None:
    """Applies a policy to a run; done again, it does nothing more.

    Args:
        store: The store.
        run: The run.
        policy: The policy of its crew.
        position: Where the run is: a checkpoint that is tagged later is listed again.
    """
    if policy == CheckpointPolicy(keep_tagged=policy.keep_tagged):
        return
    rows = await store.list_checkpoints(run, limit=_ALL)
    gone = find_prunable(policy, rows, await store.list_snapshots(run))
    if any(gone):
        await store.prune(run, gone.checkpoints, gone.snapshots, position)
