"""Encryption from one end to the other: nothing that is forged, moved or plain is taken.

That nothing is readable is looked for in `test_canaries`.

A site of its own: everything in it is encrypted, as with the one setting of its environment.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import asyncpg
import pytest
from temporalio.api.command.v1 import Command, ScheduleActivityTaskCommandAttributes
from temporalio.api.common.v1 import Payload, Payloads, RetryPolicy, WorkflowExecution
from temporalio.api.enums.v1 import CommandType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollActivityTaskQueueRequest,
    PollWorkflowTaskQueueRequest,
    ResetWorkflowExecutionRequest,
    RespondActivityTaskCompletedRequest,
    RespondWorkflowTaskCompletedRequest,
    SignalWorkflowExecutionRequest,
)
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.common import RawValue

from crewlog.cli.sight import see
from crewlog.client import Run
from crewlog.client.gateway import Gateway
from crewlog.client.key_uses import keys_of, open_runs
from crewlog.client.pending_calls import pending_calls
from crewlog.definition.operations import Disconnect
from crewlog.encryption.codec import FILE_MISSING, KEY_MISSING
from crewlog.encryption.keys import KEYS, Keyring, new_key_file, read_keys, write_keys
from crewlog.errors import DecryptionFailed, RunFailed
from crewlog.ids import AgentName
from crewlog.payload_storage.converter import data_converter
from crewlog.state.journal import entry_to_json
from crewlog.store.reencryption import key_uses, reencrypt

from .harness import LIMIT, RUN_LIMIT, SHARED, Site, calls, make_site, tool
from .test_conversations import hub
from .test_creatures import rested
from .test_merges import pair, to
from .test_splits import part_of


@pytest.fixture(scope="module")
async def keyed() -> AsyncIterator[tuple[Site, Path]]:
    with (
        TemporaryDirectory(prefix="crewlog-encryption-", ignore_cleanup_errors=True) as root,
        pytest.MonkeyPatch.context() as patch,
    ):
        path = Path(root) / "keys.json"
        write_keys(path, new_key_file())
        patch.setenv(KEYS, str(path))
        patch.delenv("CREWLOG_ENCRYPTION_ACCEPT_PLAIN", raising=False)
        async with make_site(Path(root) / "site", own_services=True) as site:
            await site.start_worker(SHARED, CREWLOG_ENCRYPTION_KEYS=str(path))
            yield site, path


@pytest.fixture
async def crews(keyed: tuple[Site, Path]) -> AsyncIterator[Site]:
    yield keyed[0]
    await keyed[0].settle()


async def events(site: Site, run: Run) -> list[Any]:
    handle = site.temporal.get_workflow_handle(run.id)
    return [event async for event in handle.fetch_history_events()]


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
    assert "was read elsewhere" in refused[0]
    assert "came without encryption" in refused[1]
    assert "changed since it was encrypted" in refused[2]
    assert "was read elsewhere" in refused[3]
    assert FILE_MISSING in refused[4]
    for run in (one, two):
        await run.answer("i1", "approve")
        assert (await run.result(LIMIT)).status == "completed"


async def test_commands_with_made_up_keys_are_refused_and_the_run_goes_on(crews: Site) -> None:
    run = await waiting(crews)
    for key in (b"\0\0\0\1", b"\0\0\0\2"):
        place = json.dumps([crews.temporal.namespace, run.id, "signal", "message"]).encode()
        about = {"encoding": b"binary/encrypted", "crewlog-place": place}
        await send(crews, run, Payload(metadata=about, data=b"\1" + key + b"x" * 28))
    await run.message("hello")
    await run.answer("i1", "approve")
    assert (await run.result(LIMIT)).status == "completed"
    told = await crews.entries(run, "CommandRejected")
    assert [entry.reason for entry in told] == [f"message: {KEY_MISSING}"] * 2


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
    await run.answer("i1", "approve")
    await run.result(LIMIT)


RESETS = "resets"
FAR = "far"
"""A task queue that no worker of ours polls: whoever polls it answers as one."""


async def answer_call(site: Site, run: Run, payload: Payload) -> None:
    """Answers a call of the run's as a worker would, with what is given."""
    service = site.temporal.workflow_service
    namespace = site.temporal.namespace
    async with asyncio.timeout(LIMIT):
        task = await service.poll_activity_task_queue(
            PollActivityTaskQueueRequest(namespace=namespace, task_queue=TaskQueue(name=FAR))
        )
    assert task.workflow_execution.workflow_id == run.id
    await service.respond_activity_task_completed(
        RespondActivityTaskCompletedRequest(
            namespace=namespace, task_token=task.task_token, result=Payloads(payloads=[payload])
        )
    )


