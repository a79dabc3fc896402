"""`python -m tests.costs`: measures what each unit costs, and prints the table.

    python -m tests.costs              the table, and by how much each cost differs from costs.json
    python -m tests.costs --write      writes costs.json, calls.json and the table of the page

Both start throwaway servers. The second needs a clean work tree: the file names the commit.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from tests.costs import report
from tests.costs.measure import metering
from tests.costs.units import UNITS

from bench.commits import MEASURED, short_hash, uncommitted
from bench.report import columns
from crewlog.client import Endpoints
from crewlog.dev.ephemeral import ephemeral

WRITTEN = tuple(f":(exclude)tests/costs/{path.name}" for path in (report.COSTS, report.CALLS))
"""What `--write` writes, as Git path specifications that exclude it."""


async def measured() -> report.Costs:
    """What each unit costs, on servers of its own."""
    root = Path(tempfile.mkdtemp(prefix="crewlog-costs-"))
    try:
        async with ephemeral(root) as services:
            found = services.endpoints
            endpoints = Endpoints(found.temporal_address, found.namespace, None)
            async with metering(endpoints, found.database_url) as meter:
                return {unit.name: await meter.cost(unit) for unit in UNITS}
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main() -> int:
    """Measures; the exit code is 2 where figures would have no commit."""
    parser = argparse.ArgumentParser(prog="python -m tests.costs", description="Counts costs.")
    parser.add_argument("--write", action="store_true", help="write the files and the page's table")
    write = parser.parse_args().write
    if write and (changed := uncommitted((*MEASURED, "tests/costs", *WRITTEN))):
        sys.stderr.write(
            f"nothing was measured: {len(changed)} files have uncommitted changes, so the costs "
            f"would belong to no commit: {', '.join(changed[:5])}. Commit them first.\n"
        )
        return 2
    commit = short_hash() if write else ""  # before it is measured: HEAD may move meanwhile
    costs = asyncio.run(measured())
    figures = {unit: cost.figures for unit, cost in costs.items()}
    sys.stdout.write(f"{columns(report.rows(figures))}\n\n{columns(report.changes(figures))}\n")
    if write:
        report.write(costs, commit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
