from __future__ import annotations

import asyncio
import itertools
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import psutil
import pytest

from crewlog import connect
from crewlog.dev import supervisor, temporal_server
from crewlog.dev.registry import ServiceRecord
from crewlog.dev.services import Services
from crewlog.dev.supervisor import Supervisor
from crewlog.errors import TemporalUnavailable
from crewlog.store import InMemoryStore
from crewlog.temporal_service.cli import TemporalCli

LIMIT = 60.0
ENDED = "the local Temporal server ended; restarted it on the same data"
SILENT = r"the local Temporal server did not answer for \d+ s; restarted it on the same data"
OTHER = "the local Temporal server was restarted on the same data"
Supervise = Callable[[list[str]], Awaitable[Supervisor]]


@pytest.fixture
async def alone(services: Services) -> Services:
    """A Temporal server without Postgres, with a workflow that is to be kept."""
    only = Services(services.home, environ={**services.environ, "DATABASE_URL": "memory:"})
    await only.ensure()
    client = await temporal_server.connect(record(only).address)
    await client.start_workflow("CrewRun", id="kept", task_queue="nobody")
    return only


@pytest.fixture
async def supervise(alone: Services) -> AsyncIterator[Supervise]:
    async with AsyncExitStack() as stack:

        async def make(reports: list[str]) -> Supervisor:
            services = Services(alone.home, environ=alone.environ)
            client = await temporal_server.connect(record(alone).address)
            supervisor = Supervisor(services, client, reports.append)
            stack.push_async_callback(supervisor.close)
            return supervisor

        yield make


def record(services: Services) -> ServiceRecord:
    found = services.temporal()
    assert found is not None
    return found


