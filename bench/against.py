"""The engine of this work tree beside that of another commit, in one run on the same servers.

The files of the commit are in `.bench/`, with an environment of their own. Each of the two engines
has a worker process, a client process (`bench/peers/engine.py`), a namespace, a database and a
folder. They share the Temporal server and Postgres, and run by turns. What a run cost is read here
from its history, by the same code for both; a ratio is taken within each round.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tarfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client as TemporalClient

from bench import commits, fanout, quiet, report, throughput
from bench.history import events_of, step_cost
from bench.pairs import figure, ratio, rounds
from bench.site import (
    ROOT,
    START_LIMIT,
    Peer,
    PeerFailed,
    Site,
    launch,
    throwaway_site,
    with_database,
)
from bench.steps import REPEATS
from crewlog.dev import temporal_server
from crewlog.errors import TemporalUnavailable

CASES = {
    "steps": "a ring of ten agents, at each of --sizes",
    "fanout": f"{fanout.WIDTH} steps side by side",
    "throughput": f"{throughput.RUNS} runs of {throughput.STEPS} steps at once",
}
HEAD = ("name", "old", "new", "new/old", "quartiles", "95 %")
STARTER = Path(__file__).parent / "peers" / "engine.py"
CHECKOUTS = ROOT / ".bench"
"""A folder for each commit that was compared with; `make clean` removes them."""
NAMESPACE_LIMIT = 60.0
"""Seconds until a new namespace can be used."""

Measured = dict[str, float]


class Failed(Exception):
    """The other commit cannot be measured."""


@dataclass(frozen=True)
class Engine:
    """An engine that takes orders."""

    name: str
    client: Peer
    temporal: TemporalClient
    worker: int
    """The process id of its worker."""
    step: str
    """The activity type of a step."""

    def is_step(self, name: str) -> bool:
        """Whether an activity of that type is a step."""
        return name == self.step

    async def order(self, crew: str, size: int, runs: int = 1) -> dict[str, Any]:
        """Starts runs and waits for them."""
        try:
            return await self.client.ask({"crew": crew, "size": size, "runs": runs})
        except PeerFailed as error:
            raise Failed(
                f"the engine of {self.name} did not complete the crew {crew!r} of {size}: {error}"
            ) from error

    async def events(self, crew: str, size: int) -> list[HistoryEvent]:
        """The events of a run from its start to its end."""
        [(id, execution)] = (await self.order(crew, size))["runs"]
        handle = self.temporal.get_workflow_handle(id, first_execution_run_id=execution)
        return await events_of(self, handle)


async def steps(engine: Engine, size: int) -> Measured:
    """What a step costs, and the whole run."""
    found: list[Measured] = []
    for _ in range(REPEATS.get(size, 1)):
        before = quiet.used(engine.worker)
        events = await engine.events("ring", size)
        used = quiet.used(engine.worker)
        cost = step_cost(events, engine.is_step, size)
        one = {
            f"step_ms_{size}": cost.ms,
            f"events_per_step_{size}": cost.events,
            f"history_bytes_per_step_{size}": cost.bytes,
            f"run_events_{size}": len(events),
            f"run_history_bytes_{size}": sum(event.ByteSize() for event in events),
        }
        if before is not None and used is not None:
            one[f"worker_cpu_ms_per_step_{size}"] = (used - before) * 1000 / size
        found.append(one)
    return {name: fmean(one[name] for one in found) for name in found[0]}


async def fan(engine: Engine) -> Measured:
    """What steps side by side take."""
    events = await engine.events("fan", fanout.WIDTH)
    ms, count = fanout.measured(events, engine.is_step)
    size = sum(event.ByteSize() for event in events)
    return {
        f"fanout_ms_{fanout.WIDTH}": ms,
        f"events_per_step_fanout_{fanout.WIDTH}": count,
        f"run_history_bytes_fanout_{fanout.WIDTH}": size,
    }


async def rate(engine: Engine) -> Measured:
    """Steps a second of many runs at once."""
    answer = await engine.order("ring", throughput.STEPS, throughput.RUNS)
    return {"throughput_steps_per_s": throughput.RUNS * throughput.STEPS / answer["seconds"]}


async def run(commit: str, cases: Sequence[str], sizes: Sequence[int], pairs: int) -> str:
    """Measures both engines by turns; returns the table.

    Raises:
        CommitError: there is no such commit.
        Failed: one of the engines cannot be started or does not complete a run.
    """
    other = commits.short_hash(commit)
    this = commits.short_hash() + (" with uncommitted changes" if commits.uncommitted() else "")
    measures: dict[str, Callable[[Engine], Awaitable[Measured]]] = {}
    if "steps" in cases:
        measures |= {f"steps {size}": partial(steps, size=size) for size in sizes}
    measures |= {
        name: one for name, one in (("fanout", fan), ("throughput", rate)) if name in cases
    }
    rows: list[tuple[str, ...]] = [HEAD]
    folder = await checkout(other)
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(throwaway_site())
        python = folder / ".venv" / "bin" / "python"
        start = stack.enter_async_context
        old = await start(engine(site, "old", other, python, folder))
        new = await start(engine(site, "new", this, Path(sys.executable), ROOT))
        for name, measure in measures.items():
            systems = {"new": partial(measure, new), "old": partial(measure, old)}
            found = await rounds(systems, pairs, told=_progress(name, pairs))
            rows += table(found["old"], found["new"])
    return f"old: {other}\nnew: {this}\n{pairs} rounds\n\n{report.columns(rows)}"


def table(old: Sequence[Measured], new: Sequence[Measured]) -> list[tuple[str, ...]]:
    """The rows of what was measured in each round: medians, and the ratio within a round."""
    rows: list[tuple[str, ...]] = []
    for name in new[0]:
        before, now = [one[name] for one in old], [one[name] for one in new]
        both = ratio(name, now, before)
        medians = (f"{figure(name, values).median:.4g}" for values in (before, now))
        interval = both.interval
        rows.append(
            (
                name,
                *medians,
                f"{both.median:.3f}",
                _between(both.quartiles),
                "" if interval is None else _between(interval),
            )
        )
    return rows


def _between(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3f} … {ends[1]:.3f}"


def _progress(case: str, pairs: int) -> Callable[[int, Mapping[str, Measured]], None]:
    def tell(number: int, results: Mapping[str, Measured]) -> None:
        name = next(iter(results["new"]))
        values = "  ".join(f"{side} {results[side][name]:.2f}" for side in ("old", "new"))
        print(f"{case}  {number}/{pairs}  {name}  {values}", file=sys.stderr, flush=True)

    return tell


async def checkout(commit: str) -> Path:
    """The files of a commit, with the environment that its lock file names; made once.

    Raises:
        Failed: the environment cannot be made.
    """
    folder = CHECKOUTS / commit
    ready = folder / ".ready"
    if ready.exists():
        return folder
    print(f"▸ environment of {commit}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = folder / "files.tar"
    commits.git("archive", f"--output={archive}", commit)
    with tarfile.open(archive) as files:
        await asyncio.to_thread(files.extractall, folder, filter="data")
    uv = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
    words = [uv, "sync", "--locked", "--quiet", "--no-dev", "--group", "bench"]
    process = await asyncio.create_subprocess_exec(
        *(*words, "--python", sys.executable),
        cwd=folder,
        env={**os.environ, "UV_PROJECT_ENVIRONMENT": ".venv"},
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    if process.returncode:
        raise Failed(
            f"{folder}: the environment of {commit} cannot be made: `{' '.join(words)}` ended with "
            f"{process.returncode}: {errors.decode(errors='replace')[-3000:]}"
        )
    archive.unlink()
    ready.touch()
    return folder


@asynccontextmanager
async def engine(
    site: Site, side: str, commit: str, python: Path, folder: Path
) -> AsyncGenerator[Engine]:
    """The engine of a commit's files on the servers of the site, with nothing else in common.

    Args:
        site: Whose servers these are.
        side: The name of its namespace and its database.
        commit: What it is called.
        python: The Python of its environment.
        folder: Its files.

    Raises:
        Failed: it does not start.
    """
    temporal = await _namespace(site, side)
    root = site.root / f"files-{side}"
    root.mkdir()
    environ = {
        **await with_database(site.environ, side),
        "CREWLOG_HOME": str(root / "home"),
        "TEMPORAL_NAMESPACE": side,
        "PYTHONPATH": str(folder),
    }
    # As a file and without its folder on the path: its modules are those of the commit.
    words = [str(python), "-P", str(STARTER), str(root)]
    log = site.root / f"{side}.log"
    client = await launch(commit, words, log=log, environ=environ, folder=folder)
    try:
        try:
            ready = await client.answer(2 * START_LIMIT)
        except PeerFailed as error:
            raise Failed(
                f"the engine of {commit} did not start: {error}\n{STARTER.relative_to(ROOT)} needs "
                f"the `bench` package of that commit: compare with a commit that has what it uses"
            ) from error
        yield Engine(commit, client, temporal, ready["worker"], ready["step"])
    finally:
        await client.end()


async def _namespace(site: Site, name: str) -> TemporalClient:
    """A client of a new namespace, as soon as the server knows that one."""
    temporal = await temporal_server.connect(site.environ["TEMPORAL_ADDRESS"], name)
    async with asyncio.timeout(NAMESPACE_LIMIT):
        while True:
            try:
                await temporal_server.prepare(temporal, name)
            except TemporalUnavailable:
                await asyncio.sleep(temporal_server.POLL)
            else:
                return temporal
