"""Looking at a run, talking to it, and waiting for it."""

from __future__ import annotations

import asyncio
import time

import pytest

from client import crews
from crewlog.client import Run
from crewlog.errors import (
    CommandRejected,
    InterruptNotOpen,
    RunFailed,
    RunNotFound,
    TemporalUnavailable,
    UsageError,
    WorkerMissing,
)
from shared import LIMIT, Lab

pytestmark = pytest.mark.usefixtures("worker")


async def asked(lab: Lab) -> Run:
    run = await lab.start(crews.asking())
    await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    return run


async def kinds(run: Run) -> list[str]:
    return [item.data["kind"] for item in (await run.journal(limit=1000)).entries]


async def test_the_views(lab: Lab) -> None:
    run = await asked(lab)
    view = await run.status()
    assert (view.run, view.crew, view.completed_steps) == (run.id, "notes", {"writer": 1})
    assert view.status == "waiting"
    assert (await run.state()).visits["writer"] == 1
    graph = await run.graph()
    assert graph.statuses["writer"] == "done"
    assert "writer" in graph.mermaid
    (question,) = await run.interrupts()
    assert question.question == "Publish?"
    assert question.options == ("yes", "later", "no")
    assert run.url == f"{lab.client.endpoints.ui_url}/namespaces/default/workflows/{run.id}"


@pytest.mark.parametrize(
    ("decision", "flag"),
    [("approve", True), ("yes", True), ("later", "later"), ("reject", False), ("no", False)],
)
async def test_respond(lab: Lab, decision: str, flag: object) -> None:
    run = await asked(lab)
    accepted = await run.answer("i1", decision, by="ana", id="r1")
    assert accepted.id == "r1"
    result = await run.result(LIMIT)
    assert result.flags["ok"] == flag
    entry = (await run.journal(after=accepted.position - 1, limit=1)).entries[0].data
    assert (entry["kind"], entry["by"], entry["command"]) == ("InterruptAnswered", "ana", "r1")


async def test_respond_twice_with_one_id_has_one_effect(lab: Lab) -> None:
    run = await asked(lab)
    both = await asyncio.gather(*(run.answer("i1", "later", id="r1") for _ in range(4)))
    assert len({accepted.position for accepted in both}) == 1
    await run.result(LIMIT)
    assert (await kinds(run)).count("InterruptAnswered") == 1
    # After the end, the command's outcome is still told.
    assert (await run.answer("i1", "later", id="r1")).position == both[0].position
    with pytest.raises(CommandRejected, match=r"has ended \(completed\)"):
        await run.answer("i1", "later", id="another")


async def test_what_respond_refuses(lab: Lab) -> None:
    crew = crews.asking()
    run = await lab.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    with pytest.raises(InterruptNotOpen, match="'i9' is not open") as closed:
        await run.answer("i9", "approve")
    assert "Open now: i1" in closed.value.remedy
    with pytest.raises(CommandRejected, match="'latr' is no answer to 'i1'") as refused:
        await run.answer("i1", "latr")
    assert "Did you mean 'later'?" in refused.value.remedy
    assert [q.id for q in await run.interrupts()] == ["i1"]


async def test_pause_resume_and_message(lab: Lab) -> None:
    run = await lab.start(crews.slow(0.3))
    await run.wait_until(lambda view: bool(view.frontier), timeout=LIMIT)
    command = await run.pause("deploy", by="ops", id="p1")
    assert command == "p1"
    view = await run.wait_until(lambda v: v.status == "paused", timeout=LIMIT)
    assert "ops" in view.wait_reason
    await run.message("Hurry.", by="ana")
    await run.resume(by="ops")
    await run.result(LIMIT)
    found = await kinds(run)
    assert found.index("Paused") < found.index("RunResumed")
    assert found.count("MessageAdded") == 2


async def test_interrupt_asks_before_a_node(lab: Lab) -> None:
    run = await lab.start(crews.slow(0.3))
    await run.interrupt("checker", "let me see")
    await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    (question,) = await run.interrupts()
    assert question.kind == "manual"
    await run.answer(question.id, "approve")
    assert (await run.result(LIMIT)).status == "completed"


async def test_stop_ends_with_what_is_there(lab: Lab) -> None:
    run = await lab.start(crews.slow(20))
    await run.wait_until(lambda v: any(step.calls for step in v.frontier), timeout=LIMIT)
    await run.stop("enough", by="ops")
    result = await run.result(LIMIT)
    assert result.status == "stopped"
    with pytest.raises(CommandRejected, match="'pause' has no effect"):
        await run.pause()


