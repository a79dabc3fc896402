"""Each table and column of the migrations is named in all places that must know it."""

from __future__ import annotations

import re

import pytest

from crewlog.ids import RunId
from crewlog.store.key_check import COLUMNS
from crewlog.store.projection import TABLES, Rows
from crewlog.store.sql import migrations, queries
from store_tables import NOT_REBUILT_TABLES, PLAIN_COLUMNS, REBUILT_TABLES

SQL = "\n".join(each.sql for each in migrations())
CREATED_TABLE = re.compile(
    r"((?:^--[^\n]*\n)*)^CREATE TABLE crewlog\.(\w+) \((.*?)\);$", re.MULTILINE | re.DOTALL
)
TYPE = r"text|bigint|integer|boolean|tsvector|real\[\]"
COLUMN = re.compile(rf"(?:^|,)\s*(\w+)\s+({TYPE})", re.MULTILINE)
ADDED_COLUMN = re.compile(rf"ALTER TABLE crewlog\.(\w+)\s+ADD COLUMN (\w+)\s+({TYPE})")
TYPES_WITH_TEXT = {"text", "tsvector", "real[]"}
UPDATED_LATER = {
    "definitions.unreferenced_at",
    "bodies.unreferenced_at",
    "checkpoints.pruned_position",
}
"""Columns that no append sets."""
SURVIVES_DELETION = {"memories", "deleted_run_sources", "rejected_executions"}
"""Tables with a column `run` whose rows stay when the run is deleted, or are deleted otherwise."""


def columns() -> dict[str, dict[str, str]]:
    """The columns of each table, with their types."""
    found = {table: dict(COLUMN.findall(text)) for _, table, text in CREATED_TABLE.findall(SQL)}
    for table, column, type_ in ADDED_COLUMN.findall(SQL):
        found[table][column] = type_
    return found


def test_each_column_with_text_is_encrypted_or_listed_as_plain() -> None:
    texts = {
        f"{table}.{column}"
        for table, types in columns().items()
        for column, type_ in types.items()
        if type_ in TYPES_WITH_TEXT
    }
    encrypted = {column.name for column in COLUMNS}
    assert not encrypted & PLAIN_COLUMNS
    assert texts | {"schema_migrations.hash", "schema_migrations.name"} == encrypted | PLAIN_COLUMNS


def test_each_table_is_rebuilt_or_says_that_it_is_not() -> None:
    underived = {
        table
        for comment, table, _ in CREATED_TABLE.findall(SQL)
        if "Not derived from histories" in comment.replace("\n-- ", " ")
    }
    assert underived | {"schema_migrations"} == NOT_REBUILT_TABLES
    assert columns().keys() - underived == REBUILT_TABLES.keys()


def test_each_projected_table_has_its_statement() -> None:
    assert vars(Rows(RunId(""))).keys() - {"run"} == set(TABLES)
    assert {name for name in queries() if name.startswith("append_")} == {
        f"append_{table}" for table in TABLES
    }


@pytest.mark.parametrize("table", TABLES)
def test_each_column_is_appended(table: str) -> None:
    inserted = re.search(
        r"INSERT INTO crewlog\.\w+ (?:AS \w+\s*)?\(([^)]*)\)", queries()[f"append_{table}"]
    )
    assert inserted
    names = {f"{table}.{name.strip()}" for name in inserted[1].split(",")}
    assert names == {f"{table}.{name}" for name in columns()[table]} - UPDATED_LATER


def test_a_deletion_deletes_from_each_table_of_runs() -> None:
    tables = {table for table, types in columns().items() if "run" in types}
    statements = "".join(queries()[f"delete_{name}"] for name in ("rows", "links", "references"))
    deleted = set(re.findall(r"DELETE FROM crewlog\.(\w+)", statements))
    assert tables - deleted == SURVIVES_DELETION


def test_a_truncation_deletes_from_each_projected_table_of_runs() -> None:
    tables = {table for table in TABLES if "run" in columns()[table]}
    deleted = set(re.findall(r"DELETE FROM crewlog\.(\w+)", queries()["truncate_journal"]))
    assert tables - deleted == {"log_links", "content_references"}, "these stay"
