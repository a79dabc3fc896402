"""The store: one protocol, two implementations.

The rows of a run follow from its histories: definitions, message bodies and journal batches are
stored as they are; runs, interrupts, checkpoints and log links are projected from the batches by
`crewlog.store.projection` as these are appended. So a rebuild appends them again. Not derived from
histories are: start records and claims, approvals of tools, pending forks, the lineage of deleted
runs, rejected and accepted executions, the catalog, quotas, and the memory of crews.

Every write is idempotent: activities are retried, and parallel activities carry the same batch.
Only `truncate_journal`, `prune` and `delete` remove rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from crewlog.authority.signatures import SignedApproval
from crewlog.ids import (
    AgentName,
    ContentHash,
    CrewName,
    InterruptId,
    NodeName,
    RunId,
    StepId,
)
from crewlog.model import Json, Model
from crewlog.run_status import RunStatus
from crewlog.state.checkpoints import CheckpointKind
from crewlog.state.journal import Batch
from crewlog.store.memories import Memories


class LogLink(NamedTuple):
    """A message in the chain of a log; or, with two heads before it, the merge of two logs."""

    head: ContentHash
    """The head of the chain that ends here."""
    previous: ContentHash
    """The head before it; of the first message the root of the log."""
    position: int
    """The journal position that added it."""
    body: ContentHash
    """The body of the message; empty for a merge."""
    other: ContentHash | None = None
    """Of a merge: the other head before it."""
    is_first: bool = False
    """Whether it is the first message of the log. A walk that ends at another link has a gap."""

    @property
    def parents(self) -> tuple[ContentHash, ...]:
        """The heads before it."""
        return (self.previous,) if self.other is None else (self.previous, self.other)


class JournalRow(NamedTuple):
    """A journal entry at its position. A tuple, since a fold reads thousands of them."""

    position: int
    """From 1, in a fork from the one after its `source_position`; without gaps, except for the
    positions that `RunMerged` skips."""
    entry: dict[str, Json]
    """The entry as `entry_to_json` makes it."""
    hash: ContentHash
    """The stored hash of the entry, so that a fold need not compute it."""


class RunRow(Model):
    """A run, projected from its stored journal."""

    run: RunId
    """The workflow id."""
    crew: CrewName
    """The crew's name."""
    definition: ContentHash
    """The hash of the live definition."""
    recipe: ContentHash = ContentHash("")
    """The hash of the definition that the run was started with."""
    status: RunStatus = "running"
    """The status at `position`."""
    position: int = 0
    """The last stored journal position that changed this row."""
    started_at: int = 0
    """Milliseconds since the epoch."""
    ended_at: int | None = None
    """Milliseconds since the epoch; None while it is open."""
    started_by: str = ""
    """The principal that started it."""
    error: str = ""
    """Why it failed."""
    source: RunId | None = None
    """The source of a fork."""
    source_position: int = 0
    """The position up to which a fork shares the journal of its source."""


class InterruptRow(Model):
    """An interrupt of a run, open or answered."""

    run: RunId
    id: InterruptId
    position: int
    """The journal position that raised it."""
    at: int = 0
    """When it was asked, in milliseconds since the epoch."""
    interrupt: dict[str, Json]
    """The `Interrupt` as JSON."""
    decision: str | None = None
    """The answer; None if there is none."""
    answered_by: str = ""
    """The principal that answered."""


class CheckpointRow(Model):
    """A checkpoint: a position to roll a run back to, or to fork it from."""

    run: RunId
    position: int
    """The journal position; of a step, that of its end."""
    kind: CheckpointKind = "step"
    step: StepId
    """The step that ended, or the name of the exchange that ended; empty for other checkpoints."""
    node: NodeName
    """The node of the step; empty without a step."""
    agent: AgentName | None = None
    """The agent of the step, if it has one."""
    at: int = 0
    """Milliseconds since the epoch."""
    tags: tuple[str, ...] = ()
    """The names that people gave it."""
    pruned: bool = False
    """Whether the policy of the crew pruned it; its state can still be loaded."""


class CrewRow(Model):
    """A registered crew."""

    name: CrewName
    version: int
    """From 1; other content is a new version."""
    definition: ContentHash
    at: int = 0
    """When it was registered, in milliseconds since the epoch."""


Kind = Literal["registry", "agent", "tool", "builder", "model"]
"""The kinds of catalog entries besides crews: a registry, and its parts."""


class CatalogRow(Model):
    """A registry, or a part of one, in the catalog."""

    kind: Kind
    name: str
    """A registry's own name; for a part `registry/name`, since two registries may each have one."""
    version: int
    """From 1; other content is a new version."""
    content: ContentHash
    """The hash under which `Store.get_definition` returns the content."""
    at: int = 0
    """When it was registered, in milliseconds since the epoch."""


