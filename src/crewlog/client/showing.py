"""What questions show besides their words: outputs, of which the run has the hash alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from crewlog.client.journal import OpenStore
from crewlog.errors import StoreIncomplete, StoreUnavailable
from crewlog.state.planned import value_words
from crewlog.wire import InterruptView


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
                made = each.model_copy(update={"detail": value_words(bodies[each.shows])})
        found.append(made)
    return found
