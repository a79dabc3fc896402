"""`Run.rebuild` where runs parted and joined: what others went on without does not come back.

A run whose store is away records that its graph is another one, and is ended from outside before
that is stored. Its history has it, and so has a rebuild that believes the history alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from crewlog.client import Run
from crewlog.definition.operations import Disconnect
from crewlog.errors import CrewlogError, RemoteAgentConflict, RunFailed
from crewlog.ids import AgentName, RunId

from .harness import LIMIT, RUN_LIMIT, Site
from .test_creatures import living, rested
from .test_merges import A, D, speaking, to
from .test_rebuild import lose, soon
from .test_splits import EDGES, part_of, until_begun

QUEUE = "settled"
EVERYBODY = dict.fromkeys(("ann", "bob", "cid", "dan", "eve"), 1)
pytestmark = pytest.mark.timeout(200)


@pytest.fixture
async def db(crews: Site) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(crews.endpoints.database_url)
    yield connection
    await connection.close()
    crews.end_workers(QUEUE)


@asynccontextmanager
async def no_other_graph(db: Any, run: Run) -> AsyncIterator[None]:
    """The store is away for a run from where another definition holds in it."""
    await db.execute(
        "CREATE FUNCTION crewlog.away() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'away' USING ERRCODE = '57P03'; END $$"
    )
    await db.execute(
        "CREATE TRIGGER away BEFORE UPDATE ON crewlog.runs FOR EACH ROW WHEN "
        f"(new.run = '{run.id}' AND new.definition <> old.definition) "
        "EXECUTE FUNCTION crewlog.away()"
    )
    try:
        yield
    finally:
        await db.execute("DROP FUNCTION crewlog.away CASCADE")


async def ended_unstored(site: Site, run: Run, kind: str) -> None:
    """Ends a run from outside that has recorded what is not stored, and its worker before."""

    async def recorded() -> bool:
        page = await run.journal((await run.state()).position - 3)
        return kind in [item.data["kind"] for item in page.entries]

    await soon(recorded)
    for worker in site.workers[QUEUE]:
        worker.kill()
    await run.terminate("gone")
    assert not await site.entries(run, kind)


async def lives(*runs: Run) -> Counter[str]:
    """In how many graphs each creature lives, by the store."""
    found = Counter[str]()
    for run in runs:
        state = await run.state()
        if state.status != "merged":
            found.update([*(await run.graph()).plan["component"]["agents"]])
    return found


async def unstored_merge(site: Site, db: Any) -> tuple[Run, Run]:
    """A run that took in another one, which that one never learned; it was ended from outside."""
    await site.start_worker(QUEUE)
    one = await site.start(living(site, speaking("ann bob cid"), A), "", queue=QUEUE)
    two = await site.start(living(site, speaking("dan eve"), D), "")
    await rested(one)
    await rested(two)
    async with no_other_graph(db, one):
        await one.change(operations=[to(two, "ann", "eve", "tie")], id="tie", wait=False)
        await ended_unstored(site, one, "RunMerged")
    return one, two


async def on_its_own(run: Run) -> None:
    """Waits until a run has given a merge up: it looks at the other one from time to time."""

    async def alone() -> bool:
        return (await run.state()).pending_merge is None

    await soon(alone)


async def test_a_run_that_went_on_alone_is_not_taken_in_by_a_rebuild(crews: Site, db: Any) -> None:
    one, two = await unstored_merge(crews, db)
    await on_its_own(two)
    before = await crews.journal(one)
    report = await one.rebuild()
    (union,) = report.left_out
    assert union.first > report.position == before[-1][0]
    assert two.id in union.why
    assert "MergeFailed" in union.why
    assert report.whole
    assert await crews.journal(one) == before
    assert await one.rebuild(replace=True) == report
    # After all rows are lost, in either order.
    for order in ([one, two], [two, one]):
        await lose(db)
        for each in order:
            assert (await each.rebuild()).whole
        assert await crews.journal(one) == before
    await crews.start_worker(QUEUE)
    await one.reopen("live", execution_timeout=RUN_LIMIT)
    await rested(one)
    assert await lives(one, two) == EVERYBODY
    for each in (one, two):
        await each.stop()
        await each.result(LIMIT)
        report = await each.rebuild()
        assert report.whole
    assert report.left_out == ()
    (left,) = (await one.rebuild()).left_out
    assert "took the run up" in left.why
    assert await crews.entries(one, "RunReopened")
    assert not await crews.entries(one, "RunMerged")


@pytest.mark.parametrize("first", ["the rebuild", "the look"])
async def test_whoever_comes_first_says_whether_a_run_was_taken_in(
    crews: Site, db: Any, first: str
) -> None:
    """The other run is frozen, and waits for the outcome."""
    one, two = await unstored_merge(crews, db)
    if first == "the look":  # as the other run has it done, before it decides
        await crews.store.reject_executions(RunId(one.id), [await execution_of(crews, one)])
    report = await one.rebuild()
    assert report.whole
    if first == "the rebuild":
        assert report.left_out == ()
        assert (await two.result(LIMIT)).surviving_run == one.id
        assert await one.rebuild() == report
    else:
        (left,) = report.left_out
        assert "the store takes nothing more" in left.why
        await on_its_own(two)
        again = await one.rebuild()
        assert (again.position, again.left_out[-1].first) == (report.position, left.first)
        assert "has `MergeFailed`" in again.left_out[0].why
    await crews.start_worker(QUEUE)
    await one.reopen("live", execution_timeout=RUN_LIMIT)
    await rested(one)
    assert await lives(one, two) == EVERYBODY


async def execution_of(site: Site, run: Run) -> str:
    return (await site.temporal.get_workflow_handle(run.id).describe()).run_id or ""


async def unstored_split(site: Site, db: Any) -> tuple[Run, Run]:
    """A run that was parted, which its part never learned; it was ended from outside."""
    await site.start_worker(QUEUE)
    run = await site.start(living(site, speaking("ann bob cid"), EDGES), "", queue=QUEUE)
    await rested(run)
    async with no_other_graph(db, run):
        cut = Disconnect(sender=AgentName("ann"), listener=AgentName("bob"))
        await run.change(operations=[cut], id="cut", wait=False)
        part = part_of(site, run, "cut", "ann")
        site.runs.remove(part)  # it may come to nothing
        await ended_unstored(site, run, "ComponentChanged")
    return run, part


@pytest.mark.parametrize("how", ["waits", "is shut out", "has given up"])
async def test_who_parted_lives_in_one_graph_after_a_rebuild(
    crews: Site, db: Any, how: str
) -> None:
    """Nobody works for the part before the rebuild, or else it has seen that nothing came."""
    run, part = await unstored_split(crews, db)
    if how == "is shut out":
        await crews.store.reject_executions(RunId(run.id), [await execution_of(crews, run)])
    if how == "has given up":
        await crews.start_worker(QUEUE)
        with pytest.raises(RunFailed, match="cannot start"):
            await part.result(LIMIT)
    report = await run.rebuild()
    assert report.whole
    await crews.start_worker(QUEUE)
    if how == "waits":
        assert report.left_out == ()
        await until_begun(part)
        await rested(part)
    else:
        left = [each.why for each in report.left_out]
        assert "takes nothing more" in left[-1]
        assert how != "has given up" or "without having" in left[0]
        with pytest.raises(RunFailed, match="cannot start"):
            await part.result(LIMIT)
    await lose(db)
    again = await run.rebuild()
    assert (again.position, bool(again.left_out)) == (report.position, bool(report.left_out))
    parts = [part] if how == "waits" else []
    for each in parts:
        assert (await each.rebuild()).whole
    await run.reopen("live", execution_timeout=RUN_LIMIT)
    await rested(run)
    assert await lives(run, *parts) == {"ann": 1, "bob": 1, "cid": 1}
    for each in parts:
        await each.terminate("the test is over")


async def reset(site: Site, run: Run, task: int) -> None:
    """Resets a run to one of the first tasks of its last execution; nobody works on it then."""
    history = await site.temporal.get_workflow_handle(run.id).fetch_history()
    done = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    tasks = [event.event_id for event in history.events if event.event_type == done]
    await site.temporal.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=site.temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run.id, run_id=history.run_id),
            reason="a test",
            workflow_task_finish_event_id=tasks[task],
            request_id=f"reset {run.id}",
        )
    )


async def refused(site: Site, run: Run, *says: str) -> None:
    """Checks that the rows of a run that was reset stay, and that it goes on from them."""
    before = await site.journal(run)
    with pytest.raises(RemoteAgentConflict) as caught:
        await run.rebuild(replace=True)
    for text in says:
        assert text in caught.value.message
    assert f"terminate --workflow-id {run.id}" in caught.value.remedy
    assert await site.journal(run) == before
    await run.terminate("it was reset")


async def test_a_run_that_is_part_of_another_one_is_not_made_one_again(
    crews: Site, db: Any
) -> None:
    await crews.start_worker(QUEUE)
    one = await crews.start(living(crews, speaking("ann bob cid"), A), "", queue=QUEUE)
    two = await crews.start(living(crews, speaking("dan eve"), D), "", queue=QUEUE)
    await rested(one)
    await rested(two)
    await one.change(operations=[to(two, "ann", "eve", "tie")], id="tie")
    assert (await two.result(LIMIT)).surviving_run == one.id
    await rested(one)
    crews.end_workers(QUEUE)
    await reset(crews, two, 0)
    await refused(crews, two, f"part of '{one.id}'")
    # Nor does the other one lose who came.
    await one.terminate("gone")
    await reset(crews, one, 0)
    await refused(crews, one, f"took in '{two.id}'")
    await crews.start_worker(QUEUE)
    with pytest.raises(CrewlogError, match="part of"):
        await two.reopen("live", execution_timeout=RUN_LIMIT)
    await one.reopen("live", execution_timeout=RUN_LIMIT)
    await rested(one)
    assert await lives(one) == EVERYBODY


async def test_who_lives_in_a_part_does_not_come_back_by_a_reset(crews: Site, db: Any) -> None:
    await crews.start_worker(QUEUE)
    run = await crews.start(living(crews, speaking("ann bob cid"), EDGES), "", queue=QUEUE)
    await rested(run)
    cut = Disconnect(sender=AgentName("ann"), listener=AgentName("bob"))
    await run.change(operations=[cut], id="cut")
    part = part_of(crews, run, "cut", "ann")
    await until_begun(part)
    await rested(part)
    await run.stop()
    await run.result(LIMIT)
    crews.end_workers(QUEUE)
    await reset(crews, run, 0)
    await refused(crews, run, f"left it for '{part.id}'")
    await crews.start_worker(QUEUE)
    await run.reopen("live", execution_timeout=RUN_LIMIT)
    await rested(run)
    assert await lives(run, part) == {"ann": 1, "bob": 1, "cid": 1}


async def test_a_resumption_that_never_began_takes_nothing_from_a_run(crews: Site, db: Any) -> None:
    """It was started, and no worker has taken it: the run's history is that of the one before."""
    await crews.start_worker(QUEUE)
    run = await crews.start(living(crews, speaking("ann bob cid"), A), "", queue=QUEUE)
    await rested(run)
    await run.message("hello", to="channel:y", by="fay")
    await run.wait_until(lambda view: view.steps == 2 and view.is_idle, LIMIT)
    await run.terminate("gone")
    crews.end_workers(QUEUE)
    before = await crews.journal(run)
    await run.reopen("live", execution_timeout=RUN_LIMIT)
    for ended in False, True:
        if ended:
            await run.terminate("nor does it go on")
        report = await run.rebuild(replace=True)
        assert (report.missing, report.problems, report.replaced_after) == ((), (), None)
        assert (report.position, len(report.executions)) == (before[-1][0], 2)
        await lose(db)
        assert (await run.rebuild()).position == report.position
        assert await crews.journal(run) == before
    await crews.start_worker(QUEUE)
    await run.reopen("live", execution_timeout=RUN_LIMIT)
    await rested(run)
    assert (await run.state()).position > before[-1][0]
    assert len((await run.rebuild()).executions) == 3