class Snapshot(Model):
    """A stored state, so that a state can be loaded without a fold of the whole journal."""

    position: int
    state: dict[str, Json]
    """`CrewState.to_json()`."""


class QuotaPeriod(Model):
    """A quota in which a call counts, and the period that it counts in."""

    quota: str
    """Its name, unique over all crews."""
    period: str
    """The hour or the day, as `window_of` names it."""
    limit: int
    """The most calls in it."""


COUNTED_CALL_RETENTION = 8 * 86_400_000
"""Milliseconds for which counted calls are stored."""

GRACE = 3_600_000
"""Milliseconds for which content must be unreferenced before it is deleted."""


class DeletionResult(Model):
    """What a deletion removed."""

    entries: int = 0
    """Journal entries."""
    bodies: int = 0
    definitions: int = 0
    unreferenced: int = 0
    """Unreferenced bodies and definitions: a later deletion removes them, after the grace."""
    records: int = 0
    """Records of used starts and commands, and of executions."""


class PendingFork(Model):
    """A fork that is about to begin: its source must not be deleted before."""

    source: RunId
    fork: RunId
    at: int
    """When it was last stored, in milliseconds since the epoch."""


class LineageLink(Model):
    """Two runs, one of which continues from the other."""

    run: RunId
    source: RunId
    position: int = 0
    """Of a fork or a split run, the position after which its own journal begins; of a run merge,
    the position of its entry. 0: one of the two runs is deleted, or was rolled back."""
    by_merge: bool = False
    """Whether the run merged the source, or its logs; else it began as a fork or a split run."""


