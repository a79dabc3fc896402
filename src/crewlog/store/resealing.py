"""Which keys the rows of a store are encrypted with, and encrypting them with the current one.

It works through tables a few rows at a time, while runs go on: a row that was changed meanwhile is
left, and found by the next pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crewlog.encryption.rows import PREFIX
from crewlog.errors import UsageError
from crewlog.store.postgres import PostgresStore
from crewlog.store.protocol import Store

PAGE = 500
"""Rows that are encrypted at a time."""
_PASSES = 1_000_000


@dataclass(frozen=True)
class Column:
    """A column that is encrypted."""

    table: str
    column: str
    kind: str
    """What its texts are bound to as, see `RowSeal.seal`."""
    place: tuple[str, ...]
    """The columns that say where a text stands, in the order in which it is bound to them."""

    @property
    def where(self) -> str:
        """What holds texts at all: an empty error is none."""
        return f"{self.column} IS NOT NULL AND {self.column} <> ''"


COLUMNS = (
    Column("definitions", "definition", "definition", ("hash",)),
    Column("bodies", "body", "body", ("hash",)),
    Column("journal", "entry", "entry", ("run", "position", "digest")),
    Column("snapshots", "state", "snapshot", ("run", "position")),
    Column("interrupts", "interrupt", "interrupt", ("run", "id")),
    Column("interrupts", "decision", "decision", ("run", "id")),
    Column("interrupts", "answered_by", "answered_by", ("run", "id")),
    Column("runs", "started_by", "started_by", ("run",)),
    Column("runs", "error", "error", ("run",)),
    Column("memories", "text", "memory", ("crew", "scope", "key")),
    Column("memories", "metadata", "memory_metadata", ("crew", "scope", "key")),
)
"""All that is encrypted; docs/authority/encryption.md lists it."""

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


async def reseal(store: Store, tell: Tell) -> int:
    """Encrypts with the current key whatever is encrypted with another one, or plain.

    Returns:
        How many texts.

    Raises:
        UsageError: encryption is off, or the store is in memory.
        KeyMissing: a key that is needed to read rows is not there.
        SealBroken: a row is plain, and that is not accepted; or it was tampered with.
    """
    if not isinstance(store, PostgresStore) or store.seal.keys is None:
        raise UsageError(
            "there is nothing to encrypt: encryption is off",
            remedy="Set CREWLOG_ENCRYPTION_KEYS first.",
        )
    done = 0
    for each in COLUMNS:
        # A text whose key is the current one is skipped by the query, so that each pass is new.
        for _ in range(_PASSES):
            count = await _page(store, each, store.seal.keys.current)
            if not count:
                break
            done += count
            tell(f"{each.table}.{each.column}: {done:,} texts")
    return done


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
    text = store.seal.open(row["text"], each.kind, *bound)
    return store.seal.seal(text, each.kind, *bound), row["text"], *place
