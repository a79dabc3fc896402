"""Aborted reads: requests that a client cancels while the server reads its database for them.

    python -m tests.dev.aborted_reads --cli /path/to/temporal --reads 6000

A server whose SQLite driver keeps a query's interruption answers "interrupted (9)" from then on,
and only a restart helps. This starts the dev server of a Temporal CLI on a database of its own and
says after how many aborted reads it no longer serves, if it does not survive all of them. Exits
with 1 where it does not.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryRequest,
    ListWorkflowExecutionsRequest,
)
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from crewlog.dev import temporal_server
from crewlog.dev.paths import Home
from crewlog.dev.processes import Watchdog
from crewlog.temporal_service.cli import TemporalCli

READS = 6000
"""Reads of a full measurement: CLI 1.5.1 wedges after some 3,000 of them."""
BATCH = 250
"""Aborted reads between two looks at whether the server still serves."""
AT_ONCE = 8
"""Reads in flight at a time."""
SERVES_WITHIN = timedelta(seconds=5)
"""How long each request of a look may take."""
LOOKS = 10
"""Looks in a row that fail before the server is taken for wedged."""
PAUSE = 0.5
"""Seconds between two failed looks."""
WORKFLOWS = 20
"""Workflows that are read; no worker takes them."""

Read = Callable[[timedelta | None], Awaitable[object]]
"""A request that reads the server's database, with its deadline."""


@dataclass(frozen=True)
class Outcome:
    """What became of the server."""

    reads: int
    """Reads that were begun."""
    aborted: int
    """Those that did not get their answer."""
    fault: str
    """Why the server no longer serves; empty where it does."""
    seconds: float
    """How long it took."""


async def abort_reads(
    client: Client, reads: int, *, seed: int = 1, on_batch: Callable[[int], None] | None = None
) -> Outcome:
    """Abort reads of the server, until it no longer serves or all `reads` are done.

    Half of them are cancelled by the client, half end at a deadline of their own. Each has a random
    part of the time that such a read takes.
    """
    chance = random.Random(seed)  # noqa: S311
    kinds = await _reads(client)
    typical = [await _latency(read) for read in kinds]
    begin, aborted, limit = time.monotonic(), 0, asyncio.Semaphore(AT_ONCE)

    async def one(read: Read, after: float, by_deadline: bool) -> bool:
        async with limit:
            if by_deadline:
                return await _fails(read(timedelta(seconds=after)))
            request = asyncio.ensure_future(read(None))
            await asyncio.sleep(after)
            request.cancel()
            return await _fails(request)

    for done in range(0, reads, BATCH):
        batch: list[Awaitable[bool]] = []
        for _ in range(min(BATCH, reads - done)):
            which = chance.randrange(len(kinds))
            after = chance.uniform(50e-6, 2 * typical[which])
            batch.append(one(kinds[which], after, chance.random() < 0.5))
        aborted += sum(await asyncio.gather(*batch))
        if on_batch is not None:
            on_batch(done + len(batch))
        if fault := await _fault(kinds):
            return Outcome(done + len(batch), aborted, fault, time.monotonic() - begin)
    return Outcome(reads, aborted, "", time.monotonic() - begin)


async def _reads(client: Client) -> list[Read]:
    """The reads, of workflows that are made for them."""
    service, namespace = client.workflow_service, client.namespace
    for number in range(WORKFLOWS):
        await client.start_workflow(
            "Read",
            id=f"read-{number}",
            task_queue="nobody",
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
    one = WorkflowExecution(workflow_id="read-0")
    return [
        lambda limit: service.describe_namespace(
            DescribeNamespaceRequest(namespace=namespace), timeout=limit
        ),
        lambda limit: service.list_workflow_executions(
            ListWorkflowExecutionsRequest(namespace=namespace, query="WorkflowType = 'Read'"),
            timeout=limit,
        ),
        lambda limit: service.describe_workflow_execution(
            DescribeWorkflowExecutionRequest(namespace=namespace, execution=one), timeout=limit
        ),
        lambda limit: service.get_workflow_execution_history(
            GetWorkflowExecutionHistoryRequest(namespace=namespace, execution=one), timeout=limit
        ),
    ]


async def _latency(read: Read) -> float:
    """The median of some undisturbed reads, in seconds."""
    times: list[float] = []
    for _ in range(9):
        begin = time.monotonic()
        await read(SERVES_WITHIN)
        times.append(time.monotonic() - begin)
    return sorted(times)[len(times) // 2]


async def _fails(request: Awaitable[object]) -> bool:
    try:
        await request
    except (RPCError, asyncio.CancelledError):
        return True
    return False


async def _fault(kinds: list[Read]) -> str:
    """Why the server does not serve, at look after look; empty once one look finds that it does."""
    fault = ""
    for _ in range(LOOKS):
        try:
            for read in kinds:
                await read(SERVES_WITHIN)
        except RPCError as error:
            fault = error.message
            await asyncio.sleep(PAUSE)
        else:
            return ""
    return fault


async def measure(cli: Path, reads: int) -> Outcome:
    """Abort reads of the dev server of this CLI, on a database of its own."""
    watchdog = await asyncio.to_thread(Watchdog)
    try:
        with tempfile.TemporaryDirectory(prefix="crewlog-aborted-") as root:
            home = Home.at(Path(root))
            home.create()
            record = await temporal_server.start(
                TemporalCli(cli, "", "", "named"), home, usual_ports=False, on_spawn=watchdog.watch
            )
            client = await temporal_server.connect(record.address)
            print(f"{cli}: server {record.version}", flush=True)  # noqa: T201
            return await abort_reads(client, reads)
    finally:
        await asyncio.to_thread(watchdog.close)


def main() -> int:
    """Measure, and print the outcome in a line."""
    parser = argparse.ArgumentParser(prog="python -m tests.dev.aborted_reads")
    parser.add_argument("--cli", type=Path, required=True, help="the `temporal` executable")
    parser.add_argument("--reads", type=int, default=READS, help="how many reads are aborted")
    words = parser.parse_args()
    outcome = asyncio.run(measure(words.cli.resolve(), words.reads))
    state = f"no longer serves: {outcome.fault}" if outcome.fault else "serves"
    print(  # noqa: T201
        f"{outcome.reads} reads, {outcome.aborted} of them aborted, in {outcome.seconds:.0f} s: "
        f"the server {state}"
    )
    return 1 if outcome.fault else 0


if __name__ == "__main__":
    sys.exit(main())
