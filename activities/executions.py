"""Whether an execution is the run's that it says it is, before anything of it is believed.

Whoever reaches the server can have a workflow of their own continue as a crew's run, with whatever
they like as what was carried; or have activities done, in the name of any workflow id. So of a run
whose commands are signed the store knows the executions that are its own: those whose start was
looked at. That is noted by local activities, which are done by the worker that runs the workflow's
own code, and never for a stranger. All others must go on from one of these; what the server says of
an execution is not what somebody tells it: of which execution it is the continuation, and which was
the first.

It is looked at in the first activity of each execution, once on each worker, in one query; the
server is asked only where the store does not know the execution: once for each that goes on from
another. A run whose policy is open has no such notes, and the server is not asked.

Whose orders activities take: those of the run that they are about, and of no other workflow.

A server lets any workflow schedule any activity on any task queue. So what a task says of its run
is held against the workflow that sent it, which the server attests.

Starts and commands that are used once: who can read one, in a history, can send it again.

Run ids are used again once a run is deleted. So the notes outlive deletions.

Whether a run may take an ended one's place: that one's policy says so, before it is gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from crewlog.activities.caches import LruCache
from crewlog.activities.failures import to_failure
from crewlog.authority.principals import authorize_command
from crewlog.authority.signatures import START
from crewlog.definition.model import CrewDefinition
from crewlog.definition.policy import Policy
from crewlog.errors import NotPermitted, StoreIncomplete
from crewlog.failure_details import FailureDetails, application_error
from crewlog.ids import ContentHash, RunId
from crewlog.model import Model
from crewlog.state.calls import LOAD_STATE, DeleteReplacedRun, RecordUse, SignedStart
from crewlog.state.journal import Batch
from crewlog.store.protocol import Store
from crewlog.wire import WORKFLOW_TYPE, StartRun

_FAR = 1000
"""How many executions are gone back, at most, to one that the store knows."""
_KEPT = 10_000


class Origin(Model):
    """What the server says of how an execution began."""

    workflow: str
    """The workflow's type."""
    queue: str
    """The task queue on which it was started."""
    first: str
    """The first execution of its chain."""
    original: str
    """The execution that it was reset from, at first; else itself."""
    continued: str
    """The execution that it is the continuation of; empty where it was started."""
    at: int
    """When it began, in milliseconds since 1970, by the server's clock."""


Look = Callable[[RunId, str], Awaitable[Origin | None]]
"""Asks the server how an execution of a run began; none where it has no such execution."""


async def find_no_start(run: RunId, execution: str) -> Origin | None:
    """Knows of no execution: where there is no server, none is believed that must be looked at."""
    del run, execution
    return None


class Executions:
    """Knows which executions are those of signed runs.

    Args:
        store: Where they are noted.
        look: Asks the server about one.
    """

    def __init__(self, store: Store, look: Look) -> None:
        self._store = store
        self._look = look
        self._seen: LruCache[tuple[RunId, str], bool] = LruCache(_KEPT)
        """Executions that may go on, and whether the store knows them."""
        self._signed: LruCache[ContentHash, bool] = LruCache(_KEPT)

    async def check(
        self, run: RunId, definition: ContentHash | str = "", batch: Batch = Batch.EMPTY
    ) -> None:
        """Checks that the activity's execution is the run's, where commands of it are signed.

        Args:
            run: The run.
            definition: The definition by which the execution does something.
            batch: What the activity is to store.

        Raises:
            ApplicationError: it is not; of the type `NotPermitted`, which ends the execution.
        """
        execution = activity.info().workflow_run_id or ""
        seen = self._seen.get((run, execution))
        if seen or (seen is False and not await self._is_signed(ContentHash(definition))):
            return
        known = await self._store.accepted_executions(run)
        wanted = bool(known) or await self._any_signed(definition, batch)
        if wanted and execution not in known:
            own = run == activity.info().workflow_id
            if not own or not await self._goes_on(run, execution, known):
                raise to_failure(_stranger(run))
            await self._store.accept_executions(run, [execution])
        self._seen.put((run, execution), wanted)

    async def check_unused_id(self, run: RunId, use: SignedStart) -> None:
        """Checks that a run that begins takes no signed one's place.

        Raises:
            NotPermitted: the store has a signed run of its id, which is not replaced.
        """
        known = await self._store.accepted_executions(run)
        if known and use.execution not in known:
            raise taken(run)

    async def check_replaced_executions(
        self, run: RunId, use: SignedStart, executions: Collection[str]
    ) -> None:
        """Checks that what replaces a signed run, or takes it up, names it as it is by now.

        Raises:
            NotPermitted: it names other executions than the last ones.
        """
        known = {*await self._store.accepted_executions(run)} - {use.execution}
        if not known:
            return
        for each in executions:
            if each in known or await self._goes_on(run, each, known):
                return
            if await self._came_after(run, each, known):
                return  # nothing came of it, but it is what people see as the last one
        raise NotPermitted(
            f"the run {run!r} has gone on since this start was made: it is to follow "
            f"{', '.join(executions) or 'no execution'}, and another one came after that",
            remedy="Look at the run as it is by now; then start it again.",
        )

    async def check_task_queue(self, run: RunId, definition: ContentHash | str = "") -> None:
        """Checks that the activity is asked for on the task queue that its own workflow is on.

        Whoever polls that is trusted; a workflow on somebody's own queue may name what it never
        had.

        Args:
            run: The run.
            definition: What it asks for is of this one: of an open one, everybody is told.

        Raises:
            ApplicationError: it is on another; of the type `NotPermitted`.
        """
        if definition and not await self._is_signed(ContentHash(definition)):
            return
        info = activity.info()
        found = await self._look(run, info.workflow_run_id or "")
        if found is not None and found.queue != info.task_queue:
            raise to_failure(_stranger(run))

    async def begin(
        self, run: RunId, use: SignedStart, *, signed: bool, alone: bool = False
    ) -> None:
        """Notes that an execution is a run's, whose start was let in.

        Args:
            run: The run.
            use: Its start.
            signed: Whether its commands are signed.
            alone: Whether it takes up what others have left.
        """
        if signed or await self._store.accepted_executions(run):
            await self._store.accept_executions(run, [use.execution], alone=alone)

    async def _goes_on(self, run: RunId, execution: str, known: Collection[str]) -> bool:
        """Whether an execution is of a chain that the store knows, or of one that was ours before.

        A run that was open until now is known by nothing but its type and its task queue: whoever
        polls that is trusted.
        """
        ours, at, queue = {*known}, execution, ""
        for _ in range(_FAR):
            found = await self._look(run, at)
            if found is None or found.workflow != WORKFLOW_TYPE or queue not in ("", found.queue):
                return False
            if ours & {at, found.first, found.original, found.continued}:
                return True
            if not ours and (at != execution or not found.continued):
                return True
            if not found.continued:
                return False
            at, queue = found.continued, found.queue
        return False

    async def _came_after(self, run: RunId, execution: str, known: Collection[str]) -> bool:
        """Whether an execution began after the run's own, as far as the server has these."""
        found = await self._look(run, execution)
        others = [await self._look(run, each) for each in known]
        return found is not None and all(each.at < found.at for each in others if each)

    async def _any_signed(self, definition: ContentHash | str, batch: Batch) -> bool:
        """Whether what an execution does, or says that it did, is a signed crew's."""
        named = {definition, *(entry.get("definition") for entry in batch.entries)}
        for each in sorted(name for name in named if isinstance(name, str)):
            if await self._is_signed(ContentHash(each)):
                return True
        return False

    async def _is_signed(self, definition: ContentHash) -> bool:
        if not definition:
            return False
        found = self._signed.get(definition)
        if found is None:
            try:
                data = await self._store.get_definition(definition)
            except StoreIncomplete:
                return False  # nothing is done by what the store lacks
            policy = CrewDefinition.from_json(data).policy
            found = self._signed.put(definition, policy is not None and policy.signed)
        return found


