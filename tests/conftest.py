"""The fixtures that all tests share; `shared` has them, and what tests import by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from crewlog.model import Model
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


@pytest.fixture(autouse=True)
def _known_fields(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuses a copy of a model with fields that the model does not have.

    A copy is not validated, and its dump leaves such a field out. The costs count calls, so they
    are measured without this.
    """
    if "costs" in request.path.parts:
        return
    copy = Model.model_copy

    def checked(
        model: Model, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> Model:
        unknown = {*(update or ())} - type(model).model_fields.keys()
        assert not unknown, f"{type(model).__name__} has no {unknown}"
        return copy(model, update=update, deep=deep)

    monkeypatch.setattr(Model, "model_copy", checked)
