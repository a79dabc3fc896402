"""What is registered: crews, and registries with their parts, by name and version.

A registry's agents, tools, builders and models are registered with it, each under a name of its
own, `press/write_file`, and with versions of its own: a tool keeps its version for as long as it
stays as it is, whatever else changes in its registry.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from crewlog.definition.builders import Builder, builders
from crewlog.definition.capabilities import Offer, offer_of
from crewlog.definition.load import check_model, load_data, load_file
from crewlog.definition.model import CrewDefinition
from crewlog.errors import UsageError
from crewlog.ids import CrewName
from crewlog.model import Json, Model
from crewlog.prompt.registry import OfferedAgent, OfferedTool, Registry, offer_of_registry
from crewlog.prompt.registry_file import load_registry_data, load_registry_file
from crewlog.store.protocol import CatalogRow, CrewRow, Kind, Store

_MOST_NAMES = 20
_FILES = (".yaml", ".yml", ".json")
_LONGEST_PATH = 255
"""Characters of a text that may be a file's path; a longer one is a prompt."""


Crew = str | Path | Mapping[str, Json] | CrewDefinition
"""A registered name, a file, a definition as data, or a definition."""


@dataclass(frozen=True)
class RegisteredCrew:
    """A crew, registered."""

    row: CrewRow
    definition: CrewDefinition


@dataclass(frozen=True)
class RegisteredRegistry:
    """A registry, registered."""

    row: CatalogRow
    registry: Registry


@dataclass(frozen=True)
class AddedCrew:
    """What the registration of a crew made."""

    crew: CrewRow
    new: bool
    """Whether it is a new version; else the content is that of the newest one."""


@dataclass(frozen=True)
class AddedRegistry:
    """What the registration of a registry made."""

    registered: CatalogRow
    new: bool
    """Whether it is a new version; else the content is that of the newest one."""
    parts: tuple[CatalogRow, ...]
    """Its agents, tools, builders and models."""
    new_parts: tuple[CatalogRow, ...]
    """Those of them that have a new version."""


class OfferedBuilder(Model):
    """A builder of a registry: what is known of it without its code, which is in a package."""

    builder: str
    kind: Literal["flow", "agent"]
    about: str
    """What it makes, in a line."""
    options: dict[str, Json]
    """The JSON Schema of its options."""
    steps: tuple[str, ...] = ()
    """The steps inside an agent that can be switched off."""


class OfferedModel(Model):
    """A model of a registry."""

    model: str
    """`PROVIDER:NAME` or `scripted:FILE`."""


