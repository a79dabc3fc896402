"""A namespace that the server does not have is reported as such, by every call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from temporalio.service import RPCError, RPCStatusCode

from client import crews
from crewlog import connect
from crewlog.client import Client, Endpoints
from crewlog.errors import NamespaceNotFound, RunNotFound, StoreUnavailable
from crewlog.ids import RunId
from crewlog.store import InMemoryStore
from crewlog.temporal_service.deployments import current_build
from crewlog.temporal_service.errors import is_execution_not_found, is_not_found, missing_namespace
from crewlog.workers.settings import WorkerSettings
from crewlog.workers.temporal_server import TemporalServer
from crewlog.workers.worker import run_until
from shared import LIMIT, Lab

MISSING = "no-such-namespace"
Call = Callable[[Client], Awaitable[object]]
CALLS: dict[str, Call] = {
    "start": lambda client: client.start(crews.line()),
    "list": lambda client: client.list(),
    "state": lambda client: client.run("notes-1").state(),
    "result": lambda client: client.run("notes-1").result(LIMIT),
    "pause": lambda client: client.run("notes-1").pause(),
    "answer": lambda client: client.run("notes-1").answer("i1", "approve"),
    "cancel": lambda client: client.run("notes-1").cancel(),
    "terminate": lambda client: client.run("notes-1").terminate(),
    "delete": lambda client: client.delete("notes-1"),
    "rebuild": lambda client: client.run("notes-1").rebuild(),
    "schedules.list": lambda client: client.schedules.list(),
    "schedules.pause": lambda client: client.schedules.pause("nightly"),
}


@pytest.fixture
async def lost(server: Endpoints) -> AsyncIterator[Client]:
    """A client of a namespace that is not there."""
    client = await connect(address=server.address, namespace=MISSING, store=InMemoryStore())
    async with client:
        yield client


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_every_call_names_the_missing_namespace(
    lost: Client, server: Endpoints, call: Call
) -> None:
    with pytest.raises(NamespaceNotFound, match=f"has no namespace '{MISSING}'") as caught:
        await call(lost)
    assert caught.value.place == server.address
    assert "Correct TEMPORAL_NAMESPACE" in caught.value.remedy
    create = f"namespace create --address {server.address} --namespace {MISSING}"
    assert create in caught.value.remedy


async def test_a_missing_run_is_no_missing_namespace(lab: Lab) -> None:
    with pytest.raises(RunNotFound, match="there is no run 'notes-none'"):
        await lab.client.run("notes-none").state()
    with pytest.raises(RPCError) as caught:
        await lab.client.gateway.handle(RunId("notes-none")).describe()
    assert missing_namespace(caught.value) is None
    assert is_not_found(caught.value)
    assert is_execution_not_found(caught.value)


async def test_a_worker_does_not_take_runs_of_a_missing_namespace_for_ended(
    lost: Client, lab: Lab
) -> None:
    server = TemporalServer(lost.temporal)
    for ask in (server.find_last_executions, server.is_open):
        with pytest.raises(StoreUnavailable, match=f"Namespace {MISSING} is not found"):
            await ask(RunId("notes-1"))
    server = TemporalServer(lab.client.temporal)
    assert await server.find_last_executions(RunId("notes-none")) == ()


async def test_a_worker_of_a_missing_namespace_ends_with_the_error(lost: Client) -> None:
    with pytest.raises(NamespaceNotFound, match=f"has no namespace '{MISSING}'"):
        await run_until(asyncio.Event(), lost.temporal, await lost.store(), WorkerSettings())


async def test_the_build_of_a_missing_namespace_is_an_error(lost: Client, lab: Lab) -> None:
    with pytest.raises(RPCError) as caught:
        await current_build(lost.temporal, "crewlog-none")
    assert missing_namespace(caught.value) == MISSING
    assert await current_build(lab.client.temporal, "crewlog-none") is None


def test_an_error_of_another_kind_names_no_namespace() -> None:
    error = RPCError("Namespace x is not found.", RPCStatusCode.UNAVAILABLE, b"")
    assert missing_namespace(error) is None
    assert not is_execution_not_found(error)
