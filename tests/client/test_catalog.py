"""What is registered, as programs see it: crews, registries, their parts, who can do what."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from crewlog.client.catalog import Catalog, OfferedBuilder, contents_of
from crewlog.definition.builders import builders
from crewlog.definition.capabilities import callers
from crewlog.definition.load import load_data
from crewlog.errors import InvalidDefinition, UsageError
from crewlog.prompt.registry import OfferedTool, Registry
from crewlog.prompt.registry_file import load_registry_data
from crewlog.store import InMemoryStore, Store

PRESS: dict[str, Any] = {
    "registry": "press",
    "model": "openai:gpt-5-mini",
    "models": ["openai:gpt-5-mini", "openai:gpt-5"],
    "agents": {"editor": {"prompt": "Edit.", "tools": ["search"]}},
    "tools": {"search": {"run": "m:search"}, "post": {"run": "m:post", "grant": []}},
    "builders": ["supervisor"],
}
CREW: dict[str, Any] = {
    "crew": "notes",
    "model": "openai:x",
    "agents": {"writer": {"prompt": "Write."}},
    "tools": {"search": {"run": "m:search"}},
}


@pytest.fixture
def store() -> Store:
    return InMemoryStore()


@pytest.fixture
def catalog(store: Store, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog whose clock moves on at every look."""
    times = iter(range(1, 1000))
    monkeypatch.setattr("crewlog.client.catalog._now", lambda: next(times))

    async def opened() -> Store:
        return store

    return Catalog(opened)


async def test_crews_by_name_and_version(catalog: Catalog) -> None:
    first = await catalog.add_crew(load_data(CREW))
    again = await catalog.add_crew(load_data(CREW))
    changed = await catalog.add_crew(load_data(CREW | {"description": "Notes."}))
    assert (first.new, again.new, changed.new) == (True, False, True)
    assert (first.crew, changed.crew.version) == (again.crew, 2)
    assert (await catalog.crew("notes")).definition.description == "Notes."
    assert (await catalog.crew("notes", 1)).definition == load_data(CREW)
    assert [each.row.version for each in await catalog.crews()] == [2]
    assert [each.row.version for each in await catalog.crews(all_versions=True)] == [1, 2]


async def test_a_registry_is_registered_with_its_parts(catalog: Catalog, store: Store) -> None:
    first = await catalog.add_registry(PRESS)
    assert first.new
    assert [(row.kind, row.name) for row in first.parts] == [
        ("agent", "press/editor"),
        ("tool", "press/search"),
        ("tool", "press/post"),
        ("builder", "press/supervisor"),
        ("model", "press/openai:gpt-5-mini"),
        ("model", "press/openai:gpt-5"),
    ]
    assert first.new_parts == first.parts
    again = await catalog.add_registry(load_registry_data(PRESS))
    assert (again.new, again.new_parts, again.parts) == (False, (), first.parts)
    tools = PRESS["tools"] | {"post": {"run": "m:post"}}
    changed = await catalog.add_registry(PRESS | {"tools": tools})
    assert [(row.name, row.version) for row in changed.new_parts] == [("press/post", 2)]
    assert changed.registered.version == 2
    assert (await catalog.registry("press", 1)).registry == load_registry_data(PRESS)
    row, tool = await catalog.part("tool", "press/post", 1)
    assert isinstance(tool, OfferedTool)
    assert (row.version, tool.grant) == (1, ())
    _, builder = await catalog.part("builder", "press/supervisor")
    assert isinstance(builder, OfferedBuilder)
    assert builder.about == builders()["supervisor"].about
    assert [row.version for row in await catalog.history("tool", "press/post")] == [1, 2]


async def test_two_registries_may_have_a_tool_of_one_name(catalog: Catalog) -> None:
    await catalog.add_registry(PRESS)
    other = await catalog.add_registry({"registry": "lab", "tools": {"post": {"run": "lab:post"}}})
    assert other.new
    again = await catalog.add_registry(PRESS)
    assert (again.new, again.new_parts) == (False, ())


async def test_a_registry_without_a_list_of_builders_has_all_that_are_here() -> None:
    kinds = [name for kind, name in contents_of(Registry()) if kind == "builder"]
    assert kinds == [f"registry/{name}" for name, each in builders().items() if not each.broken]


async def test_registries_at_once(catalog: Catalog) -> None:
    versions = [PRESS | {"description": str(n // 2)} for n in range(10)]
    added = await asyncio.gather(*map(catalog.add_registry, versions))
    numbers = {each.registered.version for each in added}
    assert numbers == set(range(1, len(numbers) + 1))


async def test_names_that_are_not_there(catalog: Catalog) -> None:
    with pytest.raises(UsageError, match="there is no crew 'notes'") as caught:
        await catalog.crew("notes")
    assert "None is registered yet. Register it with `crewlog register FILE`" in caught.value.remedy
    await catalog.add_crew(load_data(CREW))
    await catalog.add_registry(PRESS)
    with pytest.raises(UsageError, match="there is no crew 'note'") as caught:
        await catalog.crew("note")
    assert caught.value.remedy.startswith("Did you mean 'notes'? Registered: notes. ")
    with pytest.raises(UsageError, match="the crew 'notes' has no version 7") as caught:
        await catalog.crew("notes", 7)
    assert caught.value.remedy == "It has one version: 1."
    with pytest.raises(UsageError, match="there is no registry 'pres'") as caught:
        await catalog.registry("pres")
    assert "Did you mean 'press'?" in caught.value.remedy
    with pytest.raises(UsageError, match="there is no tool 'press/pst'") as caught:
        await catalog.part("tool", "press/pst")
    assert "'press/post'" in caught.value.remedy


async def test_faults_keep_everything_out(catalog: Catalog, tmp_path: Path) -> None:
    bad = PRESS | {"agents": {"editor": {"prompt": "p", "tools": ["gone"]}}}
    with pytest.raises(InvalidDefinition, match="'gone', which is not defined"):
        await catalog.add_registry(bad)
    file = tmp_path / "press.yaml"
    file.write_text("registry: press\ntols: {}\n")
    with pytest.raises(InvalidDefinition) as caught:
        await catalog.add_registry(file)
    assert caught.value.place == f"{file}:2:1"
    assert await catalog.registries() == []


async def test_who_can_do_what_over_everything(catalog: Catalog) -> None:
    await catalog.add_crew(load_data(CREW))
    await catalog.add_registry(PRESS)
    found = callers("search", await catalog.offers())
    assert [(each.place, each.who) for each in found] == [
        ("crew notes@1", "writer"),
        ("registry press@1", "editor"),
        ("registry press@1", ""),
    ]
