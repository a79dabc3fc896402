"""Clients whose payload folder is not the workers': what they send never holds up a run."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from crewlog.client import Run
from crewlog.client.gateway import FAILING_TRIES, Gateway
from crewlog.errors import UsageError, WorkerMissing
from crewlog.payloads import beside_history, data_converter

from .harness import LIMIT, Site

KB = 1024


async def waiting(crews: Site) -> Run:
    run = await crews.start(crews.crew({"a": [{"text": "A"}]}, flow=[{"ask": "Begin?"}, "a"]))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    return run


async def dialled(crews: Site, folder: Path) -> TemporalClient:
    ends = crews.endpoints
    return await TemporalClient.connect(
        ends.temporal_address, namespace=ends.namespace, data_converter=data_converter(folder)
    )


async def said(crews: Site, run: Run) -> list[str]:
    hashes = [e.message.body for e in await crews.entries(run, "MessageAdded") if e.message]
    bodies = await crews.store.get_bodies(set(hashes))
    return [str(bodies[hash_]["content"]) for hash_ in hashes]


def copy_files(folder: Path, to: Path) -> None:
    shutil.copytree(folder, to, dirs_exist_ok=True)


def files(folder: Path) -> int:
    return sum(each.is_file() for each in folder.rglob("*"))


async def test_what_a_stranger_sends_is_in_the_history(crews: Site, tmp_path: Path) -> None:
    """Through Crewlog's converter and nothing else of it."""
    run = await waiting(crews)
    handle = (await dialled(crews, tmp_path)).get_workflow_handle(run.id)
    text = "x" * 400 * KB
    await handle.signal("message", {"id": "far", "text": text})
    answer = {"id": "a", "interrupt": "i1", "decisions": [{"type": "approve"}], "reason": "r"}
    await handle.execute_update("respond", answer)
    assert (await run.result(LIMIT)).status == "completed"
    assert files(tmp_path) == 0
    assert text in await said(crews, run)


async def test_a_client_finds_out_whether_its_folder_is_shared(crews: Site, tmp_path: Path) -> None:
    run = await waiting(crews)
    far = Gateway(await dialled(crews, tmp_path), "far")
    near = Gateway(await dialled(crews, crews.payloads), "near")
    large, huge = "l" * 400 * KB, "h" * 3000 * KB
    await far.signal(run.id, "message", {"id": "far", "text": large})
    with pytest.raises(UsageError, match="no worker says that it reads") as refused:
        await far.signal(run.id, "message", {"id": "too far", "text": huge})
    assert "CREWLOG_PAYLOADS" in refused.value.remedy
    before = files(crews.payloads)
    await near.signal(run.id, "message", {"id": "near", "text": huge})
    assert files(crews.payloads) > before
    await run.respond("i1", "approve")
    assert (await run.result(LIMIT)).status == "completed"
    assert {large, huge} <= {*await said(crews, run)}
    assert (await run.state()).commands.keys() >= {"far", "near"}


async def test_a_reference_that_nobody_can_read_is_told_and_can_be_mended(
    crews: Site, tmp_path: Path
) -> None:
    """As a client sends it that knows nothing of proofs: the run stands still until it is there."""
    run = await waiting(crews)
    far = (await dialled(crews, tmp_path)).get_workflow_handle(run.id)
    text = "x" * 400 * KB
    with beside_history(True):
        await far.signal("message", {"id": "far", "text": text})

    async with asyncio.timeout(LIMIT):
        while (  # noqa: ASYNC110 - the server tells nobody
            await far.describe()
        ).raw_description.pending_workflow_task.attempt < FAILING_TRIES:
            await asyncio.sleep(0.05)
    with pytest.raises(WorkerMissing, match="its workflow task has failed") as told:
        await run.status()
    assert "CREWLOG_PAYLOADS" in told.value.remedy
    copy_files(tmp_path, crews.payloads)
    await run.wait_until(lambda view: view.position > 5, LIMIT)
    await run.respond("i1", "approve")
    assert (await run.result(LIMIT)).status == "completed"
    assert text in await said(crews, run)
