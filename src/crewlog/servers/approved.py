"""What a tool said of itself when a person approved it: kept, so that people see what has changed.

An approval is of a digest, and nothing else counts. These words are for people alone: who looks at
a tool that was changed sees the old ones beside the new.
"""

from __future__ import annotations

import json

from pydantic import Field

from crewlog.model import Json, Model
from crewlog.servers.described import Described


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
