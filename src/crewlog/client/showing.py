"""What questions show besides their words: outputs, of which the run has the hash alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from crewlog.client.journal import OpenStore
from crewlog.errors import StoreIncomplete, StoreUnavailable
from crewlog.model import Json
from crewlog.state.planned import value_words
from crewlog.wire import InterruptView

_MESSAGE = ".text"
"""The output that every agent has: its final message, which is kept as one."""


async def with_shown(
    open_store: OpenStore, questions: Sequence[InterruptView]
) -> list[InterruptView]:
    """Questions, with what they show as their detail; where the store is away, with its name.

    Args:
        open_store: Opens the store; only where a question shows something large.
        questions: The questions.
    """
    found: list[InterruptView] = []
    for each in questions:
        made = each
        if each.shows is not None:
            with suppress(StoreUnavailable, StoreIncomplete):
                bodies = await (await open_store()).get_bodies([each.shows])
                value = bodies[each.shows]
                words = _said(value) if each.detail.endswith(_MESSAGE) else value_words(value)
                made = each.model_copy(update={"detail": words})
        found.append(made)
    return found


def _said(value: Json) -> str:
    """What an agent said last, without all that is kept with it."""
    from crewlog.state.messages import message_from_json  # noqa: PLC0415 - it takes long

    if not isinstance(value, dict):
        return value_words(value)
    return str(message_from_json(cast("dict[str, Json]", value)).text)
