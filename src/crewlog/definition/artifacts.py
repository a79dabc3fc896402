"""What a definition says of artifacts: documents that a crew builds by operations alone."""

from __future__ import annotations

from pydantic import Field

from crewlog.model import Json, Model

LARGEST_INITIAL = 64 * 1024
"""Bytes of JSON that an artifact may begin as: whoever changes it first records them once."""


class ArtifactDefinition(Model):
    """A document that agents build together. It changes by operations that tools return."""

    schema_: dict[str, Json] | None = Field(default=None, alias="schema")
    """A JSON Schema that it is to keep: looked at where it is shown, and when the run ends."""
    initial: Json = Field(default_factory=dict)
    """What it is before anybody changes it."""
    readers: tuple[str, ...] | None = None
    """Agents, or `group:G`, whose tools and prompts see it. Null: every agent; an empty list:
    nobody but people."""
    writers: tuple[str, ...] | None = None
    """Agents, or `group:G`, whose tools may change it. Null: every agent; an empty list: nobody."""


class Scratch(Model):
    """Short-term notes of an agent in one run, by the tools `note` and `notes`."""

    most: int = Field(default=20, ge=1, le=1_000)
    """How many are kept; beyond, the oldest go."""
    longest: int = Field(default=500, ge=1, le=8_000)
    """Characters of one note."""
    readers: tuple[str, ...] = ()
    """Agents, or `group:G`, that may look at them too, by `notes`: one that makes memories of
    them, say. By default nobody else."""


SCRATCH_TOOLS = ("note", "notes")
"""The tools of agents that have scratch notes."""
NOTES = ".notes"
"""What stands behind an agent's name in the name of its notes' artifact; none can be defined so."""


def notes_of(agent: str) -> str:
    """The artifact with the notes of an agent: a list. Only the agent changes it."""
    return f"{agent}{NOTES}"


def notes_artifact(agent: str, scratch: Scratch) -> ArtifactDefinition:
    """Defines the artifact with the notes of an agent, which the readers of `scratch` see, too."""
    return ArtifactDefinition(initial=[], readers=(agent, *scratch.readers), writers=(agent,))
