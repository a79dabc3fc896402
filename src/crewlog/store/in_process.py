"""`InMemoryStore` and `InMemoryMemories`: the store without a database, for tests and first trials.

The same conformance suite tests them and the Postgres store. Values are stored as JSON text, so
that a caller cannot change them. No method awaits anything, so within one event loop every call is
atomic.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from uuid import uuid4

from crewlog.authority.signatures import SignedApproval
from crewlog.canonical_json import hash_json
from crewlog.errors import HistoryConflict
from crewlog.ids import AgentName, ContentHash, CrewName, InterruptId, NodeName, RunId, StepId
from crewlog.model import Json
from crewlog.run_status import CLOSED, RunStatus
from crewlog.state.journal import Batch
from crewlog.store.codec import dump_json, load_json
from crewlog.store.deletion import (
    check_no_pending_fork,
    journal_links,
    links_made_by,
    named_in,
    reached,
    source_heads,
)
from crewlog.store.memories import (
    MOST_FOUND,
    MOST_WORDS,
    Memories,
    Memory,
    MemoryFilter,
    MemorySearchResult,
    ScopeCount,
    Wanted,
    WriteOptions,
    cosine_similarity,
    memory_weight,
    merged,
    searched,
    where,
    words_of,
)
from crewlog.store.missing_rows import BODY, DEFINITION, MissingRows
from crewlog.store.projection import (
    CheckpointProjection,
    InterruptProjection,
    LinkProjection,
    Rows,
    RunProjection,
    TagProjection,
    contiguous_rows,
    interrupt_row,
    ordered_chain,
    project,
    reproject,
    run_row,
)
from crewlog.store.protocol import (
    GRACE,
    RESERVED,
    CatalogRow,
    CheckpointRow,
    CrewRow,
    DeletionResult,
    InterruptRow,
    JournalRow,
    Kind,
    LineageLink,
    LogLink,
    PendingFork,
    QuotaPeriod,
    RunRow,
    Snapshot,
)


@dataclass(slots=True)
class _Run:
    """The rows of one run."""

    journal: dict[int, tuple[ContentHash, str]] = field(
        default_factory=dict[int, tuple[ContentHash, str]]
    )
    """Hash and JSON by position."""
    facts: RunProjection | None = None
    interrupts: dict[InterruptId, InterruptProjection] = field(
        default_factory=dict[InterruptId, InterruptProjection]
    )
    steps: dict[StepId, AgentName] = field(default_factory=dict[StepId, AgentName])
    checkpoints: dict[int, CheckpointProjection] = field(
        default_factory=dict[int, CheckpointProjection]
    )
    pruned: dict[int, int] = field(default_factory=dict[int, int])
    """Pruned checkpoints, each with the position of the run at that time."""
    tags: dict[str, TagProjection] = field(default_factory=dict[str, TagProjection])
    snapshots: dict[int, str] = field(default_factory=dict[int, str])
    permission_changes: set[int] = field(default_factory=set[int])
    log_sources: set[tuple[RunId, int, int]] = field(default_factory=set[tuple[RunId, int, int]])
    """Merged runs, each with the position, and how many positions are skipped before it."""

    @property
    def sources(self) -> set[RunId]:
        """The runs that it continues from."""
        source = {self.facts.source} if self.facts and self.facts.source else set[RunId]()
        return source | {parent for parent, _, _ in self.log_sources}

    @property
    def asking(self) -> bool:
        return any(self.open(facts) for facts in self.interrupts.values())

    def open(self, facts: InterruptProjection) -> bool:
        return facts.open(self.facts.restore_position if self.facts else 0)

    def names(self, checkpoint: int) -> tuple[str, ...]:
        """The checkpoint's tags."""
        return tuple(tag for tag, f in sorted(self.tags.items()) if f.checkpoint == checkpoint)

    def hidden(self, checkpoint: int) -> bool:
        """Whether a checkpoint was pruned, and not tagged since."""
        named = (facts.position for facts in self.tags.values() if facts.checkpoint == checkpoint)
        return self.pruned.get(checkpoint, 0) > max(named, default=0)

    @property
    def rows(self) -> list[JournalRow]:
        """The journal, in order."""
        return [
            JournalRow(position=position, hash=hash_, entry=load_json(text))
            for position, (hash_, text) in sorted(self.journal.items())
        ]

    @property
    def closed(self) -> bool:
        return self.facts is not None and self.facts.status in CLOSED

    def add(self, rows: Rows) -> None:
        for row in rows.journal_entries:
            stored = self.journal.get(row.position)
            if stored is not None and stored[0] != row.hash:
                raise HistoryConflict(rows.run, row.position)
        for row in rows.journal_entries:
            self.journal.setdefault(row.position, (row.hash, dump_json(row.entry)))
        if rows.runs is not None:
            self.facts = rows.runs if self.facts is None else self.facts.merge(rows.runs)
        for facts in rows.interrupts:
            known = self.interrupts.get(facts.id)
            self.interrupts[facts.id] = facts if known is None else known.merge(facts)
        for step, agent in rows.steps:
            self.steps.setdefault(step, agent)
        for checkpoint in rows.checkpoints:
            self.checkpoints.setdefault(checkpoint.position, checkpoint)
        for tag in rows.tags:
            stored_tag = self.tags.get(tag.tag)
            self.tags[tag.tag] = tag if stored_tag is None else stored_tag.merge(tag)
        self.permission_changes.update(rows.permission_changes)
        self.log_sources.update(rows.log_sources)