def taken(run: RunId) -> NotPermitted:
    """That the store has rows of a signed run under an id that another one is started with."""
    return NotPermitted(
        f"the store has a signed run {run!r}, and a start takes its place only where it says so",
        remedy="Start it with another id, or by a client that replaces it.",
    )


def _stranger(run: RunId) -> NotPermitted:
    return NotPermitted(
        f"this execution is none of the run {run!r}: it was neither started as one nor continued "
        "by one; nothing of it is believed",
        remedy="`crewlog show` has the run as it was; whoever may start it can resume it.",
    )


class OwnRunInterceptor(Interceptor):
    """Refuses activities that no run of ours asks for, or one for another."""

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's own name
    ) -> ActivityInboundInterceptor:
        """The interceptor of a worker's activities."""
        return _Inbound(next)


class _Inbound(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        fault = foreign(
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


def foreign(
    name: str,
    args: Any,
    workflow_type: str | None,
    workflow_id: str | None,
    *,
    local: bool = False,
) -> str:
    """Why an activity is none of the workflow's that asks for it; empty where it is.

    Args:
        name: The activity's type.
        args: Its arguments: a task of ours says which run it is about, or leaves it out.
        workflow_type: The workflow's type; none where no workflow asks.
        workflow_id: The workflow's id.
        local: Whether the worker that runs the workflow asks, which no other workflow can have.
    """
    if workflow_type != WORKFLOW_TYPE:
        asks = f"a workflow of the type {workflow_type!r}" if workflow_type else "no workflow"
        return f"{name} is asked for by {asks}, which is no run"
    about = getattr(args[0], "run", "") if args else ""
    begins = local and name == LOAD_STATE  # a fork, or a part, with another run's state
    if about not in ("", workflow_id) and not begins:
        return f"{name} is about the run {about!r}, and the run {workflow_id!r} asks for it"
    return ""


async def record_use(task: RecordUse, store: Store) -> bool:
    """Notes for good what a run uses; false where another one has used it."""
    return await store.claim(f"once:{task.used}", task.owner) == task.owner


async def record_start(use: SignedStart, policy: Policy | None, run: RunId, store: Store) -> bool:
    """Notes for good which execution a start is used by.

    The note is nobody's rows: it is there still when the run was deleted or replaced.

    Args:
        use: The start, and who uses it.
        policy: The policy that asks for proofs; an open one asks for none.
        run: The run that is started.
        store: Where it is noted.

    Returns:
        Whether the policy lets the start in; nothing is noted of one that it does not.

    Raises:
        NotPermitted: another execution has used it.
    """
    if policy is None or not policy.signed:
        return True
    proof = StartRun.model_validate(use.content).proof if use.content else None
    place = activity.info().workflow_namespace or ""
    if not authorize_command(
        policy, START, use.content, proof, run=run, at=use.at, namespace=place
    ).allowed:
        return False
    # No key of a call is like this one: those go with their run.
    if await store.claim(f"start:{use.start}", use.execution) != use.execution:
        raise NotPermitted(
            "the crew's policy takes signed commands only, and this start was used before",
            remedy="Start it again by a client that has the key: each signature is for one start.",
        )
    return True


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
        found = authorize_command(
            policy, START, task.start, proof, run=task.run, at=task.at, namespace=place
        )
        if not found.allowed:
            raise NotPermitted(found.reason, remedy=found.remedy)
        if task.use is not None:
            await record_start(task.use, policy, task.run, store)
    if task.use is not None:
        await executions.check_replaced_executions(task.run, task.use, task.executions)
