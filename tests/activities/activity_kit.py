"""A crew and a journal as the workflow would write it, for the tests of the activities."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from crewlog.canonical_json import hash_json
from crewlog.definition.model import CrewDefinition
from crewlog.ids import AgentName, ContentHash, LogName, RunId, StepId
from crewlog.model import Json
from crewlog.state.calls import CallModelResult, CallToolResult, View
from crewlog.state.journal import (
    Batch,
    JournalEntry,
    MessageAdded,
    MessageRef,
    ModelCallCompleted,
    ToolCallCompleted,
    entry_to_json,
)
from crewlog.state.logs import batch_links
from crewlog.store import InMemoryStore
from crewlog.store.codec import load_json
from crewlog.testing.scripted import scripted

RUN = RunId("music-1")


async def assert_referenced(store: InMemoryStore, run: RunId) -> None:
    """Asserts that a run refers to each stored definition, and no other run does."""
    stored, other = dict(store._definitions), RunId("other")
    for text in stored.values():
        await store.put_definition(other, load_json(text))
    await store.delete([other], 1, grace=0)
    assert store._definitions == stored
    await store.delete([run], 1, grace=0)
    assert store._definitions == {}


class Log:
    """Writes a run's journal as the workflow would, batch by batch."""

    def __init__(self, run: RunId = RUN) -> None:
        self.run = run
        self.position = 0
        self.heads: dict[LogName, ContentHash] = {}
        self.pending: list[dict[str, Json]] = []
        self._before: dict[LogName, ContentHash] = {}

    def add(self, entry: JournalEntry) -> None:
        self.pending.append(entry_to_json(entry))

    def says(self, text: str, *logs: str, name: str | None = None) -> ContentHash:
        body = {"type": "human", "content": text} | ({"name": name} if name else {})
        hash_ = hash_json(body)
        names = tuple(LogName(log) for log in logs or ("public",))
        self.add(MessageAdded(ref=MessageRef(body=hash_, logs=names, inline=body)))
        return hash_

    def adds(self, body: dict[str, Json], *logs: str) -> None:
        """Adds a message of people, as the workflow makes it."""
        names = tuple(LogName(log) for log in logs or ("public",))
        self.add(MessageAdded(ref=MessageRef(body=hash_json(body), logs=names, inline=body)))

    def replied(self, result: CallModelResult, agent: str, *logs: str, call: int = 1) -> None:
        names = tuple(LogName(log) for log in logs or ("public",))
        self.add(
            ModelCallCompleted(
                step=StepId(f"{agent}#1"),
                call=call,
                agent=AgentName(agent),
                ref=MessageRef(
                    body=result.hash, logs=names, inline=None if result.stored else result.body
                ),
            )
        )

    def returned(self, result: CallToolResult, agent: str, call: int = 2) -> None:
        self.add(
            ToolCallCompleted(
                step=StepId(f"{agent}#1"),
                call=call,
                agent=AgentName(agent),
                tool=result.body["name"],
                ref=MessageRef(body=result.hash, logs=(LogName(f"private:{agent}"),)),
            )
        )

    def batch(self) -> Batch:
        """What was added since the last batch."""
        batch = Batch(first=self.position + 1, heads=dict(self.heads), entries=tuple(self.pending))
        for link in batch_links(self.run, batch):
            self.heads[link.log] = link.head
        self.position += len(self.pending)
        self.pending = []
        return batch

    def view(self, *logs: str) -> View:
        wanted = [LogName(log) for log in logs or ("public",)]
        return View(heads={log: self.heads[log] for log in wanted if log in self.heads})


def with_info(env: ActivityEnvironment, **changes: Any) -> ActivityEnvironment:
    env.info = dataclasses.replace(env.info, **changes)
    return env


def at_once(env: ActivityEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls come to the worker as soon as they are scheduled, however slow the machine is."""
    now = datetime.now(UTC)
    with_info(env, scheduled_time=now, started_time=now)
    monkeypatch.setattr("crewlog.activities.permissions.FRESH", 60)


HEARTBEAT = timedelta(seconds=0.15)


def crew(script: Mapping[str, Any] | str | None = None, **more: Any) -> CrewDefinition:
    """A crew of `backend` and `writer` with every tool of `crew_tools`."""
    model = script if isinstance(script, str) else scripted(script or {"agents": {"*": []}})
    tools: dict[str, Any] = {
        name: {"run": f"crew_tools:{name}", "effects": "write"}
        for name in [
            "write_file",
            "add",
            "boom",
            "gives",
            "hand_off",
            "listed",
            "with_message",
            "count_messages",
            "decorated",
            "classy",
            "slow_thread",
            "slow_async",
            "undocumented",
        ]
    }
    tools |= more.pop("tools", {})
    backend: dict[str, Any] = {
        "prompt": "Build it.",
        "writes_flags": ["ready"],
        "outputs": ["spec"],
        **more.pop("backend", {}),
    }
    return CrewDefinition.from_json(
        {
            "crew": "music",
            "model": model,
            "agents": {"backend": backend, "writer": {"prompt": "Write."}},
            "tools": tools,
            **more,
        }
    )
