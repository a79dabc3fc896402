"""Mappings that may be written as one of their values alone."""

from __future__ import annotations

from typing import Any


def whole_of(value: Any, alone: str, listed: str) -> Any:
    """A mapping, which may be written as its value at `alone`.

    Its list is made a tuple here: behind a validator, JSON is no longer known to be JSON, and what
    is read strictly takes no list for a tuple.

    Args:
        value: What is written.
        alone: The key whose value may stand for all.
        listed: The key whose value is a list.
    """
    if isinstance(value, str):
        return {alone: value}
    if isinstance(value, dict):
        whole: dict[str, Any] = dict(value)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(whole.get(listed), list):
            whole[listed] = tuple(whole[listed])
        return whole
    return value