class Catalog:
    """Looks up and adds what is registered in a store.

    All of it raises `StoreUnavailable` where the store is away.
    """

    def __init__(self, store: Callable[[], Awaitable[Store]]) -> None:
        self._store = store

    # -- crews -------------------------------------------------------------------------------

    async def add_crew(self, definition: CrewDefinition) -> AddedCrew:
        """Registers a crew under its name: a new version, unless nothing changed."""
        at = _now()
        row = await (await self._store()).register_crew(
            CrewName(definition.crew), definition.to_json(), at
        )
        return AddedCrew(row, row.at == at)

    async def crews(self, *, all_versions: bool = False) -> list[RegisteredCrew]:
        """Every crew in its newest version by name, or every version."""
        rows = await (await self._store()).list_crews(all_versions=all_versions)
        return list(await asyncio.gather(*map(self._crew, rows)))

    async def crew(self, name: str, version: int | None = None) -> RegisteredCrew:
        """A crew, by default its newest version.

        Raises:
            UsageError: there is none of that name, or it has no such version.
        """
        store = await self._store()
        row = await store.get_crew(CrewName(name), version)
        if row is None:
            newest = await store.get_crew(CrewName(name))
            if newest is not None:
                raise _no_version("crew", name, version, newest.version)
            raise no_crew(name, [each.name for each in await store.list_crews()])
        return await self._crew(row)

    async def remove_crew(self, name: str) -> int:
        """Takes a crew from the list, in all its versions; returns how many these were.

        Runs that have it go on with it. Where it was the default crew, there is none then.

        Raises:
            UsageError: there is none of that name.
        """
        store = await self._store()
        gone = await store.remove_crew(CrewName(name))
        if not gone:
            raise no_crew(name, [each.name for each in await store.list_crews()])
        return gone

    async def default_crew(self) -> str | None:
        """The crew of runs that name none; none where nobody chose one."""
        return await (await self._store()).default_crew()

    async def set_default_crew(self, name: str | None) -> None:
        """Chooses the crew of runs that name none; none: there is no such crew any more.

        Raises:
            UsageError: there is none of that name.
        """
        if name is not None:
            await self.crew(name)
        await (await self._store()).set_default_crew(None if name is None else CrewName(name))

    async def chosen_crew(self) -> str:
        """The default crew.

        Raises:
            UsageError: nobody chose one.
        """
        name = await self.default_crew()
        if name is None:
            raise UsageError(
                "no crew is named, and there is no default crew",
                remedy="Name one, or choose it for good: crewlog crews default NAME.",
            )
        return name

    async def _crew(self, row: CrewRow) -> RegisteredCrew:
        data = await (await self._store()).get_definition(row.definition)
        return RegisteredCrew(row, CrewDefinition.from_json(data))

    # -- registries --------------------------------------------------------------------------

    async def add_registry(
        self, registry: Registry | Mapping[str, Json] | str | Path
    ) -> AddedRegistry:
        """Registers a registry and its parts: new versions of what changed.

        Args:
            registry: A registry, as a model or as data; or its file.

        Raises:
            InvalidDefinition: it has faults.
            UsageError: the file cannot be read.
        """
        at = _now()
        contents = contents_of(registry_of(registry))
        rows = await (await self._store()).register(contents, at)
        parts = tuple(rows[1:])
        new = tuple(row for row in parts if row.at == at)
        return AddedRegistry(rows[0], rows[0].at == at, parts, new)

    async def registries(self, *, all_versions: bool = False) -> list[RegisteredRegistry]:
        """Every registry in its newest version by name, or every version."""
        store = await self._store()
        rows = await store.list_catalog_entries("registry")
        if all_versions:
            every = await asyncio.gather(
                *(store.list_catalog_entries("registry", row.name) for row in rows)
            )
            rows = [row for versions in every for row in versions]
        return list(await asyncio.gather(*map(self._registry, rows)))

    async def registry(self, name: str, version: int | None = None) -> RegisteredRegistry:
        """A registry, by default its newest version.

        Raises:
            UsageError: there is none of that name, or it has no such version.
        """
        return await self._registry(await self._row("registry", name, version))

    async def _registry(self, row: CatalogRow) -> RegisteredRegistry:
        data = await (await self._store()).get_definition(row.content)
        return RegisteredRegistry(row, Registry.from_json(data))

    # -- parts -------------------------------------------------------------------------------

    async def part(
        self, kind: Kind, name: str, version: int | None = None
    ) -> tuple[CatalogRow, OfferedAgent | OfferedTool | OfferedBuilder | OfferedModel]:
        """A part of a registry by its full name, `press/write_file`.

        Raises:
            UsageError: there is none of that name, or it has no such version.
        """
        row = await self._row(kind, name, version)
        data = await (await self._store()).get_definition(row.content)
        match kind:
            case "agent":
                return row, OfferedAgent.from_json(data)
            case "tool":
                return row, OfferedTool.from_json(data)
            case "builder":
                return row, OfferedBuilder.from_json(data)
            case _:
                return row, OfferedModel.from_json(data)

    async def names(self) -> tuple[list[str], list[str]]:
        """The names of all crews, and of all registries."""
        store = await self._store()
        crews, registries = await asyncio.gather(
            store.list_crews(), store.list_catalog_entries("registry")
        )
        return [row.name for row in crews], [row.name for row in registries]

    async def part_names(self, kind: Kind) -> list[str]:
        """The full names of all parts of a kind."""
        return [row.name for row in await (await self._store()).list_catalog_entries(kind)]

    async def history(
        self, kind: Kind | Literal["crew"], name: str
    ) -> Sequence[CrewRow | CatalogRow]:
        """All versions of what is registered under a name, oldest first."""
        store = await self._store()
        if kind == "crew":
            rows = await store.list_crews(all_versions=True)
            return [row for row in rows if row.name == name]
        return await store.list_catalog_entries(kind, name)

    async def _row(self, kind: Kind, name: str, version: int | None) -> CatalogRow:
        store = await self._store()
        row = await store.get_catalog_entry(kind, name, version)
        if row is None:
            newest = await store.get_catalog_entry(kind, name)
            if newest is not None:
                raise _no_version(kind, name, version, newest.version)
            known = [each.name for each in await store.list_catalog_entries(kind)]
            raise unknown(kind, name, known, "Add its registry with `crewlog crews add FILE`.")
        return row

    # -- capabilities ------------------------------------------------------------------------

    async def offers(self) -> list[Offer]:
        """All crews and registries in their newest versions, to ask who can do what."""
        crews, registries = await asyncio.gather(self.crews(), self.registries())
        return [
            *(offer_of(each.definition, each.row.version) for each in crews),
            *(offer_of_registry(each.registry, each.row.version) for each in registries),
        ]


