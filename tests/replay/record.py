"""Records the histories again: `python -m tests.replay.record [NAME …]`, after a change that may.

Runs that are under way replay what an older build recorded: record again only what a new name, or
a history that was never released, is for. Nothing of this machine stays in the files: workers and
clients have fixed identities, and paths and ports are replaced.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from temporalio.client import Client as TemporalClient

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from acceptance.harness import SHARED, Site, make_site  # noqa: E402
from replay.behaviours import BEHAVIOURS  # noqa: E402

HISTORIES = Path(__file__).parent / "histories"


def scrub(history: dict[str, Any], root: Path) -> dict[str, Any]:
    """The history without what only this machine has."""
    text = json.dumps(history, indent=1, sort_keys=True)
    text = re.sub(r'"(identity|workerId|requestId)": "[^"]*"', _plain_identity, text)
    text = re.sub(r'"\d+@[^"]*"', '"worker"', text)  # sticky queues have the process's name
    found: dict[str, Any] = json.loads(text.replace(str(root), "/project"))
    return found


def _plain_identity(match: re.Match[str]) -> str:
    name = match[1]
    values = {"identity": "worker", "workerId": "worker", "requestId": "request"}
    return f'"{name}": "{values[name]}"'


async def record(site: Site, name: str) -> None:
    """Runs a behaviour and keeps each of its executions."""
    run = await BEHAVIOURS[name](site)
    await site.settle()
    query = f"WorkflowId = '{run.id}'"
    executions = sorted(
        [e async for e in site.temporal.list_workflows(query)], key=lambda e: e.start_time
    )
    for number, execution in enumerate(executions, 1):
        handle = site.temporal.get_workflow_handle(run.id, run_id=execution.run_id)
        history = (await handle.fetch_history()).to_json_dict()
        file = HISTORIES / (f"{name}_{number}.json" if len(executions) > 1 else f"{name}.json")
        kept = {"workflow_id": run.id, **scrub(history, site.root)}
        file.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        sys.stdout.write(f"{file.name}: {file.stat().st_size // 1024} KB\n")


async def main(names: list[str]) -> None:
    HISTORIES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="crewlog-record-") as root:
        async with make_site(Path(root)) as site:
            site.temporal = await TemporalClient.connect(
                site.services.endpoints.temporal_address,
                data_converter=site.temporal.data_converter,
                identity="client",
            )
            await site.start_worker(SHARED)
            for name in names or list(BEHAVIOURS):
                for old in HISTORIES.glob(f"{name}*.json"):
                    if re.fullmatch(rf"{name}(_\d+)?", old.stem):
                        old.unlink()
                await record(site, name)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
