"""What a crew's policy takes away of a run's checkpoints: pure, and what applies it.

Only what is kept for the list and for speed goes: places in the list, and snapshots. Journal, logs
and bodies stay, so that every state can be folded, a fork has what it shares, and a rebuild makes
the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crewlog.definition.model import CheckpointPolicy
from crewlog.ids import NodeName, RunId
from crewlog.store.protocol import CheckpointRow, Store

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
