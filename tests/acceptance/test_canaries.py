"""With encryption on nothing of a run is readable: on the wire, in histories, rows, files and logs.

One story goes through all that is said to crews, by them and about them, each time with a canary of
its own. Then every byte that went to a server or lies anywhere is searched for them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import asyncpg
import pytest
from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowFailureError, WorkflowQueryFailedError

from crewlog.authority.signatures import Signature, SignedApproval
from crewlog.client import Run
from crewlog.definition.operations import EditAgent
from crewlog.encryption.keys import KEYS, new_key_file, write_keys
from crewlog.encryption.rows import PREFIX
from crewlog.errors import CrewlogError
from crewlog.ids import ContentHash
from crewlog.operations import add
from crewlog.payload_storage.converter import data_converter
from crewlog.state.journal import entry_to_json
from crewlog.store import PostgresStore, open_store
from crewlog.store.key_check import COLUMNS
from crewlog.store.memories import NewMemory
from readings import reply
from store_tables import PLAIN_COLUMNS

from .harness import LIMIT, RUN_LIMIT, SHARED, Site, calls, make_site, tool, until
from .test_prompt_runs import DRAFTS, GATHERS, PROMPT, WORK
from .wiretap import Tap, tapped_port, tapped_socket

SECRET = "k9canaryc0ffee"
SAID = "p4canary"


def mark(place: str) -> str:
    """A canary of its own, for each place that something is said in: one word, to any index."""
    return f"{SAID}{place}"


@dataclass(frozen=True)
class Listened:
    """A site whose every word to a server is heard."""

    site: Site
    temporal: Tap
    postgres: Tap


@pytest.fixture(scope="module")
async def heard() -> AsyncIterator[Listened]:
    async with AsyncExitStack() as stack:
        root = Path(
            stack.enter_context(TemporaryDirectory(prefix="clcan-", ignore_cleanup_errors=True))
        )
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        keys = root / "keys.json"
        write_keys(keys, new_key_file())
        patch.setenv(KEYS, str(keys))
        patch.delenv("CREWLOG_ENCRYPTION_ACCEPT_PLAIN", raising=False)
        site = await stack.enter_async_context(make_site(root / "site", own_services=True))
        ends = site.endpoints
        (sockets,) = parse_qs(urlsplit(ends.database_url).query)["host"]
        socket = Path(sockets) / ".s.PGSQL.5432"
        temporal = await stack.enter_async_context(tapped_port(ends.temporal_address))
        postgres = await stack.enter_async_context(tapped_socket(socket, root))
        url = ends.database_url.replace(quote(sockets), quote(str(root)))
        assert url != ends.database_url
        client = await TemporalClient.connect(
            temporal.place, namespace=ends.namespace, data_converter=data_converter(site.payloads)
        )
        store = await open_store(url, namespace=ends.namespace)
        assert isinstance(store, PostgresStore)
        stack.push_async_callback(store.close)
        listened = replace(site, temporal=client, store=store)
        verbose = root / "verbose"
        verbose.mkdir()
        (verbose / "sitecustomize.py").write_text(
            "import logging\nlogging.basicConfig(level=logging.DEBUG)\n"
        )
        await listened.start_worker(
            SHARED,
            PYTHONPATH=str(verbose),
            CANARY_TOKEN=SECRET,
            CREWLOG_ENCRYPTION_KEYS=str(keys),
            TEMPORAL_ADDRESS=temporal.place,
            DATABASE_URL=url,
        )
        yield Listened(listened, temporal, postgres)
        listened.end_workers()


def crew_of(site: Site) -> dict[str, Any]:
    remembers = {"text": mark("memory"), "key": mark("key"), "metadata": {"m": mark("metadata")}}
    return site.crew(
        {
            "a": [
                calls(
                    ("leak", {"how": "tell"}),
                    ("quick_raise", {"kind": "value"}),
                    ("echo", {"text": mark("large") * 30_000}),
                    ("quick", {"text": mark("local")}),
                    ("memory_write", {"memories": [remembers], "scope": "public"}),
                    ("memory_read", {"query": mark("search")}),
                    ("builds", {"operations": [add(f"/{mark('path')}", mark("built"))]}),
                    ("note", {"text": mark("scratch")}),
                    text=mark("aside"),
                ),
                calls(("leak", {"how": "raise"}), ("tells", {"text": mark("beat"), "name": "g"})),
                {"text": mark("text")},
            ],
            "b": [calls(("risky", {"text": mark("risky")})), {"text": mark("later")}],
        },
        rules={"a": {"prompt": f"You are {mark('prompt')}.", "scratch": {}}},
        artifacts={"doc": {"initial": {mark("initial"): {}}}},
        script={"pace": 200},
        tools={
            "leak": tool("leak", secrets={"CANARY": "env:CANARY_TOKEN"}),
            "echo": tool("echo"),
            "quick": tool("echo", placed="local"),
            "quick_raise": tool("raises", placed="local"),
            "tells": tool("tells"),
            "builds": {"run": "building:change", "effects": "read", "heartbeat": 1},
            "risky": tool("echo", "never", effects="external", risk="high"),
        },
        memory={},
        approvals={"risky": ["b"]},
        limits={"events": 50},
        flow=["a", {"ask": f"Publish {mark('question')}?"}, "b"],
    )


async def refused(words: Any) -> str:
    with pytest.raises(CrewlogError) as told:
        await words
    return str(told.value)


async def a_run_s_life(site: Site) -> Run:
    """Everything that can be said to one run."""
    run = await site.start(crew_of(site), f"go {mark('input')}")
    await until(lambda: site.ledger(run, "start", tool="tells"), "the tool")
    await run.message(mark("message"))
    await run.pause(mark("pause"), by=mark("person"))
    await run.resume(mark("resume"))
    await run.change(
        operations=[EditAgent(name="b", set={"prompt": mark("edited")})],
        reason=mark("change"),
        wait=False,
    )
    await run.rule("a", "echo", "deny", reason=mark("rule"))
    site.open_gate(run, "g")
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (question,) = await run.interrupts()
    await refused(run.answer("i99", "approve", reason=mark("missed")))
    assert mark("option") in await refused(run.answer(question.id, mark("option")))
    handle = site.temporal.get_workflow_handle(run.id)
    with pytest.raises(WorkflowQueryFailedError):
        await handle.query("journal", {"after": mark("query")})
    await run.answer(question.id, "approve", reason=mark("approved"), by=mark("person"))
    await run.wait_until(
        lambda view: bool(view.interrupts) and view.interrupts != (question.id,), LIMIT
    )
    (question,) = await run.interrupts()
    assert await refused(run.edit_call(question.id, "risky", {"text": 3, "x": mark("wrong")}))
    await run.edit_call(question.id, "risky", {"text": mark("right")})
    result = await run.result(LIMIT)
    assert result.executions > 1
    return run


async def a_run_by_hand(site: Site) -> None:
    """What people do to a run's state, and a tool whose calls are counted."""
    crew = site.crew(
        {
            "a": [calls(("echo", {"text": mark("counted")})), {"text": mark("hand")}],
            "b": [{"text": "B"}],
        },
        tools={"echo": tool("echo")},
        flow=["a", {"wait": "500ms"}, {"ask": f"Which {mark('which')}?"}, "b"],
    )
    crew["rules"] = [{"tool": "echo", "quota": "50 per day"}]
    run = await site.start(crew, [mark("list"), {mark("name"): mark("value")}])
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (place, *_) = (await run.checkpoints()).checkpoints
    await run.tag(place.position, "good")
    await run.edit_state({"shared.told": mark("placed")}, reason=mark("edit"))
    await refused(run.edit_state({"flags.none": mark("flag")}, reason=mark("noedit")))
    await run.rollback("good", mark("back"))
    await run.wait_until(lambda view: view.interrupts == ("i2",), LIMIT)
    await run.redirect("b", reason=mark("redirected"))
    await run.result(LIMIT)