def calling_far(site: Site) -> dict[str, Any]:
    agents = {"a": [calls(("far", {"text": "x"})), {"text": "A"}]}
    return site.crew(agents, tools={"far": {**tool("echo"), "queue": FAR}})


async def test_a_result_that_is_plain_or_another_run_s_is_not_taken(crews: Site) -> None:
    run = await crews.start(calling_far(crews))
    body = {"type": "tool", "content": "forged", "tool_call_id": "c"}
    answer = json.dumps({"body": body, "hash": "h"}).encode()
    await answer_call(crews, run, Payload(metadata={"encoding": b"json/plain"}, data=answer))
    crews.runs.remove(run)
    with pytest.raises(RunFailed, match="it came without encryption"):
        await run.result(LIMIT)
    assert "forged" not in json.dumps([entry_to_json(e) for _, e in await crews.journal(run)])

    moved = await crews.start(calling_far(crews))
    (first, *_) = await events(crews, run)
    await answer_call(
        crews, moved, first.workflow_execution_started_event_attributes.input.payloads[0]
    )
    with pytest.raises(RunFailed, match="was read elsewhere"):
        await moved.result(LIMIT)
    crews.runs.remove(moved)


@pytest.mark.parametrize("what", ["an earlier answer", "its own question"])
async def test_only_the_answer_to_a_call_is_taken_for_it(crews: Site, what: str) -> None:
    """What an earlier call of the run was answered is encrypted for the run as well."""
    call = {"far": {**tool("echo"), "queue": FAR}, "pay": {**tool("echo"), "retry": "never"}}
    agents = {"a": [calls(("pay", {"text": "5"})), calls(("far", {"text": "x"})), {"text": "A"}]}
    run = await crews.start(crews.crew(agents, tools=call))
    async with asyncio.timeout(LIMIT):
        while True:
            told = await events(crews, run)
            found = [e.activity_task_scheduled_event_attributes for e in told]
            asked = [each.input.payloads[0] for each in found if each.task_queue.name == FAR]
            if asked:
                break
            await asyncio.sleep(0.02)
    done = [e.activity_task_completed_event_attributes.result.payloads for e in told]
    earlier = [answers[0] for answers in done if answers]
    await answer_call(crews, run, earlier[-1] if what == "an earlier answer" else asked[0])
    crews.runs.remove(run)
    with pytest.raises(RunFailed, match="was read elsewhere"):
        await run.result(LIMIT)
    assert [made["text"] for made in crews.ledger(run, "start")] == ["5"]


TAKEN = "taken"


