"""The examples as their workers have them: their folder is where it runs, and on the path."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Inside = Callable[..., tuple[ModuleType, ...]]


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    """Goes into an example's folder and imports modules of it; they are forgotten afterwards."""
    before = set(sys.modules)

    def enter(example: str, *modules: str) -> tuple[ModuleType, ...]:
        folder = EXAMPLES / example
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))
        return tuple(importlib.import_module(each) for each in modules)

    yield enter
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(EXAMPLES):
            del sys.modules[name]
