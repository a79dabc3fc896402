"""Records both sides of the patch again: `python -m tests.replay.patch.record`."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from crewlog.dev.ephemeral import ephemeral  # noqa: E402
from replay.patch.workflows import (  # noqa: E402
    TYPE,
    NotifyEach,
    NotifyPatched,
    notify,
    notify_all,
)
from replay.record import scrub  # noqa: E402

HISTORIES = Path(__file__).parent / "histories"
BUILDS: dict[str, type[Any]] = {"before": NotifyEach, "after": NotifyPatched}
"""The build that records a side, by the name of its file."""
LIMIT = timedelta(seconds=30)


async def record(client: Client, name: str, build: type[Any], root: Path) -> None:
    """Runs a build once and keeps the history."""
    queue = f"patch-{name}"
    async with Worker(
        client,
        task_queue=queue,
        workflows=[build],
        activities=[notify, notify_all],
        identity="worker",
    ):
        handle = await client.start_workflow(
            TYPE, id=queue, task_queue=queue, execution_timeout=LIMIT
        )
        await handle.result()
    history = (await handle.fetch_history()).to_json_dict()
    kept = {"workflow_id": handle.id, **scrub(history, root)}
    (HISTORIES / f"{name}.json").write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


async def main() -> None:
    HISTORIES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="crewlog-record-") as folder:
        async with ephemeral(Path(folder)) as services:
            client = await Client.connect(
                services.environ["TEMPORAL_ADDRESS"],
                namespace=services.environ["TEMPORAL_NAMESPACE"],
                identity="client",
            )
            for name, build in BUILDS.items():
                await record(client, name, build, Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
