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

import asyncpg

from bench import against, commits, report
from bench.cases import CASES, Bench, case
from bench.crews import RING
from bench.site import Site, throwaway_site
from crewlog.temporal_service.namespaces import server_version

LATEST = commits.ROOT / commits.FIGURES
LEAST = 10
"""Rounds of the figures in `bench/latest.json`, at least."""


class OptionError(Exception):
    """An option has a value that it cannot have."""


def main(arguments: list[str]) -> int:
    """Runs what the arguments say; 0 also where a target is missed, 1 after an error."""
    options = _parser().parse_args(arguments)
    try:
        if options.pairs < 1:
            raise OptionError("--pairs takes at least 1")
        if options.table:
            return show(options.table, options.page)
        if options.against:
            return compare(options)
        return bench(options)
    except (OptionError, commits.CommitError, report.OtherMachineError, against.Failed) as error:
        print(f"error: {error}", file=sys.stderr)
    except Exception:  # noqa: BLE001 - whatever it is, it ends with 1
        traceback.print_exc()
    return 1


def bench(options: argparse.Namespace) -> int:
    """Measures the cases and writes their rows, each with the commit of the work tree."""
    names = _names(options.only, CASES)
    out: Path | None = options.out or (None if options.only else LATEST)
    if out is not None and out.resolve() == LATEST and options.pairs < LEAST:
        raise OptionError(f"{LATEST.name} takes no less than {LEAST} rounds; --out FILE")
    commit = commits.measured_commit() if out is not None else ""
    began, load = time.monotonic(), os.getloadavg()[0]
    found, failed = asyncio.run(measure(names, options.pairs))
    report.derive(found)
    print(report.text(found if options.only else report.complete(found)))
    print(f"\n{time.monotonic() - began:.0f} s", file=sys.stderr)
    if out is not None:
        if (now := commits.measured_commit()) != commit:
            raise commits.CommitError(
                f"nothing is written: the work tree was at {commit} before the measurement and is "
                f"at {now} now: measure again"
            )
        report.stamp(found, commit, load)
        measured = [name for name in names if name not in failed]
        whole = report.merged(out, found, measured) if options.only else report.complete(found)
        report.write(out, whole)
    if failed:
        cases = ",".join(failed)
        print(f"error: {cases} failed; measure again: --only {cases}", file=sys.stderr)
    return 1 if failed else 0


def show(path: Path, page: Path | None) -> int:
    """Prints a file's table as Markdown, or puts it on a page where all rows are of one commit."""
    found: report.Flat = json.loads(path.read_text())
    table = report.markdown(found)
    if page is None:
        print(table)
    else:
        commits.check_page(report.by_commit(found), path)
        page.write_text(report.on_page(page.read_text(), table))
    return 0


def compare(options: argparse.Namespace) -> int:
    """Measures the engine of this work tree beside that of another commit; writes nothing."""
    if options.out:
        raise OptionError("--against prints its figures and writes none: leave --out away")
    names = _names(options.only, against.CASES)
    try:
        sizes = [int(size) for size in options.sizes.split(",")]
    except ValueError:
        raise OptionError(f"--sizes takes numbers of steps, not {options.sizes!r}") from None
    if wrong := [size for size in sizes if size < RING or size % RING]:
        raise OptionError(f"--sizes takes multiples of {RING}, not {wrong[0]}")
    print(asyncio.run(against.run(options.against, names, sizes, options.pairs)))
    return 0


def _names(only: str | None, known: dict[str, str]) -> list[str]:
    names = only.split(",") if only else list(known)
    if unknown := [name for name in names if name not in known]:
        raise OptionError(f"there is no case {unknown[0]!r}: {', '.join(known)}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", metavar="CASES", help=f"some of {','.join(CASES)}")
    parser.add_argument(
        "--pairs", type=int, default=int(os.environ.get("BENCH_PAIRS", LEAST)), help="rounds"
    )
    parser.add_argument("--out", type=Path, help="where the JSON goes; with --only it is merged")
    parser.add_argument("--table", type=Path, help="prints the table of a file as Markdown")
    parser.add_argument("--page", type=Path, help="with --table: the page that has it")
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help=f"compares the engine with that of a commit; --only: {','.join(against.CASES)}",
    )
    parser.add_argument(
        "--sizes", default="10,100,1000", help="with --against: the steps of the measured runs"
    )
    return parser


async def measure(names: list[str], pairs: int) -> tuple[report.Flat, list[str]]:
    """The figures of these cases, on a server of their own, and the cases that failed."""
    found: report.Flat = {}
    failed: list[str] = []
    async with throwaway_site() as site:
        for name in names:
            try:
                found |= report.flat(await case(name)(Bench(site, pairs)), name)
            except Exception:  # noqa: BLE001 - the other cases took minutes, too
                traceback.print_exc()
                failed.append(name)
        found |= await machine(site)
    return found, failed


async def machine(site: Site) -> report.Flat:
    """What it ran on."""
    connection = await asyncpg.connect(site.environ["DATABASE_URL"])
    try:
        postgres = connection.get_server_version()
    finally:
        await connection.close()
    return {
        "cpus": os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "temporalio": version("temporalio"),
        "langgraph": version("langgraph"),
        "temporal_server": await server_version(site.temporal),
        "postgres": f"{postgres.major}.{postgres.minor}",
    }


def _processor() -> str:
    """The processor's model where Linux names it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # The interpreter sometimes aborts while it tears the Temporal runtime down.
    os._exit(code)
