"""`CrewRun`: the one workflow type. Its name, its handlers and their JSON are `docs/wire.md`.

Handlers and `run` take raw payloads and validate them here: with typed parameters, a malformed
signal would be dropped without a trace, and a malformed start would fail the workflow task forever.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

from crewlog.encryption.codec import is_not_encrypted, is_unavailable, was_encrypted
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
from crewlog.validation_errors import validation_error_text
from crewlog.wire import (
    BUSY,
    CLOSING,
    PAYLOAD_HASH,
    REQUEST_MERGE,
    UPDATES,
    WORKFLOW_TYPE,
    AskRun,
    ChangeResult,
    CommandResult,
    Page,
    PermissionsQuery,
    Response,
    StartRun,
)
from crewlog.workflows import authorization, restore
from crewlog.workflows.commands.queue import (
    Applied,
    Failed,
    InvalidPayload,
    QueuedCommand,
    now,
    parse_command,
    read_args,
    read_client_args,
    receive_command,
    receive_signal,
)
from crewlog.workflows.conversation import Responses, conversation_view
from crewlog.workflows.execution import Execution
from crewlog.workflows.execution_end import CANCEL, Ended
from crewlog.workflows.local_activity import execute_local_activity
from crewlog.workflows.run_merge import check_request
from crewlog.workflows.sdk_workarounds import NO_ARGUMENT, PACKED_SIGNALS, unpack_signals

MAX_ASKS = 5
"""The most clients that may wait by `ask` at a time. A server allows ten open updates in an
execution, and clients that wait for its end must leave room for other commands."""

FAILED = "RunFailed"
"""The error type of a failed run that has no other."""

CARRY = "carry"
"""The key of a continued execution's start input; clients send `StartRun` instead."""


