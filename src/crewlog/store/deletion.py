"""What a deletion removes besides the rows of the runs, in both stores.

The rows of a run are deleted at once. Content that runs share by its hash is deleted once no run
needs it:

- Each run has its own row for a link of a log. The links from which other runs continue stay, and
  all links before them, as rows without a run. Such runs are forks and split runs, whose first
  entry refers to the heads of their source, runs that merged a deleted one, and runs whose own
  links follow on those.
- A fork is pending from its request until its journal names its heads. Until then its source cannot
  be deleted. The entry of a split makes its split runs pending.
- A run refers to the bodies and definitions that it stores, from then on, and to the hashes in its
  entries, from their append on (`crewlog.state.references`). A deletion removes the references of
  its runs and marks their content with the time. It then deletes content that has no reference and
  whose mark is older than a grace period: a statement that stores the same content may have begun
  before the mark. Storing content removes the mark. The grace period is short if no run is open,
  and never zero, since a run that has just started is not listed yet.
- Records that outlive their run are deleted after a retention: of used starts and commands, and of
  executions that the store rejects. The lineage stays while another run continues from a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from crewlog.errors import UsageError
from crewlog.ids import ContentHash
from crewlog.store.protocol import PendingFork


def check_no_pending_fork(pending: Sequence[PendingFork]) -> None:
    """Checks that there is no pending fork.

    Raises:
        UsageError: there is one.
    """
    if pending:
        raise pending_fork_error(pending[0])


def pending_fork_error(fork: PendingFork) -> UsageError:
    """The error for the deletion of a run with a pending fork."""
    return UsageError(
        f"cannot delete the run {fork.source!r}: its fork {fork.fork!r} has not started yet",
        remedy=f"Try again once `crewlog show {fork.fork}` shows that it has started, or delete it "
        f"first: `crewlog delete {fork.fork} --force`.",
        place=f"run {fork.source!r}",
    )


def reachable_heads(
    parents: Mapping[ContentHash, Iterable[ContentHash | None]], heads: Iterable[ContentHash]
) -> set[ContentHash]:
    """The links that lead to some heads.

    Args:
        parents: The heads before each link.
        heads: The heads.
    """
    found: set[ContentHash] = set()
    ahead = list(heads)
    while ahead:
        at = ahead.pop()
        if at in parents and at not in found:
            found.add(at)
            ahead += (parent for parent in parents[at] if parent)
    return found
