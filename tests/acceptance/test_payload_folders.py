"""Clients whose payload folder is not the workers': what they send never holds up a run."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import RawValue

from crewlog.client import Run
from crewlog.client.gateway import Gateway
from crewlog.encryption.codec import FILE_MISSING, GIVEN_UP_MARK, UNAVAILABLE
from crewlog.encryption.keys import KEYS
from crewlog.errors import UsageError
from crewlog.payload_storage.converter import data_converter

from .harness import LIMIT, Site

KB = 1024
REFERENCE = b"temporal.api.sdk.v1.ExternalStorageReference"


async def waiting(crews: Site, **options: Any) -> Run:
    crew = crews.crew({"a": [{"text": "A"}]}, flow=[{"ask": "Begin?"}, "a"])
    run = await crews.start(crew, **options)
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


def files(folder: Path) -> int:
    return sum(each.is_file() for each in folder.rglob("*"))


async def test_what_a_stranger_sends_is_in_the_history(crews: Site, tmp_path: Path) -> None:
    """Through Crewlog's converter and nothing else of it."""
    run = await waiting(crews)
    handle = (await dialled(crews, tmp_path)).get_workflow_handle(run.id)
    text = "x" * 400 * KB
    await handle.signal("message", {"id": "far", "text": text})
    answer = {"id": "a", "interrupt": "i1", "decisions": [{"type": "approve"}], "reason": "r"}
    await handle.execute_update("answer", answer)
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
    await run.answer("i1", "approve")
    assert (await run.result(LIMIT)).status == "completed"
    assert {large, huge} <= {*await said(crews, run)}
    assert (await run.state()).commands.keys() >= {"far", "near"}


def reference(data: bytes | dict[str, Any], **metadata: bytes) -> Payload:
    """A payload as Temporal's clients write it for what is stored elsewhere."""
    given = {"encoding": b"json/protobuf", "messageType": REFERENCE, **metadata}
    return Payload(
        metadata=given, data=data if isinstance(data, bytes) else json.dumps(data).encode()
    )


def claim(sha256: str, driver: str = "crewlog-directory") -> dict[str, Any]:
    return {"driverName": driver, "claimData": {"sha256": sha256}}


NOWHERE = [
    reference(claim("0" * 64)),
    reference(claim("../../../../etc/passwd")),
    reference({"driverName": "crewlog-directory"}),
    reference(claim("1" * 64, driver="s3")),
    reference(b"\xff{"),
    reference(b"[" * 100_000),
    reference(b'{"no": 1}', encoding=b"json/external-storage-reference"),
    reference(claim("2" * 64), __temporal_external_storage_reference=b"true"),
    reference(b"{}", encoding=b"json/plain", __temporal_external_storage_reference=b"true"),
    Payload(metadata={"encoding": UNAVAILABLE}, data=b"/etc/passwd"),
    Payload(metadata={"encoding": b"json/plain", GIVEN_UP_MARK: b"1"}, data=b'{"id": "fine"}'),
]
"""References that lead nowhere, as strangers make them."""


async def refusals(crews: Site, run: Run, number: int) -> list[Any]:
    async with asyncio.timeout(LIMIT):
        while len(found := await crews.entries(run, "CommandRejected")) < number:
            await run.wait_until(lambda view: True, LIMIT)
    return found


async def test_a_reference_to_nothing_is_refused_and_the_run_goes_on(crews: Site) -> None:
    """Also where the file comes late: a replay comes to the same."""
    victim = await crews.start_worker("lost")
    run = await waiting(crews, queue="lost")
    handle = crews.temporal.get_workflow_handle(run.id)
    late = Payload(metadata={"encoding": b"json/plain"}, data=b'{"id": "late", "text": "T"}')
    data = late.SerializeToString(deterministic=True)
    key = hashlib.sha256(data).hexdigest()
    for payload in (*NOWHERE, reference(claim(key))):
        await handle.signal("message", RawValue(payload))
    with pytest.raises(WorkflowUpdateFailedError):
        await handle.execute_update("answer", RawValue(NOWHERE[0]))
    refused = await refusals(crews, run, len(NOWHERE) + 1)
    # With encryption on the client seals them: then they are content, and not that of a command.
    looked_for = 0 if os.environ.get(KEYS) else 3
    assert sum(entry.reason.endswith(FILE_MISSING) for entry in refused) == looked_for
    file = crews.payloads / key[:2] / key
    assert not file.exists()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    await handle.signal("message", RawValue(reference(claim(key))))
    refused = await refusals(crews, run, len(NOWHERE) + 2)
    victim.kill()
    await crews.start_worker("lost")
    await run.answer("i1", "approve")
    assert (await run.result(LIMIT)).status == "completed"
    assert "T" not in await said(crews, run)
    assert len(await crews.entries(run, "CommandRejected")) == len(NOWHERE) + 2
    crews.end_workers("lost")
