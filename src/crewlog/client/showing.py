"""What questions show that the run has only by reference: large outputs, arguments of calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar, cast

from crewlog.client.journal import OpenStore
from crewlog.errors import StoreIncomplete, StoreUnavailable
from crewlog.graph import interrupts
from crewlog.model import Json
from crewlog.state.value_text import value_text
from crewlog.wire import InterruptView

_MESSAGE = ".text"
"""The output that every agent has: its final message, which is kept as one."""
Question = TypeVar("Question", bound=InterruptView)


async def with_shown(open_store: OpenStore, questions: Sequence[Question]) -> list[Question]:
    """Questions with all that they show; where the store is away, with what the run has of it.

    Args:
        open_store: Opens the store; only where something is in it that a question shows.
        questions: The questions.
    """
    found: list[Question] = []
    for each in questions:
        made = each
        body = each.shows or each.message
        if body is not None:
            with suppress(StoreUnavailable, StoreIncomplete):
                value = (await (await open_store()).get_bodies([body]))[body]
                made = _with_arguments(each, value) if each.message else _with_value(each, value)
        found.append(made)
    return found


def _with_value(asked: Question, value: Json) -> Question:
    words = _said(value) if asked.detail.endswith(_MESSAGE) else value_text(value)
    return asked.model_copy(update={"detail": words})


def _with_arguments(asked: Question, message: Json) -> Question:
    """A question about a call, with the arguments that the message has for it."""
    args = None
    if isinstance(message, dict):
        args = interrupts.tool_call_arguments(cast("dict[str, Json]", message), asked.call_id)
    if args is None:
        return asked
    shown, whole = interrupts.shorten_arguments(args)
    update = {
        "action_requests": tuple({**each, "args": shown} for each in asked.action_requests),
        "detail": interrupts.arguments_text(shown, str(asked.message), whole=whole),
        "has_excerpts": not whole,
    }
    return asked.model_copy(update=update)


def _said(value: Json) -> str:
    """What an agent said last, without all that is kept with it."""
    from crewlog.state.messages import message_from_json  # noqa: PLC0415 - it takes long

    if not isinstance(value, dict):
        return value_text(value)
    return str(message_from_json(cast("dict[str, Json]", value)).text)
