"""Encryption from one end to the other: nothing is readable, nothing that is forged is taken.

A site of its own: everything in it is encrypted, as with the one setting of its environment.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import asyncpg
import pytest
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowFailureError
from temporalio.common import RawValue

from crewlog.client import Run
from crewlog.client.key_uses import keys_of, open_runs
from crewlog.encryption.codec import LOST_FILE
from crewlog.encryption.keys import KEYS, KeyFile, Keyring, new_key, read_keys, write_keys
from crewlog.errors import SealBroken
from crewlog.ids import ContentHash
from crewlog.payloads import data_converter
from crewlog.state.journal import entry_to_json
from crewlog.store.resealing import key_uses, reseal

from .harness import LIMIT, SHARED, Site, calls, make_site, tool

CANARY = "k9-canary-c0ffee"
PROMPT = "p4-canary-d0d0ca"


@pytest.fixture(scope="module")
async def keyed() -> AsyncIterator[tuple[Site, Path]]:
    with (
        TemporaryDirectory(prefix="crewlog-encryption-", ignore_cleanup_errors=True) as root,
        pytest.MonkeyPatch.context() as patch,
    ):
        path, key = Path(root) / "keys.json", new_key(1)
        write_keys(path, KeyFile(keys=(key,), current=key.id))
        patch.setenv(KEYS, str(path))
        patch.delenv("CREWLOG_ENCRYPTION_ACCEPT_PLAIN", raising=False)
        async with make_site(Path(root) / "site", own_services=True) as site:
            await site.start_worker(SHARED, CANARY_TOKEN=CANARY, CREWLOG_ENCRYPTION_KEYS=str(path))
            yield site, path


@pytest.fixture
async def crews(keyed: tuple[Site, Path]) -> AsyncIterator[Site]:
    yield keyed[0]
    await keyed[0].settle()


async def events(site: Site, run: Run) -> list[Any]:
    handle = site.temporal.get_workflow_handle(run.id)
    return [event async for event in handle.fetch_history_events()]


async def tables(site: Site) -> str:
    """Every row of every table, as text."""
    connection = await asyncpg.connect(site.endpoints.database_url)
    try:
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname='crewlog'")
        found = [
            row[0]
            for (name,) in names
            for row in await connection.fetch(f"SELECT t::text FROM crewlog.{name} AS t")  # noqa: S608
        ]
    finally:
        await connection.close()
    return "\n".join(found)


def forms(text: str) -> list[bytes]:
    data = text.encode()
    return [data, base64.b64encode(data).rstrip(b"=")[:-1], data.hex().encode()]


def hides(data: bytes, *texts: str) -> None:
    for text in texts:
        for form in forms(text):
            assert form not in data, text


async def test_no_canary_is_anywhere(crews: Site) -> None:
    """Secrets of tools, and what people and models say: in histories, rows, files and logs."""
    large = PROMPT * 30_000
    crew = crews.crew(
        {
            "a": [
                calls(("leak", {"how": "tell"}), ("echo", {"text": large})),
                calls(("leak", {"how": "raise"})),
                {"text": f"said {PROMPT}"},
            ]
        },
        tools={
            "leak": tool("leak", secrets={"CANARY": "env:CANARY_TOKEN"}),
            "echo": tool("echo"),
        },
        flow=["a", {"ask": f"Publish {PROMPT}?"}],
    )
    run = await crews.start(crew, f"go {PROMPT}")
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    handle = crews.temporal.get_workflow_handle(run.id)
    described = (await handle.describe()).raw_description.SerializeToString()
    await run.respond("i1", "approve", reason=PROMPT)
    await run.result(LIMIT)
    raw = b"".join(event.SerializeToString() for event in await events(crews, run))
    files = [each.read_bytes() for each in crews.payloads.rglob("*") if each.is_file()]
    rows = (await tables(crews)).encode()
    assert files
    assert crew["crew"].encode() in rows
    hides(raw + described + b"".join(files) + rows, CANARY, PROMPT)
    logs = b"".join(each.read_bytes() for each in crews.root.glob("*.log"))
    hides(logs, CANARY)
    # And the run itself, as people see it, knows what was said, and not the secret.
    journal = json.dumps([entry_to_json(entry) for _, entry in await crews.journal(run)])
    assert PROMPT in journal
    bodies = await crews.store.get_bodies(list(map(ContentHash, _bodies(json.loads(journal)))))
    told = json.dumps(list(bodies.values()))
    assert "the token is [redacted], or [redacted]" in told
    assert "failed with [redacted]" in told
    assert CANARY not in told + journal


def _bodies(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "body" and isinstance(each, str):
                yield each
            yield from _bodies(each)
    elif isinstance(value, list):
        for each in value:
            yield from _bodies(each)


async def waiting(site: Site) -> Run:
    crew = site.crew({"a": [{"text": "A"}]}, flow=["a", {"ask": "Go on?"}])
    run = await site.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    return run


async def send(site: Site, run: Run, payload: Payload) -> None:
    await site.temporal.workflow_service.signal_workflow_execution(
        SignalWorkflowExecutionRequest(
            namespace=site.temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run.id),
            signal_name="message",
            input=Payloads(payloads=[payload]),
        )
    )


async def said(site: Site, run: Run) -> Payload:
    """The payload of the one signal that a run got; it is in the history a moment later."""
    async with asyncio.timeout(LIMIT):
        while True:
            for event in await events(site, run):
                if event.HasField("workflow_execution_signaled_event_attributes"):
                    told = event.workflow_execution_signaled_event_attributes
                    return cast("Payload", told.input.payloads[0])
            await asyncio.sleep(0.02)


def reference(sha256: str) -> Payload:
    """What stands for a payload that lies in the folder."""
    named = b"temporal.api.sdk.v1.ExternalStorageReference"
    data = {"driverName": "crewlog-directory", "claimData": {"sha256": sha256}}
    metadata = {"encoding": b"json/protobuf", "messageType": named}
    return Payload(metadata=metadata, data=json.dumps(data).encode())


async def test_forged_moved_and_plain_commands_are_refused_and_the_run_goes_on(
    crews: Site,
) -> None:
    one, two = await waiting(crews), await waiting(crews)
    for run in (one, two):
        await run.message("hello")
    foreign, own = await said(crews, one), await said(crews, two)
    plain = Payload(metadata={"encoding": b"json/plain"}, data=b'{"id":"x","text":"plain"}')
    flipped = Payload(metadata=own.metadata, data=own.data[:-1] + bytes([own.data[-1] ^ 1]))
    data = foreign.SerializeToString(deterministic=True)
    taken = hashlib.sha256(data).hexdigest()  # a file of another run
    (crews.payloads / taken[:2]).mkdir(parents=True, exist_ok=True)
    (crews.payloads / taken[:2] / taken).write_bytes(data)
    for payload in (foreign, plain, flipped, reference(taken), reference("0" * 64)):
        await send(crews, two, payload)
    refused: list[str] = []
    async with asyncio.timeout(LIMIT):
        while len(refused) < 5:
            journal = [entry_to_json(entry) for _, entry in await crews.journal(two)]
            refused = [e["reason"] for e in journal if e["kind"] == "CommandRejected"]
            await asyncio.sleep(0.02)
    assert "stands elsewhere" in refused[0]
    assert "came without encryption" in refused[1]
    assert "changed since it was encrypted" in refused[2]
    assert "stands elsewhere" in refused[3]
    assert LOST_FILE in refused[4]
    for run in (one, two):
        await run.respond("i1", "approve")
        assert (await run.result(LIMIT)).status == "completed"


async def test_a_start_that_is_another_run_s_ends_with_a_typed_error(crews: Site) -> None:
    run = await waiting(crews)
    [first, *_] = await events(crews, run)
    payload = first.workflow_execution_started_event_attributes.input.payloads[0]
    other = await TemporalClient.connect(
        crews.endpoints.temporal_address, namespace=crews.endpoints.namespace
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await other.execute_workflow(
            "CrewRun", RawValue(payload), id=f"{run.id}-copy", task_queue=SHARED
        )
    assert getattr(failed.value.cause, "type", "") == "InvalidStart"
    await run.respond("i1", "approve")
    await run.result(LIMIT)


async def test_keys_rotate_while_a_run_goes_on_and_the_old_one_is_not_needed_then(
    keyed: tuple[Site, Path], crews: Site
) -> None:
    path = keyed[1]
    old = read_keys(path)
    run = await waiting(crews)
    new = new_key(2)
    write_keys(path, old.model_copy(update={"keys": (*old.keys, new), "current": new.id}))
    ring = Keyring(path)
    rotated = await TemporalClient.connect(
        crews.endpoints.temporal_address,
        namespace=crews.endpoints.namespace,
        data_converter=data_converter(crews.payloads, keys=ring),
    )
    other = replace(crews, temporal=rotated)
    assert (await open_runs(rotated, crews.payloads))[old.current] == [run.id]
    await other.client().run(run.id).respond("i1", "approve")
    assert (await run.result(LIMIT)).status == "completed"
    used = set[str]().union(*(keys_of(event) for event in await events(crews, run)))
    assert used == {old.current, new.id}
    store = crews.store
    store.seal.keys._looked = 0  # type: ignore[attr-defined]
    assert (await key_uses(store))[old.current] > 0
    assert await reseal(store, lambda _text: None) > 0
    assert set(await key_uses(store)) == {new.id}
    assert (await open_runs(rotated, crews.payloads)) == {}
    row = await store.get_run(run.id)
    assert row is not None
    assert row.by == "test"


async def test_a_run_that_began_without_encryption_is_counted_and_told(crews: Site) -> None:
    """While encryption is being turned on: the run is safe, and people are told what it needs."""
    plainly = await TemporalClient.connect(
        crews.endpoints.temporal_address,
        namespace=crews.endpoints.namespace,
        data_converter=data_converter(crews.payloads, keys=None),
    )
    handle = await plainly.start_workflow(
        "CrewRun", {"crew": "any"}, id="began-plain", task_queue=SHARED
    )
    sealed, run = await waiting(crews), crews.client().run("began-plain")
    try:
        with pytest.raises(SealBroken, match="began without encryption") as told:
            await run.status()
        assert "CREWLOG_ENCRYPTION_ACCEPT_PLAIN=true" in told.value.remedy
        # And not the other one: the SDK's own notes in its history are never encrypted.
        assert (await open_runs(crews.temporal, crews.payloads))[""] == [run.id]
    finally:
        await handle.terminate()
        await sealed.respond("i1", "approve")
        await sealed.result(LIMIT)


async def test_a_row_that_was_moved_is_refused(crews: Site) -> None:
    one, two = await waiting(crews), await waiting(crews)
    for run in (one, two):
        await run.respond("i1", "approve")
        await run.result(LIMIT)
    connection = await asyncpg.connect(crews.endpoints.database_url)
    moved = (
        "UPDATE crewlog.journal SET entry = o.entry FROM crewlog.journal o "
        "WHERE journal.run = $1 AND o.run = $2 AND journal.position = 2 AND o.position = 2"
    )
    kept = await connection.fetchval(
        "SELECT entry FROM crewlog.journal WHERE run=$1 AND position=2", one.id
    )
    await connection.execute(moved, one.id, two.id)
    with pytest.raises(SealBroken, match="changed or moved"):
        await crews.store.read_journal(one.id)
    await connection.execute(
        "UPDATE crewlog.journal SET entry=$2 WHERE run=$1 AND position=2", one.id, kept
    )
    await connection.close()
