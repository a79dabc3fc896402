"""A real Temporal cluster on this machine: Postgres, and each part of the server as a process.

    python deploy/local-cluster/cluster.py up | check | env | stop | down
    python deploy/local-cluster/cluster.py start | stop | kill | restart SERVICE

Services: postgres, frontend, history, matching, worker. `up` may be run again at any time: what
runs is left, what is dead is started. Ports, passwords, data, logs and the processes' identities
are in `.cluster/` of this checkout, or where `CREWLOG_CLUSTER_HOME` says. A process is ended only
if pid, creation time and command line are those of the one that was started.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import cluster_postgres
import psutil
from cluster_config import (
    DEPLOY,
    HOST,
    NAMESPACE,
    PORTS,
    POSTGRES,
    REPOSITORY,
    ROLES,
    SERVICES,
    STORE_USER,
    TEMPORAL_USER,
    State,
    answers,
    cache_dir,
    choose_ports,
    database_environ,
    server_environ,
)
from cluster_programs import TemporalPrograms, duration, run_command, temporal_programs
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkflowExecutionRequest,
)
from temporalio.service import RPCError, RPCStatusCode

from crewlog.dev import temporal_server
from crewlog.dev.paths import hold
from crewlog.dev.processes import (
    ProcessRecord,
    Watchdog,
    end,
    find_by_arguments,
    identify,
    port_is_free,
    size_of,
    spawn,
    tail,
)
from crewlog.dev.progress import SILENT, Progress
from crewlog.errors import CrewlogError, ServiceError, StoreUnavailable, TemporalUnavailable
from crewlog.temporal_service.cli import find_cli

READY_LIMIT = 90.0
"""Seconds for a service to answer."""
SCRIPT_LIMIT = 180.0
"""Seconds for the scripts that make the schema and the namespace."""
GRACE = 10.0
"""Seconds for a process to end by itself."""
POLL = 0.05
COMMAND = ".venv/bin/python deploy/local-cluster/cluster.py"
"""This program, as people start it in a checkout."""


@dataclass(frozen=True)
class Condition:
    """How one service is."""

    service: str
    """Its name."""
    process: ProcessRecord | None
    """Its process, if it lives."""
    healthy: bool
    """Whether it does its work, as far as a client can tell."""
    detail: str
    """Where it answers, or what is wrong."""


class Cluster:
    """The cluster of one directory.

    Args:
        home: The directory; `CREWLOG_CLUSTER_HOME`, else `.cluster` of this checkout, if None.
        progress: Told about long steps.
        watchdog: Ends the started processes when this process ends; for tests of clusters.
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        progress: Progress = SILENT,
        watchdog: Watchdog | None = None,
    ) -> None:
        chosen = home or Path(os.environ.get("CREWLOG_CLUSTER_HOME") or REPOSITORY / ".cluster")
        # Processes are recognised by the paths in their command lines.
        self.home = chosen.expanduser().resolve()
        self._progress = progress
        self._watchdog = watchdog

    # -- the whole ---------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Ports, passwords and processes.

        Raises:
            ServiceError: There is no cluster in this directory.
        """
        try:
            return State.model_validate_json(self._state_file.read_bytes())
        except FileNotFoundError as error:
            raise ServiceError(
                "there is no cluster", remedy="Start it: `make cluster`.", place=str(self.home)
            ) from error

    @property
    def environ(self) -> dict[str, str]:
        """The two variables with which clients and workers use the cluster."""
        state = self.state
        return {"TEMPORAL_ADDRESS": state.address, "DATABASE_URL": state.database_url}

    async def up(self) -> list[str]:
        """Starts what does not run, and waits until all of it works; the names of what it started.

        Raises:
            ServiceError: Something cannot be built or started.
        """
        programs = await temporal_programs(self._progress)
        async with self._locked():
            self._create(programs)
            self._progress.update("cluster", "starting")
            started = []
            if self._living(POSTGRES) is None:
                await self._start(POSTGRES)
                started.append(POSTGRES)
            if not self.state.prepared:
                await cluster_postgres.make_users(self.state)
                await self._script("temporal-schema.sh", SCHEMA_DIR=str(programs.schema))
            missing = [role for role in ROLES if self._living(role) is None]
            # Of two roles that write a new database's metadata at the same time, one ends.
            first = 0 if self.state.prepared else 1
            for role in missing[:first]:
                await self._start(role)
            await asyncio.gather(*(self._start(role) for role in missing[first:]))
            await self._prepare_namespace()
            await self.ready()
            return started + missing

    async def ready(self, limit: float = READY_LIMIT) -> None:
        """Waits until every service works.

        Raises:
            TemporalUnavailable: One does not within `limit` seconds.
        """
        deadline = time.monotonic() + limit
        while True:
            bad = [c for c in await self.check() if not c.healthy]
            if not bad:
                return
            if time.monotonic() > deadline:
                said = "; ".join(f"{c.service}: {c.detail}" for c in bad)
                raise TemporalUnavailable(
                    f"the cluster does not work after {limit:.0f} s: {said}",
                    place=str(self.home / "logs"),
                )
            await asyncio.sleep(POLL)

    async def check(self) -> list[Condition]:
        """How each service is: its process, and whether it answers what a client asks."""
        state = self.state
        faults = dict.fromkeys(SERVICES, "")
        if not await cluster_postgres.answers(state):
            faults[POSTGRES] = "does not answer a query"
        for role in ROLES:
            if not all(answers(port) for port in _listened(state, role)):
                faults[role] = "does not listen"
        if not faults["frontend"]:
            faults.update(await _questions(state.address))
        found = []
        for service in SERVICES:
            process = self._living(service)
            fault = "not running" if process is None else faults[service]
            port = state.ports[POSTGRES if service == POSTGRES else f"{service}_grpc"]
            found.append(Condition(service, process, not fault, fault or f"{HOST}:{port}"))
        return found

    async def stop(self) -> list[str]:
        """Ends all processes, Postgres last; data stay. The names of those that were ended."""
        async with self._locked():
            ended = await asyncio.gather(*(asyncio.to_thread(self._end, r) for r in ROLES))
            names = [role for role, was in zip(ROLES, ended, strict=True) if was]
            if await asyncio.to_thread(self._end, POSTGRES):
                names.append(POSTGRES)
            return names

    async def down(self) -> list[str]:
        """Ends all processes and removes the directory, data included."""
        ended = await self.stop()
        async with self._locked():
            if self._state_file.exists():  # never a directory that is not a cluster's
                shutil.rmtree(self.home)
        return ended

    # -- one service -------------------------------------------------------------------------

    async def start(self, service: str) -> ProcessRecord:
        """Starts a service, on its old port, and waits until it listens; one that runs is left.

        Raises:
            ServiceError: It does not start.
        """
        self._known(service)
        async with self._locked():
            living = self._living(service)
            if living is None:
                self._check_needed(service)
            return living or await self._start(service)

    def kill(self, service: str) -> ProcessRecord | None:
        """SIGKILL: nothing of it gets to say goodbye. The process, or None if there was none."""
        process = self._living(service)
        if process is not None:
            end(process, gently=signal.SIGKILL)
        return process

    async def restart(self, service: str) -> ProcessRecord:
        """Ends a service gently, as a rollout would, and starts it again.

        Raises:
            ServiceError: It could not be started again, so it is not ended; or it does not start.
        """
        self._known(service)
        self._check_needed(service)
        await self.stop_service(service)
        return await self.start(service)

    async def stop_service(self, service: str) -> bool:
        """Ends one service gently; whether it ran."""
        self._known(service)
        return await asyncio.to_thread(self._end, service)

    def log(self, service: str) -> Path:
        """The log of a service."""
        return self.home / "logs" / f"{service}.log"

    # -- inside ------------------------------------------------------------------------------

    @property
    def _state_file(self) -> Path:
        return self.home / "state.json"

    @property
    def _data(self) -> Path:
        return self.home / "pg"

    def _program(self, role: str) -> Path:
        # A link for each role, so that a process says by its name which cluster's and what it is.
        return self.home / "bin" / f"temporal-{role}"

    @asynccontextmanager
    async def _locked(self) -> AsyncGenerator[None]:
        """One change at a time. The lock is elsewhere, since `down` removes the directory."""
        locks = cache_dir() / "cluster-locks"
        locks.mkdir(parents=True, exist_ok=True)
        name = sha256(os.fsencode(self.home)).hexdigest()[:16]
        async with hold(locks / f"{name}.lock"):
            yield

    def _create(self, programs: TemporalPrograms) -> None:
        for folder in (self.home, self.home / "bin", self.home / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
        links = {self._program(role): programs.server for role in ROLES}
        links[self.home / "bin" / "temporal-sql-tool"] = programs.sql_tool
        for link, target in links.items():
            if not link.is_symlink() or link.readlink() != target:
                link.unlink(missing_ok=True)
                link.symlink_to(target)
        if not self._state_file.exists():
            users = (cluster_postgres.SUPERUSER, TEMPORAL_USER, STORE_USER)
            passwords = {user: secrets.token_hex(16) for user in users}
            ports = choose_ports(port_is_free, secrets.randbelow(len(PORTS)))
            self._write(State(ports=ports, passwords=passwords))

    def _write(self, state: State) -> None:
        fresh = self._state_file.with_suffix(f".{os.getpid()}.tmp")
        fresh.touch(mode=0o600)
        fresh.write_text(state.model_dump_json(indent=2) + "\n")
        fresh.replace(self._state_file)

    def _known(self, service: str) -> None:
        if service not in SERVICES:
            raise ServiceError(
                f"there is no service {service!r}", remedy=f"There are {', '.join(SERVICES)}."
            )

    def _check_needed(self, service: str) -> None:
        """No part of the server starts without Postgres, and its own words hide that well."""
        if service != POSTGRES and self._living(POSTGRES) is None:
            raise StoreUnavailable(
                f"{service} cannot be started: {POSTGRES} is not running",
                remedy=f"Start it first: `{COMMAND} start {POSTGRES}`; or all: `make cluster`.",
                place=str(self.home),
            )

    def _living(self, service: str) -> ProcessRecord | None:
        """The service's process: the recorded one, or one that an interrupted start left."""
        self._known(service)
        record = self.state.processes.get(service) if self._state_file.exists() else None
        if record is not None and record.alive:
            return record
        if service == POSTGRES:
            return find_by_arguments("-D", str(self._data))
        return _find_program(str(self._program(service)))

    async def _start(self, service: str) -> ProcessRecord:
        state, log = self.state, self.log(service)
        if service == POSTGRES:
            await asyncio.to_thread(cluster_postgres.make, self._data, state)
            process = await cluster_postgres.start(self._data, log, state)
        else:
            begin = size_of(log)
            kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
            environ = {**kept, **server_environ(state, service)}
            process = spawn([str(self._program(service)), "start"], log, env=environ)
        if self._watchdog is not None:
            self._watchdog.watch(process, _stop_signal(service))
        # Between reading and writing nothing is awaited: roles are started side by side.
        state = self.state
        processes = {**state.processes, service: process}
        self._write(state.model_copy(update={"processes": processes}))
        if service != POSTGRES:
            await self._listens(service, process, begin)
        return process

    async def _listens(self, role: str, process: ProcessRecord, begin: int) -> None:
        ports = _listened(self.state, role)
        deadline = time.monotonic() + READY_LIMIT
        while not all(answers(port) for port in ports):
            alive = process.alive
            if not alive or time.monotonic() > deadline:
                what = "does not listen" if alive else "ended while it was starting"
                words = tail(self.log(role), start=begin).splitlines()
                raise TemporalUnavailable(
                    "\n    | ".join([f"the server's {role} {what}", *words]),
                    remedy=f"`{COMMAND} check` says which services are away.",
                    place=str(self.log(role)),
                )
            await asyncio.sleep(POLL)

    def _end(self, service: str) -> bool:
        process = self._living(service)
        return process is not None and (
            end(process, gently=_stop_signal(service), grace=GRACE) is not None
        )

    async def _prepare_namespace(self) -> None:
        if self.state.prepared:
            return
        cli = await find_cli()
        await self._script(
            "temporal-init.sh",
            PATH=f"{cli.path.parent}:{os.environ.get('PATH', '')}",
            TEMPORAL_ADDRESS=self.state.address,
            TEMPORAL_NAMESPACE=NAMESPACE,
            TEMPORAL_RETENTION=f"{temporal_server.RETENTION.days}d",
        )
        self._write(self.state.model_copy(update={"prepared": True}))

    async def _script(self, name: str, **environ: str) -> None:
        """Runs one of the scripts that the containers run, too."""
        path = f"{self.home / 'bin'}:{os.environ.get('PATH', '')}"
        code, out = await run_command(
            ["sh", str(DEPLOY / name)],
            timeout=SCRIPT_LIMIT,
            env={
                "HOME": str(self.home),
                "PATH": path,
                **database_environ(self.state),
                **environ,
            },
        )
        (self.home / "logs" / f"{name}.log").write_text(out)
        if code != 0:
            error = StoreUnavailable if "schema" in name else TemporalUnavailable
            raise error(
                "\n    | ".join([f"{name} failed ({code})", *out.strip().splitlines()[-6:]]),
                place=str(self.home / "logs" / f"{name}.log"),
            )


