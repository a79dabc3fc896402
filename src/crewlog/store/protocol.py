"""The seam between Crewlog and where it keeps rows: one protocol, two implementations.

What a store has of runs follows from their histories: definitions, message bodies and journal
batches. The rest (runs, interrupts, checkpoints, log links) is projected from the batches as they
are appended, by `crewlog.store.projection`, so that a rebuild is nothing but appending them again.
Eight things do not: claims, what people approved of tools, notes of forks that begin, of which runs
there were forks, which executions are shut, which are a signed run's own, what people registered,
and what crews remember.

Every write is idempotent: activities are retried, and parallel activities carry the same batch.
Nothing is ever removed, but by `forget`, `prune` and `delete`.
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


class LogLink(Model):
    """One message of a log: a link of its chain. Or, with two heads before it, a join of two."""

    head: ContentHash
    """The chain's head with this message."""
    previous: ContentHash
    """The head before it; the log's root for the first message."""
    position: int
    """The journal position that added it."""
    body: ContentHash
    """The message's body; empty for a join, which has no message."""
    other: ContentHash | None = None
    """Of a join: the other head before it."""

    @property
    def parents(self) -> tuple[ContentHash, ...]:
        """The heads before it."""
        return (self.previous,) if self.other is None else (self.previous, self.other)


class JournalRow(NamedTuple):
    """A journal entry at its place: a tuple, since folding reads thousands of them at once."""

    position: int
    """From 1, in a fork from the one after its base, without gaps but for those that
    `RunMerged` tells."""
    entry: dict[str, Json]
    """The entry as `entry_to_json` makes it."""
    hash: ContentHash
    """The hash of the entry, as stored: to fold it needs no new hash."""


class RunRow(Model):
    """What is known of a run without asking it."""

    run: RunId
    """The workflow id."""
    crew: CrewName
    """The crew's name."""
    definition: ContentHash
    """The hash of the definition that it has: the live one."""
    recipe: ContentHash = ContentHash("")
    """The hash of the definition that it was started with."""
    status: RunStatus = "running"
    """As of `position`."""
    position: int = 0
    """The last journal position that is stored and that changed this row."""
    started_at: int = 0
    """Milliseconds since the epoch."""
    ended_at: int | None = None
    """Milliseconds since the epoch; none while it is open."""
    started_by: str = ""
    """The principal that started it."""
    error: str = ""
    """Why it failed."""
    source: RunId | None = None
    """Of a fork: the run that it comes from."""
    source_position: int = 0
    """Of a fork: the position up to which it shares the journal of its source."""


class InterruptRow(Model):
    """A question of a run, open or answered."""

    run: RunId
    id: InterruptId
    position: int
    """The journal position that raised it."""
    at: int = 0
    """When it was asked, in milliseconds since the epoch."""
    interrupt: dict[str, Json]
    """The `Interrupt` as JSON."""
    decision: str | None = None
    """The answer; none while it is open, and where it was never answered."""
    answered_by: str = ""
    """The principal that answered."""


class CheckpointRow(Model):
    """A place in the journal that a person may want to go back to: after each node."""

    run: RunId
    position: int
    """The journal position; of a step, that of its end."""
    kind: CheckpointKind = "step"
    step: StepId
    """The step that ended, or `turn:3` for the end of a turn; empty where none did."""
    node: NodeName
    """The step's phase, if there is one."""
    agent: AgentName | None = None
    """The agent, for an agent's step."""
    at: int = 0
    """Milliseconds since the epoch."""
    tags: tuple[str, ...] = ()
    """The names that people gave it."""
    pruned: bool = False
    """Whether the crew's policy took it from the list; its state can still be loaded."""


class CrewRow(Model):
    """A registered crew."""

    name: CrewName
    version: int
    """From 1; a registration of other content is a new version."""
    definition: ContentHash
    at: int = 0
    """When it was registered, in milliseconds since the epoch."""


Kind = Literal["registry", "agent", "tool", "builder", "model"]
"""What can be registered besides crews: a registry, and the parts of one."""


class CatalogRow(Model):
    """A registry or a part of one, registered."""

    kind: Kind
    name: str
    """A registry's own name; for a part `registry/name`, since two registries may each have one."""
    version: int
    """From 1; a registration of other content is a new version."""
    content: ContentHash
    """What `Store.get_definition` gives the content for."""
    at: int = 0
    """When it was registered, in milliseconds since the epoch."""


