"""Registries by name: what the prompts of a crew may use."""

from __future__ import annotations

from crewlog.definition.findings import did_you_mean
from crewlog.errors import Diagnostic, InvalidDefinition
from crewlog.prompt.registry import Registry
from crewlog.prompt.registry_file import load_registry_data
from crewlog.store.protocol import Store


async def registry_of(store: Store, name: str, model: str) -> Registry:
    """The registry of that name, in its newest version.

    Args:
        store: Where registries are.
        name: Its name; empty: a registry of nothing.
        model: The model of crews, in the place of the registry's; empty: the registry's.

    Raises:
        InvalidDefinition: where none is registered under the name.
        StoreUnavailable: the store is away.
    """
    found = Registry() if not name else await _registered(store, name)
    return found.with_model(model)


async def _registered(store: Store, name: str) -> Registry:
    row = await store.get_catalog_entry("registry", name)
    if row is None:
        known = [each.name for each in await store.list_catalog_entries("registry")]
        how = did_you_mean(name, known, "Register it: `crewlog crews add FILE`.")
        fault = Diagnostic(f"no registry is registered as {name!r}", path=("registry",), remedy=how)
        raise InvalidDefinition([fault])
    return load_registry_data(await store.get_definition(row.content))