async def a_run_that_fails(site: Site) -> None:
    crew = site.crew(
        {"a": [calls(("tells", {"text": mark("error"), "name": "h"}))]},
        rules={"a": {"on_error": "fail"}},
        tools={"tells": tool("tells", on_error="fail", policy={"attempts": 1})},
    )
    run = await site.start(crew)
    site.open_gate(run, "h")
    assert mark("error") in await refused(run.result(LIMIT))


def registry_of(site: Site) -> dict[str, Any]:
    agent = {"prompt": mark("registry")}
    return {"registry": "stock", "agents": {"clerk": agent}}


async def other_runs(site: Site) -> None:
    """What is said by other ways: a schedule, a prompt, a start that fails, what is kept."""
    client, temporal = site.client(), site.temporal
    crew = site.crew({"a": [{"text": mark("short")}]}, rules={"a": {"prompt": mark("kept")}})
    await client.register({**crew, "crew": "kept", "memory": {"embedding": "hash:256"}})
    await client.memory.write(
        "kept", "public", [NewMemory(text=mark("noted"), key=mark("named"))], by=mark("author")
    )
    await client.memory.read("kept", "public", mark("sought"))
    await site.store.approve_tool("mcp:s", "add", "digest", mark("approver"), 1, mark("said"))
    proof = Signature(key="k", expires=1, signature="s")
    proven: dict[str, Any] = {
        "source": "mcp:s",
        "tool": "add",
        "hash": "digest",
        "at": 1,
        "signature": proof,
    }
    await site.store.put_signed_approval(SignedApproval(by=mark("prover"), **proven))
    schedules = client.schedules
    await client.register_registry(registry_of(site))
    await schedules.create(
        "often", crew, every=timedelta(days=1), input=mark("due"), by=mark("maker")
    )
    await schedules.trigger("often")
    await schedules.pause("often", mark("note"))
    broken = {"crew": "x", "agents": {"a": {"promt": mark("fault")}}}
    handle = await temporal.start_workflow(
        "CrewRun", {"crew": broken}, id="broken", task_queue=SHARED, execution_timeout=RUN_LIMIT
    )
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    said = reply(GATHERS, DRAFTS, of=5, talk=[5], crew="release-notes")
    reads = site.script({"compiler": [{"text": said}], **WORK})
    asked = await site.start(PROMPT + mark("prompted"), mark("for"), reader="model", model=reads)
    await asked.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await client.inbox()
    await asked.terminate(mark("ended"))
    assert mark("ended") in await refused(asked.result(LIMIT))
    site.runs.remove(asked)
    async with asyncio.timeout(LIMIT):
        while not (shown := await schedules.show("often")).recent:  # noqa: ASYNC110 - the server tells
            await asyncio.sleep(0.05)
    assert shown.note == mark("note")
    (run,) = shown.recent
    await client.run(run).result(LIMIT)
    await schedules.delete("often")


