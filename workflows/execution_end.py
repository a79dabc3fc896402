"""The end of an execution: the result of the run, or the carry for the next execution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from temporalio import workflow

from crewlog.ids import RESERVED, CommandId
from crewlog.reporting.live_run.results import ordered_outputs
from crewlog.reporting.wire_views import rename_view
from crewlog.state import journal as j
from crewlog.state.calls import END_RUN, EndRun, EndRunResult
from crewlog.state.carry import Carry
from crewlog.state.journal import Batch
from crewlog.state.model import ListElement, Output
from crewlog.wire import ArtifactResult, RunResult
from crewlog.workflows.activity_options import STORE_OPTIONS
from crewlog.workflows.commands.processor import CommandProcessor
from crewlog.workflows.commands.queue import InvalidPayload, decode_payload
from crewlog.workflows.context import ExecutionContext
from crewlog.workflows.conversation import Responses
from crewlog.workflows.graph_changes import GraphChanges
from crewlog.workflows.persistence import JournalWriter
from crewlog.workflows.run_merge import RunMerge
from crewlog.workflows.visibility import Visibility

CARRIED_BYTES = 8 * 1024
"""Bytes of unstored entries that a swap carries at most. To store them would double its time."""

CANCEL = f"{RESERVED}cancel"
"""The id of the `stop` command that stands for Temporal's cancel."""

LATE_COMMAND_ROUNDS = 10
"""The most rounds of late commands that are rejected and stored before the run ends."""


@dataclass(frozen=True)
class Ended:
    """The end of an execution: a result, a carry, or an error."""

    result: RunResult | None = None
    carry: Carry | None = None
    error: str = ""
    error_type: str = ""
    cancelled: bool = False
    """Whether Temporal's cancel stopped the run, in this execution or an earlier one."""


class ExecutionEnd:
    """Ends an execution.

    Args:
        context: What the parts of the execution share.
        commands: Rejects late commands.
        writer: Stores the journal.
        run_merge: The run's part in run merges.
        visibility: Updates the search attributes.
    """

    def __init__(
        self,
        context: ExecutionContext,
        commands: CommandProcessor,
        writer: JournalWriter,
        run_merge: RunMerge,
        visibility: Visibility,
    ) -> None:
        self._context = context
        self._commands = commands
        self._writer = writer
        self._run_merge = run_merge
        self._visibility = visibility
        self.ended: Ended | None = None
        """The end, for handlers that run while the last entries are stored."""

    async def close(self) -> Ended:
        """Stores the end of the journal, rejects late commands, and makes the result."""
        self._commands.requeue_deferred()
        await self._commands.apply_all()
        self._commands.unauthenticated.record(self._context.engine)
        await self._writer.finish_batch()  # nothing is stored after the end of a run
        stored = await self._end_run()
        self.ended = self._ended(stored)
        for _ in range(LATE_COMMAND_ROUNDS):
            # Handlers wait for the outcome of their commands.
            await workflow.wait_condition(
                lambda: bool(self._commands.queue) or workflow.all_handlers_finished()
            )
            if not self._commands.queue:
                break
            position = self._context.engine.state.position
            await self._commands.apply_all()
            if (
                position == self._context.engine.state.position
                and self._commands.unauthenticated.unrecorded
            ):
                continue  # counted signals, which have no outcome
            self._commands.unauthenticated.record(self._context.engine)
            stored = await self._end_run()
        return self._ended(stored)

    def _ended(self, stored: EndRunResult) -> Ended:
        state = self._context.engine.state
        if state.status == "failed":
            return Ended(error=state.error, error_type=state.error_type)

        def value(output: Output | ListElement) -> Any:
            if isinstance(output, Output) and output.elements:
                return [value(part) for part in output.elements]
            return stored.outputs.get(output.body) if output.body else output.value

        cancel = state.commands.get(CommandId(CANCEL))
        return Ended(
            cancelled=state.status == "stopped" and cancel is not None and cancel.ok,
            result=RunResult(
                run=state.run,
                status=state.status,
                outputs={
                    agent: {key: value(output) for key, output in outputs.items()}
                    for agent, outputs in ordered_outputs(
                        state.agent_outputs, self._context.engine.plan
                    )
                },
                artifacts={
                    name: ArtifactResult.model_validate(artifact)
                    for name, artifact in stored.artifacts.items()
                },
                flags={str(k): v for k, v in state.flags.items()},
                steps=state.steps,
                executions=state.execution,
                usage=state.usage,
                total=state.total_usage,
                position=state.position,
                ms=self._context.engine.at - state.started_at,
                warning=state.warning,
                end_reason=state.end_reason,
                is_idle=state.status == "completed" and state.idle is not None,
                surviving_run=state.surviving_run,
                renames=tuple(map(rename_view, state.surviving_run_renames)),
            ),
        )

    async def _end_run(self) -> EndRunResult:
        state = self._context.engine.state
        bodies = {
            body
            for outputs in state.agent_outputs.values()
            for output in outputs.values()
            for body in output.bodies
        }
        result: EndRunResult = await workflow.execute_activity(
            END_RUN,
            EndRun(
                run=state.run,
                batch=self._context.engine.journal.batch(),
                state=state.to_json(),
                outputs=tuple(sorted(bodies)),
                notifications=self._run_merge.take_notifications(state),
            ),
            result_type=EndRunResult,
            summary="stores the end",
            **STORE_OPTIONS,
        )
        self._context.engine.journal.mark_stored(state.position)
        self._visibility.update()
        return result

    async def continue_as_new(self, changes: GraphChanges, responses: Responses) -> Ended:
        """Makes the carry for the next execution; stores or carries the rest of the journal."""
        info = workflow.info()
        if changes.is_swapped:
            because = "its graph was changed"
        elif info.is_continue_as_new_suggested():
            because = "the server suggested it"
        elif info.is_target_worker_deployment_version_changed():
            because = "another build of its workers is current"
        else:
            because = "its history has reached its limit"
        self._commands.unauthenticated.record(self._context.engine)
        self._context.engine.record(
            j.ExecutionContinuedAsNew(
                execution=self._context.engine.state.execution + 1, because=because
            )
        )
        batch = self._context.engine.journal.unpacked_batch()
        is_small = self._context.engine.journal.unstored_bytes <= CARRIED_BYTES
        # The stored policy authorizes forks of the run, so a new one is stored at once.
        if not (changes.is_swapped and is_small) or changes.has_new_policy:
            await self._writer.flush(snapshot=True)
            batch = Batch.EMPTY
        self._commands.queue[:0] = self._commands.take_deferred()
        for each in self._commands.queue:
            decode_payload(each)
        has_plan = bool(self._context.engine.plan.nodes)
        return Ended(
            carry=Carry(
                plan=self._context.engine.plan.to_json() if has_plan else {},
                prompt=self._context.engine.prompt.draft,
                state=self._context.engine.state.to_json(),
                batch=batch,
                command_queue=tuple(
                    (i.name, i.data)
                    for i in self._commands.queue
                    if not isinstance(i.data, InvalidPayload)
                ),
                unreadable_commands=tuple(
                    (i.name, i.data.reason)
                    for i in self._commands.queue
                    if isinstance(i.data, InvalidPayload)
                ),
                task_queue=self._context.task_queue,
                search_attributes=self._context.search_attributes,
                response=responses.carry(self._context.engine),
            )
        )
