"""The statement that appends rows: the SQL for the tables that get rows, and the rows as JSON.

All rows are one parameter, because asyncpg inspects each element of an array in Python. The
statement has parts only for tables that get rows, because the server would run empty parts, too.
`jsonb` returns the rows unchanged, since `pack`, `dump_json` and encryption make safe texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from crewlog.encryption.rows import RowCipher
from crewlog.ids import AgentName, ContentHash, RunId, StepId
from crewlog.model import Json
from crewlog.store.codec import dump_json, pack, pack_optional
from crewlog.store.projection import (
    CheckpointProjection,
    EntryProjection,
    InterruptProjection,
    LinkProjection,
    Rows,
    RunProjection,
    TagProjection,
)
from crewlog.store.sql import queries

_TableRows: TypeAlias = list[dict[str, Json]]
"""Rows of a table, by column; without the run, which is a parameter of the statement."""


def append_statement(rows: Rows, cipher: RowCipher, execution: str = "") -> tuple[str, ...]:
    """The statement that appends the rows of a batch, and its parameters.

    Its result is one row: the `position` of the last permission change of the run before this
    batch.

    Args:
        rows: The rows of the batch.
        cipher: Encrypts their texts.
        execution: The execution that sends the entries.
    """
    run = pack(rows.run)
    new: dict[str, _TableRows] = {}
    for table, rows_of in _TABLES.items():
        if facts := getattr(rows, table):
            new[table] = rows_of(facts, run, cipher)
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


def _journal_rows(facts: Sequence[EntryProjection], run: str, cipher: RowCipher) -> _TableRows:
    return [
        {
            "position": each.position,
            "hash": each.hash,
            "entry": cipher.encrypt(
                dump_json(each.entry), "entry", run, str(each.position), each.hash
            ),
        }
        for each in facts
    ]


def _link_rows(facts: Sequence[LinkProjection], _: str, __: RowCipher) -> _TableRows:
    return [
        {
            "head": each.link.head,
            "previous": each.link.previous,
            "position": each.link.position,
            "body": each.link.body,
            "is_first": each.is_first,
            "other": each.link.other,
        }
        for each in facts
    ]


def _body_rows(bodies: Mapping[ContentHash, Json], _: str, cipher: RowCipher) -> _TableRows:
    return [
        {"hash": hash_, "body": cipher.encrypt(dump_json(body), "body", hash_)}
        for hash_, body in bodies.items()
    ]


def _step_rows(agents: Sequence[tuple[StepId, AgentName]], _: str, __: RowCipher) -> _TableRows:
    return [{"step": pack(step), "agent": pack(agent)} for step, agent in agents]


def _checkpoint_rows(facts: Sequence[CheckpointProjection], _: str, __: RowCipher) -> _TableRows:
    return [
        {
            "position": each.position,
            "step": pack(each.step),
            "node": pack(each.node),
            "at": each.at,
            "kind": each.kind,
        }
        for each in facts
    ]


def _tag_rows(facts: Sequence[TagProjection], _: str, __: RowCipher) -> _TableRows:
    return [
        {
            "tag": pack(each.tag),
            "checkpoint": each.checkpoint,
            "position": each.position,
            "at": each.at,
        }
        for each in facts
    ]


def _interrupt_rows(
    facts: Sequence[InterruptProjection], run: str, cipher: RowCipher
) -> _TableRows:
    return [_interrupt_row(each, run, cipher) for each in facts]


def _interrupt_row(facts: InterruptProjection, run: str, cipher: RowCipher) -> dict[str, Json]:
    place = run, pack(facts.id)
    question = None if facts.interrupt is None else dump_json(facts.interrupt)
    return {
        "id": pack(facts.id),
        "position": facts.position,
        "at": facts.at,
        "interrupt": cipher.encrypt_optional(question, "interrupt", *place),
        "asked_position": facts.asked_position,
        "decision": cipher.encrypt_optional(pack_optional(facts.decision), "decision", *place),
        "answered_by": cipher.encrypt_optional(
            pack_optional(facts.answered_by), "answered_by", *place
        ),
        "answered_position": facts.answered_position,
    }


def _permission_change_rows(positions: Sequence[int], _: str, __: RowCipher) -> _TableRows:
    return [{"position": position} for position in positions]


def _log_source_rows(
    sources: Sequence[tuple[RunId, int, int]], _: str, __: RowCipher
) -> _TableRows:
    return [
        {"source": pack(source), "position": position, "skipped": skipped}
        for source, position, skipped in sources
    ]


def _pending_fork_rows(forks: Sequence[tuple[RunId, int]], _: str, __: RowCipher) -> _TableRows:
    return [{"fork": pack(fork), "at": at} for fork, at in forks]


def _run_rows(facts: RunProjection, run: str, cipher: RowCipher) -> _TableRows:
    return [
        {
            "crew": pack_optional(facts.crew),
            "definition": facts.definition,
            "definition_position": facts.definition_position,
            "recipe": facts.recipe,
            "started_at": facts.started_at,
            "started_by": cipher.encrypt_optional(
                pack_optional(facts.started_by), "started_by", run
            ),
            "source": pack_optional(facts.source),
            "source_position": facts.source_position,
            "restore_position": facts.restore_position,
            "status": facts.status,
            "status_position": facts.status_position,
            "ended_at": facts.ended_at,
            "error": cipher.encrypt(pack(facts.error), "error", run) if facts.error else "",
            "position": facts.position,
        }
    ]


_TABLES: Mapping[str, Callable[[Any, str, RowCipher], _TableRows]] = {
    "journal_entries": _journal_rows,
    "log_links": _link_rows,
    "bodies": _body_rows,
    "steps": _step_rows,
    "checkpoints": _checkpoint_rows,
    "tags": _tag_rows,
    "interrupts": _interrupt_rows,
    "permission_changes": _permission_change_rows,
    "log_sources": _log_source_rows,
    "pending_forks": _pending_fork_rows,
    "runs": _run_rows,
}
"""The tables that a batch may add rows to, with the functions that build the rows.

All statements have their tables in this order, so that two that overlap cannot deadlock.
"""
TABLES = tuple(_TABLES)
"""The names of these tables in order."""
