"""Chaos: the long set of faults, with a seed and a report.

    python -m tests.faults.chaos --seed 7 --scenario workers --runs 100 --kills 200
    python -m tests.faults.chaos --seed 7 --scenario server --cluster cluster.py

Every scenario has services, workers and a ledger of its own, and can be run alone. All that is
random follows from the seed; what hangs on time and on the machine does not. Exits with 1 where
anything was lost, doubled, unequal or unexpected; the folder with all logs is then kept.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from crewlog.temporal_service.sdk_workarounds import end_process
from faults.crew import make_crew
from faults.drill import Drill
from faults.merges import MergeDrill, choose_steps
from faults.report import Report, table, write
from faults.scenarios import (
    Faults,
    freeze_workers,
    kill_workers,
    restart,
    restart_postgres,
    take_away,
)
from faults.stand import Stand, make_stand
from faults.victims import cluster
from faults.writers import write_in_parallel

SCENARIOS = ("workers", "frozen", "server", "postgres", "store", "writers", "merges")


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """The defaults that there are, and the text above as it is."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None else super()._get_help_string(action)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.chaos", description=__doc__, formatter_class=_Help
    )
    parser.add_argument("--seed", type=int, default=1, help="what everything random follows from")
    parser.add_argument("--scenario", choices=[*SCENARIOS, "all"], default="all", help="which")
    parser.add_argument(
        "--runs",
        type=int,
        default=100,
        help="runs of each scenario, at least: more are started while the faults go on",
    )
    parser.add_argument("--at-once", type=int, default=25, help="runs that are open at a time")
    parser.add_argument("--workers", type=int, default=3, help="workers that are alive")
    parser.add_argument("--kills", type=int, default=200, help="SIGKILLs of workers")
    parser.add_argument("--freezes", type=int, default=20, help="workers frozen past a heartbeat")
    parser.add_argument("--restarts", type=int, default=20, help="restarts of each server process")
    parser.add_argument(
        "--postgres-minutes", type=float, default=10.0, help="how long Postgres is restarted"
    )
    parser.add_argument("--away-minutes", type=float, default=5.0, help="how long it is away")
    parser.add_argument("--pairs", type=int, default=1000, help="pairs of writes to one log")
    parser.add_argument("--merges", type=int, default=100, help="run merges, each with a SIGKILL")
    parser.add_argument("--limit", type=float, default=60.0, help="minutes until a run is lost")
    parser.add_argument("--report", type=Path, help="a file for the report, as JSON")
    parser.add_argument(
        "--cluster", type=Path, help="a running cluster's program, which has `kill` and `start`"
    )
    parser.add_argument(
        "--address",
        default=os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233"),
        help="the cluster's frontend",
    )
    return parser.parse_args(words)


def faults_of(scenario: str, stand: Stand, given: argparse.Namespace) -> Faults:
    """What a scenario does."""
    if scenario == "workers":
        return kill_workers(given.kills)
    if scenario == "frozen":
        return freeze_workers(given.freezes)
    if scenario == "server":
        victims = cluster(given.cluster) if given.cluster else [stand.temporal]
        return restart([victim for victim in victims if victim is not None], given.restarts)
    if scenario == "postgres":
        return restart_postgres(stand.postgres, given.postgres_minutes, (2.0, 6.0))
    return take_away(stand.postgres, given.away_minutes)


async def perform(scenario: str, given: argparse.Namespace) -> Report:
    """Performs one scenario in a folder of its own."""
    root = Path(tempfile.mkdtemp(prefix=f"crewlog-chaos-{scenario}-"))
    async with make_stand(root, address=given.address if given.cluster else None) as stand:
        if scenario == "writers":
            report = await write_in_parallel(stand, scenario, given.pairs, given.limit * 60)
            report.seed = given.seed
        elif scenario == "merges":
            steps = choose_steps(given.merges)
            report = await MergeDrill(stand, scenario, given.seed, steps, tell=say).perform()
        else:
            drill = Drill(
                stand,
                scenario,
                given.seed,
                make_crew(root),
                runs=given.runs,
                at_once=given.at_once,
                workers=given.workers,
                limit=given.limit * 60,
                tell=say,
            )
            report = await drill.perform(faults_of(scenario, stand, given))
    if report.all_violations:
        report.notes["kept"] = str(root)
    else:
        shutil.rmtree(root, ignore_errors=True)
    return report


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main(words: list[str] | None = None) -> int:
    given = arguments(words)
    chosen = SCENARIOS if given.scenario == "all" else (given.scenario,)
    reports: list[Report] = []
    for scenario in chosen:
        say(f"{scenario}: seed {given.seed}")
        reports.append(await perform(scenario, given))
        say(table(reports[-1:]))
        if given.report:
            write(reports, given.report)
    if len(reports) > 1:
        say(f"\n{table(reports)}")
    return int(any(report.all_violations for report in reports))


if __name__ == "__main__":
    end_process(asyncio.run(main()))
