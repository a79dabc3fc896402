"""Time: waits over continue-as-new, dead workers and pauses; bounds; asking in one round trip."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from crewlog.client import Run

from .harness import LIMIT, Site, calls, tool


def waiting_crew(site: Site, wait: dict[str, Any], **more: Any) -> dict[str, Any]:
    """`first`, a wait, `last`."""
    crew = site.crew({"first": [{"text": "a"}], "last": [{"text": "b"}]}, **more)
    crew["flow"] = ["first", {"phase": "pause"} | wait, "last"]
    return crew


async def waits(run: Run) -> Any:
    """The step that waits for a time, once it does."""
    deadline = time.monotonic() + LIMIT
    while True:
        view = await run.status()
        for step in view.frontier:
            if step.due:
                return step
        assert time.monotonic() < deadline, view
        await asyncio.sleep(0.02)


async def until_over(due: int) -> None:
    """Waits until a time is over, in milliseconds since the epoch."""
    await asyncio.sleep(max(due - time.time() * 1000, 0) / 1000)


async def fired_after(site: Site, run: Run) -> float:
    """Seconds from when the run's one timer was set until it fired, as the journal has it."""
    (was_set,) = await site.entries(run, "TimerSet")
    (fired,) = await site.entries(run, "TimerFired")
    assert was_set.step == fired.step
    return (fired.at - was_set.at) / 1000


async def test_a_run_waits_and_goes_on(crews: Site) -> None:
    run = await crews.start(waiting_crew(crews, {"wait": "1s"}))
    step = await waits(run)
    view = await run.status()
    assert (step.status, view.status) == ("waiting", "waiting")
    assert view.waiting_for == f"pause: {step.waits_for}"
    assert step.waits_for.startswith("until 20")
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert result.outputs["last"]["text"] == "b"
    assert 1.0 <= await fired_after(crews, run) < 3.0


async def test_a_time_that_is_over_is_not_waited_for(crews: Site) -> None:
    run, result = await crews.finish(waiting_crew(crews, {"wait_until": "2020-01-01T00:00:00Z"}))
    assert result.status == "completed"
    assert await fired_after(crews, run) < 1.0


async def test_a_time_to_come_is_waited_for(crews: Site) -> None:
    until = datetime.now(UTC) + timedelta(seconds=3)
    run, result = await crews.finish(waiting_crew(crews, {"wait_until": until.isoformat()}))
    assert result.status == "completed"
    (fired,) = await crews.entries(run, "TimerFired")
    assert 0 <= fired.at - int(until.timestamp() * 1000) < 2000


async def test_a_wait_goes_on_over_continue_as_new(crews: Site) -> None:
    """Another lane makes the run continue as new, over and over, while the wait lasts."""
    batch = calls(("nap", {"seconds": 0.02}), ("nap", {"seconds": 0.01}))
    crew = crews.crew(
        {"busy": [*[batch] * 12, {"text": "done"}], "last": [{"text": "b"}]},
        tools={"nap": tool("nap")},
        limits={"events": 50},
    )
    crew["flow"] = [["busy", {"wait": "6s", "phase": "pause"}], "last"]
    run = await crews.start(crew)
    due = (await waits(run)).due
    result = await run.result(LIMIT)
    assert result.executions > 2
    (was_set,) = await crews.entries(run, "TimerSet")
    (fired,) = await crews.entries(run, "TimerFired")
    assert was_set.due == due
    assert due <= fired.at < due + 2000


async def test_a_killed_worker_does_not_lengthen_a_wait(site: Site) -> None:
    queue = "time-kill"
    worker = await site.start_worker(queue)
    run = await site.start(waiting_crew(site, {"wait": "4s"}), queue=queue)
    due = (await waits(run)).due
    worker.kill()
    await site.start_worker(queue)
    result = await run.result(LIMIT)
    assert result.status == "completed"
    (fired,) = await site.entries(run, "TimerFired")
    assert due <= fired.at < due + 10_000
    site.end_workers(queue)


async def test_a_timer_that_runs_out_in_a_paused_run_acts_when_it_is_resumed(crews: Site) -> None:
    run = await crews.start(waiting_crew(crews, {"wait": "1s"}))
    due = (await waits(run)).due
    await run.pause(by="ops")
    await until_over(due + 500)
    view = await run.status()
    assert view.status == "paused"
    assert not await crews.entries(run, "TimerFired")
    await run.resume(by="ops")
    assert (await run.result(LIMIT)).status == "completed"
    await fired_after(crews, run)


async def test_a_bound_takes_the_alternative(crews: Site) -> None:
    crew = crews.crew(
        {"slow": [calls(("nap", {"seconds": 3})), {"text": "s"}], "b": [], "c": [{"text": "c"}]},
        tools={"nap": tool("nap")},
        rules={"slow": {"writes_flags": ["ready"]}},
    )
    late = {"agent": "b", "after": [], "when": "ready", "within": "300ms", "else": "c"}
    crew["flow"] = ["slow", late, {"agent": "c", "after": "go"}]
    run, result = await crews.finish(crew)
    assert result.outputs["c"]["text"] == "c"
    assert "b" not in result.outputs
    (skipped,) = [e for e in await crews.entries(run, "StepCompleted") if e.skipped]
    assert skipped.because == "ready did not come true within 0.3s"
    (fired,) = await crews.entries(run, "TimerFired")
    (ended,) = [e for e in await crews.entries(run, "StepCompleted") if e.step == "slow#1"]
    assert fired.at < ended.at, "the alternative does not wait for the other lane"


async def test_a_stop_ends_a_wait(crews: Site) -> None:
    run = await crews.start(waiting_crew(crews, {"wait": "9d"}))
    await waits(run)
    await run.stop(by="ops")
    assert (await run.result(LIMIT)).status == "stopped"
