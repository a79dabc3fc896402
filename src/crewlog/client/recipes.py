"""A run's recipe as it is written now: what the run was started with, and what people made of it.

A recipe that was registered when a run was started with it is by now the newest version of that
name. Of one that was in a file nobody knows but those who have the file: they name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from crewlog.client.catalog import definition_of
from crewlog.definition.creatures import elsewhere
from crewlog.definition.model import CrewDefinition
from crewlog.ids import ContentHash, CrewName
from crewlog.model import Json
from crewlog.state.model import CrewState
from crewlog.store.homes import homes_of
from crewlog.store.protocol import CrewRow, Store

Written = str | Path | Mapping[str, Json] | CrewDefinition
"""A crew's file, a definition as data, or a definition."""


class Recipe(NamedTuple):
    """What a run is to go on with that goes on from its recipe."""

    definition: dict[str, Json]
    """The recipe, as it is written now."""
    version: int | None = None
    """The registered version that it is; none where it is given, or was never registered."""


async def edited(
    store: Store, crew: CrewName, recipe: ContentHash, given: Written | None
) -> Recipe | None:
    """A recipe as it is written now; none where it is what the run was started with.

    Args:
        store: The store.
        crew: The crew's name.
        recipe: The hash of the definition that the run was started with.
        given: Where the caller has it; none: what is registered counts.

    Raises:
        InvalidDefinition: what is given is no crew.
    """
    if given is not None:
        return Recipe(definition_of(given).to_json())
    newest = await _newest(store, crew, recipe)
    if newest is None or newest.definition == recipe:
        return None
    return Recipe(await store.get_definition(newest.definition), newest.version)


async def _newest(store: Store, crew: CrewName, recipe: ContentHash) -> CrewRow | None:
    """The newest version of a crew one of whose versions is the recipe."""
    rows = [row for row in await store.list_crews(all_versions=True) if row.name == crew]
    known = any(row.definition == recipe for row in rows)
    return max(rows, key=lambda row: row.version) if known else None


async def recipe_for(
    store: Store, state: CrewState, given: Written | None
) -> CrewDefinition | None:
    """The recipe that a live run goes back to; none where it has that already.

    Who left for a run that lives stays there.

    Args:
        store: The store.
        state: The run.
        given: See `edited`.
    """
    recipe = state.recipe or state.definition
    found = await edited(store, state.crew, recipe, given)
    if found is None and recipe == state.definition:
        return None
    data = found.definition if found is not None else await store.get_definition(recipe)
    force = CrewDefinition.from_json(await store.get_definition(state.definition))
    away = force.graph.away if force.graph is not None else {}
    return elsewhere(CrewDefinition.from_json(data), await homes_of(store, state.run, away))