def registry_of(registry: Registry | Mapping[str, Json] | str | Path) -> Registry:
    """The registry in a file, in data, or as it is.

    Raises:
        InvalidDefinition: with every fault found.
        UsageError: the file cannot be read.
    """
    if isinstance(registry, Registry):
        return registry
    if isinstance(registry, str | Path):
        return load_registry_file(registry)
    return load_registry_data(dict(registry))


def is_file(text: str) -> bool:
    """Whether a crew that is given as a text is a file, and not a registered name."""
    if "\n" in text.strip() or len(text) > _LONGEST_PATH:
        return False
    return text.lower().endswith(_FILES) or Path(text).is_file()


def definition_of(
    crew: str | Path | Mapping[str, Json] | CrewDefinition, model: str = ""
) -> CrewDefinition:
    """The definition in a file, in data, or as it is.

    Args:
        crew: Where it is.
        model: The model of every agent, in the place of those that it names.

    Raises:
        InvalidDefinition: with every fault found.
        UsageError: the file cannot be read, or no model can have that name.
    """
    check_model(model)
    if isinstance(crew, CrewDefinition):
        return crew.with_model(model)
    if isinstance(crew, str | Path):
        return load_file(crew, model)
    return load_data(dict(crew), model)


def contents_of(registry: Registry) -> dict[tuple[Kind, str], dict[str, Json]]:
    """What a registry is registered as: itself first, then its parts."""
    name = registry.registry
    found: dict[tuple[Kind, str], dict[str, Json]] = {("registry", name): registry.to_json()}
    for agent, offered in registry.agents.items():
        found["agent", f"{name}/{agent}"] = offered.to_json()
    for tool, each in registry.tools.items():
        found["tool", f"{name}/{tool}"] = each.to_json()
    for builder in _builders(registry):
        found["builder", f"{name}/{builder.name}"] = _builder(builder)
    for model in dict.fromkeys(filter(None, (registry.model, *registry.models))):
        found["model", f"{name}/{model}"] = OfferedModel(model=model).to_json()
    return found


def _builders(registry: Registry) -> list[Builder]:
    """Those that the registry offers and that are here: their code is in packages."""
    known = {name: each for name, each in builders().items() if not each.broken}
    names = known if registry.builders is None else dict.fromkeys(registry.builders)
    return [known[name] for name in names if name in known]


def _builder(builder: Builder) -> dict[str, Json]:
    return OfferedBuilder(
        builder=builder.name,
        kind=builder.kind,
        about=builder.about,
        options=builder.options.model_json_schema(),
        steps=builder.steps,
    ).to_json()


def no_crew(name: str, known: Sequence[str]) -> UsageError:
    """The error for a crew that is not registered."""
    how = "Register it with `crewlog register FILE`, or give the file's path."
    return unknown("crew", name, known, how)


def unknown(kind: str, name: str, known: Sequence[str], how: str) -> UsageError:
    """The error for a name that is not registered, with those that are."""
    close = difflib.get_close_matches(name, known, n=3)
    close = close or [each for each in known if name and name.lower() in each.lower()][:3]
    hint = f"Did you mean {' or '.join(repr(each) for each in close)}? " if close else ""
    shown = ", ".join(known[:_MOST_NAMES]) + (", …" if len(known) > _MOST_NAMES else "")
    there = f"Registered: {shown}. " if known else "None is registered yet. "
    return UsageError(f"there is no {kind} {name!r}", remedy=f"{hint}{there}{how}")


def _no_version(kind: str, name: str, version: int | None, newest: int) -> UsageError:
    there = "It has one version: 1." if newest == 1 else f"Its versions are 1 to {newest}."
    return UsageError(f"the {kind} {name!r} has no version {version}", remedy=there)


def _now() -> int:
    return int(time.time() * 1000)
