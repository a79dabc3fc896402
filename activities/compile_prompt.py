"""One round of compiling a prompt: the forms, or one call of a model.

At most one model call in an activity, and its answer is the activity's result: so a crash repeats
at most one, and the workflow goes round. The prompt comes with the batch the first time, and is in
the store from then on.
"""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import activity

from crewlog.activities.errors import Effect
from crewlog.activities.models import ModelFactory
from crewlog.activities.prices import usage_of
from crewlog.activities.reading import ask, compile_without_model
from crewlog.activities.registries import registry_of
from crewlog.activities.writing import append
from crewlog.errors import StoreUnavailable
from crewlog.ids import RunId
from crewlog.model import Json
from crewlog.prompt.compiled import CompiledPrompt, Remark
from crewlog.prompt.model_reader import take_reply
from crewlog.prompt.registry import Registry
from crewlog.state.calls import CompilePrompt, CompilePromptResult
from crewlog.state.journal import Batch, PromptReceived, entry_from_json
from crewlog.state.model import PromptDiagnostic, PromptReply, Usage
from crewlog.store.protocol import Store

TRIES = 5
"""The tries of one asking, as `workflows.activity_options.COMPILING` has them."""


class PromptCompiler:
    """Compiles prompts on a worker.

    Args:
        store: Where registries are, and prompts after the first round.
        models: The worker's chat models.
    """

    def __init__(self, store: Store, models: ModelFactory) -> None:
        self._store = store
        self._models = models

    async def run(
        self, run: RunId, task: CompilePrompt, batch: Batch, effect: Effect
    ) -> CompilePromptResult:
        """Makes one round.

        Args:
            run: The run.
            task: What to compile.
            batch: The task's batch, whole.
            effect: Told when a model is asked.
        """
        journaled = await self._append(run, batch)
        text = _told(task, batch)
        if text is None:
            text = str((await self._store.get_bodies([task.prompt]))[task.prompt])
        registry = await registry_of(self._store, task.registry, task.model)
        if not task.replies:
            found = await compile_without_model(text, registry, task.reader, self._models)
            if found is not None:
                return _result(found, journaled=journaled)
        effect.started = True
        reply, usage, name = await self._ask(run, task, text, registry)
        replies = [*task.replies, reply]
        asked = await asyncio.to_thread(take_reply, text, replies, registry)
        told: dict[str, Any] = {
            "reply": reply,
            "faults": asked.faults,
            "model": name,
            "usage": usage,
            "journaled": journaled,
        }
        if asked.compiled is None:
            return CompilePromptResult(reader="model", again=True, **told)
        return _result(asked.compiled, **told)

    async def _append(self, run: RunId, batch: Batch) -> bool:
        """Stores what led to the call; false where the store is away: the run sends it again."""
        try:
            if batch.entries:
                await append(self._store, run, batch)
        except StoreUnavailable:
            return False
        return True

    async def _ask(
        self, run: RunId, task: CompilePrompt, text: str, registry: Registry
    ) -> tuple[PromptReply, Usage, str]:
        metadata: dict[str, Json] = {
            "run": run,
            "attempt": (task.attempt - 1) * TRIES + activity.info().attempt,
            "asked": task.attempt,
        }
        reply, answer = await ask(text, registry, task.replies, self._models, metadata)
        model = str(registry.model)
        usage = await usage_of(answer, model)
        return reply, usage, str(answer.response_metadata.get("model_name") or model)


def _told(task: CompilePrompt, batch: Batch) -> str | None:
    """The prompt, where the batch brings it."""
    for data in batch.entries:
        if data["kind"] == PromptReceived.__name__:
            entry = entry_from_json(data)
            if isinstance(entry, PromptReceived) and entry.prompt == task.prompt:
                return entry.inline
    return None


def _result(found: CompiledPrompt, **more: Any) -> CompilePromptResult:
    definition = found.definition.to_json() if found.ok and found.definition else None
    return CompilePromptResult(
        reader=found.reader,
        definition=definition,
        remarks=tuple(map(prompt_diagnostic, found.remarks)),
        requirements=found.requirements,
        **more,
    )


def prompt_diagnostic(remark: Remark) -> PromptDiagnostic:
    """A remark as a run keeps it."""
    told = remark.diagnostic
    return PromptDiagnostic(
        code=remark.code,
        severity=remark.severity,
        message=told.message,
        remedy=told.remedy,
        line=told.line,
        column=told.column,
    )
