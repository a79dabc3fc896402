"""Starting, registering, listing, connecting."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus

import crewlog
from client import crews
from crewlog import connect
from crewlog.client import Endpoints
from crewlog.definition.load import load_data
from crewlog.errors import (
    InvalidDefinition,
    RunAlreadyExists,
    StoreUnavailable,
    TemporalUnavailable,
    UsageError,
)
from crewlog.store import InMemoryStore
from shared import LIMIT, Lab


@pytest.mark.usefixtures("worker")
async def test_the_four_ways_to_name_a_crew(lab: Lab, tmp_path: Path) -> None:
    data = crews.line()
    file = tmp_path / "notes.json"
    file.write_text(json.dumps(data))
    row = await lab.client.register(file)
    assert (row.name, row.version) == ("notes", 1)
    for crew in ("notes", str(file), file, data, load_data(data)):
        run = await lab.start(crew)
        assert re.fullmatch(r"notes-[a-z2-7]{4}", run.id)
        result = await run.result(LIMIT)
        assert result.outputs["checker"]["text"] == "fine"


async def test_an_unknown_name_is_told_with_what_looks_like_it(lab: Lab) -> None:
    await lab.client.register(crews.line())
    with pytest.raises(UsageError, match="there is no crew 'note'") as caught:
        await lab.start("note")
    assert "Did you mean 'notes'?" in caught.value.remedy


async def test_a_definition_with_faults_is_not_started(lab: Lab) -> None:
    with pytest.raises(InvalidDefinition):
        await lab.start({"crew": "x"})


async def test_an_id_is_used_once(lab: Lab) -> None:
    run = await lab.start(crews.line(), id=f"once-{lab.client.task_queue}")
    for told, remedy in (
        ("and it is open", "--existing replace"),
        ("ids of ended runs are not used again", "crewlog show"),
    ):
        with pytest.raises(RunAlreadyExists, match=told) as caught:
            await lab.start(crews.line(), id=run.id)
        assert "--id" in caught.value.remedy
        assert remedy in caught.value.remedy
        handle = lab.client.temporal.get_workflow_handle(run.id)
        if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await run.terminate()


@pytest.mark.parametrize("wrong", ["", "../x", "a b", "a/b", "-x", "x" * 201, "a\n"])
async def test_what_cannot_be_an_id(lab: Lab, wrong: str) -> None:
    with pytest.raises(UsageError, match="cannot be a run's id"):
        await lab.start(crews.line(), id=wrong)


@pytest.mark.usefixtures("worker")
async def test_list(lab: Lab) -> None:
    done = await lab.start(crews.line())
    await done.result(LIMIT)
    asking = await lab.start(crews.asking())
    await asking.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    ended = await lab.start(crews.asking())
    await ended.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    await ended.terminate()
    wanted = {done.id: "completed", asking.id: "waiting", ended.id: "terminated"}
    async with asyncio.timeout(LIMIT):
        while True:  # visibility is eventually consistent
            found = {s.run: s for s in await lab.client.list(limit=200)}
            if {run: found[run].status for run in wanted if run in found} == wanted:
                break
            await asyncio.sleep(0.1)
    assert {found[run].crew for run in wanted} == {"notes"}
    assert found[done.id].ended
    assert found[asking.id].ended is None
    assert found[asking.id].url == asking.url
    waiting = await lab.client.list(statuses=["waiting"], limit=200)
    assert asking.id in {s.run for s in waiting}
    assert {s.status for s in waiting} == {"waiting"}
    started = [s.started for s in await lab.client.list(limit=200)]
    assert started == sorted(started, reverse=True)
    await asking.terminate()


async def test_connect_by_the_environment(
    server: Endpoints, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "none.toml"))
    monkeypatch.setenv("CREWLOG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CREWLOG_UI_URL", "http://ui.example/")
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/nothing")
    async with await connect() as client:
        assert client.endpoints == Endpoints(server.address, "default", "http://ui.example")
        assert client.url("a b") == "http://ui.example/namespaces/default/workflows/a%20b"
        await client.list()  # the store is away: Temporal's part is enough
        with pytest.raises(StoreUnavailable):
            await client.register(crews.line())


async def test_connect_without_services(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "none.toml"))
    monkeypatch.setenv("CREWLOG_HOME", str(tmp_path / "home"))
    with pytest.raises(TemporalUnavailable, match="the local one does not run") as caught:
        await connect(services=False)
    assert "crewlog dev" in caught.value.remedy


async def test_the_callers_store_stays_the_callers(server: Endpoints) -> None:
    store = InMemoryStore()
    async with await connect(address=server.address, store=store) as client:
        assert await client.store() is store


def test_importing_the_package_costs_nothing() -> None:
    heavy = ("temporalio", "pydantic", "langchain_core", "asyncpg")
    code = f"import sys, crewlog; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=100
    )
    assert found.stdout.strip() == "[]"


def test_the_lazy_names() -> None:
    assert set(crewlog.__all__) <= set(dir(crewlog))
    assert crewlog.connect is connect
    assert crewlog.__version__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        crewlog.nothing  # type: ignore[attr-defined]  # noqa: B018
