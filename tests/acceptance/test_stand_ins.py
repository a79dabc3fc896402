"""Stand-ins on a real server: a step that fails or hangs, and the phase that runs in its place."""

from __future__ import annotations

from typing import Any

from crewlog.client import Run
from crewlog.graph.timers import TIMEOUT

from .harness import LIMIT, Site, calls, tool, until

HANGS = [calls(("gate", {"name": "g"})), {"text": "the price"}]
AFTER = {"agent": "printer", "after": {"any": ["vendor", "archive"]}}


def crew_of(site: Site, vendor: list[dict[str, Any]], **phase: Any) -> dict[str, Any]:
    """`vendor` with a phase of that kind, `archive` that may stand in, and `printer`."""
    said = {"vendor": vendor, "archive": [{"text": "an old price"}], "printer": [{"text": "P"}]}
    crew = site.crew(said, tools={"gate": tool("gate", "safe", effects="read")})
    crew["flow"] = [{"agent": "vendor"} | phase, {"agent": "archive", "after": "go"}, AFTER]
    return crew


async def started(site: Site, run: Run) -> list[str]:
    return [each.step for each in await site.entries(run, "StepStarted")]


async def at_the_gate(site: Site, run: Run) -> None:
    await until(lambda: site.ledger(run, "start"), "the gate")


async def test_an_archive_stands_in_for_a_vendor_that_fails(crews: Site) -> None:
    crew = crew_of(crews, [{"fail": "refused"}], on_error="archive")
    run, result = await crews.finish(crew)
    assert result.status == "completed"
    assert await started(crews, run) == ["vendor#1", "archive#1", "printer#1"]
    assert result.outputs["archive"]["text"] == "an old price"
    assert "text" not in result.outputs["vendor"]
    prompt = next(each for each in crews.prompted(run) if each["agent"] == "archive")
    assert any("vendor failed" in str(m["content"]) for m in prompt["messages"])


async def test_an_archive_stands_in_for_a_vendor_that_hangs(crews: Site) -> None:
    run = await crews.start(crew_of(crews, HANGS, timeout="1s", on_error="archive"))
    await at_the_gate(crews, run)
    view = await run.status()
    # Nobody opens the gate: the tool is told that it is cancelled.
    await until(lambda: crews.ledger(run, "cancelled"), "the cancellation")
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert await started(crews, run) == ["vendor#1", "archive#1", "printer#1"]
    (was_set,) = await crews.entries(run, "TimerStarted")
    (failed,) = await crews.entries(run, "StepFailed")
    assert failed.error_type == TIMEOUT
    assert was_set.deadline == was_set.at + 1000 <= failed.at
    assert [step.deadline for step in view.frontier if step.node == "vendor"] in (
        [was_set.deadline],
        [],
    )


async def test_people_let_a_late_vendor_try_again(crews: Site) -> None:
    crew = crews.crew(
        {"vendor": HANGS, "printer": [{"text": "P"}]},
        tools={"gate": tool("gate", "safe", effects="read")},
        flow=[{"agent": "vendor", "timeout": "1s"}, "printer"],
    )
    run = await crews.start(crew)
    await at_the_gate(crews, run)
    view = await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (asked,) = await run.interrupts()
    assert asked.question == "vendor#1 failed: it took longer than its timeout of 1s"
    assert view.frontier[0].deadline == 0, "no time runs while people think"
    await until(lambda: crews.ledger(run, "cancelled"), "the cancellation")
    crews.open_gate(run, "g")
    await run.answer(asked.id, "retry", by="ana")
    result = await run.result(LIMIT)
    assert result.outputs["vendor"]["text"] == "the price"
    assert await started(crews, run) == ["vendor#1", "printer#1"]
    assert len(await crews.entries(run, "TimerStarted")) == 2
    assert len(crews.ledger(run, "start")) == 2, "the call was made again"


async def test_a_killed_worker_does_not_lengthen_the_time_of_a_step(site: Site) -> None:
    queue = "stand-in-kill"
    worker = await site.start_worker(queue)
    crew = crew_of(site, HANGS, timeout="6s", on_error="archive")
    run = await site.start(crew, queue=queue)
    await at_the_gate(site, run)
    worker.kill()
    await site.start_worker(queue)
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert await started(site, run) == ["vendor#1", "archive#1", "printer#1"]
    (was_set,) = await site.entries(run, "TimerStarted")
    (failed,) = await site.entries(run, "StepFailed")
    assert was_set.deadline <= failed.at
    site.end_workers(queue)


async def test_the_time_of_a_step_goes_on_over_continue_as_new(crews: Site) -> None:
    """Another lane makes the run continue as new, over and over, while the vendor hangs."""
    batch = calls(("nap", {"seconds": 0.02}), ("nap", {"seconds": 0.01}))
    approvals = {"act": None}
    asks = [calls(("act", {"text": "x"})), {"text": "the price"}]
    said = {
        "vendor": asks,
        "archive": [{"text": "an old price"}],
        "printer": [{"text": "P"}],
        "busy": [*[batch] * 12, {"text": "done"}],
    }
    tools = {"nap": tool("nap"), "act": tool("echo", "never", effects="external")}
    crew = crews.crew(said, tools=tools, approvals=approvals, limits={"events": 50})
    vendor = {"agent": "vendor", "timeout": "6s", "on_error": "archive"}
    crew["flow"] = [[vendor, "busy"], {"agent": "archive", "after": "go"}, AFTER]
    run = await crews.start(crew)
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert result.executions > 2
    (was_set,) = await crews.entries(run, "TimerStarted")
    (failed,) = await crews.entries(run, "StepFailed")
    last_seam = (await crews.entries(run, "ExecutionContinuedAsNew"))[-1].at
    assert was_set.deadline <= failed.at < last_seam + 6000, "the timer began anew"
    (answer,) = await crews.entries(run, "InterruptAnswered")
    assert answer.decision == "withdrawn", "nobody can approve a call of a step that failed"
