"""`PostgresStore`: the store over asyncpg.

A method is one statement, so one round trip and one transaction; the SQL is in `queries/`. Only
rare ones use several: the catalog, memories, `accept_executions`, `truncate_journal` and `delete`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Self

import asyncpg

from crewlog.authority.signatures import Signature, SignedApproval
from crewlog.canonical_json import hash_json
from crewlog.encryption.rows import RowCipher
from crewlog.errors import HistoryConflict
from crewlog.ids import AgentName, ContentHash, CrewName, NodeName, RunId, StepId
from crewlog.model import Json
from crewlog.run_status import RunStatus
from crewlog.state.journal import Batch
from crewlog.store.append_statement import append_statement, decode_row
from crewlog.store.codec import dump_json, load_json, pack, pack_optional, search_texts, unpack
from crewlog.store.deletion import check_no_pending_fork, reachable_heads
from crewlog.store.key_check import check_keys
from crewlog.store.memories import Memories, PostgresMemories
from crewlog.store.missing_rows import BODY, DEFINITION, MissingRows
from crewlog.store.pool import Connection, EntryConflictError, Pool
from crewlog.store.projection import (
    InterruptProjection,
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
from crewlog.store.schema import migrate
from crewlog.store.shared_queries import SharedRead, SharedWrite
from crewlog.store.sql import queries

_SCAN_TIMEOUT = 600.0
"""Seconds for a statement that reads whole tables."""


class PostgresStore:
    """A `Store` in a Postgres database, in a schema of its own; made by `PostgresStore.connect`."""

    kind: Literal["postgres", "memory"] = "postgres"

    def __init__(self, pool: Pool, cipher: RowCipher | None = None) -> None:
        self.cipher = cipher or RowCipher(None, "")
        """Encrypts the texts of rows."""
        self._pool = pool
        self._sql = queries()
        self.memories: Memories = PostgresMemories(pool, self._sql, self.cipher)
        self._shared_permission_positions = SharedRead(self._read_last_permission_positions)
        self._shared_executions = SharedRead(self._read_executions)
        self._shared_bodies = SharedWrite(self._write_bodies)

    @classmethod
    async def connect(
        cls,
        dsn: str,
        *,
        max_size: int = 10,
        cipher: RowCipher | None = None,
        allow_unreadable: bool = False,
    ) -> Self:
        """Connects, and brings the database to the schema of this version.

        Args:
            dsn: A `postgresql://` URL.
            max_size: How many connections to hold at most.
            cipher: Encrypts the texts of rows; by default they are plain.
            allow_unreadable: Whether to open the store even if the cipher cannot decrypt its rows.

        Raises:
            StoreUnavailable: the server does not answer or refuses, or another build of Crewlog
                has made the schema.
            DecryptionFailed: it has plain rows, which are not accepted, or belongs to another
                namespace.
            EncryptionKeyMissing: its rows are encrypted, and the process has no keys.
        """
        pool = await Pool.connect(dsn, max_size=max_size)
        try:
            async with pool.acquire() as connection:
                await migrate(connection, place=pool.place)
                if not allow_unreadable:
                    await check_keys(connection, cipher or RowCipher(None, ""), pool.place)
        except BaseException:
            await pool.close()
            raise
        return cls(pool, cipher)

    async def _fetch(self, name: str, *args: object) -> list[asyncpg.Record]:
        return await self._pool.fetch(self._sql[name], *args)

    async def scan(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """Runs a query of `reencryption`, which may read whole tables."""
        async with self._pool.acquire() as connection:
            return await connection.fetch(sql, *args, timeout=_SCAN_TIMEOUT)

    async def change(self, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Runs a statement of `reencryption` for each row, all or none."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.executemany(sql, rows)

    async def put_definition(self, run: RunId, definition: Mapping[str, Json]) -> ContentHash:
        """See `Store`."""
        hash_ = hash_json(dict(definition))
        await self._fetch("put_definition", pack(run), hash_, self._definition(hash_, definition))
        return hash_

    async def get_definition(self, hash_: ContentHash) -> dict[str, Json]:
        """See `Store`."""
        rows = await self._fetch("get_definition", hash_)
        if not rows:
            raise MissingRows(DEFINITION, [hash_], self._pool.place)
        text = self.cipher.decrypt(rows[0]["definition"], "definition", hash_)
        definition: dict[str, Json] = load_json(text)
        return definition

    def _definition(self, hash_: ContentHash, definition: Mapping[str, Json]) -> str:
        return self.cipher.encrypt(dump_json(dict(definition)), "definition", hash_)

    def _journal_row(self, run: str, row: asyncpg.Record) -> JournalRow:
        """An entry; `run` is the packed id."""
        place = (run, str(row["position"]), row["hash"])
        text = self.cipher.decrypt(row["entry"], "entry", *place)
        return JournalRow(row["position"], load_json(text), row["hash"])

    async def register_crew(
        self, name: CrewName, definition: Mapping[str, Json], at: int
    ) -> CrewRow:
        """See `Store`."""
        hash_ = hash_json(dict(definition))
        text, packed = self._definition(hash_, definition), pack(name)

        async def put(connection: Connection) -> CrewRow:
            await connection.execute(self._sql["lock_crew"], packed)
            await connection.execute(self._sql["put_definitions"], [hash_], [text])
            rows = await connection.fetch(self._sql["get_crew"], packed, None)
            if not rows or rows[0]["definition"] != hash_:
                rows = await connection.fetch(self._sql["put_crew"], packed, hash_, at)
            return _crew(rows[0])

        return await self._pool.transact(put)

    async def get_crew(self, name: CrewName, version: int | None = None) -> CrewRow | None:
        """See `Store`."""
        rows = await self._fetch("get_crew", pack(name), version)
        return _crew(rows[0]) if rows else None

    async def remove_crew(self, name: CrewName) -> int:
        """See `Store`."""
        return int((await self._fetch("remove_crew", pack(name)))[0]["versions"])

    async def default_crew(self) -> CrewName | None:
        """See `Store`."""
        rows = await self._fetch("default_crew")
        return CrewName(unpack(rows[0]["name"])) if rows else None

    async def set_default_crew(self, name: CrewName | None) -> None:
        """See `Store`."""
        if name is None:
            await self._fetch("unset_default_crew")
        else:
            await self._fetch("set_default_crew", pack(name))

    async def list_crews(self, *, all_versions: bool = False) -> list[CrewRow]:
        """See `Store`."""
        name = "list_crew_versions" if all_versions else "list_crews"
        return [_crew(row) for row in await self._fetch(name)]

    async def register(
        self, contents: Mapping[tuple[Kind, str], Mapping[str, Json]], at: int
    ) -> list[CatalogRow]:
        """See `Store`."""
        data = [dict(content) for content in contents.values()]
        hashes = [hash_json(content) for content in data]
        texts = {
            hash_: self._definition(hash_, each) for hash_, each in zip(hashes, data, strict=True)
        }
        kinds = [kind for kind, _ in contents]
        names = [pack(name) for _, name in contents]
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(self._sql["lock_catalog"])
            await connection.execute(self._sql["put_definitions"], list(texts), [*texts.values()])
            await connection.execute(self._sql["put_catalog_entries"], kinds, names, hashes, at)
            rows = await connection.fetch(self._sql["newest_catalog_entries"], kinds, names)
            return [_catalog_row(row) for row in rows]

    async def get_catalog_entry(
        self, kind: Kind, name: str, version: int | None = None
    ) -> CatalogRow | None:
        """See `Store`."""
        rows = await self._fetch("get_catalog_entry", kind, pack(name), version)
        return _catalog_row(rows[0]) if rows else None

    async def list_catalog_entries(self, kind: Kind, name: str | None = None) -> list[CatalogRow]:
        """See `Store`."""
        if name is not None:
            rows = await self._fetch("list_catalog_versions", kind, pack(name))
        else:
            rows = await self._fetch("list_catalog_entries", kind)
        return [_catalog_row(row) for row in rows]

    async def put_bodies(self, run: RunId, bodies: Mapping[ContentHash, Json]) -> None:
        """See `Store`."""
        if bodies:
            await self._shared_bodies.put({(run, hash_): body for hash_, body in bodies.items()})

    async def _write_bodies(self, bodies: Mapping[tuple[RunId, ContentHash], Json]) -> None:
        runs: list[str] = []
        hashes: list[ContentHash] = []
        texts: list[str] = []
        for (run, hash_), body in bodies.items():
            runs.append(pack(run))
            hashes.append(hash_)
            texts.append(self.cipher.encrypt(dump_json(body), "body", hash_))
        await self._fetch("put_bodies", runs, hashes, texts)

    async def get_bodies(self, hashes: Collection[ContentHash]) -> dict[ContentHash, Json]:
        """See `Store`."""
        wanted = set(hashes)
        if not wanted:
            return {}
        rows = await self._fetch("get_bodies", list(wanted))
        texts = (
            (row["hash"], self.cipher.decrypt(row["body"], "body", row["hash"])) for row in rows
        )
        found = {hash_: load_json(text) for hash_, text in texts}
        if missing := wanted - found.keys():
            raise MissingRows(BODY, missing, self._pool.place)
        return {hash_: found[hash_] for hash_ in hashes}

    async def claim(
        self, run: RunId, key: str, owner: str, *, permissions_as_of: int | None = None
    ) -> str:
        """See `Store`."""
        rows = await self._fetch("claim", key, owner, pack(run), permissions_as_of)
        return str(rows[0]["owner"]) if rows else ""

    async def key_owner(self, key: str) -> str | None:
        """See `Store`."""
        rows = await self._fetch("key_owner", key)
        return str(rows[0]["owner"]) if rows else None

    async def approve_tool(
        self, source: str, tool: str, hash_: str, by: str, at: int, description: str
    ) -> None:
        """See `Store`."""
        approver = self.cipher.encrypt(by, "approver", source, tool) if by else ""
        text = self.cipher.encrypt(description, "approved", source, tool)
        await self._fetch("approve_tool", source, tool, hash_, approver, at, text)

    async def list_approved_tools(self, source: str) -> dict[str, str]:
        """See `Store`."""
        rows = await self._fetch("list_approved_tools", source)
        return {str(row["tool"]): str(row["hash"]) for row in rows}

    async def list_approval_times(self, source: str) -> dict[str, int]:
        """See `Store`."""
        rows = await self._fetch("list_approval_times", source)
        return {str(row["tool"]): int(row["at"]) for row in rows}

    async def list_approved_descriptions(self, source: str) -> dict[str, str]:
        """See `Store`."""
        return {
            str(row["tool"]): self.cipher.decrypt(
                row["description"], "approved", source, row["tool"]
            )
            for row in await self._fetch("list_approved_descriptions", source)
        }

    async def put_signed_approval(self, approval: SignedApproval) -> None:
        """See `Store`."""
        signature = approval.signature
        place = approval.source, approval.tool, signature.key
        by = self.cipher.encrypt(approval.by, "approver", *place) if approval.by else ""
        await self._fetch(
            "put_signed_approval",
            *(*place, approval.hash, by),
            *(approval.at, signature.expires, signature.signature),
        )

    async def list_signed_approvals(self, source: str) -> list[SignedApproval]:
        """See `Store`."""
        return [
            SignedApproval(
                source=row["source"],
                tool=row["tool"],
                hash=row["hash"],
                by=self._approver(row, source),
                at=row["at"],
                signature=Signature(
                    key=row["key"], expires=row["expires"], signature=row["signature"]
                ),
            )
            for row in await self._fetch("list_signed_approvals", source)
        ]

    def _approver(self, row: asyncpg.Record, source: str) -> str:
        by: str = row["approver"]
        return self.cipher.decrypt(by, "approver", source, row["tool"], row["key"]) if by else ""

    async def append(
        self,
        run: RunId,
        batch: Batch,
        bodies: Mapping[ContentHash, Json] | None = None,
        *,
        execution: str = "",
    ) -> int:
        """See `Store`."""
        if not batch.entries:
            await self.put_bodies(run, bodies or {})
            return await self.last_permission_position(run)
        rows = project(run, batch, bodies)
        try:
            found = await self._pool.fetch(*append_statement(rows, self.cipher, execution))
        except EntryConflictError as error:
            raise HistoryConflict(run, error.position) from None
        return int(found[0]["position"])

    async def last_permission_position(self, run: RunId) -> int:
        """See `Store`."""
        return await self._shared_permission_positions.get(run)

    async def _read_last_permission_positions(self, runs: Sequence[RunId]) -> dict[RunId, int]:
        rows = await self._fetch("last_permission_positions", [pack(run) for run in runs])
        found = {RunId(unpack(row["run"])): int(row["position"]) for row in rows}
        return {run: found.get(run, 0) for run in runs}

    async def lineage(self, run: RunId) -> set[RunId]:
        """See `Store`."""
        rows = await self._fetch("lineage", pack(run))
        return {RunId(unpack(row["run"])) for row in rows}

    async def lineage_links(self, runs: Collection[RunId]) -> list[LineageLink]:
        """See `Store`."""
        return [
            LineageLink(
                run=RunId(unpack(row["run"])),
                source=RunId(unpack(row["source"])),
                position=row["position"],
                by_merge=row["by_merge"],
            )
            for row in await self._fetch("lineage_links", [pack(run) for run in runs])
        ]

    async def count_call(self, call: str, periods: Sequence[QuotaPeriod], at: int) -> str | None:
        """See `Store`."""
        # Sorted, since they are locked in this order: otherwise two calls could deadlock.
        new = sorted(periods, key=lambda each: each.quota)
        rows = await self._fetch(
            "count_call",
            call,
            [each.quota for each in new],
            [each.period for each in new],
            [each.limit for each in new],
            at,
            at - COUNTED_CALL_RETENTION,
        )
        used_up: str | None = rows[0]["quota"]
        return used_up

    async def release_call(self, call: str, quotas: Collection[str]) -> None:
        """See `Store`."""
        await self._fetch("release_call", call, sorted(quotas))

    async def counted_calls(
        self, periods: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], int]:
        """See `Store`."""
        wanted = sorted(set(periods))
        if not wanted:
            return {}
        rows = await self._fetch(
            "counted_calls", [quota for quota, _ in wanted], [period for _, period in wanted]
        )
        calls = {(row["quota"], row["period"]): int(row["calls"]) for row in rows}
        return {each: calls.get(each, 0) for each in wanted}

    async def reject_executions(self, run: RunId, executions: Collection[str]) -> None:
        """See `Store`."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(self._sql["lock_journal"])
            await connection.execute(self._sql["reject_executions"], pack(run), list(executions))

    async def accepted_executions(self, run: RunId) -> set[str]:
        """See `Store`."""
        return set(await self._shared_executions.get(run))

    async def _read_executions(self, runs: Sequence[RunId]) -> dict[RunId, set[str]]:
        executions: dict[RunId, set[str]] = {run: set() for run in runs}
        for row in await self._fetch("accepted_executions", [pack(run) for run in runs]):
            executions[RunId(unpack(row["run"]))].add(str(row["execution"]))
        return executions

    async def accept_executions(
        self, run: RunId, executions: Collection[str], *, replace: bool = False
    ) -> None:
        """See `Store`."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(self._sql["accept_executions"], pack(run), sorted(executions))
            if replace:
                await connection.execute(
                    self._sql["remove_other_executions"], pack(run), list(executions)
                )

    async def read_log(
        self, head: ContentHash, known: Collection[ContentHash] = ()
    ) -> list[LogLink]:
        """See `Store`."""
        stop = set(known)
        rows = () if head in stop else await self._fetch("read_log", head, list(stop))
        return order_chain(head, [LogLink(**row) for row in rows], stop)

    async def read_journal(self, run: RunId, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """See `Store`."""
        rows = await self._fetch("read_journal", pack(run), after, limit)
        packed = pack(run)
        return contiguous_rows([self._journal_row(packed, row) for row in rows], after)

    async def find_command(self, run: RunId, command: str) -> JournalRow | None:
        """See `Store`."""
        found = await self._fetch("find_command", pack(run), *search_texts("command", command))
        if self.cipher.is_enabled:
            found = [*found, *await self._fetch("encrypted_entries_of_run", pack(run))]
            found.sort(key=lambda row: -row["position"])
        rows = (self._journal_row(pack(run), row) for row in found)
        return next((row for row in rows if row.entry.get("command") == command), None)

    async def get_run(self, run: RunId) -> RunRow | None:
        """See `Store`."""
        rows = await self._fetch("get_run", pack(run))
        return self._run(rows[0]) if rows else None

    async def list_runs(
        self, *, statuses: Sequence[RunStatus] = (), limit: int = 100
    ) -> list[RunRow]:
        """See `Store`."""
        stored = {"running" if status == "waiting" else status for status in statuses}
        rows = await self._fetch("list_runs", list(statuses), list(stored), limit)
        return [self._run(row) for row in rows]

    async def count_runs(self) -> int:
        """See `Store`."""
        (row,) = await self._fetch("count_runs")
        return int(row["count"])

    async def list_interrupts(
        self, run: RunId | None = None, *, open_only: bool = True
    ) -> list[InterruptRow]:
        """See `Store`."""
        name = "list_open_interrupts" if open_only else "list_interrupts"
        return [self._interrupt(row) for row in await self._fetch(name, pack_optional(run))]

    async def list_checkpoints(
        self, run: RunId, after: int = 0, limit: int = 1000, *, pruned: bool = False
    ) -> list[CheckpointRow]:
        """See `Store`."""
        return [
            CheckpointRow(
                run=run,
                position=row["position"],
                kind=row["kind"],
                step=StepId(unpack(row["step"])),
                node=NodeName(unpack(row["node"])),
                agent=None if row["agent"] is None else AgentName(unpack(row["agent"])),
                at=row["at"],
                tags=tuple(unpack(tag) for tag in row["tags"] or ()),
                pruned=row["pruned"],
            )
            for row in await self._fetch("list_checkpoints", pack(run), after, limit, pruned)
        ]

    async def prune(
        self, run: RunId, checkpoints: Collection[int], snapshots: Collection[int], at: int
    ) -> None:
        """See `Store`."""
        if checkpoints:
            await self._fetch("prune_checkpoints", pack(run), list(checkpoints), at)
        if snapshots:
            await self._fetch("prune_snapshots", pack(run), list(snapshots))

    async def put_snapshot(self, run: RunId, snapshot: Snapshot) -> None:
        """See `Store`."""
        place = pack(run), str(snapshot.position)
        state = self.cipher.encrypt(dump_json(snapshot.state), "snapshot", *place)
        await self._fetch("put_snapshot", pack(run), snapshot.position, state)

    async def list_snapshots(self, run: RunId) -> list[int]:
        """See `Store`."""
        return [row["position"] for row in await self._fetch("list_snapshots", pack(run))]

    async def get_snapshot(self, run: RunId, position: int) -> Snapshot | None:
        """See `Store`."""
        rows = await self._fetch("get_snapshot", pack(run), position)
        if not rows:
            return None
        place = pack(run), str(rows[0]["position"])
        state = self.cipher.decrypt(rows[0]["state"], "snapshot", *place)
        return Snapshot(position=rows[0]["position"], state=load_json(state))

    async def truncate_journal(self, run: RunId, after: int = 0) -> None:
        """See `Store`."""
        async with self._pool.acquire() as connection, connection.transaction():
            stored = await connection.fetch(self._sql["truncate_journal"], pack(run), after)
            if stored:
                rows = reproject(run, [self._journal_row(pack(run), row) for row in stored])
                await connection.fetch(*append_statement(rows, self.cipher))

    async def add_pending_fork(self, source: RunId, fork: RunId, at: int) -> bool:
        """See `Store`."""
        return bool(await self._fetch("add_pending_fork", pack(source), pack(fork), at))

    async def list_pending_forks(self, sources: Collection[RunId]) -> list[PendingFork]:
        """See `Store`."""
        found = await self._fetch("list_pending_forks", [pack(source) for source in sources])
        return list(map(_pending_fork, found))

    async def remove_pending_fork(self, source: RunId, fork: RunId) -> None:
        """See `Store`."""
        await self._fetch("remove_pending_fork", pack(source), pack(fork))

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
        ids = [pack(run) for run in runs]
        # Two transactions: the second keeps content that was stored again after the first.
        async with self._deletion() as fetch:
            if not ignore_pending_forks:
                await fetch("lock_runs", ids)
                check_no_pending_fork([*map(_pending_fork, await fetch("list_pending_forks", ids))])
            [deleted] = await fetch("delete_rows", ids)
            await fetch("prune_lineage")
            heads = {row["head"] for row in await fetch("list_shared_heads", ids)}
            links = await fetch("list_links_of_runs", ids) if heads else ()
            parents = {row["head"]: (row["previous"], row["other"]) for row in links}
            await fetch("delete_links", ids, [*reachable_heads(parents, heads)])
            await fetch("delete_references", ids, at)
        async with self._deletion() as fetch:
            [content] = await fetch("collect_content", at - grace)
            [records] = await fetch("delete_records", None if retention is None else at - retention)
            [marked] = await fetch("count_unreferenced")
        return DeletionResult(**deleted, **content, **records, **marked)

    @asynccontextmanager
    async def _deletion(self) -> AsyncGenerator[Callable[..., Awaitable[list[asyncpg.Record]]]]:
        """A transaction of a deletion, which runs queries by name. They run one after the other."""
        async with self._pool.acquire() as connection, connection.transaction():
            # It reads whole tables: the settings of `pool._PLANNER` would make that slow.
            await connection.execute(
                "SET LOCAL enable_hashjoin = on; SET LOCAL enable_seqscan = on"
            )

            async def fetch(name: str, *args: object) -> list[asyncpg.Record]:
                return await connection.fetch(self._sql[name], *args, timeout=_SCAN_TIMEOUT)

            await fetch("lock_delete")
            yield fetch

    def _run(self, row: asyncpg.Record) -> RunRow:
        found = decode_row("runs", dict(row), self.cipher)
        run, is_waiting = RunId(unpack(found.pop("run"))), found.pop("has_open_interrupt")
        return run_row(run, RunProjection(**found), has_open_interrupt=is_waiting)

    def _interrupt(self, row: asyncpg.Record) -> InterruptRow:
        found = decode_row("interrupts", dict(row), self.cipher)
        return interrupt_row(RunId(unpack(found.pop("run"))), InterruptProjection(**found))

    async def close(self) -> None:
        """See `Store`."""
        await self._pool.close()


def _pending_fork(row: asyncpg.Record) -> PendingFork:
    return PendingFork(
        source=RunId(unpack(row["source"])), fork=RunId(unpack(row["fork"])), at=row["at"]
    )


def _crew(row: asyncpg.Record) -> CrewRow:
    return CrewRow(
        name=CrewName(unpack(row["name"])),
        version=row["version"],
        definition=ContentHash(row["definition"]),
        at=row["at"],
    )


def _catalog_row(row: asyncpg.Record) -> CatalogRow:
    return CatalogRow(
        kind=row["kind"],
        name=unpack(row["name"]),
        version=row["version"],
        content=ContentHash(row["content"]),
        at=row["at"],
    )
