"""Nobody merges runs without a command that the policy of both permits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from crewlog.client import Run
from crewlog.ids import CommandId, RunId
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.journal import Batch, entry_to_json
from crewlog.state.run_merge.protocol import FREEZE_TIMEOUT
from crewlog.wire import NOTIFY_MERGE, REQUEST_MERGE

from .harness import RUN_LIMIT, Site
from .test_creatures import living, rested
from .test_graphs_guarded import signed
from .test_merges import A, D, speaking, to
from .test_principals import client, folder, of, policy

__all__ = ["folder"]


async def forged(site: Site, victim: Run, status: str, **fields: Any) -> tuple[RunId, str]:
    """A run that was never started, with a journal in which it asks the victim to merge.

    Whoever can write to the store could make it.
    """
    run, merge = RunId(f"forged-{victim.id}"), f"forged-{victim.id}/tie"
    _, first = (await site.journal(victim))[0]
    started = {**entry_to_json(first), "run": run}
    at = (await victim.state()).started_at
    request = j.MergeRequested(
        at=at,
        merge=merge,
        other=RunId(victim.id),
        status=status,  # type: ignore[arg-type]
        deadline=at + 10 * FREEZE_TIMEOUT,
        agents=9 if status == "coordinating" else 0,
        command=CommandId("tie"),
        **fields,
    )
    await site.store.append(run, Batch(first=1, entries=(started, entry_to_json(request))))
    return run, merge


async def ask(victim: Run, site: Site, content: dict[str, Json]) -> Any:
    handle = site.temporal.get_workflow_handle(victim.id)
    return await handle.execute_update(REQUEST_MERGE, content)


async def kinds(site: Site, run: Run) -> Counter[str]:
    found: Counter[str] = Counter()
    async for event in site.temporal.get_workflow_handle(run.id).fetch_history_events():
        found[event.WhichOneof("attributes") or ""] += 1
    return found


@pytest.mark.parametrize("status", ["requested", "coordinating"])
async def test_an_unsigned_request_is_refused_and_leaves_no_trace(
    crews: Site, folder: Any, status: str
) -> None:
    victim = await signed(crews, folder, A)
    operation = {"op": "connect", "sender": "mal", "listener": "ann", "other": victim.id}
    run, merge = await forged(crews, victim, status, operation=operation)
    before = await kinds(crews, victim)
    for request in ({}, {"operations": [operation], "by": "ada"}):
        with pytest.raises(WorkflowUpdateFailedError) as failed:
            await ask(victim, crews, {"merge": merge, "run": run, "request": request})
        assert isinstance(failed.value.cause, ApplicationError)
        assert failed.value.cause.type == "NotPermitted"
    for content in ({}, {"merge": 1, "run": run, "request": {}}, {"merge": merge, "run": run}):
        with pytest.raises(WorkflowUpdateFailedError) as failed:
            await ask(victim, crews, content)
        assert "a request to merge needs" in str(failed.value.cause)
    after = await kinds(crews, victim)
    assert after["marker_recorded_event_attributes"] == before["marker_recorded_event_attributes"]
    assert not after["workflow_execution_update_accepted_event_attributes"]
    await of(crews, folder, "ada", victim).message("hello", to="channel:x")
    await victim.wait_until(lambda view: view.steps > 0 and view.is_idle, 30)
    assert not await crews.entries(victim, "MergeAccepted", "MergeFailed", "RunMerged")


@pytest.mark.parametrize("status", ["requested", "coordinating"])
async def test_a_signed_command_permits_its_own_merge_alone(
    crews: Site, folder: Any, status: str
) -> None:
    """The signature is real; the run that claims it requests something else."""
    victim = await signed(crews, folder, A)
    harmless = {"op": "connect", "sender": "dan", "listener": "ann", "other": victim.id}
    run = RunId(f"forged-{victim.id}")
    ada = of(crews, folder, "ada", victim)
    command: dict[str, Json] = {"id": "tie", "operations": [harmless], "by": "ada"}
    request = ada._session.signed(run, "change", command)
    operation = {**harmless, "sender": "mal", "listener": "bob"}
    run, merge = await forged(crews, victim, status, operation=operation, request=request)
    answer = await ask(victim, crews, {"merge": merge, "run": run, "request": request})
    assert "the signed command requests another merge" in answer["refused"]
    assert not await crews.entries(victim, "MergeAccepted", "MergeFailed", "RunMerged")


@pytest.mark.parametrize("other", ["somebody", ""])
async def test_a_signed_command_for_another_run_leaves_no_event(
    crews: Site, folder: Any, other: str
) -> None:
    """Whoever reads a history has signed commands of other merges, and of no merge."""
    victim = await signed(crews, folder, A)
    run = RunId(f"forged-{victim.id}")
    connect = {"op": "connect", "sender": "dan", "listener": "ann"} | (
        {"other": other} if other else {}
    )
    command: dict[str, Json] = {"id": "tie", "operations": [connect], "by": "ada"}
    request = of(crews, folder, "ada", victim)._session.signed(run, "change", command)
    for _ in range(3):
        with pytest.raises(WorkflowUpdateFailedError) as failed:
            await ask(victim, crews, {"merge": f"{run}/tie", "run": run, "request": request})
        assert "requests another merge" in str(failed.value.cause)
    found = await kinds(crews, victim)
    assert not found["workflow_execution_update_accepted_event_attributes"]


async def test_a_principal_without_the_right_to_change_merges_nothing(
    crews: Site, folder: Any
) -> None:
    one = await signed(crews, folder, A)
    two = await client(crews, folder, "ada").start(
        living(crews, speaking("dan eve"), D) | {"policy": policy(folder)},
        "",
        execution_timeout=RUN_LIMIT,
    )
    crews.runs.append(two)
    await rested(two)
    tie = to(two, "ann", "dan", "tie")
    with pytest.raises(Exception, match="needs the right") as refused:
        await of(crews, folder, "oncall", one).change(operations=[tie])
    assert type(refused.value).__name__ == "NotPermitted"
    for each in (one, two):
        assert not await crews.entries(each, "MergeRequested", "MergeAccepted")


async def test_confirmations_of_unknown_merges_start_no_read(crews: Site, folder: Any) -> None:
    victim = await signed(crews, folder, A)
    before = await kinds(crews, victim)
    handle = crews.temporal.get_workflow_handle(victim.id)
    for number in range(100):
        await handle.signal(NOTIFY_MERGE, {"op": f"m{number}", "run": f"nobody-{number}"})
    await of(crews, folder, "ada", victim).message("hello", to="channel:x")
    await victim.wait_until(lambda view: view.steps > 0 and view.is_idle, 30)
    added = await kinds(crews, victim) - before
    assert added["marker_recorded_event_attributes"] <= 1  # the time of the message
