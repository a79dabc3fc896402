"""A run merge as the server sees it: the number of activities, and the fallbacks of local ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast
from unittest import mock

import pytest
from temporalio import activity
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from crewlog.activities import run_merge
from crewlog.client import Run
from crewlog.definition.operations import Connect
from crewlog.errors import (
    ChangeConflict,
    CommandConflict,
    CommandRejected,
    ComponentConflict,
    StoreUnavailable,
    WorkerMissing,
)
from crewlog.ids import AgentName, CommandId, RunId
from crewlog.state.calls import (
    ASK_OTHER_RUN,
    END_RUN,
    PREPARE_MERGE,
    READ_OTHER_RUN,
    STORE_BATCH,
    MergeNotification,
)
from crewlog.state.model import CommandOutcome
from crewlog.store import Store
from crewlog.testing import scripted
from crewlog.wire import CLOSING, NOTIFY_MERGE, REQUEST_MERGE, WORKFLOW_TYPE
from crewlog.workers.temporal_server import TemporalServer
from crewlog.workflows.run_merge import MAX_REQUESTS
from shared import LIMIT, Lab

LOCAL = "core_local_activity"


def quiet(name: str, listens: str, also: str = "") -> dict[str, Any]:
    """A crew of creatures that say nothing until they hear something."""
    agents = {each: {"prompt": "Wait.", "listen": [listens]} for each in (name, also) if each}
    model = scripted({"agents": {each: [{"text": "yes"}] for each in agents}})
    return {"crew": name, "model": model, "agents": agents, "graph": {}}


async def joined(lab: Lab, late: int = 0) -> tuple[Run, Run]:
    """A run that took a smaller one in, then got late notifications of that; both have ended."""
    one = await lab.start(quiet("ann", "x", "bob"), "")
    two = await lab.start(quiet("dan", "z"), "")
    for each in (one, two):
        await each.wait_until(lambda view: view.is_idle, LIMIT)
    tie = Connect(
        sender=AgentName("ann"), listener=AgentName("dan"), channel="tie", other=RunId(two.id)
    )
    merge = (await one.change(operations=[tie], id="tie", by="test")).merge
    assert (await two.result(LIMIT)).surviving_run == one.id
    for _ in range(late):
        handle = lab.client.temporal.get_workflow_handle(one.id)
        await handle.signal(NOTIFY_MERGE, {"op": merge, "run": two.id})
    await one.stop()
    assert (await one.result(LIMIT)).status == "stopped"
    return one, two


async def events(lab: Lab, run: Run) -> Counter[str]:
    """How often a run has had each activity done, ordinary and local, and each signal come."""
    history = await lab.client.temporal.get_workflow_handle(run.id).fetch_history()
    return Counter(filter(None, map(_named, history.events)))


def _named(event: HistoryEvent) -> str:
    if event.HasField("activity_task_scheduled_event_attributes"):
        return event.activity_task_scheduled_event_attributes.activity_type.name
    if event.HasField("workflow_execution_signaled_event_attributes"):
        return f"hears {event.workflow_execution_signaled_event_attributes.signal_name}"
    if event.HasField("signal_external_workflow_execution_initiated_event_attributes"):
        told = event.signal_external_workflow_execution_initiated_event_attributes
        return f"tells {told.signal_name}"
    marker = event.marker_recorded_event_attributes
    if event.HasField("marker_recorded_event_attributes") and marker.marker_name == LOCAL:
        data = str(marker.details["data"].payloads[0].data)
        return next(
            (f"local {each}" for each in (READ_OTHER_RUN, PREPARE_MERGE) if each in data), ""
        )
    return ""


async def test_the_activities_of_a_merge(lab: Lab) -> None:
    async with lab.worker():
        one, two = await joined(lab)
    coordinator, merged = await events(lab, one), await events(lab, two)
    assert coordinator == {
        STORE_BATCH: 3,  # the start, the request, the merge
        f"local {PREPARE_MERGE}": 2,  # to check the command, and to merge
        ASK_OTHER_RUN: 1,
        "hears stop": 1,
        "end_run": 1,
    }
    assert merged == {
        STORE_BATCH: 2,  # the start, and that it is frozen
        f"local {READ_OTHER_RUN}": 2,  # the request, and the outcome
        f"hears {NOTIFY_MERGE}": 1,
        "end_run": 1,
    }


async def test_a_late_notification_reads_nothing(lab: Lab) -> None:
    async with lab.worker():
        one, _ = await joined(lab, late=3)
    asks = await events(lab, one)
    assert asks[f"hears {NOTIFY_MERGE}"] == 3
    assert asks[f"local {READ_OTHER_RUN}"] == 0


class Reluctant:
    """A store that is away for local activities."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        found: Callable[..., Any] = getattr(self._inner, name)

        async def asked(*given: Any, **more: Any) -> Any:
            here = activity.in_activity() and activity.info().is_local
            if here and activity.info().activity_type in (READ_OTHER_RUN, PREPARE_MERGE):
                self.refused += 1
                raise StoreUnavailable("nobody answers", place="the store")
            return await found(*given, **more)

        return asked


