"""What the agents of the feature crew may do: read and write files of the run's workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crewlog import current_call

PROJECT = Path(__file__).with_name("project")
MOST = 200
"""Files that are listed."""


def copy_project() -> dict[str, Any]:
    """Puts the project into the workspace: its tests, which say what is wanted."""
    for file in sorted(PROJECT.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            _write(file.relative_to(PROJECT).as_posix(), file.read_text(encoding="utf-8"))
    return list_files()


def list_files() -> dict[str, Any]:
    """Lists the files of the project."""
    root = current_call().workspace
    found = sorted(
        file.relative_to(root).as_posix()
        for file in root.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    )
    return {"files": found[:MOST], "count": len(found)}


def read_file(path: str) -> str:
    """Reads a file of the project.

    Args:
        path: Relative to the project, e.g. `tests/test_cart.py`.
    """
    with current_call().open(path) as file:
        return str(file.read())


def write_file(path: str, content: str) -> str:
    """Writes a file of the project, whole.

    Args:
        path: Relative to the project, e.g. `shop/cart.py`.
        content: All of it.
    """
    return _write(path, content)


def _write(path: str, content: str) -> str:
    """Writes a file whole or not at all, so that a repeated call leaves the same file."""
    call = current_call()
    target = call.resolve(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{call.call}")
    fresh.write_text(content, encoding="utf-8")
    fresh.replace(target)
    return f"{path}: {len(content.splitlines())} lines written"
