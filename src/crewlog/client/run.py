"""A run as its clients see it: look at it, talk to it, wait for it."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, overload

from pydantic import ValidationError
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError, TerminatedError
from temporalio.exceptions import CancelledError as TemporalCancelledError
from temporalio.exceptions import TimeoutError as TemporalTimeoutError
from temporalio.service import RPCError, RPCStatusCode
from typing_extensions import override

from crewlog.client import beginnings, places
from crewlog.client.approvals import with_approved
from crewlog.client.artifacts import ArtifactView, artifacts_of
from crewlog.client.authority import Authority
from crewlog.client.by_hand import ByHand
from crewlog.client.catalog import definition_of, is_file
from crewlog.client.events import FORGOTTEN, PATIENCE, follow, outside
from crewlog.client.gateway import CALL_LIMIT, STATUS_NAMES, check_own, pauses
from crewlog.client.journal import JournalReader
from crewlog.client.matrix import matrix_of
from crewlog.client.past import state_at
from crewlog.client.quotas import with_used_up
from crewlog.client.rebuild import Rebuild, RebuildReport
from crewlog.client.recipes import (
    WayBack,
    Written,
    check_nobody_comes_home,
    check_paused,
    way_back,
)
from crewlog.client.reporting import report_on
from crewlog.client.showing import with_shown
from crewlog.client.talking import Talking
from crewlog.client.tokens import Growth, TokenCursor, TokenEvent, with_tokens, written
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import (
    Connect,
    DisableAgent,
    EnableAgent,
    Operation,
    RemoveAgent,
    Wire,
)
from crewlog.errors import (
    ChangeConflict,
    CommandConflict,
    CommandRejected,
    CrewlogError,
    InternalError,
    InvalidPrompt,
    RunAlreadyMerged,
    RunFailed,
    RunNotFound,
    TemporalUnavailable,
    UsageError,
    WorkerMissing,
)
from crewlog.ids import CommandId, RunId
from crewlog.model import Json, Model
from crewlog.payload_storage.file_store import FileInput
from crewlog.reporting.events.view import Event
from crewlog.reporting.report.view import ReportView
from crewlog.reporting.wire_views import rename_of
from crewlog.run_status import ENDED
from crewlog.state.command_outcomes import DETAIL_LENGTH, may_be_older
from crewlog.state.components import Rename
from crewlog.state.journal import (
    ChangeAccepted,
    GraphReplacement,
    MergeFailed,
    RunEndedByMerge,
    RunMerged,
    SwapFailed,
)
from crewlog.state.model import CommandOutcome, CrewState
from crewlog.state.run_merge.renames import renamed_log, successive_renames
from crewlog.store.checkpoints import load_last_state, load_reopen_state
from crewlog.store.journal_reader import find_command
from crewlog.validation_errors import validation_error_text
from crewlog.wire import (
    Answer,
    Change,
    ChangeResult,
    CheckpointPage,
    Command,
    CommandResult,
    GraphView,
    InterruptCommand,
    InterruptView,
    JournalPage,
    MessageCommand,
    PermissionsPage,
    PermissionsQuery,
    Rollback,
    RunResult,
    RunView,
    StateView,
    TagCommand,
)

if TYPE_CHECKING:
    from crewlog.client.session import Session
    from crewlog.store.protocol import Store

M = TypeVar("M", bound=Model)
C = TypeVar("C", bound=Command)

_TERMINATED = "terminated by its client"


class Whereabouts(NamedTuple):
    """Where a run goes on that may be part of another one by now."""

    run: Run
    """The run that has what this one had; itself, where it is one of its own."""
    renamed: tuple[Rename, ...] = ()
    """What of it is called otherwise there."""


class Run(ByHand, Authority, Talking):
    """One run, by its id; made by `Client.start` and `Client.run`.

    All methods raise `RunNotFound` where there is no such run and `TemporalUnavailable` where the
    server is away; what only a worker can tell raises `WorkerMissing` where none answers.
    """

    def __init__(self, session: Session, run: RunId) -> None:
        self._session = session
        self._gateway = session.gateway
        self._reader = JournalReader(self._gateway, session.store, run)
        self._signalled: dict[CommandId, str] = {}
        """The hashes of signals that were sent, by their ids."""
        self._led: dict[CommandId, Run] = {}
        """The runs to which they were led on, where this one is part of another one by now."""
        self.id = run

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @property
    def url(self) -> str | None:
        """The run in Temporal's web interface, where we know that there is one."""
        return self._session.url(self.id)

    def sibling(self, run: RunId) -> Run:
        """Another run of the same client."""
        return Run(self._session, run)

    # -- looking -----------------------------------------------------------------------------

    async def status(self) -> RunView:
        """Where the run is: its frontier, its flags, what it waits for."""
        return await self._view("status", RunView)

    async def state(self) -> CrewState:
        """The whole state, transcripts as heads."""
        return CrewState.model_validate((await self._view("state", StateView)).data, extra="ignore")

    @override
    async def open_store(self) -> Store:
        """The client's store. Raises `StoreUnavailable` where it is away."""
        return await self._session.store()

    async def polled(self) -> bool:
        """Whether a worker asked lately for the run's work: nobody else can be asked for it.

        Raises:
            RunNotFound: the server does not know the run.
        """
        description = await self._gateway.describe(self.id)
        try:
            return await self._gateway.polled(description.task_queue)
        except RPCError:
            return True

    async def position_of(self, at: int | str) -> int:
        """The journal position that a number or a tag means.

        Raises:
            UsageError: the run has no such tag, or can have no such position.
        """
        return await places.position_of(self, at)

    async def outcome(self, command: CommandId) -> CommandOutcome | None:
        """How a command ended, with the whole reason; none where the run has not taken it yet.

        Where the run is part of another one by now, that one takes what came too late for this one:
        then its word counts.

        Args:
            command: The command's id, as `pause`, `message` and other signals give it.

        Raises:
            CommandConflict: the id was used for another command than the signal that was sent here.
            StoreUnavailable: the run has had many commands since, and the store is away.
        """
        if led := self._led.get(command):
            return await led.outcome(command)
        state = await self.state()
        found = state.commands.get(command)
        if found is None and may_be_older(state.older_commands, command):
            found = await find_command(await self._session.store(), self.id, command)
        if found is None:
            into = state.surviving_run
            return None if into is None else await self._there(into).outcome(command)
        check_own(command, found.hash, self._signalled.get(command, ""))
        if len(found.detail) < DETAIL_LENGTH:
            return found
        return found.model_copy(update={"detail": await self._reason(found)})

    async def _reason(self, outcome: CommandOutcome) -> str:
        """Why a command was refused, from the journal: the outcome has the start of it."""
        with suppress(CrewlogError):
            for item in (await self.journal(after=outcome.position - 1, limit=1)).entries:
                return str(item.data.get("reason") or outcome.detail)
        return outcome.detail

    async def state_at(self, position: int) -> CrewState:
        """The whole state as it was at a journal position.

        Raises:
            UsageError: the journal has no such position yet.
            StoreUnavailable: entries of it are in the store, and that is away.
            StoreIncomplete: the store lacks some of them.
        """
        return await state_at(self._reader, self._session.store, self.id, position)

    async def artifact(self, name: str, at: int | str | None = None) -> ArtifactView:
        """An artifact as it is, or as it was at a journal position or a tag.

        Raises:
            UsageError: the crew has no such artifact, or the run no such position.
            StoreUnavailable: the store is away, which has it.
        """
        (found,) = await artifacts_of(self, [name], at)
        return found

    async def artifacts(self, at: int | str | None = None) -> dict[str, ArtifactView]:
        """All artifacts by name; see `artifact`."""
        return {each.name: each for each in await artifacts_of(self, None, at)}

    async def graph(self) -> GraphView:
        """The plan and its picture, coloured by what its nodes do."""
        return await self._view("graph", GraphView)

    async def interrupts(self) -> list[InterruptView]:
        """The open questions, oldest first."""
        answer = await self._gateway.query(self.id, "interrupts")
        asked = [InterruptView.model_validate(item, extra="ignore") for item in answer]
        shown = await with_shown(self._session.store, asked)
        shown = await with_approved(self._session.store, self.id, shown)
        return await with_used_up(self._session.store, shown)

    @override
    async def journal(self, after: int = 0, limit: int = 200) -> JournalPage:
        """A part of the journal: from the run, from the store what is older, without a gap.

        Where no worker answers, it is what the store has.

        Raises:
            StoreUnavailable: older entries are needed, and the store is away.
            StoreIncomplete: older entries are needed, and the store lacks them.
        """
        return (await self._reader.read(after, _limit(limit))).page

    async def report(self, at: int | str | None = None) -> ReportView:
        """What was planned, done, decided, set and spent, and what went wrong.

        Args:
            at: A position or a tag, as of which it is told; by default as of now.

        Raises:
            StoreUnavailable: older entries are needed, and the store is away. Where only values
                are, the report is without them.
        """
        last = None if at is None else await self.position_of(at)
        return await report_on(self, self._session.store, last)

    @override
    async def _matrix(self, asked: PermissionsQuery) -> PermissionsPage:
        return await matrix_of(self._gateway, self._session.store, self.id, asked)

    async def checkpoints(self, after: int = 0, limit: int = 200) -> CheckpointPage:
        """Places to look at: one after each step."""
        return await self._reader.checkpoints(after, _limit(limit))

    async def rebuild(
        self, *, replace: bool = False, tell: Callable[[str], None] | None = None
    ) -> RebuildReport:
        """Makes the run's rows in the store again from its histories; it may be under way.

        Args:
            replace: Whether rows of another history (the run was reset, or its id was used again)
                are removed first.
            tell: Told how far it is, in words.

        Raises:
            UsageError: the store has rows of another history, and they are not to be replaced.
            StoreUnavailable: the store is away.
        """
        return await Rebuild(self._gateway, self._session.store, self.id, tell)(replace=replace)

    async def _view(self, name: str, model: type[M]) -> M:
        # Unknown fields are a newer worker's: they may be added, never renamed.
        return model.model_validate(await self._gateway.query(self.id, name), extra="ignore")

    # -- following ---------------------------------------------------------------------------

    @overload
    def events(
        self, after: int = 0, *, tokens: Literal[False] = False
    ) -> AsyncGenerator[Event]: ...

    @overload
    def events(self, after: int = 0, *, tokens: bool) -> AsyncGenerator[Growth]: ...

    @override
    async def events(self, after: int = 0, *, tokens: bool = False) -> AsyncGenerator[Growth]:
        """The journal as it grows: every entry once and in order, until the run's last one.

        It survives restarts of workers and server, the run's continuing as new, a change of its
        graph and a rollback: positions only grow. To go on in another process, give the last
        position that was handled.

        Args:
            after: The position after which to begin.
            tokens: Whether the text that models write comes as well, as `TokenEvent`s between the
                entries. Text is told as it is now: who was away gets what is written so far.

        Raises:
            RunNotFound: there is no such run.
            TemporalUnavailable: the server has been away for five minutes.
            RunFailed: it was ended from outside, and no worker can tell its last entries.
            WorkerMissing: the run has ended, but nobody can tell its last entries.
        """
        journal = follow(self._reader, self.id, after, _Server(self._session, self.id))
        async with aclosing(
            with_tokens(journal, self._gateway, self.id) if tokens else journal
        ) as (found):
            async for event in found:
                yield event

    async def tokens(self) -> list[TokenEvent]:
        """What models have written by now of replies that are not done: the end of each text."""
        found = await written(self._gateway, self.id)
        return TokenCursor(self.id).news(found)

    async def result(self, timeout: float | None = None) -> RunResult:
        """Waits for the run's end, over all its executions.

        Args:
            timeout: Seconds; without it, as long as it takes.

        Raises:
            RunFailed: the run failed, or was terminated, canceled or timed out.
            TimeoutError: it did not end in time; it goes on.
        """
        try:
            async with asyncio.timeout(timeout):
                return await self._result()
        except TimeoutError as error:
            raise TimeoutError(
                f"the run {self.id!r} did not end within {timeout:g} s; it goes on"
            ) from error

    async def _result(self) -> RunResult:
        away_since: float | None = None
        for pause in pauses(0.1, 2.0):
            began = time.monotonic()
            try:
                answer = await self._gateway.handle(self.id).result()
            except WorkflowFailureError as error:
                raise await self._failed(error) from error
            except ApplicationError as error:
                raise await self._gateway.unread(error, self.id) from error
            except RPCError as error:
                failure = await self._gateway.failed(error, self.id)
                if not isinstance(failure, TemporalUnavailable):
                    raise failure from error
                # A long wait that ends so had a server until now.
                fresh = away_since is None or began - away_since > PATIENCE * 2
                away_since = began if fresh else away_since
                if away_since is not None and time.monotonic() - away_since > PATIENCE:
                    raise failure from error
            else:
                return RunResult.model_validate(answer, extra="ignore")
            await asyncio.sleep(pause)
        raise AssertionError

    async def _failed(self, error: WorkflowFailureError) -> RunFailed:
        cause = error.cause
        if isinstance(cause, TerminatedError):
            why = str(cause.details[0]) if cause.details else cause.message
            return outside(self.id, "terminated", await self._known(), why)
        if isinstance(cause, TemporalCancelledError):
            return outside(self.id, "canceled", await self._known())
        if isinstance(cause, TemporalTimeoutError):
            why = "its execution timeout is over"
            return outside(self.id, "timed_out", await self._known(), why)
        kind = InvalidPrompt if _kind(cause) == InvalidPrompt.__name__ else RunFailed
        return kind(await self._gateway.failure(self.id), place=f"run {self.id!r}")

    async def _known(self) -> int:
        """The last position that the run or the store tells; 0 where neither does."""
        try:
            polled = await _Server(self._session, self.id).polled()
            return (await self._reader.read(0, 1, ask=polled)).page.position
        except CrewlogError:
            return 0

    async def wait_until(
        self, predicate: Callable[[RunView], bool], timeout: float = 60.0
    ) -> RunView:
        """Waits until the run's view satisfies a predicate, and returns that view.

        Raises:
            UsageError: the run ended first.
            TimeoutError: the predicate did not hold in time.
        """
        deadline = time.monotonic() + timeout
        seen = "no worker answered"
        for pause in pauses(0.02, 0.25):
            try:
                view = await self.status()
            except WorkerMissing:
                view = None
            if view is not None and predicate(view):
                return view
            if view is not None:
                seen = f"the run was {view.status}: {view.wait_reason or view.error or 'at work'}"
            ended = view is not None and view.status in ENDED
            if ended or (pause >= SLOW_LOOK and await self._is_closed()):
                raise UsageError(
                    f"the run {self.id!r} ended before what was waited for; at last {seen}"
                )
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"the run {self.id!r} did not come to what was waited for within "
                    f"{timeout:g} s; at last {seen}"
                )
            await asyncio.sleep(pause)
        raise AssertionError

    async def _is_closed(self) -> bool:
        return await self._is_over(self.id)

    async def _has_ended(self, run: RunId) -> tuple[str, ...] | None:
        """An `EndedExecutions` without executions: nothing is claimed here."""
        try:
            return () if await self._is_over(run) else None
        except RunNotFound:
            return ()

    async def _is_over(self, run: RunId) -> bool:
        description = await self._gateway.describe(run)
        return description.status not in (
            WorkflowExecutionStatus.RUNNING,
            WorkflowExecutionStatus.CONTINUED_AS_NEW,
        )

    # -- talking -----------------------------------------------------------------------------

    async def pause(
        self, reason: str = "", *, by: str | None = None, id: str | None = None
    ) -> CommandId:
        """Lets what runs finish and starts nothing new.

        The commands `pause`, `resume`, `stop`, `interrupt` and `message` are signals: they are
        delivered when the method returns, and their outcome is in the journal, under the command
        id that it returns. A command that is sent again with the same id has no effect.

        Raises:
            CommandRejected: the run has ended.
        """
        return await self._signal("pause", self._made(Command, by, id, reason=reason))

    async def resume(
        self,
        reason: str = "",
        *,
        from_: Literal["recipe", "live"] | None = None,
        recipe: Written | None = None,
        by: str | None = None,
        id: str | None = None,
    ) -> CommandId:
        """Lets a paused run go on, see `pause`, or one that has ended, see `reopen`.

        Args:
            reason: Why, for the journal.
            from_: The definition that it goes on with: its recipe, or the one that it has now,
                which is the default.
            recipe: See `reopen`.
            by: Who commands; by default the system's user.
            id: The command's id, for a paused run.

        Raises:
            UsageError: a recipe or an id is given where it has no effect.
            CommandRejected: it is to go back to its recipe, and is not paused; or somebody comes
                home by that, which only a run does that has ended.
        """
        command = self._made(Command, by, id, reason=reason)
        beginnings.check_recipe(from_, recipe)
        if await self._is_closed():
            beginnings.check_no_command(self.id, id)
            await self.reopen(from_ or "live", recipe=recipe, by=by, reason=reason)
            return command.id
        if from_ == "recipe":
            await self._back_to_recipe(by, reason, recipe)
        return await self._signal("resume", command)

    async def way_back(self, recipe: Written | None = None) -> WayBack:
        """What `resume` or `reopen` from the recipe would make of it: who leaves, who comes back.

        Nothing is changed.

        Args:
            recipe: See `reopen`.

        Raises:
            UsageError: it is completed, or never had a crew.
            StoreUnavailable: the store is away.
        """
        store = await self._session.store()
        if await self._is_closed():
            _, state = await load_reopen_state(
                store, self.id, await load_last_state(store, self.id), self._has_ended
            )
        else:
            try:
                state = await self.state()
            except WorkerMissing:
                state = await load_last_state(store, self.id)
        return await way_back(store, state, recipe, self._has_ended)

    async def _back_to_recipe(self, by: str | None, reason: str, given: Written | None) -> None:
        """Changes the crew back to its recipe."""
        state = await self.state()
        check_paused(self.id, state.status)  # else it had the recipe, and was not resumed
        way = await way_back(await self._session.store(), state, given, self._has_ended)
        check_nobody_comes_home(self.id, way)
        if way.changes:
            # A paused run swaps its graph all the same: there is nothing to wait for.
            data, why = way.definition.to_json(), reason or "back to the recipe"
            await self.change(definition=data, by=by, reason=why)

    async def reopen(
        self,
        from_: Literal["recipe", "live"] = "live",
        *,
        recipe: Written | None = None,
        by: str | None = None,
        execution_timeout: timedelta | None = None,
        reason: str = "",
    ) -> Run:
        """Lets a run go on that was stopped, has failed, or was ended from outside.

        So does one of creatures that is completed since nobody said anything for long enough.

        It goes on under its id, from right before what ended it: the same steps, and calls with the
        same keys. What failed is tried once more.

        Args:
            from_: The definition that it goes on with: its recipe, which is what it was started
                with, or the newest version of that where it is registered; or the one that it had
                at last.
            recipe: With `from_="recipe"`: the recipe as it is written now.
            by: Who starts it again; by default the system's user.
            execution_timeout: When Temporal ends the run, whatever it does.
            reason: Why, for the journal.

        Raises:
            UsageError: it is completed, or never had a crew.
            CommandRejected: it has not ended.
        """
        who = self._session.user if by is None else by
        await beginnings.reopen(
            self._session,
            self.id,
            from_,
            by=who,
            execution_timeout=execution_timeout,
            ended_executions=self._has_ended,
            recipe=recipe,
            reason=reason,
        )
        return self

    async def rollback(
        self, position: int | str, reason: str = "", *, by: str | None = None, id: str | None = None
    ) -> CommandResult:
        """Takes the run back to a checkpoint; it goes on from there unless it is paused.

        What was done since stays in the journal, and what its tools did outside stays done. Calls
        that are done again have keys of their own.

        Args:
            position: The checkpoint's position, as `checkpoints` lists it, or its tag.
            reason: Why, for the journal.
            by: Who commands; by default the system's user.
            id: The command's id, to repeat a command whose outcome is not known.

        Raises:
            CommandRejected: it is no checkpoint, or the run is ending or has ended.
            UsageError: the run has no such tag.
        """
        at = await self.position_of(position)
        command = self._made(Rollback, by, id, position=at, reason=reason)
        return await self._update("rollback", command)

    async def fork(
        self,
        position: int | str,
        *,
        id: str | None = None,
        operations: Sequence[Operation] = (),
        definition: Written | None = None,
        by: str | None = None,
        execution_timeout: timedelta | None = None,
    ) -> Run:
        """Starts another run that goes on from a checkpoint of this one, open or ended.

        It shares what was said until then. It has a workspace of its own, which begins empty.

        Args:
            position: The checkpoint's position, as `checkpoints` lists it, or its tag.
            id: The new run's id; by default the crew's name and four characters.
            operations: What is to be otherwise from there on.
            definition: A definition to go on with instead of this run's: a file, data or a model.
            by: Who starts it; by default the system's user.
            execution_timeout: When Temporal ends the run, whatever it does.

        Raises:
            UsageError: it is no checkpoint; the remedy names the nearest that are.
            InvalidDefinition: what is to be otherwise makes no crew; nothing is started.
            RunAlreadyExists: the id is taken.
        """
        fork = await beginnings.fork(
            self._session,
            self.id,
            await self.position_of(position),
            id=id,
            operations=operations,
            definition=None if definition is None else _written(definition),
            by=self._session.user if by is None else by,
            execution_timeout=execution_timeout,
        )
        return Run(self._session, fork)

    async def forked_crew(
        self,
        position: int | str,
        *,
        operations: Sequence[Operation] = (),
        definition: Written | None = None,
    ) -> CrewDefinition | None:
        """The crew that a fork would go on with: nothing is started.

        Args:
            position: As of `fork`.
            operations: As of `fork`.
            definition: As of `fork`.

        Returns:
            The crew; none where it is that of this run, or where only a worker can tell.

        Raises:
            UsageError: it is no checkpoint.
            InvalidDefinition: with everything that is wrong with what comes out.
        """
        return await beginnings.forked_crew(
            self._session,
            self.id,
            await self.position_of(position),
            operations,
            None if definition is None else _written(definition),
        )

    async def stop(
        self, reason: str = "", *, by: str | None = None, id: str | None = None
    ) -> CommandId:
        """Ends the run with what is there; see `pause`."""
        return await self._signal("stop", self._made(Command, by, id, reason=reason))

    async def interrupt(
        self, node: str = "*", reason: str = "", *, by: str | None = None, id: str | None = None
    ) -> CommandId:
        """Makes the run ask people before a node, or before the next step; see `pause`."""
        command = self._made(InterruptCommand, by, id, reason=reason, node=node)
        return await self._signal("interrupt", command)

    async def message(
        self,
        text: str,
        to: str = "public",
        *,
        by: str | None = None,
        id: str | None = None,
        files: Sequence[FileInput] = (),
    ) -> CommandId:
        """Says something to the crew, or to whoever reads the log `to`; see `pause`.

        `files` go with it: paths, bytes, or what the client's `files()` keep.
        """
        kept = {"files": await self._session.files().put_all(files)} if files else {}
        command = self._made(MessageCommand, by, id, text=text, to=to, **kept)
        return await self._signal("message", command)

    async def answer(
        self,
        interrupt: str,
        decision: str,
        *,
        by: str | None = None,
        id: str | None = None,
        reason: str = "",
        about: str = "",
    ) -> CommandResult:
        """Answers an open question, exactly once, whatever happens on the way.

        Args:
            interrupt: The question's id, `i1`.
            decision: `approve` (the option of that name, else its first), `reject` (else its last),
                an option, or words.
            by: Who answers; by default the system's user.
            id: The command's id, to repeat a command whose outcome is not known.
            reason: Why, for the journal.
            about: Of an approval: the hash of the definition that is meant.

        Raises:
            InterruptNotOpen: nobody asks that, or somebody has answered it.
            ApprovalMismatch: it asks about another definition.
            CommandRejected: the decision is none of the options, or the run has ended.
        """
        answer = (
            {"type": decision}
            if decision in ("approve", "reject")
            else {"type": "respond", "message": decision}
        )
        return await self._respond(interrupt, answer, by=by, id=id, reason=reason, about=about)

    async def edit(
        self,
        interrupt: str,
        definition: Mapping[str, Json] | CrewDefinition,
        *,
        by: str | None = None,
        id: str | None = None,
        about: str = "",
    ) -> CommandResult:
        """Puts another definition in the place of the one that a run asks about.

        The run asks anew, under another id: nothing runs before that is approved.

        Args:
            interrupt: The question's id.
            definition: The definition, as data or as a model.
            by: Who answers; by default the system's user.
            id: The command's id.
            about: The hash of the definition that was changed: where the run asks about another,
                it refuses.

        Raises:
            InterruptNotOpen: nobody asks that, or somebody has answered it.
            ApprovalMismatch: it asks about another definition.
            CommandRejected: the definition has faults, all of which are named.
        """
        data = definition.to_json() if isinstance(definition, CrewDefinition) else {**definition}
        action = {"name": "run_crew", "args": {"definition": data}}
        answer = {"type": "edit", "edited_action": action}
        return await self._respond(interrupt, answer, by=by, id=id, reason="", about=about)

    async def edit_call(
        self,
        interrupt: str,
        tool: str,
        args: Mapping[str, Json],
        *,
        by: str | None = None,
        id: str | None = None,
        reason: str = "",
    ) -> CommandResult:
        """Approves a call with other arguments than those that the model asked for.

        They are checked against the tool before they are accepted, and they are what runs.

        Args:
            interrupt: The question's id.
            tool: The tool that is asked about.
            args: All of its arguments.
            by: Who answers; by default the system's user.
            id: The command's id.
            reason: Why, for the journal.

        Raises:
            InterruptNotOpen: nobody asks that, or somebody has answered it.
            InvalidArguments: they do not fit the tool; the question stays open.
            NotPermitted: others are asked.
            CommandRejected: it asks about another tool, or about none.
        """
        action = {"name": tool, "args": {**args}}
        answer = {"type": "edit", "edited_action": action}
        return await self._respond(interrupt, answer, by=by, id=id, reason=reason, about="")

    async def _respond(
        self,
        interrupt: str,
        answer: dict[str, Json],
        *,
        by: str | None,
        id: str | None,
        reason: str,
        about: str,
    ) -> CommandResult:
        command = self._made(
            Answer, by, id, interrupt=interrupt, decisions=[answer], reason=reason, hash=about
        )
        return await self._update("answer", command)

    @override
    async def _tag(self, command: TagCommand) -> CommandId:
        await places.check_checkpoint(self, command.checkpoint)
        return await self._signal("tag", command)

    @override
    async def _update(self, name: str, command: Command) -> CommandResult:
        outcome = await self._gateway.update(
            self.id,
            name,
            self._session.signed(self.id, name, _json(command)),
            command_hash=command.content_hash(name),
        )
        return CommandResult.model_validate(outcome, extra="ignore")

    async def successor(self) -> Run:
        """The run that this one is part of by now; itself, where it is one of its own.

        Raises:
            RunNotFound: there is no such run.
        """
        return (await self.whereabouts()).run

    async def whereabouts(self) -> Whereabouts:
        """Where this run goes on, and what of it is called otherwise there.

        Raises:
            RunNotFound: there is no such run.
        """
        run, renamed = self, tuple[Rename, ...]()
        while True:
            described = await self._gateway.describe(run.id)
            if described.status is not WorkflowExecutionStatus.COMPLETED:
                return Whereabouts(run, renamed)
            ended = await run.result(CALL_LIMIT)
            if ended.surviving_run is None:
                return Whereabouts(run, renamed)
            run, renamed = (
                Run(self._session, ended.surviving_run),
                successive_renames(renamed, tuple(map(rename_of, ended.renames))),
            )

    def _there(self, into: RunId) -> Run:
        """The run that this one is part of, which knows what was sent here."""
        led = Run(self._session, into)
        led._signalled |= self._signalled
        return led

    async def _led_on(self, said: MessageCommand) -> tuple[Run, MessageCommand]:
        """The run to which goes what this one does not take any more, and what is said there."""
        ended = await self.result(CALL_LIMIT)
        if ended.surviving_run is None:
            raise InternalError(f"the run {self.id!r} said that it is merged, and is not")
        to = renamed_log(said.to, map(rename_of, ended.renames))
        if to != said.to:
            said = said.model_copy(update={"to": to, "original_to": said.original_to or said.to})
        return Run(self._session, ended.surviving_run), said

    async def change(
        self,
        *,
        prompt: str = "",
        definition: Written | None = None,
        operations: Sequence[Operation | Mapping[str, Json]] = (),
        remove: Sequence[str] = (),
        disable: Sequence[str] = (),
        enable: Sequence[str] = (),
        registry: str = "",
        reader: str = "auto",
        model: str = "",
        graph_version: int | None = None,
        expect: str = "",
        dry_run: bool = False,
        running: Literal["finish", "abandon"] = "finish",
        drain_timeout: float | None = None,
        wait: bool = True,
        timeout: float | None = None,
        by: str | None = None,
        id: str | None = None,
        reason: str = "",
    ) -> ChangeResult:
        """Changes the run's crew while it runs: by a prompt, a definition, or operations.

        Args:
            prompt: A prompt that says all that the crew is to be.
            definition: A registered crew's name, or a definition: a file, as for `Client.start`,
                data or a model.
            operations: Changes to the definition that the run has, as they are or as data, as the
                wire has them; `remove`, `disable` and `enable` add to them.
            remove: Agents to remove.
            disable: Agents to switch off.
            enable: Agents to let take part again.
            registry: Of a prompt: the registry; by default that of the run's own prompt.
            reader: Of a prompt: who reads it: `auto`, `forms` or `model`.
            model: Of a prompt: the model that reads it and that its crew uses, where the prompt
                names none.
            graph_version: The version that the change was made against: the run refuses where it
                has another one. None: any.
            expect: The hash of the definition that must come out, as a dry run told it.
            dry_run: Whether it is only told what the change would do: nothing is recorded.
            running: Whether the turns of agents that go are finished or abandoned.
            drain_timeout: Seconds for the calls under way; then they are cancelled, and made again
                with the new graph. None: they are waited for.
            wait: Whether to wait until the run has the new graph.
            timeout: Seconds for all of it; without it, as long as it takes.
            by: Who changes; by default the system's user.
            id: The command's id, to repeat a command whose outcome is not known.
            reason: Why, for the journal.

        Raises:
            ChangeConflict: the run has another graph than `graph_version`, or another definition
                than `expect` comes out.
            CommandRejected: the change has faults, all of which are named; the run has no crew yet
                or has ended; or the graph could not be swapped: it goes on with the one it had.
            TimeoutError: it did not come about in time; an accepted change still may.
            UsageError: an operation is none.
        """
        named = isinstance(definition, str) and not is_file(definition)
        data = definition if definition is None or named else _written(definition)
        asked = (
            *operations,
            *(RemoveAgent(name=name) for name in remove),
            *(DisableAgent(name=name) for name in disable),
            *(EnableAgent(name=name) for name in enable),
        )
        command = self._made(
            Change,
            by,
            id,
            reason=reason,
            prompt=prompt,
            registry=registry,
            reader=reader,
            model=model,
            definition=data,
            operations=[operation_json(each) for each in asked],
            graph_version=graph_version,
            expect=expect,
            dry_run=dry_run,
            running=running,
            drain_timeout=drain_timeout,
        )
        try:
            async with asyncio.timeout(timeout):
                return await self._change(command, wait=wait)
        except TimeoutError as error:
            raise TimeoutError(
                f"the run {self.id!r} did not come to another graph within {timeout:g} s; it goes "
                f"on, and the change {command.id!r} may still come about"
            ) from error

    async def _change(self, command: Change, *, wait: bool) -> ChangeResult:
        for each in command.operations:
            if isinstance(each, Connect | Wire) and each.other is not None:
                await _Server(self._session, RunId(each.other)).silent()
        # A model may read a prompt for minutes.
        outcome = await self._gateway.update(
            self.id,
            "change",
            self._session.signed(self.id, "change", _change_json(command)),
            limit=math.inf,
            command_hash=command.content_hash("change"),
        )
        changed = ChangeResult.model_validate(outcome, extra="ignore")
        if changed.plan and not command.dry_run:
            raise _only_dry(command.id)
        if wait and changed.swap and not command.dry_run:
            await self.swapped(changed)
        if wait and changed.merge and not command.dry_run:
            await self.merged(changed)
        return changed

    async def merged(self, changed: ChangeResult) -> RunId:
        """Waits until two runs are one, or are not to be.

        Args:
            changed: What `change` gave, with `wait=False`, for an operation that names another run.

        Returns:
            The run that both are from then on: this one, or the other.

        Raises:
            ChangeConflict: a run was busy: the same change may succeed later. Both continue alone.
            CommandRejected: the runs cannot merge. Both continue alone.
        """
        async for event in self.events(max(changed.position - 1, 0)):
            match event.entry:
                case RunMerged(merge=changed.merge):
                    return self.id
                case RunEndedByMerge(merge=changed.merge, run=into):
                    return into
                case MergeFailed(merge=changed.merge, reason=why, may_retry=may_retry):
                    error = ChangeConflict if may_retry else CommandRejected
                    raise error(f"the runs did not merge: {why}", remedy="Both continue alone.")
                case _:
                    pass
        raise CommandRejected(
            f"the run {self.id!r} ended before it was one with the other",
            remedy=f"`crewlog show {self.id}` shows how.",
        )

    async def swapped(self, changed: ChangeResult) -> None:
        """Waits until the run has the graph that an accepted change leads to.

        Args:
            changed: What `change` gave, with `wait=False`; nothing is waited for where rules alone
                changed.

        Raises:
            CommandConflict: it is what a dry run gave: the run accepted nothing.
            CommandRejected: the graph could not be swapped: the run goes on with the one it had, or
                has ended; or the journal has no such change where it was told to be.
        """
        if not changed.swap:
            return
        if changed.plan:
            raise _only_dry(changed.id)
        version = changed.graph_version
        async for event in self.events(max(changed.position - 1, 0)):
            if event.position <= changed.position:
                _check_accepted(event, changed)
                continue
            if isinstance(event.entry, GraphReplacement) and event.entry.graph_version == version:
                return
            if isinstance(event.entry, SwapFailed) and event.entry.graph_version == version:
                raise CommandRejected(
                    f"the change to graph v{version} did not come about: {event.entry.error}",
                    remedy="The run goes on with the graph that it had, unless it was stopped.",
                )
        raise CommandRejected(
            f"the run {self.id!r} ended before it had graph v{version}",
            remedy=f"`crewlog show {self.id}` shows how.",
        )

    async def cancel(self) -> None:
        """Asks Temporal to cancel the run, which it takes as a graceful stop."""
        try:
            await self._gateway.handle(self.id).cancel(rpc_timeout=timedelta(seconds=CALL_LIMIT))
        except RPCError as error:
            raise await self._ended_or(error, "cancel") from error

    async def terminate(self, reason: str = "") -> None:
        """Ends the run at once: nothing finishes, and nothing more is recorded by the run."""
        try:
            # A reason is plain in the history; details are encrypted where that is on.
            sealed = self._session.temporal.data_converter.payload_codec is not None
            await self._gateway.handle(self.id).terminate(
                *([reason] if reason and sealed else []),
                reason=_TERMINATED if sealed else reason or _TERMINATED,
                rpc_timeout=timedelta(seconds=CALL_LIMIT),
            )
        except RPCError as error:
            raise await self._ended_or(error, "terminate") from error

    async def _ended_or(self, error: RPCError, name: str) -> Exception:
        if error.status is RPCStatusCode.NOT_FOUND:
            return await self._gateway.ended(self.id, name)
        return await self._gateway.failed(error, self.id)

    @override
    def _signed(self, name: str, command: Command) -> dict[str, Json]:
        return self._session.signed(self.id, name, _json(command))

    @override
    async def _signal(self, name: str, command: Command) -> CommandId:
        self._signalled[command.id] = command.content_hash(name)
        try:
            await self._gateway.signal(
                self.id, name, self._session.signed(self.id, name, _json(command))
            )
        except RunAlreadyMerged:
            # Whoever stops this run does not mean the one that has it.
            if not isinstance(command, MessageCommand):
                raise
            led, said = await self._led_on(command)
            self._led[command.id] = led
            return await led._signal(name, said)  # noqa: SLF001 - a run, too
        return command.id

    @override
    def _made(self, kind: type[C], by: str | None, id: str | None, /, **fields: Json) -> C:
        """A command.

        Raises:
            UsageError: a text is too long, or is none.
        """
        head = {
            "id": id or new_command_id(),
            "by": self._session.user if by is None else by,
        }
        try:
            return kind.model_validate({**head, **fields})
        except ValidationError as error:
            raise UsageError(
                f"cannot send the command: {validation_error_text(error, 'the command')}",
                remedy="docs/wire.md has the fields.",
            ) from error