async def test_ordinary_activities_replace_local_ones(lab: Lab) -> None:
    store = Reluctant(lab.store)
    lab.store = cast("Store", store)
    async with lab.worker():
        one, two = await joined(lab)
    assert store.refused >= 4  # more where a task is done again
    coordinator, merged = await events(lab, one), await events(lab, two)
    assert (coordinator[PREPARE_MERGE], merged[READ_OTHER_RUN]) == (2, 2)


class Endless:
    """A store that is away for those who store their end."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.away = True

    def __getattr__(self, name: str) -> Any:
        found: Callable[..., Any] = getattr(self._inner, name)

        async def asked(*given: Any, **more: Any) -> Any:
            if self.away and activity.in_activity() and activity.info().activity_type == END_RUN:
                raise StoreUnavailable("nobody answers", place="the store")
            return await found(*given, **more)

        return asked


class Unreadable:
    """A store that is away for reads of other runs."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.away = True

    def __getattr__(self, name: str) -> Any:
        found: Callable[..., Any] = getattr(self._inner, name)

        async def asked(*given: Any, **more: Any) -> Any:
            here = activity.in_activity() and activity.info().activity_type == READ_OTHER_RUN
            if self.away and here:
                raise StoreUnavailable("nobody answers", place="the store")
            return await found(*given, **more)

        return asked


async def accepted_updates(lab: Lab, run: Run) -> int:
    history = await lab.client.temporal.get_workflow_handle(run.id).fetch_history()
    name = "workflow_execution_update_accepted_event_attributes"
    return sum(event.HasField(name) for event in history.events)


async def test_few_requests_wait_and_the_others_are_sent_again(lab: Lab) -> None:
    store = Unreadable(lab.store)
    lab.store = cast("Store", store)
    async with lab.worker():
        run = await lab.start(quiet("ann", "x"), "")
        await run.wait_until(lambda view: view.is_idle, LIMIT)
        handle = lab.client.temporal.get_workflow_handle(run.id)

        async def ask(number: int) -> dict[str, Any]:
            content = {"merge": f"other-{number}/tie", "run": f"other-{number}", "request": {}}
            answer: dict[str, Any] = await handle.execute_update(REQUEST_MERGE, content)
            return answer

        asks = [asyncio.create_task(ask(number)) for number in range(MAX_REQUESTS)]
        async with asyncio.timeout(LIMIT):
            while await accepted_updates(lab, run) < MAX_REQUESTS:  # noqa: ASYNC110 - a history
                await asyncio.sleep(0.05)
        with pytest.raises(WorkflowUpdateFailedError) as full:
            await ask(MAX_REQUESTS)
        assert isinstance(full.value.cause, ApplicationError)
        assert full.value.cause.type == CLOSING, "the activity that asks sends such an update again"
        store.away = False
        for answer in [*await asyncio.gather(*asks), await ask(MAX_REQUESTS)]:
            assert "has no such request" in answer["refused"]
        await run.stop()
        await run.result(LIMIT)