def _stop_signal(service: str) -> signal.Signals:
    # For Postgres the fast shutdown: SIGTERM would wait for its clients.
    return signal.SIGINT if service == POSTGRES else signal.SIGTERM


def _listened(state: State, role: str) -> tuple[int, ...]:
    """The ports that a role listens on; the worker serves nobody, and has but its membership."""
    membership = state.ports[f"{role}_membership"]
    return (membership,) if role == "worker" else (membership, state.ports[f"{role}_grpc"])


def _find_program(program: str) -> ProcessRecord | None:
    for process in psutil.process_iter():
        try:
            if process.cmdline()[:1] == [program]:
                return identify(process.pid)
        except psutil.Error:
            continue
    return None


async def _questions(address: str) -> dict[str, str]:
    """Asks the frontend what it needs the others for; what is wrong, by service."""
    limit = timedelta(seconds=5)
    try:
        client = await temporal_server.connect(address, NAMESPACE)
    except TemporalUnavailable:
        return {"frontend": "does not answer"}
    faults: dict[str, str] = {}
    try:
        await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(namespace=NAMESPACE, task_queue=TaskQueue(name="check")),
            timeout=limit,
        )
    except RPCError as error:
        faults["matching"] = error.message
    try:
        await client.workflow_service.describe_workflow_execution(
            DescribeWorkflowExecutionRequest(
                namespace=NAMESPACE, execution=WorkflowExecution(workflow_id="check")
            ),
            timeout=limit,
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            faults["history"] = error.message
    return faults


# -- the command -----------------------------------------------------------------------------


class _Lines:
    """Progress as lines on standard error: what is new, and twice a minute what goes on."""

    def __init__(self) -> None:
        self._last, self._at = "", 0.0

    def begin(self, name: str) -> None:
        """Says nothing."""

    def update(self, name: str, text: str) -> None:
        """Says what goes on."""
        head, now = text.partition("…")[0], time.monotonic()
        if head != self._last or now - self._at >= 30:
            self._last, self._at = head, now
            _say(f"▸ {name}: {text}")

    def done(self, name: str, text: str) -> None:
        """Says nothing: the result is said once, at the end."""


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def remedies(conditions: Sequence[Condition], cluster: Cluster) -> Iterator[str]:
    """What to do about services that are not well; first about those that do not run at all."""
    dead = [each.service for each in conditions if each.process is None]
    for service in dead:
        yield f"▸ start {service}: {COMMAND} start {service}"
    if len(dead) > 1:
        yield "▸ or all of it: make cluster"
    for each in conditions if not dead else ():
        if not each.healthy:
            log = cluster.log(each.service)
            yield f"▸ restart {each.service}: {COMMAND} restart {each.service} (its log: {log})"


def _exports(cluster: Cluster) -> str:
    return "".join(f"export {name}='{value}'\n" for name, value in cluster.environ.items())


async def _up(cluster: Cluster) -> int:
    began = time.monotonic()
    started = await cluster.up()
    spent = duration(time.monotonic() - began)
    names = ", ".join(started)
    _say(f"▸ cluster: started {names} in {spent}" if started else "▸ cluster: runs already")
    return await _check(cluster)


async def _check(cluster: Cluster) -> int:
    conditions = await cluster.check()
    for each in conditions:
        mark = "✓" if each.healthy else "✗"
        pid = f"pid {each.process.pid}" if each.process else "-"
        _say(f"  {mark} {each.service:<9} {pid:<12} {each.detail}")
    for line in remedies(conditions, cluster):
        _say(line)
    return 0 if all(each.healthy for each in conditions) else ServiceError.exit_code


async def _act(cluster: Cluster, action: str, service: str | None) -> int:
    match action, service:
        case "up", None:
            code = await _up(cluster)
            _say(f'▸ use it in this shell: eval "$({COMMAND} env)"')
            _say("▸ end it, and remove its data: make cluster-stop")
            sys.stdout.write(_exports(cluster))
            return code
        case "check", None:
            return await _check(cluster)
        case "env", None:
            sys.stdout.write(_exports(cluster))
        case "stop" | "down", None:
            ended = await (cluster.down() if action == "down" else cluster.stop())
            _say(f"▸ cluster: ended {', '.join(ended) or 'nothing: nothing ran'}")
        case "start", str(name):
            _say(f"▸ {name}: pid {(await cluster.start(name)).pid}")
        case "stop", str(name):
            _say(f"▸ {name}: {'ended' if await cluster.stop_service(name) else 'did not run'}")
        case "kill", str(name):
            killed = cluster.kill(name)
            _say(f"▸ {name}: {f'killed pid {killed.pid}' if killed else 'did not run'}")
        case "restart", str(name):
            _say(f"▸ {name}: pid {(await cluster.restart(name)).pid}")
        case _:
            raise ServiceError(
                f"{action!r} {'takes no' if service else 'needs a'} service",
                remedy=f"Services: {', '.join(SERVICES)}.",
            )
    return 0


def main() -> int:
    """Does what the command line says; the exit code is that of the error, else 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = ("up", "check", "env", "start", "stop", "kill", "restart", "down")
    parser.add_argument("action", choices=actions)
    parser.add_argument("service", nargs="?", choices=SERVICES)
    words = parser.parse_args()
    try:
        return asyncio.run(_act(Cluster(progress=_Lines()), words.action, words.service))
    except CrewlogError as error:
        _say(str(error))
        return error.exit_code


if __name__ == "__main__":
    exit_code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # The interpreter sometimes aborts while it tears the Temporal runtime down.
    os._exit(exit_code)
