"""The fixtures that all tests share; `shared` has them, and what tests import by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from shared import database, directory, lab, postgres_dsn, postgres_store, server, store, worker

__all__ = [
    "database",
    "directory",
    "lab",
    "postgres_dsn",
    "postgres_store",
    "server",
    "store",
    "worker",
]

pytest_plugins = ["pytester"]

# The same examples each time, and no limit for one: what passes does not fail on another machine.
# `--hypothesis-profile default` looks at others.
settings.load_profile("ci")

LONG = ("acceptance", "cli", "prompt", "state", "client")
"""The directories that take the longest time in all, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts long files first, so that all processes work until the end."""
    places = {name: place for place, name in enumerate(LONG)}
    root = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        inside = item.path.relative_to(root).parts if item.path.is_relative_to(root) else ("",)
        return places.get(inside[0], len(places))

    items.sort(key=place)
