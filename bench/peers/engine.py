"""The engine of the commit in whose files it runs, with that commit's own client and crews.

The driver of `--against` starts it as a file, with the Python of a commit's environment and the
commit's files on PYTHONPATH. So `bench` and `crewlog` are those of that commit: its definitions,
its start arguments, its tables. What is used of them here exists in every commit that has
`bench/peers`.

It prints one line of JSON once the worker polls: `worker`, the worker's process id, and `step`, the
activity type of a step. Each line of its input is an order, `crew` (`ring` or `fan`), `size` and
`runs`: so many runs of the crew, started at once. It answers when all have completed: `runs`, the
workflow id and the first run id of each, and `seconds`, the time from the first start to the last
result. It ends with its input.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


async def serve(root: Path) -> None:
    """Takes orders until standard input ends."""
    crews: Any = importlib.import_module("bench.crews")
    history: Any = importlib.import_module("bench.history")
    make_site: Any = importlib.import_module("bench.site").make_site
    names = ("CREWLOG_HOME", "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "DATABASE_URL")
    site = await make_site({name: os.environ[name] for name in names}, root)
    try:
        worker = await site.peer("engine")
        _print({"worker": worker.process.pid, "step": history.CALL_MODEL})
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            crew = await site.register(getattr(crews, order["crew"])(order["size"]))
            began = time.perf_counter()
            runs = await asyncio.gather(*(_completed(site, crew) for _ in range(order["runs"])))
            _print({"runs": runs, "seconds": time.perf_counter() - began})
    finally:
        await site.close()


async def _completed(site: Any, crew: str) -> tuple[str, str]:
    handle = await site.start_crew(crew)
    await handle.result()
    return handle.id, handle.first_execution_run_id


def _print(answer: object) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
    sys.stdout.flush()
    # The interpreter sometimes aborts while it tears the Temporal runtime down.
    os._exit(0)
