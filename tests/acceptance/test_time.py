"""Time: waits over continue-as-new, dead workers and pauses; bounds; asking in one round trip."""

from __future__ import annotations

import asyncio
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient

from crewlog.client import Run
from crewlog.errors import CommandRejected, RunAlreadyExists, RunFailed, RunNotFound, UsageError
from crewlog.wire import RunResult

from .harness import LIMIT, RUN_LIMIT, Site, calls, tool


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
            if step.deadline:
                return step
        assert time.monotonic() < deadline, view
        await asyncio.sleep(0.02)


async def started(run: Run) -> None:
    """Waits until somebody has started the run."""
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            await run.status()
        except RunNotFound:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        else:
            return


async def until_over(due: int) -> None:
    """Waits until a time is over, in milliseconds since the epoch."""
    await asyncio.sleep(max(due - time.time() * 1000, 0) / 1000)


async def timer_of(site: Site, run: Run) -> tuple[Any, Any]:
    """When the run's one timer was set, and when it fired, as the journal has it."""
    (was_set,) = await site.entries(run, "TimerStarted")
    (fired,) = await site.entries(run, "TimerFired")
    assert was_set.step == fired.step
    return was_set, fired


async def timers(site: Site, run: Run) -> list[float]:
    """The seconds of the timers that the server was asked for."""
    started = await events(site, run, "timer_started_event_attributes")
    return [each.start_to_fire_timeout.ToTimedelta().total_seconds() for each in started]


async def events(site: Site, run: Run, attributes: str) -> list[Any]:
    """What a run's history has of one kind of event."""
    history = site.temporal.get_workflow_handle(run.id).fetch_history_events()
    return [getattr(e, attributes) async for e in history if e.HasField(attributes)]


async def test_a_run_waits_and_goes_on(crews: Site) -> None:
    run = await crews.start(waiting_crew(crews, {"wait": "1s"}))
    step = await waits(run)
    view = await run.status()
    assert (step.status, view.status) == ("waiting", "waiting")
    assert view.wait_reason == f"pause: {step.wait_reason}"
    assert step.wait_reason.startswith("until 20")
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert result.outputs["last"]["text"] == "b"
    was_set, fired = await timer_of(crews, run)
    assert was_set.deadline == was_set.at + 1000 <= fired.at


async def test_a_time_that_is_over_is_not_waited_for(crews: Site) -> None:
    run, result = await crews.finish(waiting_crew(crews, {"wait_until": "2020-01-01T00:00:00Z"}))
    assert result.status == "completed"
    was_set, fired = await timer_of(crews, run)
    assert was_set.deadline < was_set.at <= fired.at
    assert max(await timers(crews, run), default=0) < 1


async def test_a_time_to_come_is_waited_for(crews: Site) -> None:
    until = datetime.now(UTC) + timedelta(seconds=3)
    run, result = await crews.finish(waiting_crew(crews, {"wait_until": until.isoformat()}))
    assert result.status == "completed"
    was_set, fired = await timer_of(crews, run)
    assert was_set.deadline == int(until.timestamp() * 1000) <= fired.at


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
    due = (await waits(run)).deadline
    result = await run.result(LIMIT)
    assert result.executions > 2
    (was_set,) = await crews.entries(run, "TimerStarted")
    (fired,) = await crews.entries(run, "TimerFired")
    assert was_set.deadline == due
    last_seam = (await crews.entries(run, "ExecutionContinuedAsNew"))[-1].at
    assert due <= fired.at < last_seam + 6000, "the timer began anew"


async def test_a_killed_worker_does_not_lengthen_a_wait(site: Site) -> None:
    queue = "time-kill"
    worker = await site.start_worker(queue)
    run = await site.start(waiting_crew(site, {"wait": "10s"}), queue=queue)
    due = (await waits(run)).deadline
    worker.kill()
    await site.start_worker(queue)
    result = await run.result(LIMIT)
    assert result.status == "completed"
    was_set, fired = await timer_of(site, run)
    assert was_set.deadline == due <= fired.at
    assert len([s for s in await timers(site, run) if s > 5]) == 1, "the timer began anew"
    site.end_workers(queue)


async def test_a_timer_that_runs_out_in_a_paused_run_acts_when_it_is_resumed(crews: Site) -> None:
    run = await crews.start(waiting_crew(crews, {"wait": "1s"}))
    due = (await waits(run)).deadline
    await run.pause(by="ops")
    await until_over(due + 500)
    view = await run.status()
    assert view.status == "paused"
    assert not await crews.entries(run, "TimerFired")
    await run.resume(by="ops")
    assert (await run.result(LIMIT)).status == "completed"
    await timer_of(crews, run)


