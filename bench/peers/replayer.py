"""`python -m bench.peers.replayer ENGINE BARE`: replays either history, as it is ordered to.

An order is a line `{"do": NAME}`; the answer is `{"seconds": …}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from bench.peers.bare import BareRun
from crewlog.payload_storage.converter import data_converter
from crewlog.workers.workflow_runner import CrewRunner
from crewlog.workflows.crew_run import CrewRun
from crewlog.workflows.sdk_workarounds import CrewRunInterceptor


def read(path: str) -> WorkflowHistory:
    """A history of a file."""
    return WorkflowHistory.from_json(Path(path).stem, Path(path).read_text())


async def serve(engine: WorkflowHistory, bare: WorkflowHistory) -> None:
    """Answers orders until there are none."""
    replayers = {
        "engine": (
            engine,
            Replayer(
                workflows=[CrewRun],
                workflow_runner=CrewRunner(),
                data_converter=data_converter(Path(tempfile.gettempdir()) / "unused"),
                interceptors=[CrewRunInterceptor()],
            ),
        ),
        "bare": (bare, Replayer(workflows=[BareRun])),
        "bare by our runner": (bare, Replayer(workflows=[BareRun], workflow_runner=CrewRunner())),
    }
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        history, replayer = replayers[json.loads(line)["do"]]
        began = time.perf_counter()
        await replayer.replay_workflow(history)
        print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(read(sys.argv[1]), read(sys.argv[2])))
    sys.stdout.flush()
    # The interpreter sometimes aborts while it tears the Temporal runtime down.
    os._exit(0)
