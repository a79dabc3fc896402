"""What a run was started with, resolved to a definition and its plan."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crewlog.activities.definitions import Definitions
from crewlog.activities.executions import Executions, taken
from crewlog.activities.once import record_start
from crewlog.activities.registries import registry_of
from crewlog.content import hash_json
from crewlog.definition.counting import as_counted
from crewlog.definition.creatures import where_they_are
from crewlog.definition.findings import did_you_mean
from crewlog.definition.load import load_data, load_stored, read_data
from crewlog.definition.model import CrewDefinition
from crewlog.errors import Diagnostic, InvalidDefinition
from crewlog.graph.lower import lower_validated
from crewlog.graph.plan import GraphPlan
from crewlog.ids import CrewName, RunId
from crewlog.model import Json
from crewlog.prompt.offered import offered_form
from crewlog.state.calls import PrepareRun, PrepareRunResult, SignedStart
from crewlog.store.protocol import Store

Probe = Callable[[], Awaitable[bool]]
"""Asks the server whether it knows Crewlog's search attributes."""


async def open_run(
    task: PrepareRun,
    store: Store,
    definitions: Definitions,
    search_attributes: Probe,
    executions: Executions,
) -> PrepareRunResult:
    """Resolves the crew, checks and lowers it, and stores its definition.

    Raises:
        InvalidDefinition: with everything that is wrong, or for an unknown crew.
        NotPermitted: the crew is signed, and the start was used before; or the store has a signed
            run of this id.
    """
    given = await load_crew_data(task.crew, store)
    if task.edited:
        registry = await registry_of(store, task.registry, task.model)
        read_data(given, offered_form(registry))
    elif task.model:
        given = load_data(given, task.model).to_json()
    definition, plan = await lowered(given, store, definitions)
    crew = await definitions.get(hash_json(definition))
    as_counted(where_they_are(crew, None), None)
    if task.use is not None:
        policy = GraphPlan.from_json(plan).policy
        let_in = await record_start(task.use, policy, task.run, store)
        await executions.check_unused_id(task.run, task.use)
        if let_in and policy is not None and policy.signed:
            await _begin(task.run, task.use, store, executions)
    return PrepareRunResult(
        definition=definition, plan=plan, search_attributes=await search_attributes()
    )


async def _begin(run: RunId, use: SignedStart, store: Store, executions: Executions) -> None:
    """Notes whose a signed run is, where there was none of its id."""
    known = await store.executions(run)
    if use.execution not in known and await store.get_run(run) is not None:
        raise taken(run)
    await executions.begin(run, use, signed=True)


async def lowered(
    given: dict[str, Json], store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """A definition, checked and stored, and its plan, both as JSON.

    Raises:
        InvalidDefinition: with everything that is wrong.
    """
    name = hash_json(given)
    checked = definitions.checked.get(name)
    if checked is None:
        made = load_data(given)
        checked = definitions.checked.put(name, (made, lower_validated(made).to_json()))
    return await _stored(checked, store, definitions)


async def lower_stored_definition(
    given: dict[str, Json], store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """As `lowered`, of a definition that ran: what is asked of new ones only is not asked of it."""
    name = hash_json(given)
    known = definitions.checked.get(name) or definitions.ran.get(name)
    if known is None:
        made = load_stored(given)
        known = definitions.ran.put(name, (made, lower_validated(made).to_json()))
    return await _stored(known, store, definitions)


async def lower_crew(
    crew: CrewDefinition, store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """As `lower_stored_definition`, of a crew that was checked: nothing is asked again."""
    data = crew.to_json()
    address = await store.put_definition(data)
    known = definitions.checked.get(address) or definitions.ran.get(address)
    if known is None:
        read = CrewDefinition.from_json(data)  # as every worker will
        known = definitions.ran.put(address, (read, lower_validated(read, address).to_json()))
    definitions.put(address, known[0])
    return data, known[1]


async def _stored(
    made: tuple[CrewDefinition, dict[str, Json]], store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    definition, plan = made
    data = definition.to_json()
    definitions.put(await store.put_definition(data), definition)
    return data, plan


async def load_crew_data(crew: str | dict[str, Json], store: Store) -> dict[str, Json]:
    """A crew as data: the newest of a registered name, else what is given.

    Raises:
        InvalidDefinition: where none is registered under the name.
    """
    if not isinstance(crew, str):
        return crew
    row = await store.get_crew(CrewName(crew))
    if row is None:
        known = [r.name for r in await store.list_crews()]
        there = f"There are: {', '.join(known)}." if known else "None is registered yet."
        raise InvalidDefinition(
            [
                Diagnostic(
                    f"no crew is registered as {crew!r}",
                    path=("crew",),
                    remedy=did_you_mean(crew, known, there),
                )
            ]
        )
    return await store.get_definition(row.definition)