class Snapshot(Model):
    """A whole state, kept so that a checkpoint needs no fold from the beginning."""

    position: int
    state: dict[str, Json]
    """`CrewState.to_json()`."""


class QuotaPeriod(Model):
    """A quota in which a call is to be counted."""

    quota: str
    """Its name over all crews."""
    period: str
    """The hour or the day, as `window_of` names it."""
    limit: int
    """The most calls in it."""


RESERVED = 8 * 86_400_000
"""Milliseconds for which it is known that a call is counted."""

GRACE = 3_600_000
"""Milliseconds between the end of the last known use of something and its removal."""


class DeletionResult(Model):
    """What a deletion removed."""

    entries: int = 0
    """Journal entries."""
    bodies: int = 0
    definitions: int = 0
    left: int = 0
    """Bodies and definitions that nobody is known to use, and that go after the grace."""


class PendingFork(Model):
    """A run that was noted as a fork of another one, and has not begun."""

    source: RunId
    fork: RunId
    at: int
    """When it was noted last, in milliseconds since the epoch."""


class LineageLink(Model):
    """A run goes on from another one."""

    run: RunId
    source: RunId
    position: int = 0
    """Where: of a run that began so, the position after which its own journal begins; of one that
    took the other in, the position that says so. 0: one of the two is deleted, or went back."""
    by_merge: bool = False
    """Whether it took the other one in, or that one's logs; else it began as a part or a copy."""


