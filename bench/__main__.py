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
        return show(options.table, options.page)
    names = options.only.split(",") if options.only else list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        print(f"there is no case {unknown[0]!r}: {', '.join(CASES)}", file=sys.stderr)
        return 1
    out: Path | None = options.out or (None if options.only else LATEST)
    if out is not None and out.resolve() == LATEST and options.pairs < LEAST:
        print(f"{LATEST.name} takes no less than {LEAST} rounds; --out FILE", file=sys.stderr)
        return 1
    began, load = time.monotonic(), os.getloadavg()[0]
    try:
        figures, failed = asyncio.run(measure(names, options.pairs))
    except Exception:  # noqa: BLE001 - whatever it is, it ends with 1
        traceback.print_exc()
        return 1
    found = {**report.flat(figures), **machine()}
    found["pairs"] = options.pairs
    found["load"] = round(load, 2)
    report.derive(found)
    print(report.text(found if options.only else report.complete(found)))
    print(f"\n{time.monotonic() - began:.0f} s", file=sys.stderr)
    if failed:
        print(f"nothing is written: {', '.join(failed)} failed", file=sys.stderr)
        return 1
    if out is not None:
        try:
            whole = report.merged(out, found) if options.only else report.complete(found)
        except report.OtherMachineError as error:
            print(f"nothing is written: {error}", file=sys.stderr)
            return 1
        report.write(out, whole)
    return 0


def show(path: Path, page: Path | None) -> int:
    """Prints a file's table as Markdown, or puts it on a page."""
    table = report.markdown(json.loads(path.read_text()))
    if page is None:
        print(table)
    else:
        page.write_text(report.on_page(page.read_text(), table))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", metavar="CASES", help=f"some of {','.join(CASES)}")
    parser.add_argument(
        "--pairs", type=int, default=int(os.environ.get("BENCH_PAIRS", LEAST)), help="rounds"
    )
    parser.add_argument("--out", type=Path, help="where the JSON goes; with --only it is merged")
    parser.add_argument("--table", type=Path, help="prints the table of a file as Markdown")
    parser.add_argument("--page", type=Path, help="with --table: the page that has it")
    return parser


async def measure(names: list[str], pairs: int) -> tuple[list[Figure], list[str]]:
    """The figures of these cases, on a server of their own, and the cases that failed."""
    figures: list[Figure] = []
    failed: list[str] = []
    async with throwaway_site() as site:
        for name in names:
            try:
                figures += await case(name)(Bench(site, pairs))
            except Exception:  # noqa: BLE001 - the other cases took minutes, too
                traceback.print_exc()
                failed.append(name)
    return figures, failed


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
