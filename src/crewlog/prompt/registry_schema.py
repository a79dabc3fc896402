"""The published JSON Schema of a registry, for editors and other languages.

`python -m crewlog.prompt.registry_schema > src/crewlog/prompt/registry.schema.json` writes the file
that ships with the package; a test keeps it up to date.
"""

from __future__ import annotations

import sys

from crewlog.definition.schema import schema_of, schema_text
from crewlog.model import Json
from crewlog.prompt.registry import Registry


def registry_schema() -> dict[str, Json]:
    """The schema (draft 2020-12) of `Registry` as people write it."""
    return schema_of(Registry, "Crewlog registry")


def registry_schema_text() -> str:
    """The schema as the file that ships with the package."""
    return schema_text(registry_schema())


if __name__ == "__main__":
    sys.stdout.write(registry_schema_text())
