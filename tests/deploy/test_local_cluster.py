"""The local cluster: what it is as data, and that its command refuses what makes no sense.

That it starts, serves and stops is shown by `make test-cluster`.
"""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from cluster import COMMAND, Cluster, Condition, remedies
from cluster_config import PORT_NAMES, PORTS, ROLES, State, choose_ports, server_environ
from cluster_postgres import command
from cluster_programs import postgres_programs, temporal_programs

from crewlog.dev.processes import ProcessRecord, spawn
from crewlog.dev.progress import SILENT
from crewlog.errors import ServiceError, StoreUnavailable, TemporalUnavailable

SCRIPT = Path(__file__).parents[2] / "deploy" / "local-cluster" / "cluster.py"
GO = '[ "$1" = version ] && echo "go version go1.26.8 linux/amd64" && exit 0'
PASSWORDS = {"postgres": "p", "temporal": "t/@", "crewlog": "c"}


def _state() -> State:
    return State(ports=choose_ports(lambda _: True, 1), passwords=PASSWORDS)


def test_ports_are_free_different_and_out_of_the_systems_way() -> None:
    taken = set(range(20_000, 20_100)) | {31_999}
    for seed in range(0, len(PORTS), 240):
        ports = choose_ports(lambda port: port not in taken, seed)
        assert set(ports) == set(PORT_NAMES)
        assert len(set(ports.values())) == len(PORT_NAMES)
        assert not taken & set(ports.values())
        assert all(port in PORTS for port in ports.values())
    with pytest.raises(OSError, match="no 10 free ports"):
        choose_ports(lambda port: port < 20_009, 1)


def test_every_process_has_its_role_and_knows_the_others_ports() -> None:
    state = _state()
    environs = {role: server_environ(state, role) for role in ROLES}
    for role, environ in environs.items():
        assert environ.pop("TEMPORAL_SERVICES") == role
        assert environ["PUBLIC_FRONTEND_ADDRESS"] == state.address
        assert Path(environ["DYNAMIC_CONFIG_FILE_PATH"]).is_file()
    first = environs["frontend"]
    assert all(environ == first for environ in environs.values())
    ports = [int(v) for k, v in first.items() if k.endswith("_PORT")]
    assert sorted(ports) == sorted(state.ports.values())


def test_a_state_file_says_all_of_it_to_its_owner_alone(directory: Path) -> None:
    cluster = Cluster(directory)
    with pytest.raises(ServiceError, match="no cluster"):
        _ = cluster.environ
    process = ProcessRecord(pid=1, started=2.5, command=("a", "b"))
    cluster._write(_state().model_copy(update={"processes": {"history": process}}))
    assert cluster.state == _state().model_copy(update={"processes": {"history": process}})
    assert stat.S_IMODE((directory / "state.json").stat().st_mode) == 0o600
    assert cluster.environ == {
        "TEMPORAL_ADDRESS": cluster.state.address,
        "DATABASE_URL": f"postgresql://crewlog:c@127.0.0.1:{cluster.state.ports['postgres']}/crewlog",
    }
    assert "temporal:t%2F%40@" in cluster.state.url("temporal", "temporal")


async def test_only_its_own_process_is_ended(directory: Path) -> None:
    """A pid that is another program's by now is left alone, and a lost one is found."""
    cluster = Cluster(directory)
    stranger = spawn(["sleep", "60"], directory / "log")
    program = cluster._program("history")
    program.parent.mkdir()
    program.symlink_to("/bin/sleep")
    lost = spawn([str(program), "60"], directory / "log")
    try:
        said = stranger.model_copy(update={"started": stranger.started - 100})
        cluster._write(_state().model_copy(update={"processes": {"frontend": said}}))
        assert cluster.kill("frontend") is None
        assert stranger.alive
        assert (await cluster.start("history")).pid == lost.pid
        assert cluster.kill("history") == lost
        assert not lost.alive
        assert await cluster.down() == []
        with pytest.raises(ServiceError, match="no cluster"):
            _ = cluster.state
    finally:
        for process in (stranger, lost):
            if found := process.find():
                found.kill()


async def test_a_directory_of_something_else_is_not_removed(directory: Path) -> None:
    (directory / "kept").touch()
    assert await Cluster(directory).down() == []
    assert (directory / "kept").exists()


def test_debians_postgres_is_found_or_asked_for(directory: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"apt-get install .*postgresql-15"):
        postgres_programs(directory)
    for version, whole in (("13", True), ("17", True), ("15", False)):
        (directory / version / "bin").mkdir(parents=True)
        if whole:
            (directory / version / "bin" / "initdb").touch()
    assert postgres_programs(directory) == directory / "17" / "bin"
    (directory / "15" / "bin" / "initdb").touch()
    assert postgres_programs(directory) == directory / "15" / "bin"


