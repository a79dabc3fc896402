"""Reads a definition from YAML or JSON, and says for every fault where it stands in the text.

The same reads other forms of what people write, e.g. registries (`crewlog.prompt.registry_file`).

All faults come together: those of the text first (only one, where YAML itself breaks),
then those of shape (`crewlog.definition.shape`), then those of meaning
(`crewlog.definition.validate`). Where the shape is wrong, of the meaning only what holds all the
same is told (`crewlog.definition.partial`), and the error says that more may follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, TypeVar

from crewlog.definition.findings import Finding, Path
from crewlog.definition.model import CrewDefinition
from crewlog.definition.partial import what_holds
from crewlog.definition.prices import price_findings
from crewlog.definition.reaching import name_in_crew
from crewlog.definition.shape import Form, flow_faults, shaped
from crewlog.definition.text import (
    CREWS_BEGIN,
    LARGEST_TEXT,
    Document,
    Node,
    Span,
    read_document,
)
from crewlog.definition.validate import all_findings, model_findings, standing
from crewlog.errors import Diagnostic, InvalidDefinition, UsageError
from crewlog.model import Json, Model

CREW = Form(CrewDefinition, "crew", CREWS_BEGIN, all_findings, own={"flow": flow_faults})
"""A crew's file."""
_STORED = Form(CrewDefinition, "crew", CREWS_BEGIN, standing, own={"flow": flow_faults})
"""A crew that ran."""

_M = TypeVar("_M", bound=Model)
_SECTION = re.compile(r"under '(\w+):'")


def load_definition(text: str, file: str = "crew.yaml") -> CrewDefinition:
    """The definition that a YAML or JSON text holds, checked for shape and meaning.

    Args:
        text: The text.
        file: What to call it in messages.

    Raises:
        InvalidDefinition: with every fault found, in the order of the text.
    """
    return read_text(text, file, CREW)


def read_text(text: str, file: str, form: Form[_M]) -> _M:
    """What a text of some form holds; as `load_definition`."""
    document = read_document(text, file, form.begins)
    found = shaped(document.data, form)
    if not isinstance(found, list) and not document.faults:
        faults = form.check(found)
        if not any(each.severity == "error" for each in faults):
            return found
    else:
        faults = found if isinstance(found, list) else []
    if isinstance(found, list) and not document.faults:
        faults = [*faults, *(what_holds(document.data, faults, form) or ())]
    faults = _as_written(document.data, faults)
    unread = {fault.path for fault in document.faults}  # what stands there is a placeholder
    located = document.faults + [_locate(document, f) for f in faults if f.path not in unread]
    unchecked = bool(document.faults) or isinstance(found, list)
    unchecked = unchecked or any(each.hides for each in faults)
    raise InvalidDefinition(
        sorted(located, key=lambda d: (d.line, d.column)), more_may_follow=unchecked
    )


def load_data(data: Json, model: str = "") -> CrewDefinition:
    """The definition in plain data, with the same checks; places are paths in the data.

    Args:
        data: The data.
        model: The model of every agent, in the place of those that the data names.

    Raises:
        InvalidDefinition: with every fault found.
    """
    return read_data(data, _crew_with(model)).with_model(model)


def load_stored(data: Json) -> CrewDefinition:
    """The definition of a run that there was: as `load_data`, but for what is asked of new ones.

    Raises:
        InvalidDefinition: with every fault found.
    """
    return read_data(data, _STORED)


def read_data(data: Json, form: Form[_M]) -> _M:
    """What plain data of some form is; as `load_data`."""
    found = shaped(data, form)
    faults = found if isinstance(found, list) else form.check(found)
    if isinstance(found, list) or any(each.severity == "error" for each in faults):
        unread = isinstance(found, list)
        faults = [*faults, *((what_holds(data, faults, form) or ()) if unread else ())]
        faults = _as_written(data, faults)
        raise InvalidDefinition(
            [fault.diagnostic() for fault in sorted(faults, key=lambda each: each.severity)],
            more_may_follow=unread or any(each.hides for each in faults),
        )
    return found


def load_file(path: str | FilePath, model: str = "") -> CrewDefinition:
    """The definition in a file.

    Args:
        path: The file.
        model: The model of every agent, in the place of those that the file names.

    Raises:
        UsageError: where the file cannot be read, or no model can have that name.
        InvalidDefinition: with every fault found.
    """
    check_model(model)
    return read_text(text_of(path), str(path), _crew_with(model)).with_model(model)


def check_model(model: str) -> None:
    """Checks the name of a model that takes the place of a crew's; an empty one takes none.

    Raises:
        UsageError: no model can have that name.
    """
    for fault in model_findings(model, ()) if model else ():
        raise UsageError(fault.message, remedy=fault.remedy)


def _crew_with(model: str) -> Form[CrewDefinition]:
    """A crew's file, checked with a model in the place of those that it names."""

    def check(crew: CrewDefinition) -> list[Finding]:
        return all_findings(crew.with_model(model))

    return replace(CREW, check=check)


