"""The reading of views: each view of a call is authorized again, and then hydrated.

The workflow makes a view of the logs that an agent may read. The worker checks it against the
definition: a view with another log, or with an item that the agent may not see, fails the call
before anything is read. The item of a child step is read from its list in the store, since a
history has each list only once.
"""

from __future__ import annotations

import json
from dataclasses import replace

from cachetools import LRUCache
from langchain_core.messages import BaseMessage

from crewlog.activities.artifacts import Artifacts, with_refused_operations
from crewlog.activities.batches import read_bodies
from crewlog.activities.definitions import AgentAccess, Definitions
from crewlog.activities.hydrator import Hydrator
from crewlog.activities.windows import TrimmedTranscript
from crewlog.authority.audiences import authorize_artifact, may_read, may_read_input
from crewlog.authority.permissions import Decision
from crewlog.definition.context import Window
from crewlog.errors import InternalError, LogAccessDenied
from crewlog.ids import ARTIFACT, ContentHash, LogName, is_artifact
from crewlog.model import Json
from crewlog.state.artifacts import Content
from crewlog.state.calls import CallInput, CallModel, View
from crewlog.state.journal import Batch
from crewlog.state.model import Item
from crewlog.store.protocol import Store

LISTS_KEPT = 16
"""The number of lists in the cache: the child steps of a list run close together."""


_REMEDY = "Let it read the log ('reads', 'groups' or 'logs'), and retry the step."


class ViewReader:
    """Reads the transcripts, artifacts and items that agents may see.

    Args:
        store: The store with the lists.
        definitions: The cache of definitions, which say who may read what.
        hydrator: The cache of transcripts.
        artifacts: The cache of artifacts.
    """

    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        hydrator: Hydrator,
        artifacts: Artifacts | None = None,
    ) -> None:
        self._definitions = definitions
        self._hydrator = hydrator
        self._store = store
        self._lists: LRUCache[ContentHash, Json] = LRUCache(LISTS_KEPT)
        self._artifacts = artifacts or Artifacts(store, hydrator)

    async def read_transcript(self, task: CallInput, *, complete: bool = True) -> list[BaseMessage]:
        """Returns the messages that the agent of a call may read.

        Args:
            task: The call.
            complete: Whether tool calls without a result get one.

        Raises:
            LogAccessDenied: the view has a log that the agent may not read.
            StoreUnavailable: the store does not answer.
            StoreIncomplete: the store lacks a row.
        """
        view, access = await self._authorize(task)
        messages = await self._hydrator.hydrate(
            task.run,
            task.agent,
            view,
            task.batch,
            step=task.step,
            complete=complete,
            unreadable_logs=access.unreadable_logs,
        )
        return with_refused_operations(messages, await self.read_artifacts(task))

    async def read_artifacts(self, task: CallInput) -> dict[str, Content]:
        """Returns the artifacts that the agent of a call may see, by name, as of its view.

        Raises:
            LogAccessDenied: the view has an artifact that the agent may not see.
            StoreUnavailable: the store does not answer.
            StoreIncomplete: the store lacks a row.
        """
        access = await self._definitions.find_access(task.definition, task.agent)
        view = task.view.without(lambda log: not is_artifact(log))
        for log in view.heads:
            name = log.removeprefix(ARTIFACT)
            allowed = (task.agent,) if name in access.artifacts else ()
            known = name in access.artifacts or log in access.unreadable_logs
            _check(task, authorize_artifact("see", task.agent, name, allowed, known=known), log)
        if not access.artifacts:
            return {}
        return await self._artifacts.read(
            task.run, view, task.batch, access.artifacts, unreadable_logs=access.unreadable_logs
        )

    async def read_window(
        self, task: CallInput, window: Window, *, script: bool
    ) -> TrimmedTranscript:
        """Returns the messages of `transcript` that a window shows.

        Args:
            task: The call.
            window: The window.
            script: Whether its model is a script, which counts all earlier messages.
        """
        view, access = await self._authorize(task)
        trimmed = await self._hydrator.hydrate_window(
            task, view, window, access.unreadable_logs, script=script
        )
        artifacts = await self.read_artifacts(task)
        return replace(trimmed, messages=with_refused_operations(trimmed.messages, artifacts))

    async def _authorize(self, task: CallInput) -> tuple[View, AgentAccess]:
        """Returns the message logs of a view, after the check that the agent may read them."""
        access = await self._definitions.find_access(task.definition, task.agent)
        view = task.view.without(is_artifact)
        for log in view.heads:
            _check(task, may_read(task.agent, log, reads=access.reads, step=task.step), log)
        return view, access

    async def read_item(self, task: CallModel) -> str | None:
        """Returns the item of a step as its agent may see it; None: the step has no item.

        Raises:
            LogAccessDenied: the agent may not see it.
            StoreUnavailable: the store does not answer.
            StoreIncomplete: the store lacks the list.
        """
        item = task.item
        if item is None:
            return None
        access = await self._definitions.find_access(task.definition, task.agent)
        decision = may_read_input(task.agent, item.logs, reads=access.reads, step=task.step)
        if item.is_withheld and decision.allowed:  # a change has removed the log from its agent
            decision = Decision(allowed=False, reason=f"{task.agent!r} may not see it any more")
        _check(task, decision, None)
        value = await self._item_value(item, task.batch)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return f"Your item ({item.number} of {item.of}): {text}"

    async def _item_value(self, item: Item, batch: Batch) -> Json:
        if item.body is not None:
            return await self._read_body(item.body, batch)
        if item.list_body is None:
            return item.value
        values = self._lists.get(item.list_body)
        if values is None:
            values = await self._read_body(item.list_body, batch)
            self._lists[item.list_body] = values
        if not isinstance(values, list) or not 0 < item.number <= len(values):  # pyright: ignore[reportUnknownArgumentType]
            raise InternalError(f"the list {item.list_body!r} has no item {item.number}")
        return values[item.number - 1]  # pyright: ignore[reportUnknownVariableType]

    async def _read_body(self, hash_: ContentHash, batch: Batch) -> Json:
        return (await read_bodies(self._store, batch, [hash_]))[hash_]


def _check(task: CallInput, decision: Decision, log: LogName | None) -> None:
    if decision.allowed:
        return
    what = f"the view of {task.step}" if log is not None else f"the item of {task.step}"
    raise LogAccessDenied(
        f"{what} is refused: {decision.reason}", remedy=_REMEDY, place=f"step {task.step}"
    )
