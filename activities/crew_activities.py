"""All activities of a run, as one object that a worker registers.

activities = CrewActivities(store, workspace=Path("workspace"))
Worker(..., activities=activities.all())
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from temporalio import activity

from crewlog.activities.artifacts import Artifacts, read_artifact_results
from crewlog.activities.batches import Batches, append_batch
from crewlog.activities.built_in_tools import BuiltInTools
from crewlog.activities.changes import ChangePreparer
from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.clock import Clock
from crewlog.activities.definitions import Definitions
from crewlog.activities.executions import Executions
from crewlog.activities.failures import CHANGE_REJECTED, Effect, convert_errors, to_failure
from crewlog.activities.files import Files
from crewlog.activities.heartbeats import Heartbeat, send_heartbeats
from crewlog.activities.hydrator import Hydrator
from crewlog.activities.lifecycle import end_run, prepare_run
from crewlog.activities.memory_tools import MemoryTools
from crewlog.activities.model_calls import ModelCalls
from crewlog.activities.prompt_compiler import compile_prompt
from crewlog.activities.restore import StateLoader
from crewlog.activities.run_merge import (
    RunMerges,
    send_notifications,
)
from crewlog.activities.server import Server
from crewlog.activities.tool_calls import ToolCalls
from crewlog.activities.tool_loader import ToolLoader
from crewlog.definition.model import CrewDefinition
from crewlog.errors import NotPermitted
from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.payload_storage.file_store import FileStore
from crewlog.state.calls import (
    ASK_OTHER_RUN,
    CALL_MODEL,
    CALL_TOOL,
    CHECK_ARGUMENTS,
    COMPILE_PROMPT,
    DELETE_REPLACED_RUN,
    END_RUN,
    FIND_COMMAND,
    PREPARE_CHANGE,
    PREPARE_MERGE,
    PREPARE_RUN,
    READ_OTHER_RUN,
    READ_TIME,
    RECORD_USE,
    RESTORE_STATE,
    STORE_BATCH,
    AskOtherRun,
    AskOtherRunResult,
    CallModel,
    CallModelResult,
    CallTool,
    CallToolResult,
    CheckArguments,
    CheckArgumentsResult,
    CompilePrompt,
    CompilePromptResult,
    DeleteReplacedRun,
    EndRun,
    EndRunResult,
    FindCommand,
    FindCommandResult,
    PrepareChange,
    PrepareChangeResult,
    PrepareMerge,
    PrepareMergeResult,
    PrepareRun,
    PrepareRunResult,
    ReadOtherRun,
    ReadOtherRunResult,
    RecordUse,
    RestoreState,
    RestoreStateResult,
    StoreBatch,
    StoreBatchResult,
)
from crewlog.store.checkpoints import prune
from crewlog.store.journal_reader import find_command
from crewlog.store.protocol import Snapshot, Store

if TYPE_CHECKING:
    from crewlog.activities.mcp_tools import McpTools

Call = TypeVar("Call", CallModel, CallTool)
R = TypeVar("R", CallModelResult, CallToolResult)


def _mcp_tools(store: Store) -> McpTools:
    from crewlog.activities.mcp_tools import McpTools  # noqa: PLC0415 - half a second of a start

    return McpTools(store)


def _check_own() -> None:
    """Checks that an activity is local: any workflow may schedule an ordinary one.

    Raises:
        ApplicationError: it is not local.
    """
    if not activity.info().is_local:
        raise to_failure(NotPermitted("the start of a run is checked in a local activity alone"))


class CrewActivities:
    """The activities of a worker, with the caches that its calls share.

    Args:
        store: The store.
        workspace: The directory with one directory for each run.
        models: The factory of chat models.
        tools: The loader of tools.
        server: The Temporal server.
        max_entries: The number of links and messages that the worker caches.
        files: The store of the files of messages.
    """

    def __init__(
        self,
        store: Store,
        *,
        workspace: Path,
        models: ModelFactory | None = None,
        tools: ToolLoader | None = None,
        server: Server | None = None,
        max_entries: int = 100_000,
        files: FileStore | None = None,
    ) -> None:
        self._store = store
        server = self._server = server or Server()
        self._definitions = Definitions(store)
        self._executions = Executions(store, server)
        self._batches = Batches(store)
        registry = self._registry = tools or ToolLoader(mcp=lambda: _mcp_tools(store))
        self._loader = StateLoader(store, self._definitions, server, self._executions)
        self._memory = MemoryTools(store)
        built_in = BuiltInTools(self._memory)
        hydrator = self._hydrator = Hydrator(store, max_entries)
        self._artifact_cache = Artifacts(store, hydrator)
        models = models or ModelFactory()
        self._chat_models = models
        self._preparer = ChangePreparer(store, self._definitions, models, server)
        self._merges = RunMerges(store, self._definitions, server)
        message_files = Files(files)
        self._models = ModelCalls(
            store,
            self._definitions,
            hydrator,
            models,
            registry,
            built_in,
            self._artifact_cache,
            message_files,
        )
        self._tools = ToolCalls(
            store,
            self._definitions,
            hydrator,
            registry,
            built_in,
            workspace,
            self._artifact_cache,
            message_files,
        )

    async def close(self) -> None:
        """Closes the sessions with MCP servers."""
        await self._registry.close()

    def all(self) -> Sequence[Callable[..., Any]]:
        """The activities, for a worker."""
        return [
            self.prepare_run,
            self.restore_state,
            self.find_command,
            self.delete_replaced_run,
            self.read_time,
            self.record_use,
            self.compile_prompt,
            self.prepare_change,
            self.ask_other_run,
            self.read_other_run,
            self.prepare_merge,
            self.call_model,
            self.call_tool,
            self.check_arguments,
            self.store_batch,
            self.end_run,
        ]

    @activity.defn(name=PREPARE_RUN)
    async def prepare_run(self, task: PrepareRun) -> PrepareRunResult:
        """Resolves and validates the start of a run."""
        with convert_errors():
            if task.use is not None:
                _check_own()
            async with send_heartbeats():
                return await prepare_run(
                    task,
                    self._store,
                    self._definitions,
                    self._server,
                    self._executions,
                )

    @activity.defn(name=RESTORE_STATE)
    async def restore_state(self, task: RestoreState) -> RestoreStateResult:
        """Loads the state and the plan of a run at a checkpoint."""
        run = RunId(activity.info().workflow_id or "")
        with convert_errors():
            if task.use is not None or task.reopen or task.split_after is not None:
                _check_own()
            async with send_heartbeats():
                batch = await self._batches.unpack_batch(task.batch)
                if task.use is None:
                    await self._executions.check(run, task.against, batch)
                return await self._loader.load(task, run, batch)

    @activity.defn(name=FIND_COMMAND)
    async def find_command(self, task: FindCommand) -> FindCommandResult:
        """Finds the outcome of a command in the stored journal."""
        with convert_errors(is_final=False):
            await self._executions.check(task.run)
            return FindCommandResult(
                outcome=await find_command(self._store, task.run, task.command)
            )

    @activity.defn(name=CHECK_ARGUMENTS)
    async def check_arguments(self, task: CheckArguments) -> CheckArgumentsResult:
        """Validates the edited arguments of a tool call."""
        with convert_errors():
            async with send_heartbeats():
                return CheckArgumentsResult(fault=await self._tools.check_arguments(task))

    @activity.defn(name=DELETE_REPLACED_RUN)
    async def delete_replaced_run(self, task: DeleteReplacedRun) -> None:
        """Deletes the rows and the claims of an ended run whose id a new run has."""
        with convert_errors():
            _check_own()
            await self._executions.check_replacement(task)
            await self._store.reject_executions(task.run, task.executions)
            # The client that replaces a run has waited for the forks of it that were starting.
            await self._store.delete([task.run], Clock().now(), ignore_pending_forks=True)

    @activity.defn(name=READ_TIME)
    async def read_time(self) -> int:
        """Returns the time, in milliseconds since the epoch, for code that is replayed."""
        return Clock().now()

    @activity.defn(name=RECORD_USE)
    async def record_use(self, task: RecordUse) -> bool:
        """Records the use of a start or a command; false if another execution has used it."""
        with convert_errors():
            _check_own()
            return await self._executions.record_use(task)

    @activity.defn(name=COMPILE_PROMPT)
    async def compile_prompt(self, task: CompilePrompt) -> CompilePromptResult:
        """Reads the prompt of a run with the forms, or with one call of a model."""
        clock = Clock()
        with convert_errors() as effect:
            async with send_heartbeats():
                batch = await self._batches.unpack_batch(task.batch)
                run = RunId(activity.info().workflow_id or "")
                await self._executions.check(run, batch=batch)
                result = await compile_prompt(
                    run, task, batch, self._store, self._chat_models, effect
                )
                return result.model_copy(update={"at": clock.now()})

    @activity.defn(name=PREPARE_CHANGE)
    async def prepare_change(self, task: PrepareChange) -> PrepareChangeResult:
        """Prepares the definition and the plan of a change, with at most one call of a model."""
        with convert_errors(rejection_log=CHANGE_REJECTED) as effect:
            if task.after is not None:
                _check_own()
            async with send_heartbeats():
                if not (task.prompt or activity.info().is_local):
                    await self._executions.check_task_queue(task.run, task.base)
                return await self._preparer.run(task, effect)

    @activity.defn(name=ASK_OTHER_RUN)
    async def ask_other_run(self, task: AskOtherRun) -> AskOtherRunResult:
        """Asks the other run of a run merge to coordinate it, or to freeze."""
        with convert_errors():
            async with send_heartbeats():
                await self._executions.check(task.run, task.definition)
                return await self._merges.ask_other_run(task)

    @activity.defn(name=READ_OTHER_RUN)
    async def read_other_run(self, task: ReadOtherRun) -> ReadOtherRunResult:
        """Loads the last state of the other run of a run merge."""
        with convert_errors():
            async with send_heartbeats():
                await self._executions.check(task.run, task.definition)
                return await self._run_merges().read_other_run(task)

    @activity.defn(name=PREPARE_MERGE)
    async def prepare_merge(self, task: PrepareMerge) -> PrepareMergeResult:
        """Prepares the definition and the plan of a run merge."""
        with convert_errors():
            async with send_heartbeats():
                if not activity.info().is_local:
                    await self._executions.check_task_queue(task.run, task.base)
                return await self._run_merges().prepare(task)

    def _run_merges(self) -> RunMerges:
        # A local activity must not wait: the workflow answers no query meanwhile.
        return replace(self._merges, waits_for_first_batch=not activity.info().is_local)

    @activity.defn(name=CALL_MODEL)
    async def call_model(self, task: CallModel) -> CallModelResult:
        """Calls the model of an agent with its view."""
        return await self._call(task, self._models.run)

    @activity.defn(name=CALL_TOOL)
    async def call_tool(self, task: CallTool) -> CallToolResult:
        """Makes one tool call."""
        return await self._call(task, self._tools.run)

    async def _call(self, task: Call, run: Callable[[Call, Effect, Heartbeat], Awaitable[R]]) -> R:
        clock = Clock()
        with convert_errors() as effect:
            async with send_heartbeats() as heartbeat:
                filled = await self._batches.unpack_input(task)
                await self._executions.check(filled.run, filled.definition, filled.batch)
                result = await run(filled, effect, heartbeat)
                self._batches.add_body(result.hash, result.body)
                return result.model_copy(update={"at": clock.now(), "delay": clock.delay})

    @activity.defn(name=STORE_BATCH)
    async def store_batch(self, task: StoreBatch) -> StoreBatchResult | None:
        """Stores a batch and a snapshot, and then sends merge notifications."""
        with convert_errors(is_final=False):
            async with send_heartbeats():
                await self._store_batch(task)
                return (
                    await send_notifications(task.run, task.notifications, self._server)
                    if task.notifications
                    else None
                )

    async def _store_batch(self, task: StoreBatch) -> None:
        batch = await self._batches.unpack_batch(task.batch)
        await self._executions.check(task.run, task.definition, batch)
        if batch.entries:
            await append_batch(self._store, task.run, batch)
            # The next calls need not read these entries from the store.
            self._hydrator.add_batch(task.run, batch)
        if task.state is not None:
            position = batch.last
            await self._store.put_snapshot(task.run, Snapshot(position=position, state=task.state))
            if (crew := await self._find_crew(task.state)) is not None:
                await prune(self._store, task.run, crew.checkpoints, position)

    @activity.defn(name=END_RUN)
    async def end_run(self, input: EndRun) -> EndRunResult:
        """Stores the last batch of a run, and fetches the bodies of its result."""
        with convert_errors(is_final=False):
            async with send_heartbeats():
                batch = await self._batches.unpack_batch(input.batch)
                definition = str(input.state.get("definition", ""))
                await self._executions.check(input.run, definition, batch)
                if input.outputs:
                    await self._executions.check_task_queue(input.run)
                crew = await self._find_crew(input.state)
                artifacts: dict[str, dict[str, Json]] = {}
                if crew is not None:
                    artifacts = await read_artifact_results(
                        self._artifact_cache, crew, input, batch
                    )
                result = await end_run(input, batch, self._store, artifacts)
                if batch.entries and crew is not None:
                    await prune(self._store, input.run, crew.checkpoints, batch.last)
                    await self._memory.sweep(crew)
                await send_notifications(input.run, input.notifications, self._server)
                return result

    async def _find_crew(self, state: dict[str, Json]) -> CrewDefinition | None:
        """Returns the crew of a state; None: its prompt did not compile to one."""
        definition = str(state.get("definition", ""))
        return await self._definitions.get(ContentHash(definition)) if definition else None