async def again(run: Run) -> None:
    """What comes of a run that has ended."""
    (place, *_) = (await run.checkpoints()).checkpoints
    edit = EditAgent(name="b", set={"prompt": mark("forked_runs")})
    fork = await run.fork(place.position, operations=[edit], by=mark("forker"))
    await fork.stop(mark("stop"))
    await fork.result(LIMIT)
    assert [each async for each in run.audit()]


def forms(text: str) -> Iterator[bytes]:
    """How a text may lie in bytes: as it is, in hex, and in base64 behind any other text."""
    data = text.encode()
    yield from (data, data.hex().encode())
    for before in range(3):
        found = base64.b64encode(bytes(before) + data)
        yield found[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]


def hides(where: str, data: bytes, *texts: str) -> None:
    for form in (form for text in texts for form in forms(text)):
        at = data.find(form)
        assert at < 0, (where, data[max(0, at - 80) : at + 80])


def test_a_canary_is_found_in_any_form() -> None:
    for before in range(4):
        plain = b"x" * before + mark("any").encode() + b"y"
        for data in (plain, plain.hex().encode(), base64.b64encode(plain)):
            with pytest.raises(AssertionError, match="here"):
                hides("here", data, SAID)


PLAIN_FIELDS = {
    *("accepted_request_message_id", "activity_id", "build_id", "continued_execution_run_id"),
    *("first_execution_run_id", "first_run_id", "identity", "inbound_update_id"),
    *("last_worker_identity", "marker_name"),
    *("message", "name"),
    *("new_execution_run_id", "normal_name", "original_execution_run_id", "protocol_instance_id"),
    *(
        "reason",
        "request_id",
        "run_id",
        "sdk_name",
        "sdk_version",
        "signal_name",
        "task_queue",
        "timer_id",
    ),
    # of a failure: the server or an SDK
    "source",
    *("type", "update_id", "worker_deployment_name", "workflow_id"),
    # and the names in maps
    *("details", "fields", "request_id_infos"),
}
"""Texts of histories and descriptions that are no payloads."""
TIMEOUTS = ("Heartbeat", "StartToClose", "ScheduleToStart", "ScheduleToClose")
PLAIN_WORDS = {
    *("Encoded failure", "terminated by its client"),
    # The server words the timeout of an activity itself: its message is no codec's.
    *(f"activity {timeout} timeout" for timeout in TIMEOUTS),
}
"""Of those, all that have more than one word."""
SDK_NOTES = {"data"}
"""Details of markers that the SDK itself writes: numbers, times, and the names of activities."""
REFERENCE = b'"driverName":"crewlog-directory"'


