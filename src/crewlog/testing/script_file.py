"""Scripts of models: what each agent says, read from YAML or given as data.

agents:
  backend:
    - {text: Writing., tool_calls: [{tool: write_file, args: {path: a, content: b}}]}
    - {fail: unavailable, times: 2}      # then the next entry
    - {text: Done., usage: {input: 120, output: 30}}
    - {when: "no such file", text: I will make it.}
  "*":                                   # agents that are not named
    - {text: Nothing to do.}
delay: 0.2
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from crewlog.definition.text import Document, read_document
from crewlog.errors import Diagnostic, InvalidDefinition
from crewlog.model import Json, Model
from crewlog.validation_errors import field_error_text

ANY_AGENT = "*"


class ScriptedCall(Model):
    """A tool call that a reply asks for."""

    tool: str
    """The tool's name."""
    args: dict[str, Json] = Field(default_factory=dict)
    """Its arguments."""
    id: str | None = None
    """The call's id; by default it is made of the agent and the reply's number."""


class ScriptedUsage(Model):
    """The tokens that a reply counts; by default a quarter of the characters."""

    input: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)


class Entry(Model):
    """One thing that an agent does: a reply, or trouble before the next reply."""

    text: str | None = None
    """What it says."""
    tool_calls: tuple[ScriptedCall, ...] = ()
    """The tools it calls."""
    usage: ScriptedUsage | None = None
    """The tokens it counts."""
    when: str | None = None
    """A regular expression: the reply whenever the last message matches, outside of the order."""
    of: Literal["tool", "people"] | None = None
    """Of an entry with `when`: only where that message is a tool's, or only where it is none."""
    fail: Literal["unavailable", "refused", "timeout"] | None = None
    """Fails instead."""
    times: int = Field(default=1, ge=1)
    """How many tries fail."""
    stall: float = Field(default=0.0, ge=0)
    """Seconds before it answers."""
    nonsense: Literal[True, False, "json", "tool"] = False
    """Calls a tool with arguments that are no JSON, or a tool that is not there, or both."""

    @field_validator("when")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as exc:
                raise ValueError(f"it is no regular expression: {exc}") from None
        return value

    @property
    def replies(self) -> bool:
        """Whether the entry is a reply, and not only trouble before one."""
        return self.text is not None or bool(self.tool_calls) or bool(self.nonsense)


class Script(Model):
    """What the agents of a crew say."""

    agents: dict[str, tuple[Entry, ...]] = Field(min_length=1)
    """The entries of each agent; those of `*` for all others."""
    delay: float = Field(default=0.0, ge=0)
    """Seconds that every call takes."""
    pace: float = Field(default=0.0, ge=0)
    """Characters a second at which replies are written, word by word; 0: all at once."""


@dataclass(frozen=True)
class Reply:
    """A reply with the trouble before it."""

    entry: Entry
    trouble: tuple[Entry, ...] = ()


def replies_of(entries: tuple[Entry, ...]) -> tuple[list[Reply], list[Reply]]:
    """The replies in order, and those that have a `when`."""
    ordered: list[Reply] = []
    matched: list[Reply] = []
    trouble: list[Entry] = []
    for entry in entries:
        if entry.when is not None:
            matched.append(Reply(entry, (entry,)))
            continue
        if entry.fail or entry.stall:
            trouble.append(entry)
        if entry.replies:
            ordered.append(Reply(entry, tuple(trouble)))
            trouble = []
    if trouble:  # at the end: once it is over, there is nothing left to say
        ordered.append(Reply(Entry(text=""), tuple(trouble)))
    return ordered, matched


def read_script(path: Path) -> Script:
    """The script in a file.

    Raises:
        InvalidDefinition: where it cannot be read or is no script, with every fault and its place.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
        where = path.absolute()
        fault = Diagnostic(
            f"the script cannot be read: {reason or type(exc).__name__}",
            file=str(where),
            remedy="Give the path of a script, as seen from where the worker runs.",
        )
        raise InvalidDefinition([fault]) from exc
    document = read_document(text, str(path))
    if document.faults:
        raise InvalidDefinition(document.faults)
    return _validated(document.data, document)


def script_of(data: Json) -> Script:
    """The script in plain data, with the same checks."""
    return _validated(data, None)


def _validated(data: Json, document: Document | None) -> Script:
    try:
        return Script.model_validate(data)
    except ValidationError as exc:
        raise InvalidDefinition([_diagnostic(e, document) for e in exc.errors()]) from None


def _diagnostic(error: ErrorDetails, document: Document | None) -> Diagnostic:
    path: tuple[str | int, ...] = error["loc"]
    known = error["type"] == "extra_forbidden"
    message = (
        f"a script has no {path[-1]!r} here" if known else field_error_text(error, "the script")
    )
    remedy = (
        f"An entry has: {', '.join(Entry.model_fields)}."
        if len(path) > len(("agents", "name"))
        else "A script has `agents`, each with a list of entries, `delay` and `pace`."
    )
    if document is None:
        return Diagnostic(message, path=path, remedy=remedy)
    while path and path not in document.values:
        path = path[:-1]  # what is missing is shown at what it is missing from
    node = document.keys.get(path) if known else None
    return document.source.diagnostic(message, (node or document.values[path]).span, remedy, path)
