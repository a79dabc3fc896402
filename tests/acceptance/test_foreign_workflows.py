"""Workflows that are no runs ask a crew's worker for its activities: it does nothing for them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from crewlog.activities.executions import caller_error
from crewlog.client import keys
from crewlog.ids import RunId
from crewlog.state.calls import (
    DELETE_REPLACED_RUN,
    END_RUN,
    FIND_COMMAND,
    RESTORE_STATE,
    STORE_BATCH,
    FindCommand,
)
from crewlog.wire import WORKFLOW_TYPE

from .harness import LIMIT, RUN_LIMIT, Site, calls, tool, until

QUEUE = "asked"
FORGED = {
    "kind": "InterruptAnswered",
    "at": 1,
    "interrupt": "i9",
    "decision": "approve",
    "by": "ada",
}


@workflow.defn(name="Foreign", sandboxed=False)
class Foreign:
    """Schedules activities on another's task queue, and tells what came of them."""

    @workflow.run
    async def run(self, queue: str, tasks: list[tuple[str, Any]]) -> list[str]:
        told: list[str] = []
        for name, task in tasks:
            try:
                await workflow.execute_activity(
                    name, task, task_queue=queue, start_to_close_timeout=timedelta(seconds=20)
                )
            except ActivityError as error:
                cause = error.cause
                told.append(cause.type or "" if isinstance(cause, ApplicationError) else str(cause))
            else:
                told.append("done")
        return told


async def test_a_foreign_workflow_writes_and_removes_nothing(crews: Site, tmp_path: Path) -> None:
    await crews.start_worker(QUEUE)
    crew = crews.crew(
        {"a": [calls(("gate", {"name": "g"})), {"text": "A"}]}, tools={"gate": tool("gate")}
    )
    key = keys.make("ada", tmp_path).public
    crew["policy"] = {
        "mode": "signed",
        "principals": {"ada": {"key": key, "rights": ["operate", "grant"]}},
    }
    owner = crews.client(QUEUE)
    owner.use_key(str(tmp_path / "ada.pem"))
    run = await owner.start(crew, "go", execution_timeout=RUN_LIMIT)
    crews.runs.append(run)
    await until(lambda: crews.ledger(run, "start"), "the gate")
    await crews.stored(run)
    rows = await crews.store.read_journal(RunId(run.id))
    batch = {"first": rows[-1].position + 1, "entries": [FORGED]}
    tasks = [
        (STORE_BATCH, {"run": run.id, "batch": batch, "definition": ""}),
        (END_RUN, {"run": run.id, "batch": batch, "state": {}, "outputs": []}),
        (DELETE_REPLACED_RUN, {"run": run.id, "executions": [], "start": {}, "at": 1}),
        (RESTORE_STATE, {"run": run.id, "position": 1}),
        (FIND_COMMAND, {"run": run.id, "command": "c"}),
    ]
    async with Worker(
        crews.temporal,
        task_queue="foreign",
        workflows=[Foreign],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        told = await crews.temporal.execute_workflow(
            "Foreign",
            args=[QUEUE, tasks],
            id=f"foreign-{run.id}",
            task_queue="foreign",
            execution_timeout=RUN_LIMIT,
        )
    assert told == ["NotPermitted"] * len(tasks)
    assert await crews.store.read_journal(RunId(run.id)) == rows
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "completed"
    crews.end_workers(QUEUE)


@pytest.mark.parametrize(
    ("name", "about", "type_", "id_", "local", "taken"),
    [
        (STORE_BATCH, "r", WORKFLOW_TYPE, "r", False, True),
        (STORE_BATCH, "r", WORKFLOW_TYPE, "other", False, False),
        (STORE_BATCH, "r", WORKFLOW_TYPE, "other", True, False),
        (RESTORE_STATE, "r", WORKFLOW_TYPE, "a fork", True, True),
        (RESTORE_STATE, "r", WORKFLOW_TYPE, "a fork", False, False),
        (RESTORE_STATE, "r", WORKFLOW_TYPE, "r", False, True),
        (RESTORE_STATE, "r", "Other", "r", False, False),
        (FIND_COMMAND, "", WORKFLOW_TYPE, "r", False, True),
        (FIND_COMMAND, "", None, None, False, False),
    ],
)
def test_activities_are_about_the_run_that_asks(
    name: str, about: str, type_: str | None, id_: str | None, local: bool, taken: bool
) -> None:
    task = FindCommand(run=RunId(about), command="c")
    assert bool(caller_error(name, [task], type_, id_, local=local)) is not taken