class InMemoryStore:
    """A `Store` that lives as long as its object. `close` keeps what is in it."""

    kind: Literal["postgres", "memory"] = "memory"

    def __init__(self) -> None:
        self._definitions: dict[ContentHash, str] = {}
        self._crews: dict[CrewName, list[CrewRow]] = {}
        self._removed: dict[CrewName, int] = {}
        """How many versions of a crew are removed: the first ones."""
        self._default_crew: CrewName | None = None
        self._registered: dict[tuple[Kind, str], list[CatalogRow]] = {}
        self._bodies: dict[ContentHash, str] = {}
        self._claims: dict[str, str] = {}
        self._quota_calls: dict[str, dict[str, tuple[str, int]]] = {}
        """The calls of each quota, with the period and the time."""
        self._approvals: dict[str, dict[str, str]] = {}
        self._approved_at: dict[str, dict[str, int]] = {}
        self._descriptions: dict[str, dict[str, str]] = {}
        self._signed_approvals: dict[tuple[str, str, str], SignedApproval] = {}
        self.memories: Memories = InMemoryMemories(self._claims)
        self._links: dict[ContentHash, LinkProjection] = {}
        self._runs: dict[RunId, _Run] = {}
        self._orphaned_links: set[ContentHash] = set()
        """Links of deleted runs that other runs still use."""
        self._sources: set[RunId] = set()
        """Runs that other runs continue from, also deleted ones."""
        self._lineage: dict[tuple[RunId, RunId], bool] = {}
        """The lineage of deleted runs, while another run continues from them."""
        self._rejected_executions: set[tuple[RunId, str]] = set()
        """Executions that are no longer part of the history of their run."""
        self._accepted_executions: set[tuple[RunId, str]] = set()
        """Accepted executions of signed runs."""
        self._forked: dict[tuple[RunId, RunId], int] = {}
        """Pending forks by source and fork, with the time."""
        self._unreferenced_at: dict[ContentHash, int] = {}
        """Unreferenced bodies and definitions, with the time since when."""

    async def put_definition(self, definition: Mapping[str, Json]) -> ContentHash:
        """See `Store`."""
        hash_ = hash_json(dict(definition))
        self._definitions.setdefault(hash_, dump_json(dict(definition)))
        self._unreferenced_at.pop(hash_, None)
        return hash_

    async def get_definition(self, hash_: ContentHash) -> dict[str, Json]:
        """See `Store`."""
        if hash_ not in self._definitions:
            raise MissingRows(DEFINITION, [hash_])
        definition: dict[str, Json] = load_json(self._definitions[hash_])
        return definition

    async def register_crew(
        self, name: CrewName, definition: Mapping[str, Json], at: int
    ) -> CrewRow:
        """See `Store`."""
        hash_ = await self.put_definition(definition)
        versions = self._crews.setdefault(name, [])
        left = self._left(name)
        if not left or left[-1].definition != hash_:
            row = CrewRow(name=name, version=len(versions) + 1, definition=hash_, at=at)
            versions.append(row)
        return versions[-1]

    async def get_crew(self, name: CrewName, version: int | None = None) -> CrewRow | None:
        """See `Store`."""
        left = [row for row in self._left(name) if version in (None, row.version)]
        return left[-1] if left else None

    async def remove_crew(self, name: CrewName) -> int:
        """See `Store`."""
        gone = self._left(name)
        self._removed[name] = len(self._crews.get(name, []))
        if self._default_crew == name:
            self._default_crew = None
        return len(gone)

    async def default_crew(self) -> CrewName | None:
        """See `Store`."""
        return self._default_crew

    async def set_default_crew(self, name: CrewName | None) -> None:
        """See `Store`."""
        self._default_crew = name

    async def list_crews(self, *, all_versions: bool = False) -> list[CrewRow]:
        """See `Store`."""
        by_name = [self._left(name) for name in sorted(self._crews)]
        return [row for rows in by_name for row in (rows if all_versions else rows[-1:])]

    def _left(self, name: CrewName) -> list[CrewRow]:
        """The versions of a crew that are not removed."""
        return self._crews.get(name, [])[self._removed.get(name, 0) :]

    async def register(
        self, contents: Mapping[tuple[Kind, str], Mapping[str, Json]], at: int
    ) -> list[CatalogRow]:
        """See `Store`."""
        # All that can fail comes before anything is stored.
        texts = [(hash_json(dict(c)), dump_json(dict(c))) for c in contents.values()]
        rows: list[CatalogRow] = []
        for (kind, name), (hash_, text) in zip(contents, texts, strict=True):
            self._definitions.setdefault(hash_, text)
            self._unreferenced_at.pop(hash_, None)
            versions = self._registered.setdefault((kind, name), [])
            if not versions or versions[-1].content != hash_:
                version = len(versions) + 1
                row = CatalogRow(kind=kind, name=name, version=version, content=hash_, at=at)
                versions.append(row)
            rows.append(versions[-1])
        return rows

    async def get_catalog_entry(
        self, kind: Kind, name: str, version: int | None = None
    ) -> CatalogRow | None:
        """See `Store`."""
        versions = self._registered.get((kind, name), [])
        if version is None:
            return versions[-1] if versions else None
        return versions[version - 1] if 0 < version <= len(versions) else None

    async def list_catalog_entries(self, kind: Kind, name: str | None = None) -> list[CatalogRow]:
        """See `Store`."""
        if name is not None:
            return list(self._registered.get((kind, name), []))
        return [rows[-1] for (of, _), rows in sorted(self._registered.items()) if of == kind]

    async def put_bodies(self, bodies: Mapping[ContentHash, Json]) -> None:
        """See `Store`."""
        for hash_, body in bodies.items():
            self._unreferenced_at.pop(hash_, None)
            if hash_ not in self._bodies:
                self._bodies[hash_] = dump_json(body)

    async def get_bodies(self, hashes: Collection[ContentHash]) -> dict[ContentHash, Json]:
        """See `Store`."""
        lacking = [hash_ for hash_ in hashes if hash_ not in self._bodies]
        if lacking:
            raise MissingRows(BODY, lacking)
        return {hash_: load_json(self._bodies[hash_]) for hash_ in hashes}

    async def claim(self, key: str, owner: str, *, knows: tuple[RunId, int] | None = None) -> str:
        """See `Store`."""
        if knows is not None and await self.last_permission_position(knows[0]) > knows[1]:
            return ""
        return self._claims.setdefault(key, owner)

    async def key_owner(self, key: str) -> str | None:
        """See `Store`."""
        return self._claims.get(key)

    async def approve_tool(
        self, source: str, tool: str, hash_: str, by: str, at: int, description: str
    ) -> None:
        """See `Store`."""
        del by
        self._approvals.setdefault(source, {})[tool] = hash_
        self._approved_at.setdefault(source, {})[tool] = at
        self._descriptions.setdefault(source, {})[tool] = description

    async def list_approved_tools(self, source: str) -> dict[str, str]:
        """See `Store`."""
        return dict(self._approvals.get(source, {}))

    async def list_approval_times(self, source: str) -> dict[str, int]:
        """See `Store`."""
        return dict(self._approved_at.get(source, {}))

    async def list_approved_descriptions(self, source: str) -> dict[str, str]:
        """See `Store`."""
        return dict(self._descriptions.get(source, {}))

    async def put_signed_approval(self, approval: SignedApproval) -> None:
        """See `Store`."""
        self._signed_approvals[approval.source, approval.tool, approval.signature.key] = approval

    async def list_signed_approvals(self, source: str) -> list[SignedApproval]:
        """See `Store`."""
        found = [each for each in self._signed_approvals.values() if each.source == source]
        return sorted(found, key=lambda each: (each.tool, -each.at, each.signature.key))

    async def append(
        self,
        run: RunId,
        batch: Batch,
        bodies: Mapping[ContentHash, Json] | None = None,
        *,
        execution: str = "",
    ) -> int:
        """See `Store`."""
        rows = project(run, batch, bodies)
        if (run, execution) in self._rejected_executions:
            known = self._runs[run].journal if run in self._runs else {}
            for row in rows.journal_entries:  # what is there already may come again
                if row.position not in known:
                    raise HistoryConflict(run, row.position)
        # All that can fail comes before anything is stored.
        texts = {hash_: dump_json(body) for hash_, body in rows.bodies.items()}
        if batch.entries:
            self._runs.setdefault(run, _Run()).add(rows)
        for part, at in rows.pending_forks:
            self._forked.setdefault((run, part), at)
        for facts in rows.log_links:
            self._links.setdefault(facts.link.head, facts)
        for hash_, text in texts.items():
            self._bodies.setdefault(hash_, text)
            self._unreferenced_at.pop(hash_, None)
        return await self.last_permission_position(run)

    async def last_permission_position(self, run: RunId) -> int:
        """See `Store`."""
        return max(self._runs[run].permission_changes, default=0) if run in self._runs else 0

    async def lineage(self, run: RunId) -> set[RunId]:
        """See `Store`."""
        return _line([run], {**self._lineage, **self._forks(self._runs)}) - {run}

    async def lineage_links(self, runs: Collection[RunId]) -> list[LineageLink]:
        """See `Store`."""
        known = list[LineageLink]()
        for run, rows in self._runs.items():
            if rows.facts is not None and rows.facts.source is not None:
                known.append(
                    LineageLink(
                        run=run, source=rows.facts.source, position=rows.facts.source_position
                    )
                )
            known += (
                LineageLink(run=run, source=parent, position=at, by_merge=True)
                for parent, at, *_ in rows.log_sources
            )
        there = {(each.run, each.source) for each in known}
        known += (
            LineageLink(run=run, source=source, by_merge=by_merge)
            for (run, source), by_merge in self._lineage.items()
            if (run, source) not in there
        )
        asked = set(runs)
        found = [each for each in known if not asked.isdisjoint((each.run, each.source))]
        return sorted(found, key=lambda each: (each.run, each.position, each.source))

    async def count_call(self, call: str, wanted: Sequence[QuotaPeriod], at: int) -> str | None:
        """See `Store`."""
        for each in sorted(wanted, key=lambda each: each.quota):
            calls = self._quota_calls.get(each.quota, {})
            used = sum(span == each.period for span, _ in calls.values())
            if call not in calls and used >= each.limit:
                return each.quota
        for each in wanted:
            calls = self._quota_calls.setdefault(each.quota, {})
            for old in [k for k, (_, when) in calls.items() if when < at - RESERVED and k != call]:
                del calls[old]
            calls.setdefault(call, (each.period, at))
        return None

    async def release_call(self, call: str, quotas: Collection[str]) -> None:
        """See `Store`."""
        for quota in quotas:
            self._quota_calls.get(quota, {}).pop(call, None)

    async def counted_calls(
        self, periods: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], int]:
        """See `Store`."""
        return {
            (quota, wanted): sum(
                span == wanted for span, _ in self._quota_calls.get(quota, {}).values()
            )
            for quota, wanted in periods
        }

    async def reject_executions(self, run: RunId, executions: Collection[str]) -> None:
        """See `Store`."""
        self._rejected_executions |= {(run, execution) for execution in executions}

    async def accepted_executions(self, run: RunId) -> set[str]:
        """See `Store`."""
        return {execution for of, execution in self._accepted_executions if of == run}

    async def accept_executions(
        self, run: RunId, executions: Collection[str], *, alone: bool = False
    ) -> None:
        """See `Store`."""
        if alone:
            self._accepted_executions = {
                each for each in self._accepted_executions if each[0] != run
            }
        self._accepted_executions |= {(run, execution) for execution in executions}

    async def read_log(
        self, head: ContentHash, known: Collection[ContentHash] = ()
    ) -> list[LogLink]:
        """See `Store`."""
        met = dict[ContentHash, LinkProjection]()
        stop, ahead = set(known), [head]
        while ahead:
            at = ahead.pop()
            if at not in stop and at not in met and at in self._links:
                facts = met[at] = self._links[at]
                ahead += () if facts.is_first else facts.link.parents
        walk = [facts.link for facts in met.values()]
        return ordered_chain(head, walk, stop, {at for at, facts in met.items() if facts.is_first})

    async def read_journal(self, run: RunId, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """See `Store`."""
        journal = self._runs[run].journal if run in self._runs else {}
        positions = sorted(position for position in journal if position > after)[:limit]
        rows = [
            JournalRow(position=at, hash=journal[at][0], entry=load_json(journal[at][1]))
            for at in positions
        ]
        return contiguous_rows(rows, after)

    async def find_command(self, run: RunId, command: str) -> JournalRow | None:
        """See `Store`."""
        journal = self._runs[run].journal if run in self._runs else {}
        for at in sorted(journal, reverse=True):
            hash_, text = journal[at]
            if (entry := load_json(text)).get("command") == command:
                return JournalRow(position=at, hash=hash_, entry=entry)
        return None

    async def get_run(self, run: RunId) -> RunRow | None:
        """See `Store`."""
        rows = self._runs.get(run)
        if rows is None or rows.facts is None:
            return None
        return run_row(run, rows.facts, asking=rows.asking)

    async def list_runs(
        self, *, statuses: Sequence[RunStatus] = (), limit: int = 100
    ) -> list[RunRow]:
        """See `Store`."""
        found = [
            (rows.facts.started_at is None, run_row(run, rows.facts, asking=rows.asking))
            for run, rows in self._runs.items()
            if rows.facts is not None
        ]
        if statuses:
            found = [each for each in found if each[1].status in statuses]
        # A run whose start is not stored yet comes last, as Postgres's NULLS LAST.
        found.sort(key=lambda each: (each[0], -each[1].started_at, each[1].run))
        return [row for _, row in found[:limit]]

    async def count_runs(self) -> int:
        """See `Store`."""
        return sum(rows.facts is not None for rows in self._runs.values())

    async def list_interrupts(
        self, run: RunId | None = None, *, open_only: bool = True
    ) -> list[InterruptRow]:
        """See `Store`."""
        found = [
            interrupt_row(name, facts)
            for name, rows in self._runs.items()
            if run in {None, name}
            for facts in rows.interrupts.values()
            if facts.interrupt is not None
            and (not open_only or (rows.open(facts) and not rows.closed))
        ]
        return sorted(found, key=lambda row: (row.at, row.run, row.position))

    async def list_checkpoints(
        self, run: RunId, after: int = 0, limit: int = 1000, *, pruned: bool = False
    ) -> list[CheckpointRow]:
        """See `Store`."""
        rows = self._runs.get(run, _Run())
        found = dict(rows.checkpoints)
        for tag in rows.tags.values():  # a position that is nothing but tagged
            bare = CheckpointProjection(tag.checkpoint, StepId(""), NodeName(""), tag.at, "tag")
            known = found.setdefault(tag.checkpoint, bare)
            if known.kind == "tag":
                found[tag.checkpoint] = replace(known, at=min(known.at, tag.at))
        return [
            CheckpointRow(
                run=run,
                position=position,
                kind=facts.kind,
                step=facts.step,
                node=facts.node,
                agent=rows.steps.get(facts.step),
                at=facts.at,
                tags=rows.names(position),
                pruned=rows.hidden(position),
            )
            for position, facts in sorted(found.items())
            if position > after and (pruned or not rows.hidden(position))
        ][:limit]

    async def prune(
        self, run: RunId, checkpoints: Collection[int], snapshots: Collection[int], at: int
    ) -> None:
        """See `Store`."""
        if rows := self._runs.get(run):
            rows.pruned |= dict.fromkeys(rows.checkpoints.keys() & set(checkpoints), at)
            first = rows.facts.source_position if rows.facts else 0
            skipped = sum(count for _, _, count in rows.log_sources)
            if len(rows.journal) == max(rows.journal, default=0) - first - skipped:
                for position in snapshots:
                    rows.snapshots.pop(position, None)

    async def put_snapshot(self, run: RunId, snapshot: Snapshot) -> None:
        """See `Store`."""
        rows = self._runs.get(run, _Run())
        rows.snapshots.setdefault(snapshot.position, dump_json(snapshot.state))
        self._runs[run] = rows

    async def list_snapshots(self, run: RunId) -> list[int]:
        """See `Store`."""
        return sorted(self._runs[run].snapshots) if run in self._runs else []

    async def get_snapshot(self, run: RunId, position: int) -> Snapshot | None:
        """See `Store`."""
        snapshots = self._runs[run].snapshots if run in self._runs else {}
        newest = max((at for at in snapshots if at <= position), default=None)
        if newest is None:
            return None
        return Snapshot(position=newest, state=load_json(snapshots[newest]))

    async def truncate_journal(self, run: RunId, after: int = 0) -> None:
        """See `Store`."""
        self._lineage = {**self._forks([run]), **self._lineage}
        old = self._runs.pop(run, _Run())
        kept = {at: row for at, row in sorted(old.journal.items()) if at <= after}
        snapshots = {at: text for at, text in old.snapshots.items() if at <= after}
        if kept or snapshots:
            pruned = {at: when for at, when in old.pruned.items() if at <= after}
            new = self._runs[run] = _Run(journal=kept, snapshots=snapshots, pruned=pruned)
            new.add(reproject(run, ((at, load_json(text)) for at, (_, text) in kept.items())))

    async def add_pending_fork(self, source: RunId, fork: RunId, at: int) -> bool:
        """See `Store`."""
        rows = self._runs.get(source)
        if rows is None or rows.facts is None:
            return False
        self._forked[source, fork] = at
        return True

    async def list_pending_forks(self, sources: Collection[RunId]) -> list[PendingFork]:
        """See `Store`."""
        return [
            PendingFork(source=source, fork=fork, at=at)
            for (source, fork), at in sorted(self._forked.items())
            if source in sources and fork not in sources
            if fork not in self._runs or self._runs[fork].facts is None
        ]

    async def remove_pending_fork(self, source: RunId, fork: RunId) -> None:
        """See `Store`."""
        self._forked.pop((source, fork), None)

    async def delete(
        self, runs: Collection[RunId], at: int, *, grace: int = GRACE, forked: bool = False
    ) -> DeletionResult:
        """See `Store`."""
        if not forked:
            check_no_pending_fork(await self.list_pending_forks(runs))
        self._forked = {
            both: noted for both, noted in self._forked.items() if not {*both} & {*runs}
        }
        links = {head: self._links[head].link for head in self._orphaned_links}
        entries, named = 0, set[ContentHash]()
        self._sources |= {source for rows in self._runs.values() for source in rows.sources}
        self._lineage = {**self._forks(runs), **self._lineage}
        self._accepted_executions = {
            each for each in self._accepted_executions if each[0] not in runs
        }
        for run in runs:
            gone = self._runs.pop(run, _Run())
            entries += len(gone.journal)
            links |= journal_links(run, gone.rows)
            for _, text in gone.journal.values():
                named |= named_in(text)
            for key in [key for key in self._claims if _is_start_record_of(key, run)]:
                named |= named_in(dump_json([self._claims.pop(key)]))
            for calls in self._quota_calls.values():
                # They still count, under names that no call of a later run with its id has.
                for key in [key for key in calls if _is_start_record_of(f"{key}/1", run)]:
                    calls[f"{key}@{uuid4()}"] = calls.pop(key)
        self._sources &= self._runs.keys()
        needed = _line(self._runs, {**self._lineage, **self._forks(self._runs)})
        self._lineage = {both: how for both, how in self._lineage.items() if both[0] in needed}
        self._orphaned_links = self._used_links(links)
        for head in links.keys() - self._orphaned_links:
            if head in self._links:
                named.add(self._links.pop(head).link.body)
        for hash_ in named & (self._bodies.keys() | self._definitions.keys()):
            self._unreferenced_at.setdefault(hash_, at)
        return self._sweep(at - grace, entries)

    def _forks(self, runs: Iterable[RunId]) -> dict[tuple[RunId, RunId], bool]:
        """The lineage of some runs: run and source, and whether by a run merge."""
        found = {run: self._runs[run] for run in runs if run in self._runs}
        return {
            (run, source): rows.facts is None or rows.facts.source != source
            for run, rows in found.items()
            for source in rows.sources
        }

    def _used_links(self, links: Mapping[ContentHash, LogLink]) -> set[ContentHash]:
        """Those of some links that remaining runs use."""
        held = set[ContentHash]()
        for run, each in self._runs.items():
            if run in self._sources or each.sources:
                rows = each.rows
                held |= reached(links, source_heads(row.entry for row in rows))
                held |= links_made_by(run, rows, links)
        return held

    def _sweep(self, before: int, entries: int) -> DeletionResult:
        used = {facts.link.body for facts in self._links.values()}
        used |= {row.definition for rows in self._crews.values() for row in rows}
        used |= {row.content for rows in self._registered.values() for row in rows}
        for rows in self._runs.values():
            for _, text in rows.journal.values():
                used |= named_in(text)
        bodies = definitions = 0
        for hash_ in [hash_ for hash_, at in self._unreferenced_at.items() if at <= before]:
            del self._unreferenced_at[hash_]
            if hash_ not in used:
                bodies += self._bodies.pop(hash_, None) is not None
                definitions += self._definitions.pop(hash_, None) is not None
        left = len(self._unreferenced_at)
        return DeletionResult(entries=entries, bodies=bodies, definitions=definitions, left=left)

    async def close(self) -> None:
        """See `Store`."""


def _line(runs: Iterable[RunId], known: Collection[tuple[RunId, RunId]]) -> set[RunId]:
    """The ancestors of some runs."""
    line = set[RunId]()
    at = set(runs)
    while at := {source for run, source in known if run in at} - line:
        line |= at
    return line


def _is_start_record_of(key: str, run: RunId) -> bool:
    rest = key.removeprefix(f"{run}/")
    return rest != key and re.fullmatch(r"[^/]+/[0-9]+/[0-9]+", rest) is not None


@dataclass(frozen=True, slots=True)
class _StoredMemory:
    """A memory, with its words and its vector."""

    kept: Memory
    words: frozenset[str]
    embedder: str
    vector: tuple[float, ...]

    @property
    def memory(self) -> Memory:
        """A copy, since a caller may change its metadata."""
        return self.kept.model_copy(deep=True)


class InMemoryMemories:
    """See `Memories`. It takes words as they are, whatever their language."""

    def __init__(self, claims: dict[str, str]) -> None:
        self._claims = claims
        """The store's: the calls that have written are among them."""
        self._held: dict[tuple[str, str, str], _StoredMemory] = {}
        """By crew, scope and key."""

    async def write(self, memories: Sequence[Memory], terms: WriteOptions) -> bool:
        """See `Memories`."""
        if terms.call:
            if terms.call in self._claims:
                return False
            self._claims[terms.call] = "memory"
        place = memories[0].crew, memories[0].scope
        new = {(*place, each.key) for each in memories}
        old = [at for at in self._held if at[:2] == place and at not in new]
        gone = [at for at in old if _over(self._held[at].memory, terms.now, terms.since)]
        alive = sorted(
            (at for at in old if at not in gone),
            key=lambda at: (self._held[at].memory.at, at[2]),
            reverse=True,
        )
        for at in [*gone, *alive[max(0, terms.most - len(new)) :]]:
            del self._held[at]
        for number, each in enumerate(memories):
            self._held[*place, each.key] = _StoredMemory(
                kept=each.model_copy(update={"at": terms.now}, deep=True),
                words=frozenset(words_of(searched(each))),
                embedder=terms.embedded.model if terms.embedded else "",
                vector=terms.embedded.vectors[number] if terms.embedded else (),
            )
        return True

    async def search(
        self, crew: CrewName, scopes: Sequence[str], wanted: Wanted, *, now: int, since: int = 0
    ) -> MemorySearchResult:
        """See `Memories`."""
        limit = min(wanted.limit, MOST_FOUND)
        found = [
            (held, memory)
            for (of, scope, _), held in self._held.items()
            if of == crew and scope in scopes and not _over(memory := held.memory, now, since)
        ]
        alike: list[Memory] = []
        if wanted.embedded is not None:
            model, vector = wanted.embedded.model, wanted.embedded.vectors[0]
            near = [
                (-_similarity(held, vector, wanted, now), *_newest(memory), memory)
                for held, memory in found
                if held.embedder == model and len(held.vector) == len(vector)
            ]
            alike = [each[-1] for each in sorted(near, key=lambda each: each[:-1])[:limit]]
        words = frozenset(wanted.words[:MOST_WORDS])
        if len(alike) == limit or (alike and not words):
            return MemorySearchResult(memories=tuple(alike), by="meaning")
        ranked = [
            (
                -round(
                    len(words & held.words) * memory_weight(memory.at, now, wanted.half_life), 9
                ),
                *_newest(memory),
                memory,
            )
            for held, memory in found
            if words & held.words or not words
        ]
        best = [each[-1] for each in sorted(ranked, key=lambda each: each[:-1])[:limit]]
        return merged(alike, best, limit, words=bool(words))

    async def newest(
        self, crew: CrewName, scope: str | None = None, *, now: int, limit: int = 100
    ) -> list[Memory]:
        """See `Memories`."""
        found = [
            memory
            for memory in self._all()
            if memory.crew == crew and scope in {None, memory.scope} and not _over(memory, now, -1)
        ]
        return sorted(found, key=_newest)[:limit]

    async def scopes(self, crew: CrewName | None = None) -> list[ScopeCount]:
        """See `Memories`."""
        times: dict[tuple[CrewName, str], list[int]] = {}
        for memory in self._all():
            if crew in {None, memory.crew}:
                times.setdefault((memory.crew, memory.scope), []).append(memory.at)
        return [
            ScopeCount(crew=of, scope=scope, count=len(at), newest=max(at))
            for (of, scope), at in sorted(times.items())
        ]

    async def forget(self, which: MemoryFilter) -> int:
        """See `Memories`."""
        where(which)
        gone = [at for at, held in self._held.items() if _named(held.memory, which)]
        for at in gone:
            del self._held[at]
        return len(gone)

    def _all(self) -> Iterator[Memory]:
        return (held.memory for held in self._held.values())


def _similarity(held: _StoredMemory, vector: Sequence[float], wanted: Wanted, now: int) -> float:
    """How like a query a memory is, from 0 to 1, as far as it has not faded."""
    return (
        (1 + cosine_similarity(held.vector, vector))
        / 2
        * memory_weight(held.kept.at, now, wanted.half_life)
    )


def _over(memory: Memory, now: int, since: int) -> bool:
    return memory.at <= since or (memory.expires is not None and memory.expires <= now)


def _newest(memory: Memory) -> tuple[int, str, str]:
    return -memory.at, memory.scope, memory.key


def _named(memory: Memory, which: MemoryFilter) -> bool:
    author = memory.author
    pairs = (
        (which.crew, memory.crew),
        (which.scope, memory.scope),
        (which.key, memory.key),
        (which.run, author.run),
        (which.step, author.step),
    )
    return (
        all(wanted in {None, there} for wanted, there in pairs)
        and (which.before is None or memory.at < which.before)
        and (
            which.expired is None
            or (memory.expires is not None and memory.expires <= which.expired)
        )
    )
