from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import psutil
import pytest

from crewlog.dev import temporal_server
from crewlog.dev.doctor import examine
from crewlog.dev.paths import Home
from crewlog.dev.processes import ProcessRecord, Watchdog, end, identify, spawn
from crewlog.dev.progress import Progress
from crewlog.dev.registry import Registry, ServiceRecord
from crewlog.dev.services import Services, temporal_profile
from crewlog.dev.temporal_server import Ports
from crewlog.errors import ServiceError, TemporalUnavailable, UsageError
from crewlog.temporal_service.cli import TemporalCli

ENSURE = """
import asyncio, dataclasses, json
from crewlog.dev.services import Services
print(json.dumps(dataclasses.asdict(asyncio.run(Services().ensure()))))
"""
EPHEMERAL = """
import asyncio, pathlib, sys
from crewlog.dev.ephemeral import ephemeral
async def main():
    async with ephemeral(pathlib.Path(sys.argv[1])) as e:
        print(*[record.process.pid for record in e.services.records()], flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def pids(services: Services) -> dict[str, int]:
    return {record.name: record.process.pid for record in services.records()}


def using(root: Path) -> list[psutil.Process]:
    """The live processes whose command line names the directory."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if str(root) in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


async def start_run(address: str, run: str) -> None:
    client = await temporal_server.connect(address)
    await client.start_workflow("CrewRun", id=run, task_queue="nobody")


class _Ready(Progress):
    """Says when a server is ready, and what people saw."""

    def __init__(self) -> None:
        self.ready: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.seen: list[tuple[str, str]] = []

    def update(self, name: str, text: str) -> None:
        self.seen.append((name, text))

    def done(self, name: str, text: str) -> None:
        self.seen.append((name, text))
        self.ready[name].set()


@pytest.mark.parametrize("interrupted", [True, False])
async def test_what_was_started_ends_where_the_other_server_does_not_come(
    services: Services, monkeypatch: pytest.MonkeyPatch, *, interrupted: bool
) -> None:
    """Ctrl-C while the Temporal server is looked for, or none that can be started."""
    progress = _Ready()

    async def find(*_: object) -> TemporalCli:
        await progress.ready["postgres"].wait()
        if interrupted:
            starting.cancel()
            await asyncio.Event().wait()
        raise TemporalUnavailable("there is no server")

    monkeypatch.setattr("crewlog.dev.services.find_cli", find)
    starting = asyncio.ensure_future(services.ensure(progress))
    with pytest.raises(asyncio.CancelledError if interrupted else TemporalUnavailable):
        await starting
    assert using(services.home.root) == []
    assert services.records() == []


