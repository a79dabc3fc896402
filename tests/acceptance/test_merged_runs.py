"""Merged runs: their journals stay while the surviving run shows them."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from crewlog.cli.look import read_with_merged_runs
from crewlog.client import Run
from crewlog.errors import UsageError
from crewlog.state.journal import entry_from_json
from crewlog.wire import WORKFLOW_TYPE, StartRun

from .harness import LIMIT, RUN_LIMIT, SHARED, Site
from .test_creatures import living, rested
from .test_deleting import until_true
from .test_merges import pair, speaking, to


def speaker(site: Site) -> dict[str, Any]:
    return site.crew({"a": [{"text": "A"}]}, flow=["a"])


async def connected(one: Run, two: Run) -> None:
    """Merges a run of `test_merges.D` into a larger one."""
    tie = to(two, "ann", "eve", "tie")
    changed = await one.change(operations=[tie], id="tie", by="fay", wait=False)
    assert await one.merged(changed) == one.id


async def read(run: Run) -> tuple[list[str], list[str]]:
    """The merged runs in the log of a run, and those in its report, also of these runs."""
    log = [of async for of, _ in read_with_merged_runs(run)]
    reports = [await run.report()]
    for each in reports:
        reports += each.merged_runs
    return [*dict.fromkeys(log)], [each.run for each in reports]


async def test_a_chain_of_merged_runs_stays_while_the_last_one_lives(crews: Site) -> None:
    one, two = await pair(crews)
    await connected(one, two)
    await two.result(LIMIT)
    names = [f"u{n}" for n in range(6)]
    channels = {name: {"listen": ["q"], "send": ["r"]} for name in names}
    three = await crews.start(living(crews, speaking(" ".join(names)), channels), "")
    await rested(three)
    tie = to(one, "u1", "bob", "tie")
    changed = await three.change(operations=[tie], id="tie", by="fay", wait=False)
    assert await three.merged(changed) == three.id
    assert (await one.result(LIMIT)).surviving_run == three.id
    ended = {one.id, two.id}

    async def listed() -> bool:
        runs = await crews.client().list(limit=1000)
        return ended <= {each.run for each in runs if each.ended is not None}

    await until_true(listed)
    found = await crews.client().delete_ended(0, dry_run=True)
    assert not ended & {each.run for each in found.runs}
    assert await read(three) == ([three.id, one.id, two.id], [three.id, one.id, two.id])
    for run, surviving in ((two, one), (one, three)):
        with pytest.raises(UsageError, match=f"was merged into '{surviving.id}'") as caught:
            await crews.client().delete(run.id)
        assert f"`crewlog delete {surviving.id}`" in caught.value.remedy


async def test_a_run_that_ended_before_it_knew_that_it_was_merged_stays(crews: Site) -> None:
    """The journal of the surviving run decides, not that of the merged run."""
    one, two = await pair(crews)
    await connected(one, two)
    await two.result(LIMIT)
    [*_, frozen, end] = await crews.store.read_journal(two.id)
    assert [frozen.entry["kind"], end.entry["kind"]] == ["MergeFrozen", "RunEndedByMerge"]
    await crews.store.truncate_journal(two.id, frozen.position)
    row = await crews.store.get_run(two.id)
    assert row is not None
    assert row.status == "running"
    with pytest.raises(UsageError, match=f"was merged into '{one.id}'"):
        await crews.client().delete(two.id)
    with pytest.raises(UsageError, match=f"was merged into '{one.id}'"):
        await crews.client().start(speaker(crews), "go", id=two.id, existing="replace")
    await crews.client().run(two.id).rebuild()
    assert await read(one) == ([one.id, two.id], [one.id, two.id])


async def test_a_merged_run_is_replaced_by_no_other_run(crews: Site) -> None:
    """Neither by a client of Crewlog, nor by one that starts the workflow itself."""
    one, two = await pair(crews)
    await connected(one, two)
    await two.result(LIMIT)
    journal, shown = await crews.journal(two), await read(one)
    why = f"cannot replace the run '{two.id}': it was merged into '{one.id}'"
    crew = speaker(crews)
    with pytest.raises(UsageError, match=why) as caught:
        await crews.client().start(crew, "go", id=two.id, existing="replace")
    assert caught.value.place == f"run '{two.id}'"
    assert f"Choose another id, or delete that run first: `crewlog delete {one.id}`" in str(
        caught.value
    )
    handle = await crews.temporal.start_workflow(
        WORKFLOW_TYPE,
        StartRun(crew=crew, replace=True).to_json(),
        id=two.id,
        task_queue=SHARED,
        execution_timeout=RUN_LIMIT,
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert why in str(failed.value.cause)
    rows = await crews.store.read_journal(two.id)
    assert [(row.position, entry_from_json(row.entry)) for row in rows] == journal
    assert await read(one) == shown
    crews.runs.remove(two)
