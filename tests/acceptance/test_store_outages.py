"""Postgres goes away, fails over, is read-only, or full: people are told which, and runs wait."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from crewlog.cli import exits
from crewlog.client import Run
from crewlog.dev import postgres

from .harness import LIMIT, Site, calls, make_site, tool, until

QUEUE = "outages"
ROLE = "crew"
"""Who the worker and the commands are for Postgres: no superuser, whose connections it bounds."""
FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'could not extend file "base/5/1249": No space left on device'
    USING ERRCODE = 'disk_full';
END $$
"""


@pytest.fixture(scope="module")
async def whole_site() -> AsyncIterator[Site]:
    """A site whose Postgres is the tests' own to stop."""
    root = Path(tempfile.mkdtemp(prefix="crewlog-outages-"))
    try:
        async with make_site(root, own_services=True) as site:
            await as_superuser(
                site,
                f"CREATE ROLE {ROLE} LOGIN",
                f"GRANT ALL ON SCHEMA crewlog TO {ROLE}",
                f"GRANT ALL ON ALL TABLES IN SCHEMA crewlog TO {ROLE}",
            )
            worker = await site.start_worker(QUEUE, DATABASE_URL=url_of(site))
            await worker.ready()
            yield site
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
async def settled(whole_site: Site) -> AsyncIterator[Site]:
    yield whole_site
    await whole_site.settle()


def url_of(site: Site) -> str:
    return site.endpoints.database_url.replace("postgres@", f"{ROLE}@", 1)


async def as_superuser(site: Site, *statements: str) -> None:
    connection = await asyncpg.connect(
        site.endpoints.database_url, server_settings={"default_transaction_read_only": "off"}
    )
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


async def command(site: Site, *words: str) -> tuple[int, Any]:
    """What a command says, as JSON."""
    environ = {**site.environ(QUEUE), "DATABASE_URL": url_of(site)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crewlog.cli.main", *words, "--json"),
        stdout=asyncio.subprocess.PIPE,
        env=environ,
        cwd=site.root,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, json.loads(out)


@asynccontextmanager
async def away(site: Site) -> AsyncGenerator[str]:
    server = next(r for r in site.services.services.records() if r.name == "postgres")
    assert await asyncio.to_thread(postgres.stop, server.process)
    try:
        yield "Postgres is not available"
    finally:
        await site.services.services.ensure()


@asynccontextmanager
async def read_only(site: Site) -> AsyncGenerator[str]:
    await as_superuser(
        site, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"
    )
    try:
        yield "Postgres is read-only"
    finally:
        await as_superuser(
            site, "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"
        )


@asynccontextmanager
async def full_disk(site: Site) -> AsyncGenerator[str]:
    tables = ("journal_entries", "bodies", "log_links", "runs")
    made = (
        f"CREATE TRIGGER full_disk BEFORE INSERT ON crewlog.{table} EXECUTE FUNCTION full_disk()"
        for table in tables
    )
    await as_superuser(site, FULL, *made)
    try:
        yield "The disk of Postgres is full"
    finally:
        await as_superuser(site, "DROP FUNCTION full_disk CASCADE")


@asynccontextmanager
async def no_connections(site: Site) -> AsyncGenerator[str]:
    await as_superuser(
        site,
        f"ALTER ROLE {ROLE} CONNECTION LIMIT 0",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'",  # noqa: S608
    )
    try:
        yield "Postgres takes no more connections"
    finally:
        await as_superuser(site, f"ALTER ROLE {ROLE} CONNECTION LIMIT -1")


async def at_the_gate(site: Site) -> Run:
    crew = site.crew(
        {"a": [calls(("gate", {"name": "g"})), {"text": "A"}], "b": [{"text": "B"}]},
        tools={"gate": tool("gate", heartbeat=30)},
        rules={"a": {"heartbeat": 30}, "b": {"heartbeat": 30}},
        flow=["a", "b"],
    )
    run = await site.start(crew, queue=QUEUE)
    await until(lambda: site.ledger(run, "start"), "the gate")
    return run


async def until_said(site: Site, said: str, *words: str) -> Any:
    """Waits until a command says something; what it says then."""
    async with asyncio.timeout(LIMIT):
        while True:
            _, found = await command(site, *words)
            if said in json.dumps(found):
                return found


@pytest.mark.timeout(400)
@pytest.mark.parametrize("outage", [away, read_only, full_disk, no_connections])
async def test_people_are_told_which_and_the_run_goes_on(settled: Site, outage: Any) -> None:
    site = settled
    run = await at_the_gate(site)
    async with AsyncExitStack() as stack:
        said = await stack.enter_async_context(outage(site))
        site.open_gate(run, "g")
        await until(lambda: site.ledger(run, "end"), "the tool's end")
        shown = await until_said(site, said, "show", run.id)
        listed = await until_said(site, said, "ps")
        (row,) = [each for each in listed["runs"] if each["run"] == run.id]
        waits = [row["wait_reason"], *(each["message"] for each in row["stalled"])]
        waits += [each["error"] for each in row["pending"]]
        assert any(said in each for each in waits), row
        assert "Runs wait, and continue" in json.dumps(shown) + json.dumps(listed)
        code, checks = await command(site, "doctor")
        assert code == exits.AWAY
        (check,) = [each for each in checks["checks"] if each["name"] == "Postgres"]
        assert check["status"] == "fail"
        assert said in check["detail"]
        assert "Runs wait, and continue" in check["remedy"]
    result = await run.result(LIMIT)
    assert {agent: found["text"] for agent, found in result.outputs.items()} == {"a": "A", "b": "B"}
    assert len(site.ledger(run, "start")) == 1
    _, checks = await command(site, "doctor")
    (check,) = [each for each in checks["checks"] if each["name"] == "Postgres"]
    assert check["status"] == "ok", check
    _, listed = await command(site, "ps", "--all")
    assert listed["store_fault"] is None
    (row,) = [each for each in listed["runs"] if each["run"] == run.id]
    assert (row["wait_reason"], row["stalled"]) == ("", [])


@pytest.mark.timeout(400)
async def test_a_run_moves_to_the_new_primary(settled: Site) -> None:
    """Connections that are open lead to a server that was demoted, new ones to the new primary."""
    site = settled
    run = await at_the_gate(site)
    await as_superuser(
        site,
        f"ALTER ROLE {ROLE} SET default_transaction_read_only = off",
        "ALTER SYSTEM SET default_transaction_read_only = on",
        "SELECT pg_reload_conf()",
    )
    try:
        site.open_gate(run, "g")
        assert (await run.result(LIMIT)).outputs["b"]["text"] == "B"
    finally:
        await as_superuser(
            site,
            f"ALTER ROLE {ROLE} RESET default_transaction_read_only",
            "ALTER SYSTEM RESET default_transaction_read_only",
            "SELECT pg_reload_conf()",
        )
