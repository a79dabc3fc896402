"""The statement that appends rows: the SQL for the tables that get rows, and the rows as JSON.

All rows are one parameter, because asyncpg inspects each element of an array in Python. The
statement has parts only for tables that get rows, because the server would run empty parts, too.
`jsonb` returns the rows unchanged, since `pack`, `dump_json` and encryption make safe texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from crewlog.encryption.rows import RowCipher
from crewlog.model import Json
from crewlog.store.codec import dump_json, load_json, pack, unpack
from crewlog.store.key_check import COLUMNS
from crewlog.store.projection import TABLES, Rows
from crewlog.store.sql import queries

_JSON_COLUMNS = {"journal_entries": ("entry",), "bodies": ("body",), "interrupts": ("interrupt",)}
_PACKED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "steps": ("step", "agent"),
    "checkpoints": ("step", "node"),
    "tags": ("tag",),
    "interrupts": ("id", "decision", "answered_by"),
    "log_sources": ("source",),
    "pending_forks": ("fork",),
    "runs": ("crew", "source", "started_by", "error"),
}
"""The columns with texts that are not made by the code."""
_ENCRYPTED_COLUMNS = {
    table: [column for column in COLUMNS if column.table == table] for table in TABLES
}


def append_statement(rows: Rows, cipher: RowCipher, execution: str = "") -> tuple[str, ...]:
    """The statement that appends the rows of a batch, and its parameters.

    Its result is one row: the `position` of the last permission change of the run before this
    batch.

    Args:
        rows: The rows of the batch.
        cipher: Encrypts their texts.
        execution: The execution that sends the entries.
    """
    run, is_encrypted = pack(rows.run), cipher.is_enabled
    new: dict[str, list[dict[str, Json]]] = {}
    for table in TABLES:
        if found := getattr(rows, table):
            new[table] = encoded = [
                dict(zip(row._fields, row, strict=True)) for row in found.values()
            ]
            if table in _JSON_COLUMNS or table in _PACKED_COLUMNS:
                _encode_rows(table, encoded)
            if is_encrypted:
                _encrypt_rows(table, encoded, run, cipher)
    sql = append_sql(tuple(new))
    if rows.journal_entries:
        return sql, run, dump_json(new), execution
    return (sql, run, dump_json(new)) if new else (sql, run)


@cache
def append_sql(tables: tuple[str, ...]) -> str:
    """The SQL that appends rows to some tables.

    Args:
        tables: The tables, in the order of `TABLES`.
    """
    sql = queries()
    parts = ",\n".join(f"{table}_rows AS (\n{sql[f'append_{table}']}\n)" for table in tables)
    return (
        f"WITH {parts}\n{sql['last_permission_position']}"
        if parts
        else sql["last_permission_position"]
    )


def _encode_rows(table: str, rows: list[dict[str, Json]]) -> None:
    """Packs texts, and makes JSON a text."""
    for name in _PACKED_COLUMNS.get(table, ()):
        for row in rows:
            if row[name] is not None:
                row[name] = pack(row[name])
    for name in _JSON_COLUMNS.get(table, ()):
        for row in rows:
            if row[name] is not None or table == "bodies":
                row[name] = dump_json(row[name])


def _encrypt_rows(table: str, rows: list[dict[str, Json]], run: str, cipher: RowCipher) -> None:
    for each in _ENCRYPTED_COLUMNS[table]:
        for row in rows:
            if not _is_plain(each.name, row[each.column]):
                place = [run if name == "run" else str(row[name]) for name in each.place]
                row[each.column] = cipher.encrypt(row[each.column], each.kind, *place)


def decode_row(table: str, row: Mapping[str, Any], cipher: RowCipher) -> dict[str, Json]:
    """Decrypts and unpacks the columns of a row.

    Args:
        table: The table.
        row: The columns of the row, with those that its texts are bound to.
        cipher: Decrypts the texts.
    """
    found = dict(row)
    for each in _ENCRYPTED_COLUMNS[table]:
        if not _is_plain(each.name, row[each.column]):
            bound = [str(row[name]) for name in each.place]
            found[each.column] = cipher.decrypt(row[each.column], each.kind, *bound)
    for name in _PACKED_COLUMNS.get(table, ()):
        if found[name] is not None:
            found[name] = unpack(found[name])
    for name in _JSON_COLUMNS.get(table, ()):
        if found[name] is not None:
            found[name] = load_json(found[name])
    return found


def _is_plain(column: str, text: str | None) -> bool:
    """Whether a value is not encrypted: no text, or no error of a run."""
    return text is None or (column == "runs.error" and not text)
