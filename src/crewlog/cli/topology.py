"""The graphs of a run, each as it was: what the pictures of `watch` are drawn of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crewlog.cli.told_changes import STATEFUL, state_of
from crewlog.client import Client, Run
from crewlog.definition.model import CrewDefinition
from crewlog.errors import CrewlogError
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.ids import ContentHash
from crewlog.state import journal as j

Plans = Callable[[ContentHash], Awaitable[GraphPlan | None]]
"""Gives the plan of a definition; none where nobody can tell it."""


def plans_of(client: Client, run: Run) -> Plans:
    """The plans of a run: from the store, or from the run itself where it has that one now."""

    async def plan(definition: ContentHash) -> GraphPlan | None:
        try:
            store = await client.store()
            return lower(CrewDefinition.from_json(await store.get_definition(definition)))
        except CrewlogError:
            pass
        try:
            if (await run.state()).definition != definition:
                return None
            return GraphPlan.from_json((await run.graph()).plan)
        except CrewlogError:
            return None

    return plan


def graph_after(entry: j.JournalEntry, version: int) -> tuple[ContentHash, int] | None:
    """The definition and the version of a graph that a fact puts in the place of the last one.

    Args:
        entry: The fact.
        version: The graph's version until now.
    """
    if isinstance(entry, j.GraphReplacement):
        return entry.definition, entry.graph_version
    if isinstance(entry, STATEFUL):
        state = state_of(entry)
        if isinstance(entry, j.RunForked) or state.graph_version != version:
            return state.definition, state.graph_version
    return None
