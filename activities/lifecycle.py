"""The start of a run (its crew as a definition and a plan) and its end (its result)."""

from __future__ import annotations

from collections.abc import Callable

from crewlog.activities.batches import append_batch
from crewlog.activities.definitions import Definitions, LoweredDefinition, registry_of
from crewlog.activities.executions import Executions
from crewlog.activities.server import Server
from crewlog.canonical_json import hash_json
from crewlog.definition.counting import as_counted
from crewlog.definition.creatures import where_they_are
from crewlog.definition.findings import did_you_mean
from crewlog.definition.load import load_data, load_stored, read_data
from crewlog.definition.model import CrewDefinition
from crewlog.errors import Diagnostic, InvalidDefinition
from crewlog.graph.lowering.plans import lower_validated
from crewlog.graph.plan import GraphPlan
from crewlog.ids import CrewName
from crewlog.model import Json
from crewlog.prompt.offered import offered_form
from crewlog.state.calls import EndRun, EndRunResult, PrepareRun, PrepareRunResult
from crewlog.state.journal import Batch
from crewlog.state.messages import is_message, message_from_json
from crewlog.store.protocol import Snapshot, Store


async def prepare_run(
    task: PrepareRun,
    store: Store,
    definitions: Definitions,
    server: Server,
    executions: Executions,
) -> PrepareRunResult:
    """Resolves, validates and lowers the crew, and stores its definition.

    Raises:
        InvalidDefinition: the definition has errors, or the crew is unknown.
        NotPermitted: the crew is signed, and the start was used before; or the store has a signed
            run with this id.
    """
    data = await load_crew_data(task.crew, store)
    if task.edited:
        registry = await registry_of(store, task.registry, task.model)
        read_data(data, offered_form(registry))
    elif task.model:
        data = load_data(data, task.model).to_json()
    definition, plan = await lower_new_definition(data, store, definitions)
    crew = await definitions.get(hash_json(definition))
    as_counted(where_they_are(crew, None), None)
    if task.use is not None:
        await executions.record_start(task.use, GraphPlan.from_json(plan).policy, task.run)
    return PrepareRunResult(
        definition=definition, plan=plan, search_attributes=await server.has_search_attributes()
    )


async def lower_new_definition(
    data: dict[str, Json], store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """Validates and stores a definition; returns it and its plan as JSON.

    Raises:
        InvalidDefinition: the definition has errors.
    """
    return await _lower(data, load_data, store, definitions, is_new=True)


async def lower_stored_definition(
    data: dict[str, Json], store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """As `lower_new_definition`, without the checks that only new definitions need."""
    return await _lower(data, load_stored, store, definitions)


async def lower_crew(
    crew: CrewDefinition, store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """As `lower_stored_definition`, for a crew that was validated before."""
    # Parsed again, as every worker does.
    return await _lower(crew.to_json(), CrewDefinition.from_json, store, definitions)


async def _lower(
    data: dict[str, Json],
    load: Callable[[dict[str, Json]], CrewDefinition],
    store: Store,
    definitions: Definitions,
    *,
    is_new: bool = False,
) -> tuple[dict[str, Json], dict[str, Json]]:
    name = hash_json(data)
    known = definitions.lowered.get(name)
    if known is None or (is_new and not known.is_new):
        crew = load(data)
        known = LoweredDefinition(crew, lower_validated(crew).to_json(), is_new)
        definitions.lowered[name] = known
    stored = known.definition.to_json()
    definitions.put(await store.put_definition(stored), known.definition)
    return stored, known.plan


async def load_crew_data(crew: str | dict[str, Json], store: Store) -> dict[str, Json]:
    """Returns a crew as data: the newest version in the catalog, or the given definition.

    Raises:
        InvalidDefinition: the catalog has no crew of that name.
    """
    if not isinstance(crew, str):
        return crew
    row = await store.get_crew(CrewName(crew))
    if row is None:
        known = [r.name for r in await store.list_crews()]
        names = f"There are: {', '.join(known)}." if known else "None is registered yet."
        raise InvalidDefinition(
            [
                Diagnostic(
                    f"no crew is registered as {crew!r}",
                    path=("crew",),
                    remedy=did_you_mean(crew, known, names),
                )
            ]
        )
    return await store.get_definition(row.definition)


LONGEST_OUTPUT = 64 * 1024
"""The most characters of an output in a result; the store and the journal have the whole text."""


async def end_run(
    input: EndRun, batch: Batch, store: Store, built: dict[str, dict[str, Json]]
) -> EndRunResult:
    """Stores an unpacked batch and the state; returns the bodies of the outputs."""
    if batch.entries:
        await append_batch(store, input.run, batch)
        await store.put_snapshot(input.run, Snapshot(position=batch.last, state=input.state))
    bodies = await store.get_bodies(input.outputs) if input.outputs else {}
    outputs = {hash_: _result_value(body) for hash_, body in bodies.items()}
    return EndRunResult(outputs=outputs, artifacts=built)


def _result_value(body: Json) -> Json:
    value = str(message_from_json(body).text) if is_message(body) else body
    if isinstance(value, str) and len(value) > LONGEST_OUTPUT:
        return f"{value[:LONGEST_OUTPUT]}… ({len(value)} characters; the store has all)"
    return value
