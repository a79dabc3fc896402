"""Counts the texts of a store by their keys, and encrypts them with the current key.

Rows are encrypted a page at a time while runs continue. A row that changes meanwhile is skipped,
and found by the next pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from crewlog.encryption.rows import PREFIX
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing, UsageError
from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.store.codec import dump_json, pack
from crewlog.store.key_check import COLUMNS, Column
from crewlog.store.memories import decrypt_memory, encrypt_memory
from crewlog.store.postgres import PostgresStore
from crewlog.store.projection import TABLES
from crewlog.store.protocol import Store

PAGE = 500
"""Rows that are encrypted at a time."""
_PASSES = 1_000_000
_WHOLE_ROWS = "memories"
"""A table whose rows are encrypted as a whole, since their keys and words are codes of the key."""

ReportProgress = Callable[[str], None]
"""Receives a line of progress."""


async def key_uses(store: Store) -> dict[str, int]:
    """The number of texts by the id of their key; plain ones under an empty id."""
    if not isinstance(store, PostgresStore):
        return {}
    counts: dict[str, int] = {}
    for each in COLUMNS:
        sql = (
            f"SELECT CASE WHEN starts_with({each.column}, '{PREFIX}') "  # noqa: S608 - our own names
            f"THEN split_part({each.column}, ':', 3) ELSE '' END AS key, count(*) AS count "
            f"FROM crewlog.{each.table} WHERE {each.where} GROUP BY 1"
        )
        for row in await store.scan(sql):
            counts[row["key"]] = counts.get(row["key"], 0) + row["count"]
    return counts


async def reencrypt(store: Store, report: ReportProgress) -> int:
    """Encrypts all texts with the current key that are plain or encrypted with another key.

    Args:
        store: The store.
        report: Receives the progress.

    Returns:
        The number of texts; a memory counts as one.

    Raises:
        UsageError: encryption is off, or the store is in memory.
        EncryptionKeyMissing: the process lacks the key of a row.
        DecryptionFailed: a row is plain, which is not accepted, or was changed.
    """
    if not isinstance(store, PostgresStore) or store.cipher.keys is None:
        raise UsageError(
            "there is nothing to encrypt: encryption is off",
            remedy="Set CREWLOG_ENCRYPTION_KEYS first.",
        )
    done = await _reencrypt_memories(store, store.cipher.keys.current, report)
    for each in COLUMNS:
        if each.table == _WHOLE_ROWS:
            continue
        before = done
        # The query skips texts with the current key, so each pass finds other rows.
        for _ in range(_PASSES):
            count = await _reencrypt_page(store, each, store.cipher.keys.current)
            if not count:
                break
            done += count
            total = done - before
            report(f"{each.table}.{each.column}: {total:,} text{'s' * (total != 1)}")
    return done


async def delete_unreadable_rows(
    store: Store,
    run: RunId,
    positions: Collection[int],
    bodies: Collection[ContentHash],
    definitions: Mapping[ContentHash, Mapping[str, Json]],
    *,
    whole: bool,
) -> int:
    """Removes rows that were changed or moved, or are plain, before a rebuild stores them again.

    Rows that are encrypted with a missing key stay.

    Args:
        store: The store.
        run: The run that is rebuilt.
        positions: The journal positions that the rebuild stores again.
        bodies: The bodies that it stores again.
        definitions: Its definitions. They are replaced instead of removed, since crews refer to
            them.
        whole: Whether it stores the whole journal again, and the rows that are projected from it.

    Returns:
        The number of rows.
    """
    if not isinstance(store, PostgresStore) or store.cipher.keys is None:
        return 0
    packed = pack(run)
    conditions: dict[str, tuple[Any, ...]] = {
        "definitions": ("hash = ANY($1::text[])", [*definitions]),
        "bodies": ("hash = ANY($1::text[])", [*bodies]),
        "journal_entries": (
            "run = $1::text AND position = ANY($2::bigint[])",
            packed,
            [*positions],
        ),
        "snapshots": ("run = $1::text AND position = ANY($2::bigint[])", packed, [*positions]),
    }
    if whole:
        projected = {column.table for column in COLUMNS} & {*TABLES} - conditions.keys()
        conditions |= dict.fromkeys(projected, ("run = $1::text", packed))
    count = 0
    for each in (column for column in COLUMNS if column.table in conditions):
        where, *arguments = conditions[each.table]
        rows = await store.scan(
            f"SELECT {', '.join(each.place)}, {each.column} AS text FROM crewlog.{each.table} "  # noqa: S608
            f"WHERE {each.where} AND {where}",
            *arguments,
        )
        broken = [row for row in rows if _is_broken(store, each, row)]
        if each.table == "definitions":
            contents = [(row["hash"], dump_json(dict(definitions[row["hash"]]))) for row in broken]
            await store.change(
                "UPDATE crewlog.definitions SET definition = $2 WHERE hash = $1",
                [(hash_, store.cipher.encrypt(text, each.kind, hash_)) for hash_, text in contents],
            )
        else:
            matches = " AND ".join(f"{name} = ${at}" for at, name in enumerate(each.place, 2))
            await store.change(
                f"DELETE FROM crewlog.{each.table} WHERE {each.column} = $1 AND {matches}",  # noqa: S608
                [(row["text"], *(row[name] for name in each.place)) for row in broken],
            )
        count += len(broken)
    return count


def _is_broken(store: PostgresStore, each: Column, row: Any) -> bool:
    try:
        store.cipher.decrypt(row["text"], each.kind, *(str(row[name]) for name in each.place))
    except DecryptionFailed:
        return True
    except EncryptionKeyMissing:
        return False
    return False


async def _reencrypt_memories(store: PostgresStore, current: str, tell: ReportProgress) -> int:
    done = 0
    for _ in range(_PASSES):
        rows = await store.scan(_OLD_MEMORIES, f"{PREFIX}{current}:", PAGE)
        if not rows:
            break
        pairs = [
            (row, encrypt_memory(store.cipher, decrypt_memory(store.cipher, row))) for row in rows
        ]
        await store.change(
            _DELETE_OLDER,
            [(r["crew"], r["scope"], r["key"], new.key) for r, new in pairs if r["key"] != new.key],
        )
        await store.change(
            _UPDATE_MEMORY,
            [
                (
                    *(r["crew"], r["scope"], r["key"], r["text"]),
                    *(
                        new.key,
                        new.encrypted_key,
                        new.text,
                        new.metadata,
                        new.words,
                        new.written_by,
                    ),
                )
                for r, new in pairs
            ],
        )
        done += len(rows)
        tell(f"memories: {done:,} rows")
    return done


_OLD_MEMORIES = """
    SELECT crew, scope, key, encrypted_key, text, metadata, agent, run, step, written_by, at,
        expires_at
    FROM crewlog.memories
    WHERE encrypted_key IS NULL OR NOT (
        starts_with(encrypted_key, $1) AND starts_with(text, $1) AND starts_with(metadata, $1)
        AND (written_by = '' OR starts_with(written_by, $1))
    )
    LIMIT $2
