"""The local server is killed, and then wedged, under two commands with workers of their own."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crewlog.dev.paths import Home
from crewlog.dev.services import Services

from .conftest import LIMIT, Cli

RUNS = ("one", "two")
STEPS = ("a", "b", "c", "d", "e")
TOLD = re.compile(r"▸ the local Temporal server .*")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Cli, Services]]:
    """A home and a project of their own: no other test's runs meet the faults."""
    agents = "".join(f"  {name}: {{prompt: P., tools: []}}\n" for name in STEPS)
    (tmp_path / "crew.yaml").write_text(
        f"crew: slow\nmodel: scripted:slow.script.yaml\nagents:\n{agents}"
    )
    (tmp_path / "slow.script.yaml").write_text('delay: 2\nagents:\n  "*": [{text: slept}]\n')
    root = Path(tempfile.mkdtemp(prefix="clsup-"))
    cli = Cli(root, tmp_path)
    yield cli, Services(Home.at(root), environ=cli.env)
    cli("dev", "--stop")
    shutil.rmtree(root, ignore_errors=True)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


def begun(step: str, lines: list[str]) -> bool:
    return any(f"  {step} " in line for line in lines)


@pytest.mark.timeout(400)
async def test_all_runs_end_and_every_command_reports_the_restarts(
    site: tuple[Cli, Services],
) -> None:
    cli, services = site
    up = await asyncio.to_thread(cli, "dev", "--detach", "--no-worker")
    assert up.code == 0, up.err
    commands = [cli.start("run", "crew.yaml", "--id", run) for run in RUNS]
    told: dict[str, list[str]] = {run: [] for run in RUNS}

    def read(run: str, stream: Iterator[str]) -> None:
        told[run].extend(stream)

    reading = [
        asyncio.ensure_future(asyncio.to_thread(read, run, stream))
        for run, command in zip(RUNS, commands, strict=True)
        for stream in (command.stdout, command.stderr)
        if stream is not None
    ]
    for step, number in (("a", signal.SIGKILL), ("c", signal.SIGSTOP)):
        await until(lambda step=step: all(begun(step, told[run]) for run in RUNS))
        record = services.temporal()
        assert record is not None
        process = record.process.find()
        assert process is not None
        process.send_signal(number)
        await until(lambda old=record: services.temporal() not in (None, old))
        after = services.temporal()
        assert after is not None
        assert after.address == record.address

    await asyncio.gather(*reading)
    codes = [await asyncio.to_thread(command.wait, LIMIT) for command in commands]

    assert codes == [0, 0], told
    for run in RUNS:
        restarts = [line.strip() for line in told[run] if TOLD.match(line) and "restarted" in line]
        assert len(restarts) == 2, told[run]
        assert all("on the same data" in line for line in restarts)
        rows = (await asyncio.to_thread(cli, "log", run, "--json")).records
        entries = [row["entry"] for row in rows]
        done = Counter(each["step"] for each in entries if each["kind"] == "StepCompleted")
        assert done == {f"{step}#1": 1 for step in STEPS}