async def test_a_call_that_others_schedule_with_an_earlier_input_is_not_made(
    keyed: tuple[Site, Path], crews: Site
) -> None:
    """A client without keys takes a workflow task in place of the run's worker."""
    worker = {KEYS: str(keyed[1])}
    await crews.start_worker(TAKEN, **worker)
    agents = {"a": [calls(("pay", {"text": "5"})), {"text": "A"}]}
    crew = crews.crew(
        agents, tools={"pay": {**tool("echo"), "retry": "safe"}}, flow=["a", {"ask": "Go on?"}]
    )
    run = await crews.start(crew, queue=TAKEN)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    crews.end_workers(TAKEN)
    crews.runs.remove(run)
    scheduled = [e.activity_task_scheduled_event_attributes for e in await events(crews, run)]
    (paid,) = [each for each in scheduled if each.activity_type.name == "call_tool"]
    service, namespace = crews.temporal.workflow_service, crews.temporal.namespace
    await send(crews, run, Payload(metadata={"encoding": b"json/plain"}, data=b"1"))
    async with asyncio.timeout(2 * LIMIT):  # the tasks of the old worker are offered here later
        task = await service.poll_workflow_task_queue(
            PollWorkflowTaskQueueRequest(namespace=namespace, task_queue=TaskQueue(name=TAKEN))
        )
    again = ScheduleActivityTaskCommandAttributes(
        activity_id="again",
        activity_type=paid.activity_type,
        task_queue=paid.task_queue,
        input=paid.input,
        header=paid.header,
        start_to_close_timeout=paid.start_to_close_timeout,
        retry_policy=RetryPolicy(maximum_attempts=1),
    )
    command = Command(
        command_type=CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
        schedule_activity_task_command_attributes=again,
    )
    await service.respond_workflow_task_completed(
        RespondWorkflowTaskCompletedRequest(
            namespace=namespace, task_token=task.task_token, commands=[command]
        )
    )
    await crews.start_worker(TAKEN, **worker)
    failures: list[Any] = []
    async with asyncio.timeout(LIMIT):
        while not failures:
            assert len(crews.ledger(run, "start")) == 1
            ended = [e.activity_task_failed_event_attributes for e in await events(crews, run)]
            failures = [each.failure for each in ended if each.HasField("failure")]
            await asyncio.sleep(0.05)
    assert failures[0].cause.application_failure_info.type == "DecryptionFailed"
    assert len(crews.ledger(run, "start")) == 1
    await run.terminate("its history is not its own any more")


async def test_an_encrypted_run_that_is_reset_goes_on(
    keyed: tuple[Site, Path], crews: Site
) -> None:
    """A call has another name after a reset, and those before it keep theirs."""
    await crews.start_worker(RESETS, CREWLOG_ENCRYPTION_KEYS=str(keyed[1]))
    agents = {"a": [calls(("echo", {"text": "x"})), {"text": "A"}], "b": [{"text": "B"}]}
    run, _ = await crews.finish(crews.crew(agents, tools={"echo": tool("echo")}), queue=RESETS)
    crews.end_workers(RESETS)
    handle = crews.temporal.get_workflow_handle(run.id)
    history = await handle.fetch_history()
    tasks = [
        event.event_id
        for event in history.events
        if event.HasField("workflow_task_completed_event_attributes")
    ]
    await crews.temporal.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=crews.temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run.id, run_id=history.run_id),
            reason="a test",
            workflow_task_finish_event_id=tasks[2],
            request_id="reset",
        )
    )
    await run.rebuild(replace=True)
    await crews.start_worker(RESETS, CREWLOG_ENCRYPTION_KEYS=str(keyed[1]))
    assert (await run.result(LIMIT)).status == "completed"


