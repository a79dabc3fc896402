"""What is installed: every package of the source, and nothing that is none."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_package_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = [
        str(init.parent.relative_to(ROOT / "src")).replace("/", ".")
        for place in ("src/crewlog", "src/crewlog/workflows", "src/crewlog/activities")
        for init in (ROOT / place).glob("**/__init__.py")
    ]
    found.append("crewlog.workers")
    assert sorted(listed) == sorted(set(found))
