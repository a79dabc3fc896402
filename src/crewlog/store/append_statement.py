"""The statement that appends rows: SQL for the tables that get any, and the rows as JSON.

All rows travel as one parameter, because asyncpg inspects each element of an array in Python. The
statement has a part for each table that gets rows, because the server runs parts without rows, too.
`pack`, `dump_json` and the row encryption leave no text that `jsonb` changes or refuses.
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
    RunFacts,
    TagProjection,
)
from crewlog.store.sql import queries

_TableRows: TypeAlias = list[dict[str, Json]]
"""Rows of a table, each with its columns by name; without the run, which is a parameter."""


def append_statement(rows: Rows, seal: RowCipher, execution: str = "") -> tuple[str, ...]:
    """The statement that appends the rows of a batch, and its parameters.

    Its result is one row: the last `ruling` of the run that was stored when the statement began.

    Args:
        rows: The rows.
        seal: What encrypts their texts.
        execution: The execution whose entries they are.
    """
    run = pack(rows.run)
    new: dict[str, _TableRows] = {}
    for table, field, rows_of in _TABLES:
        if facts := getattr(rows, field):
            new[table] = rows_of(facts, run, seal)
    sql = append_sql(tuple(new))
    if rows.journal:
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


def _journal_rows(facts: Sequence[EntryProjection], run: str, seal: RowCipher) -> _TableRows:
    return [
        {
            "position": each.position,
            "digest": each.digest,
            "entry": seal.seal(
                dump_json(each.entry), "entry", run, str(each.position), each.digest
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
            "first": each.first,
            "other": each.link.other,
        }
        for each in facts
    ]


def _body_rows(bodies: Mapping[ContentHash, Json], _: str, seal: RowCipher) -> _TableRows:
    return [
        {"hash": hash_, "body": seal.seal(dump_json(body), "body", hash_)}
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


def _interrupt_rows(facts: Sequence[InterruptProjection], run: str, seal: RowCipher) -> _TableRows:
    return [_interrupt_row(each, run, seal) for each in facts]


def _interrupt_row(facts: InterruptProjection, run: str, seal: RowCipher) -> dict[str, Json]:
    place = run, pack(facts.id)
    question = None if facts.interrupt is None else dump_json(facts.interrupt)
    return {
        "id": pack(facts.id),
        "position": facts.position,
        "at": facts.at,
        "interrupt": seal.encrypt_optional(question, "interrupt", *place),
        "asked": facts.asked,
        "decision": seal.encrypt_optional(pack_optional(facts.decision), "decision", *place),
        "answered_by": seal.encrypt_optional(pack_optional(facts.by), "answered_by", *place),
        "answered": facts.answered,
    }


def _permission_change_rows(positions: Sequence[int], _: str, __: RowCipher) -> _TableRows:
    return [{"position": position} for position in positions]


def _log_source_rows(
    parents: Sequence[tuple[RunId, int, int]], _: str, __: RowCipher
) -> _TableRows:
    return [
        {"parent": pack(parent), "position": position, "left_out": left_out}
        for parent, position, left_out in parents
    ]


def _pending_fork_rows(parts: Sequence[tuple[RunId, int]], _: str, __: RowCipher) -> _TableRows:
    return [{"fork": pack(part), "at": at} for part, at in parts]


def _run_rows(facts: RunFacts, run: str, seal: RowCipher) -> _TableRows:
    return [
        {
            "crew": pack_optional(facts.crew),
            "definition": facts.definition,
            "ruled": facts.ruled,
            "recipe": facts.recipe,
            "started": facts.started,
            "started_by": seal.encrypt_optional(pack_optional(facts.by), "started_by", run),
            "base": facts.base,
            "source": pack_optional(facts.source),
            "reset": facts.reset,
            "status": facts.status,
            "since": facts.since,
            "ended": facts.ended,
            "error": seal.seal(pack(facts.error), "error", run) if facts.error else "",
            "position": facts.position,
        }
    ]


_TABLES: tuple[tuple[str, str, Callable[[Any, str, RowCipher], _TableRows]], ...] = (
    ("journal", "journal", _journal_rows),
    ("links", "links", _link_rows),
    ("bodies", "bodies", _body_rows),
    ("steps", "agents", _step_rows),
    ("checkpoints", "checkpoints", _checkpoint_rows),
    ("tags", "tags", _tag_rows),
    ("interrupts", "interrupts", _interrupt_rows),
    ("rulings", "rulings", _permission_change_rows),
    ("parents", "parents", _log_source_rows),
    ("forks", "parted", _pending_fork_rows),
    ("runs", "state", _run_rows),
)
"""Each table with the field of `Rows` that has what it gets, and what makes its rows of that.

All statements have their tables in this order, so that two that overlap cannot deadlock.
"""
TABLES = tuple(table for table, _, _ in _TABLES)
"""The tables that a batch may add rows to."""