@workflow.defn(name=WORKFLOW_TYPE)
class CrewRun:
    """A run: the handlers of its commands and queries, and its executions."""

    def __init__(self) -> None:
        self._command_queue: list[QueuedCommand] = []
        self._execution: Execution | None = None
        self._waiting_asks = 0
        """Clients that wait for the result by `ask`."""

    @workflow.run
    async def run(self, raw: RawValue) -> dict[str, Any]:
        """Runs a crew to its end; see `StartRun` and `RunResult`."""
        loop = asyncio.create_task(self._run_execution(raw))
        while True:
            try:
                ended = await asyncio.shield(loop)
                break
            except asyncio.CancelledError:
                if loop.done():  # the worker evicts this execution; it was not cancelled
                    raise
                # Temporal's cancel is a graceful stop: the loop runs until all calls have ended.
                command = {"id": CANCEL, "by": "temporal", "reason": "cancelled"}
                self._command_queue.append(QueuedCommand("stop", command, now()))
        if ended.carry is not None:
            # An execution is pinned to its build; the next one takes the current build.
            workflow.continue_as_new(
                {CARRY: ended.carry.to_json()},
                initial_versioning_behavior=workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE,
            )
        if ended.result is None:
            raise application_error(ended.error, ended.error_type or FAILED)
        if ended.cancelled:
            raise asyncio.CancelledError
        return ended.result.model_dump(mode="json")

    async def _run_execution(self, raw: RawValue) -> Ended:
        if is_unavailable(raw.payload) or is_not_encrypted(raw.payload):
            # This task fails until its file is available, or the settings accept it.
            workflow.payload_converter().from_payload(raw.payload)
        _check_first_start()
        if workflow.info().continued_run_id is not None:
            # A carry: its commands were checked before.
            carried = workflow.payload_converter().from_payload(raw.payload)
            self._execution = self._continue(carried[CARRY])
        else:
            self._execution = await self._start(raw)
        self._execution.context.quiet = was_encrypted(raw.payload)
        try:
            return await self._execution.drive()
        except ActivityError as error:
            raise authorization.foreign_execution_error(error) or error from error

    async def _start(self, raw: RawValue) -> Execution:
        data = read_args([raw])
        start = _parse_start(data)
        await authorization.use_encrypted_start(raw.payload)
        if start.replace:
            await restore.delete_replaced_run(start, data, _started_at())
        if start.fork is not None or start.reopen is not None:
            engine, loaded = await restore.restore_run(start, data, _started_at())
            return Execution(
                engine,
                self._command_queue,
                task_queue=start.queue,
                search_attributes=loaded.search_attributes,
            )
        if start.split is not None:
            engine, loaded = await restore.start_split_run(start, start.split, _started_at())
            return Execution(
                engine,
                self._command_queue,
                task_queue=start.queue,
                search_attributes=loaded.search_attributes,
            )
        if start.prompt is not None:
            return self._start_with_prompt(start, start.prompt)
        prepared = await _prepare_run(start, authorization.signed_start(start, data, _started_at()))
        plan, run = GraphPlan.from_json(prepared.plan), RunId(workflow.info().workflow_id)
        start, checked = authorization.authorize_start(start, data, plan.policy, run, _started_at())
        authorization.check_initial_state(start, checked, plan, run)
        try:
            engine = await Engine.begin(
                plan,
                run,
                input_text=_as_text(start.input),
                by=start.by,
                at=_started_at(),
                command=CommandId(start.command) if start.command else None,
                initial_state=initial_state(start.initial_state)
                if start.initial_state is not None
                else None,
                files=start.files,
            )
        except UsageError as error:
            raise application_error(
                error.message, "InvalidStart", FailureDetails(remedy=error.remedy)
            ) from error
        return Execution(
            engine,
            self._command_queue,
            task_queue=start.queue,
            search_attributes=prepared.search_attributes,
        )

    def _start_with_prompt(self, start: StartRun, text: str) -> Execution:
        draft = PromptCarry(
            input=_as_text(start.input),
            files=start.files,
            by=start.by,
            reader=start.reader,
            model=start.model,
            command=CommandId(start.command) if start.command else None,
        )
        run = RunId(workflow.info().workflow_id)
        engine = Engine.begin_with_prompt(
            run, text, draft, registry=start.registry, at=_started_at()
        )
        # The validation of the definition reports whether the server has the search attributes.
        return Execution(
            engine, self._command_queue, task_queue=start.queue, search_attributes=False
        )

    def _continue(self, data: Any) -> Execution:
        carry = read_carry(data)
        journal = Journal.from_carry(CrewState.from_json(carry.state), carry.batch)
        plan = GraphPlan.from_json(carry.plan) if carry.plan else NO_PLAN
        engine = Engine(plan, journal, carry.prompt)
        engine.at = at = _started_at()
        self._command_queue[:0] = [
            *(
                QueuedCommand(name, InvalidPayload(reason), at)
                for name, reason in carry.unreadable_commands
            ),
            *(QueuedCommand(name, content, at) for name, content in carry.command_queue),
        ]
        return Execution(
            engine,
            self._command_queue,
            task_queue=carry.task_queue,
            search_attributes=carry.search_attributes,
            responses=Responses(
                Response.from_json(carry.response) if carry.response else None,
                journal.state.conversation.message
                if journal.state.conversation is not None
                else "",
                position=journal.state.position,
            ),
        )

    # -- commands ----------------------------------------------------------------------------

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """Queues every signal, known or not: the journal records its effect or its rejection."""
        signals = unpack_signals(args) if name == PACKED_SIGNALS else [(name, args)]
        self._command_queue += [receive_signal(each, content) for each, content in signals]

    @workflow.update(name="ask", unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def ask(self, raw: RawValue) -> dict[str, Any]:
        """Sends the run a message, and returns its result; see `AskRun` and `RunResult`.

        A run whose start fails ends without a result: the client then reads how it ended.
        """
        self._waiting_asks += 1
        try:
            return await self._ask(raw)
        finally:
            self._waiting_asks -= 1

    @ask.validator
    def check_ask(self, raw: RawValue) -> None:
        """Rejects an update that is no `AskRun`, or one client too many; see `check_update`."""
        if self._waiting_asks >= MAX_ASKS:
            raise application_error(
                f"{MAX_ASKS} clients wait for the run's result by 'ask', which is the limit",
                BUSY,
                FailureDetails(
                    remedy="Send the signal 'message', and wait for the result of the workflow."
                ),
            )
        self._check_update("ask", [raw])

    @workflow.update(name=REQUEST_MERGE, unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def request_merge(self, raw: RawValue) -> dict[str, Any]:
        """Answers a run that asks this one to coordinate a run merge, or to freeze for it."""
        content = read_client_args([raw])
        request = self._ready().run_merge.add_request(content["merge"], RunId(content["run"]))
        await workflow.wait_condition(lambda: request.answer is not None or self._has_ended())
        if request.answer is None:
            raise closing_error()
        return request.answer.to_json()

    @request_merge.validator
    def check_request_merge(self, raw: RawValue) -> None:
        """Rejects an update that no run sent, so that it is not in the history."""
        execution = self._execution
        if execution is None or self._has_ended() or execution.run_merge.is_full:
            raise closing_error()
        content = read_client_args([raw])
        try:
            check_request(execution.engine, content)
        except CrewlogError as error:
            raise failure(error) from error

    @workflow.update(dynamic=True)
    async def on_update(self, name: str, args: Sequence[RawValue]) -> dict[str, Any]:
        """Applies a command of `wire.COMMANDS`, and returns its result."""
        return await self._update(name, args)

    @on_update.validator
    def check_update(self, name: str, args: Sequence[RawValue]) -> None:
        """Rejects an update that is no valid command, and any update while the execution closes."""
        if name not in UPDATES:
            error = CommandRejected(
                f"there is no update {name!r}", remedy=f"Updates: {', '.join(UPDATES)}."
            )
            raise failure(error)
        self._check_update(name, args)

    def _check_update(self, name: str, args: Sequence[RawValue]) -> None:
        if self._is_closing():
            raise closing_error()
        try:
            data = read_client_args(args)
            parse_command(name, data)
        except CrewlogError as error:
            raise failure(error) from error

    async def _update(self, name: str, args: Sequence[RawValue]) -> dict[str, Any]:
        """Queues a command, and waits for its outcome."""
        incoming = receive_command(name, args)
        incoming.arrived_at, incoming.is_update = now(), True
        self._command_queue.append(incoming)
        await workflow.wait_condition(lambda: incoming.outcome is not None)
        match incoming.outcome:
            case Applied(result):
                await self._store_permissions(incoming, result)
                return result.model_dump(mode="json")
            case Failed(error, command_hash):
                raise failure(error, command_hash)
            case _:
                raise closing_error()

    async def _store_permissions(self, incoming: QueuedCommand, result: CommandResult) -> None:
        """Stores a change of permissions before its command gets its result.

        Activities read the permissions from the store before a call starts: after the result, no
        call starts without them. The stored policy also authorizes forks and replacements.
        """
        is_change = isinstance(result, ChangeResult) and not result.swap and not incoming.is_dry_run
        # A rollback of a signed run may lead to another policy.
        is_signed_rollback = incoming.name == "rollback" and incoming.authorization is not None
        if not (is_change or is_signed_rollback or incoming.name == "set_permission"):
            return
        if self._execution is None:
            return
        if isinstance(result, ChangeResult) and result.merge:
            # The loop stores the request, and then sends the merge notification.
            await self._execution.writer.wait_until_stored(result.position)
        else:
            await self._execution.writer.flush()

    async def _ask(self, raw: RawValue) -> dict[str, Any]:
        data = read_client_args([raw])
        command = parse_command("ask", data)
        if isinstance(command, AskRun) and command.text:
            message = QueuedCommand("message", data, now(), now(), "ask")
            self._command_queue.append(message)
            await workflow.wait_condition(lambda: message.outcome is not None or self._has_ended())
            if message.error is not None:
                raise failure(message.error)
        else:
            await self._check_view_right(QueuedCommand("ask", data, now(), now(), is_update=True))
        if not self._is_conversation():  # a run with a prompt becomes one when it has its crew
            await workflow.wait_condition(lambda: self._has_ended() or self._is_conversation())
        if self._is_conversation():
            return await self._wait_for_response(
                command.id if isinstance(command, AskRun) else "", data
            )
        ended = self._execution.ended if self._execution is not None else None
        if ended is None:
            raise closing_error()
        if ended.result is None:
            raise application_error(ended.error, ended.error_type or FAILED)
        return ended.result.model_dump(mode="json")

    def _is_conversation(self) -> bool:
        engine = self._execution.engine if self._execution is not None else None
        return (
            engine is not None and not engine.prompt.is_active and engine.exchanges.is_conversation
        )

    async def _wait_for_response(self, command: str, data: Any) -> dict[str, Any]:
        """The response to a message; for a command without text, that of the current exchange."""
        execution = self._ready()
        message = command if isinstance(data, dict) and data.get("text") else ""  # pyright: ignore[reportUnknownMemberType]

        def find_response() -> Response | None:
            engine = execution.engine
            if message:
                return execution.responses.response_to(engine, message)
            return execution.responses.last(engine) if engine.state.is_conversation_idle else None

        try:
            await workflow.wait_condition(lambda: find_response() is not None or self._has_ended())
            response = find_response()
        except CommandRejected as error:
            raise failure(error) from error
        if response is None and execution.ended is not None:
            raise failure(missing_response_error(execution.engine.state.run))
        if response is None:
            raise closing_error()
        return results.exchange_result(execution.engine, response).model_dump(mode="json")

    async def _check_view_right(self, incoming: QueuedCommand) -> None:
        """Waits until the loop has authorized a client to wait for the result.

        Raises:
            ApplicationError: the policy does not permit it.
        """
        self._command_queue.append(incoming)
        await workflow.wait_condition(lambda: incoming.outcome is not None or self._has_ended())
        if incoming.error is not None:
            raise failure(incoming.error)

    def _has_ended(self) -> bool:
        """Whether the run has ended, or this execution is closing."""
        return self._is_closing() or (
            self._execution is not None and self._execution.ended is not None
        )

    def _is_closing(self) -> bool:
        return self._execution is not None and self._execution.context.is_closing

    # -- queries -----------------------------------------------------------------------------

    @workflow.query(name="status")
    def status(self) -> dict[str, Any]:
        """The run and its steps: a `RunView`."""
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
        """The plan and its drawing: a `GraphView`."""
        return results.graph_view(self._ready().engine).model_dump(mode="json")

    @workflow.query(name="interrupts")
    def interrupts(self) -> list[dict[str, Any]]:
        """The open interrupts: `InterruptView`s."""
        views = results.interrupt_views(self._ready().engine)
        return [each.model_dump(mode="json") for each in views]

    @workflow.query(name="journal")
    def journal(self, raw: RawValue = NO_ARGUMENT) -> dict[str, Any]:
        """A `Page` of the journal: a `JournalPage`."""
        return results.journal_page(self._ready().engine, _page(raw)).model_dump(mode="json")

    @workflow.query(name="checkpoints")
    def checkpoints(self, raw: RawValue = NO_ARGUMENT) -> dict[str, Any]:
        """A `Page` of the checkpoints: a `CheckpointPage`."""
        return results.checkpoint_page(self._ready().engine, _page(raw)).model_dump(mode="json")

    @workflow.query(name="permissions")
    def permissions(self, raw: RawValue = NO_ARGUMENT) -> dict[str, Any]:
        """The permissions in force: a `PermissionsPage` for a `PermissionsQuery`."""
        page = results.permissions_page(self._ready().engine, _permissions_query(raw))
        return page.model_dump(mode="json")

    @workflow.query(name="conversation")
    def conversation(self) -> dict[str, Any]:
        """The conversation and its last response: a `ConversationView`."""
        execution = self._ready()
        if not self._is_conversation():
            raise application_error(
                "the run is not a conversation",
                "UsageError",
                FailureDetails(remedy="Send the query `state` or `graph` instead."),
            )
        return conversation_view(execution.engine, execution.responses).model_dump(mode="json")

    @workflow.query(name=PAYLOAD_HASH)
    def payload_hash(self, raw: RawValue = NO_ARGUMENT) -> str:
        """The hash of the argument, which proves that a worker can read it."""
        return payload_hash(raw.payload)

    def details(self) -> str:
        """The details of the run in the Web UI, in Markdown; empty while it starts."""
        if self._execution is None:
            return ""
        execution = self._execution
        return run_markdown(execution.engine, execution.calls_in_flight, execution.drained_steps)

    def _ready(self) -> Execution:
        if self._execution is None:
            raise application_error(
                "the run is starting", "Starting", FailureDetails(remedy="Send the query again.")
            )
        return self._execution


def closing_error() -> ApplicationError:
    """The error for an update while the run continues as new."""
    return application_error(
        "the run continues as new",
        CLOSING,
        FailureDetails(remedy="Send the update again, with the same id."),
    )


def failure(error: CrewlogError, command_hash: str = "") -> ApplicationError:
    """The failure of an update whose command was rejected.

    Args:
        error: The error.
        command_hash: The hash of the command, if its outcome is kept.
    """
    details = FailureDetails(place=error.place, remedy=error.remedy, command_hash=command_hash)
    return application_error(error.message, type(error).__name__, details)


def _check_first_start() -> None:
    """Checks that the server does not start the run again: that start would be parsed as a carry.

    Raises:
        ApplicationError: the run has a cron schedule or a retry policy.
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


def _started_at() -> int:
    # The time of the task and `start_time` may differ in a replay if a query splits the first task.
    return int(workflow.info().workflow_start_time.timestamp() * 1000)


def _page(raw: RawValue) -> Page:
    if raw is NO_ARGUMENT:
        return Page()
    try:
        return Page.model_validate(read_args([raw]))
    except ValidationError as error:
        raise application_error(
            'a page must be {"after": position, "limit": 1 to 1000}',
            "BadPage",
            FailureDetails(remedy="Send such a page, or none for the first one."),
        ) from error


def _permissions_query(raw: RawValue) -> PermissionsQuery:
    if raw is NO_ARGUMENT:
        return PermissionsQuery()
    try:
        return PermissionsQuery.model_validate(read_args([raw]))
    except ValidationError as error:
        text = validation_error_text(error, "its content")
        raise application_error(
            f"permissions: {text}",
            "UsageError",
            FailureDetails(remedy="docs/wire.md has the fields."),
        ) from error


def _parse_start(data: Any) -> StartRun:
    if isinstance(data, InvalidPayload):
        raise application_error(data.reason, "InvalidStart")
    try:
        return StartRun.model_validate(data)
    except ValidationError as error:
        raise application_error(
            f"the input of the run is not valid: {validation_error_text(error, 'its input')}",
            "InvalidStart",
            FailureDetails(remedy="docs/wire.md has the fields."),
        ) from error


async def _prepare_run(start: StartRun, use: SignedStart) -> PrepareRunResult:
    run = RunId(workflow.info().workflow_id)
    task = PrepareRun(run=run, crew=start.crew, model=start.model, use=use)
    return await execute_local_activity(PREPARE_RUN, task, PrepareRunResult)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
