"""`CrewRun`: the one workflow type. Its name, its handlers and their JSON are `docs/wire.md`.

Handlers and `run` take raw payloads and validate them here: with typed parameters, a malformed
signal would be dropped without a trace, and a malformed start would fail workflow tasks for ever.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from crewlog.encryption.codec import (
        NOT_ENCRYPTED,
        is_plain,
        is_refused,
        is_unavailable,
        was_encrypted,
    )
    from crewlog.errors import CommandRejected, CrewlogError, UsageError
    from crewlog.failure_details import FailureDetails, application_error
    from crewlog.graph.engine import Engine
    from crewlog.graph.exchanges import missing_response_error
    from crewlog.graph.plan import GraphPlan
    from crewlog.graph.prompt_compilation import NO_PLAN
    from crewlog.ids import CommandId, RunId
    from crewlog.payload_storage.converter import payload_hash
    from crewlog.reporting.live_run import results
    from crewlog.reporting.live_run.markdown import run_markdown
    from crewlog.reporting.wire_views import initial_state, state_view
    from crewlog.state.calls import PREPARE_RUN, PrepareRun, PrepareRunResult, SignedStart
    from crewlog.state.carry import PromptCarry, read_carry
    from crewlog.state.model import CrewState
    from crewlog.state.recorder import Journal
    from crewlog.validation_errors import faults_of
    from crewlog.wire import (
        BUSY,
        CLOSING,
        PAYLOAD_HASH,
        WORKFLOW_TYPE,
        AskRun,
        ChangeResult,
        Page,
        PermissionsQuery,
        Response,
        StartRun,
    )

from crewlog.workflows import authorization, conversation, restore
from crewlog.workflows.command_queue import (
    TOGETHER,
    InvalidPayload,
    QueuedCommand,
    apart,
    now,
    parse,
    read_args,
    read_client_args,
    receive_command,
    unread,
)
from crewlog.workflows.conversation import Answers
from crewlog.workflows.ending import CANCEL, Ended
from crewlog.workflows.execution import Execution
from crewlog.workflows.local_activity import made

WHOLE = RawValue(Payload())
"""What a query gets that is sent without an argument. A default, since an optional parameter would
not be handed over raw."""

ASKERS = 5
"""Clients that may wait by `ask` at a time: a server lets ten updates be under way in an execution,
and those who wait for a run's end must not keep out those who steer it."""

FAILED = "RunFailed"
"""The error type of a run that failed, where it has no other."""

CARRY = "carry"
"""The key of a continued execution's start input; clients send `StartRun` instead."""


