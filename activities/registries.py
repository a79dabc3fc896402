"""Registries by name: what the prompts of a crew may use."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from crewlog.definition.findings import did_you_mean
from crewlog.errors import Diagnostic, InvalidDefinition
from crewlog.model import Json
from crewlog.prompt.registry import Registry
from crewlog.store.protocol import Store


async def registry_of(store: Store, name: str, model: str) -> Registry:
    """The registry of that name, in its newest version.

    Args:
        store: Where registries are.
        name: Its name; empty: a registry of nothing.
        model: The model, where it names none.

    Raises:
        InvalidDefinition: where none is registered under the name.
        StoreUnavailable: the store is away.
    """
    found = Registry() if not name else await _registered(store, name)
    if found.model is None and model:
        found = found.model_copy(update={"model": model})
    return found


async def _registered(store: Store, name: str) -> Registry:
    data = await _content(store, name)
    if data is None:
        raise InvalidDefinition(
            [
                Diagnostic(
                    f"no registry is registered as {name!r}",
                    path=("registry",),
                    remedy=did_you_mean(name, (), "Register it: `crewlog registry add FILE`."),
                )
            ]
        )
    try:
        return Registry.model_validate(data)
    except ValidationError as error:
        fault = error.errors()[0]
        raise InvalidDefinition(
            [Diagnostic(f"the registry {name!r} is not valid: {fault['msg']}", path=fault["loc"])]
        ) from error


async def _content(store: Any, name: str) -> dict[str, Json] | None:
    """The seam to the store's registries."""
    get = getattr(store, "get_registry", None)
    if get is None:
        return None
    found: Any = await get(name)
    if found is None:
        return None
    content: Any = getattr(found, "content", found)
    data: dict[str, Json] = content
    if isinstance(content, str):
        data = await store.get_definition(content)
    return data
