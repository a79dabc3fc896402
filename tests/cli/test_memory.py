"""`crewlog memory`: what people see of what crews remember."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

import pytest

from cli.conftest import Cli


@pytest.fixture
def cli(home: Path, tmp_path: Path) -> Cli:
    return Cli(home, tmp_path)


def test_it_is_written_read_and_forgotten(cli: Cli) -> None:
    crew = f"m{secrets.token_hex(4)}"
    done = cli(
        "memory", "write", crew, "public", "Refunds take\n14 days.", "--key", "r", "--by", "ana"
    )
    assert done.code == 0, done.err
    assert "✓ kept in public: r" in done.out
    cli("memory", "write", crew, "agent:desk", "Be kind.", "Be quick.", "--keep", "1d")
    found = cli("memory", "read", crew, "refunds")
    assert re.match(r"public r  ana · \d+ m?s ago", found.out)
    assert "14 days." in found.out
    assert "Be kind" not in found.out
    data = cli("memory", "read", crew, "kind", "--scope", "agent:desk", "--json").records[0]
    assert (data["by"], [m["text"] for m in data["memories"]]) == ("words", ["Be kind."])
    assert data["memories"][0]["expires_at"] - data["memories"][0]["at"] == 86_400_000
    listed = cli("memory", "list", "--json").records[0]["scopes"]
    assert [(s["scope"], s["count"]) for s in listed if s["crew"] == crew] == [
        ("agent:desk", 2),
        ("public", 1),
    ]
    assert "1 memory removed" in cli("memory", "forget", crew, "public", "--key", "r").out
    assert "Nothing is remembered" in cli("memory", "read", crew, "--scope", "public").out
    refused = cli("memory", "delete", crew)
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert cli("memory", "delete", crew, "--yes", "--json").records == [{"forgotten": 2}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["write", "c", "private:a", "x"], "there is no memory scope 'private:a'"),
        (["write", "c", "public", "x", "y", "--key", "k"], "--key goes with one text"),
        (["write", "c", "public", "x", "--keep", "soon"], "--keep 'soon'"),
        (["write", "c", "public", ""], "a text has a character at least"),
        (["write", "c", "public", "x" * 8_001], "8,001 characters, and one may have 8,000"),
        (["forget", "c"], "say what is to be forgotten"),
        (["forget", "c", "--key", "k"], "a key is unique only within a scope"),
        (["read", "c", "x" * 2_001], "may have 2,000"),
    ],
)
def test_what_cannot_be_is_refused(cli: Cli, arguments: list[str], message: str) -> None:
    done = cli("memory", *arguments)
    assert done.code == 2
    assert message in done.err