async def test_a_bound_takes_the_alternative(crews: Site) -> None:
    crew = crews.crew(
        {"slow": [calls(("gate", {"name": "g"})), {"text": "s"}], "b": [], "c": [{"text": "c"}]},
        tools={"gate": tool("gate")},
        rules={"slow": {"writes_flags": ["ready"]}},
    )
    late = {"agent": "b", "after": [], "when": "ready", "within": "300ms", "else": "c"}
    crew["flow"] = ["slow", late, {"agent": "c", "after": "go"}]
    run = await crews.start(crew)
    # The alternative does not wait for the other lane, which only then goes on.
    await crews.spoken(run, "c")
    crews.open_gate(run, "g")
    result = await run.result(LIMIT)
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


# -- asking ----------------------------------------------------------------------------------------


def echoing(site: Site, **more: Any) -> dict[str, Any]:
    """A crew of one turn."""
    return site.crew({"first": [{"text": "an answer"}]}, **more)


async def ask(site: Site, crew: Any, text: str, id: str, **more: Any) -> RunResult:
    """Asks, and has the run checked at the test's end."""
    site.runs.append(site.client().run(id))
    return await site.client().ask(
        crew, text, id=id, by="test", timeout=LIMIT, execution_timeout=RUN_LIMIT, **more
    )


def held_crew(site: Site) -> dict[str, Any]:
    """`first`, a question, `last`."""
    agents = {"first": [{"text": "a"}], "last": [{"text": "b"}]}
    return site.crew(agents, flow=["first", {"ask": "Go on?"}, "last"])


async def heard(site: Site, run: Run, messages: int) -> list[str]:
    """What was said to a run, once there are so many messages."""
    async with asyncio.timeout(LIMIT):
        while len(said := await site.entries(run, "MessageAdded")) < messages:  # noqa: ASYNC110 - a store tells
            await asyncio.sleep(0.05)
    return [entry.ref.inline["content"] for entry in said if "content" in entry.ref.inline]


