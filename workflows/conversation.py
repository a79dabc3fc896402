"""The responses of a conversation with their texts, for waiting clients and for the query.

The state only has the hash of a response. The history of the execution has its text, so this module
keeps it in memory, and a replay restores it. The last response is carried, so that no client needs
the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from crewlog.content_blocks import content_text
from crewlog.errors import CommandRejected
from crewlog.graph.engine import Engine
from crewlog.ids import CommandId, ContentHash
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.calls import CallModelResult, ToolCallsRequested
from crewlog.wire import ConversationView, Response

_RESTORING = ("RunRolledBack", "RunForked", "RunReopened")
"""Entries after which a run continues from another state."""
MAX_RESPONSES = 50
"""Responses that are kept with their texts."""
CARRIED_LENGTH = 16 * 1024
"""Characters of a response that are carried; the store has the whole text."""


class Responses:
    """The responses of a conversation.

    Args:
        last: The response that the last execution carried.
        message: The command whose message the current exchange answers.
        position: The position up to which the last execution has read its journal.
    """

    def __init__(self, last: Response | None = None, message: str = "", position: int = 0) -> None:
        self._texts: dict[ContentHash, str] = {}
        """The texts of the current exchange, by the hashes of their messages."""
        self._responses: dict[str, Response] = {last.message: last} if last is not None else {}
        self._last = last
        self._message = message
        """The command whose message the current exchange answers."""
        self._position = position

    def add_message(self, result: CallModelResult) -> None:
        """Keeps the text of a model's message, which may be the response.

        A message with tool calls may be it, too: a turn that reaches its limit of calls ends there.
        """
        match result.outcome:
            case ToolCallsRequested(draft=str(draft)):
                self._add_text(draft, result.body)
            case _:
                self._add_text(result.hash, result.body)

    def _add_text(self, body: ContentHash, message: Mapping[str, Json]) -> None:
        if text := text_of(message):
            self._texts[body] = text

    def update(self, engine: Engine) -> None:
        """Reads the journal for exchanges that have ended since the last update."""
        state = engine.state
        if state.conversation is None or state.position == self._position:
            return
        entries = engine.journal.page(self._position, len(engine.journal.entries))
        self._position = state.position
        for _, data in entries:
            if data["kind"] == "ExchangeStarted":
                self._message = str(data.get("message_command", ""))
            elif data["kind"] == "ExchangeEnded":
                self._add_response(j.ExchangeEnded.model_validate(data))
            elif data["kind"] in _RESTORING:  # perhaps within another exchange
                conversation: dict[str, Json] = data["state"].get("conversation") or {}
                self._message = str(conversation.get("message", ""))
            elif data["kind"] == "ModelCallCompleted" and data["ref"].get("inline"):
                # The message of an agent without a model is not the result of an activity.
                self._add_text(data["ref"]["body"], data["ref"]["inline"])

    def _add_response(self, entry: j.ExchangeEnded) -> None:
        if not entry.exchange:
            return
        message, body = self._message, entry.response
        if entry.ref is not None:
            body = entry.ref.body
            inline: Mapping[str, Json] = entry.ref.inline or {}
            text = text_of(inline)
        else:
            text = self._texts.get(body, "") if body is not None else ""
        response = Response(
            exchange=entry.exchange,
            message=CommandId(message),
            agent=entry.agent,
            text=text,
            body=body,
            error=entry.error,
            warning=entry.warning,
            end_reason=entry.end_reason,
        )
        self._texts.clear()
        self._last = response
        self._responses.pop(message, None)
        self._responses[message] = response
        while len(self._responses) > MAX_RESPONSES:
            del self._responses[next(iter(self._responses))]

    def response_to(self, engine: Engine, command: str) -> Response | None:
        """The response to a message; None until its exchange has ended.

        Raises:
            CommandRejected: the response is not kept any more, or there is no such message.
        """
        self.update(engine)
        if (response := self._responses.get(command)) is not None:
            return response
        state = engine.state
        is_queued = any(message.command == command for message in state.message_queue)
        is_current = (
            state.conversation is not None
            and not state.is_conversation_idle
            and state.conversation.message == command
        )
        if is_queued or is_current:
            return None
        raise CommandRejected(
            f"there is no response to {command!r}: an earlier exchange answered it, or it is not a "
            "message",
            remedy=f"Read all exchanges with `crewlog log {state.run}`.",
        )

    def last(self, engine: Engine) -> Response | None:
        """The last response, with its text if it is known here."""
        self.update(engine)
        conversation = engine.state.conversation
        last = conversation.last if conversation is not None else None
        if last is None or (self._last is not None and self._last.exchange == last.exchange):
            return self._last
        return Response(
            exchange=last.exchange,
            message=CommandId(last.message),
            agent=last.agent,
            body=last.response,
            error=last.error,
            warning=last.warning,
            end_reason=last.end_reason,
        )

    def carry(self, engine: Engine) -> dict[str, Json]:
        """The last response, for the next execution; empty if there is none."""
        response = self.last(engine)
        if response is None:
            return {}
        if len(response.text) > CARRIED_LENGTH:
            response = response.model_copy(update={"text": f"{response.text[:CARRIED_LENGTH]}…"})
        return response.to_json()


def conversation_view(engine: Engine, responses: Responses) -> ConversationView:
    """The result of the query `conversation`."""
    state = engine.state
    return ConversationView(
        run=state.run,
        exchange=state.conversation.exchange if state.conversation is not None else 0,
        is_waiting=state.is_conversation_idle
        and state.status == "running"
        and not state.message_queue,
        queued_messages=len(state.message_queue),
        deadline=state.conversation.deadline if state.conversation is not None else 0,
        last_response=responses.last(engine),
    )


def text_of(body: Mapping[str, Json]) -> str:
    """The text of a message; for content blocks, their texts and the names of files."""
    content = body.get("content", "")
    return content if isinstance(content, str) else content_text(content)
