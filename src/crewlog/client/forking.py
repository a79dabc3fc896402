"""What a fork goes on with, looked at before it is started: a faulty one leaves no run behind."""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import Operation
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.store.checkpoints import checkpoint_state_position
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import Store


async def crew_at(store: Store, run: RunId, position: int) -> ContentHash:
    """The definition that a run had at a checkpoint; empty before it had one.

    Raises:
        UsageError: the position is no checkpoint.
        StoreIncomplete: rows of the run are missing.
    """
    then = await load_state(store, run, await checkpoint_state_position(store, run, position))
    return then.definition


async def forked_crew(
    store: Store,
    base: ContentHash,
    operations: Sequence[Operation],
    definition: dict[str, Json] | None,
) -> CrewDefinition | None:
    """The crew that a fork goes on with; none where it is that of its source, or workers judge it.

    Raises:
        InvalidDefinition: with everything that is wrong with what comes out.
    """
    if definition is not None:
        return _checked(definition)
    if not operations:
        return None
    data = await store.get_definition(base)
    made = apply_operations(CrewDefinition.from_json(data), operations)
    try:
        return _checked(made.to_json())
    except InvalidDefinition:
        if _is_understood(data):
            raise
        return None


def _checked(data: dict[str, Json]) -> CrewDefinition:
    made = load_data(data)
    lower(made)
    return made


def _is_understood(data: dict[str, Json]) -> bool:
    """Whether this process has what a crew needs that runs: workers may have other builders."""
    try:
        _checked(data)
    except InvalidDefinition:
        return False
    return True
