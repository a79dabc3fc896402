"""The fixtures that all tests share; `shared` has them, and what tests import by name."""

from __future__ import annotations

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
