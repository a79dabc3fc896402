"""The small set of faults: each scenario of `make chaos`, with a few runs of a shorter crew."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from crewlog.dev.supervisor import Supervisor

from .audit import Findings
from .crew import FaultCrew, make_crew
from .drill import Drill
from .merges import MergeDrill, MergeEvidence, audit_merge, choose_steps
from .report import Report
from .scenarios import Faults, freeze_workers, kill_workers, restart, restart_postgres, take_away
from .stand import Stand
from .victims import SupervisedVictim
from .writers import write_in_parallel

LIMIT = 180.0
"""Seconds until a run is lost."""
POINTS = ("append.after", "effect.after", "call_tool.end", "task.schedules", "store_batch.end")
"""Points that every run passes several times, one of each kind."""

pytestmark = pytest.mark.timeout(400)


def short_crew(stand: Stand) -> FaultCrew:
    return make_crew(stand.site.root, rounds=1, lanes=("a", "b"), events=50, heartbeat=1.0)


async def perform(stand: Stand, name: str, faults: Faults, runs: int = 3) -> Report:
    crew = short_crew(stand)
    drill = Drill(stand, name, 1, crew, runs=runs, at_once=runs, workers=2, limit=LIMIT)
    report = await drill.perform(faults)
    assert not report.all_violations, "\n".join(report.all_violations)
    found = report.findings
    assert found.finished == found.runs >= runs
    assert found.steps_applied == found.steps_expected == found.runs * len(crew.expected.steps)
    assert found.keyed_done == found.keyed_expected > 0
    assert found.never_done == found.never_expected > 0
    return report


async def test_workers_are_killed(stand: Stand) -> None:
    report = await perform(stand, "workers", kill_workers(6, POINTS), runs=5)
    assert report.faults.total() >= 6
    assert sum(n for fault, n in report.faults.items() if fault != "kill anywhere") >= 1


async def test_workers_are_killed_while_runs_merge(stand: Stand) -> None:
    """Six merges; `make chaos` has a hundred."""
    steps = choose_steps(6)
    drill = MergeDrill(stand, "merges", 1, steps)
    report = await drill.perform()
    assert not report.all_violations, "\n".join(report.all_violations)
    assert report.notes["with their own kill"] == len(steps)
    merged, failed = "merged", "failed with CommandRejected"
    assert report.notes["outcomes"].keys() == {merged, failed}
    for found in drill.evidence:
        for name, changed in changed_evidence(found):
            assert audit_merge(changed, Findings()), name


def changed_evidence(found: MergeEvidence) -> Iterator[tuple[str, MergeEvidence]]:
    """The evidence of a merge with one thing lost, doubled or wrong."""
    coordinator, merged = found.coordinator, found.merged
    yield "an event is not shown", replace(found, log=found.log[1:])
    yield "an event is shown twice", replace(found, log=[*found.log, found.log[0]])
    yield "a turn is not shown", replace(found, trace=Counter(dict(found.trace, **{"dan#1": 0})))
    yield "a message is lost", replace(found, messages=[*found.messages, "lost"])
    yield "a turn is lost", replace(found, turns={**found.turns, "eve": found.turns["eve"] + 1})
    yield "no run has the agents", replace(found, agents={})
    yield "a run hangs", replace(found, merged=replace(merged, ended="running"))
    both = replace(coordinator, deposits=[*coordinator.deposits, *coordinator.deposits])
    yield "an effect is doubled", replace(found, coordinator=both)
    for kind in ("RunMerged", "RunEndedByMerge", "MergeFailed", "MessageAdded", "StepCompleted"):
        for side, each in (("coordinator", coordinator), ("merged", merged)):
            rows = [row for row in each.journal if row[1].kind == kind][:1]
            if rows:
                more = replace(each, journal=[*each.journal, *rows])
                less = replace(each, journal=[row for row in each.journal if row not in rows])
                yield f"{kind} twice at the {side} run", replace(found, **{side: more})
                yield f"no {kind} at the {side} run", replace(found, **{side: less})


async def test_workers_are_frozen_past_their_heartbeat(stand: Stand) -> None:
    report = await perform(stand, "frozen", freeze_workers(2, ("call_tool.end", "effect.before")))
    assert report.faults.total() == 2
    assert report.findings.late_refused >= 1


async def test_the_server_is_killed_and_restarted(stand: Stand) -> None:
    assert stand.temporal is not None
    report = await perform(stand, "server", restart([stand.temporal], 2, longest=0.5))
    assert report.faults == {"restart temporal": 2}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_dead_or_wedged_server_is_restarted_by_its_supervisor(
    stand: Stand, number: signal.Signals
) -> None:
    services, reports = stand.site.services.services, list[str]()
    supervisor = Supervisor(services, stand.site.temporal, reports.append)
    victim = SupervisedVictim(services, number)
    address = victim.record.address
    try:
        report = await perform(stand, f"supervised{number:d}", restart([victim], 2, longest=0.5))
    finally:
        await supervisor.close()
    assert report.faults == {f"restart {victim.name}": 2}
    how = "ended" if number is signal.SIGKILL else r"did not answer for \d+ s"
    assert len(reports) == 2
    for line in reports:
        assert re.fullmatch(
            rf"the local Temporal server {how}; restarted it on the same data", line
        )
    assert victim.record.address == address


async def test_postgres_is_restarted(stand: Stand) -> None:
    faults = restart_postgres(stand.postgres, 0, (0.3, 0.8), at_least=3)
    report = await perform(stand, "postgres", faults)
    assert report.faults == {"restart postgres": 3}


async def test_the_store_is_away(stand: Stand) -> None:
    report = await perform(stand, "store", take_away(stand.postgres, 4 / 60, after=0.1))
    assert report.faults == {"postgres away": 1}


async def test_two_agents_write_to_one_log_at_the_same_time(stand: Stand) -> None:
    """A hundred pairs; `make chaos` has a thousand."""
    report = await write_in_parallel(stand, "writers", 100, LIMIT)
    assert not report.all_violations, "\n".join(report.all_violations)
    # They did write at the same time: neither waited until the other was through.
    assert report.notes["turned from one writer to the other"] > 20
