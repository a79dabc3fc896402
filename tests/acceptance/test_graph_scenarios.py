"""Graphs that join, part and grow at random, while workers are killed: nothing is lost or doubled.

Several scenarios are played at once on a worker that is killed again and again, so that each kill
meets them at many places. `CREWLOG_SCENARIOS` says how many there are: `make test-scenarios` plays
two hundred.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest
from temporalio.service import RPCError

from crewlog.reporting.events.filters import ENTRY_KINDS
from crewlog.state.model.merge import MergeStatus

from .harness import Site
from .scenarios import Scenario, bug_in

QUEUE = "scenarios"
KEEP = os.environ.get("CREWLOG_KEEP", "")
"""The folder where what tells of failed scenarios is kept; empty: nowhere."""
COUNT = int(os.environ.get("CREWLOG_SCENARIOS", "16"))
AT_ONCE = 24
"""Scenarios that are played at once."""
KILLS = 3
"""Kills while they are."""
GAPS = (
    "coordinating | nothing",
    "requested | nothing",
    "requested | coordinating",
    "draining | coordinating",
    "MergeFrozen | coordinating",
    "MergeFrozen | RunMerged",
    "ComponentChanged | no part",
)
"""Where the worker is killed: how far two runs are, by what is stored. One in each turn."""
ALL = 200
"""Scenarios in which every gap is met."""
MET: Counter[str] = Counter()
"""Where runs were when their worker was killed, in all scenarios of this process."""
BATCHES = [range(first, min(first + AT_ONCE, COUNT)) for first in range(0, COUNT, AT_ONCE)]


@pytest.fixture
async def own_worker(site: Site) -> AsyncIterator[Site]:
    await site.start_worker(QUEUE)
    yield site
    await site.settle()
    await asyncio.to_thread(site.end_workers, QUEUE)


async def kills(site: Site, plays: Sequence[Scenario], gaps: Counter[str]) -> None:
    """Kills the worker while scenarios are played, and notes where it met them."""
    for number in range(KILLS):
        wanted = GAPS[(plays[0].seed // AT_ONCE * KILLS + number) % len(GAPS)]
        while not await met(plays, wanted):
            if all(play.over for play in plays):
                return
            await asyncio.sleep(0.02)
        site.workers[QUEUE].pop().kill()
        for play in plays:
            gaps.update(await play.gaps())
        await site.start_worker(QUEUE)


async def met(plays: Sequence[Scenario], wanted: str) -> bool:
    """Whether two runs of a scenario are in a certain gap."""
    for play in plays:
        if wanted in await play.gaps():
            return True
    return False


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
async def test_nothing_is_lost_and_nothing_comes_twice(own_worker: Site, seeds: range) -> None:
    plays = [Scenario(own_worker, QUEUE, seed) for seed in seeds]
    await asyncio.gather(*(play.begin() for play in plays))
    gaps: Counter[str] = Counter()
    killing = asyncio.create_task(kills(own_worker, plays, gaps))
    await asyncio.gather(*(play.go() for play in plays))
    await killing
    failed: dict[int, str] = {}
    for play, came in zip(plays, await asyncio.gather(*(one(play) for play in plays)), strict=True):
        if came:
            failed[play.seed] = came
    outcomes = sum((play.outcomes for play in plays), Counter[str]())
    told = f"{[*seeds]}: killed at {dict(gaps)}; {dict(outcomes)}; failed: {failed}"
    logging.getLogger(__name__).info(told)
    MET.update(gaps)
    assert not failed
    happened = [
        sum(len(account.kinds(kind)) for play in plays for account in play.accounts.runs.values())
        for kind in ("RunMerged", "RunForked")
    ]
    renamed = sum(
        bool(entry.renames)
        for play in plays
        for account in play.accounts.runs.values()
        for entry in account.kinds("RunMerged")
    )
    assert gaps, "no worker was killed where it matters"
    assert renamed, "nobody had a name in common"
    assert min(happened) >= len(plays) // 4, "too little happened to tell"


def test_each_gap_names_stages_that_there_are() -> None:
    stages = {*get_args(MergeStatus), *ENTRY_KINDS, "nothing", "no part"}
    assert {stage for gap in GAPS for stage in gap.split(" | ")} <= stages


@pytest.mark.skipif(COUNT < ALL, reason="fewer scenarios do not meet all")
def test_a_worker_was_killed_between_every_two_messages() -> None:
    assert {*GAPS} <= {*MET}


@pytest.mark.parametrize(
    ("text", "bug"),
    [
        ("KeyError: 'ann'", "KeyError"),
        ("the definition of both runs could not be made: AttributeError: no 'x'", "AttributeError"),
        ("InternalError: the swap would lose a#1", "InternalError"),
        ("IndexError('tuple index out of range')", "IndexError"),
        (
            "the definition of both runs could not be made: ValidationError: 1 error",
            "ValidationError",
        ),
        ("ChangeConflict: another change is pending: v2", ""),
        ("ComponentConflict: the runs are not commanded by the same principals", ""),
        ("there is a run s-ann already: send the change again with a new id", ""),
    ],
)
def test_a_bug_is_told_from_what_is_refused(text: str, bug: str) -> None:
    assert bug_in(text) == bug


async def one(play: Scenario) -> str:
    """Why a scenario did not end well; empty where it did."""
    try:
        await play.rest()
        await play.check()
    except Exception:
        if KEEP:
            await keep(play, Path(KEEP))
        return traceback.format_exc()[-1500:]
    return ""


async def keep(play: Scenario, folder: Path) -> None:
    """Keeps what a scenario that failed can be found out from: histories, and the workers' logs."""
    folder = folder / f"{play.seed}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    for run in play.accounts.runs:
        with suppress(RPCError):
            history = await play.site.temporal.get_workflow_handle(run).fetch_history()
            (folder / f"{run}.json").write_text(history.to_json())
    for log in play.site.root.glob("**/*.log"):
        shutil.copy(log, folder)
