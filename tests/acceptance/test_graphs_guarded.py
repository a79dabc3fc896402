"""Splits and merges of signed crews: what comes of a graph is as well guarded as that was."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError

from crewlog.client import Run
from crewlog.definition.operations import Disconnect
from crewlog.errors import CommandRejected, NotPermitted
from crewlog.ids import AgentName, RunId
from crewlog.state.components import split_run_id
from crewlog.wire import WORKFLOW_TYPE

from .harness import LIMIT, RUN_LIMIT, Site, calls, tool, until
from .test_creatures import heard, living, rested
from .test_merges import ANN_TOO, A, D, speaking, to, until_taken
from .test_principals import client, folder, of, policy
from .test_splits import EDGES

__all__ = ["folder"]


async def signed(site: Site, folder: Any, edges: dict[str, Any]) -> Run:
    crew = living(site, speaking(" ".join(edges)), edges)
    owner = client(site, folder, "ada")
    run = await owner.start(crew | {"policy": policy(folder)}, "", execution_timeout=RUN_LIMIT)
    site.runs.append(run)
    await rested(run)
    return run


async def test_a_part_is_commanded_by_those_who_commanded_the_whole(
    crews: Site, folder: Any
) -> None:
    run = await signed(crews, folder, EDGES)
    cut = Disconnect(sender="ann", listener="bob")
    with pytest.raises(NotPermitted):
        await of(crews, folder, "oncall", run).change(operations=[cut], id="no")
    await of(crews, folder, "dev", run).change(operations=[cut], id="cut")  # it takes edges away
    part = Run(client(crews, folder, "ada"), split_run_id(RunId(run.id), "cut", AgentName("ann")))
    crews.runs.append(part)
    await rested(part)
    assert await crews.store.accepted_executions(RunId(part.id))
    await of(crews, folder, "oncall", part).message("hello", to="channel:x")
    await part.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    await of(crews, folder, "eve", part).message("me too", to="channel:x")
    await of(crews, folder, "oncall", part).stop()
    assert (await part.result(LIMIT)).status == "stopped"
    (forked,) = await crews.entries(part, "RunForked")  # all of it is stored once it has ended
    assert forked.by == "dev"
    assert [e.by for e in await crews.entries(part, "StopRequested")] == ["oncall"]
    assert any(e.error_type == "NotPermitted" for e in await crews.entries(part, "CommandRejected"))


async def test_nobody_begins_as_a_part_that_no_journal_names(crews: Site, folder: Any) -> None:
    run = await signed(crews, folder, EDGES)

    async def forged(of: str) -> WorkflowHandle[Any, Any]:
        return await crews.temporal.start_workflow(
            WORKFLOW_TYPE,
            {"split": {"run": of, "after": 0}},
            id=f"{run.id}-forged-{of == run.id}",
            task_queue=crews.client().task_queue,
            execution_timeout=RUN_LIMIT,
        )

    async def refused(handle: WorkflowHandle[Any, Any]) -> None:
        with pytest.raises(WorkflowFailureError) as failed:
            await asyncio.wait_for(handle.result(), LIMIT)
        assert isinstance(failed.value.cause, ApplicationError)
        assert failed.value.cause.type == "SplitNeverRecorded"
        assert await crews.store.get_run(RunId(handle.id)) is None

    await refused(await forged("nowhere"))
    waits = await forged(run.id)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(waits.result(), 4)  # that run may still say so
    assert await crews.store.get_run(RunId(waits.id)) is None
    # What is decided is decided for good: it goes on alone, and nobody waits for it any more.
    await of(crews, folder, "ada", run).stop()
    await refused(waits)


async def test_a_part_that_ended_is_not_begun_again(crews: Site, folder: Any) -> None:
    run = await signed(crews, folder, EDGES)
    cut = Disconnect(sender="ann", listener="bob")
    await of(crews, folder, "ada", run).change(operations=[cut], id="cut")
    part = Run(client(crews, folder, "ada"), split_run_id(RunId(run.id), "cut", AgentName("ann")))
    crews.runs.append(part)
    await rested(part)
    await part.stop()
    await part.result(LIMIT)
    before = await crews.journal(part)
    handle = await crews.temporal.start_workflow(
        WORKFLOW_TYPE,
        {"split": {"run": run.id, "after": 0}},
        id=part.id,
        task_queue=crews.client().task_queue,
        execution_timeout=RUN_LIMIT,
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert await crews.journal(part) == before
    crews.runs.remove(part)  # its last execution is the one that was not let in


async def test_a_part_is_begun_by_the_run_that_is_parted_and_once(crews: Site, folder: Any) -> None:
    """Nobody signs for its start; the journal of the run names it for ever."""
    run = await signed(crews, folder, EDGES)
    cut = Disconnect(sender="ann", listener="bob")
    await of(crews, folder, "ada", run).change(operations=[cut], id="cut")
    part = Run(client(crews, folder, "ada"), split_run_id(RunId(run.id), "cut", AgentName("ann")))
    await rested(part)
    await part.terminate("a test")
    journal = await crews.journal(run)
    after = next(position for position, entry in journal if entry.kind == "ChangeAccepted")

    async def refused(queue: str) -> str:
        handle = await crews.temporal.start_workflow(
            WORKFLOW_TYPE,
            {"split": {"run": run.id, "after": after}, "queue": queue},
            id=part.id,
            task_queue=crews.client().task_queue,
            execution_timeout=RUN_LIMIT,
        )
        with pytest.raises(WorkflowFailureError) as failed:
            await asyncio.wait_for(handle.result(), LIMIT)
        assert isinstance(failed.value.cause, ApplicationError)
        assert failed.value.cause.type == "NotPermitted"
        return failed.value.cause.message

    await crews.client().delete(part.id)
    assert "started before, and was deleted" in await refused("")
    await crews.client().delete(part.id)
    connection = await asyncpg.connect(crews.endpoints.database_url)
    try:  # as if it had been ended before it began
        await connection.execute("DELETE FROM crewlog.start_records WHERE key LIKE 'once:%'")
    finally:
        await connection.close()
    assert "only the original run may start a split run" in await refused("a stranger's")


async def test_signed_runs_of_one_policy_become_one(crews: Site, folder: Any) -> None:
    one, two = await signed(crews, folder, A), await signed(crews, folder, D)
    tie = to(two, "ann", "eve", "tie")
    with pytest.raises(NotPermitted):
        await of(crews, folder, "oncall", one).change(operations=[tie], id="no")
    await of(crews, folder, "ada", one).change(operations=[tie], id="tie")
    assert (await two.result(LIMIT)).surviving_run == one.id
    await of(crews, folder, "oncall", two).message("hello", to="channel:z")  # it is led on
    await one.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)


async def test_an_open_run_does_not_get_into_a_signed_one(crews: Site, folder: Any) -> None:
    mine = await signed(crews, folder, D)
    theirs = await crews.start(living(crews, speaking("ann bob cid"), A), "")
    await rested(theirs)
    with pytest.raises(CommandRejected, match="polic"):
        await theirs.change(operations=[to(mine, "ann", "eve", "tie")], id="tie")
    with pytest.raises(CommandRejected, match="polic"):
        await mine.change(operations=[to(theirs, "eve", "bob", "tie")], id="tie")


async def test_a_hint_to_a_run_that_has_no_crew_yet_is_passed_by(crews: Site) -> None:
    model = crews.script({"compiler": [{"stall": 60, "text": "late"}]})
    run = await crews.start("Somebody does something.", reader="model", model=model)
    await until(lambda: crews.prompted(run), "the model")
    hint = {"op": "x", "run": "nowhere"}
    await crews.temporal.get_workflow_handle(run.id).signal("notify_merge", hint)
    assert (await run.status()).status == "running"
    await run.stop()
    assert (await run.result(LIMIT)).status == "stopped"


async def test_a_forged_hint_is_a_reason_to_look_and_nothing_more(crews: Site, folder: Any) -> None:
    one, two = await signed(crews, folder, A), await signed(crews, folder, D)
    handle = crews.temporal.get_workflow_handle(one.id)
    hints: list[Any] = [
        {"op": f"{two.id}/tie", "run": two.id},
        {"op": "x", "run": "nowhere"},
        {"op": 5, "run": []},
        "merge",
        None,
    ]
    for hint in hints:
        await handle.signal("notify_merge", hint)
    await of(crews, folder, "oncall", one).message("hello", to="channel:y")
    await one.wait_until(lambda view: view.steps == 2 and view.is_idle, LIMIT)
    assert not await crews.entries(one, "MergeAccepted", "MergeFailed", "RunMerged")
    assert (await two.state()).status == "running"


async def test_what_was_signed_for_a_run_is_heard_in_the_one_that_takes_it_in(
    crews: Site, folder: Any
) -> None:
    """It comes while the run waits for the word of that one, which has no worker."""
    queue = "signed-stays"
    worker = await crews.start_worker(queue)
    owner = client(crews, folder, "ada")
    owner.task_queue = queue
    guarded = {"policy": policy(folder)}
    one = await owner.start(
        living(crews, speaking("ann bob cid"), A) | guarded, "", execution_timeout=RUN_LIMIT
    )
    model = crews.script({"ann": [calls(("gate", {"name": "g"}))], **speaking("ann-2 eve", 6)})
    crew = crews.crew(
        {name: [] for name in ANN_TOO}, rules=ANN_TOO, tools={"gate": tool("gate")}, graph={}
    )
    two = await client(crews, folder, "ada").start(
        {**crew, "model": model} | guarded, "", execution_timeout=RUN_LIMIT
    )
    crews.runs += [one, two]
    await rested(one)
    await rested(two)
    mine = of(crews, folder, "oncall", two)
    await mine.message("first", to="channel:x")
    await until(lambda: crews.ledger(two, "start", tool="gate"), "the tool")
    tie = to(two, "cid", "eve", "tie")
    await of(crews, folder, "ada", one).change(operations=[tie], wait=False)
    await two.wait_until(lambda view: view.merge_status == "draining", LIMIT)
    await one.wait_until(lambda view: view.merge_status == "coordinating", LIMIT)
    worker.kill()
    crews.open_gate(two, "g")
    await two.wait_until(lambda view: view.merge_status == "frozen", LIMIT)
    command = await mine.message("second", to="channel:x")
    await mine.message("second", to="channel:x", id=command)
    await of(crews, folder, "eve", two).message("forged", to="channel:x", by="eve")
    await crews.temporal.get_workflow_handle(two.id).signal(
        "message", {"id": "bare", "text": "bare", "to": "channel:x", "by": "ada"}
    )
    await mine.message("third", to="channel:z")
    await crews.start_worker(queue)
    assert (await two.result(LIMIT)).surviving_run == one.id
    await of(crews, folder, "oncall", two).message("second", to="channel:x", id=command)  # led on
    last = await of(crews, folder, "oncall", one).message("last", to="channel:x-2")
    assert (await until_taken(one, last)).ok
    await one.wait_until(lambda view: view.is_idle, LIMIT)
    await of(crews, folder, "ada", one).stop()
    await one.result(LIMIT)
    assert await heard(crews, one) == {
        ("ann-2", "second"): 1,
        ("eve", "third"): 1,
        ("ann-2", "last"): 1,
    }
    told = [(e.by, e.error_type) for e in await crews.entries(one, "CommandRejected")]
    assert sorted(told) == [("unverified ada", "NotPermitted"), ("unverified eve", "NotPermitted")]