def new_command_id() -> CommandId:
    """An id that no other command has."""
    return CommandId(f"c-{secrets.token_hex(8)}")


def _only_dry(command: CommandId) -> CommandConflict:
    """The error for an outcome that only tells what a change would do."""
    return CommandConflict(
        f"the id {command!r} was used for a dry run of a change: nothing was changed by it",
        remedy="Send the change with an id of its own.",
    )


def _check_accepted(event: Event, changed: ChangeResult) -> None:
    """Checks that a change was accepted where its outcome says so: else no graph comes of it.

    Raises:
        CommandRejected: something else is at that place of the journal.
    """
    entry = event.entry
    if isinstance(entry, ChangeAccepted) and entry.graph_version == changed.graph_version:
        return
    raise CommandRejected(
        f"the run accepted no change to graph v{changed.graph_version} at position "
        f"{changed.position}: there is {entry.kind!r}",
        remedy="Send it as a new change, with a new id.",
    )


def _kind(cause: BaseException | None) -> str:
    return (cause.type or "") if isinstance(cause, ApplicationError) else ""


class _Server:
    """What a run's server tells to those who follow the run."""

    def __init__(self, session: Session, run: RunId) -> None:
        self._session = session
        self._run = run

    async def ended(self) -> str | None:
        try:
            description = await self._session.gateway.describe(self._run)
        except RunNotFound:
            return FORGOTTEN  # the store may have the journal still
        status = STATUS_NAMES.get(description.status, "") if description.status else ""
        return None if status == "running" else status

    async def polled(self) -> bool:
        try:
            description = await self._session.gateway.describe(self._run)
            return await self._session.gateway.polled(description.task_queue)
        except (CrewlogError, RPCError):
            return True

    async def silent(self) -> None:
        with suppress(CrewlogError):
            description = await self._session.gateway.describe(self._run)
            await self._session.mention_no_worker(description.task_queue)


SLOW_LOOK = 0.2
"""From this wait on, it is also asked whether the run was ended from outside."""


def _json(command: Command) -> dict[str, Json]:
    return {"id": command.id, **command.to_json()}


def _written(definition: Written) -> dict[str, Json]:
    """A definition as the wire has it. Data are judged by the worker, which names all faults."""
    if isinstance(definition, Mapping):
        return {**definition}
    return definition_of(definition).to_json()


def operation_json(operation: Operation | Mapping[str, Json]) -> dict[str, Json]:
    """An operation as the wire has it: with its name, which is its default."""
    if isinstance(operation, Mapping):
        return {**operation}
    return {"op": operation.op, **operation.to_json()}


def _change_json(command: Change) -> dict[str, Json]:
    operations = [operation_json(each) for each in command.operations]
    return {**_json(command), **({"operations": operations} if operations else {})}


def _limit(limit: int) -> int:
    # The wire allows pages of up to 1,000 entries.
    return max(1, min(limit, 1000))
