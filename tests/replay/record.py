"""Records the histories again: `python -m tests.replay.record [NAME …]`.

Nothing of this machine stays in the files: workers and clients have fixed identities, and paths and
ports are replaced.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecution

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from acceptance.harness import SHARED, Site, make_site  # noqa: E402
from replay.behaviours import BEHAVIOURS  # noqa: E402

PLAIN = {"workerId": "worker", "requestId": "request", "stackTrace": ""}
SENDER = re.compile(r"^\d+@.*")
"""Identities, and the sticky queues that are named after them."""
HISTORIES = Path(__file__).parent / "histories"


def scrub(value: Any, root: Path) -> Any:
    """A history without what only this machine has."""
    if isinstance(value, dict):
        return {key: PLAIN.get(key, scrub(item, root)) for key, item in value.items()}
    if isinstance(value, list):
        return [scrub(item, root) for item in value]
    if isinstance(value, str):
        return SENDER.sub("worker", value.replace(str(root), "/project"))
    return value


async def record(site: Site, name: str) -> None:
    """Runs a behaviour and keeps each execution of its runs, one run after the other."""
    found = await BEHAVIOURS[name](site)
    await site.settle()
    executions: list[WorkflowExecution] = []
    for run in found if isinstance(found, tuple) else (found,):
        query = f"WorkflowId = '{run.id}'"
        listed = [e async for e in site.temporal.list_workflows(query)]
        executions += sorted(listed, key=lambda e: e.start_time)
    for number, execution in enumerate(executions, 1):
        handle = site.temporal.get_workflow_handle(execution.id, run_id=execution.run_id)
        history = (await handle.fetch_history()).to_json_dict()
        file = HISTORIES / (f"{name}_{number}.json" if len(executions) > 1 else f"{name}.json")
        kept = {"workflow_id": execution.id, **scrub(history, site.root)}
        file.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        sys.stdout.write(f"{file.name}: {file.stat().st_size // 1024} KB\n")


async def main(names: list[str]) -> None:
    HISTORIES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="crewlog-record-") as root:
        async with make_site(Path(root), own_services=True) as site:
            site.temporal = await TemporalClient.connect(
                site.endpoints.temporal_address,
                namespace=site.endpoints.namespace,
                data_converter=site.temporal.data_converter,
                identity="client",
            )
            await site.start_worker(SHARED)
            for name in names:
                for old in HISTORIES.glob(f"{name}*.json"):
                    if re.fullmatch(rf"{name}(_\d+)?", old.stem):
                        old.unlink()
                await record(site, name)


def chosen(words: list[str]) -> list[str]:
    """The behaviours that a command line names; all of them where it names none."""
    listed = "\n".join(f"  {n}" for n in BEHAVIOURS)
    parser = argparse.ArgumentParser(
        prog="python -m tests.replay.record",
        description=__doc__,
        epilog=f"behaviours:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="a behaviour (see below)")
    names: list[str] = parser.parse_args(words).names
    unknown = [name for name in names if name not in BEHAVIOURS]
    if unknown:
        parser.error(f"there is no behaviour {unknown[0]!r}; there are:\n{listed}")
    return names or list(BEHAVIOURS)


if __name__ == "__main__":
    asyncio.run(main(chosen(sys.argv[1:])))