class Calls:
    """Counts what a client asks of the server."""

    def __init__(self, temporal: TemporalClient, patch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        service: Any = temporal.service_client
        whole = service._rpc_call

        async def counted(rpc: str, *args: Any, **options: Any) -> Any:
            self.made.append(rpc)
            return await whole(rpc, *args, **options)

        patch.setattr(service, "_rpc_call", counted)


async def test_an_answer_takes_one_round_trip(crews: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Calls(crews.temporal, monkeypatch).made
    result = await ask(crews, echoing(crews), "Well?", "ask-quick")
    assert result.outputs["first"]["text"] == "an answer"
    assert made == ["execute_multi_operation"]
    (said,) = await crews.entries(crews.client().run("ask-quick"), "MessageAdded")
    assert said.ref.inline["content"] == "Well?"


async def test_asking_an_open_run_says_it_and_waits_with_it(crews: Site) -> None:
    crew = held_crew(crews)
    run = await crews.start(crew, id="ask-open")
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    asked = [asyncio.create_task(ask(crews, crew, text, "ask-open")) for text in ("What else?", "")]
    assert await heard(crews, run, 2) == ["go", "What else?"]
    async with asyncio.timeout(LIMIT):
        accepted = "workflow_execution_update_accepted_event_attributes"
        while len(await events(crews, run, accepted)) < 2:  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.05)
    await run.answer("i1", "approve")
    one, other = [await each for each in asked]
    assert one == other == await run.result(LIMIT)
    assert len(await crews.entries(run, "MessageAdded")) == 2


async def test_asking_goes_on_over_continue_as_new(crews: Site) -> None:
    batch = calls(("nap", {"seconds": 0.02}), ("nap", {"seconds": 0.01}))
    crew = crews.crew(
        {"busy": [*[batch] * 12, {"text": "done"}]},
        tools={"nap": tool("nap")},
        limits={"events": 50},
    )
    result = await ask(crews, crew, "Work!", "ask-long")
    assert result.executions > 2
    assert result.outputs["busy"]["text"] == "done"
    said = await crews.entries(crews.client().run("ask-long"), "MessageAdded")
    assert [entry.ref.inline["content"] for entry in said] == ["Work!"], "once, however often asked"


async def test_asking_survives_the_worker(site: Site) -> None:
    queue = "ask-kill"
    worker = await site.start_worker(queue)
    run = site.client(queue).run("ask-kill")
    site.runs.append(run)
    crew = held_crew(site)
    asked = asyncio.create_task(
        site.client(queue).ask(crew, "Well?", id=run.id, execution_timeout=RUN_LIMIT, timeout=80)
    )
    await started(run)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    worker.kill()
    await site.start_worker(queue)
    await run.answer("i1", "approve")
    assert (await asked).outputs["last"]["text"] == "b"
    site.end_workers(queue)


async def test_more_than_a_few_who_ask_wait_as_anybody(crews: Site) -> None:
    """A server lets ten updates be under way: those who steer a run must get through."""
    crew = held_crew(crews)
    run = await crews.start(crew, id="ask-many")
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    asked = [asyncio.create_task(ask(crews, crew, f"{n}?", "ask-many")) for n in range(12)]
    said = await heard(crews, run, 13)
    await run.answer("i1", "approve")
    assert len({(await each).position for each in asked}) <= 2
    assert sorted(said) == sorted(["go", *(f"{n}?" for n in range(12))])


async def test_what_a_failed_run_answers_is_its_failure(crews: Site) -> None:
    crew = crews.crew({"first": []}, rules={"first": {"on_error": "fail"}})
    with pytest.raises(RunFailed, match="first#1"):
        await ask(crews, crew, "Well?", "ask-failing")
    with pytest.raises(RunAlreadyExists, match="ask-failing"):
        await ask(crews, crew, "Again?", "ask-failing")


async def test_who_asks_an_audience_that_nobody_is_in_is_told(crews: Site) -> None:
    crew = held_crew(crews)
    run = await crews.start(crew, id="ask-nobody")
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    with pytest.raises(CommandRejected, match="nobody reads 'group:none'"):
        await ask(crews, crew, "Hello?", "ask-nobody", to="group:none")


# -- schedules -------------------------------------------------------------------------------------


async def ended(site: Site, name: str, count: int) -> list[Run]:
    """The runs that a schedule has started, once so many have ended."""
    deadline = time.monotonic() + LIMIT
    while True:
        view = await site.client().schedules.show(name)
        runs = [site.client().run(run) for run in view.recent]
        if len(runs) >= count and not view.running:
            return runs
        assert time.monotonic() < deadline, view
        await asyncio.sleep(0.05)


async def test_a_schedule_starts_runs_with_ids_of_their_own(crews: Site) -> None:
    schedules = crews.client().schedules
    name = f"often-{secrets.token_hex(4)}"
    await schedules.create(
        name, echoing(crews), every=timedelta(seconds=1), input="Now?", overlap="allow", by="test"
    )
    try:
        runs = await ended(crews, name, 3)
        await schedules.pause(name, "enough")
        view = await schedules.show(name)
        assert (view.paused, view.note, view.when) == (True, "enough", "every 1s")
        assert (view.crew, view.overlap, view.by) == ("acceptance", "allow", "test")
        (listed,) = (each for each in await schedules.list() if each.name == name)
        assert (listed.overlap, listed.by, listed.started) == ("allow", "test", view.started)
    finally:
        await schedules.delete(name)
    crews.runs += runs
    assert len({run.id for run in runs}) == len(runs) >= 3
    for run in runs[:3]:
        assert run.id.startswith(f"{name}-20")
        result = await run.result(LIMIT)
        assert (result.run, result.status) == (run.id, "completed")
        (said,) = await crews.entries(run, "MessageAdded")
        assert said.ref.inline["content"] == "Now?"
    with pytest.raises(UsageError, match="there is no schedule"):
        await schedules.show(name)


async def test_a_paused_schedule_starts_what_is_triggered(crews: Site) -> None:
    schedules = crews.client().schedules
    name = f"seldom-{secrets.token_hex(4)}"
    made = {"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "paused": True}
    await schedules.create(name, echoing(crews), by="test", **made)
    try:
        with pytest.raises(UsageError, match="already"):
            await schedules.create(name, echoing(crews), by="test", **made)
        view = await schedules.show(name)
        assert view.when == "0 9 * * MON-FRI Europe/Berlin"
        assert view.next
        await schedules.trigger(name)
        (run,) = await ended(crews, name, 1)
        crews.runs.append(run)
        assert (await run.result(LIMIT)).status == "completed"
        await schedules.resume(name)
        assert not (await schedules.show(name)).paused
    finally:
        await schedules.delete(name)


async def test_what_a_schedule_is_told_at_once_is_done_each(crews: Site) -> None:
    """The server's scheduler keeps only the last change that it has not come to."""
    schedules = crews.client().schedules
    name = f"hasty-{secrets.token_hex(4)}"
    made = {"every": timedelta(days=1), "overlap": "allow"}
    await schedules.create(name, echoing(crews), by="test", **made)
    try:
        await schedules.trigger(name)
        await schedules.pause(name, "one after the other")
        await asyncio.gather(schedules.trigger(name), schedules.resume(name))
        await asyncio.gather(schedules.pause(name, "both"), schedules.trigger(name))
        runs = await ended(crews, name, 3)
        view = await schedules.show(name)
        assert (view.started, view.paused, view.note) == (3, True, "both")
    finally:
        await schedules.delete(name)
    crews.runs += runs
    assert len({run.id for run in runs}) == 3


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ({}, "either 'every' so often or by a 'cron' line"),
        ({"every": timedelta(hours=1), "cron": "0 9 * * *"}, "either 'every'"),
        ({"every": timedelta(milliseconds=5)}, "at most once a second"),
        ({"cron": "at nine"}, "'at nine UTC' is no time"),
        ({"cron": "0 9 * * *", "timezone": "Mars/Olympus"}, "is no time"),
    ],
)
async def test_what_makes_no_schedule_is_refused(
    crews: Site, when: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await crews.client().schedules.create("no-schedule", echoing(crews), by="test", **when)