async def test_a_server_that_was_there_stays_where_the_other_does_not_come(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {**services.environ, "TEMPORAL_ADDRESS": "127.0.0.1:1"}
    await Services(services.home, environ=alone).ensure()
    before = pids(services)

    async def find(*_: object) -> TemporalCli:
        raise TemporalUnavailable("there is no server")

    monkeypatch.setattr("crewlog.dev.services.find_cli", find)
    with pytest.raises(TemporalUnavailable):
        await services.ensure()
    assert pids(services) == before
    assert identify(before["postgres"]) is not None


async def test_two_processes_at_once_end_with_one_server(
    services: Services, environ: dict[str, str]
) -> None:
    home = {**environ, "CREWLOG_HOME": str(services.home.root)}

    async def ensure() -> dict[str, object]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ENSURE, env=home, stdout=-1, stderr=-1
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return json.loads(out)

    first, second = await asyncio.gather(ensure(), ensure())

    assert sorted([first.pop("started"), second.pop("started")]) == [[], ["temporal", "postgres"]]
    assert first == second
    # They outlive the commands that started them, and are found again.
    assert (await services.ensure()).started == []
    listed = {status.name: status for status in await services.list_services()}
    assert all(status.healthy and status.version for status in listed.values())
    assert sorted(listed) == ["postgres", "temporal"]
    servers = [p for p in using(services.home.root) if p.cmdline()[1] in {"server", "-D"}]
    assert sorted(p.pid for p in servers) == sorted(pids(services).values())

    assert sorted(await services.stop_all()) == ["postgres", "temporal"]
    assert using(services.home.root) == []
    assert await services.stop_all() == []
    assert await services.list_services() == []


async def test_a_killed_server_is_taken_over_with_its_data(services: Services) -> None:
    before = await services.ensure()
    await start_run(before.temporal_address, "kept")
    connection = await asyncpg.connect(before.database_url)
    await connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    old = pids(services)
    connection.terminate()
    killed = [psutil.Process(pid) for pid in old.values()]
    for process in killed:
        process.kill()
    psutil.wait_procs(killed, timeout=60)

    progress = _Ready()
    after = await services.ensure(progress)

    assert sorted(after.started) == ["postgres", "temporal"]
    version = services.temporal().version
    assert ("temporal", f"{version}, restarted on the same data") in progress.seen
    assert not set(pids(services).values()) & set(old.values())
    assert (after.temporal_address, after.ui_url) == (before.temporal_address, before.ui_url)
    client = await temporal_server.connect(after.temporal_address)
    assert (await client.get_workflow_handle("kept").describe()).id == "kept"
    connection = await asyncpg.connect(after.database_url)
    assert await connection.fetchval("SELECT value FROM kept") == 7
    await connection.close()


async def test_a_server_that_does_not_answer_is_restarted_and_people_see_the_wait(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crewlog.dev.services.HUNG_LIMIT", 2.0)
    before = await services.ensure()
    old = psutil.Process(pids(services)["temporal"])
    old.send_signal(signal.SIGSTOP)
    progress = _Ready()

    after = await services.ensure(progress)

    assert after.started == ["temporal"]
    assert after.temporal_address == before.temporal_address
    assert not old.is_running()
    texts = [text for name, text in progress.seen if name == "temporal"]
    assert texts[:2] == ["waiting for it to answer", "it does not answer; starting it again"]
    assert texts[-1].endswith(", restarted on the same data")


async def test_a_corrupt_registry_is_set_aside_and_servers_are_found_again(
    services: Services,
) -> None:
    before = await services.ensure()
    old = pids(services)
    services.home.registry.write_text('{"services": [')

    after = await services.ensure()

    assert after.started == []
    assert after.temporal_address == before.temporal_address
    assert pids(services) == old
    assert services.home.registry.with_suffix(".corrupt.json").exists()


async def test_stop_leaves_a_process_that_got_a_recorded_pid(
    services: Services, foreign: subprocess.Popen[bytes]
) -> None:
    services.home.create()
    now = identify(foreign.pid)
    assert now is not None
    other_command = now.model_copy(update={"command": ("temporal", "server")})
    other_time = now.model_copy(update={"started": now.started - 60})
    with Registry(services.home).edit() as data:
        data.services["temporal"] = ServiceRecord(name="temporal", process=other_command)
        data.services["postgres"] = ServiceRecord(name="postgres", process=other_time)
        data.workers.append(ServiceRecord(name="worker", process=other_time))

    assert await services.stop_all() == []
    assert foreign.poll() is None


async def test_a_registered_worker_is_listed_and_stopped(
    services: Services, foreign: subprocess.Popen[bytes]
) -> None:
    services.register_worker(foreign.pid, task_queue="crewlog")
    (status,) = await services.list_services()
    assert (status.name, status.pid, status.healthy) == ("worker", foreign.pid, True)

    assert await services.stop_all() == ["worker"]
    assert services.workers() == []
    with pytest.raises(UsageError, match="there is no process"):
        services.register_worker(foreign.pid)


async def test_servers_of_the_user_are_used_and_nothing_is_started(directory: Path) -> None:
    env = {
        "TEMPORAL_ADDRESS": "temporal.example:7233",
        "TEMPORAL_NAMESPACE": "crews",
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "DATABASE_URL": "postgresql://db.example/crews",
    }
    endpoints = await Services(Home.at(directory / "none"), environ=env).ensure()
    assert endpoints.temporal_address == "temporal.example:7233"
    assert endpoints.namespace == "crews"
    assert endpoints.database_url == "postgresql://db.example/crews"
    assert (endpoints.ui_url, endpoints.started) == (None, [])
    assert not (directory / "none").exists()


async def test_a_profile_with_an_address_counts_too(directory: Path) -> None:
    file = directory / "temporal.toml"
    file.write_text('[profile.default]\naddress = "far:7233"\nnamespace = "n"\n')
    env = {"TEMPORAL_CONFIG_FILE": str(file), "DATABASE_URL": "postgresql://x/y"}
    endpoints = await Services(Home.at(directory / "none"), environ=env).ensure()
    assert (endpoints.temporal_address, endpoints.namespace) == ("far:7233", "n")
    file.write_text("[profile")
    with pytest.raises(UsageError, match="configuration cannot be read"):
        await Services(Home.at(directory / "none"), environ=env).ensure()


@pytest.mark.parametrize("source", ["variable", "file"])
async def test_a_namespace_without_a_server_is_refused(directory: Path, source: str) -> None:
    file = directory / "temporal.toml"
    file.write_text('[profile.default]\nnamespace = "crews"\n' if source == "file" else "")
    env = {"TEMPORAL_CONFIG_FILE": str(file), "DATABASE_URL": "postgresql://x/y"}
    if source == "variable":
        env["TEMPORAL_NAMESPACE"] = "crews"
    with pytest.raises(UsageError, match="'crews' is configured without a server") as caught:
        await Services(Home.at(directory / "none"), environ=env).ensure()
    assert caught.value.remedy == "Set TEMPORAL_ADDRESS too, or unset TEMPORAL_NAMESPACE."
    assert temporal_profile(env, address="far:7233").namespace == "crews"
    (verdict,) = [
        c for c in await examine(Home.at(directory / "none"), environ=env) if c.status == "fail"
    ]
    assert "without a server" in verdict.detail


async def test_a_port_in_use_leads_to_another_port(
    cli: TemporalCli, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(temporal_server, "DEFAULT_PORT", port)
        assert Ports.choose(usual=True).frontend != port

        # Taken between our look and the server's start: it dies, and is started elsewhere.
        choices = iter([Ports(port, Ports.choose(usual=False).ui)])
        honest = Ports.choose
        monkeypatch.setattr(
            Ports,
            "choose",
            lambda usual, last: next(choices, None) or honest(usual=usual, last=last),
        )
        endpoints = await services.ensure()
        assert "temporal" in endpoints.started
        assert endpoints.temporal_address != f"127.0.0.1:{port}"


async def test_a_server_that_dies_at_its_start_says_why(
    services: Services, environ: dict[str, str]
) -> None:
    services.home.create()
    services.home.temporal_db.write_text("this is no database" * 100)
    local = Services(services.home, environ={**environ, "DATABASE_URL": "postgresql://x/y"})
    with pytest.raises(TemporalUnavailable, match="ended while it was starting") as caught:
        await local.ensure()
    assert "not a database" in caught.value.message
    assert "temporal.log" in caught.value.remedy


PANICS = """#!/bin/sh
if [ -e {once} ]; then exec {then} "$@"; fi
touch {once}
echo 'panic: {cause}'
for frame in $(seq 1 200); do echo "    goroutine frame $frame"; done
exit 2
"""


def panicking(directory: Path, cause: str, then: Path = Path("false")) -> TemporalCli:
    """A command line that panics with a long trace, and does something else the next time."""
    program = directory / "panics"
    program.write_text(PANICS.format(cause=cause, once=directory / "panicked", then=then))
    program.chmod(0o755)
    return TemporalCli(program, "1.9.1", "1.32.0", "test")


async def test_a_panic_at_the_start_shows_its_cause(services: Services, directory: Path) -> None:
    services.home.create()
    with pytest.raises(TemporalUnavailable, match="panic: no such table") as caught:
        await temporal_server.start(panicking(directory, "no such table"), services.home)
    assert "frame 200" not in caught.value.message


async def test_a_port_that_was_taken_for_a_service_within_leads_to_another_start(
    cli: TemporalCli, services: Services, directory: Path
) -> None:
    services.home.create()
    panics = panicking(directory, "listen tcp: bind: address already in use", cli.path)
    begun: list[ProcessRecord] = []
    record = await temporal_server.start(panics, services.home, on_spawn=begun.append)
    assert [process.pid == record.process.pid for process in begun] == [False, True]
    end(record.process, gently=signal.SIGKILL)


async def test_a_home_that_cannot_be_written_is_a_clear_error(
    directory: Path, environ: dict[str, str]
) -> None:
    (directory / "file").write_text("")
    local = Services(Home.at(directory / "file" / "home"), environ=environ)
    with pytest.raises(ServiceError, match="cannot be written") as caught:
        await local.ensure()
    assert "CREWLOG_HOME" in caught.value.remedy


async def test_a_pid_file_whose_pid_is_another_program_does_not_matter(
    services: Services, environ: dict[str, str], foreign: subprocess.Popen[bytes]
) -> None:
    local = Services(services.home, environ={**environ, "TEMPORAL_ADDRESS": "elsewhere:7233"})
    assert (await local.ensure()).started == ["postgres"]
    file = services.home.postgres / "postmaster.pid"
    lines = file.read_text().splitlines()
    await local.stop_all()
    file.write_text("\n".join([str(foreign.pid), *lines[1:]]) + "\n")
    assert (await local.ensure()).started == ["postgres"]
    assert foreign.poll() is None


async def test_ephemeral_services_end_with_their_process(
    directory: Path, environ: dict[str, str]
) -> None:
    async def check(how: signal.Signals) -> None:
        parent = await asyncio.create_subprocess_exec(
            sys.executable, "-c", EPHEMERAL, str(directory / how.name), env=environ, stdout=-1
        )
        assert parent.stdout is not None
        servers = [psutil.Process(int(word)) for word in (await parent.stdout.readline()).split()]
        assert len(servers) == 2
        parent.send_signal(how)
        await parent.wait()
        _, alive = await asyncio.to_thread(psutil.wait_procs, servers, 20)
        assert alive == []

    await asyncio.gather(check(signal.SIGTERM), check(signal.SIGKILL))


def test_a_zombie_or_a_stranger_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    record = identify(child.pid)
    child_process = psutil.Process(child.pid)
    while child_process.status() != psutil.STATUS_ZOMBIE:
        os.sched_yield()
    assert identify(child.pid) is None
    assert record is None or not record.alive
    child.wait()
    assert not ProcessRecord(pid=os.getpid(), started=-1000, command=()).alive


@pytest.mark.skipif(not psutil.LINUX, reason="other systems record the time of the clock")
def test_a_step_of_the_clock_leaves_a_process_alive(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = spawn(["sleep", "100"], directory / "log")
    watchdog = Watchdog()
    try:
        created = process.created
        with monkeypatch.context() as patched:
            # The system's boot is as long ago as before, so the clock has another time for it.
            boot = psutil.boot_time() + 3600
            patched.setattr("psutil._pslinux.boot_time", lambda: boot)
            assert process.alive
            assert identify(process.pid) == process
            assert process.created == pytest.approx(created + 3600, abs=2)
        watchdog.watch(process)
    finally:
        watchdog.close()
    assert not process.alive


LATE_REAPER = """
import subprocess, sys
child = subprocess.Popen(["sleep", "100"])
print(child.pid, flush=True)
sys.stdin.read()
child.wait()
"""


def test_the_pid_of_a_process_that_was_ended_is_free(directory: Path) -> None:
    # Its parent is another process, which reaps it late.
    parent = subprocess.Popen(
        [sys.executable, "-c", LATE_REAPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    record = identify(int(parent.stdout.readline()))
    assert record is not None
    with ThreadPoolExecutor() as pool:
        ending = pool.submit(end, record)
        while record.alive:
            os.sched_yield()
        assert psutil.pid_exists(record.pid)
        assert not ending.done()
        parent.stdin.close()
        assert ending.result() is not None
    assert not psutil.pid_exists(record.pid)
    parent.wait()
    parent.stdout.close()


def test_a_program_that_is_still_being_loaded_is_alive(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Seen once in a few hundred starts on a busy machine: /proc/PID/cmdline is empty at first.
    process = spawn(["sleep", "100"], directory / "log")
    with monkeypatch.context() as patched:
        patched.setattr(psutil.Process, "cmdline", lambda _process: [])
        assert process.alive
    honest = psutil.Process.cmdline
    readings = iter([False, False])
    monkeypatch.setattr(
        psutil.Process, "cmdline", lambda process: honest(process) if next(readings, True) else []
    )
    stranger = identify(process.pid)
    assert stranger is not None
    assert stranger.command == process.command
    assert end(process, grace=5) is not None
