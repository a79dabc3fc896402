"""What a server says of its tools: read with care, kept short, and known again by a digest.

A server's words reach a model, a terminal and a log. None of them is believed: control characters
and invisible ones go, lengths are bounded, and whether they are what a person has approved is
decided by a digest of all that a model is told.

What a tool said of itself when a person approved it: kept, so that people see what has changed.

An approval is of a digest, and nothing else counts. These words are for people alone: who looks at
a tool that was changed sees the old ones beside the new.
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
"""Bytes of the JSON Schema of a tool's arguments."""
LONGEST_TEXT = 200_000
"""Characters of a result; the model is told how many there were."""
_WORDS = frozenset({"description", "title", "$comment"})
"""Keys of a schema whose values are words for people and models."""


class Described(NamedTuple):
    """A tool, as its server describes it."""

    name: str
    description: str
    """Cleaned, and not too long."""
    schema: dict[str, Json]
    """The JSON Schema of its arguments, its words cleaned."""
    digest: str
    """SHA-256 of all that it says of itself, in hex: what an approval is of."""
    fault: str
    """Why it cannot be used; empty where it can."""


def described(
    name: str, description: str | None, schema: Mapping[str, Json], title: str | None = None
) -> Described:
    """A tool as a server lists it.

    Args:
        name: Its name there.
        description: What it says it does.
        schema: The JSON Schema of its arguments.
        title: Its name for people.
    """
    whole = {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": dict(schema),
    }
    try:
        check_depth(whole)
        said = canonical(whole)
    except (ValueError, TypeError, RecursionError) as error:
        return Described(name, "", {}, "", f"its schema cannot be kept: {error}")
    digest = hashlib.sha256(said).hexdigest()
    told = shortened(cleaned_text(description or title or ""), LONGEST_DESCRIPTION)
    size = len(canonical(dict(schema)))
    if size > LARGEST_SCHEMA:
        fault = f"the schema of its arguments has {size:,} bytes, more than {LARGEST_SCHEMA:,}"
        return Described(name, told, {}, digest, fault)
    if schema.get("type") != "object":
        return Described(name, told, {}, digest, "its arguments are no object")
    return Described(name, told, _clean_schema(dict(schema)), digest, "")


def cleaned_text(text: str) -> str:
    """A server's text without what only terminals, or only models, would see."""
    return "".join(
        c for c in text if c in "\n\t" or not (unicodedata.category(c) == "Cc" or is_invisible(c))
    )


def shortened(text: str, most: int) -> str:
    """A server's text, cut where it is too long; it says so."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text):,} characters)"


def _clean_schema(schema: Json, word: bool = False) -> Json:
    if isinstance(schema, str):
        return shortened(cleaned_text(schema), LONGEST_DESCRIPTION) if word else schema
    if isinstance(schema, dict):
        return {
            key: _clean_schema(value, key in _WORDS and isinstance(value, str))
            for key, value in schema.items()  # pyright: ignore[reportUnknownVariableType]
        }
    if isinstance(schema, list):
        return [_clean_schema(each) for each in schema]  # pyright: ignore[reportUnknownVariableType]
    return schema


class ApprovedDescription(Model):
    """What a tool says of itself, as a model is told it."""

    digest: str
    """Of all that it says: which approval these words belong to."""
    description: str = ""
    """What it says it does."""
    arguments: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The JSON Schema of its arguments."""

    def text(self) -> str:
        """All of it, for people."""
        # ASCII escapes: nothing hides in it.
        return f"{self.description}\n{json.dumps(self.arguments, indent=2)}"

    def kept(self) -> str:
        """The same as the store keeps it."""
        return json.dumps(self.to_json())


def words_of(tool: Described) -> ApprovedDescription:
    """What a tool says of itself now."""
    return ApprovedDescription(
        digest=tool.digest, description=tool.description, arguments=tool.schema
    )


def read_approved_description(text: str) -> ApprovedDescription:
    """What `ApprovedDescription.kept` made."""
    return ApprovedDescription.model_validate_json(text)
