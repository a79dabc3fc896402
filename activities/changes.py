"""Prepares a change of a live run: makes, checks and stores its definition and its plan.

The activity changes nothing: the run accepts or rejects the result. A prompt is compiled as at the
start of a run, with at most one model call in an activity. A step that the prompt describes
differently keeps its name in the crew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from pydantic import TypeAdapter, ValidationError

from crewlog.activities.batches import current_execution_id
from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.definitions import Definitions, registry_of
from crewlog.activities.failures import CHANGE_REJECTED, Effect
from crewlog.activities.lifecycle import load_crew_data, lower_crew, lower_new_definition
from crewlog.activities.prompt_compiler import compile_round, prompt_diagnostic
from crewlog.activities.server import Server
from crewlog.authority.widening import widening
from crewlog.definition.apply import apply_operations
from crewlog.definition.counting import as_counted
from crewlog.definition.creature_checks import new_warnings
from crewlog.definition.creatures import elsewhere, where_they_are
from crewlog.definition.difference import NOTHING, summary
from crewlog.definition.findings import for_run
from crewlog.definition.load import load_data, load_stored, read_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import Operation
from crewlog.definition.validate import standing
from crewlog.errors import ChangeConflict, Diagnostic, InvalidDefinition, UsageError
from crewlog.graph import run_split
from crewlog.graph.lowering.components import expanded_component
from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.keeping import kept
from crewlog.prompt.live_changes import added_agents, with_live_changes
from crewlog.prompt.offered import offered_form
from crewlog.prompt.registry import Registry, registry_of_crew
from crewlog.prompt.renaming import keep_names
from crewlog.redaction import redacted_text
from crewlog.state.calls import (
    PrepareChange,
    PrepareChangeResult,
    PreparedPending,
    PreparedSplitRun,
)
from crewlog.state.claim import ClaimOwner
from crewlog.state.components import split_components
from crewlog.store.protocol import Store
from crewlog.store.remote_agents import RemoteAgents, find_remote_agents
from crewlog.validation_errors import field_error_text

log: structlog.stdlib.BoundLogger = structlog.get_logger("crewlog.worker")
_OPERATIONS: TypeAdapter[tuple[Operation, ...]] = TypeAdapter(tuple[Operation, ...])


@dataclass(frozen=True)
class ChangePreparer:
    """Prepares changes on a worker."""

    store: Store
    definitions: Definitions
    models: ModelFactory
    server: Server = field(default_factory=Server)

    async def run(self, task: PrepareChange, effect: Effect) -> PrepareChangeResult:
        """Prepares a change.

        Args:
            task: The change.
            effect: Records that a model call has begun.

        Raises:
            InvalidDefinition: with all faults of the new definition. For a prompt that a model
                read, the result has the faults instead.
        """
        base = CrewDefinition.from_json(await self.store.get_definition(task.base))
        if task.prompt:
            return await self._prepare_prompt(task, base, effect)
        if task.operations:
            operations = _parse_operations(task.operations)
            crew = _with_engine_values(apply_operations(base, operations), base)
            result = await self._prepare(crew, base, task, of=task.base)
            return await self._with_pending(task.run, result, task.pending, operations)
        if task.recipe:
            return await self._prepare_recipe(task, base)
        if task.definition is None:
            raise UsageError(
                "the change has no prompt, no definition and no operations",
                remedy="Send one of `prompt`, `definition` and `operations`, see docs/wire.md.",
            )
        data = await load_crew_data(task.definition, self.store)
        crew = _with_engine_values(load_data(data), base)
        return await self._prepare(crew, base, task, compared=task.base)

    async def _with_pending(
        self,
        run: RunId,
        result: PrepareChangeResult,
        pending: ContentHash,
        operations: tuple[Operation, ...],
    ) -> PrepareChangeResult:
        """Applies operations to the definition of the pending change, too, if there is one.

        Raises:
            ChangeConflict: they do not fit it.
        """
        if not pending:
            return result
        before = CrewDefinition.from_json(await self.store.get_definition(pending))
        try:
            crew = _with_engine_values(apply_operations(before, operations), before)
            definition, plan = await lower_crew(run, crew, self.store, self.definitions)
        except (InvalidDefinition, UsageError) as error:
            raise ChangeConflict(
                f"the change does not fit the pending change of the graph: {error.message}",
                remedy="Send it again once the run has the new graph.",
            ) from error
        # What it does not widen now may be wider than what the pending change leads to.
        widens = None if result.widens is None else (*result.widens, *widening(before, crew))
        prepared = PreparedPending(base=pending, definition=definition, plan=plan)
        return result.model_copy(update={"pending": prepared, "widens": widens})

    async def _prepare_recipe(
        self, task: PrepareChange, base: CrewDefinition
    ) -> PrepareChangeResult:
        """Returns to the recipe; remote agents whose run is open stay there."""
        live = await self._live_definition(task, base)
        crew = base
        if task.definition is not None:
            data = await load_crew_data(task.definition, self.store)
            definition, _ = await lower_new_definition(task.run, data, self.store, self.definitions)
            crew = CrewDefinition.from_json(definition)
            _with_engine_values(crew, live)
        away = {name: run for name, run in live.away.items() if name in crew.agents}
        remote = await self._find_remote_agents(task, away)
        runs = remote.runs
        after = load_stored(elsewhere(crew, runs).to_json())
        result = await self._prepare(
            after, live, task, compared=task.against, claimed=remote.claimable
        )
        what = "returns to the definition that it was started with"
        if result.what != NOTHING:
            what += f": {result.what}"
        if task.definition is not None:
            what = f"continues with the present version of its recipe: {result.what}"
        for name in sorted({*runs} & {*crew.agents}):
            what += f"; {name} stays in {runs[name]}"
        return result.model_copy(update={"what": what})

    async def _find_remote_agents(
        self, task: PrepareChange, away: Mapping[str, str]
    ) -> RemoteAgents:
        """Finds the remote agents of the run, and claims those whose run has ended."""
        if not task.against:
            return RemoteAgents({}, {})
        owner = None
        if task.after is not None:
            owner = ClaimOwner(task.run, task.after, current_execution_id())
        lookup = self.server.find_last_executions
        remote = await find_remote_agents(self.store, task.run, away, lookup, owner)
        return remote if owner is not None else remote._replace(claimable={})

    async def _live_definition(self, task: PrepareChange, base: CrewDefinition) -> CrewDefinition:
        if not task.against:
            return base
        return CrewDefinition.from_json(await self.store.get_definition(task.against))

    async def _prepare(
        self,
        after: CrewDefinition,
        base: CrewDefinition,
        task: PrepareChange,
        *,
        of: str = "",
        compared: str = "",
        **more: Any,
    ) -> PrepareChangeResult:
        """Prepares the change to a checked crew."""
        own, split_runs = await self._split(after, task)
        definition, plan = await lower_crew(task.run, own, self.store, self.definitions)
        others = [CrewDefinition.from_json(each.definition) for each in split_runs]
        signed = base.policy is not None and base.policy.signed
        return PrepareChangeResult(
            definition=definition,
            plan=plan,
            base=ContentHash(of),
            what=summary(base, after),
            widens=widening(base, after) if signed else None,
            compared=ContentHash(compared or of),
            split_runs=split_runs,
            warnings=tuple(
                for_run(f"{each.message}\n    {each.remedy}", task.run)
                for each in new_warnings(base, own, _parse_operations(task.operations), others)
            ),
            **more,
        )

    async def _split(
        self, crew: CrewDefinition, task: PrepareChange
    ) -> tuple[CrewDefinition, tuple[PreparedSplitRun, ...]]:
        """Splits a crew into that of the run and those of split runs; checks and stores these."""
        if not task.command or not crew.lives:
            return crew, ()
        components = split_components(task.run, expanded_component(crew), task.command)
        if len(components) == 1:
            return crew, ()
        crews = run_split.split_definitions(crew, components, task.run)
        split_runs: list[PreparedSplitRun] = []
        for id_, component in components.items():
            if faults := [each for each in standing(crews[id_]) if each.severity == "error"]:
                raise InvalidDefinition([each.diagnostic() for each in faults])
            if id_ == task.run:
                continue
            data = crews[id_].to_json()
            await self.store.put_definition(task.run, data)
            split_runs.append(
                PreparedSplitRun(
                    run=id_,
                    definition=data,
                    component=component,
                    contents=run_split.split_contents(crew, component),
                )
            )
        return crews[task.run], tuple(split_runs)

    # -- prompts -----------------------------------------------------------------------------

    async def _prepare_prompt(
        self, task: PrepareChange, base: CrewDefinition, effect: Effect
    ) -> PrepareChangeResult:
        registry = await self._registry(task, base)
        done = await compile_round(
            task.prompt, registry, task, self.models, effect, len(task.replies) + 1
        )
        call: dict[str, Any] = {"reply": done.reply, "usage": done.usage}
        if done.compiled is None:
            return PrepareChangeResult(again=True, **call)
        try:
            return await self._prepare_compiled(task, done.compiled, base, registry, **call)
        except (InvalidDefinition, ChangeConflict) as error:
            if done.reply is None:
                raise
            # A failure would lose the reply and its usage, so the faults are a result.
            faults = redacted_text(str(error))
            log.info(CHANGE_REJECTED, run=task.run, why=faults.partition("\n")[0])
            return PrepareChangeResult(refused=faults, **call)

    async def _registry(self, task: PrepareChange, base: CrewDefinition) -> Registry:
        """Returns the registry of the prompt; if it has none, one of the run's crew."""
        if task.registry:
            return await registry_of(self.store, task.registry, task.model)
        return registry_of_crew(base).with_model(task.model)

    async def _prepare_compiled(
        self,
        task: PrepareChange,
        compiled: CompiledPrompt,
        base: CrewDefinition,
        registry: Registry,
        **fields: Any,
    ) -> PrepareChangeResult:
        """Prepares the change to a compiled prompt, which keeps the names of the crew."""
        if compiled.definition is None or not compiled.ok:
            raise InvalidDefinition([each.diagnostic for each in compiled.remarks if each.error])
        new_basis = await asyncio.to_thread(keep_names, base, compiled.definition)
        crew = new_basis
        added: tuple[str, ...] = ()
        if task.basis:
            basis = CrewDefinition.from_json(await self.store.get_definition(task.basis))
            crew, added = with_live_changes(new_basis, basis, base), added_agents(basis, base)
        # Keys that no prompt can state keep their values, or a fault names them.
        crew = kept(base, crew, registry, own=not task.registry, permissions=task.permissions)
        data = crew.to_json()
        read_data(data, offered_form(registry, besides=added))
        remarks = tuple(map(prompt_diagnostic, compiled.remarks))
        after = _with_engine_values(load_data(data), base)
        if task.basis:
            fields["basis"] = new_basis.to_json()
            await self.store.put_definition(task.run, fields["basis"])
        return await self._prepare(after, base, task, of=task.base, diagnostics=remarks, **fields)


def _with_engine_values(crew: CrewDefinition, base: CrewDefinition) -> CrewDefinition:
    """Returns a crew with the values of the live crew that only the engine sets."""
    return as_counted(where_they_are(crew, base), base)


def _parse_operations(operations: Iterable[dict[str, Json]]) -> tuple[Operation, ...]:
    try:
        return _OPERATIONS.validate_python(tuple(operations))
    except ValidationError as error:  # the update passed the checks of another version
        faults = [
            Diagnostic(field_error_text(each), path=("operations", *each["loc"]))
            for each in error.errors(include_url=False)
        ]
        raise InvalidDefinition(faults) from error
