"""The client: start crews, find runs, register definitions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from pydantic import ValidationError
from temporalio.client import Client as TemporalClient
from temporalio.client import (
    ScheduleActionStartWorkflow,
    WithStartWorkflowOperation,
    WorkflowExecution,
    WorkflowExecutionDescription,
)
from temporalio.common import SearchAttributeKey, WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from crewlog import wire
from crewlog.authority.signatures import SCHEDULE
from crewlog.client import asking, beginnings
from crewlog.client.approvals import with_approved
from crewlog.client.catalog import Catalog, Crew, definition_of, is_file, no_crew
from crewlog.client.deletion import Deleting, Deletion, check_ended
from crewlog.client.gateway import CALL_LIMIT, STATUS_NAMES
from crewlog.client.graphs import Graph, family_of, living
from crewlog.client.memories import CrewMemory
from crewlog.client.pending_calls import calls_of, descriptions_of, doing
from crewlog.client.quotas import with_used_up
from crewlog.client.run import Run
from crewlog.client.run_summary import RunSummary
from crewlog.client.schedules import Schedules, scheduled_start
from crewlog.client.session import LOG, POLLED_PAUSE, Endpoints, LazyStore, Session
from crewlog.client.showing import with_shown
from crewlog.client.stalled import stalled
from crewlog.client.start_arguments import check_crew, check_existing, check_text
from crewlog.client.starting import (
    CREW_MEMO,
    begin,
    check_attached,
    check_start,
    checked,
    id_taken,
    policy_of_crew,
    policy_of_run,
    start_options,
    start_workflow,
    suffix,
)
from crewlog.client.watching import Ended, Watch
from crewlog.definition.load import check_model, text_of
from crewlog.definition.model import CrewDefinition
from crewlog.dev.services import Services
from crewlog.dev.supervisor import Supervisor
from crewlog.errors import CrewlogError, RunAlreadyExists, RunNotFound, ServiceError, UsageError
from crewlog.ids import CommandId, CrewName, LogName, RunId
from crewlog.model import Json
from crewlog.payload_storage.file_store import FileInput
from crewlog.prompt.names import crew_name
from crewlog.prompt.registry import Registry
from crewlog.reporting.events.filters import EventFilter
from crewlog.reporting.events.view import Event
from crewlog.reporting.inbox import InboxInterruptView, inbox_interrupt_view
from crewlog.run_status import ENDED, OPEN
from crewlog.state.model import Interrupt
from crewlog.store.merged_runs import check_not_merged
from crewlog.store.protocol import CatalogRow, CrewRow, RunRow
from crewlog.validation_errors import validation_error_text
from crewlog.wire import AskRun, InitialState, RunResult, StartRun

_SOME_TIME = "-2000-01-01T00:00:00Z"
"""The end of the id of any run of a schedule."""
Existing = Literal["reject", "attach", "replace"]
"""What a start does where there is a run of its id."""

_PROSE = (".md", ".txt")
_STATUS = SearchAttributeKey.for_keyword("CrewlogStatus")
_WAITING = SearchAttributeKey.for_keyword("CrewlogWaiting")
_CREW = SearchAttributeKey.for_keyword("CrewlogCrew")


class Client(Session):
    """A connection to the runs of one namespace; `crewlog.connect` makes one.

        async with await crewlog.connect() as client: ...

    Closing it closes the store's connections; Temporal's are closed with the object.
    """

    def __init__(
        self, temporal: TemporalClient, endpoints: Endpoints, store: LazyStore, task_queue: str
    ) -> None:
        super().__init__(temporal, endpoints, store, task_queue)
        self.catalog = Catalog(store.get)
        """What is registered: crews, registries and their parts."""
        self.memory = CrewMemory(store.get, self.catalog, lambda: self.user)
        """What crews remember beyond one run."""
        self.schedules = Schedules(self, self.scheduled)
        """Runs that the server starts by itself."""
        self.report: Callable[[str], None] = LOG.warning
        """Told in a line when the local Temporal server was started again."""
        self._supervisor: Supervisor | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Lets go of connections."""
        if self._supervisor is not None:
            await self._supervisor.close()
        await self._store.close()

    def supervise(self, services: Services) -> None:
        """Starts the local Temporal server again, where it ends, for as long as this is open."""
        self._supervisor = Supervisor(services, self.temporal, lambda text: self.report(text))

    def run(self, id: str) -> Run:
        """The run of that id; nothing is asked yet."""
        return Run(self, RunId(id))

    # -- starting ----------------------------------------------------------------------------

    async def start(
        self,
        crew: Crew | None = None,
        input: Json = "",
        *,
        id: str | None = None,
        by: str | None = None,
        execution_timeout: timedelta | None = None,
        registry: str = "",
        reader: Literal["auto", "forms", "model"] = "auto",
        model: str = "",
        existing: Existing = "reject",
        initial_state: InitialState | None = None,
        files: Sequence[FileInput] = (),
    ) -> Run:
        """Starts a run of a crew.

        Args:
            crew: A registered name; a file (a path, or a text that ends in `.yaml`, `.yml` or
                `.json`, or is an existing file); a definition, as data or as a model; or a prompt:
                a text that has a space and so is no name, or a file of prose (`.md`, `.txt`). What
                a prompt makes runs once it is approved (`Run.interrupts`, `Run.answer`). Left
                out: the default crew.
            input: What the crew is asked to do: a text, or JSON data.
            id: The run's id; by default the crew's name and four characters.
            by: Who starts it; by default the system's user.
            execution_timeout: When Temporal ends the run, whatever it does.
            registry: Of a prompt: the registered registry that says what it may use.
            reader: Of a prompt: who reads it.
            model: The model of every agent of a file or a definition, in the place of those that it
                names. Of a prompt: the model that reads it and that its crew uses, where the prompt
                names none.
            existing: What to do where there is a run of that id, open or closed: refuse; take that
                one as it is, with the crew and the input that it was started with; or end it and
                start anew. The store forgets a replaced run; calls of the new one have the same
                idempotency keys.
            initial_state: Messages and values that are there when it begins; not of a prompt.
            files: Files that the crew is given with the input: paths, bytes, or what `file` keeps.

        Raises:
            RunAlreadyExists: the id is taken, by an open run or a closed one.
            InvalidDefinition: the definition has faults.
            UsageError: there is no crew of that name, or the id cannot be one; or an option would
                have no effect on what is started, or on a run that is there; or the run to be
                replaced was merged into a run that the store has.
            NotPermitted: the policy of the crew, or of a run to be replaced, does not let it.
            TemporalUnavailable: the server is away.
        """
        check_existing(existing, Existing, id)
        crew = await self.catalog.chosen_crew() if crew is None else crew
        name, payload = await self._payload(
            crew,
            input,
            by,
            registry=registry,
            reader=reader,
            model=model,
            initial_state=initial_state,
            files=await self.files().put_all(files) if files else (),
        )
        if id is not None and existing == "replace":
            return await self._replace(checked(id), name, payload, execution_timeout)
        policy = await policy_of_crew(self, payload.crew)
        try:
            run = await begin(self, id, name, payload, execution_timeout, policy=policy)
            return Run(self, run)
        except RunAlreadyExists:
            if id is None or existing != "attach":
                raise
            of_new = {
                "`execution_timeout`": execution_timeout is not None,
                "`registry`": registry,
                "`reader`": reader != "auto",
                "`model`": model,
                "`initial_state`": initial_state is not None,
                "`files`": files,
            }
            check_attached(id, of_new)
            return await self.attached(id)

    async def attached(self, id: str) -> Run:
        """The run that there is under an id, open or closed.

        Raises:
            RunNotFound: there is none.
            RunAlreadyExists: it is a workflow of another type.
        """
        run = checked(id)
        found = (await self.gateway.describe(run)).workflow_type
        if found != wire.WORKFLOW_TYPE:
            raise RunAlreadyExists(f"{run!r} is a workflow of the type {found!r}, not a crew's run")
        return Run(self, run)

    async def _replace(
        self, run: RunId, name: str, payload: StartRun, timeout: timedelta | None
    ) -> Run:
        policy = await policy_of_crew(self, payload.crew)
        try:
            await start_workflow(self, run, name, payload, timeout, policy=policy)
            return Run(self, run)
        except RunAlreadyExists:
            await self.attached(run)
        # Before anything is ended: what would be refused takes no run's place.
        asked = self.signed_start(run, payload.model_copy(update={"replace": True}))
        check_start(await policy_of_run(self, run), run, asked, self.endpoints.namespace)
        await check_not_merged(await self.store(), run, "replace")
        ended = await beginnings.end(self, run)
        await beginnings.await_forks(self, [run])
        # The run does the same when it begins; who follows it may look at the store before.
        with suppress(ServiceError):
            await (await self.store()).truncate_journal(run)
        anew = payload.model_copy(update={"replace": True, "replaced_executions": ended})
        await start_workflow(self, run, name, anew, timeout, again=True)
        return Run(self, run)

    async def ask(
        self,
        crew: Crew,
        input: Json = "",
        *,
        id: str | None = None,
        by: str | None = None,
        to: str = "public",
        timeout: float | None = None,
        execution_timeout: timedelta | None = None,
        registry: str = "",
        reader: Literal["auto", "forms", "model"] = "auto",
        model: str = "",
        tell: asking.Tell | None = None,
    ) -> RunResult:
        """Asks a crew and gives its answer: in one round trip, where the run is quick.

        Where a run of that id is open, it is joined: the input is said to it, and its result is
        the answer. Else it is started.

        Args:
            crew: As for `start`.
            input: What is asked.
            id: The run's id; by default a new one.
            by: Who asks; by default the system's user.
            to: The audience of what is said to a run that is open.
            timeout: Seconds; without it, as long as it takes. The run goes on afterwards.
            execution_timeout: When Temporal ends a run that this starts.
            registry: Of a run that this starts, as for `start`.
            reader: Likewise.
            model: Likewise.
            tell: Told about questions to people that the run waits for meanwhile, each once.

        Raises:
            RunAlreadyExists: the run of that id has ended.
            RunFailed: the run failed, or was ended from outside.
            CommandRejected: the open run has no such audience.
            AnswerRequired: it did not end in time, since it waits for people; it is a TimeoutError.
            WaitTimeout: it did not end in time; it goes on; it is a TimeoutError, too.
            InvalidDefinition, UsageError, TemporalUnavailable: as for `start`.
        """
        number = CommandId(f"ask-{suffix(16)}")
        name, start = await self._payload(
            crew, input, by, registry=registry, reader=reader, model=model, command=number
        )
        run = checked(id) if id is not None else RunId(f"{name}-{suffix(8)}")
        command = AskRun(
            id=number,
            by=start.by,
            text=input if isinstance(input, str) else json.dumps(input, ensure_ascii=False),
            to=LogName(to),
        )

        def operation() -> WithStartWorkflowOperation[Any, Any]:
            return WithStartWorkflowOperation(
                wire.WORKFLOW_TYPE,
                self.signed_start(run, start),
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                **start_options(self, run, name, start, execution_timeout),
            )

        looking = asyncio.create_task(asking.tell_questions(self.run(run), tell)) if tell else None
        try:
            async with asyncio.timeout(timeout):
                return await self._ask(run, command, operation)
        except TimeoutError as error:
            raise await asking.late(self.run(run), timeout or 0) from error
        finally:
            if looking is not None:
                looking.cancel()

    async def scheduled(
        self, id: RunId, crew: Crew, input: Json, *, by: str | None, **options: Any
    ) -> tuple[str, StartRun, ScheduleActionStartWorkflow]:
        """What a schedule does whose runs' ids begin so: the crew's name, the start, the action."""
        crew_name, start = await self._payload(crew, input, by, **options)
        how = start_options(self, id, crew_name, start, None)
        content = self.signed_start(id, start, SCHEDULE)
        policy = await policy_of_crew(self, start.crew)
        check_start(policy, f"{id}{_SOME_TIME}", content, self.endpoints.namespace)
        return crew_name, start, scheduled_start(how, content)

    async def _ask(
        self,
        run: RunId,
        command: AskRun,
        start: Callable[[], WithStartWorkflowOperation[Any, Any]],
    ) -> RunResult:
        mention = asyncio.create_task(self._mention_later(self.task_queue))
        try:
            return await asking.ask(self.temporal, self.gateway, run, command, start, self.signed)
        except WorkflowAlreadyStartedError as error:
            raise await id_taken(self, run) from error
        except asking.Ended as ended:
            if asking.busy(ended) and command.text:
                if (answer := await self.run(run).asked(command)) is not None:
                    return answer
                said = self.signed(run, "message", asking.said_by_signal(command))
                await self.gateway.signal(run, "message", said)
            return await self.run(run).result()
        finally:
            mention.cancel()

    async def _mention_later(self, queue: str) -> None:
        await asyncio.sleep(POLLED_PAUSE)
        await self.mention_no_worker(queue)

    async def _payload(
        self, crew: Crew, input: Json, by: str | None, *, model: str = "", **options: Any
    ) -> tuple[str, StartRun]:
        """The crew's name, and what a run of it is started with.

        Raises:
            UsageError: an option has no effect on such a crew.
        """
        check_crew(crew)
        check_text("by", by, "Give the name of who starts it.")
        check_text("model", model, "Give its name, such as 'openai:gpt-5-mini'.")
        name, content = await self._resolve(crew, model)
        own = model if isinstance(content, str) else ""  # a definition has it by now
        who = self.user if by is None else by
        try:
            start = StartRun(crew=content, input=input, by=who, model=own, **options)
        except ValidationError as error:
            raise UsageError(
                f"the run cannot be started: {validation_error_text(error, 'its start')}",
                remedy="Leave out what does not go with the crew, or give its file, a definition, "
                "or a prompt.",
            ) from error
        return name, start

    async def _resolve(self, crew: Crew, model: str) -> tuple[str, str | dict[str, Json]]:
        """The crew's name, and what the start input holds."""
        crew = _prose_of(crew)
        if isinstance(crew, str) and wire.is_prompt(crew) and not is_file(crew):
            check_model(model)
            return _named_by(crew), crew
        if isinstance(crew, str) and not is_file(crew):
            await self._check_name(crew)
            return crew, crew
        definition = definition_of(crew, model)
        return definition.crew, definition.to_json()

    async def _check_name(self, name: str) -> None:
        """Refuses a name that the store does not know; without a store the run itself tells."""
        try:
            store = await self.store()
            if await store.get_crew(CrewName(name)) is not None:
                return
            known = [row.name for row in await store.list_crews()]
        except ServiceError:
            return
        raise no_crew(name, known)

    async def register(self, crew: CrewDefinition | Mapping[str, Json] | str | Path) -> CrewRow:
        """Registers a definition under its name: a new version, unless nothing changed.

        Raises:
            InvalidDefinition: the definition has faults.
            StoreUnavailable: the store is away.
        """
        return (await self.catalog.add_crew(definition_of(crew))).crew

    async def register_registry(
        self, registry: Registry | Mapping[str, Json] | str | Path
    ) -> CatalogRow:
        """Registers what prompts may use, under its name: a new version, unless nothing changed.

        Its agents, tools, builders and models are registered with it; see `crewlog.client.catalog`.

        Raises:
            InvalidDefinition: the registry has faults.
            StoreUnavailable: the store is away.
        """
        return (await self.catalog.add_registry(registry)).registered

    async def registry(self, name: str, version: int | None = None) -> Registry:
        """A registered registry, by default its newest version.

        Raises:
            UsageError: there is none of that name, or it has no such version.
            StoreUnavailable: the store is away.
        """
        return (await self.catalog.registry(name, version)).registry

    # -- deleting ----------------------------------------------------------------------------

    async def delete(
        self,
        run: str,
        *,
        force: bool = False,
        memories: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> Deletion:
        """Deletes a run: its executions from the server, its rows from the store.

        What it wrote into its crew's memory is the crew's, and stays unless `memories` says else.
        What other runs, forks, registered crews and registries use stays. What a run that is under
        way may be about to use stays for an hour; the next deletion takes it.

        Args:
            run: The run's id.
            force: Whether a run that is under way is ended at once; else it is refused. An
                activity of it that is at work may store once more what it began with: deleted
                again, that goes as well.
            memories: Whether what it wrote into its crew's memory goes, too.
            tell: Told what is waited for, in words.

        Raises:
            RunNotFound: neither the server nor the store knows it.
            UsageError: it is under way; or a fork of it, or a part of its graph, is about to begin.
            TemporalUnavailable: the server is away.
            StoreUnavailable: the store is away. Deleted again, the rest goes.
        """
        deleting = Deleting(self, self.list, tell)
        return await deleting.one(RunId(run), _now_ms(), force=force, memories=memories)

    async def delete_ended(
        self,
        seconds: float,
        *,
        statuses: Sequence[str] = (),
        dry_run: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> Deletion:
        """Deletes the runs that ended so long ago; see `delete`.

        Args:
            seconds: How long ago, at least.
            statuses: Only those that ended so; by default all.
            dry_run: Whether it is only told which they are.
            tell: Told what is waited for, in words.

        Raises:
            UsageError: no run ends with such a status.
            TemporalUnavailable: the server is away.
            StoreUnavailable: the store is away. Deleted again, the rest goes.
        """
        check_ended(statuses)
        now = _now_ms()
        before = now - int(seconds * 1000)
        deleting = Deleting(self, self.list, tell)
        return await deleting.ended_before(before, now, statuses=statuses, dry_run=dry_run)

    # -- lists -------------------------------------------------------------------------------

    async def list(
        self, *, statuses: Sequence[str] = (), limit: int = 50, pending: bool = False
    ) -> list[RunSummary]:
        """Runs, newest first: what Temporal lists, and what the store knows besides.

        Args:
            statuses: Only runs of these statuses.
            limit: At most so many.
            pending: Whether the server is asked what open runs fail to do, and what the calls of
                those wait for that are `running`: one of which nothing else is under way is
                `retrying` or `waiting` then.

        Raises:
            TemporalUnavailable: the server is away.
        """
        # A status may be known to the store alone, so the server is asked for open or closed only.
        fetch = limit if not statuses else max(limit * 5, 200)
        found: dict[RunId, RunSummary] = {}
        try:
            async for execution in self.temporal.list_workflows(
                _visibility(statuses), limit=fetch, rpc_timeout=timedelta(seconds=CALL_LIMIT)
            ):
                run = RunId(execution.id)
                if run not in found:
                    found[run] = await self._summary(execution)
        except RPCError as error:
            raise await self.gateway.failed(error, RunId("")) from error
        rows = await self._rows(fetch)
        # Open in the store, and not among the server's: ended from outside, or not yet listed.
        unsure = [row for row in rows if row.run not in found and row.status in OPEN]
        asked = await asyncio.gather(*map(self._now, unsure))
        told = {each.run: each for each in asked if each is not None}
        for row in rows:
            found[row.run] = told.get(row.run) or self._merged(found.get(row.run), row)
        wanted = set(statuses)
        chosen = [s for s in found.values() if not wanted or s.status in wanted]
        chosen = sorted(chosen, key=lambda s: s.started, reverse=True)[:limit]
        if not pending:
            return chosen
        open_ = [each.run for each in chosen if each.ended is None]
        described = await descriptions_of(self.gateway, open_)
        return await asyncio.gather(*(self._with_pending(each, described) for each in chosen))

    async def _with_pending(
        self, seen: RunSummary, described: Mapping[RunId, WorkflowExecutionDescription]
    ) -> RunSummary:
        """A run with what it fails to do; one that is `running`, with its calls that wait, too."""
        seen = await self._with_whole_wait(seen)
        if (description := described.get(seen.run)) is None:
            return seen
        seen = replace(seen, stalled=tuple(await stalled(self.gateway, seen.run, description)))
        if seen.status != "running":
            return seen
        calls = await calls_of(self.gateway, seen.run, description)
        waiting = tuple(call for call in calls if call.is_waiting)
        return replace(seen, status=doing(calls), pending=waiting)

    async def _with_whole_wait(self, seen: RunSummary) -> RunSummary:
        """A run with all that it waits for; the server's list has only the start of a long text."""
        start = seen.wait_reason.removesuffix("…")
        if start == seen.wait_reason:
            return seen
        with suppress(CrewlogError):  # a question is in the store: no worker is needed
            for row in await (await self.store()).list_interrupts(seen.run):
                before, found, cut = start.partition(f"{row.id}: ")
                question = Interrupt.from_json(row.interrupt).question
                if found and question.startswith(cut):
                    return replace(seen, wait_reason=f"{before}{found}{question}")
        with suppress(CrewlogError):
            return replace(seen, wait_reason=(await self.run(seen.run).status()).wait_reason)
        return seen

    async def count(self, *, statuses: Sequence[str] = ()) -> int:
        """How many runs there are: as `list` would list them without a limit.

        Args:
            statuses: Open statuses: then only runs that are under way count; by default all do.

        Raises:
            TemporalUnavailable: the server is away.
        """
        try:
            counted = await self.temporal.count_workflows(
                _visibility(statuses), rpc_timeout=timedelta(seconds=CALL_LIMIT)
            )
        except RPCError as error:
            raise await self.gateway.failed(error, RunId("")) from error
        if statuses:
            return counted.count
        try:  # the server forgets runs, and the store does not
            return max(counted.count, await (await self.store()).count_runs())
        except CrewlogError:
            return counted.count

    async def watch(
        self,
        runs: Sequence[str],
        chosen: EventFilter | None = None,
        *,
        after: Mapping[str, int] | None = None,
        ended: Ended | None = None,
    ) -> AsyncGenerator[Event]:
        """The events of several runs, by time, until all of them have ended.

        Where a run parts, or becomes one with another one, the runs that it goes on in are watched
        as well, but where the filter names graphs and not these. Nothing of it is seen in the runs.

        Args:
            runs: Their ids.
            chosen: Which events; by default all.
            after: By run, the position after which to begin: the last one that was handled.
            ended: Told of each run that ends, with an error where it is not known how.

        Raises:
            RunNotFound: there is no such run.
            CrewlogError: of a run it is not known how it ended, see `Run.events`; it is raised
                once the others have ended.
        """

        def events(run: RunId, position: int) -> AsyncGenerator[Event]:
            return self.events_there(run, position)

        watch = Watch(events, runs, chosen or EventFilter(), after=after, ended=ended)
        async with aclosing(watch()) as found:
            async for event, passes in found:
                if passes:
                    yield event

    async def events_there(self, run: RunId, after: int) -> AsyncGenerator[Event]:
        """The events of a run that the server or the store knows.

        Raises:
            RunNotFound: neither knows it. A run that another run continues in may not have begun.
        """
        handle = self.run(run)
        try:
            await self.gateway.describe(run)
        except RunNotFound:
            # The store may know what the server has forgotten.
            if not (await handle.journal(0, 1)).entries:
                raise
        async with aclosing(handle.events(after)) as found:
            async for event in found:
                yield event

    async def graphs(self, *, ended: bool = False, limit: int = 200) -> Sequence[Graph]:
        """The graphs of creatures with their families, the oldest first, as the store has them.

        What those do that are open says the server, in the words of `list`.

        Args:
            ended: Whether families count of which nobody lives any more.
            limit: At most so many runs are looked at, the newest.

        Raises:
            StoreUnavailable: the store is away.
        """
        return await living(await self.store(), ended=ended, limit=limit, now=self._graph_now)

    async def lineage(self, run: str) -> Sequence[Graph]:
        """A run, with all that it comes from and that came of it, the oldest first.

        Raises:
            RunNotFound: the store knows no such run.
            StoreUnavailable: the store is away.
        """
        return await family_of(await self.store(), RunId(run), self._graph_now)

    async def _graph_now(self, graph: Graph) -> Graph:
        """A graph with what its run does by now; as the store has it where nobody says."""
        if not graph.open:
            return graph
        try:
            seen = await self._summary(await self.gateway.describe(graph.run))
        except (CrewlogError, RPCError):
            return graph
        if seen.status == "running":  # where runs do not say more, the store may
            return graph
        return replace(graph, status=seen.status, ended=seen.ended)

    async def inbox(self) -> Sequence[InboxInterruptView]:
        """The open questions of all runs, oldest first, as the store has them.

        A run stores its questions before it waits; no worker is needed to look at them.
        """
        rows = await (await self.store()).list_interrupts()
        views = [
            inbox_interrupt_view(row.run, row.at, Interrupt.from_json(row.interrupt))
            for row in rows
        ]
        asked = await with_shown(self.store, views)
        asked = [q for each in asked for q in await with_approved(self.store, each.run, [each])]
        return await with_used_up(self.store, asked)

    async def _now(self, row: RunRow) -> RunSummary | None:
        """A run as the server sees it now; none where it does not know it."""
        try:
            described = await self.gateway.describe(row.run)
        except CrewlogError:
            return None
        return self._merged(await self._summary(described), row)

    async def store_fault(self) -> CrewlogError | None:
        """Why the store cannot be read; none where it can."""
        try:
            await self.store()
        except CrewlogError as error:
            return error
        return None

    async def _rows(self, limit: int) -> Sequence[RunRow]:
        try:
            return await (await self.store()).list_runs(limit=limit)
        except CrewlogError:
            return ()

    async def _summary(self, execution: WorkflowExecution) -> RunSummary:
        status = STATUS_NAMES.get(execution.status, "") if execution.status else ""
        told = execution.typed_search_attributes.get(_STATUS)
        # The server knows better whether a run is open; the run, what it is doing.
        if told and (told in ENDED) == (status != "running") and status in ("running", "completed"):
            status = told
        crew = execution.typed_search_attributes.get(_CREW)
        if crew is None:
            crew = await execution.memo_value(CREW_MEMO, "", type_hint=str)
        return RunSummary(
            run=RunId(execution.id),
            crew=crew,
            status=status,
            started=_ms(execution.start_time),
            ended=_ms(execution.close_time) if execution.close_time else None,
            url=self.url(execution.id),
            task_queue=execution.task_queue,
            wait_reason=(execution.typed_search_attributes.get(_WAITING) or "")
            if status not in ENDED
            else "",
        )

    def _merged(self, seen: RunSummary | None, row: RunRow) -> RunSummary:
        if seen is None:
            return RunSummary(
                row.run, row.crew, row.status, row.started_at, row.ended_at, self.url(row.run)
            )
        agrees = (row.status in ENDED) == (seen.status not in OPEN)
        # A row is as old as the last batch: for an open run, what it says itself is newer.
        better = agrees and seen.status in ("running", "completed")
        return RunSummary(
            run=seen.run,
            crew=seen.crew or row.crew,
            status=row.status if better else seen.status,
            # Temporal's is the start of the newest execution.
            started=row.started_at or seen.started,
            ended=seen.ended,
            url=seen.url,
            task_queue=seen.task_queue,
            wait_reason=seen.wait_reason,
        )


def _named_by(prompt: str) -> str:
    """What a run is called after: the prompt's heading."""
    first = next(line for line in prompt.splitlines() if line.strip())
    return (crew_name(first) if first.startswith("#") else "") or "crew"


def _prose_of(crew: Crew) -> Crew:
    """The prompt in a file of prose; any other crew as it is.

    Raises:
        UsageError: the file cannot be read, or holds no prompt.
    """
    if not isinstance(crew, str | Path) or not str(crew).lower().endswith(_PROSE):
        return crew
    if isinstance(crew, str) and wire.is_prompt(crew) and not is_file(crew):
        return crew  # prose that ends with a file's name
    text = text_of(crew, "prompt's file")
    if not wire.is_prompt(text):
        raise UsageError(f"{str(crew)!r} holds no prompt", remedy="Write one: a text of sentences.")
    return text


def _visibility(statuses: Sequence[str]) -> str:
    query = f"WorkflowType = '{wire.WORKFLOW_TYPE}' AND ExecutionStatus != 'ContinuedAsNew'"
    if statuses and all(status in OPEN for status in statuses):
        return f"{query} AND ExecutionStatus = 'Running'"
    if statuses and not any(status in OPEN for status in statuses):
        return f"{query} AND ExecutionStatus != 'Running'"
    return query


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _now_ms() -> int:
    return int(time.time() * 1000)
