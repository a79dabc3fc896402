"""Which keys the rows of a store are encrypted with, and encrypting them with the current one.

Encrypting them works through tables a few rows at a time, while runs go on: a row that was changed
meanwhile is left, and found by the next pass.
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
from crewlog.store.memories import opened, sealed
from crewlog.store.postgres import PostgresStore
from crewlog.store.protocol import Store

PAGE = 500
"""Rows that are encrypted at a time."""
_PASSES = 1_000_000


_BY_ROW = "memories"
"""A table whose rows are made anew as a whole: their keys and words are codes of the same key."""

Tell = Callable[[str], None]
"""Told how far it is."""


async def key_uses(store: Store) -> dict[str, int]:
    """How many texts each key encrypts, by its id; under an empty one, those that are plain."""
    if not isinstance(store, PostgresStore):
        return {}
    found: dict[str, int] = {}
    for each in COLUMNS:
        sql = (
            f"SELECT CASE WHEN starts_with({each.column}, '{PREFIX}') "  # noqa: S608 - our own names
            f"THEN split_part({each.column}, ':', 3) ELSE '' END AS key, count(*) AS count "
            f"FROM crewlog.{each.table} WHERE {each.where} GROUP BY 1"
        )
        for row in await store.scan(sql):
            found[row["key"]] = found.get(row["key"], 0) + row["count"]
    return found


async def reencrypt(store: Store, tell: Tell) -> int:
    """Encrypts with the current key whatever is encrypted with another one, or plain.

    Returns:
        How many texts; a memory counts as one.

    Raises:
        UsageError: encryption is off, or the store is in memory.
        EncryptionKeyMissing: a key that is needed to read rows is not there.
        DecryptionFailed: a row is plain, and that is not accepted; or it was tampered with.
    """
    if not isinstance(store, PostgresStore) or store.cipher.keys is None:
        raise UsageError(
            "there is nothing to encrypt: encryption is off",
            remedy="Set CREWLOG_ENCRYPTION_KEYS first.",
        )
    done = await _reencrypt_memories(store, store.cipher.keys.current, tell)
    for each in COLUMNS:
        if each.table == _BY_ROW:
            continue
        before = done
        # A text whose key is the current one is skipped by the query, so that each pass is new.
        for _ in range(_PASSES):
            count = await _page(store, each, store.cipher.keys.current)
            if not count:
                break
            done += count
            made = done - before
            tell(f"{each.table}.{each.column}: {made:,} text{'s' * (made != 1)}")
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
    """Removes rows that were changed or moved, or are plain, so that they can be made again.

    What is encrypted with a key that is missing stays.

    Args:
        store: The store.
        run: The run whose rows are made again.
        positions: Its journal positions that are.
        bodies: Bodies that are.
        definitions: Definitions that are. They are made right here: versions of crews name them.
        whole: Whether all of its journal is, and with it what is projected from that.

    Returns:
        How many rows.
    """
    if not isinstance(store, PostgresStore) or store.cipher.keys is None:
        return 0
    mine = pack(run)
    made = {
        "definitions": ("hash = ANY($1::text[])", [*definitions]),
        "bodies": ("hash = ANY($1::text[])", [*bodies]),
        "journal_entries": ("run = $1::text AND position = ANY($2::bigint[])", mine, [*positions]),
        "snapshots": ("run = $1::text AND position = ANY($2::bigint[])", mine, [*positions]),
        **(dict.fromkeys(("interrupts", "runs"), ("run = $1::text", mine)) if whole else {}),
    }
    dropped = 0
    for each in (column for column in COLUMNS if column.table in made):
        where, *arguments = made[each.table]
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
        dropped += len(broken)
    return dropped


def _is_broken(store: PostgresStore, each: Column, row: Any) -> bool:
    try:
        store.cipher.decrypt(row["text"], each.kind, *(str(row[name]) for name in each.place))
    except DecryptionFailed:
        return True
    except EncryptionKeyMissing:
        return False
    return False


async def _reencrypt_memories(store: PostgresStore, current: str, tell: Tell) -> int:
    done = 0
    for _ in range(_PASSES):
        rows = await store.scan(_OLD_MEMORIES, f"{PREFIX}{current}:", PAGE)
        if not rows:
            break
        pairs = [(row, sealed(store.cipher, opened(store.cipher, row))) for row in rows]
        await store.change(
            _SUPERSEDED,
            [(r["crew"], r["scope"], r["key"], new.key) for r, new in pairs if r["key"] != new.key],
        )
        await store.change(
            _REMADE,
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
        tell(f"memories: {done:,} of them")
    return done


_OLD_MEMORIES = """
    SELECT crew, scope, key, encrypted_key, text, metadata, agent, run, step, written_by, at,
        expires
    FROM crewlog.memories
    WHERE encrypted_key IS NULL OR NOT (
        starts_with(encrypted_key, $1) AND starts_with(text, $1) AND starts_with(metadata, $1)
        AND (written_by = '' OR starts_with(written_by, $1))
    )
    LIMIT $2
"""
_SUPERSEDED = """
    DELETE FROM crewlog.memories AS gone USING crewlog.memories AS kept
    WHERE gone.crew = $1 AND gone.scope = $2 AND kept.crew = $1 AND kept.scope = $2
      AND ((gone.key = $3 AND kept.key = $4 AND gone.at <= kept.at)
        OR (gone.key = $4 AND kept.key = $3 AND gone.at < kept.at))
"""
"""One memory may have two rows, if it was written by a process that did not yet know the new key,
and by one that did: the newer counts."""
_REMADE = """
    UPDATE crewlog.memories SET key = $5, encrypted_key = $6, text = $7, metadata = $8,
        words = array_to_tsvector($9::text[]), written_by = $10
    WHERE crew = $1 AND scope = $2 AND key = $3 AND text = $4 AND ($5 = $3 OR NOT EXISTS (
        SELECT FROM crewlog.memories WHERE crew = $1 AND scope = $2 AND key = $5
    ))
"""


async def _page(store: PostgresStore, each: Column, current: str) -> int:
    place = ", ".join(each.place)
    rows = await store.scan(
        f"SELECT {place}, {each.column} AS text FROM crewlog.{each.table} "  # noqa: S608
        f"WHERE {each.where} AND NOT starts_with({each.column}, $1) LIMIT {PAGE}",
        f"{PREFIX}{current}:",
    )
    changed = [_changed(store, each, row) for row in rows]
    matches = " AND ".join(f"{name} = ${at}" for at, name in enumerate(each.place, 3))
    await store.change(
        f"UPDATE crewlog.{each.table} SET {each.column} = $1 "  # noqa: S608
        f"WHERE {each.column} = $2 AND {matches}",
        changed,
    )
    return len(rows)


def _changed(store: PostgresStore, each: Column, row: Any) -> tuple[Any, ...]:
    place = [row[name] for name in each.place]
    bound = [str(part) for part in place]
    text = store.cipher.decrypt(row["text"], each.kind, *bound)
    return store.cipher.encrypt(text, each.kind, *bound), row["text"], *place
