"""One round of compiling a prompt: the grammar, or one call of a model.

At most one model call in an activity, and its answer is the activity's result: so a crash repeats
at most one, and the workflow goes round. The prompt comes with the batch the first time, and is in
the store from then on.
"""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from temporalio import activity

from crewlog.activities.errors import Effect
from crewlog.activities.model_errors import model_error
from crewlog.activities.models import ModelFactory
from crewlog.activities.prices import usage_of
from crewlog.activities.registries import registry_of
from crewlog.content import scrubbed_text
from crewlog.errors import ModelError, ModelRefused, StoreUnavailable
from crewlog.graph.drafting import COMPILER, STEP
from crewlog.ids import RunId
from crewlog.prompt.compiled import CompiledPrompt, Remark
from crewlog.prompt.llm import conversation, reply_schema
from crewlog.prompt.readers import with_model, without_model
from crewlog.prompt.registry import Registry
from crewlog.prompt.reply import LARGEST_REPLY
from crewlog.state.calls import CompilePrompt, CompilePromptResult
from crewlog.state.journal import Batch, PromptReceived, entry_from_json
from crewlog.state.model import PromptRemark, Usage
from crewlog.store.protocol import Store

TIMEOUT = 170.0
"""Seconds for one request; a little less than the activity's."""
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
            has_model = await self._has_model(registry, task)
            # In a thread: a long prompt takes the grammar a while, and heartbeats must go on.
            found = await asyncio.to_thread(
                without_model, text, registry, task.reader, has_model=has_model
            )
            if found is not None:
                return _result(found, journaled=journaled)
        model = str(registry.model)
        effect.started = True
        reply, usage, name = await self._ask(run, task, text, registry, model)
        asked = await asyncio.to_thread(with_model, text, reply, registry, before=len(task.replies))
        told: dict[str, Any] = {
            "reply": reply,
            "faults": asked.faults,
            "model": name,
            "usage": usage,
            "journaled": journaled,
        }
        if asked.compiled is None:
            return CompilePromptResult(reader="llm", again=True, **told)
        return _result(asked.compiled, **told)

    async def _has_model(self, registry: Registry, task: CompilePrompt) -> bool:
        """Whether there is a model to ask; one that cannot be made counts where it was asked for.

        A script is a model for prompts only if it has something for the compiler to say.
        """
        if registry.model is None or task.reader == "grammar":
            return False
        if task.reader == "llm":
            return True
        try:
            chat: Any = await self._models.ready(registry.model, {}, TIMEOUT)
        except ModelRefused:
            return False
        speaks: Any = getattr(chat, "speaks_for", None)
        return speaks is None or bool(speaks(COMPILER))

    async def _append(self, run: RunId, batch: Batch) -> bool:
        """Stores what led to the call; false where the store is away: the run sends it again."""
        try:
            if batch.entries:
                await self._store.append(run, batch)
        except StoreUnavailable:
            return False
        return True

    async def _ask(
        self, run: RunId, task: CompilePrompt, text: str, registry: Registry, model: str
    ) -> tuple[str, Usage, str]:
        chat: Any = await self._models.ready(model, {}, TIMEOUT)
        if model.startswith("openai:"):
            schema = {"name": "reading", "schema": reply_schema()}
            chat = chat.bind(response_format={"type": "json_schema", "json_schema": schema})
        said = [_message(s.role, s.text) for s in conversation(text, registry, task.replies)]
        config: RunnableConfig = {
            "metadata": {
                "agent": COMPILER,
                "run": run,
                "step": STEP,
                "call": len(task.replies) + 1,
                "attempt": (task.attempt - 1) * TRIES + activity.info().attempt,
                "asked": task.attempt,
            }
        }
        try:
            answer = await chat.ainvoke(said, config)
        except (asyncio.CancelledError, ModelError):
            raise
        except Exception as exc:
            raise model_error(exc, model) from exc
        reply = scrubbed_text(str(answer.text))
        if len(reply) > LARGEST_REPLY:
            reply = reply[: LARGEST_REPLY + 1]  # too long to be read, and to be kept
        usage = await usage_of(answer, model)
        name = str(answer.response_metadata.get("model_name") or model)
        return reply, usage, name


def _told(task: CompilePrompt, batch: Batch) -> str | None:
    """The prompt, where the batch brings it."""
    for data in batch.entries:
        if data["kind"] == PromptReceived.__name__:
            entry = entry_from_json(data)
            if isinstance(entry, PromptReceived) and entry.prompt == task.prompt:
                return entry.inline
    return None


def _message(role: str, text: str) -> BaseMessage:
    if role == "assistant":
        return AIMessage(text, name=COMPILER)
    return SystemMessage(text) if role == "system" else HumanMessage(text)


def _result(found: CompiledPrompt, **more: Any) -> CompilePromptResult:
    definition = found.definition.to_json() if found.ok and found.definition else None
    return CompilePromptResult(
        reader=found.reader,
        definition=definition,
        remarks=tuple(map(_remark, found.remarks)),
        requirements=found.requirements,
        **more,
    )


def _remark(remark: Remark) -> PromptRemark:
    told = remark.diagnostic
    return PromptRemark(
        code=remark.code,
        severity=remark.severity,
        message=told.message,
        remedy=told.remedy,
        line=told.line,
        column=told.column,
    )