async def test_starts_and_approvals_are_used_once_also_after_a_deletion(crews: Site) -> None:
    """Whoever can read a history has both, and needs no key to send them again."""
    crew = crews.crew(
        {"a": [calls(("risky", {"text": "5"})), {"text": "A"}]},
        tools={"risky": {**tool("echo"), "risk": "high"}},
        interrupts={"approve_risk": "high"},
    )
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await run.answer("i1", "approve")
    await run.result(LIMIT)
    history = await events(crews, run)
    start = history[0].workflow_execution_started_event_attributes.input.payloads[0]
    (updated,) = [
        event.workflow_execution_update_accepted_event_attributes.accepted_request
        for event in history
        if event.HasField("workflow_execution_update_accepted_event_attributes")
    ]
    yes = updated.input
    crews.runs.remove(run)
    await crews.client().delete(run.id)
    other = await TemporalClient.connect(
        crews.endpoints.temporal_address, namespace=crews.endpoints.namespace
    )
    await other.start_workflow("CrewRun", RawValue(start), id=run.id, task_queue=SHARED)
    with pytest.raises(RunFailed, match="another execution has used this encrypted start"):
        await crews.client().run(run.id).result(LIMIT)

    await crews.client().delete(run.id)
    again = await crews.start(crew, id=run.id)  # who has the keys may use the id
    await again.wait_until(lambda view: bool(view.interrupts), LIMIT)
    handle = other.get_workflow_handle(run.id)
    for id in (None, updated.meta.update_id):
        with suppress(KeyError, WorkflowUpdateFailedError):  # the refusal is encrypted
            await handle.execute_update(yes.name, RawValue(yes.args.payloads[0]), id=id)
    await handle.signal(yes.name, RawValue(yes.args.payloads[0]))
    refused: list[str] = []
    async with asyncio.timeout(LIMIT):
        while len(refused) < 2:
            told = [item.data for item in (await again.journal(limit=1000)).entries]
            refused = [str(e["reason"]) for e in told if e["kind"] == "CommandRejected"]
            await asyncio.sleep(0.02)
    # Under another id or as a signal it is not even read; under its own it was used.
    assert "another run of this id has used this" in refused[0]
    assert "was read elsewhere" in refused[1]
    assert len((await again.status()).interrupts) == 1
    await again.answer("i1", "approve")
    assert (await again.result(LIMIT)).status == "completed"
    assert len(crews.ledger(run, "start")) == 2


async def test_what_a_schedule_starts_its_runs_with_is_a_start_of_theirs_alone(
    crews: Site,
) -> None:
    schedules, name = crews.client().schedules, "nightly"
    crew = crews.crew({"a": [{"text": "A"}]}, flow=["a", {"ask": "Go on?"}])
    await schedules.create(name, crew, every=timedelta(days=1))
    raw = (await crews.temporal.get_schedule_handle(name).describe()).raw_description
    (payload,) = raw.schedule.action.start_workflow.input.payloads
    other = await TemporalClient.connect(
        crews.endpoints.temporal_address, namespace=crews.endpoints.namespace
    )
    for id_ in ("stranger", f"{name}-2", f"{name}-x-2030-01-01T00:00:00Z"):
        with pytest.raises(WorkflowFailureError) as failed:
            await other.execute_workflow("CrewRun", RawValue(payload), id=id_, task_queue=SHARED)
        assert getattr(failed.value.cause, "type", "") == "InvalidStart"
    await schedules.trigger(name)
    async with asyncio.timeout(LIMIT):
        while not (shown := await schedules.show(name)).recent:  # noqa: ASYNC110 - the server tells
            await asyncio.sleep(0.05)
    await schedules.delete(name)
    run = crews.client().run(shown.recent[0])
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await send(crews, run, payload)
    await run.answer("i1", "approve")
    assert (await run.result(LIMIT)).status == "completed"
    (refused,) = await crews.entries(run, "CommandRejected")
    assert f'"{name}","schedule"' in refused.reason


async def test_keys_rotate_while_a_run_goes_on_and_the_old_one_is_not_needed_then(
    keyed: tuple[Site, Path], crews: Site
) -> None:
    path = keyed[1]
    old = read_keys(path)
    run = await waiting(crews)
    new = old.rotate()
    write_keys(path, new)
    ring = Keyring(path)
    rotated = await TemporalClient.connect(
        crews.endpoints.temporal_address,
        namespace=crews.endpoints.namespace,
        data_converter=data_converter(crews.payloads, keys=ring),
    )
    other = replace(crews, temporal=rotated)
    assert (await open_runs(rotated, crews.payloads))[old.current] == [run.id]
    await other.client().run(run.id).answer("i1", "approve")
    assert (await run.result(LIMIT)).status == "completed"
    used = set[str]().union(*(keys_of(event) for event in await events(crews, run)))
    assert used == {old.current, new.current}
    store = crews.store
    store.cipher.keys._looked = 0  # type: ignore[attr-defined]
    assert (await key_uses(store))[old.current] > 0
    assert await reencrypt(store, lambda _text: None) > 0
    assert set(await key_uses(store)) == {new.current}
    assert (await open_runs(rotated, crews.payloads)) == {}
    row = await store.get_run(run.id)
    assert row is not None
    assert row.started_by == "test"


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
        with pytest.raises(DecryptionFailed, match="began without encryption") as told:
            await run.status()
        assert "CREWLOG_ENCRYPTION_ACCEPT_PLAIN=true" in told.value.remedy
        # And not the other one: the SDK's own notes in its history are never encrypted.
        assert (await open_runs(crews.temporal, crews.payloads))[""] == [run.id]
    finally:
        await handle.terminate()
        await sealed.answer("i1", "approve")
        await sealed.result(LIMIT)


