"""The descriptions of tools by their MCP servers: cleaned, limited in length, and hashed.

Texts of a server reach models, terminals and logs, and are not trusted: control characters and
invisible ones are removed, and lengths are limited. An approval is of the hash of the whole
description. The store also has the approved text, only to show people what has changed.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import Field

from crewlog.authority.allowlist import is_invisible
from crewlog.canonical_json import canonical, check_depth
from crewlog.model import Json, Model

LONGEST_DESCRIPTION = 4_000
LARGEST_SCHEMA = 50_000
"""Bytes of the JSON Schema of the arguments."""
LONGEST_TEXT = 200_000
"""Characters of a result; longer ones are shortened."""
_TEXT_KEYS = frozenset({"description", "title", "$comment"})
"""Keys of a schema with texts for people and models."""


class ToolDescription(NamedTuple):
    """The description of a tool by its server."""

    name: str
    description: str
    """Cleaned and shortened."""
    schema: dict[str, Json]
    """The JSON Schema of the arguments, with cleaned texts."""
    hash: str
    """SHA-256 of the whole description, in hex: an approval is of this hash."""
    fault: str
    """Why the tool cannot be used; empty if it can."""


def describe_tool(
    name: str, description: str | None, schema: Mapping[str, Json], title: str | None = None
) -> ToolDescription:
    """Cleans and hashes the description of a tool.

    Args:
        name: The name of the tool on the server.
        description: Its description.
        schema: The JSON Schema of its arguments.
        title: Its title for people.
    """
    whole = {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": dict(schema),
    }
    try:
        check_depth(whole)
        data = canonical(whole)
    except (ValueError, TypeError, RecursionError) as error:
        return ToolDescription(name, "", {}, "", f"its schema cannot be stored: {error}")
    hash_ = hashlib.sha256(data).hexdigest()
    text = shorten(clean_text(description or title or ""), LONGEST_DESCRIPTION)
    size = len(canonical(dict(schema)))
    if size > LARGEST_SCHEMA:
        fault = f"the schema of its arguments has {size:,} bytes, more than {LARGEST_SCHEMA:,}"
        return ToolDescription(name, text, {}, hash_, fault)
    if schema.get("type") != "object":
        return ToolDescription(name, text, {}, hash_, "its arguments are not an object")
    return ToolDescription(name, text, _clean_schema(dict(schema)), hash_, "")


def clean_text(text: str) -> str:
    """A text without control characters and invisible characters."""
    return "".join(
        c for c in text if c in "\n\t" or not (unicodedata.category(c) == "Cc" or is_invisible(c))
    )


def shorten(text: str, most: int) -> str:
    """A text of at most `most` characters; a shortened one ends with its length."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text):,} characters)"


def _clean_schema(schema: Json, is_text: bool = False) -> Json:
    if isinstance(schema, str):
        return shorten(clean_text(schema), LONGEST_DESCRIPTION) if is_text else schema
    if isinstance(schema, dict):
        return {
            key: _clean_schema(value, key in _TEXT_KEYS and isinstance(value, str))
            for key, value in schema.items()  # pyright: ignore[reportUnknownVariableType]
        }
    if isinstance(schema, list):
        return [_clean_schema(each) for each in schema]  # pyright: ignore[reportUnknownVariableType]
    return schema


class ApprovedDescription(Model):
    """The approved description of a tool, as its model reads it."""

    hash: str
    """The hash of the whole description, which identifies the approval."""
    description: str = ""
    """The description."""
    arguments: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The JSON Schema of the arguments."""

    def text(self) -> str:
        """The description and the schema, for people."""
        # ASCII escapes show invisible characters.
        return f"{self.description}\n{json.dumps(self.arguments, indent=2)}"

    def to_text(self) -> str:
        """The text that the store has."""
        return json.dumps(self.to_json())


def approved_description(tool: ToolDescription) -> ApprovedDescription:
    """The current description of a tool, to be approved."""
    return ApprovedDescription(hash=tool.hash, description=tool.description, arguments=tool.schema)


def parse_approved_description(text: str) -> ApprovedDescription:
    """Parses the result of `ApprovedDescription.to_text`."""
    return ApprovedDescription.model_validate_json(text)
