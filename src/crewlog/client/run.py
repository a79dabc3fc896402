"""A run as its clients see it: look at it, talk to it, wait for it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError, TerminatedError
from temporalio.exceptions import CancelledError as TemporalCancelledError
from temporalio.exceptions import TimeoutError as TemporalTimeoutError
from temporalio.service import RPCError, RPCStatusCode
from typing_extensions import override

from crewlog.client.by_hand import ByHand
from crewlog.client.events import FORGOTTEN, PATIENCE, Event, follow, outside
from crewlog.client.gateway import CALL_LIMIT, STATUS_NAMES, pauses
from crewlog.client.journal import JournalReader
from crewlog.client.past import state_at
from crewlog.client.rebuild import Rebuild, RebuildReport
from crewlog.definition.model import CrewDefinition
from crewlog.errors import (
    CrewlogError,
    InvalidPrompt,
    RunFailed,
    RunNotFound,
    TemporalUnavailable,
    UsageError,
    WorkerMissing,
)
from crewlog.ids import CommandId, RunId
from crewlog.model import Json, Model
from crewlog.state.model import CLOSED, CrewState
from crewlog.wire import (
    Accepted,
    CheckpointPage,
    Command,
    GraphView,
    InterruptCommand,
    InterruptView,
    JournalPage,
    MessageCommand,
    Respond,
    RunResult,
    RunView,
    TagCommand,
)

if TYPE_CHECKING:
    from crewlog.client.client import Client

M = TypeVar("M", bound=Model)
C = TypeVar("C", bound=Command)


class Run(ByHand):
    """One run, by its id; made by `Client.start` and `Client.run`.

    All methods raise `RunNotFound` where there is no such run and `TemporalUnavailable` where the
    server is away; what only a worker can tell raises `WorkerMissing` where none answers.
    """

    def __init__(self, client: Client, run: RunId) -> None:
        self._client = client
        self._gateway = client.gateway
        self._reader = JournalReader(self._gateway, client.store, run)
        self.id = run

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @property
    def url(self) -> str | None:
        """The run in Temporal's web interface, where we know that there is one."""
        return self._client.url(self.id)

    # -- looking -----------------------------------------------------------------------------

    async def status(self) -> RunView:
        """Where the run is: its frontier, its flags, what it waits for."""
        return await self._view("status", RunView)

    async def state(self) -> CrewState:
        """The whole state, transcripts as heads."""
        return await self._view("state", CrewState)

    async def state_at(self, position: int) -> CrewState:
        """The whole state as it was at a journal position.

        Raises:
            UsageError: the journal has no such position yet.
            StoreUnavailable: entries of it are in the store, and that is away.
            StoreIncomplete: the store lacks some of them.
        """
        return await state_at(self._reader, self.id, position)

    async def graph(self) -> GraphView:
        """The plan and its picture, coloured by what its nodes do."""
        return await self._view("graph", GraphView)

    async def interrupts(self) -> list[InterruptView]:
        """The open questions, oldest first."""
        answer = await self._gateway.query(self.id, "interrupts")
        return [InterruptView.model_validate(item, extra="ignore") for item in answer]

    async def journal(self, after: int = 0, limit: int = 200) -> JournalPage:
        """A part of the journal: from the run, from the store what is older, without a gap.

        Where no worker answers, it is what the store has.

        Raises:
            StoreUnavailable: older entries are needed, and the store is away.
            StoreIncomplete: older entries are needed, and the store lacks them.
        """
        return (await self._reader.read(after, _limit(limit))).page

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
        return await Rebuild(self._gateway, self._client.store, self.id, tell)(replace=replace)

    async def _view(self, name: str, model: type[M]) -> M:
        # Unknown fields are a newer worker's: they may be added, never renamed.
        return model.model_validate(await self._gateway.query(self.id, name), extra="ignore")

    # -- following ---------------------------------------------------------------------------

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """The journal as it grows: every entry once and in order, until the run's last one.

        It survives restarts of workers and server and the run's continuing as new. To go on in
        another process, give the last position that was handled.

        Args:
            after: The position after which to begin.

        Raises:
            RunNotFound: there is no such run.
            TemporalUnavailable: the server has been away for five minutes.
            RunFailed: it was ended from outside, and no worker can tell its last entries.
            WorkerMissing: the run has ended, but nobody can tell its last entries.
        """
        async for event in follow(self._reader, self.id, after, _Server(self._client, self.id)):
            yield event

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
            return outside(self.id, "terminated", await self._known(), cause.message)
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
            polled = await _Server(self._client, self.id).polled()
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
                seen = f"the run was {view.status}: {view.waiting_for or view.error or 'at work'}"
            ended = view is not None and view.status in CLOSED
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
        description = await self._gateway.describe(self.id)
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
        self, reason: str = "", *, by: str | None = None, id: str | None = None
    ) -> CommandId:
        """Lets a paused run go on; see `pause`."""
        return await self._signal("resume", self._made(Command, by, id, reason=reason))

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
        self, text: str, to: str = "public", *, by: str | None = None, id: str | None = None
    ) -> CommandId:
        """Says something to the crew, or to whoever reads the log `to`; see `pause`."""
        command = self._made(MessageCommand, by, id, text=text, to=to)
        return await self._signal("message", command)

    async def respond(
        self,
        interrupt: str,
        decision: str,
        *,
        by: str | None = None,
        id: str | None = None,
        reason: str = "",
        about: str = "",
    ) -> Accepted:
        """Answers an open question, exactly once, whatever happens on the way.

        Args:
            interrupt: The question's id, `i1`.
            decision: `approve` (its first option), `reject` (its last), an option, or words.
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
    ) -> Accepted:
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

    async def _respond(
        self,
        interrupt: str,
        answer: dict[str, Json],
        *,
        by: str | None,
        id: str | None,
        reason: str,
        about: str,
    ) -> Accepted:
        command = self._made(
            Respond, by, id, interrupt=interrupt, decisions=[answer], reason=reason, hash=about
        )
        return await self._update("respond", command)

    @override
    async def _tag(self, command: TagCommand) -> CommandId:
        return await self._signal("tag", command)

    @override
    async def _update(self, name: str, command: Command) -> Accepted:
        outcome = await self._gateway.update(self.id, name, _json(command))
        return Accepted.model_validate(outcome, extra="ignore")

    async def cancel(self) -> None:
        """Asks Temporal to cancel the run, which it takes as a graceful stop."""
        try:
            await self._gateway.handle(self.id).cancel(rpc_timeout=timedelta(seconds=CALL_LIMIT))
        except RPCError as error:
            raise await self._ended_or(error, "cancel") from error

    async def terminate(self, reason: str = "") -> None:
        """Ends the run at once: nothing finishes, and nothing more is recorded by the run."""
        try:
            await self._gateway.handle(self.id).terminate(
                reason=reason or "terminated by its client",
                rpc_timeout=timedelta(seconds=CALL_LIMIT),
            )
        except RPCError as error:
            raise await self._ended_or(error, "terminate") from error

    async def _ended_or(self, error: RPCError, name: str) -> Exception:
        if error.status is RPCStatusCode.NOT_FOUND:
            return await self._gateway.ended(self.id, name)
        return await self._gateway.failed(error, self.id)

    async def _signal(self, name: str, command: Command) -> CommandId:
        await self._gateway.signal(self.id, name, _json(command))
        return command.id

    @override
    def _made(self, model: type[C], by: str | None, id: str | None, **fields: Json) -> C:
        """A command.

        Raises:
            UsageError: a text is too long, or is none.
        """
        head = {
            "id": id or f"c-{secrets.token_hex(8)}",
            "by": self._client.user if by is None else by,
        }
        try:
            return model.model_validate({**head, **fields})
        except ValidationError as error:
            faults = "; ".join(f"{e['loc'][0]}: {e['msg']}" for e in error.errors())
            raise UsageError(
                f"the run {self.id!r} cannot be told that: {faults}",
                remedy="docs/wire.md has the fields.",
            ) from error


def _kind(cause: BaseException | None) -> str:
    return (cause.type or "") if isinstance(cause, ApplicationError) else ""


class _Server:
    """What a run's server tells to those who follow the run."""

    def __init__(self, client: Client, run: RunId) -> None:
        self._client = client
        self._run = run

    async def ended(self) -> str | None:
        try:
            description = await self._client.gateway.describe(self._run)
        except RunNotFound:
            return FORGOTTEN  # the store may have the journal still
        status = STATUS_NAMES.get(description.status, "") if description.status else ""
        return None if status == "running" else status

    async def polled(self) -> bool:
        try:
            description = await self._client.gateway.describe(self._run)
            return await self._client.gateway.polled(description.task_queue)
        except (CrewlogError, RPCError):
            return True

    async def silent(self) -> None:
        with suppress(CrewlogError):
            description = await self._client.gateway.describe(self._run)
            await self._client.mention_no_worker(description.task_queue)


SLOW_LOOK = 0.2
"""From this wait on, it is also asked whether the run was ended from outside."""


def _json(command: Command) -> dict[str, Json]:
    return {"id": command.id, **command.to_json()}


def _limit(limit: int) -> int:
    # The wire allows pages of up to 1,000 entries.
    return max(1, min(limit, 1000))
