"""What a conversation has answered, with the words: for those who wait, and for the query.

The state holds an answer by its hash, and the history of the execution that made it has its words.
So they are kept in memory here, which a replay makes anew, and the last one is carried over: nobody
who asks a run needs the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from crewlog.content_blocks import words_of
    from crewlog.errors import CommandRejected
    from crewlog.graph.engine import Engine
    from crewlog.ids import CommandId, ContentHash
    from crewlog.model import Json
    from crewlog.state import journal as j
    from crewlog.state.calls import CallModelResult
    from crewlog.wire import ConversationView, Response

_GOES_ON = ("RunRolledBack", "RunForked", "RunReopened")
"""Entries after which a run goes on from another state."""
KEPT = 50
"""Answers that are kept with their words."""
LONGEST = 16 * 1024
"""Characters of an answer that are carried over; the store has all of it."""


class Answers:
    """The answers of a run's conversation.

    Args:
        last: The last one of the execution before.
        said: The command whose message the turn answers that is under way.
        seen: The position up to which that execution has looked.
    """

    def __init__(self, last: Response | None = None, said: str = "", seen: int = 0) -> None:
        self._texts: dict[ContentHash, str] = {}
        """What was said in the present turn, by the message's hash."""
        self._replies: dict[str, Response] = {last.message: last} if last is not None else {}
        self._last = last
        self._said = said
        """The command whose message the present turn answers."""
        self._seen = seen

    def note(self, result: CallModelResult) -> None:
        """Keeps the words of a model's reply, which may be the answer.

        Also of one that calls tools: a turn that reaches its bound of calls ends with its text.
        """
        self._note(result.draft or result.hash, result.body)

    def _note(self, body: ContentHash, message: Mapping[str, Json]) -> None:
        if words := text_of(message):
            self._texts[body] = words

    def look(self, engine: Engine) -> None:
        """Sees which turns have ended since the last look."""
        state = engine.state
        if state.conversation is None or state.position == self._seen:
            return
        entries = engine.ledger.page(self._seen, len(engine.ledger.entries))
        self._seen = state.position
        for _, data in entries:
            if data["kind"] == "ExchangeStarted":
                self._said = str(data.get("message_command", ""))
            elif data["kind"] == "ExchangeEnded":
                self._ended(j.ExchangeEnded.model_validate(data))
            elif data["kind"] in _GOES_ON:  # perhaps in the middle of another turn
                talk: dict[str, Json] = data["state"].get("conversation") or {}
                self._said = str(talk.get("message", ""))
            elif data["kind"] == "ModelCallCompleted" and data["ref"].get("inline"):
                # It is made here and comes with no result: of an agent that asks no model.
                self._note(data["ref"]["body"], data["ref"]["inline"])

    def _ended(self, entry: j.ExchangeEnded) -> None:
        if not entry.exchange:
            return
        said, body = self._said, entry.response
        if entry.ref is not None:
            body = entry.ref.body
            inline: Mapping[str, Json] = entry.ref.inline or {}
            text = text_of(inline)
        else:
            text = self._texts.get(body, "") if body is not None else ""
        reply = Response(
            exchange=entry.exchange,
            message=CommandId(said),
            agent=entry.agent,
            text=text,
            body=body,
            error=entry.error,
            warning=entry.warning,
            end_reason=entry.end_reason,
        )
        self._texts.clear()
        self._last = reply
        self._replies.pop(said, None)
        self._replies[said] = reply
        while len(self._replies) > KEPT:
            del self._replies[next(iter(self._replies))]

    def to(self, engine: Engine, command: str) -> Response | None:
        """The answer to a message; none where its turn is not over.

        Raises:
            CommandRejected: it was answered long ago, and the words are not kept here.
        """
        self.look(engine)
        if (found := self._replies.get(command)) is not None:
            return found
        state = engine.state
        waits = any(said.command == command for said in state.message_queue)
        under_way = state.conversation is not None and not state.is_conversation_idle
        if waits or (
            under_way and state.conversation is not None and state.conversation.message == command
        ):
            return None
        raise CommandRejected(
            f"the message {command!r} was answered in an earlier turn, or is none",
            remedy=f"`crewlog log {state.run}` tells all turns.",
        )

    def last(self, engine: Engine) -> Response | None:
        """The last answer, with its words where they are known here."""
        self.look(engine)
        told = engine.state.conversation.last if engine.state.conversation is not None else None
        if told is None or (self._last is not None and self._last.exchange == told.exchange):
            return self._last
        return Response(
            exchange=told.exchange,
            message=CommandId(told.message),
            agent=told.agent,
            body=told.response,
            error=told.error,
            warning=told.warning,
            end_reason=told.end_reason,
        )

    def carried(self, engine: Engine) -> dict[str, Json]:
        """The last answer, for the next execution; empty where there is none."""
        reply = self.last(engine)
        if reply is None:
            return {}
        if len(reply.text) > LONGEST:
            reply = reply.model_copy(update={"text": f"{reply.text[:LONGEST]}…"})
        return reply.to_json()


def view(engine: Engine, answers: Answers) -> ConversationView:
    """What the query `conversation` tells."""
    state = engine.state
    return ConversationView(
        run=state.run,
        exchange=state.conversation.exchange if state.conversation is not None else 0,
        waiting=state.is_conversation_idle
        and state.status == "running"
        and not state.message_queue,
        queued=len(state.message_queue),
        deadline=state.conversation.deadline if state.conversation is not None else 0,
        last=answers.last(engine),
    )


def text_of(body: Mapping[str, Json]) -> str:
    """The words of a message; of a content in parts, of those that are text; files by name."""
    content = body.get("content", "")
    return content if isinstance(content, str) else words_of(content)