def plain_parts(message: Message, name: str = "") -> Iterator[tuple[str, str | Payload]]:
    """All that a message says without encryption, with the names of the fields."""
    if isinstance(message, Payload):
        kept = message.metadata["encoding"] == b"binary/encrypted" or REFERENCE in message.data
        if not kept and name not in SDK_NOTES:
            yield name, message
        return
    for field, value in message.ListFields():
        if field.name == "search_attributes":
            yield from (("search attribute", key) for key in value.indexed_fields)
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            pairs = [(key, each) for key, each in value.items()]
            yield from ((field.name, key) for key, _ in pairs)
        else:
            inner = name if field.name == "payloads" else field.name
            pairs = [(inner, each) for each in (value if field.is_repeated else (value,))]
        for key, each in pairs:
            if isinstance(each, Message):
                yield from plain_parts(each, key)
            elif isinstance(each, str | bytes):
                yield field.name, each if isinstance(each, str) else each.hex()


async def told_by_temporal(site: Site) -> bytes:
    """Histories, descriptions and listings, of which only what the documentation names is plain."""
    told: list[Message] = []
    async for found in site.temporal.list_workflows():
        handle = site.temporal.get_workflow_handle(found.id, run_id=found.run_id)
        told += [found.raw_info, (await handle.describe()).raw_description]
        told += [event async for event in handle.fetch_history_events()]
    for field, said in (part for each in told for part in plain_parts(each)):
        if field == "search attribute":
            assert re.match("Crewlog|Temporal|BuildIds", str(said))
            continue
        assert isinstance(said, str), (field, said)
        assert field in PLAIN_FIELDS, (field, said)
        assert re.fullmatch(r"[\w.:@/-]*", said) or said in PLAIN_WORDS, (field, said)
    return b"".join(each.SerializeToString() for each in told)


async def told_by_the_store(site: Site) -> bytes:
    """Every row; each column is encrypted, or is one that may be read."""
    sealed = {f"{each.table}.{each.column}" for each in COLUMNS}
    rows: list[str] = []
    connection = await asyncpg.connect(site.endpoints.database_url)
    try:
        columns = await connection.fetch(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'crewlog' AND data_type IN ('text', 'tsvector', 'ARRAY')"
        )
        for table, column in columns:
            said = [
                row[0] or ""
                for row in await connection.fetch(f"SELECT {column}::text FROM crewlog.{table}")  # noqa: S608
            ]
            if (name := f"{table}.{column}") in sealed:
                assert any(said), f"the story has nothing for {name}"
                assert all(each.startswith(PREFIX) for each in said if each), name
            else:
                assert name in PLAIN_COLUMNS, name
            rows += said
    finally:
        await connection.close()
    return "\n".join(rows).encode()


async def debugged(site: Site, *arguments: str) -> bytes:
    """All that a command says with `--debug`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crewlog.cli.main", *arguments, "--debug"),
        env=site.environ(SHARED) | {"CANARY_TOKEN": SECRET},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return said


async def test_no_canary_is_anywhere(heard: Listened) -> None:
    site = heard.site
    run, *_ = await asyncio.gather(
        *(a_run_s_life(site), other_runs(site), a_run_by_hand(site), a_run_that_fails(site))
    )
    await again(run)
    places = {
        "wire to Temporal": heard.temporal.messages(),
        "wire to Postgres": heard.postgres.raw(),
        "Temporal": await told_by_temporal(site),
        "store": await told_by_the_store(site),
    }
    for where, data in places.items():
        assert run.id.encode() in data, where
        hides(where, data, SECRET, SAID)
    files = [each.read_bytes() for each in site.payloads.rglob("*") if each.is_file()]
    assert files
    hides("payload folder", b"".join(files), SECRET, SAID)
    # Logs and commands are for people who may read: there only secrets are hidden.
    logs = b"".join(each.read_bytes() for each in site.root.glob("*.log"))
    for told in (b"DEBUG:", b"the plain log has [redacted]", b"the other log has it"):
        assert told in logs
    hides("logs", logs, SECRET)
    for command, seen in ((("audit", run.id), b"a#1"), (("show", "none"), b"'none'")):
        said = await debugged(site, *command)
        hides("command", said, SECRET)
        assert seen in said
    # And the run itself, as people see it, knows what was said, and not the secret.
    told = json.dumps([entry_to_json(entry) for _, entry in await site.journal(run)])
    bodies = set(re.findall(r'"body": "([^"]+)"', told))
    told += json.dumps(await site.store.get_bodies([*map(ContentHash, bodies)]))
    hides("journal_entries", told.encode(), SECRET)
    assert "the token is [redacted], or [redacted]" in told
    assert "failed with [redacted]" in told
    for place in SAID_TO_IT:
        assert mark(place) in told, place


SAID_TO_IT = (
    *("input", "message", "person", "pause", "resume", "change", "rule", "question"),
    *("local", "aside", "beat", "text", "right", "later"),
)
"""Places of the story that the run's journal and bodies tell of."""