def test_postgres_keeps_what_was_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster_postgres.postgres_programs", lambda: Path("/usr/bin"))
    words = command("/data", _state())
    assert words[1:3] == ["-D", "/data"]
    assert not [word for word in words if word.startswith(("fsync=", "synchronous_commit="))]
    assert "listen_addresses=127.0.0.1" in words


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (None, "go is not on PATH"),
        ("echo go version go1.25.4 linux/amd64", "go1.25 is too old: the server needs 1.26"),
        ("echo broken >&2; exit 1", "go does not work: broken"),
    ],
)
async def test_without_go_the_server_cannot_be_built(
    directory: Path, body: str | None, fault: str
) -> None:
    if body is not None:
        _write_go(directory, body)
    environ = {"CREWLOG_CACHE": str(directory), "PATH": str(directory)}
    with pytest.raises(TemporalUnavailable, match=fault) as caught:
        await temporal_programs(SILENT, environ)
    assert "Install Go 1.26" in caught.value.remedy
    assert list((directory / "temporal-server").glob("making-*")) == []


async def test_a_failed_build_leaves_nothing_and_says_why(directory: Path) -> None:
    _write_go(directory, f"{GO}\necho no route to host; exit 1")
    environ = {"CREWLOG_CACHE": str(directory / "cache"), "PATH": f"{directory}:/usr/bin:/bin"}
    with pytest.raises(TemporalUnavailable, match=r"`go install` failed after .*no route to host"):
        await temporal_programs(SILENT, environ)
    assert [p.name for p in (directory / "cache" / "temporal-server").iterdir()] == ["build.lock"]


async def test_a_cancelled_build_ends_the_compiler(directory: Path) -> None:
    pid_file = directory / "pid"
    os.mkfifo(pid_file)
    _write_go(directory, f"{GO}\nsleep 1000 & echo $! > {pid_file}; wait")
    environ = {"CREWLOG_CACHE": str(directory / "cache"), "PATH": f"{directory}:/usr/bin:/bin"}
    building = asyncio.create_task(temporal_programs(SILENT, environ))
    compiler = psutil.Process(int(await asyncio.to_thread(pid_file.read_text)))
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert await asyncio.to_thread(psutil.wait_procs, [compiler], 10) == ([compiler], [])


def _write_go(directory: Path, body: str) -> None:
    program = directory / "go"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


async def test_without_postgres_no_part_of_the_server_is_ended_or_started(directory: Path) -> None:
    cluster = Cluster(directory)
    program = cluster._program("history")
    program.parent.mkdir()
    program.symlink_to("/bin/sleep")
    cluster._write(_state())
    history = spawn([str(program), "60"], directory / "log")
    needed = rf"history cannot be started: postgres is not running\n +.*{COMMAND} start postgres"
    try:
        with pytest.raises(StoreUnavailable, match=needed):
            await cluster.restart("history")
        assert history.alive
        cluster.kill("history")
        with pytest.raises(StoreUnavailable, match=needed):
            await cluster.start("history")
    finally:
        if found := history.find():
            found.kill()


def test_what_is_not_well_has_a_remedy(directory: Path) -> None:
    cluster, process = Cluster(directory), ProcessRecord(pid=1, started=2.5, command=("a",))
    well = Condition("frontend", process, True, "")
    ill = Condition("matching", process, False, "does not listen")
    dead = [Condition(name, None, False, "not running") for name in ("history", "worker")]
    assert list(remedies([well], cluster)) == []
    assert list(remedies([well, ill, dead[0]], cluster)) == [
        f"▸ start history: {COMMAND} start history"
    ]
    assert list(remedies(dead, cluster))[1:] == [
        f"▸ start worker: {COMMAND} start worker",
        "▸ or all of it: make cluster",
    ]
    [line] = remedies([well, ill], cluster)
    assert line.startswith(f"▸ restart matching: {COMMAND} restart matching")
    assert str(cluster.log("matching")) in line


def test_the_help_of_make_has_two_columns() -> None:
    done = subprocess.run(
        ["make", "-s", "help"], cwd=SCRIPT.parents[2], capture_output=True, text=True, check=True
    )
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert {"cluster-stop", "test-cluster"} <= set(names)
    begins = {
        len(line) - len(line[len(n) :].lstrip())
        for n, line in zip(names, done.stdout.splitlines(), strict=True)
    }
    assert len(begins) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["kill"], "needs a service"),
        (["up", "history"], "takes no service"),
        (["env"], "there is no cluster"),
    ],
)
async def test_the_command_says_what_is_wrong(
    directory: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREWLOG_CLUSTER_HOME", str(directory))
    command_line = [sys.executable, str(SCRIPT), *words]
    done = await asyncio.to_thread(
        subprocess.run, command_line, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == ServiceError.exit_code
    assert said in done.stderr
