"""Checks that an execution belongs to its run, and that a signed start is used once.

A client of the server can make a workflow of its own continue as a crew's run with any carry, or
schedule activities under any workflow id. So the store records the executions of each run whose
commands are signed: those whose start was authorized. Local activities record them, since only the
worker of the workflow's own code runs these. Every other execution must continue a recorded one.
The server attests which execution an execution continues, and which one was the first of its chain.

The check is made in the first activity of an execution on each worker, with one query. The server
is asked only about executions that the store does not know. A run with an open policy has no
records, and the server is not asked.

Activities also check their caller. A server lets any workflow schedule any activity on any task
queue, so the run that an input names is compared with the workflow that the server attests.

Starts and some commands are used once, since readers of a history could send them again. Run ids
are used again after a run is deleted, so these records outlive deletions. A new run replaces an
ended run only if the policy of the ended run permits it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cachetools import LRUCache
from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from crewlog.activities.failures import to_failure
from crewlog.activities.server import Server
from crewlog.authority.principals import CommandAuthorization, authorize_command
from crewlog.authority.signatures import START
from crewlog.definition.model import CrewDefinition
from crewlog.definition.policy import Policy
from crewlog.errors import NotPermitted, StoreIncomplete
from crewlog.failure_details import FailureDetails, application_error
from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.state.calls import RESTORE_STATE, DeleteReplacedRun, RecordUse, SignedStart
from crewlog.state.journal import Batch
from crewlog.store.merged_runs import check_not_merged
from crewlog.store.protocol import Store
from crewlog.wire import WORKFLOW_TYPE, StartRun

_MAX_CHAIN = 1000
"""The most executions that are followed back to one that the store knows."""
_MAX_CACHED = 10_000
_NO_RUN = RunId("")
"""The run of records that outlive their run."""


class Executions:
    """The executions that belong to signed runs.

    Args:
        store: The store that records them.
        server: The server, which knows how an execution started.
    """

    def __init__(self, store: Store, server: Server) -> None:
        self._store = store
        self._server = server
        self._seen: LRUCache[tuple[RunId, str], bool] = LRUCache(_MAX_CACHED)
        """The executions that passed the check, and whether the store has a record of them."""
        self._signed: LRUCache[ContentHash, bool] = LRUCache(_MAX_CACHED)

    async def check(
        self, run: RunId, definition: ContentHash | str = "", batch: Batch = Batch.EMPTY
    ) -> None:
        """Checks that the activity's execution belongs to a run, if the run is signed.

        Args:
            run: The run.
            definition: The definition that the execution uses.
            batch: The batch that the activity stores.

        Raises:
            ApplicationError: it does not belong to it. The type `NotPermitted` ends the execution.
        """
        execution = activity.info().workflow_run_id or ""
        seen = self._seen.get((run, execution))
        if seen or (seen is False and not await self._is_signed(ContentHash(definition))):
            return
        known = await self._store.accepted_executions(run)
        needs_record = bool(known) or await self._any_signed(definition, batch)
        if needs_record and execution not in known:
            own = run == activity.info().workflow_id
            if not own or not await self._is_continuation(run, execution, known):
                raise to_failure(_foreign_execution_error(run))
            await self._store.accept_executions(run, [execution])
        self._seen[run, execution] = needs_record

    async def check_unused_id(self, run: RunId, use: SignedStart) -> Collection[str]:
        """Checks that a new run does not take the id of a signed run; returns its executions.

        Raises:
            NotPermitted: the store has a signed run with this id.
        """
        known = await self._store.accepted_executions(run)
        if known and use.execution not in known:
            raise _start_already_used_error(run)
        return known

    async def record_replacing_start(
        self,
        use: SignedStart,
        policy: Policy | None,
        run: RunId,
        executions: Collection[str],
    ) -> bool:
        """Records that an execution uses a start that replaces or reopens a run.

        Args:
            use: The start, and the execution that uses it.
            policy: The policy of the run.
            run: The run.
            executions: The last executions of the run, as the start names them.

        Returns:
            Whether the policy permits the start.

        Raises:
            NotPermitted: another execution has used the start, or it names other executions than
                the last ones of a signed run.
        """
        is_permitted = await self._record_use_of_start(use, policy, run)
        known = {*await self._store.accepted_executions(run)} - {use.execution}
        if not known:
            return is_permitted
        for each in executions:
            if each in known or await self._is_continuation(run, each, known):
                return is_permitted
            if await self._is_newer(run, each, known):
                return is_permitted  # it recorded nothing, but clients see it as the last one
        raise NotPermitted(
            f"the run {run!r} has continued since this start was made: the start follows "
            f"{', '.join(executions) or 'no execution'}, and the run has a later execution",
            remedy=f"Check the run with `crewlog show {run}`, then start it again.",
        )

    async def check_replacement(self, task: DeleteReplacedRun) -> None:
        """Checks that a run may be replaced, and that its policy permits the start of the new one.

        Raises:
            UsageError: the run was merged into a run that the store has.
            NotPermitted: its policy does not permit it, the start was used before, or the start
                does not name the last execution of the run.
        """
        row, policy = await self._store.get_run(task.run), None
        if row is not None and row.definition:
            definition = await self._store.get_definition(row.definition)
            policy = CrewDefinition.from_json(definition).policy
            decision = _authorize_start(policy, task.start, task.run, task.at)
            if not decision.allowed:
                raise NotPermitted(decision.reason, remedy=decision.remedy)
        await check_not_merged(self._store, task.run, "replace")
        if task.use is not None:
            await self.record_replacing_start(task.use, policy, task.run, task.executions)

    async def check_task_queue(self, run: RunId, definition: ContentHash | str = "") -> None:
        """Checks that the activity is on the task queue of its own workflow.

        The workers of that queue are trusted; a workflow on another queue may name any data.

        Args:
            run: The run.
            definition: The definition whose data the activity returns; an open one is not checked.

        Raises:
            ApplicationError: it is on another queue; the type is `NotPermitted`.
        """
        if definition and not await self._is_signed(ContentHash(definition)):
            return
        info = activity.info()
        start = await self._server.find_execution(run, info.workflow_run_id or "")
        if start is not None and start.queue != info.task_queue:
            raise to_failure(_foreign_execution_error(run))

    async def record_start(
        self, use: SignedStart, policy: Policy | None, run: RunId, *, replaces: bool = False
    ) -> bool:
        """Records the start of a run, and its execution if the policy permits the start.

        Args:
            use: The start, and the execution that uses it.
            policy: The policy of the crew.
            run: The run.
            replaces: Whether the run is reopened: the store rejects its earlier executions from now
                on.

        Returns:
            Whether the policy permits the start. If not, the workflow reports the reason.

        Raises:
            NotPermitted: another execution has used the start, or the store has a run with the id
                of the new one.
        """
        is_permitted = await self._record_use_of_start(use, policy, run)
        signed = policy is not None and policy.signed
        known = () if replaces else await self.check_unused_id(run, use)
        if not (signed or replaces or known):
            self._seen[run, use.execution] = False  # as the first `check` would find
        if not is_permitted or not (signed or replaces):
            return is_permitted
        if not (replaces or known) and await self._store.get_run(run) is not None:
            raise _start_already_used_error(run)
        await self.begin(run, use, signed=signed, replaces=replaces)
        return True

    async def _record_use_of_start(
        self, use: SignedStart, policy: Policy | None, run: RunId
    ) -> bool:
        """Records which execution uses a start. The record outlives the run.

        Returns:
            Whether the policy permits the start; if not, nothing is recorded.

        Raises:
            NotPermitted: another execution has used it.
        """
        if policy is None or not policy.signed:
            return True
        if not _authorize_start(policy, use.content, run, use.at).allowed:
            return False
        # Unlike the keys of calls, this one is not deleted with the run.
        if await self._store.claim(_NO_RUN, f"start:{use.start}", use.execution) != use.execution:
            raise NotPermitted(
                "the crew's policy requires signed commands, and this start was used before",
                remedy="Start it again with a client that has the key: a signature is for one "
                "start.",
            )
        return True

    async def begin(
        self, run: RunId, use: SignedStart, *, signed: bool, replaces: bool = False
    ) -> None:
        """Records the execution of an authorized start.

        Args:
            run: The run.
            use: Its start.
            signed: Whether the commands of the run are signed.
            replaces: Whether the store rejects the earlier executions of the run from now on.
        """
        if signed or await self._store.accepted_executions(run):
            await self._store.accept_executions(run, [use.execution], replace=replaces)

    async def record_use(self, task: RecordUse) -> bool:
        """Records the use of a start or a command; false if another execution has used it."""
        return await self._store.claim(_NO_RUN, f"once:{task.used}", task.owner) == task.owner

    async def _is_continuation(self, run: RunId, execution: str, known: Collection[str]) -> bool:
        """Whether an execution continues one that the store knows, or one of an open run.

        The executions of an open run are recognized only by their workflow type and task queue,
        whose workers are trusted.
        """
        accepted, current, queue = {*known}, execution, ""
        for _ in range(_MAX_CHAIN):
            start = await self._server.find_execution(run, current)
            if start is None or start.workflow != WORKFLOW_TYPE or queue not in ("", start.queue):
                return False
            if accepted & {current, start.first, start.original, start.continued}:
                return True
            if not accepted and (current != execution or not start.continued):
                return True
            if not start.continued:
                return False
            current, queue = start.continued, start.queue
        return False

    async def _is_newer(self, run: RunId, execution: str, known: Collection[str]) -> bool:
        """Whether an execution started after the known ones that the server still has."""
        start = await self._server.find_execution(run, execution)
        others = [await self._server.find_execution(run, each) for each in known]
        return start is not None and all(each.at < start.at for each in others if each)

    async def _any_signed(self, definition: ContentHash | str, batch: Batch) -> bool:
        """Whether an execution or its batch names the definition of a signed crew."""
        named = {definition, *(entry.get("definition") for entry in batch.entries)}
        for each in sorted(name for name in named if isinstance(name, str)):
            if await self._is_signed(ContentHash(each)):
                return True
        return False

    async def _is_signed(self, definition: ContentHash) -> bool:
        if not definition:
            return False
        is_signed = self._signed.get(definition)
        if is_signed is None:
            try:
                data = await self._store.get_definition(definition)
            except StoreIncomplete:
                return False  # without the definition, the execution can do nothing
            policy = CrewDefinition.from_json(data).policy
            is_signed = self._signed.setdefault(definition, policy is not None and policy.signed)
        return is_signed


def _authorize_start(
    policy: Policy | None, content: dict[str, Json], run: RunId, at: int
) -> CommandAuthorization:
    """Returns whether a policy permits a start with its proof."""
    proof = StartRun.from_json(content).proof if content else None
    namespace = activity.info().workflow_namespace or ""
    return authorize_command(policy, START, content, proof, run=run, at=at, namespace=namespace)


def _start_already_used_error(run: RunId) -> NotPermitted:
    """Returns the error for a start under the id of a signed run."""
    return NotPermitted(
        f"the store has a signed run {run!r}, and the start does not replace it",
        remedy="Start it with another id, or with a client that replaces the run.",
    )


def _foreign_execution_error(run: RunId) -> NotPermitted:
    return NotPermitted(
        f"this execution does not belong to the run {run!r}: it was neither started as the run nor "
        "continued from it",
        remedy="The store has the state of the run: a principal who may start it can resume it.",
    )


class OwnRunInterceptor(Interceptor):
    """Rejects activities that were not scheduled by the run that they are for."""

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's own name
    ) -> ActivityInboundInterceptor:
        """Returns the interceptor of the activities of a worker."""
        return _Inbound(next)


class _Inbound(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        fault = caller_error(
            info.activity_type,
            input.args,
            info.workflow_type,
            info.workflow_id,
            local=info.is_local,
        )
        if fault:
            raise application_error(
                fault,
                NotPermitted.__name__,
                FailureDetails(remedy="Only the run of a crew schedules its activities."),
            )
        return await super().execute_activity(input)


def caller_error(
    name: str,
    args: Any,
    workflow_type: str | None,
    workflow_id: str | None,
    *,
    local: bool = False,
) -> str:
    """Returns why a workflow may not schedule an activity; empty if it may.

    Args:
        name: The activity's type.
        args: Its arguments. An input of Crewlog names its run, or omits it.
        workflow_type: The type of the workflow; None: no workflow scheduled it.
        workflow_id: The workflow's id.
        local: Whether it is a local activity, which only the own worker runs.
    """
    if workflow_type != WORKFLOW_TYPE:
        caller = f"a workflow of the type {workflow_type!r}" if workflow_type else "no workflow"
        return f"{name} was scheduled by {caller}, which is not a run of a crew"
    run = getattr(args[0], "run", "") if args else ""
    # A fork or a split run starts with the state of another run.
    is_start = local and name == RESTORE_STATE
    if run not in ("", workflow_id) and not is_start:
        return f"{name} is for the run {run!r}, but the run {workflow_id!r} scheduled it"
    return ""