async def test_an_ended_run_that_began_without_encryption_is_read_from_the_store(
    keyed: tuple[Site, Path],
) -> None:
    crews, path = keyed
    keys = {"CREWLOG_ENCRYPTION_KEYS": str(path)}
    await crews.start_worker("turned-on", **keys, CREWLOG_ENCRYPTION_ACCEPT_PLAIN="true")
    plainly = await TemporalClient.connect(
        crews.endpoints.temporal_address,
        namespace=crews.endpoints.namespace,
        data_converter=data_converter(crews.payloads, keys=None),
    )
    crew = crews.crew({"a": [{"text": "A"}]}, flow=["a"])
    name = f"ended-plain-{secrets.token_hex(4)}"
    await plainly.start_workflow(
        "CrewRun", {"crew": crew}, id=name, task_queue="turned-on", execution_timeout=RUN_LIMIT
    )
    run = crews.client("turned-on").run(name)
    assert (await run.result(LIMIT)).status == "completed"
    crews.end_workers("turned-on")
    await crews.start_worker("turned-on", **keys)
    entries = (await run.journal()).entries
    assert (entries[0].data["kind"], entries[-1].data["kind"]) == ("RunStarted", "RunCompleted")
    assert (await run.checkpoints()).checkpoints
    assert (await run.report()).status == "completed"
    crews.end_workers("turned-on")


async def ended(site: Site, crew: Any) -> Run:
    run, result = await site.finish(crew)
    assert result.status == "completed"
    return run


@asynccontextmanager
async def database(site: Site) -> AsyncGenerator[Any]:
    connection = await asyncpg.connect(site.endpoints.database_url)
    try:
        yield connection
    finally:
        await connection.close()


async def test_a_row_that_was_moved_or_is_plain_is_refused_and_made_again(crews: Site) -> None:
    crew = crews.crew({"a": [{"text": "A"}]})
    one, two = await ended(crews, crew), await ended(crews, crew)
    entries = await crews.store.read_journal(one.id)
    moved = (
        "UPDATE crewlog.journal_entries SET entry = o.entry FROM crewlog.journal_entries o "
        "WHERE journal_entries.run = $1 AND journal_entries.position = 2 "
        "AND o.run = $2 AND o.position = 2"
    )
    async with database(crews) as connection:
        await connection.execute(moved, one.id, two.id)
        with pytest.raises(DecryptionFailed, match=f"changed or moved.*entry '{one.id}/2/"):
            await crews.store.read_journal(one.id)
        assert (await one.rebuild()).whole
        assert await crews.store.read_journal(one.id) == entries
        plain = "UPDATE crewlog.runs SET started_by = 'somebody' WHERE run = $1"
        await connection.execute(plain, one.id)
        with pytest.raises(DecryptionFailed, match=f"not encrypted.*started_by '{one.id}'"):
            await crews.store.get_run(one.id)
        assert (await one.rebuild()).whole
        row = await crews.store.get_run(one.id)
        assert row is not None
        assert row.started_by == "test"


