"""What `crewlog dev` and `crewlog worker` do."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from crewlog.cli import exits
from crewlog.cli.background import Background, background_worker, polled, tell_others
from crewlog.cli.hands import (
    COMMAND,
    DEFAULT_QUEUE,
    Assignment,
    Hand,
    claim,
    directory_of,
    environment,
)
from crewlog.cli.screen import Part, Screen, plain, short_path
from crewlog.cli.services import ServiceProgress, connected
from crewlog.client import Client
from crewlog.definition.load import load_file
from crewlog.dev.processes import Watchdog, end, identify
from crewlog.dev.services import Services
from crewlog.errors import CrewlogError, InvalidDefinition, WorkerMissing
from crewlog.temporal_service.cli import find_with_attempts
from crewlog.temporal_service.namespaces import check_namespace

READY_LIMIT = 60.0
"""Seconds for a worker to begin to poll."""
CREW_FILE = "crew.yaml"


def _queue(queue: str | None) -> str:
    return queue or os.environ.get("CREWLOG_TASK_QUEUE") or DEFAULT_QUEUE


async def stop_all(*, as_json: bool) -> int:
    """End the services of this home."""
    screen = Screen(as_json=as_json)
    progress = ServiceProgress(screen)
    try:
        stopped = await Services().stop_all(progress)
    finally:
        progress.close()
    if as_json:
        screen.document({"stopped": stopped})
    elif stopped:
        screen.line("▸ stopped: ", ", ".join(stopped), ("     runs are kept", "dim"))
    else:
        screen.line("▸ nothing was running")
    return exits.OK


async def develop(*, detach: bool, worker: bool, queue: str | None, as_json: bool) -> int:
    """Start everything, and show the worker's log unless `detach`."""
    screen = Screen(as_json=as_json)
    chosen, here = _queue(queue), Path.cwd()
    if worker:
        claim(chosen, here)
    async with connected(screen, queue=chosen, both=True, tell=True, hint=False) as client:
        await check_namespace(client.temporal)  # a worker would only log this
        crew = await _register(screen, client, here)
        found = _running(chosen, here) if worker else None
        made: Background | None = None
        if worker and found is None:
            made = await background_worker(Assignment(chosen, here, own=False))
        try:
            if made is not None:
                await _ready(client, made, chosen)
            pid = made.process.pid if made else found
            if not as_json:
                await _tell_cli(screen)
            if as_json:
                screen.record(await _document(client, chosen, pid, crew))
            elif pid is not None:
                log = short_path(made.log) if made else ""
                how = "ready" if made else "running"
                screen.line(
                    ("▸ ", "green"),
                    f"worker (pid {pid}) ",
                    ("…… ", "dim"),
                    f"{how}, task queue '{plain(chosen)}'",
                    (f"     {log}", "dim"),
                )
            if detach or made is None:
                if pid is not None and not as_json:
                    screen.line(
                        ("▸ ", "green"),
                        "all of it stays up",
                        (" …… ", "dim"),
                        "crewlog dev --stop ends it",
                    )
                return exits.OK
            if not as_json:
                screen.line(
                    ("  Ctrl-C ends the worker; the servers stay up (crewlog dev --stop).", "dim")
                )
            return await _attached(screen, made)
        except BaseException:
            if made is not None:
                await asyncio.shield(asyncio.to_thread(end, made.process))
            raise


async def _tell_cli(screen: Screen) -> None:
    """Tell where the `temporal` command line is, if nobody finds it by its name."""
    if shutil.which("temporal"):
        return
    found, _ = await find_with_attempts()
    if found is not None:
        screen.line(
            ("▸ ", "green"), "temporal command line ", ("…… ", "dim"), short_path(found.path)
        )


def _running(queue: str, directory: Path) -> int | None:
    """The worker of this directory that polls the queue already."""
    for record in Services().workers():
        if record.address == queue and directory_of(record) == directory.resolve():
            return record.process.pid
    return None


async def _register(screen: Screen, client: Client, here: Path) -> str | None:
    """Register the crew that is here; one with faults is told, and keeps nothing from starting."""
    if not await asyncio.to_thread((here / CREW_FILE).is_file):
        return None
    try:
        row = await client.register(load_file(CREW_FILE))
    except CrewlogError as error:
        text = str(error) if isinstance(error, InvalidDefinition) else error.message
        screen.note(("▸ crew.yaml is not registered\n", "yellow"), text)
        return None
    screen.line(
        ("▸ ", "green"), f"crew {row.name} ", ("…… ", "dim"), f"registered, version {row.version}"
    )
    return row.name


