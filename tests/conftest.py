"""The fixtures that all tests share; `shared` has them, and what tests import by name."""

from __future__ import annotations

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
