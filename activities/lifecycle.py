"""The start of a run (its crew as a definition and a plan) and its end (its result)."""

from __future__ import annotations

from crewlog.activities.batches import append_batch
from crewlog.activities.definitions import Definitions, LoweredCrew, registry_of
from crewlog.activities.executions import Executions, record_start, start_already_used_error
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
from crewlog.state.calls import EndRun, EndRunResult, PrepareRun, PrepareRunResult, SignedStart
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
    lowered = await _lower_start(task, store, definitions)
    crew = definitions.put(lowered.hash, lowered.definition)
    as_counted(where_they_are(crew, None), None)
    if task.use is not None:
        policy = lowered.definition.policy
        is_permitted = await record_start(task.use, policy, task.run, store)
        signed = policy is not None and policy.signed
        await executions.check_unused_id(task.run, task.use, signed=signed)
        if is_permitted and signed:
            await _record_execution(task.run, task.use, store, executions)
    return PrepareRunResult(
        definition=lowered.data,
        plan=lowered.plan,
        search_attributes=await server.has_search_attributes(),
    )


async def _lower_start(task: PrepareRun, store: Store, definitions: Definitions) -> LoweredCrew:
    """Resolves, validates and lowers the crew of a new run; the store has its definition then."""
    data = task.crew
    if isinstance(data, str):
        address = await _find_crew(data, store)
        known = definitions.lowered_new.get(address)
        # The store has the definition of a registered crew.
        if known is not None and known.hash == address and not (task.edited or task.model):
            return known
        data = await store.get_definition(address)
    if task.edited:
        registry = await registry_of(store, task.registry, task.model)
        read_data(data, offered_form(registry))
    elif task.model:
        data = load_data(data, task.model).to_json()
    lowered = _lower_new(data, definitions)
    await store.put_definition(lowered.data)
    return lowered


async def _record_execution(
    run: RunId, use: SignedStart, store: Store, executions: Executions
) -> None:
    """Records the execution of a signed run.

    Raises:
        NotPermitted: the store has another run with this id.
    """
    known = await store.accepted_executions(run)
    if use.execution not in known and await store.get_run(run) is not None:
        raise start_already_used_error(run)
    await executions.begin(run, use, signed=True)


async def lower_new_definition(
    data: dict[str, Json], store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """Validates and stores a definition; returns it and its plan as JSON.

    Raises:
        InvalidDefinition: the definition has errors.
    """
    return await _store_definition(_lower_new(data, definitions), store, definitions)


def _lower_new(data: dict[str, Json], definitions: Definitions) -> LoweredCrew:
    name = hash_json(data)
    known = definitions.lowered_new.get(name)
    if known is None:
        known = definitions.lowered_new.setdefault(name, _lowered(load_data(data)))
    return known


def _lowered(crew: CrewDefinition) -> LoweredCrew:
    data = crew.to_json()
    return LoweredCrew(crew, data, hash_json(data), lower_validated(crew).to_json())


async def lower_stored_definition(
    data: dict[str, Json], store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """As `lower_new_definition`, without the checks that only new definitions need."""
    name = hash_json(data)
    known = definitions.lowered_new.get(name) or definitions.lowered_existing.get(name)
    if known is None:
        known = definitions.lowered_existing.setdefault(name, _lowered(load_stored(data)))
    return await _store_definition(known, store, definitions)


async def lower_crew(
    crew: CrewDefinition, store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    """As `lower_stored_definition`, for a crew that was validated before."""
    data = crew.to_json()
    address = await store.put_definition(data)
    known = definitions.lowered_new.get(address) or definitions.lowered_existing.get(address)
    if known is None:
        parsed = CrewDefinition.from_json(data)  # as every worker does
        plan = lower_validated(parsed, address).to_json()
        known = LoweredCrew(parsed, data, address, plan)
        definitions.lowered_existing[address] = known
    definitions.put(address, known.definition)
    return data, known.plan


async def _store_definition(
    crew: LoweredCrew, store: Store, definitions: Definitions
) -> tuple[dict[str, Json], dict[str, Json]]:
    await store.put_definition(crew.data)
    definitions.put(crew.hash, crew.definition)
    return crew.data, crew.plan


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