class Store(Protocol):
    """The contract of a store. All methods raise `StoreUnavailable` if it does not answer."""

    kind: Literal["postgres", "memory"]
    memories: Memories
    """The memory of crews."""

    async def put_definition(self, run: RunId, definition: Mapping[str, Json]) -> ContentHash:
        """Stores a definition for a run under its content hash (`hash_json`); returns the hash.

        It stays until the run is deleted.
        """
        ...

    async def get_definition(self, hash_: ContentHash) -> dict[str, Json]:
        """The definition of that hash. Raises `StoreIncomplete` where there is none."""
        ...

    async def register_crew(
        self, name: CrewName, definition: Mapping[str, Json], at: int
    ) -> CrewRow:
        """Adds a crew to the catalog: a new version, or the newest one if nothing changed."""
        ...

    async def get_crew(self, name: CrewName, version: int | None = None) -> CrewRow | None:
        """A registered crew, by default its newest version."""
        ...

    async def remove_crew(self, name: CrewName) -> int:
        """Removes all versions of a crew from the catalog; returns how many.

        Its runs keep it. A crew that is added under this name later has the next version.
        """
        ...

    async def default_crew(self) -> CrewName | None:
        """The crew of runs that name none; None if there is no such crew."""
        ...

    async def set_default_crew(self, name: CrewName | None) -> None:
        """Sets the default crew; None: there is none."""
        ...

    async def list_crews(self, *, all_versions: bool = False) -> list[CrewRow]:
        """The newest version of every crew by name, or all versions, the oldest of each first."""
        ...

    async def register(
        self, contents: Mapping[tuple[Kind, str], Mapping[str, Json]], at: int
    ) -> list[CatalogRow]:
        """Adds contents to the catalog by kind and name, all or none; returns rows in their order.

        Each is a new version, or the newest one if nothing changed. Concurrent calls run one after
        the other.
        """
        ...

    async def get_catalog_entry(
        self, kind: Kind, name: str, version: int | None = None
    ) -> CatalogRow | None:
        """What is registered under a kind and name, by default its newest version."""
        ...

    async def list_catalog_entries(self, kind: Kind, name: str | None = None) -> list[CatalogRow]:
        """The newest version of every name of a kind; of one name every version, oldest first."""
        ...

    async def put_bodies(self, run: RunId, bodies: Mapping[ContentHash, Json]) -> None:
        """Stores bodies that the caller has hashed with `hash_json`, for a run.

        They stay until the run is deleted.
        """
        ...

    async def get_bodies(self, hashes: Collection[ContentHash]) -> dict[ContentHash, Json]:
        """The bodies of those hashes. Raises `StoreIncomplete` where one is missing."""
        ...

    async def claim(
        self, run: RunId, key: str, owner: str, *, permissions_as_of: int | None = None
    ) -> str:
        """Makes `owner` the owner of `key` unless it has an owner; returns the owner.

        Atomic over all workers. The row stays: it records that work has begun, such as a call, or
        to continue an agent of an ended run (`crewlog.store.claims`).

        Args:
            run: The run that the work belongs to: the row is deleted with it. Empty: the row
                outlives all runs, and is deleted after a retention.
            key: The work, unique over all runs.
            owner: The name of the owner.
            permissions_as_of: The position of the last permission change of the run that the caller
                knows. If there is a later one, nothing is stored, and the result is empty.
        """
        ...

    async def key_owner(self, key: str) -> str | None:
        """The owner of a key, by `claim`; None if it has none."""
        ...

    async def last_permission_position(self, run: RunId) -> int:
        """The position of the last permission change in the journal of a run; 0 if it has none."""
        ...

    async def lineage(self, run: RunId) -> Collection[RunId]:
        """The ancestors of a run: of a fork its source, the source of that one, and so on.

        Merged runs and their ancestors are among them, also deleted ones.
        """
        ...

    async def lineage_links(self, runs: Collection[RunId]) -> list[LineageLink]:
        """The lineage of some runs, one step back and one step forward.

        Sorted by run, position and source. Of deleted runs, what existing runs need.
        """
        ...

    async def count_call(self, call: str, periods: Sequence[QuotaPeriod], at: int) -> str | None:
        """Counts a call in some quotas: in all of them, or in none.

        Atomic over all workers. A call counts once.

        Args:
            call: The call's idempotency key.
            periods: The quotas.
            at: Now, in milliseconds since the epoch. Calls that were counted longer ago than
            `COUNTED_CALL_RETENTION` are removed.

        Returns:
            A quota that is used up; None if the call counts.
        """
        ...

    async def release_call(self, call: str, quotas: Collection[str]) -> None:
        """Removes a call from quotas, since it was not made."""

    async def counted_calls(
        self, periods: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], int]:
        """How many calls count in quotas, by quota and period.

        Args:
            periods: Quotas by name, each with the hour or the day.
        """
        ...

    async def approve_tool(
        self, source: str, tool: str, hash_: str, by: str, at: int, description: str
    ) -> None:
        """Stores the approval of a tool of an MCP server; it replaces an earlier one.

        Args:
            source: The server, as `McpServer.source` names it.
            tool: The tool's name there.
            hash_: The hash of the description.
            by: The principal that approved it.
            at: When, in milliseconds since the epoch.
            description: The text that was approved.
        """
        ...

    async def list_approved_tools(self, source: str) -> dict[str, str]:
        """The approved hashes of the descriptions of a server's tools, by name."""
        ...

    async def list_approval_times(self, source: str) -> dict[str, int]:
        """When a server's tools were approved, by name, in milliseconds since the epoch."""
        ...

    async def list_approved_descriptions(self, source: str) -> dict[str, str]:
        """The approved descriptions of a server's tools, by name."""
        ...

    async def put_signed_approval(self, approval: SignedApproval) -> None:
        """Stores a signed approval of a tool; it replaces an earlier one of the same key."""
        ...

    async def list_signed_approvals(self, source: str) -> Sequence[SignedApproval]:
        """The signed approvals of a server's tools, by tool, the newest first.

        The caller verifies the signatures.
        """
        ...

    async def append(
        self,
        run: RunId,
        batch: Batch,
        bodies: Mapping[ContentHash, Json] | None = None,
        *,
        execution: str = "",
    ) -> int:
        """Stores a batch, its projection, and `bodies`, in one transaction and one round trip.

        Split runs that it names become pending forks, as by `add_pending_fork`. Batches may repeat,
        overlap, and arrive in another order than their positions. Returns the
        `last_permission_position` of the run; permission changes of the batch itself need not be
        included.

        Args:
            run: The run.
            batch: The batch.
            bodies: Bodies, besides those of the batch.
            execution: Temporal's run id of the execution whose activity stores it; empty for a
                rebuild.

        Raises:
            HistoryConflict: a position holds a different entry, or the execution is rejected.
                Nothing is stored.
        """
        ...

    async def reject_executions(self, run: RunId, executions: Collection[str]) -> None:
        """Rejects all later batches of executions, since the run has another history.

        Waits for appends under way, so that the caller can remove what they stored.
        """
        ...

    async def accepted_executions(self, run: RunId) -> Collection[str]:
        """The executions of a signed run, by `accept_executions`; none with an open policy."""
        ...

    async def accept_executions(
        self, run: RunId, executions: Collection[str], *, replace: bool = False
    ) -> None:
        """Accepts executions as those of a run: the store takes entries from no others.

        Args:
            run: The run, whose commands are signed.
            executions: Temporal's run ids.
            replace: Whether they replace those that were accepted before.
        """
        ...

    async def read_log(
        self, head: ContentHash, known: Collection[ContentHash] = ()
    ) -> list[LogLink]:
        """The chain that ends at `head`, oldest first, back to its root or to a known head.

        With merged logs, all links before both heads, each after its predecessors, but not by
        position. If `head` is in `known`, the result is empty. The root of a log without
        messages must be in `known`: a store cannot tell it from a head whose links are lost, and
        must not return an empty transcript for a lost one.

        Raises:
            StoreIncomplete: there is a gap, or `head` is neither stored nor known.
        """
        ...

    async def read_journal(self, run: RunId, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """Entries at positions above `after`, in order, up to the first gap.

        The journal of a fork begins with `RunForked`, after its `source_position`: that is no gap.
        Nor are the positions that `RunMerged` skips. A gap may close soon: parallel activities
        store batches in any order.
        """
        ...

    async def find_command(self, run: RunId, command: str) -> JournalRow | None:
        """The last entry of a run that is the outcome of a command with this id.

        Slow: it searches the whole journal, for ids that the state no longer has.
        """
        ...

    async def get_run(self, run: RunId) -> RunRow | None:
        """The row of a run; None if there is none."""
        ...

    async def list_runs(
        self, *, statuses: Sequence[RunStatus] = (), limit: int = 100
    ) -> list[RunRow]:
        """Runs, newest first."""
        ...

    async def count_runs(self) -> int:
        """How many runs there are, of any status."""
        ...

    async def list_interrupts(
        self, run: RunId | None = None, *, open_only: bool = True
    ) -> list[InterruptRow]:
        """Interrupts, oldest first."""
        ...

    async def list_checkpoints(
        self, run: RunId, after: int = 0, limit: int = 1000, *, pruned: bool = False
    ) -> list[CheckpointRow]:
        """Checkpoints of a run by position; with `pruned` also those that its policy pruned."""
        ...

    async def prune(
        self, run: RunId, checkpoints: Collection[int], snapshots: Collection[int], at: int
    ) -> None:
        """Removes checkpoints from the list, and deletes snapshots; each by its position.

        Every state can still be folded from the journal. If the journal has a gap, no snapshot is
        deleted. A checkpoint that is tagged after the position `at` is listed again.
        """
        ...

    async def put_snapshot(self, run: RunId, snapshot: Snapshot) -> None:
        """Stores a state; the first one at a position stays."""
        ...

    async def list_snapshots(self, run: RunId) -> list[int]:
        """The positions of a run's snapshots, in order."""
        ...

    async def get_snapshot(self, run: RunId, position: int) -> Snapshot | None:
        """The newest snapshot at or before a position."""
        ...

    async def truncate_journal(self, run: RunId, after: int = 0) -> None:
        """Deletes the entries of a run after a position, and projects its rows again.

        For a run that has another history now: it was reset, or its id was used again. Bodies,
        links and definitions stay: other runs may share them.
        """
        ...

    async def add_pending_fork(self, source: RunId, fork: RunId, at: int) -> bool:
        """Stores that a fork is about to begin: its source is not deleted until it has begun.

        Args:
            source: The run that the fork comes from.
            fork: The fork.
            at: Now, in milliseconds since the epoch.

        Returns:
            Whether the source has a row; without one nothing is stored.
        """
        ...

    async def list_pending_forks(self, sources: Collection[RunId]) -> list[PendingFork]:
        """Forks of some runs that have not begun; without forks that are among these runs."""
        ...

    async def remove_pending_fork(self, source: RunId, fork: RunId) -> None:
        """Removes a pending fork that will not begin."""
        ...

    async def delete(
        self,
        runs: Collection[RunId],
        at: int,
        *,
        grace: int = GRACE,
        retention: int | None = None,
        ignore_pending_forks: bool = False,
    ) -> DeletionResult:
        """Deletes runs, and content that no other run refers to; see `crewlog.store.deletion`.

        Also deletes content of earlier deletions whose grace has ended since.

        Args:
            runs: The runs; unknown ones have no rows.
            at: Now, in milliseconds since the epoch.
            grace: Milliseconds for which content must be unreferenced before it is deleted; 0 only
                if no other run is open or begins.
            retention: Milliseconds for which records that outlive their run are kept: of used
                starts and commands, and of executions. None: all are kept.
            ignore_pending_forks: Whether to delete runs even if a fork of them is pending; the fork
                then fails.

        Raises:
            UsageError: a fork of one of them is pending; nothing is deleted.
        """
        ...

    async def close(self) -> None:
        """Closes the connections."""
        ...