async def test_result_waits_no_longer_than_it_may(lab: Lab) -> None:
    run = await asked(lab)
    with pytest.raises(TimeoutError, match=r"did not end within 0\.2 s; it goes on"):
        await run.result(0.2)
    await run.terminate("the test is over")


async def test_result_of_a_terminated_run(lab: Lab) -> None:
    run = await asked(lab)
    waiting = asyncio.create_task(run.result(LIMIT))
    await run.terminate("no budget")
    with pytest.raises(
        RunFailed, match=r"terminated from outside: no budget; known up to position \d"
    ):
        await waiting
    with pytest.raises(CommandRejected, match=r"ended \(terminated\)"):
        await run.answer("i1", "yes")
    with pytest.raises(CommandRejected, match="terminated"):
        await run.terminate()


async def test_result_of_a_cancelled_run(lab: Lab) -> None:
    run = await asked(lab)
    await run.cancel()
    with pytest.raises(RunFailed, match="canceled"):
        await run.result(LIMIT)
    assert "RunStopped" in await kinds(run)


async def test_result_of_a_failed_run(lab: Lab) -> None:
    crew = crews.line(writer=[{"fail": "refused", "times": 100}])
    crew["agents"]["writer"]["on_error"] = "fail"
    run = await lab.start(crew)
    with pytest.raises(RunFailed) as caught:
        await run.result(LIMIT)
    assert caught.value.message
    assert caught.value.place == f"run '{run.id}'"


async def test_a_malformed_start_says_why(lab: Lab) -> None:
    handle = await lab.client.temporal.start_workflow(
        "CrewRun", {"crew": 7}, id=f"bad-{time.time_ns()}", task_queue=lab.client.task_queue
    )
    run = lab.client.run(handle.id)
    with pytest.raises(RunFailed, match="crew"):
        await run.result(LIMIT)
    with pytest.raises(RunFailed, match="crew"):
        await run.status()


async def test_wait_until_tells_that_the_run_ended(lab: Lab) -> None:
    run = await lab.start(crews.line())
    with pytest.raises(UsageError, match="ended before what was waited for; at last the run was"):
        await run.wait_until(lambda view: view.status == "paused", timeout=LIMIT)
    other = await asked(lab)
    with pytest.raises(TimeoutError, match=r"within 0\.3 s; at last the run was waiting: i1"):
        await other.wait_until(lambda view: view.status == "paused", timeout=0.3)
    await other.terminate()


async def test_an_unknown_run_is_told_with_what_looks_like_it(lab: Lab) -> None:
    run = await lab.start(crews.line(), id=f"flutter-{lab.client.task_queue}")
    await run.result(LIMIT)
    wrong = run.id.replace("flutter", "fluter")
    async with asyncio.timeout(LIMIT):
        while True:  # visibility is eventually consistent
            with pytest.raises(RunNotFound) as caught:
                await lab.client.run(wrong).status()
            if run.id in caught.value.remedy:
                break
            await asyncio.sleep(0.1)
    for call in (
        lab.client.run(wrong).pause,
        lab.client.run(wrong).result,
        lab.client.run(wrong).cancel,
    ):
        with pytest.raises(RunNotFound):
            await call()
    with pytest.raises(RunNotFound):
        await lab.client.run(wrong).answer("i1", "yes")


async def test_another_workflow_is_not_a_run(lab: Lab) -> None:
    handle = await lab.client.temporal.start_workflow(
        "Other", id=f"other-{time.time_ns()}", task_queue="nobody-here"
    )
    with pytest.raises((RunNotFound, WorkerMissing)):
        await lab.client.run(handle.id).status()
    await handle.terminate()


async def test_no_worker_is_told_soon(lab: Lab) -> None:
    lab.client.task_queue = "nobody-polls-this"
    run = await lab.start(crews.line())
    for call in (run.status(), run.answer("i1", "yes")):
        began = time.monotonic()
        with pytest.raises(WorkerMissing, match="nobody-polls-this") as caught:
            await call
        # It takes about three seconds; the rest is for a machine that is busy.
        assert time.monotonic() - began < LIMIT / 2
        assert "crewlog worker" in caught.value.remedy
    await run.terminate()


async def test_cancelling_a_waiting_respond_cancels_it(lab: Lab) -> None:
    lab.client.task_queue = "nobody-polls-this"
    run = await lab.start(crews.line())
    task = asyncio.create_task(run.answer("i1", "yes"))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await run.terminate()


async def test_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from crewlog import connect

    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    with pytest.raises(TemporalUnavailable, match=r"127\.0\.0\.1:1: .* does not answer"):
        await connect()
