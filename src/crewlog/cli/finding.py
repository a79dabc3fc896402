"""What a name on the command line means: a file, a crew, a registry, or a part of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from crewlog.canonical_json import hash_json
from crewlog.cli.files import SUFFIXES, is_registry, load_crew
from crewlog.client.catalog import Catalog, unknown
from crewlog.definition.capabilities import Offer, offer_of
from crewlog.definition.model import CrewDefinition
from crewlog.errors import UsageError
from crewlog.model import Json, Model
from crewlog.prompt.registry import Registry, offer_of_registry
from crewlog.prompt.registry_file import load_registry_file
from crewlog.reporting.diff.view import DefinitionReference

if TYPE_CHECKING:
    from crewlog.store.protocol import CatalogRow, CrewRow, Kind

Sort = Literal["crew", "registry", "agent", "tool", "builder", "model"]
_PARTS: tuple[Kind, ...] = ("agent", "tool", "builder", "model")
_KINDS: tuple[Sort, ...] = ("crew", "registry", *_PARTS)


@dataclass(frozen=True)
class Found:
    """A crew, a registry or a part, of a file or registered."""

    kind: Sort
    name: str
    content: Model
    version: int | None = None
    """Its registered version; none of a file."""
    at: int | None = None
    """When it was registered, in milliseconds since the epoch."""
    file: str = ""
    """The file, where it is one's."""

    @property
    def label(self) -> str:
        """`release-notes@2`, or the file."""
        return self.file or f"{self.name}@{self.version}"

    @property
    def data(self) -> dict[str, Json]:
        """The content as JSON."""
        return self.content.to_json()

    @property
    def reference(self) -> DefinitionReference:
        """Its name and hash."""
        return DefinitionReference(
            kind=self.kind,
            name=self.name,
            version=self.version,
            at=self.at,
            file=self.file or None,
            hash=hash_json(self.data),
        )

    @property
    def offer(self) -> Offer:
        """It as an offer."""
        if isinstance(self.content, CrewDefinition):
            return offer_of(self.content, self.version)
        return offer_of_registry(cast("Registry", self.content), self.version)


def is_file(text: str) -> bool:
    """Whether an argument is a file: one that is there, or a name that could be nothing else."""
    return text.lower().endswith(SUFFIXES) or Path(text).is_file()


def load(file: str) -> Found:
    """What a file holds.

    Raises:
        InvalidDefinition: with every fault found.
        UsageError: it cannot be read.
    """
    if is_registry(Path(file)):
        registry = load_registry_file(file)
        return Found("registry", registry.registry, registry, file=file)
    definition = load_crew(file)
    return Found("crew", definition.crew, definition, file=file)


async def find(catalog: Catalog, text: str) -> Found:
    """What is registered under `NAME`, `NAME@VERSION`, `press/write_file`, or `registry:press`.

    Raises:
        UsageError: nothing is.
    """
    kind, name, version = _parsed(text)
    if kind == "crew":
        crew = await catalog.crew(name, version)
        return _crew(crew.row, crew.definition)
    if kind == "registry":
        found = await catalog.registry(name, version)
        return _row(found.row, found.registry)
    if kind is not None:
        row, content = await catalog.part(kind, name, version)
        return _row(row, content)
    if "/" in name:
        for each in _PARTS:
            if await catalog.history(each, name):
                row, content = await catalog.part(each, name, version)
                return _row(row, content)
        raise await _no_part(catalog, name)
    # A crew where there is one; its errors name crews and registries.
    crews, registries = await catalog.names()
    if name in registries and name not in crews:
        found = await catalog.registry(name, version)
        return _row(found.row, found.registry)
    if name not in crews:
        how = "Add one with `crewlog crews add FILE`."
        raise unknown("crew or registry", name, sorted({*crews, *registries}), how)
    crew = await catalog.crew(name, version)
    return _crew(crew.row, crew.definition)


async def predecessor(catalog: Catalog, found: Found) -> Found:
    """The version before: what a file would replace, or a registered version did.

    Raises:
        UsageError: there is none.
    """
    history = await catalog.history(found.kind, found.name)
    before = [row for row in history if found.version is None or row.version < found.version]
    if not before:
        raise UsageError(
            f"there is nothing before {found.label} to compare it with",
            remedy="Name both: crewlog crews diff A B.",
        )
    return await find(catalog, f"{found.kind}:{found.name}@{before[-1].version}")


def _parsed(text: str) -> tuple[Sort | None, str, int | None]:
    head, colon, rest = text.partition(":")
    kind: Sort | None = head if colon and head in _KINDS else None
    name = rest if kind else text
    match = re.fullmatch(r"(.+)@(\d{1,9})", name)
    if match:
        return kind, match[1], int(match[2])
    if "@" in name:
        raise UsageError(
            f"{text!r} has no version after the '@'", remedy="A version is a number: NAME@2."
        )
    return kind, name, None


async def _no_part(catalog: Catalog, name: str) -> UsageError:
    registry = name.partition("/")[0]
    known = [each for kind in _PARTS for each in await catalog.part_names(kind)]
    of = [each for each in known if each.startswith(f"{registry}/")]
    how = "`crewlog crews list` has all registries."
    return unknown("part of a registry", name, of or known, how)


def _crew(row: CrewRow, definition: CrewDefinition) -> Found:
    return Found("crew", row.name, definition, row.version, row.at)


def _row(row: CatalogRow, content: Model) -> Found:
    return Found(row.kind, row.name, content, row.version, row.at)
