"""Whether a run may take an ended one's place: that one's policy says so, before it is gone."""

from __future__ import annotations

from temporalio import activity

from crewlog.activities.executions import Executions
from crewlog.activities.once import record_start
from crewlog.authority.principals import standing
from crewlog.authority.proof import START
from crewlog.definition.model import CrewDefinition
from crewlog.errors import NotPermitted
from crewlog.state.calls import DeleteReplacedRun
from crewlog.store.protocol import Store
from crewlog.wire import StartRun


async def check_replacement(task: DeleteReplacedRun, store: Store, executions: Executions) -> None:
    """Checks that who starts the new run may operate the one whose rows are removed.

    Raises:
        NotPermitted: its policy does not let them, the start was used before, or it is to replace
            another execution than the last one.
    """
    row = await store.get_run(task.run)
    if row is not None and row.definition:
        policy = CrewDefinition.from_json(await store.get_definition(row.definition)).policy
        proof = StartRun.from_json(task.start).proof if task.start else None
        place = activity.info().workflow_namespace or ""
        found = standing(
            policy, START, task.start, proof, run=task.run, at=task.at, namespace=place
        )
        if not found.allowed:
            raise NotPermitted(found.reason, remedy=found.remedy)
        if task.use is not None:
            await record_start(task.use, policy, task.run, store)
    if task.use is not None:
        await executions.check_replaced_executions(task.run, task.use, task.executions)
