"""What commands report where the server does not have the namespace of the environment."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from crewlog.client import Endpoints

from .conftest import Cli, Done

MISSING = "no-such-namespace"


@pytest.fixture
def cli(tmp_path: Path, project: Path) -> Cli:
    return Cli(tmp_path / "home", project)


async def call(cli: Cli, server: Endpoints, *words: str) -> Done:
    return await asyncio.to_thread(
        cli,
        *words,
        TEMPORAL_ADDRESS=server.address,
        TEMPORAL_NAMESPACE=MISSING,
        TEMPORAL_CONFIG_FILE="/dev/null",
        DATABASE_URL="memory:",
    )


@pytest.mark.parametrize(
    "words",
    [
        ("ps",),
        ("show", "notes-1"),
        ("watch", "notes-1"),
        ("stop", "notes-1"),
        ("run", "two.yaml"),
        ("schedule", "list"),
        ("worker",),
        ("dev", "--detach"),
    ],
    ids=" ".join,
)
async def test_the_command_names_the_missing_namespace(
    cli: Cli, server: Endpoints, words: tuple[str, ...]
) -> None:
    done = await call(cli, server, *words)
    assert done.code == 2, done.err
    assert f"the Temporal server has no namespace '{MISSING}'" in done.err
    assert server.address in done.err
    assert "Correct TEMPORAL_NAMESPACE" in done.err
    assert "there is no run" not in done.err


async def test_the_error_has_its_kind_in_json(cli: Cli, server: Endpoints) -> None:
    done = await call(cli, server, "ps", "--json")
    assert done.code == 2
    told = json.loads(done.err)["error"]
    assert told["type"] == "NamespaceNotFound"


async def test_the_doctor_names_the_missing_namespace(cli: Cli, server: Endpoints) -> None:
    done = await call(cli, server, "doctor")
    assert done.code == 5
    text = " ".join(done.out.split())
    assert f"✗ Namespace the Temporal server has no namespace '{MISSING}'" in text
    assert f"operator namespace create --address {server.address}" in text
