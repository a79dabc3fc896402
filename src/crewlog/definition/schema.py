"""The published JSON Schema of a definition, for editors and other languages.

`python -m crewlog.definition.schema > src/crewlog/definition/crew.schema.json` writes the file that
ships with the package; a test keeps it up to date.
"""

from __future__ import annotations

import json
import sys

from crewlog.definition.model import CrewDefinition
from crewlog.model import Json, Model

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Json]:
    """The schema (draft 2020-12) of `CrewDefinition` as people write it."""
    return schema_of(CrewDefinition, "Crewlog crew")


def schema_of(model: type[Model], title: str) -> dict[str, Json]:
    """The schema (draft 2020-12) of a model as people write it."""
    schema = _unwrapped(model.model_json_schema(by_alias=True, mode="validation"))
    schema["title"] = title
    return {"$schema": DIALECT, **schema}


def _unwrapped(value: Json, key: str = "") -> Json:
    """Docstrings are wrapped for our sources; an editor wraps for its own width."""
    if isinstance(value, dict):
        mapping: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
        return {name: _unwrapped(part, name) for name, part in mapping.items()}
    if isinstance(value, list):
        parts: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
        return [_unwrapped(part) for part in parts]
    return " ".join(value.split()) if key == "description" and isinstance(value, str) else value


def schema_text(schema: dict[str, Json] | None = None) -> str:
    """A schema, by default that of crews, as the file that ships with the package."""
    return json.dumps(schema or json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
