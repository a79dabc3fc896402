"""What Temporal's own lists and web interface show of a run."""

from __future__ import annotations

import asyncio
import os
import secrets

import asyncpg
from temporalio.api.enums.v1 import EventType, IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client as TemporalClient
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError

from covers import covers
from crewlog.client import Run
from crewlog.dev import temporal_server
from crewlog.payload_storage.converter import data_converter

from .harness import LIMIT, RUN_LIMIT, Site, calls, tool


async def asking(site: Site) -> Run:
    crew = site.crew(
        {"a": [calls(("echo", {"text": "Linz"})), {"text": "A"}]},
        tools={"echo": tool("echo")},
        flow=["a", {"ask": "Publish?"}],
    )
    run = await site.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    return run


@covers("C123")
async def test_runs_are_found_by_their_status(crews: Site) -> None:
    run = await asking(crews)
    query = f'CrewlogStatus = "waiting" AND CrewlogCrew = "acceptance" AND WorkflowId = "{run.id}"'
    for _ in range(200):  # lists follow a little later
        found = [w.id async for w in crews.temporal.list_workflows(query)]
        if found:
            break
        await asyncio.sleep(0.02)
    assert found == [run.id]
    description = await crews.temporal.get_workflow_handle(run.id).describe()
    told = description.typed_search_attributes
    shown = "i1" if os.environ.get("CREWLOG_ENCRYPTION_KEYS") else "i1: Publish?"
    assert told.get(SearchAttributeKey.for_keyword("CrewlogWaiting")) == shown
    await run.answer("i1", "approve")
    await run.result(LIMIT)
    description = await crews.temporal.get_workflow_handle(run.id).describe()
    told = description.typed_search_attributes
    assert told.get(SearchAttributeKey.for_keyword("CrewlogStatus")) == "completed"


@covers("C123")
async def test_the_web_interface_tells_what_runs_do(crews: Site) -> None:
    run = await asking(crews)
    handle = crews.temporal.get_workflow_handle(run.id)
    metadata = str(await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata))
    assert "Publish?" in metadata
    assert "mermaid" in metadata
    summaries = await summaries_of(crews, run)
    assert summaries[:3] == ["a#1 thinks", "a#1 echo Linz", "a#1 thinks"]


async def summaries_of(site: Site, run: Run) -> list[str]:
    """What the web interface shows of a run's activities and timers."""
    history = await site.temporal.get_workflow_handle(run.id).fetch_history()
    return [
        (await site.temporal.data_converter.decode([event.user_metadata.summary]))[0]
        for event in history.events
        if event.event_type
        in (
            EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
            EventType.EVENT_TYPE_TIMER_STARTED,
        )
    ]


@covers("C123")
async def test_whose_item_it_is_and_what_a_session_waits_for_are_told(crews: Site) -> None:
    items = [{"agent": "b"}, {"agent": "c"}]
    plan = [calls(("set_output", {"key": "steps", "value": items})), {"text": "planned"}]
    pool = {"phase": "work", "for_each": "a.steps", "by": "agent", "among": ["b", "c"]}
    crew = crews.crew(
        {"a": plan, "b": [calls(("echo", {"text": "x"})), {"text": "B"}], "c": [{"text": "C"}]},
        rules={"a": {"outputs": ["steps"]}},
        tools={"echo": tool("echo")},
        flow=["a", pool],
        conversation={"idle": "1h"},
    )
    run = await crews.start(crew, "go")
    await run.wait_until(lambda view: view.status == "waiting", LIMIT)
    told = await summaries_of(crews, run)
    assert "work#1.1 (b, item 1 of 2) thinks" in told
    assert "work#1.1 (b, item 1 of 2) echo x" in told
    assert "work#1.2 (c, item 2 of 2) thinks" in told
    assert told[-1].startswith("waits for a message until ")
    handle = crews.temporal.get_workflow_handle(run.id)
    metadata = str(await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata))
    assert " · exchange 1" in metadata


async def test_attributes_that_the_server_refuses_are_left_out(site: Site) -> None:
    """A namespace whose keyword attributes are all taken: the server itself says no."""
    address, namespace = site.endpoints.temporal_address, f"full-{secrets.token_hex(4)}"
    await temporal_server._register(site.temporal, namespace)
    client = await _usable(address, namespace, site)
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(
            namespace=namespace,
            search_attributes={
                f"Other{i}": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for i in range(10)
            },
        )
    )
    url = await _database(site, namespace)
    worker = await site.start_worker("full", TEMPORAL_NAMESPACE=namespace, DATABASE_URL=url)
    try:
        assert "search attributes are not set" in worker.said()
        crew = site.crew({"a": [{"text": "A"}]})
        result = await client.execute_workflow(
            "CrewRun",
            {"crew": crew, "input": "go"},
            id="left-out",
            task_queue="full",
            execution_timeout=RUN_LIMIT / 3,
        )
        assert result["outputs"]["a"]["text"] == "A"
    finally:
        site.end_workers("full")


async def _database(site: Site, name: str) -> str:
    """A database of a namespace's own: with encryption, rows are bound to the namespace."""
    url = site.endpoints.database_url
    connection = await asyncpg.connect(url)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    head, question, query = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{question}{query}"


async def _usable(address: str, namespace: str, site: Site) -> TemporalClient:
    """A client of a namespace that was registered a moment ago."""
    client = await TemporalClient.connect(
        address, namespace=namespace, data_converter=data_converter(site.payloads)
    )

    for _ in range(400):
        try:
            await temporal_server.missing_search_attributes(client, namespace)
        except RPCError:
            await asyncio.sleep(0.05)
        else:
            return client
    raise TimeoutError(namespace)