async def _ready(client: Client, made: Background, queue: str) -> None:
    """Wait until the worker polls.

    Raises:
        WorkerMissing: it ended, or did not come up in time.
    """
    watchdog = Watchdog()
    hand = Hand(made.process, made.log, made.start, watchdog)
    try:
        async with asyncio.timeout(READY_LIMIT):
            while not await polled(client, queue, pid=made.process.pid):
                hand.check()
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise WorkerMissing(
            f"the worker did not begin to poll within {READY_LIMIT:.0f} s",
            remedy=f"Look at its log: {made.log}",
            place=f"task queue {queue!r}",
        ) from None
    finally:
        await asyncio.to_thread(watchdog.close)


async def _document(
    client: Client, queue: str, pid: int | None, crew: str | None
) -> dict[str, object]:
    services = [
        {"name": s.name, "pid": s.pid, "address": s.address, "version": s.version, "log": s.log}
        for s in await Services().list_services()
    ]
    return {
        "address": client.endpoints.address,
        "namespace": client.endpoints.namespace,
        "ui_url": client.endpoints.ui_url,
        "task_queue": queue,
        "worker": pid,
        "crew": crew,
        "services": services,
    }


async def _attached(screen: Screen, made: Background) -> int:
    """Show the worker's log until Ctrl-C, then end the worker."""
    watchdog = Watchdog()
    hand = made.watched(watchdog)
    try:
        with made.log.open("r", encoding="utf-8", errors="replace") as file:
            file.seek(made.start)
            while True:
                line = file.readline()
                if line:
                    if screen.as_json:
                        screen.record({"event": "log", "line": line.rstrip("\n")})
                    else:
                        screen.line(*_log_line(line), crop=True)
                    continue
                if not made.process.alive and hand.stopped:
                    screen.note("▸ the worker was stopped; crewlog dev starts it again")
                    return exits.OK
                hand.check()
                await asyncio.sleep(0.2)
    except asyncio.CancelledError:
        screen.line("")
        screen.line(
            "▸ the worker ends; the servers stay up",
            (" …… ", "dim"),
            "crewlog dev --stop ends them",
        )
        raise
    finally:
        await asyncio.shield(hand.close())


def _log_line(line: str) -> list[Part]:
    """A line of a worker's log: its JSON in words."""
    found: dict[str, object] = {}
    with suppress(ValueError):
        data = json.loads(line)
        found = data if isinstance(data, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    if "event" not in found:
        return [("  ", ""), (plain(line), "dim")]
    level = str(found.pop("level", ""))
    at = str(found.pop("timestamp", ""))[11:19]
    event = plain(found.pop("event"))
    rest = "  ".join(f"{key}={plain(value)}" for key, value in found.items())
    style = {"warning": "yellow", "error": "red", "critical": "bold red"}.get(level, "")
    return [(f"  {at}  ", "dim"), (event, style), (f"  {rest}", "dim")]


async def work(*, queue: str | None, detach: bool, as_json: bool) -> int:
    """A worker in the foreground, or in the background."""
    screen = Screen(as_json=as_json)
    chosen, here = _queue(queue), Path.cwd()
    claim(chosen, here)
    async with connected(screen, queue=chosen, both=True) as client:
        if detach:
            made = await background_worker(Assignment(chosen, here, own=False))
            await _ready(client, made, chosen)
            if as_json:
                screen.document(
                    {"pid": made.process.pid, "task_queue": chosen, "log": str(made.log)}
                )
            else:
                screen.line(
                    ("▸ ", "green"),
                    f"worker (pid {made.process.pid}) ",
                    ("…… ", "dim"),
                    f"task queue '{plain(chosen)}'",
                    (f"     {short_path(made.log)}", "dim"),
                )
                await tell_others(screen, client, chosen)
            return exits.OK
        await tell_others(screen, client, chosen)
    return await _foreground(screen, chosen, here)


async def _foreground(screen: Screen, queue: str, here: Path) -> int:
    """The worker as a child that shares our terminal."""
    endpoints = await Services().ensure()
    env = environment(endpoints, queue, here)
    watchdog = Watchdog()
    # A session of its own: Ctrl-C reaches it once, through us.
    child = await asyncio.create_subprocess_exec(
        *COMMAND, env=env, cwd=here, stdin=subprocess.DEVNULL, start_new_session=True
    )
    record = identify(child.pid)
    try:
        if record is not None:
            watchdog.watch(record)
        Services().register_worker(child.pid, task_queue=queue)
        if screen.as_json:
            screen.record({"pid": child.pid, "task_queue": queue})
        else:
            screen.note(
                ("▸ ", "green"),
                f"worker (pid {child.pid}) ",
                f"task queue '{plain(queue)}'; Ctrl-C ends it",
            )
        code = await child.wait()
    except asyncio.CancelledError:
        child.terminate()
        await asyncio.shield(child.wait())
        raise
    else:
        return code if code >= 0 else exits.AWAY
    finally:
        await asyncio.to_thread(watchdog.close)