async def watched(site: Site, path: Path, run: Run) -> AsyncIterator[dict[str, Any]]:
    """What `crewlog watch` tells of a run."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crewlog.cli.main", "watch", run.id, "--json"),
        env=site.environ(SHARED) | {KEYS: str(path)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(LIMIT):
        async for line in process.stdout:
            yield json.loads(line)
        assert await process.wait() == 0


async def test_a_run_that_cannot_store_its_end_says_so(
    keyed: tuple[Site, Path], crews: Site
) -> None:
    """A body is known by its content: what another run says may be there already, and plain."""
    crew = crews.crew({"a": [{"text": "A"}]})
    said = (await (await ended(crews, crew)).state()).agent_outputs[AgentName("a")]
    (body,) = said["text"].bodies
    async with database(crews) as connection:
        await connection.execute("UPDATE crewlog.bodies SET body = '1' WHERE hash = $1", body)
    run = await crews.start(crew)
    told: list[dict[str, Any]] = []
    async for record in watched(crews, keyed[1], run):
        told.append(record)
        if record["event"] == "stalled":
            assert (record["activity"], record["error"]) == ("end_run", "DecryptionFailed")
            assert f"encryption is on, and it is not encrypted (body '{body}')" in record["message"]
            assert "crewlog rebuild" in record["remedy"]
            (shown,) = (await see(crews.client(), run.id)).stalled
            assert shown.words == f"cannot store its end: {record['message']}"
            assert (await run.rebuild()).whole
    assert [each["event"] for each in told].count("stalled") == 1
    assert told[-1]["status"] == "completed"


async def test_asking_starts_an_encrypted_conversation_and_continues_it(crews: Site) -> None:
    """One request starts a run and updates it, and each payload has its own purpose."""
    client, id = crews.client(), "encrypted-ask"
    crews.runs.append(client.run(id))
    for text, answer in (("my bill", "Paid."), ("the bill again", "Paid again.")):
        result = await client.ask(
            hub(crews), text, id=id, by="test", timeout=LIMIT, execution_timeout=RUN_LIMIT
        )
        assert result.response is not None
        assert result.response.text == answer


async def test_graphs_part_and_join_with_all_that_was_said(crews: Site) -> None:
    one, two = await pair(crews)
    await two.message("before", to="channel:z")
    await two.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    await one.change(operations=[to(two, "ann", "eve", "tie")], id="tie")
    assert (await two.result(LIMIT)).surviving_run == one.id
    await one.change(operations=[Disconnect(sender="ann", listener="eve")], id="cut")
    part = part_of(crews, one, "cut", "dan")
    await rested(part)
    await part.message("after", to="channel:z")
    await part.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    texts = [message["content"] for message in crews.prompted(part)[-1]["messages"]]
    assert texts[1:4] == ["before", "eve-0", "after"]
    for each in (one, two, part):
        assert (await each.rebuild(replace=True)).problems == ()


async def test_why_a_call_is_made_again_is_told_to_who_has_the_key(
    keyed: tuple[Site, Path], crews: Site
) -> None:
    slow = {"first": 60, "longest": 60, "attempts": 3}
    crew = crews.crew({"a": [{"fail": "unavailable"}, {"text": "A"}]}, rules={"a": {"retry": slow}})
    run = await crews.start(crew)
    gateway = crews.client().gateway
    async with asyncio.timeout(LIMIT):
        while not any(c.is_waiting for c in await pending_calls(gateway, run.id)):  # noqa: ASYNC110 - the server tells
            await asyncio.sleep(0.02)
    (call,) = await pending_calls(gateway, run.id)
    assert (call.step, call.error_type, call.attempt) == ("a#1", "ModelUnavailable", 2)
    assert "lets 'a' fail" in call.error
    assert call.remedy
    ends = crews.endpoints
    stranger = await TemporalClient.connect(
        ends.temporal_address,
        namespace=ends.namespace,
        data_converter=data_converter(crews.payloads, keys=None),
    )
    (call,) = await pending_calls(Gateway(stranger, ends.temporal_address), run.id)
    assert (call.step, call.attempt) == ("", 2)
    assert "lets" not in call.error
    assert "encrypted" in call.error.lower()
