"""`python -m bench`: runs the benchmarks, prints the table, writes `bench/latest.json`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import time
import traceback
from importlib.metadata import version
from pathlib import Path

from bench import report
from bench.cases import CASES, Bench, case
from bench.pairs import Figure
from bench.site import throwaway_site

LATEST = Path(__file__).parent / "latest.json"
LEAST = 10
"""Pairs of a whole run."""


def main(arguments: list[str]) -> int:
    """Runs what the arguments say; 0 also where a target is missed, 1 after an error."""
    options = _parser().parse_args(arguments)
    if options.table:
        print(report.markdown(json.loads(options.table.read_text())))
        return 0
    names = options.only.split(",") if options.only else list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        print(f"there is no case {unknown[0]!r}: {', '.join(CASES)}", file=sys.stderr)
        return 1
    began = time.monotonic()
    try:
        figures = asyncio.run(measure(names, options.pairs))
    except Exception:  # noqa: BLE001 - whatever it is, it ends with 1
        traceback.print_exc()
        return 1
    found = {**report.flat(figures), **machine()}
    found["pairs"] = options.pairs
    report.derive(found)
    print(report.text(found if options.only else report.complete(found)))
    print(f"\n{time.monotonic() - began:.0f} s", file=sys.stderr)
    out: Path | None = options.out or (None if options.only else LATEST)
    if out is not None:
        whole = report.merged(out, found) if options.only else report.complete(found)
        report.write(out, whole)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", metavar="CASES", help=f"some of {','.join(CASES)}")
    parser.add_argument(
        "--pairs", type=int, default=int(os.environ.get("BENCH_PAIRS", LEAST)), help="rounds"
    )
    parser.add_argument("--out", type=Path, help="where the JSON goes; with --only it is merged")
    parser.add_argument("--table", type=Path, help="prints the table of a file as Markdown")
    return parser


async def measure(names: list[str], pairs: int) -> list[Figure]:
    """The figures of these cases, on a server of their own."""
    figures: list[Figure] = []
    async with throwaway_site() as site:
        for name in names:
            figures += await case(name)(Bench(site, pairs))
    return figures


def machine() -> report.Flat:
    """What it ran on."""
    return {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "temporalio": version("temporalio"),
        "langgraph": version("langgraph"),
    }


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # The interpreter sometimes aborts while it tears the Temporal runtime down.
    os._exit(code)
