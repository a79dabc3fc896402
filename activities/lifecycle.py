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
from crewlog.ids import ContentHash, CrewName, RunId
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
    """Resolves, validates and lowers the crew, and stores its definition for the run.

    A start that is rejected here stores nothing: no run refers to it.

    Raises:
        InvalidDefinition: the definition has errors, or the crew is unknown.
        NotPermitted: the crew is signed, and the start was used before; or the store has a signed
            run with this id.
    """
    lowered, is_registered = await _lower_start(task, store, definitions)
    crew = definitions.put(lowered.hash, lowered.definition)
    as_counted(where_they_are(crew, None), None)
    if task.use is not None:
        await executions.record_start(task.use, lowered.definition.policy, task.run)
    if not is_registered:
        await store.put_definition(task.run, lowered.data)
    return PrepareRunResult(
        definition=lowered.data,
        plan=lowered.plan,
        search_attributes=await server.has_search_attributes(),
    )


async def _lower_start(
    task: PrepareRun, store: Store, definitions: Definitions
) -> tuple[LoweredDefinition, bool]:
    """Resolves, validates and lowers the crew of a new run.

    Returns:
        The crew, and whether the catalog has its definition. Its normal form may differ.
    """
    data = task.crew
    if isinstance(data, str):
        address = await _find_crew(data, store)
        known = definitions.lowered.get(address)
        if known is not None and known.is_new and not (task.edited or task.model):
            return known, known.hash == address
        data = await store.get_definition(address)
    if task.edited:
        registry = await registry_of(store, task.registry, task.model)
        read_data(data, offered_form(registry))
    elif task.model:
        data = load_data(data, task.model).to_json()
    return _lower(data, load_data, definitions, is_new=True), False


async def lower_new_definition(
    run: RunId, data: dict[str, Json], store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """Validates a definition, and stores it for a run; returns it and its plan as JSON.

    Raises:
        InvalidDefinition: the definition has errors.
    """
    lowered = _lower(data, load_data, definitions, is_new=True)
    return await _store(run, lowered, store, definitions)


async def lower_stored_definition(
    run: RunId, data: dict[str, Json], store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """As `lower_new_definition`, without the checks that only new definitions need."""
    return await _store(run, _lower(data, load_stored, definitions), store, definitions)


async def lower_crew(
    run: RunId, crew: CrewDefinition, store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """As `lower_stored_definition`, for a crew that was validated before."""
    # Parsed again, as every worker does.
    lowered = _lower(crew.to_json(), CrewDefinition.from_json, definitions)
    return await _store(run, lowered, store, definitions)


def _lower(
    data: dict[str, Json],
    load: Callable[[dict[str, Json]], CrewDefinition],
    definitions: Definitions,
    *,
    is_new: bool = False,
) -> LoweredDefinition:
    name = hash_json(data)
    known = definitions.lowered.get(name)
    if known is None or (is_new and not known.is_new):
        crew = load(data)
        stored = crew.to_json()
        plan = lower_validated(crew).to_json()
        known = LoweredDefinition(crew, stored, hash_json(stored), plan, is_new)
        definitions.lowered[name] = known
    return known


async def _store(
    run: RunId, lowered: LoweredDefinition, store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    await store.put_definition(run, lowered.data)
    definitions.put(lowered.hash, lowered.definition)
    return lowered.data, lowered.plan


async def load_crew_data(crew: str | dict[str, Json], store: Store) -> dict[str, Json]:
    """Returns a crew as data: the newest version in the catalog, or the given definition.

    Raises:
        InvalidDefinition: the catalog has no crew of that name.
    """
    if not isinstance(crew, str):
        return crew
    return await store.get_definition(await _find_crew(crew, store))


async def _find_crew(name: str, store: Store) -> ContentHash:
    """Returns the hash of the definition of the newest version of a registered crew.

    Raises:
        InvalidDefinition: the catalog has no crew of that name.
    """
    row = await store.get_crew(CrewName(name))
    if row is not None:
        return row.definition
    known = [r.name for r in await store.list_crews()]
    names = f"There are: {', '.join(known)}." if known else "None is registered yet."
    raise InvalidDefinition(
        [
            Diagnostic(
                f"no crew is registered as {name!r}",
                path=("crew",),
                remedy=did_you_mean(name, known, names),
            )
        ]
    )


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
