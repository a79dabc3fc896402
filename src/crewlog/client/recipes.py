"""A run's recipe as it is written now: what the run was started with, and what people made of it.

A recipe that was registered when a run was started with it is by now the newest version of that
name. Of one that was in a file nobody knows but those who have the file: they name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from crewlog.client.catalog import definition_of
from crewlog.definition.creatures import channels_named, creatures_of, elsewhere
from crewlog.definition.difference import NOTHING, summary
from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition
from crewlog.errors import CommandRejected
from crewlog.graph.lowering.plans import lower
from crewlog.ids import AgentName, ContentHash, CrewName, RunId
from crewlog.model import Json
from crewlog.run_status import RunStatus
from crewlog.state.components import connected_agents
from crewlog.state.journal import RunMerged, entry_from_json
from crewlog.state.model import CrewState
from crewlog.store.claims import EndedExecutions
from crewlog.store.protocol import CrewRow, Store
from crewlog.store.remote_agents import find_remote_agents

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
    store: Store, state: CrewState, given: Written | None, ended_executions: EndedExecutions
) -> CrewDefinition | None:
    """The recipe that a live run goes back to; none where it has that already.

    Who left for a run that lives stays there.

    Args:
        store: The store.
        state: The run.
        given: See `edited`.
        ended_executions: See `crewlog.store.claims.EndedExecutions`.
    """
    found = await edited(store, state.crew, state.recipe, given)
    if found is None and state.recipe == state.definition:
        return None
    data = found.definition if found is not None else await store.get_definition(state.recipe)
    force = CrewDefinition.from_json(await store.get_definition(state.definition))
    homes = await find_remote_agents(store, state.run, force.away, ended_executions)
    return elsewhere(CrewDefinition.from_json(data), homes.runs)


class Leaver(NamedTuple):
    """An agent that a run has, and its recipe does not."""

    name: AgentName
    came_with: RunId | None
    """The run that brought it when the two became one; none: people or agents added it."""


class WayBack(NamedTuple):
    """What going on from its recipe makes of a run."""

    status: RunStatus
    """What the run is now: one that is open is paused before it goes back."""
    definition: CrewDefinition
    """The recipe. Of those whom the run has elsewhere it says nothing: it knows where."""
    what: str
    """In a line."""
    leaves: tuple[Leaver, ...]
    returns: tuple[AgentName, ...]
    """Agents of the recipe that the run does not have."""
    home: tuple[AgentName, ...]
    """Of these, those that had left for other runs, where they live no more."""
    stays: Mapping[AgentName, RunId]
    """Agents of the recipe that live in other runs, and stay there."""
    channels_gone: tuple[str, ...]
    channels_new: tuple[str, ...]
    pieces: int
    """How many runs come of it: more than one where the recipe is in several pieces."""

    @property
    def changes(self) -> bool:
        """Whether the run has another crew by that."""
        return self.what != NOTHING


def check_paused(run: RunId, status: RunStatus) -> None:
    """Checks that a run that has not ended may go back to its recipe.

    Raises:
        CommandRejected: it is not paused.
    """
    if status != "paused":
        raise CommandRejected(
            f"the run {run!r} is {status}: it is not paused, and goes on as it is",
            remedy=f"Pause it before it goes back to its recipe: crewlog pause {run}",
            place=f"run {run!r}",
        )


def check_nobody_comes_home(run: RunId, way: WayBack) -> None:
    """Checks that a run that has not ended may go back to its recipe, by who comes back with that.

    What they had read and said comes with them, and only a run that begins anew takes that in.

    Raises:
        CommandRejected: some of them come home.
    """
    if way.home:
        one = len(way.home) == 1
        left = "a run of its own, which has ended" if one else "runs of their own, which have ended"
        back = "it comes home, with all it read" if one else "they come home, with all they read"
        raise CommandRejected(
            f"{listed(way.home)} left for {left}: {back}, only where {run!r} has ended, too",
            remedy=f"End it, and resume it the same way then: crewlog stop {run}",
            place=f"run {run!r}",
        )


async def way_back(
    store: Store, state: CrewState, given: Written | None, ended_executions: EndedExecutions
) -> WayBack:
    """What going on from its recipe would make of a run; nothing is changed.

    Args:
        store: The store.
        state: The run, open or ended.
        given: See `edited`.
        ended_executions: See `crewlog.store.claims.EndedExecutions`.

    Raises:
        InvalidDefinition: what is given is no crew.
    """
    now = CrewDefinition.from_json(await store.get_definition(state.definition))
    made = await recipe_for(store, state, given, ended_executions) or now
    here, there = creatures_of(now), creatures_of(made)
    gone = [AgentName(name) for name in here if name not in there]
    came = await _came_with(store, state.run) if gone else {}
    before, after = _channels(now), _channels(made)
    graph = lower(made).component
    said = {name: home for name, home in made.away.items() if name not in now.away}
    policy = made.graph and made.graph.model_copy(update={"away": said})
    return WayBack(
        status=state.status,
        definition=made.model_copy(update={"graph": policy}),
        what=summary(now, made, longest=None),
        leaves=tuple(Leaver(name, came.get(name)) for name in gone),
        returns=tuple(AgentName(name) for name in there if name not in here),
        home=tuple(AgentName(name) for name in there if name in now.away),
        stays={AgentName(name): RunId(home) for name, home in made.away.items()},
        channels_gone=tuple(name for name in before if name not in after),
        channels_new=tuple(name for name in after if name not in before),
        pieces=len(connected_agents(graph)) if graph is not None else 1,
    )


def _channels(crew: CrewDefinition) -> tuple[str, ...]:
    """The channels of a crew's own graph."""
    named = [each for name in creatures_of(crew) for each in channels_named(crew.agents[name])]
    return tuple(dict.fromkeys((*crew.channels, *named)))


async def _came_with(store: Store, run: RunId) -> dict[AgentName, RunId]:
    """Who came to a run with others that are a part of it, by the names of now."""
    found: dict[AgentName, RunId] = {}
    for tie in await store.lineage_links([run]):
        if tie.run == run and tie.by_merge and tie.position:
            for row in await store.read_journal(run, tie.position - 1, 1):
                entry = entry_from_json(row.entry)
                if isinstance(entry, RunMerged):
                    found |= dict.fromkeys(entry.merged_agents, entry.merged_run)
    return found
