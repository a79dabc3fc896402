"""The SQL files of the package: queries by name, migrations by number."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_MIGRATION = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered change of the schema."""

    version: int
    name: str
    sql: str

    @property
    def hash(self) -> str:
        """The hash of the statements, without comments and white space."""
        statements = " ".join(_COMMENT.sub("", self.sql).split())
        return hashlib.sha256(statements.encode()).hexdigest()


@cache
def queries() -> dict[str, str]:
    """The queries of `queries/*.sql`, by the name in the `-- name:` line above each."""
    found: dict[str, str] = {}
    for file in files("crewlog.store").joinpath("queries").iterdir():
        if file.name.endswith(".sql"):
            _, *parts = _NAME.split(file.read_text("utf-8"))
            found.update(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))
    return found


@cache
def migrations() -> tuple[Migration, ...]:
    """The migrations `migrations/NNNN_name.sql` in order."""
    found = [
        Migration(int(match[1]), match[2], file.read_text("utf-8"))
        for file in files("crewlog.store").joinpath("migrations").iterdir()
        if (match := _MIGRATION.fullmatch(file.name))
    ]
    return tuple(sorted(found, key=lambda migration: migration.version))
