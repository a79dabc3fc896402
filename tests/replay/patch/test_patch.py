"""The worked example of a patch: code with both branches replays histories of both builds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from .workflows import (
    PATCH,
    NotifyDeprecated,
    NotifyEach,
    NotifyPatched,
    NotifyUnpatched,
)

HISTORIES = Path(__file__).parent / "histories"


def history_of(name: str) -> WorkflowHistory:
    data = json.loads((HISTORIES / f"{name}.json").read_text())
    return WorkflowHistory.from_json(data.pop("workflow_id"), data)


async def failure(build: type[Any], name: str) -> Exception | None:
    """Why a build cannot replay a history; none where it can."""
    replayer = Replayer(workflows=[build])
    result = await replayer.replay_workflow(history_of(name), raise_on_replay_failure=False)
    return result.replay_failure


@pytest.mark.parametrize("name", ["before", "after"])
async def test_patched_code_replays_both_sides(name: str) -> None:
    assert await failure(NotifyPatched, name) is None


async def test_unpatched_code_does_not_replay_the_build_before() -> None:
    assert "ondeterminism" in str(await failure(NotifyUnpatched, "before"))


async def test_the_build_before_does_not_replay_patched_executions() -> None:
    assert "ondeterminism" in str(await failure(NotifyEach, "after"))


async def test_a_deprecated_patch_replays_patched_executions_alone() -> None:
    assert await failure(NotifyDeprecated, "after") is None
    assert "ondeterminism" in str(await failure(NotifyDeprecated, "before"))


def test_only_the_patched_side_has_the_marker() -> None:
    sides = {name: (HISTORIES / f"{name}.json").read_text() for name in ("before", "after")}
    assert "core_patch" in sides["after"]
    assert "core_patch" not in sides["before"]
    marker = next(
        event
        for event in history_of("after").events
        if event.HasField("marker_recorded_event_attributes")
    )
    details = marker.marker_recorded_event_attributes.details
    assert any(PATCH.encode() in p.data for each in details.values() for p in each.payloads)