def send(services: Services, number: signal.Signals) -> psutil.Process:
    process = record(services).process.find()
    assert process is not None
    process.send_signal(number)
    return process


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def servers(services: Services) -> list[int]:
    """The processes that have the home's database open."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if str(services.home.temporal_db) in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(("number", "line"), [(signal.SIGKILL, ENDED), (signal.SIGSTOP, SILENT)])
async def test_a_server_that_ended_or_is_wedged_is_restarted_on_the_same_data(
    alone: Services, supervise: Supervise, number: signal.Signals, line: str
) -> None:
    reports: list[str] = []
    await supervise(reports)
    before = record(alone)
    send(alone, number)

    await until(lambda: bool(reports))

    # Another program may have its port by then; so the report says.
    told = re.fullmatch(rf"{line}(, at (?P<moved>\S+): start this command again)?", reports[0])
    assert told is not None, reports
    after = record(alone)
    assert after.address == (told["moved"] or before.address)
    assert after.process != before.process
    assert servers(alone) == [after.process.pid]
    client = await temporal_server.connect(after.address)
    assert (await client.get_workflow_handle("kept").describe()).id == "kept"


async def test_of_several_supervisors_one_restarts_and_all_report(
    alone: Services, supervise: Supervise
) -> None:
    every = [list[str](), list[str](), list[str]()]
    for reports in every:
        await supervise(reports)
    send(alone, signal.SIGKILL)

    await until(lambda: all(every))

    assert servers(alone) == [record(alone).process.pid]
    assert {line for reports in every for line in reports} <= {ENDED, OTHER}
    assert [len(reports) for reports in every] == [1, 1, 1]


async def test_a_server_that_an_interrupted_start_left_is_taken(alone: Services) -> None:
    known = record(alone)
    send(alone, signal.SIGKILL).wait(LIMIT)
    left, _ = await alone._start_temporal(known)  # and its starter ended before it recorded that
    assert record(alone).process == known.process

    found = await Services(alone.home, environ=alone.environ).restart_temporal(known)

    assert found is not None
    assert found.process == left.process == record(alone).process
    assert servers(alone) == [left.process.pid]


async def test_supervision_outlives_errors_of_restarts_and_of_reports(
    alone: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = Services(alone.home, environ=alone.environ)
    restart, tries, told = services.restart_temporal, 0, list[str]()

    async def refused_once(known: ServiceRecord) -> ServiceRecord | None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise PermissionError("not yours")
        return await restart(known)

    def report(line: str) -> None:
        told.append(line)
        raise BrokenPipeError

    monkeypatch.setattr(services, "restart_temporal", refused_once)
    monkeypatch.setattr(supervisor, "RETRY_PAUSE", 0.05)
    made = Supervisor(services, await temporal_server.connect(record(alone).address), report)
    send(alone, signal.SIGKILL)

    await until(lambda: len(told) == 2)
    await made.close()

    assert told == [f"{ENDED.partition(';')[0]}, and does not start again: not yours", ENDED]
    assert servers(alone) == [record(alone).process.pid]


async def test_a_server_that_was_stopped_on_purpose_stays_down(
    alone: Services, supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[str] = []
    supervisor = await supervise(reports)
    looks = 0
    take = supervisor._take

    def count(found: ServiceRecord | None) -> None:
        nonlocal looks
        looks += found is None
        take(found)

    monkeypatch.setattr(supervisor, "_take", count)
    await alone.stop_all()

    await until(lambda: looks >= 2)

    assert servers(alone) == []
    assert reports == []
    # Started again by somebody, it is supervised again.
    await alone.ensure()
    await until(lambda: supervisor._known is not None)
    send(alone, signal.SIGKILL)
    await until(lambda: bool(reports))
    assert reports == [ENDED]


async def test_a_server_that_is_only_slow_is_left_alone(
    alone: Services, supervise: Supervise
) -> None:
    reports: list[str] = []
    supervisor = await supervise(reports)
    before = record(alone)
    process = send(alone, signal.SIGSTOP)
    await until(lambda: supervisor._failures == 1)
    process.send_signal(signal.SIGCONT)
    await until(lambda: supervisor._since is None)
    assert record(alone) == before
    assert process.is_running()
    assert reports == []


async def test_a_server_that_answers_a_new_connection_is_not_restarted(alone: Services) -> None:
    before = record(alone)
    assert await alone.restart_temporal(before) == before
    assert servers(alone) == [before.process.pid]


async def test_a_server_that_does_not_start_again_is_reported_once(
    alone: Services, supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    async def fail(*_: object) -> TemporalCli:
        nonlocal calls
        calls += 1
        raise TemporalUnavailable("there is no Temporal server to start", remedy="Install it.")

    with monkeypatch.context() as patch:
        patch.setattr("crewlog.dev.services.find_cli", fail)
        patch.setattr("crewlog.dev.supervisor.RETRY_PAUSE", 0.05)
        reports: list[str] = []
        await supervise(reports)
        send(alone, signal.SIGKILL)
        await until(lambda: calls >= 2)
        [line] = reports
        assert "ended, and does not start again: there is no Temporal server to start" in line
        assert "Install it." in line
    await until(lambda: len(reports) > 1)
    assert reports[1:] == [ENDED]


async def test_a_server_that_ends_at_each_start_is_restarted_less_and_less_often(
    alone: Services, supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "PAUSE", 0.05)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 0.4)
    reports: list[str] = []
    recorded, restarts = [record(alone)], list[float]()

    async def restart(_services: Services, known: ServiceRecord) -> ServiceRecord:
        restarts.append(time.monotonic())
        process = known.process.model_copy(update={"started": -1.0 - len(restarts)})
        recorded.append(known.model_copy(update={"process": process}))
        return recorded[-1]

    monkeypatch.setattr(Services, "restart_temporal", restart)
    monkeypatch.setattr(Services, "temporal", lambda _services: recorded[-1])
    await supervise(reports)
    send(alone, signal.SIGKILL)
    await until(lambda: len(restarts) == 6)
    monkeypatch.setattr(supervisor, "STABLE", 0.0)
    await until(lambda: len(restarts) == 8)
    pauses = [after - before for before, after in itertools.pairwise(restarts)]
    assert all(pause >= 0.05 * 2 ** min(n, 3) for n, pause in enumerate(pauses[:5], start=1))
    again = [line for line in reports if "ended again; restarting it in" in line]
    assert len(again) in (4, 5)
    assert reports[:2] == [ENDED, ENDED]
    assert reports[2] in again


async def test_the_client_supervises_a_local_server_and_no_named_one(
    alone: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREWLOG_HOME", str(alone.home.root))
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("DATABASE_URL", "memory:")
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    reports: list[str] = []
    async with await connect(store=InMemoryStore()) as client:
        client.report = reports.append
        send(alone, signal.SIGKILL)
        await until(lambda: bool(reports))
        assert reports == [ENDED]
        assert [each.run for each in await client.list()] == ["kept"]

    address = record(alone).address
    for named in ({"address": address}, {"services": False}):
        async with await connect(store=InMemoryStore(), **named) as client:
            assert client._supervisor is None
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    async with await connect(store=InMemoryStore()) as client:
        assert client._supervisor is None