class Store(Protocol):
    """What a store can do. All methods raise `StoreUnavailable` when the store is away."""

    kind: Literal["postgres", "memory"]
    memories: Memories
    """What crews remember beyond one run."""

    async def put_definition(self, definition: Mapping[str, Json]) -> ContentHash:
        """Stores a definition under its content hash (`hash_json`) and returns the hash."""
        ...

    async def get_definition(self, hash_: ContentHash) -> dict[str, Json]:
        """The definition of that hash. Raises `StoreIncomplete` where there is none."""
        ...

    async def register_crew(
        self, name: CrewName, definition: Mapping[str, Json], at: int
    ) -> CrewRow:
        """Registers a crew: a new version, or the newest one where nothing changed."""
        ...

    async def get_crew(self, name: CrewName, version: int | None = None) -> CrewRow | None:
        """A registered crew, by default its newest version."""
        ...

    async def remove_crew(self, name: CrewName) -> int:
        """Takes a crew from the list, in all of its versions; returns how many these were.

        Runs that have it keep it. One that is registered under its name later has the next version.
        """
        ...

    async def default_crew(self) -> CrewName | None:
        """The crew of runs that name none, if there is one."""
        ...

    async def set_default_crew(self, name: CrewName | None) -> None:
        """Says which it is; none: there is no such crew."""
        ...

    async def list_crews(self, *, all_versions: bool = False) -> list[CrewRow]:
        """The newest version of every crew by name, or all versions, the oldest of each first."""
        ...

    async def register(
        self, contents: Mapping[tuple[Kind, str], Mapping[str, Json]], at: int
    ) -> list[CatalogRow]:
        """Registers contents by kind and name, all or none; the rows in the order of `contents`.

        Each is a new version, or the newest one where nothing changed. Of registrations at once,
        one comes whole after the other.
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

    async def put_bodies(self, bodies: Mapping[ContentHash, Json]) -> None:
        """Stores bodies that the caller has hashed with `hash_json`."""
        ...

    async def get_bodies(self, hashes: Collection[ContentHash]) -> dict[ContentHash, Json]:
        """The bodies of those hashes. Raises `StoreIncomplete` where one is missing."""
        ...

    async def claim(self, key: str, owner: str, *, knows: tuple[RunId, int] | None = None) -> str:
        """Makes `owner` the owner of `key` unless it has one; returns who owns it.

        Atomic over all workers. A claim is kept for ever: it says that something was begun, a call,
        or to go on with a creature (`crewlog.store.claims`).

        Args:
            key: What is claimed.
            owner: For whom.
            knows: A run, and the position up to which its rulings are known. Where it has a later
                one, nothing is claimed, and nobody owns it: the answer is empty.
        """
        ...

    async def key_owner(self, key: str) -> str | None:
        """Who owns `key`, by `claim`; none where nobody does."""
        ...

    async def last_permission_position(self, run: RunId) -> int:
        """The last position at which a run's journal says who may call what; 0 where none does."""
        ...

    async def lineage(self, run: RunId) -> Collection[RunId]:
        """The runs that a run goes on from: of a fork its source, that one's source and so on.

        Runs whose logs came in are among them, and what these go on from; and so are runs that are
        deleted.
        """
        ...

    async def lineage_links(self, runs: Collection[RunId]) -> list[LineageLink]:
        """Which runs go on from which, a step from some runs: before them and after them.

        In order of the runs, and of where they go on. Of runs that are deleted what others need.
        """
        ...

    async def count_call(self, call: str, wanted: Sequence[QuotaPeriod], at: int) -> str | None:
        """Counts a call in some quotas: in all of them, or in none.

        Atomic over all workers. A call that is counted already is not counted again.

        Args:
            call: The call's idempotency key.
            wanted: The quotas.
            at: Now, in milliseconds since the epoch. What was counted long ago may be forgotten.

        Returns:
            The quota that is used up; none where the call is counted.
        """
        ...

    async def release_call(self, call: str, quotas: Collection[str]) -> None:
        """Takes a call out of quotas: it was not made."""

    async def counted_calls(
        self, periods: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], int]:
        """How many calls are counted in quotas, each in one of its hours or days.

        Args:
            periods: Quotas by name, each with the hour or the day.
        """
        ...

    async def approve_tool(
        self, source: str, tool: str, hash_: str, by: str, at: int, description: str
    ) -> None:
        """Keeps what a person approved of a server's tool, in the place of what was before.

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
        """The digests that are approved of a server's tools, by name."""
        ...

    async def list_approval_times(self, source: str) -> dict[str, int]:
        """When a server's tools were approved, by name, in milliseconds since the epoch."""
        ...

    async def list_approved_descriptions(self, source: str) -> dict[str, str]:
        """What a server's tools said of themselves when they were approved, by name."""
        ...

    async def put_signed_approval(self, approval: SignedApproval) -> None:
        """Keeps a signed approval of a server's tool, in the place of that key's older one."""
        ...

    async def list_signed_approvals(self, source: str) -> Sequence[SignedApproval]:
        """The signed approvals of a server's tools, by tool, the newest first.

        Nothing is said of whether their signatures hold, and for which crews.
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
        """Stores a batch, what it projects to, and `bodies`, in one transaction and one round trip.

        Runs that it names as parts of its graph are noted, as by `add_pending_fork`. Batches may
        come again, overlap, and come in another order than their positions. Returns the
        last position at which the run's stored journal says who may call what, as
        `last_permission_position`; what the batch itself says of that need not be among it.

        Args:
            run: The run.
            batch: The batch.
            bodies: Bodies, besides those of the batch.
            execution: Temporal's run id of the execution whose activity stores it; empty where it
                is read from the history that counts.

        Raises:
            HistoryConflict: where a position already holds a different entry, or the execution is
                shut. Nothing is stored.
        """
        ...

    async def reject_executions(self, run: RunId, executions: Collection[str]) -> None:
        """Refuses what executions store from now on, for good: the run has another history.

        What they were storing meanwhile is stored when this returns, to be forgotten or deleted.
        """
        ...

    async def accepted_executions(self, run: RunId) -> Collection[str]:
        """The executions that are known to be a run's, by `admit`; none of an open one."""
        ...

    async def accept_executions(
        self, run: RunId, executions: Collection[str], *, alone: bool = False
    ) -> None:
        """Notes that executions are a run's: from now on, no others are believed.

        Args:
            run: The run, whose commands are signed.
            executions: Temporal's run ids.
            alone: Whether those that were known before are so no more: another one goes on.
        """
        ...

    async def read_log(
        self, head: ContentHash, known: Collection[ContentHash] = ()
    ) -> list[LogLink]:
        """The chain that ends at `head`, oldest first, back to its root or to a known head.

        Where logs were joined, that is all that is reached over both, each link after those that
        it goes on from; `in_order` has the messages in theirs. A head in `known` gives an empty
        list. The root of a log that has no message yet must be in `known`: a store cannot tell it
        from a head whose links are lost, and an empty transcript in place of a lost one would be
        the worse answer.

        Raises:
            StoreIncomplete: where there is a gap, or `head` is neither stored nor known.
        """
        ...

    async def read_journal(self, run: RunId, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """Entries at positions above `after`, in order, up to the first gap.

        A fork's journal begins with `RunForked`, above its base: that is no gap. Nor are the
        positions that `RunMerged` leaves out, which says after which one it comes. There may be a
        gap for a moment: parallel activities store batches in any order.
        """
        ...

    async def find_command(self, run: RunId, command: str) -> JournalRow | None:
        """The last entry of a run that is the outcome of a command with that id.

        It reads the texts of the run's whole journal: for ids that a state does not remember.
        """
        ...

    async def get_run(self, run: RunId) -> RunRow | None:
        """A run's row."""
        ...

    async def list_runs(
        self, *, statuses: Sequence[RunStatus] = (), limit: int = 100
    ) -> list[RunRow]:
        """Runs, newest first."""
        ...

    async def count_runs(self) -> int:
        """How many runs there are that `list_runs` lists, of any status."""
        ...

    async def list_interrupts(
        self, run: RunId | None = None, *, open_only: bool = True
    ) -> list[InterruptRow]:
        """Questions, oldest first."""
        ...

    async def list_checkpoints(
        self, run: RunId, after: int = 0, limit: int = 1000, *, pruned: bool = False
    ) -> list[CheckpointRow]:
        """Checkpoints of a run by position; `pruned` lists those that its policy took away, too."""
        ...

    async def prune(
        self, run: RunId, checkpoints: Collection[int], snapshots: Collection[int], at: int
    ) -> None:
        """Takes checkpoints from the list, and removes snapshots; each by its position.

        Nothing else goes: every state can still be folded from the journal. Where the journal has
        a gap, no snapshot goes. A checkpoint that is tagged after the position `at` is listed
        again.
        """
        ...

    async def put_snapshot(self, run: RunId, snapshot: Snapshot) -> None:
        """Keeps a state; the first one at a position stays."""
        ...

    async def list_snapshots(self, run: RunId) -> list[int]:
        """The positions of a run's snapshots, in order."""
        ...

    async def get_snapshot(self, run: RunId, position: int) -> Snapshot | None:
        """The newest snapshot at or before a position."""
        ...

    async def truncate_journal(self, run: RunId, after: int = 0) -> None:
        """Removes what a run's journal says after a position: its rows are as if it ended there.

        For a run whose history is another one now: it was reset, or its id was used again. What is
        addressed by its content (bodies, links, definitions) stays: other runs may share it.
        """
        ...

    async def add_pending_fork(self, source: RunId, fork: RunId, at: int) -> bool:
        """Notes that a run is about to begin as a fork: its source is not deleted until it has.

        Args:
            source: The run that it goes on from.
            fork: The run that begins.
            at: Now, in milliseconds since the epoch.

        Returns:
            Whether the store has a row of the source; nothing is noted where it has none.
        """
        ...

    async def list_pending_forks(self, sources: Collection[RunId]) -> list[PendingFork]:
        """Forks of some runs that were noted and have not begun, but those among these runs."""
        ...

    async def remove_pending_fork(self, source: RunId, fork: RunId) -> None:
        """Takes back a note: the fork does not begin any more."""
        ...

    async def delete(
        self, runs: Collection[RunId], at: int, *, grace: int = GRACE, forked: bool = False
    ) -> DeletionResult:
        """Removes runs, and what nobody else uses; see `crewlog.store.deletion`.

        Bodies and definitions that earlier deletions left, longer than the grace ago, go as well.

        Args:
            runs: The runs; those that are unknown have nothing to remove.
            at: Now, in milliseconds since the epoch.
            grace: Milliseconds that something must be unused before it goes; 0 only where it is
                certain that no other run is open, nor begins.
            forked: Whether they go even where a fork of them has not begun, and fails by that.

        Raises:
            UsageError: a fork of one of them has not begun; nothing is removed.
        """
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...
