"""`InMemoryStore` and `InMemoryMemories`: the store without a database, for tests and demos.

The conformance suite tests them and the Postgres store alike. Values are stored as JSON text, so
that callers cannot change them. No method awaits anything, so in one event loop every call is
atomic.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar
from uuid import uuid4

from crewlog.authority.signatures import SignedApproval
from crewlog.canonical_json import hash_json
from crewlog.errors import HistoryConflict
from crewlog.ids import ContentHash, CrewName, NodeName, RunId, StepId
from crewlog.model import Json
from crewlog.run_status import ENDED, RunStatus
from crewlog.state.journal import Batch
from crewlog.store.codec import dump_json, load_json
from crewlog.store.deletion import check_no_pending_fork, reachable_heads
from crewlog.store.memories import (
    MOST_RESULTS,
    MOST_WORDS,
    Memories,
    Memory,
    MemoryFilter,
    MemoryQuery,
    MemorySearchResult,
    ScopeCount,
    WriteOptions,
    check_filter,
    cosine_similarity,
    memory_weight,
    merge_results,
    search_text,
    split_words,
)
from crewlog.store.missing_rows import BODY, DEFINITION, MissingRows
from crewlog.store.projection import (
    CheckpointProjection,
    InterruptProjection,
    PendingForkProjection,
    ReferenceProjection,
    Rows,
    RunProjection,
    contiguous_rows,
    interrupt_row,
    order_chain,
    project,
    reproject,
    run_row,
)
from crewlog.store.protocol import (
    COUNTED_CALL_RETENTION,
    GRACE,
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

K = TypeVar("K")
V = TypeVar("V")

_REPROJECTED = ("steps", "checkpoints", "tags", "interrupts", "permission_changes", "log_sources")
"""The tables that are projected again from a truncated journal, besides `runs`."""
_DELETED = RunId("")
"""The run of links of deleted runs from which other runs continue."""


class _Claim(NamedTuple):
    """A start record."""

    owner: str
    run: RunId
    at: int


class _Run(Rows):
    """The rows of one run. Its entries are JSON texts, so that callers cannot change them."""

    def __init__(self, run: RunId) -> None:
        super().__init__(run)
        self.pruned: dict[int, int] = {}
        """Pruned checkpoints, each with the position of the run at that time."""
        self.snapshots: dict[int, str] = {}

    @property
    def facts(self) -> RunProjection | None:
        return self.runs.get(self.run)

    @property
    def journal(self) -> list[JournalRow]:
        """The journal in order."""
        return [
            JournalRow(row.position, load_json(row.entry), row.hash)
            for _, row in sorted(self.journal_entries.items())
        ]

    @property
    def sources(self) -> set[RunId]:
        """The runs that it continues from."""
        source = {self.facts.source} if self.facts and self.facts.source else set[RunId]()
        return source | {each.source for each in self.log_sources.values()}

    @property
    def has_open_interrupt(self) -> bool:
        return any(self.is_open(facts) for facts in self.interrupts.values())

    def is_open(self, facts: InterruptProjection) -> bool:
        return facts.is_open(self.facts.restore_position if self.facts else 0)

    def tags_of(self, checkpoint: int) -> tuple[str, ...]:
        return tuple(tag for tag, f in sorted(self.tags.items()) if f.checkpoint == checkpoint)

    def is_pruned(self, checkpoint: int) -> bool:
        """Whether a checkpoint was pruned, and not tagged since."""
        tagged = (facts.position for facts in self.tags.values() if facts.checkpoint == checkpoint)
        return self.pruned.get(checkpoint, 0) > max(tagged, default=0)

    @property
    def is_ended(self) -> bool:
        return self.facts is not None and self.facts.status in ENDED


class InMemoryStore:
    """A `Store` in memory. `close` keeps its rows."""

    kind: Literal["postgres", "memory"] = "memory"

    def __init__(self) -> None:
        self._definitions: dict[ContentHash, str] = {}
        self._crews: dict[CrewName, list[CrewRow]] = {}
        self._removed_versions: dict[CrewName, int] = {}
        """The number of removed versions of a crew: its first ones."""
        self._default_crew: CrewName | None = None
        self._catalog: dict[tuple[Kind, str], list[CatalogRow]] = {}
        self._bodies: dict[ContentHash, str] = {}
        self._claims: dict[str, _Claim] = {}
        self._quota_calls: dict[str, dict[str, tuple[str, int]]] = {}
        """The calls of each quota, with the period and the time."""
        self._approvals: dict[str, dict[str, str]] = {}
        self._approved_at: dict[str, dict[str, int]] = {}
        self._descriptions: dict[str, dict[str, str]] = {}
        self._signed_approvals: dict[tuple[str, str, str], SignedApproval] = {}
        self.memories: Memories = InMemoryMemories(self._claims)
        self._links: dict[ContentHash, LogLink] = {}
        """The links of all runs."""
        self._runs: dict[RunId, _Run] = {_DELETED: _Run(_DELETED)}
        self._lineage: dict[tuple[RunId, RunId], bool] = {}
        """The lineage of deleted runs, while another run continues from them."""
        self._rejected_executions: dict[tuple[RunId, str], int] = {}
        """Executions that are no longer part of the history of their run, each with the time."""
        self._accepted_executions: dict[tuple[RunId, str], int] = {}
        """Accepted executions of signed runs, each with the time."""
        self._unreferenced_at: dict[ContentHash, int] = {}
        """Unreferenced bodies and definitions, with the time since which they are."""

    async def put_definition(self, run: RunId, definition: Mapping[str, Json]) -> ContentHash:
        """See `Store`."""
        hash_ = self._put_definition(definition)
        self._put_run(run).content_references[hash_] = ReferenceProjection(hash_)
        return hash_

    def _put_definition(self, definition: Mapping[str, Json]) -> ContentHash:
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
        hash_ = self._put_definition(definition)
        versions = self._crews.setdefault(name, [])
        current = self._current_versions(name)
        if not current or current[-1].definition != hash_:
            row = CrewRow(name=name, version=len(versions) + 1, definition=hash_, at=at)
            versions.append(row)
        return versions[-1]

    async def get_crew(self, name: CrewName, version: int | None = None) -> CrewRow | None:
        """See `Store`."""
        rows = [row for row in self._current_versions(name) if version in (None, row.version)]
        return rows[-1] if rows else None

    async def remove_crew(self, name: CrewName) -> int:
        """See `Store`."""
        removed = self._current_versions(name)
        self._removed_versions[name] = len(self._crews.get(name, []))
        if self._default_crew == name:
            self._default_crew = None
        return len(removed)

    async def default_crew(self) -> CrewName | None:
        """See `Store`."""
        return self._default_crew

    async def set_default_crew(self, name: CrewName | None) -> None:
        """See `Store`."""
        self._default_crew = name

    async def list_crews(self, *, all_versions: bool = False) -> list[CrewRow]:
        """See `Store`."""
        by_name = [self._current_versions(name) for name in sorted(self._crews)]
        return [row for rows in by_name for row in (rows if all_versions else rows[-1:])]

    def _current_versions(self, name: CrewName) -> list[CrewRow]:
        """The versions of a crew that are not removed."""
        return self._crews.get(name, [])[self._removed_versions.get(name, 0) :]

    async def register(
        self, contents: Mapping[tuple[Kind, str], Mapping[str, Json]], at: int
    ) -> list[CatalogRow]:
        """See `Store`."""
        # Nothing is stored if this fails.
        texts = [(hash_json(dict(c)), dump_json(dict(c))) for c in contents.values()]
        rows: list[CatalogRow] = []
        for (kind, name), (hash_, text) in zip(contents, texts, strict=True):
            self._definitions.setdefault(hash_, text)
            self._unreferenced_at.pop(hash_, None)
            versions = self._catalog.setdefault((kind, name), [])
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
        versions = self._catalog.get((kind, name), [])
        if version is None:
            return versions[-1] if versions else None
        return versions[version - 1] if 0 < version <= len(versions) else None

    async def list_catalog_entries(self, kind: Kind, name: str | None = None) -> list[CatalogRow]:
        """See `Store`."""
        if name is not None:
            return list(self._catalog.get((kind, name), []))
        return [rows[-1] for (of, _), rows in sorted(self._catalog.items()) if of == kind]

    async def put_bodies(self, run: RunId, bodies: Mapping[ContentHash, Json]) -> None:
        """See `Store`."""
        for hash_, body in bodies.items():
            self._put_run(run).content_references[hash_] = ReferenceProjection(hash_)
            self._unreferenced_at.pop(hash_, None)
            if hash_ not in self._bodies:
                self._bodies[hash_] = dump_json(body)

    async def get_bodies(self, hashes: Collection[ContentHash]) -> dict[ContentHash, Json]:
        """See `Store`."""
        missing = [hash_ for hash_ in hashes if hash_ not in self._bodies]
        if missing:
            raise MissingRows(BODY, missing)
        return {hash_: load_json(self._bodies[hash_]) for hash_ in hashes}

    async def claim(
        self, run: RunId, key: str, owner: str, *, permissions_as_of: int | None = None
    ) -> str:
        """See `Store`."""
        if (
            permissions_as_of is not None
            and await self.last_permission_position(run) > permissions_as_of
        ):
            return ""
        return self._claims.setdefault(key, _Claim(owner, run, _now())).owner

    async def key_owner(self, key: str) -> str | None:
        """See `Store`."""
        return self._claims[key].owner if key in self._claims else None

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
        known = self._get_run(run).journal_entries
        is_rejected = (run, execution) in self._rejected_executions
        for at, row in rows.journal_entries.items():  # stored entries may be repeated
            if is_rejected if at not in known else known[at].hash != row.hash:
                raise HistoryConflict(run, at)
        # Nothing is stored if this fails.
        texts = {hash_: dump_json(row.body) for hash_, row in rows.bodies.items()}
        rows.bodies.clear()
        rows.journal_entries = {
            at: row._replace(entry=dump_json(row.entry)) for at, row in rows.journal_entries.items()
        }
        self._put_run(run).merge(rows)
        self._links |= rows.log_links
        for hash_, text in texts.items():
            self._bodies.setdefault(hash_, text)
            self._unreferenced_at.pop(hash_, None)
        return await self.last_permission_position(run)

    async def last_permission_position(self, run: RunId) -> int:
        """See `Store`."""
        return max(self._get_run(run).permission_changes, default=0)

    def _get_run(self, run: RunId) -> _Run:
        """The rows of a run; none if it has none."""
        return self._runs.get(run) or _Run(run)

    def _put_run(self, run: RunId) -> _Run:
        """The rows of a run, to which others can be added."""
        return self._runs.setdefault(run, _Run(run))

    async def lineage(self, run: RunId) -> set[RunId]:
        """See `Store`."""
        return _ancestors([run], {**self._lineage, **self._lineage_of(self._runs)}) - {run}

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
                for parent, at, _ in rows.log_sources.values()
            )
        existing = {(each.run, each.source) for each in known}
        known += (
            LineageLink(run=run, source=source, by_merge=by_merge)
            for (run, source), by_merge in self._lineage.items()
            if (run, source) not in existing
        )
        wanted = set(runs)
        found = [each for each in known if not wanted.isdisjoint((each.run, each.source))]
        return sorted(found, key=lambda each: (each.run, each.position, each.source))

    async def count_call(self, call: str, periods: Sequence[QuotaPeriod], at: int) -> str | None:
        """See `Store`."""
        for each in sorted(periods, key=lambda each: each.quota):
            calls = self._quota_calls.get(each.quota, {})
            used = sum(span == each.period for span, _ in calls.values())
            if call not in calls and used >= each.limit:
                return each.quota
        for each in periods:
            calls = self._quota_calls.setdefault(each.quota, {})
            for old in [
                k
                for k, (_, when) in calls.items()
                if when < at - COUNTED_CALL_RETENTION and k != call
            ]:
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
        for execution in executions:
            self._rejected_executions.setdefault((run, execution), _now())

    async def accepted_executions(self, run: RunId) -> set[str]:
        """See `Store`."""
        return {execution for of, execution in self._accepted_executions if of == run}

    async def accept_executions(
        self, run: RunId, executions: Collection[str], *, replace: bool = False
    ) -> None:
        """See `Store`."""
        if replace:
            _pop(self._accepted_executions, lambda k, _: k[0] == run and k[1] not in executions)
        for execution in executions:
            self._accepted_executions.setdefault((run, execution), _now())

    async def read_log(
        self, head: ContentHash, known: Collection[ContentHash] = ()
    ) -> list[LogLink]:
        """See `Store`."""
        visited = dict[ContentHash, LogLink]()
        stop, ahead = set(known), [head]
        while ahead:
            at = ahead.pop()
            if at not in stop and at not in visited and at in self._links:
                link = visited[at] = self._links[at]
                ahead += () if link.is_first else link.parents
        return order_chain(head, [*visited.values()], stop)

    async def read_journal(self, run: RunId, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """See `Store`."""
        rows = [row for row in self._get_run(run).journal if row.position > after]
        return contiguous_rows(rows[:limit], after)

    async def find_command(self, run: RunId, command: str) -> JournalRow | None:
        """See `Store`."""
        found = [row for row in self._get_run(run).journal if row.entry.get("command") == command]
        return found[-1] if found else None

    async def get_run(self, run: RunId) -> RunRow | None:
        """See `Store`."""
        rows = self._runs.get(run)
        if rows is None or rows.facts is None:
            return None
        return run_row(run, rows.facts, has_open_interrupt=rows.has_open_interrupt)

    async def list_runs(
        self, *, statuses: Sequence[RunStatus] = (), limit: int = 100
    ) -> list[RunRow]:
        """See `Store`."""
        found = [
            (
                rows.facts.started_at is None,
                run_row(run, rows.facts, has_open_interrupt=rows.has_open_interrupt),
            )
            for run, rows in self._runs.items()
            if rows.facts is not None
        ]
        if statuses:
            found = [each for each in found if each[1].status in statuses]
        # A run whose start is not stored yet comes last, like NULLS LAST in Postgres.
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
            and (not open_only or (rows.is_open(facts) and not rows.is_ended))
        ]
        return sorted(found, key=lambda row: (row.at, row.run, row.position))

    async def list_checkpoints(
        self, run: RunId, after: int = 0, limit: int = 1000, *, pruned: bool = False
    ) -> list[CheckpointRow]:
        """See `Store`."""
        rows = self._get_run(run)
        found = dict(rows.checkpoints)
        for tag in rows.tags.values():  # positions that are checkpoints only by their tags
            tag_only = CheckpointProjection(tag.checkpoint, StepId(""), NodeName(""), tag.at, "tag")
            known = found.setdefault(tag.checkpoint, tag_only)
            if known.kind == "tag":
                found[tag.checkpoint] = known._replace(at=min(known.at, tag.at))
        return [
            CheckpointRow(
                run=run,
                position=position,
                kind=facts.kind,
                step=facts.step,
                node=facts.node,
                agent=rows.steps[facts.step].agent if facts.step in rows.steps else None,
                at=facts.at,
                tags=rows.tags_of(position),
                pruned=rows.is_pruned(position),
            )
            for position, facts in sorted(found.items())
            if position > after and (pruned or not rows.is_pruned(position))
        ][:limit]

    async def prune(
        self, run: RunId, checkpoints: Collection[int], snapshots: Collection[int], at: int
    ) -> None:
        """See `Store`."""
        if rows := self._runs.get(run):
            rows.pruned |= dict.fromkeys(rows.checkpoints.keys() & set(checkpoints), at)
            first = rows.facts.source_position if rows.facts else 0
            skipped = sum(each.skipped for each in rows.log_sources.values())
            if len(rows.journal_entries) == max(rows.journal_entries, default=0) - first - skipped:
                for position in snapshots:
                    rows.snapshots.pop(position, None)

    async def put_snapshot(self, run: RunId, snapshot: Snapshot) -> None:
        """See `Store`."""
        self._put_run(run).snapshots.setdefault(snapshot.position, dump_json(snapshot.state))

    async def list_snapshots(self, run: RunId) -> list[int]:
        """See `Store`."""
        return sorted(self._get_run(run).snapshots)

    async def get_snapshot(self, run: RunId, position: int) -> Snapshot | None:
        """See `Store`."""
        snapshots = self._get_run(run).snapshots
        newest = max((at for at in snapshots if at <= position), default=None)
        if newest is None:
            return None
        return Snapshot(position=newest, state=load_json(snapshots[newest]))

    async def truncate_journal(self, run: RunId, after: int = 0) -> None:
        """See `Store`."""
        self._lineage = {**self._lineage_of([run]), **self._lineage}
        rows = self._put_run(run)
        _pop(rows.journal_entries, lambda at, _: at > after)
        _pop(rows.pruned, lambda at, _: at > after)
        _pop(rows.snapshots, lambda at, _: at > after)
        for name in (*_REPROJECTED, "runs"):
            getattr(rows, name).clear()
        rows.merge(reproject(run, rows.journal))

    async def add_pending_fork(self, source: RunId, fork: RunId, at: int) -> bool:
        """See `Store`."""
        rows = self._get_run(source)
        if rows.facts is None:
            return False
        rows.pending_forks[fork] = PendingForkProjection(fork, at)
        return True

    async def list_pending_forks(self, sources: Collection[RunId]) -> list[PendingFork]:
        """See `Store`."""
        return [
            PendingFork(source=source, fork=fork, at=each.at)
            for source in sorted(sources)
            for fork, each in sorted(self._get_run(source).pending_forks.items())
            if fork not in sources and self._get_run(fork).facts is None
        ]

    async def remove_pending_fork(self, source: RunId, fork: RunId) -> None:
        """See `Store`."""
        self._get_run(source).pending_forks.pop(fork, None)

    async def delete(
        self,
        runs: Collection[RunId],
        at: int,
        *,
        grace: int = GRACE,
        retention: int | None = None,
        ignore_pending_forks: bool = False,
    ) -> DeletionResult:
        """See `Store`."""
        if not ignore_pending_forks:
            check_no_pending_fork(await self.list_pending_forks(runs))
        self._lineage = {**self._lineage_of(runs), **self._lineage}
        deleted = [self._runs.pop(run) for run in {*runs, _DELETED} & self._runs.keys()]
        for rows in self._runs.values():
            _pop(rows.pending_forks, lambda fork, _: fork in runs)
        for run in runs:
            for calls in self._quota_calls.values():
                # They still count, under keys that no call of a later run with this id can have.
                for key in [key for key in calls if _is_call_of(key, run)]:
                    calls[f"{key}@{uuid4()}"] = calls.pop(key)
        _pop(self._claims, lambda _, each: each.run in runs)
        _pop(self._accepted_executions, lambda key, _: key[0] in runs)
        needed = _ancestors(self._runs, {**self._lineage, **self._lineage_of(self._runs)})
        _pop(self._lineage, lambda pair, _: pair[0] not in needed)
        kept = self._runs[_DELETED] = self._used_links(deleted)
        self._links = dict(each for r in self._runs.values() for each in r.log_links.items())
        for rows in deleted:
            for hash_ in rows.content_references.keys() - kept.content_references.keys():
                self._unreferenced_at[hash_] = at
        bodies, definitions = self._collect_content(at - grace)
        return DeletionResult(
            entries=sum(len(rows.journal_entries) for rows in deleted),
            bodies=bodies,
            definitions=definitions,
            unreferenced=len(self._unreferenced_at),
            records=0 if retention is None else self._delete_records(at - retention),
        )

    def _lineage_of(self, runs: Iterable[RunId]) -> dict[tuple[RunId, RunId], bool]:
        """The lineage of some runs: run and source, and whether by a run merge."""
        found = {run: self._runs[run] for run in runs if run in self._runs}
        return {
            (run, source): rows.facts is None or rows.facts.source != source
            for run, rows in found.items()
            for source in rows.sources
        }

    def _used_links(self, deleted: Sequence[_Run]) -> _Run:
        """The links of deleted runs from which other runs continue, and all links before them."""
        links = dict(each for rows in deleted for each in rows.log_links.items())
        heads = set[ContentHash]()
        for rows in self._runs.values():
            heads.update(rows.content_references)
            heads.update(each for link in rows.log_links.values() for each in link.parents)
        used = reachable_heads({head: link.parents for head, link in links.items()}, heads)
        kept = _Run(_DELETED)
        kept.log_links = {head: links[head] for head in used}
        for link in kept.log_links.values():
            if link.body:
                kept.content_references[link.body] = ReferenceProjection(link.body)
        return kept

    def _collect_content(self, before: int) -> tuple[int, int]:
        """Deletes content without references; returns the numbers of bodies and definitions."""
        used = {row.definition for rows in self._crews.values() for row in rows}
        used |= {row.content for rows in self._catalog.values() for row in rows}
        used = used.union(*(rows.content_references for rows in self._runs.values()))
        bodies = definitions = 0
        for hash_ in [hash_ for hash_, at in self._unreferenced_at.items() if at <= before]:
            del self._unreferenced_at[hash_]
            if hash_ not in used:
                bodies += self._bodies.pop(hash_, None) is not None
                definitions += self._definitions.pop(hash_, None) is not None
        return bodies, definitions

    def _delete_records(self, before: int) -> int:
        """Deletes records that no run needs; returns the number."""
        existing = {run for run, rows in self._runs.items() if rows.facts is not None}
        last: dict[RunId, tuple[int, str]] = {}
        for (run, execution), at in self._accepted_executions.items():
            last[run] = max(last.get(run, (0, "")), (at, execution))
        claims = _pop(self._claims, lambda _, each: each.at < before and each.run not in existing)
        rejected = _pop(self._rejected_executions, lambda _, at: at < before)
        accepted = _pop(
            self._accepted_executions,
            lambda key, at: at < before and (at, key[1]) != last[key[0]],
        )
        return len(claims) + len(rejected) + len(accepted)

    async def close(self) -> None:
        """See `Store`."""


def _ancestors(runs: Iterable[RunId], links: Collection[tuple[RunId, RunId]]) -> set[RunId]:
    """The ancestors of some runs."""
    found = set[RunId]()
    at = set(runs)
    while at := {source for run, source in links if run in at} - found:
        found |= at
    return found


def _is_call_of(key: str, run: RunId) -> bool:
    """Whether an idempotency key is of a call of a run, whose id may contain slashes."""
    rest = key.removeprefix(f"{run}/")
    return rest != key and re.fullmatch(r"[^/]+/[0-9]+", rest) is not None


def _pop(rows: dict[K, V], is_deleted: Callable[[K, V], bool]) -> dict[K, V]:
    """Deletes some rows, and returns them."""
    return {key: rows.pop(key) for key, value in [*rows.items()] if is_deleted(key, value)}


def _now() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class _StoredMemory:
    """A memory with its words and its vector."""

    stored: Memory
    words: frozenset[str]
    embedder: str
    vector: tuple[float, ...]

    @property
    def memory(self) -> Memory:
        """A copy, since a caller may change its metadata."""
        return self.stored.model_copy(deep=True)


class InMemoryMemories:
    """See `Memories`. It compares words as they are, without stems."""

    def __init__(self, claims: dict[str, _Claim]) -> None:
        self._claims = claims
        """The start records of the store: calls that write memories are among them."""
        self._memories: dict[tuple[str, str, str], _StoredMemory] = {}
        """By crew, scope and key."""

    async def write(self, memories: Sequence[Memory], options: WriteOptions) -> bool:
        """See `Memories`."""
        if options.call:
            if options.call in self._claims:
                return False
            self._claims[options.call] = _Claim("memory", memories[0].author.run, _now())
        place = memories[0].crew, memories[0].scope
        new = {(*place, each.key) for each in memories}
        old = [at for at in self._memories if at[:2] == place and at not in new]
        expired = [
            at
            for at in old
            if _is_expired(self._memories[at].memory, options.now, options.expired_at)
        ]
        alive = sorted(
            (at for at in old if at not in expired),
            key=lambda at: (self._memories[at].memory.at, at[2]),
            reverse=True,
        )
        for at in [*expired, *alive[max(0, options.most_memories - len(new)) :]]:
            del self._memories[at]
        for number, each in enumerate(memories):
            self._memories[*place, each.key] = _StoredMemory(
                stored=each.model_copy(update={"at": options.now}, deep=True),
                words=frozenset(split_words(search_text(each))),
                embedder=options.embeddings.model if options.embeddings else "",
                vector=options.embeddings.vectors[number] if options.embeddings else (),
            )
        return True

    async def search(
        self,
        crew: CrewName,
        scopes: Sequence[str],
        query: MemoryQuery,
        *,
        now: int,
        expired_at: int = 0,
    ) -> MemorySearchResult:
        """See `Memories`."""
        limit = min(query.limit, MOST_RESULTS)
        found = [
            (stored, memory)
            for (of, scope, _), stored in self._memories.items()
            if of == crew
            and scope in scopes
            and not _is_expired(memory := stored.memory, now, expired_at)
        ]
        by_meaning: list[Memory] = []
        if query.embeddings is not None:
            model, vector = query.embeddings.model, query.embeddings.vectors[0]
            near = [
                (-_similarity(stored, vector, query, now), *_by_age(memory), memory)
                for stored, memory in found
                if stored.embedder == model and len(stored.vector) == len(vector)
            ]
            by_meaning = [each[-1] for each in sorted(near, key=lambda each: each[:-1])[:limit]]
        words = frozenset(query.words[:MOST_WORDS])
        if len(by_meaning) == limit or (by_meaning and not words):
            return MemorySearchResult(memories=tuple(by_meaning), by="meaning")
        ranked = [
            (
                -round(
                    len(words & stored.words) * memory_weight(memory.at, now, query.half_life), 9
                ),
                *_by_age(memory),
                memory,
            )
            for stored, memory in found
            if words & stored.words or not words
        ]
        best = [each[-1] for each in sorted(ranked, key=lambda each: each[:-1])[:limit]]
        return merge_results(by_meaning, best, limit, has_words=bool(words))

    async def list_newest(
        self, crew: CrewName, scope: str | None = None, *, now: int, limit: int = 100
    ) -> list[Memory]:
        """See `Memories`."""
        found = [
            memory
            for memory in self._all()
            if memory.crew == crew
            and scope in {None, memory.scope}
            and not _is_expired(memory, now, -1)
        ]
        return sorted(found, key=_by_age)[:limit]

    async def list_scopes(self, crew: CrewName | None = None) -> list[ScopeCount]:
        """See `Memories`."""
        times: dict[tuple[CrewName, str], list[int]] = {}
        for memory in self._all():
            if crew in {None, memory.crew}:
                times.setdefault((memory.crew, memory.scope), []).append(memory.at)
        return [
            ScopeCount(crew=of, scope=scope, count=len(at), newest=max(at))
            for (of, scope), at in sorted(times.items())
        ]

    async def forget(self, memory_filter: MemoryFilter) -> int:
        """See `Memories`."""
        check_filter(memory_filter)
        removed = [
            at for at, each in self._memories.items() if _matches(each.memory, memory_filter)
        ]
        for at in removed:
            del self._memories[at]
        return len(removed)

    def _all(self) -> Iterator[Memory]:
        return (each.memory for each in self._memories.values())


def _similarity(
    memory: _StoredMemory, vector: Sequence[float], query: MemoryQuery, now: int
) -> float:
    """The similarity of a memory to a query, from 0 to 1, times its weight."""
    return (
        (1 + cosine_similarity(memory.vector, vector))
        / 2
        * memory_weight(memory.stored.at, now, query.half_life)
    )


def _is_expired(memory: Memory, now: int, expired_at: int) -> bool:
    return memory.at <= expired_at or (memory.expires_at is not None and memory.expires_at <= now)


def _by_age(memory: Memory) -> tuple[int, str, str]:
    return -memory.at, memory.scope, memory.key


def _matches(memory: Memory, memory_filter: MemoryFilter) -> bool:
    author = memory.author
    pairs = (
        (memory_filter.crew, memory.crew),
        (memory_filter.scope, memory.scope),
        (memory_filter.key, memory.key),
        (memory_filter.run, author.run),
        (memory_filter.step, author.step),
    )
    return (
        all(wanted in {None, there} for wanted, there in pairs)
        and (memory_filter.before is None or memory.at < memory_filter.before)
        and (
            memory_filter.expired_at is None
            or (memory.expires_at is not None and memory.expires_at <= memory_filter.expired_at)
        )
    )
