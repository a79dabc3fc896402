"""Earlier graphs of a run: which there were, and where the run was when each of them went."""

from __future__ import annotations

from dataclasses import dataclass

from crewlog.client import Client, Run
from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition
from crewlog.errors import UsageError
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.state.fold import fold
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CrewState

_PAGE = 1000


@dataclass(frozen=True)
class Version:
    """A graph that a run had, or has."""

    plan: GraphPlan
    state: CrewState
    """The run when it last had it."""


async def version_of(client: Client, run_id: str, wanted: int) -> Version:
    """A run's graph of some version, as it was last: rules may have changed under one version.

    Raises:
        UsageError: it never had that one.
        StoreUnavailable: the store is away, which has the definitions.
    """
    found = await _states(client.run(run_id))
    state = found.get(wanted)
    if state is None:
        there = f"It has had {listed(f'v{each}' for each in sorted(found))}."
        raise UsageError(
            f"the run {run_id!r} has had no graph v{wanted}",
            remedy=there if found else "Its prompt is not compiled yet.",
            place=f"run {run_id!r}",
        )
    store = await client.store()
    data = await store.get_definition(state.definition)
    return Version(lower(CrewDefinition.from_json(data)), state)


async def _states(run: Run) -> dict[int, CrewState]:
    """The last state of each version: the journal says it all."""
    state = CrewState(run=run.id)
    found: dict[int, CrewState] = {}
    after = 0
    while entries := (await run.journal(after, _PAGE)).entries:
        for item in entries:
            before, state = state, fold(state, entry_from_json(item.data))
            if before.definition and before.graph_version != state.graph_version:
                found[before.graph_version] = before
        after = entries[-1].position
    if state.definition:
        found[state.graph_version] = state
    return found