async def test_a_run_refuses_what_it_cannot_read(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ValueError("a damaged row")

    async with lab.worker():
        one, two = await at_rest(lab)
        with monkeypatch.context() as patch:
            patch.setattr(run_merge.RunMerges, "read_other_run", fail)
            with pytest.raises(ChangeConflict) as refused:
                await one.change(operations=[tied_to(two)], id="tie", by="test")
        told = f"'{two.id}' cannot read the state of '{one.id}': "
        assert told in str(refused.value)
        assert "a damaged row" in str(refused.value)
        for each in (one, two):
            assert (await each.state()).pending_merge is None
        await one.change(operations=[tied_to(two)], id="again", by="test")
        assert (await two.result(LIMIT)).surviving_run == one.id
        await one.stop()
        await one.result(LIMIT)


async def at_rest(lab: Lab) -> tuple[Run, Run]:
    """Two runs of creatures that wait to be spoken to."""
    one = await lab.start(quiet("ann", "x", "bob"), "")
    two = await lab.start(quiet("dan", "z"), "")
    for each in (one, two):
        await each.wait_until(lambda view: view.is_idle, LIMIT)
    return one, two


def tied_to(two: Run) -> Connect:
    """What makes one run of the first of them and the second."""
    return Connect(
        sender=AgentName("ann"), listener=AgentName("dan"), channel="tie", other=RunId(two.id)
    )


async def test_a_merged_run_cannot_be_merged_again(lab: Lab) -> None:
    """Whatever is stored: the run that was taken in says it itself a moment later."""
    store = Endless(lab.store)
    lab.store = cast("Store", store)
    async with lab.worker():
        one, two = await at_rest(lab)
        tie = tied_to(two)
        await one.change(operations=[tie], id="tie", by="test")
        for number, dry in enumerate((True, False)):
            with pytest.raises(ComponentConflict, match="has been merged into this run"):
                await one.change(operations=[tie], id=f"again-{number}", by="test", dry_run=dry)
        assert (await one.state()).pending_merge is None
        store.away = False
        assert (await two.result(LIMIT)).surviving_run == one.id
        await one.stop()
        await one.result(LIMIT)


async def told(run: Run, command: str) -> CommandOutcome:
    async with asyncio.timeout(LIMIT):
        while (found := await run.outcome(CommandId(command))) is None:  # noqa: ASYNC110 - a query
            await asyncio.sleep(0.02)
    return found


async def test_a_merged_run_reports_the_outcome_of_commands(lab: Lab) -> None:
    """What comes while it ends is handed on, and what comes later is led on by the client."""
    store = Endless(lab.store)
    lab.store = cast("Store", store)
    async with lab.worker():
        one, two = await at_rest(lab)
        await one.message("mine", to="channel:x", by="fay", id="same")
        await two.message("early", to="channel:z", by="gus", id="early")
        early = await told(two, "early")
        tie = tied_to(two)
        await one.change(operations=[tie], id="tie", by="test")
        await two.wait_until(lambda view: view.status == "merged", LIMIT)
        await two.message("theirs", to="channel:z", by="gus", id="same")
        await two.message("heard", to="channel:z", by="gus", id="new")
        await two.message("lost", to="channel:w", by="gus", id="lost")
        assert await two.outcome(CommandId("new")) is None  # it has not ended yet
        store.away = False
        assert (await two.result(LIMIT)).surviving_run == one.id
        with pytest.raises(CommandConflict, match="the id 'same' was used for another command"):
            await told(two, "same")
        assert (await told(two, "new")).ok
        assert "nobody reads 'channel:w'" in (await told(two, "lost")).detail
        assert await told(two, "early") == early
        fresh = lab.client.run(two.id)
        assert await told(fresh, "new") == await told(one, "new")
        with pytest.raises(CommandConflict, match="the id 'same' was used for another command"):
            await told(await sent(fresh, "late", id="same"), "same")
        late = await sent(lab.client.run(two.id), "late", id="late")
        with mock.patch.object(late, "state", side_effect=WorkerMissing("nobody works for it")):
            assert (await told(late, "late")).ok  # who was led on asks nobody else
        await one.stop()
        await one.result(LIMIT)


async def sent(run: Run, text: str, *, id: str) -> Run:
    await run.message(text, to="channel:z", by="gus", id=id)
    return run


async def test_an_ordinary_activity_waits_for_a_new_run(lab: Lab) -> None:
    async with lab.worker():
        one = await lab.start(quiet("ann", "x", "bob"), "")
        await one.wait_until(lambda view: view.is_idle, LIMIT)
        gone = RunId("nobody")
        tie = Connect(sender=AgentName("ann"), listener=AgentName("dan"), channel="t", other=gone)
        with pytest.raises(CommandRejected, match="no run 'nobody' that has begun"):
            await one.change(operations=[tie], id="tie", by="test")
        await one.stop()
        await one.result(LIMIT)
    assert (await events(lab, one))[PREPARE_MERGE] == 1


async def test_the_run_sends_a_lost_notification_itself(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(server: TemporalServer, run: RunId, notification: MergeNotification) -> bool:
        del server, run, notification
        return False

    monkeypatch.setattr(TemporalServer, "send_notification", lose)
    async with lab.worker():
        one, _ = await joined(lab)
    assert (await events(lab, one))[f"tells {NOTIFY_MERGE}"] == 1


async def test_the_delivery_of_a_notification_is_known(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporal = lab.client.temporal
    give = TemporalServer(temporal).send_notification
    assert await give(RunId("r"), MergeNotification(merge="r/x", to=RunId("nobody")))
    run = await lab.start(quiet("ann", "x"), "")
    assert await give(RunId("r"), MergeNotification(merge="r/x", to=RunId(run.id)))
    assert (await events(lab, run))[f"hears {NOTIFY_MERGE}"] == 1
    await temporal.get_workflow_handle(run.id).terminate()
    assert await give(RunId("r"), MergeNotification(merge="r/x", to=RunId(run.id)))

    async def away(*_: object, **__: object) -> None:
        raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")

    monkeypatch.setattr(type(temporal.get_workflow_handle("x")), "signal", away)
    assert not await give(RunId("r"), MergeNotification(merge="r/x", to=RunId(run.id)))


async def test_a_merge_warns_about_other_workers(lab: Lab) -> None:
    queue = f"{lab.client.task_queue}-other"
    other = replace(lab, client=copy(lab.client))
    other.client.task_queue = queue
    async with lab.worker(), lab.worker(task_queue=queue):
        one = await lab.start(quiet("ann", "x", "bob"), "")
        tools = {"dig": {"run": "mine:dig", "effects": "read"}}
        two = await other.start({**quiet("dan", "z"), "tools": tools}, "")
        for each in (one, two):
            await each.wait_until(lambda view: view.is_idle, LIMIT)
        tie = Connect(
            sender=AgentName("ann"), listener=AgentName("dan"), channel="t", other=RunId(two.id)
        )
        dry = await one.change(operations=[tie], id="dry", by="test", dry_run=True)
        made = await one.change(operations=[tie], id="tie", by="test")
        assert (await two.result(LIMIT)).surviving_run == one.id
        await one.stop()
        await one.result(LIMIT)
    for report in (dry.report, made.report):
        assert report is not None
        (told,) = report.warnings
        assert f"on the task queue {lab.client.task_queue!r}, which need the tool 'dig'" in told
        assert f"--edit tool.dig.queue={queue}" in told


async def test_a_run_without_a_worker_is_logged(
    lab: Lab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_merge, "FIRST_BATCH_TIMEOUT", 0.1)
    queue = f"{lab.client.task_queue}-nobody-s"
    await lab.client.temporal.start_workflow(
        WORKFLOW_TYPE, {}, id=queue, task_queue=queue, execution_timeout=timedelta(seconds=LIMIT)
    )
    async with lab.worker():
        one = await lab.start(quiet("ann", "x"), "")
        tie = Connect(sender=AgentName("ann"), listener=AgentName("dan"), other=RunId(queue))
        caplog.clear()
        with pytest.raises(CommandRejected, match="nothing of it is stored yet"):
            await one.change(operations=[tie], id="tie", by="test")
        told = [each.message for each in caplog.records if each.name == "crewlog.client"]
        assert [each for each in told if f"no worker polls '{queue}'" in each] == told != []
        await one.stop()
        await one.result(LIMIT)