def text_of(path: str | FilePath, what: str = "crew's YAML or JSON file") -> str:
    """The text of a file that people wrote.

    Args:
        path: The file.
        what: What it is to be, for people.

    Raises:
        UsageError: where the file cannot be read.
        InvalidDefinition: where it is too large, or not UTF-8.
    """
    name = str(path)
    try:
        with FilePath(path).open("rb") as file:
            raw = file.read(LARGEST_TEXT + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"cannot read {name!r}: {reason}",
            remedy=f"Give the path of a {what}.",
        ) from None
    if len(raw) > LARGEST_TEXT:
        raise InvalidDefinition(
            [Diagnostic(f"the file has more than {LARGEST_TEXT:,} bytes", file=name)],
            more_may_follow=True,
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        line = before.count("\n") + 1
        raise InvalidDefinition(
            [
                Diagnostic(
                    f"the byte 0x{raw[error.start]:02x} is not UTF-8",
                    remedy="Save the file as UTF-8 text.",
                    file=name,
                    line=line,
                    column=len(before) - (before.rfind("\n") + 1) + 1,
                )
            ],
            more_may_follow=True,
        ) from None


def warnings_in(path: str | FilePath, definition: CrewDefinition) -> list[Diagnostic]:
    """What the author of a file may not have meant, though its crew runs; with its places.

    Args:
        path: The file.
        definition: What `load_file` made of it.
    """
    document = read_document(FilePath(path).read_text("utf-8-sig"), str(path))
    known = [*all_findings(definition), *price_findings(definition)]
    found = [each for each in known if each.severity == "warning"]
    found = _as_written(document.data, found)
    return sorted((_locate(document, each) for each in found), key=lambda d: (d.line, d.column))


def _as_written(data: Json, faults: Iterable[Finding]) -> list[Finding]:
    """Faults of tools that servers were asked for, at the place where they are asked for."""
    asked = _asked_of_servers(data)
    return [
        replace(each, path=asked[each.path[1]])
        if len(each.path) > 1 and each.path[0] == "tools" and each.path[1] in asked
        else each
        for each in faults
    ]


def _asked_of_servers(data: Json) -> dict[str | int, Path]:
    """Where each tool stands that a crew has by the list of a server, and not under `tools`."""
    crew: Any = data
    found: dict[str | int, Path] = {}
    try:
        for server, fields in crew.get("mcp", {}).items():
            prefix = fields.get("prefix", "")
            for at, tool in enumerate(fields.get("tools") or ()):
                called = name_in_crew(tool, prefix)
                if called not in (crew.get("tools") or {}):
                    found.setdefault(called, ("mcp", server, "tools", at))
    except (AttributeError, TypeError):  # its shape is wrong, and that is told
        pass
    return found


def _locate(document: Document, fault: Finding) -> Diagnostic:
    """Turns a path into a place: the key, the value, or a part of the value."""
    if fault.other:
        first, later = sorted((fault.path, fault.other), key=lambda p: _line(document, p))
        told = f"The other one is in line {_line(document, first)}. {fault.remedy}"
        fault = replace(fault, path=later, other=(), remedy=told, at="key")
    path = _there(document, fault.path)
    node = document.values[path]
    key = document.keys.get(path)
    missing = path != fault.path or (node.kind == "scalar" and node.span.start == node.span.end)
    if key is not None and (fault.at == "key" or missing or node.kind != "scalar"):
        span = key.span
    else:
        span = _inside(document, node, fault)
    found = document.source.diagnostic(fault.message, span, fault.remedy, fault.path)
    if fault.quiet:
        found = replace(found, excerpt="")
    found = replace(found, severity=fault.severity)
    return replace(found, remedy=_SECTION.sub(lambda m: _with_line(document, m), found.remedy))


def _there(document: Document, path: Path) -> Path:
    """The place, or the one that it is missing from."""
    while path and path not in document.values:
        path = path[:-1]
    return path


def _line(document: Document, path: Path) -> int:
    path = _there(document, path)
    return (document.keys.get(path) or document.values[path]).span.line


def _with_line(document: Document, match: re.Match[str]) -> str:
    key = document.keys.get((match[1],))
    return f"{match[0]} (line {key.span.line})" if key else match[0]


def _inside(document: Document, node: Node, fault: Finding) -> Span:
    """The part of a scalar that a fault is about; the whole where it cannot be told."""
    span = node.span
    offset, length = fault.offset, 1
    if offset is None and fault.word:
        found = re.search(rf"(?<![\w-]){re.escape(fault.word)}(?![\w-])", node.value)
        offset, length = (found.start(), len(fault.word)) if found else (None, 1)
    raw = document.source.text[span.start : span.end]
    if offset is None or node.kind != "scalar" or "\n" in raw or node.style in {"|", ">"}:
        return span
    opening = 1 if node.style else 0
    if raw[opening : opening + len(node.value)] == node.value:
        ahead = opening + offset
    else:
        ahead = _raw_offset(raw, opening, offset)
    return Span(span.start + ahead, span.start + ahead + length, span.line, span.column + ahead)


def _raw_offset(raw: str, at: int, offset: int) -> int:
    """The offset in quoted source text of the character `offset` of its value."""
    escape = re.compile(r"\\(x..|u....|U........|.)" if raw[0] == '"' else "''", re.DOTALL)
    for _ in range(offset):
        match = escape.match(raw, at)
        at = match.end() if match else at + 1
    return min(at, len(raw) - 1)
