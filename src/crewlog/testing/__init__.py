"""What tests of crews need: a local server, a worker in the process, models that follow a script.

    async def test_notes(crewlog_local):           # the pytest plugin ships with the package
        run = await crewlog_local.run("crew.yaml", model=scripted("notes.script.yaml"))
        assert run.steps == ["collector", "writer", "checker"]

Names are loaded when they are first used: pytest imports this package for its plugin, in every
session of every project that has Crewlog installed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crewlog.testing.local import CrewlogLocal, FinishedRun, LocalServer
    from crewlog.testing.scripted import recorded_prompts

__all__ = ["CrewlogLocal", "FinishedRun", "LocalServer", "recorded_prompts", "scripted"]

_HOME = {
    "CrewlogLocal": "crewlog.testing.local",
    "FinishedRun": "crewlog.testing.local",
    "LocalServer": "crewlog.testing.local",
    "recorded_prompts": "crewlog.testing.scripted",
}


def scripted(script: Mapping[str, Any] | str | Path) -> str:
    """The name of a model that says what a script says, to be given to an agent or a crew.

    Args:
        script: The script as data, for models called in this process; or its file, for any.

    Raises:
        InvalidDefinition: where it is no script.
    """
    from crewlog.testing.scripted import scripted as make  # noqa: PLC0415 - see the docstring

    return make(script)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'crewlog.testing' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps `scripted` the function: importing the module of that name would replace it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name == "scripted" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