@workflow.defn(name=WORKFLOW_TYPE)
class CrewRun:
    """A crew's run: thin over the engine, which knows what follows from what happened."""

    def __init__(self) -> None:
        self._inbox: list[QueuedCommand] = []
        self._execution: Execution | None = None
        self._waiting_asks = 0
        """Clients that wait for the result by `ask`."""
        self._encrypted = False
        """Whether the execution was started with what is encrypted: then so is what it is told."""

    @workflow.run
    async def run(self, raw: RawValue) -> dict[str, Any]:
        """Runs a crew to its end; see `StartRun` and `RunResult`."""
        loop = asyncio.create_task(self._run_execution(raw))
        while True:
            try:
                ended = await asyncio.shield(loop)
                break
            except asyncio.CancelledError:
                if loop.done():  # the worker evicts this execution: not a command of anybody's
                    raise
                # Temporal's cancel is a graceful stop: the loop goes on until everything landed.
                command = {"id": CANCEL, "by": "temporal", "reason": "cancelled"}
                self._inbox.append(QueuedCommand("stop", command, now()))
        if ended.carry is not None:
            # Pinned to its build until here; the next execution is of the build that is current.
            workflow.continue_as_new(
                {CARRY: ended.carry.to_json()},
                initial_versioning_behavior=workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE,
            )
        if ended.result is None:
            kind = ended.error_type or FAILED
            raise application_error(ended.error, kind)
        if ended.cancelled:
            raise asyncio.CancelledError
        return ended.result.model_dump(mode="json")

    async def _run_execution(self, raw: RawValue) -> Ended:
        # A replay may have other settings: what is refused follows from the history alone.
        self._encrypted = not is_plain(raw.payload)
        if is_unavailable(raw.payload) or (is_refused(raw.payload) and not self._encrypted):
            # This task fails until its file is there, or the settings accept it.
            workflow.payload_converter().from_payload(raw.payload)
        _check_first_start()
        if workflow.info().continued_run_id is not None:
            # Our own: what comes from outside was looked at before it was carried.
            carried = workflow.payload_converter().from_payload(raw.payload)
            self._execution = self._continue(carried[CARRY])
        else:
            self._execution = await self._begin(raw)
        self._execution.context.encrypted = self._encrypted
        self._execution.context.quiet = was_encrypted(raw.payload)
        try:
            return await self._execution.drive()
        except ActivityError as error:
            raise authorization.foreign_execution_error(error) or error from error

    async def _begin(self, raw: RawValue) -> Execution:
        data = read_args([raw])
        start = _parse_start(data)
        await authorization.use_encrypted_start(raw.payload)
        if start.replace:
            await restore.forget(start, data, _started())
        if start.fork is not None or start.reopen is not None:
            engine, loaded = await restore.begin(start, data, _started())
            return Execution(
                engine,
                self._inbox,
                task_queue=start.queue,
                search_attributes=loaded.search_attributes,
            )
        if start.split is not None:
            engine, loaded = await restore.begin_part(start, start.split, _started())
            return Execution(
                engine,
                self._inbox,
                task_queue=start.queue,
                search_attributes=loaded.search_attributes,
            )
        if start.prompt is not None:
            return self._begin_draft(start, start.prompt)
        opened = await _open(start, authorization.use_of(start, data, _started()))
        plan, run = GraphPlan.from_json(opened.plan), RunId(workflow.info().workflow_id)
        start = authorization.starter(start, data, plan.policy, run, _started())
        authorization.check_initial_state(start, data, plan, run, _started())
        try:
            engine = await Engine.begin(
                plan,
                run,
                input_text=_as_text(start.input),
                by=start.by,
                at=_started(),
                command=CommandId(start.command) if start.command else None,
                initial_state=initial_state(start.given) if start.given is not None else None,
                files=start.files,
            )
        except UsageError as error:
            raise application_error(
                error.message, "InvalidStart", FailureDetails(remedy=error.remedy)
            ) from error
        return Execution(
            engine,
            self._inbox,
            task_queue=start.queue,
            search_attributes=opened.search_attributes,
        )

    def _begin_draft(self, start: StartRun, text: str) -> Execution:
        draft = PromptCarry(
            input=_as_text(start.input),
            files=start.files,
            by=start.by,
            reader=start.reader,
            model=start.model,
            command=CommandId(start.command) if start.command else None,
        )
        run = RunId(workflow.info().workflow_id)
        engine = Engine.begin_with_prompt(run, text, draft, registry=start.registry, at=_started())
        # Whether the server knows the search attributes is told by the check of the definition.
        return Execution(engine, self._inbox, task_queue=start.queue, search_attributes=False)

    def _continue(self, data: Any) -> Execution:
        carry = read_carry(data)
        ledger = Journal.from_carry(CrewState.from_json(carry.state), carry.batch)
        plan = GraphPlan.from_json(carry.plan) if carry.plan else NO_PLAN
        engine = Engine(plan, ledger, carry.prompt)
        engine.at = at = _started()
        self._inbox[:0] = [
            *(
                QueuedCommand(name, InvalidPayload(reason), at)
                for name, reason in carry.unreadable_commands
            ),
            *(QueuedCommand(name, content, at) for name, content in carry.command_queue),
        ]
        return Execution(
            engine,
            self._inbox,
            task_queue=carry.task_queue,
            search_attributes=carry.search_attributes,
            answers=Answers(
                Response.from_json(carry.response) if carry.response else None,
                ledger.state.conversation.message if ledger.state.conversation is not None else "",
                seen=ledger.state.position,
            ),
        )

    # -- commands ----------------------------------------------------------------------------

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """Takes every signal, known or not: what it says, or why it was refused, is journaled."""
        several = apart(args) if name == TOGETHER else [(name, args)]
        self._inbox += [unread(each, given) for each, given in several]

    @workflow.update(name="ask", unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def ask(self, raw: RawValue) -> dict[str, Any]:
        """Says something to the run, and answers with its result; see `AskRun` and `RunResult`.

        A run whose start fails ends without it: the client then looks at how it ended.
        """
        self._waiting_asks += 1
        try:
            return await self._ask(raw)
        finally:
            self._waiting_asks -= 1

    @ask.validator
    def check_ask(self, raw: RawValue) -> None:
        """Refuses what is not an `AskRun`, and too many that wait; see `check_answer`."""
        if self._waiting_asks >= ASKERS:
            raise application_error(
                f"{ASKERS} clients wait for the run's result by 'ask'",
                BUSY,
                FailureDetails(
                    remedy="Send the signal 'message', and wait for the result of the workflow."
                ),
            )
        self._check_update("ask", raw)

    @workflow.update(name="answer")
    async def answer(self, raw: RawValue) -> dict[str, Any]:
        """Answers an interrupt; see `Answer` and `CommandResult`."""
        return await self._update("answer", raw)

    @answer.validator
    def check_answer(self, raw: RawValue) -> None:
        """Refuses what is not a `Answer`, and everything while the run continues as new."""
        self._check_update("answer", raw)

    @workflow.update(name="change")
    async def change(self, raw: RawValue) -> dict[str, Any]:
        """Changes the crew while it runs; see `Change` and `ChangeResult`."""
        return await self._update("change", raw)

    @change.validator
    def check_change(self, raw: RawValue) -> None:
        """Refuses what is not a `Change`; see `check_answer`."""
        self._check_update("change", raw)

    @workflow.update(name="edit_state")
    async def edit_state(self, raw: RawValue) -> dict[str, Any]:
        """Puts values into the state; see `EditState` and `CommandResult`."""
        return await self._update("edit_state", raw)

    @edit_state.validator
    def check_edit_state(self, raw: RawValue) -> None:
        """Refuses what is not an `EditState`; see `check_answer`."""
        self._check_update("edit_state", raw)

    @workflow.update(name="redirect")
    async def redirect(self, raw: RawValue) -> dict[str, Any]:
        """Sends the run to another node than the next; see `Redirect` and `CommandResult`."""
        return await self._update("redirect", raw)

    @redirect.validator
    def check_redirect(self, raw: RawValue) -> None:
        """Refuses what is not a `Redirect`; see `check_answer`."""
        self._check_update("redirect", raw)

    @workflow.update(name="rollback")
    async def rollback(self, raw: RawValue) -> dict[str, Any]:
        """Goes back to a checkpoint; see `Rollback` and `CommandResult`."""
        return await self._update("rollback", raw)

    @rollback.validator
    def check_rollback(self, raw: RawValue) -> None:
        """Refuses what is not a `Rollback`; see `check_answer`."""
        self._check_update("rollback", raw)

    @workflow.update(name="set_permission")
    async def set_permission(self, raw: RawValue) -> dict[str, Any]:
        """Says who may call a tool; see `SetPermission` and `CommandResult`."""
        return await self._update("set_permission", raw)

    @set_permission.validator
    def check_set_permission(self, raw: RawValue) -> None:
        """Refuses what is not a `SetPermission`; see `check_answer`."""
        self._check_update("set_permission", raw)

    def _check_update(self, name: str, raw: RawValue) -> None:
        if self._closing():
            raise closing()
        try:
            data = read_client_args([raw])
            if self._encrypted and is_plain(raw.payload):
                data = InvalidPayload(NOT_ENCRYPTED)
            parse(name, data)
        except CrewlogError as error:
            raise failure(error) from error

    async def _update(self, name: str, raw: RawValue) -> dict[str, Any]:
        """Hands a command to the processor, and waits for its outcome."""
        incoming = receive_command(name, [raw])
        incoming.arrived, incoming.is_update = now(), True
        self._inbox.append(incoming)
        await workflow.wait_condition(lambda: incoming.done)
        if incoming.is_returned:
            raise closing()
        if incoming.error is not None or incoming.result is None:
            error = incoming.error or CrewlogError("the command was not applied")
            raise failure(error, incoming.digest)
        await self._store_permissions(incoming)
        return incoming.result.model_dump(mode="json")

    async def _store_permissions(self, incoming: QueuedCommand) -> None:
        """What says who may call what is in the store before it is answered.

        Activities look there before a call begins: from the answer on, none does that may not. And
        forks and replacements of the run are judged by the policy that is there.
        """
        made = incoming.result
        rules = isinstance(made, ChangeResult) and not made.swap and not incoming.dry
        # A rollback of a signed run may lead to another policy.
        signed_rollback = incoming.name == "rollback" and incoming.authorization is not None
        if not (rules or signed_rollback or incoming.name == "set_permission"):
            return
        if self._execution is None:
            return
        if isinstance(made, ChangeResult) and made.merge:
            await self._execution.writer.wait_until_stored(
                made.position
            )  # the loop does so, with its hint
        else:
            await self._execution.writer.flush()

    async def _ask(self, raw: RawValue) -> dict[str, Any]:
        data = read_client_args([raw])
        command = parse("ask", data)
        if isinstance(command, AskRun) and command.text:
            said = QueuedCommand("message", data, now(), now(), "ask", plain=is_plain(raw.payload))
            self._inbox.append(said)
            await workflow.wait_condition(lambda: said.done or self._over())
            if said.error is not None:
                raise failure(said.error)
        else:
            asked = QueuedCommand("ask", data, now(), now(), is_update=True)
            await self._check_view_right(asked)
        if self._talks():
            return await self._replied(command.id if isinstance(command, AskRun) else "", data)
        await workflow.wait_condition(lambda: self._over() or self._talks())
        if self._talks():  # it had no crew yet
            return await self._replied(command.id if isinstance(command, AskRun) else "", data)
        ended = self._execution.ended if self._execution is not None else None
        if ended is None:
            raise closing()
        if ended.result is None:
            raise application_error(ended.error, ended.error_type or FAILED)
        return ended.result.model_dump(mode="json")

    def _talks(self) -> bool:
        """Whether the run is a conversation."""
        engine = self._execution.engine if self._execution is not None else None
        return (
            engine is not None and not engine.prompt.is_active and engine.exchanges.is_conversation
        )

    async def _replied(self, asked: str, data: Any) -> dict[str, Any]:
        """The answer of the turn that a message began; without one, of the turn under way."""
        execution = self._ready()
        said = asked if isinstance(data, dict) and data.get("text") else ""  # pyright: ignore[reportUnknownMemberType]

        def reply() -> Response | None:
            engine = execution.engine
            if said:
                return execution.answers.to(engine, said)
            return execution.answers.last(engine) if engine.state.is_conversation_idle else None

        try:
            await workflow.wait_condition(lambda: reply() is not None or self._over())
            found = reply()
        except CommandRejected as error:
            raise failure(error) from error
        if found is None and execution.ended is not None:
            raise failure(missing_response_error(execution.engine.state.run))
        if found is None:
            raise closing()
        return results.exchange_result(execution.engine, found).model_dump(mode="json")

    async def _check_view_right(self, asked: QueuedCommand) -> None:
        """Waits until the processor has authorised a client to wait for the result.

        Raises:
            ApplicationError: the policy does not permit it.
        """
        self._inbox.append(asked)
        await workflow.wait_condition(lambda: asked.done or self._over())
        if asked.error is not None:
            raise failure(asked.error)

    def _over(self) -> bool:
        """Whether nobody can wait for the run's end here any more: it has come, or comes later."""
        return self._closing() or (
            self._execution is not None and self._execution.ended is not None
        )

    def _closing(self) -> bool:
        return self._execution is not None and self._execution.context.is_closing

    # -- queries -----------------------------------------------------------------------------

    @workflow.query(name="status")
    def status(self) -> dict[str, Any]:
        """Where the run is: a `RunView`."""
        execution = self._ready()
        view = results.run_view(
            execution.engine, execution.calls_in_flight, execution.drained_steps
        )
        return view.model_dump(mode="json")

    @workflow.query(name="state")
    def state(self) -> dict[str, Any]:
        """The whole state: a `StateView`."""
        return state_view(self._ready().engine.state).model_dump(mode="json")

    @workflow.query(name="graph")
    def graph(self) -> dict[str, Any]:
        """The plan and its picture: a `GraphView`."""
        return results.graph_view(self._ready().engine).model_dump(mode="json")

    @workflow.query(name="interrupts")
    def interrupts(self) -> list[dict[str, Any]]:
        """The open questions: `InterruptView`s."""
        views = results.interrupt_views(self._ready().engine)
        return [each.model_dump(mode="json") for each in views]

    @workflow.query(name="journal")
    def journal(self, raw: RawValue = WHOLE) -> dict[str, Any]:
        """A `Page` of the journal: a `JournalPage`."""
        return results.journal_page(self._ready().engine, _page(raw)).model_dump(mode="json")

    @workflow.query(name="checkpoints")
    def checkpoints(self, raw: RawValue = WHOLE) -> dict[str, Any]:
        """A `Page` of the checkpoints: a `CheckpointPage`."""
        return results.checkpoint_page(self._ready().engine, _page(raw)).model_dump(mode="json")

    @workflow.query(name="permissions")
    def permissions(self, raw: RawValue = WHOLE) -> dict[str, Any]:
        """Who may call which tool now: a `PermissionsPage` for a `PermissionsQuery`."""
        page = results.permissions_page(self._ready().engine, _permissions_query(raw))
        return page.model_dump(mode="json")

    @workflow.query(name="conversation")
    def conversation(self) -> dict[str, Any]:
        """Where a conversation is: a `ConversationView`."""
        execution = self._ready()
        if not self._talks():
            raise ApplicationError("the run is no conversation", type="UsageError")
        return conversation.view(execution.engine, execution.answers).model_dump(mode="json")

    @workflow.query(name=PAYLOAD_HASH)
    def payload_hash(self, raw: RawValue = WHOLE) -> str:
        """The hash of the argument: whoever gets it knows that a worker could read that."""
        return payload_hash(raw.payload)

    def details(self) -> str:
        """What the web UI shows beside the run, in Markdown; empty while it starts."""
        if self._execution is None:
            return ""
        execution = self._execution
        return run_markdown(execution.engine, execution.calls_in_flight, execution.drained_steps)

    def _ready(self) -> Execution:
        if self._execution is None:
            raise ApplicationError("the run is starting; ask again", type="Starting")
        return self._execution


def closing() -> ApplicationError:
    """The error for an update that meets the run as it continues as new."""
    return ApplicationError("the run continues as new; send it again", type=CLOSING)


def failure(error: CrewlogError, digest: str = "") -> ApplicationError:
    """The failure of an update that a command was rejected with.

    Args:
        error: The error.
        digest: The hash of the rejected command, if its outcome is remembered.
    """
    details = FailureDetails(place=error.place, remedy=error.remedy, command_hash=digest)
    return application_error(error.message, type(error).__name__, details)


def _check_first_start() -> None:
    """Refuses what the server starts anew: it looks like our own, and has a client's input.

    Raises:
        ApplicationError: it does so by a cron line, or after a failure.
    """
    info = workflow.info()
    if info.cron_schedule or info.attempt > 1:
        raise application_error(
            "a run cannot have a cron schedule or a retry policy",
            "InvalidStart",
            FailureDetails(
                remedy="Start it without them; `crewlog schedule` makes schedules of runs."
            ),
        )


def _started() -> int:
    # Not the clock, nor `start_time`: a first task that a query cuts in two has another one of
    # these when it is replayed.
    return int(workflow.info().workflow_start_time.timestamp() * 1000)


def _page(raw: RawValue) -> Page:
    if raw is WHOLE:
        return Page()
    try:
        return Page.model_validate(read_args([raw]))
    except ValidationError as error:
        raise ApplicationError(
            'a page is {"after": position, "limit": 1 to 1000}', type="BadPage"
        ) from error


def _permissions_query(raw: RawValue) -> PermissionsQuery:
    if raw is WHOLE:
        return PermissionsQuery()
    try:
        return PermissionsQuery.model_validate(read_args([raw]))
    except ValidationError as error:
        raise ApplicationError(
            f"permissions: {faults_of(error, 'its content')}; docs/wire.md has the fields",
            type="UsageError",
        ) from error


def _parse_start(data: Any) -> StartRun:
    if isinstance(data, InvalidPayload):
        raise application_error(data.reason, "InvalidStart")
    try:
        return StartRun.model_validate(data)
    except ValidationError as error:
        raise application_error(
            f"the run was started with something else than a crew: {faults_of(error, 'its input')}",
            "InvalidStart",
            FailureDetails(remedy="docs/wire.md has the fields."),
        ) from error


async def _open(start: StartRun, use: SignedStart) -> PrepareRunResult:
    run = RunId(workflow.info().workflow_id)
    task = PrepareRun(run=run, crew=start.crew, model=start.model, use=use)
    return await made(PREPARE_RUN, task, PrepareRunResult)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
