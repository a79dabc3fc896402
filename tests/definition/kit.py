"""Builders for a test, gone after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crewlog.definition import builders


@contextmanager
def registered(name: str, expand: Any, **more: Any) -> Iterator[None]:
    """A builder of that name, as long as the block lasts."""
    kind = more.pop("kind", "flow")
    options = more.pop("options", builders.NoOptions)
    builders.register(builders.Builder(name, "for a test", kind, options, expand, **more))
    try:
        yield
    finally:
        builders._registered.pop(name)
