"""Talking to a run that is a conversation: a message, and its answer.

The message and the wait for the answer are one update (`ask`). Where as many wait already as a
run lets wait, the message is a signal, and the answer is found in the journal.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from crewlog.client.gateway import REFUSALS, Gateway, pauses
from crewlog.errors import (
    CommandRejected,
    RunBusy,
    StoreIncomplete,
    UsageError,
    WaitTimeout,
    WorkerMissing,
)
from crewlog.graph.exchanges import missing_response_error
from crewlog.ids import CommandId, ContentHash, RunId
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.messages import message_from_json
from crewlog.state.model import CrewState
from crewlog.store.protocol import Store
from crewlog.wire import AskRun, Command, ConversationView, MessageCommand, Response, RunResult

C = TypeVar("C", bound=Command)


STORED_WITHIN = 10.0
"""Seconds within which what a run tells is stored, where the store is there."""


class Talking(ABC):
    """The part of a run's client that talks to a conversation."""

    id: RunId
    _gateway: Gateway
    _talks = False
    """Whether the run is known to be a conversation."""

    @abstractmethod
    def _made(self, kind: type[C], by: str | None, id: str | None, /, **fields: Json) -> C: ...

    @abstractmethod
    def _signed(self, name: str, command: Command) -> dict[str, Json]: ...

    @abstractmethod
    async def open_store(self) -> Store:
        """The client's store."""
        ...

    @abstractmethod
    async def state(self) -> CrewState:
        """The live state."""
        ...

    @abstractmethod
    async def _signal(self, name: str, command: Command) -> CommandId: ...

    @abstractmethod
    def events(self, after: int = 0) -> AsyncGenerator[Any]:
        """The journal as it grows."""
        ...

    async def conversation(self) -> ConversationView:
        """Where the conversation is, and its last answer.

        Raises:
            UsageError: the run is no conversation.
        """
        answer = await self._gateway.query(self.id, "conversation")
        self._talks = True
        return ConversationView.model_validate(answer, extra="ignore")

    async def send(
        self,
        text: str,
        *,
        by: str | None = None,
        id: str | None = None,
        timeout: float | None = None,
    ) -> Response:
        """Says something to a conversation, and waits for the answer of its turn.

        Sent in the middle of a turn, it waits for one of its own. Two with the same id are one: a
        message of which nobody knows what became is sent again under its id, and answered once.

        Args:
            text: What is said.
            by: Who says it; by default the system's user.
            id: The command's id.
            timeout: Seconds; without it, as long as it takes and a worker is there. The turn goes
                on afterwards.

        Raises:
            UsageError: the run is no conversation.
            ConversationBusy: too many messages wait for their turns.
            CommandRejected: the run has ended, or ends meanwhile.
            RunFailed: it was ended from outside meanwhile.
            WorkerMissing: no worker answers. The message may have been taken, and is then answered
                once there is one: send it again with the id that the remedy names.
            WaitTimeout: no answer came in time; it is a TimeoutError.
        """
        if not self._talks:
            await self.conversation()
        command = self._made(AskRun, by, id, text=text)
        try:
            async with asyncio.timeout(timeout):
                return await self.whole(await self._sent(command))
        except TimeoutError as error:
            raise WaitTimeout(
                f"the run {self.id!r} did not answer within {timeout or 0:g} s; its turn goes on",
                remedy=f"`crewlog chat {self.id}` shows the answer, and what people are asked.",
                place=f"run {self.id!r}",
            ) from error
        except WorkerMissing as error:
            again = f"Send it again with id={command.id!r}: it is answered once, taken or not."
            raise WorkerMissing(
                error.message, remedy=f"{error.remedy} {again}".strip(), place=error.place
            ) from error

    async def _sent(self, command: AskRun) -> Response:
        try:
            outcome = await self._gateway.update(
                self.id, "ask", self._signed("ask", command), limit=math.inf
            )
        except RunBusy:
            return await self._told(command)
        try:
            found = RunResult.model_validate(outcome, extra="ignore").response
        except ValidationError:  # it ended meanwhile, and only knows that the message was taken
            found = None
        return found if found is not None else await self.answer_to(command.id)

    async def _told(self, command: AskRun) -> Response:
        """Says it by a signal, and waits for what the journal tells of that."""
        said = MessageCommand(id=command.id, by=command.by, text=command.text)
        since = (await self.state()).position
        await self._signal("message", said)
        return await self.answer_to(command.id, since=since)

    async def answer_to(
        self, message: str, after: int = 0, *, since: int | None = None
    ) -> Response:
        """The answer to a message that was sent, as the journal tells it; waited for.

        Args:
            message: The command that said it.
            after: A journal position before that.
            since: A position before it was sent, where nobody knows yet whether it is refused.

        Raises:
            ConversationBusy: too many messages wait for their turns.
            CommandRejected: the run refused it, or ended without an answer.
            RunFailed: the run was ended from outside.
        """
        turn = 0
        async with aclosing(self.events(after)) as events:
            async for event in events:
                match event.entry:
                    case j.ExchangeStarted() as began if began.message_command == message:
                        turn = began.exchange
                    case j.ExchangeEnded() as ended if turn and ended.exchange == turn:
                        return await self.whole(reply_of(ended, message))
                    case j.CommandRejected() as no if no.command == message:
                        if since is not None and event.position > since:
                            kind = REFUSALS.get(no.error_type, CommandRejected)
                            raise kind(no.reason, place=f"run {self.id!r}")
                    case _:
                        pass
        raise missing_response_error(self.id)

    async def asked(self, command: AskRun) -> RunResult | None:
        """Says what `ask` would, where too many wait by that; none where it is no conversation.

        Raises:
            ConversationBusy: too many messages wait for their turns.
            CommandRejected: the run refused it.
        """
        try:
            await self.conversation()
        except (CommandRejected, UsageError):
            return None
        reply = await self._told(command)
        return _result_of(await self.state(), reply)

    async def whole(self, reply: Response) -> Response:
        """An answer with its words, which may be in the store only.

        Those that no model said are stored right after a run has told of them: it is waited for.

        Raises:
            StoreIncomplete: the store does not get them.
        """
        if reply.text or reply.body is None:
            return reply
        body = await self._stored(reply.body)
        if not isinstance(body, dict):
            return reply
        said = message_from_json(cast("dict[str, Json]", body))
        return reply.model_copy(update={"text": str(said.text)})

    async def _stored(self, body: ContentHash) -> Json:
        store, until = await self.open_store(), time.monotonic() + STORED_WITHIN
        for pause in pauses(0.02, 0.5):
            try:
                return (await store.get_bodies([body]))[body]
            except StoreIncomplete:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError


def _result_of(state: CrewState, reply: Response) -> RunResult:
    """What `ask` is answered by a conversation."""
    return RunResult(
        run=state.run,
        status="waiting",
        outputs={reply.agent: {"text": reply.text}} if reply.agent is not None else {},
        flags={str(key): value for key, value in state.flags.items()},
        steps=state.steps,
        executions=state.execution,
        usage=state.usage,
        total=state.total_usage,
        position=state.position,
        ms=int(time.time() * 1000) - state.started_at,
        warning=reply.warning,
        end_reason=reply.end_reason,
        response=reply,
    )


def reply_of(entry: j.ExchangeEnded, message: str = "") -> Response:
    """The answer of a turn; its words are the store's."""
    return Response(
        exchange=entry.exchange,
        message=CommandId(message),
        agent=entry.agent,
        body=entry.ref.body if entry.ref is not None else entry.response,
        error=entry.error,
        warning=entry.warning,
        end_reason=entry.end_reason,
    )
