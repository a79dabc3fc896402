"""Prepares a change of a live run: makes, checks and stores its definition and its plan.

The activity changes nothing: the run takes or refuses the result. A prompt is read as at the start
of a run, with at most one model call in an activity. A step that the prompt describes in other
words keeps the name that it has in the crew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import TypeAdapter, ValidationError
from temporalio import activity

from crewlog.activities.batches import current_execution_id
from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.definitions import Definitions, registry_of
from crewlog.activities.failures import CHANGE_REJECTED, Effect
from crewlog.activities.lifecycle import load_crew_data, lower_crew, lowered
from crewlog.activities.prompt_compiler import TRIES, ask, compile_without_model, prompt_diagnostic
from crewlog.activities.run_merge import Ended, ended_executions, find_no_end
from crewlog.activities.usage import usage_of
from crewlog.authority.widening import widening
from crewlog.definition.apply import apply_operations
from crewlog.definition.counting import as_counted
from crewlog.definition.creature_checks import new_warnings
from crewlog.definition.creatures import elsewhere, where_they_are
from crewlog.definition.difference import NOTHING, summary
from crewlog.definition.findings import Finding, for_run
from crewlog.definition.load import load_data, load_stored, read_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import Operation
from crewlog.definition.validate import standing
from crewlog.errors import ChangeConflict, Diagnostic, InvalidDefinition, UsageError
from crewlog.graph import run_split
from crewlog.graph.lowering.components import expanded_component
from crewlog.ids import ContentHash
from crewlog.model import Json
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.keeping import kept
from crewlog.prompt.live_changes import added_agents, with_live_changes
from crewlog.prompt.model_reader import take_reply
from crewlog.prompt.offered import offered_form
from crewlog.prompt.registry import Registry, registry_of_crew
from crewlog.prompt.renaming import keep_names
from crewlog.redaction import redacted_text
from crewlog.state.calls import PrepareChange, PrepareChangeResult, PreparedSplitRun
from crewlog.state.claim import ClaimOwner
from crewlog.state.components import parts_of
from crewlog.store.protocol import Store
from crewlog.store.remote_agents import RemoteAgents, find_remote_agents
from crewlog.validation_errors import fault_of

log: structlog.stdlib.BoundLogger = structlog.get_logger("crewlog.worker")
_OPERATIONS: TypeAdapter[tuple[Operation, ...]] = TypeAdapter(tuple[Operation, ...])


@dataclass(frozen=True)
class ChangePreparer:
    """Prepares changes on a worker."""

    store: Store
    definitions: Definitions
    models: ModelFactory
    ended: Ended = find_no_end

    async def run(self, task: PrepareChange, effect: Effect) -> PrepareChangeResult:
        """Prepares a change.

        Args:
            task: The change.
            effect: Records that a model call has begun.

        Raises:
            InvalidDefinition: with all faults of the new definition. Of a prompt that a model read,
                the result has the faults instead.
        """
        base = CrewDefinition.from_json(await self.store.get_definition(task.base))
        if task.prompt:
            return await self._of_prompt(task, base, effect)
        if task.operations:
            made = _said_of(apply_operations(base, _read(task.operations)), base)
            return await self._made(made, base, task, of=task.base)
        if task.recipe:
            return await self._recipe(task, base)
        if task.definition is None:
            raise UsageError("the change names neither a prompt, nor a definition, nor operations")
        data = await load_crew_data(task.definition, self.store)
        made = _said_of(load_data(data), base)
        return await self._made(made, base, task, compared=task.base)

    async def _recipe(self, task: PrepareChange, base: CrewDefinition) -> PrepareChangeResult:
        """Goes back to the recipe; creatures that left for a live run stay there."""
        force = await self._in_force(task, base)
        crew = base
        if task.definition is not None:
            data = await load_crew_data(task.definition, self.store)
            definition, _ = await lowered(data, self.store, self.definitions)
            crew = CrewDefinition.from_json(definition)
            _said_of(crew, force)
        away = {name: home for name, home in force.away.items() if name in crew.agents}
        found = await self._homes(task, away)
        homes = found.runs
        made = load_stored(elsewhere(crew, homes).to_json())
        back = await self._made(made, force, task, compared=task.against, claimed=found.claimable)
        what = "goes back to the definition that it was started with"
        if back.what != NOTHING:
            what += f": {back.what}"
        if task.definition is not None:
            what = f"goes on with its recipe as that is written now: {back.what}"
        for name in sorted({*homes} & {*crew.agents}):
            what += f"; {name} stays in {homes[name]}"
        return back.model_copy(update={"what": what})

    async def _homes(self, task: PrepareChange, away: Mapping[str, str]) -> RemoteAgents:
        """Finds the creatures that left the run, and claims those that come home."""
        if not task.against:
            return RemoteAgents({}, {})
        taker = None
        if task.after is not None:
            taker = ClaimOwner(task.run, task.after, current_execution_id())
        found = await find_remote_agents(
            self.store, task.run, away, ended_executions(self.ended), taker
        )
        return found if taker is not None else found._replace(claimable={})

    async def _in_force(self, task: PrepareChange, base: CrewDefinition) -> CrewDefinition:
        if not task.against:
            return base
        return CrewDefinition.from_json(await self.store.get_definition(task.against))

    async def _made(
        self,
        after: CrewDefinition,
        base: CrewDefinition,
        task: PrepareChange,
        *,
        of: str = "",
        compared: str = "",
        **more: Any,
    ) -> PrepareChangeResult:
        """Makes the change to a crew that was checked."""
        kept, parts = await self._parted(after, task)
        definition, plan = await lower_crew(kept, self.store, self.definitions)
        gone = [CrewDefinition.from_json(part.definition) for part in parts]
        signed = base.policy is not None and base.policy.signed
        return PrepareChangeResult(
            definition=definition,
            plan=plan,
            base=ContentHash(of),
            what=summary(base, after),
            widens=widening(base, after) if signed else None,
            compared=ContentHash(compared or of),
            split_runs=parts,
            warnings=tuple(
                for_run(_told(each), task.run)
                for each in new_warnings(base, kept, _read(task.operations), gone)
            ),
            **more,
        )

    async def _parted(
        self, crew: CrewDefinition, task: PrepareChange
    ) -> tuple[CrewDefinition, tuple[PreparedSplitRun, ...]]:
        """Splits a crew into the part of the run and other parts; checks and stores those."""
        if not task.command or not crew.lives:
            return crew, ()
        graphs = parts_of(task.run, expanded_component(crew), task.command)
        if len(graphs) == 1:
            return crew, ()
        crews = run_split.definitions(crew, graphs, task.run)
        shares = {
            id_: run_split.split_run_of(crew, each)
            for id_, each in graphs.items()
            if id_ != task.run
        }
        parts: list[PreparedSplitRun] = []
        for id_, graph in graphs.items():
            if faults := [each for each in standing(crews[id_]) if each.severity == "error"]:
                raise InvalidDefinition([each.diagnostic() for each in faults])
            if id_ == task.run:
                continue
            made, share = crews[id_].to_json(), shares[id_]
            await self.store.put_definition(made)
            parts.append(PreparedSplitRun(run=id_, definition=made, topology=graph, contents=share))
        return crews[task.run], tuple(parts)

    # -- prompts -----------------------------------------------------------------------------

    async def _of_prompt(
        self, task: PrepareChange, base: CrewDefinition, effect: Effect
    ) -> PrepareChangeResult:
        registry = await self._registry(task, base)
        if not task.replies:
            found = await compile_without_model(task.prompt, registry, task.reader, self.models)
            if found is not None:
                return await self._compiled(task, found, base, registry)
        effect.started = True
        told = await self._ask(task, registry)
        replies = [*task.replies, told["reply"]]
        asked = await asyncio.to_thread(take_reply, task.prompt, replies, registry)
        if asked.compiled is None:
            return PrepareChangeResult(again=True, **told)
        try:
            return await self._compiled(task, asked.compiled, base, registry, **told)
        except (InvalidDefinition, ChangeConflict) as error:
            # A failure would lose the reply and its usage: the faults are a result.
            faults = redacted_text(str(error))
            log.info(CHANGE_REJECTED, run=task.run, why=faults.partition("\n")[0])
            return PrepareChangeResult(refused=faults, **told)

    async def _registry(self, task: PrepareChange, base: CrewDefinition) -> Registry:
        """The registry of the prompt; without one, a registry of what the run's crew has."""
        if task.registry:
            return await registry_of(self.store, task.registry, task.model)
        return registry_of_crew(base).with_model(task.model)

    async def _ask(self, task: PrepareChange, registry: Registry) -> dict[str, Any]:
        asked = len(task.replies) + 1
        metadata: dict[str, Json] = {
            "run": task.run,
            "attempt": (asked - 1) * TRIES + activity.info().attempt,
            "asked": asked,
        }
        reply, answer = await ask(task.prompt, registry, task.replies, self.models, metadata)
        return {"reply": reply, "usage": await usage_of(answer, str(registry.model))}

    async def _compiled(
        self,
        task: PrepareChange,
        found: CompiledPrompt,
        base: CrewDefinition,
        registry: Registry,
        **told: Any,
    ) -> PrepareChangeResult:
        """Makes the change of a compiled prompt, which keeps the names of the crew."""
        if found.definition is None or not found.ok:
            raise InvalidDefinition([each.diagnostic for each in found.remarks if each.error])
        said = await asyncio.to_thread(keep_names, base, found.definition)
        named = said
        added: tuple[str, ...] = ()
        if task.basis:
            basis = CrewDefinition.from_json(await self.store.get_definition(task.basis))
            named, added = with_live_changes(said, basis, base), added_agents(basis, base)
        # Keys that no prompt can state keep the values that people wrote, or a fault names them.
        named = kept(base, named, registry, own=not task.registry, permissions=task.permissions)
        data = named.to_json()
        read_data(data, offered_form(registry, besides=added))
        remarks = tuple(map(prompt_diagnostic, found.remarks))
        made = _said_of(load_data(data), base)
        if task.basis:
            told["basis"] = said.to_json()
            await self.store.put_definition(told["basis"])
        return await self._made(made, base, task, of=task.base, diagnostics=remarks, **told)


def _said_of(crew: CrewDefinition, base: CrewDefinition) -> CrewDefinition:
    """A crew that people changed, with the values that only the engine sets."""
    return as_counted(where_they_are(crew, base), base)


def _told(warning: Finding) -> str:
    return f"{warning.message}\n    {warning.remedy}"


def _read(operations: Iterable[dict[str, Json]]) -> tuple[Operation, ...]:
    try:
        return _OPERATIONS.validate_python(tuple(operations))
    except ValidationError as error:  # another version sent the update, which was checked
        faults = [
            Diagnostic(fault_of(each), path=("operations", *each["loc"]))
            for each in error.errors(include_url=False)
        ]
        raise InvalidDefinition(faults) from error