"""
_DELETE_OLDER = """
    DELETE FROM crewlog.memories AS old USING crewlog.memories AS new
    WHERE old.crew = $1 AND old.scope = $2 AND new.crew = $1 AND new.scope = $2
      AND ((old.key = $3 AND new.key = $4 AND old.at <= new.at)
        OR (old.key = $4 AND new.key = $3 AND old.at < new.at))
"""
"""A memory has two rows if processes with and without the new key wrote it: the newer one stays."""
_UPDATE_MEMORY = """
    UPDATE crewlog.memories SET key = $5, encrypted_key = $6, text = $7, metadata = $8,
        words = array_to_tsvector($9::text[]), written_by = $10
    WHERE crew = $1 AND scope = $2 AND key = $3 AND text = $4 AND ($5 = $3 OR NOT EXISTS (
        SELECT FROM crewlog.memories WHERE crew = $1 AND scope = $2 AND key = $5
    ))
"""


async def _reencrypt_page(store: PostgresStore, each: Column, current: str) -> int:
    place = ", ".join(each.place)
    rows = await store.scan(
        f"SELECT {place}, {each.column} AS text FROM crewlog.{each.table} "  # noqa: S608
        f"WHERE {each.where} AND NOT starts_with({each.column}, $1) LIMIT {PAGE}",
        f"{PREFIX}{current}:",
    )
    updates = [_reencrypted_row(store, each, row) for row in rows]
    matches = " AND ".join(f"{name} = ${at}" for at, name in enumerate(each.place, 3))
    await store.change(
        f"UPDATE crewlog.{each.table} SET {each.column} = $1 "  # noqa: S608
        f"WHERE {each.column} = $2 AND {matches}",
        updates,
    )
    return len(rows)


def _reencrypted_row(store: PostgresStore, each: Column, row: Any) -> tuple[Any, ...]:
    place = [row[name] for name in each.place]
    bound = [str(part) for part in place]
    text = store.cipher.decrypt(row["text"], each.kind, *bound)
    return store.cipher.encrypt(text, each.kind, *bound), row["text"], *place
