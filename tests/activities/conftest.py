"""The activities over a store in memory, without a server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

sys.path.insert(0, str(Path(__file__).parent))  # where the crew's tools are

from activity_kit import RUN, Log, crew

from crewlog.activities.crew_activities import CrewActivities
from crewlog.canonical_json import hash_json
from crewlog.definition.model import CrewDefinition
from crewlog.ids import AgentName, StepId, ToolName
from crewlog.model import Json
from crewlog.payload_storage.file_store import FileStore
from crewlog.state.calls import CallModel, CallModelResult, CallTool, CallToolResult, View
from crewlog.store.in_process import InMemoryStore


@pytest.fixture
def store() -> InMemoryStore:
    return InMemoryStore()


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def env() -> ActivityEnvironment:
    return ActivityEnvironment()


@pytest.fixture
def activities(store: InMemoryStore, tmp_path: Path) -> CrewActivities:
    return CrewActivities(
        store, workspace=tmp_path / "workspace", files=FileStore(tmp_path / "payloads")
    )


@pytest.fixture
def model_call(
    env: ActivityEnvironment, activities: CrewActivities, store: InMemoryStore
) -> Callable[..., Any]:
    """Calls `backend`'s model."""

    async def call(definition: CrewDefinition, log: Log, **fields: Any) -> CallModelResult:
        hash_ = await store.put_definition(RUN, definition.to_json())
        batch = log.batch()
        given: dict[str, Any] = {
            "run": log.run,
            "step": StepId("backend#1"),
            "call": 1,
            "agent": AgentName("backend"),
            "definition": hash_,
            "view": log.view("public", "private:backend"),
            "batch": batch,
            **fields,
        }
        return await env.run(activities.call_model, CallModel(**given))

    return call


@pytest.fixture
def tool_call(
    env: ActivityEnvironment, activities: CrewActivities, store: InMemoryStore
) -> Callable[..., Any]:
    """Calls a tool as `backend`, with the reply that asks for it."""

    async def call(
        tool: str, args: Mapping[str, Json] | None = None, body: Any = None, **fields: Any
    ) -> CallToolResult:
        definition = fields.pop("crew", None) or crew()
        hash_ = await store.put_definition(RUN, definition.to_json())
        body = body or {
            "type": "ai",
            "content": "",
            "name": "backend",
            "tool_calls": [
                {"name": tool, "args": dict(args or {}), "id": "c1", "type": "tool_call"}
            ],
        }
        await store.put_bodies(RUN, {hash_json(body): body})
        given: dict[str, Any] = {
            "run": RUN,
            "step": StepId("backend#1"),
            "call": 2,
            "agent": AgentName("backend"),
            "definition": hash_,
            "tool": ToolName(fields.pop("to_run", tool)),
            "id": "c1",
            "message": hash_json(body),
            "view": View(),
            **fields,
        }
        return await env.run(activities.call_tool, CallTool(**given))

    return call
