"""A workflow that speaks the wire contract and misbehaves on request.

The real one refuses an update only in the few milliseconds before it continues as new; this one
does it as often as its input says, so that the client's repetitions are tested without luck.
"""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from crewlog.wire import CLOSING, WORKFLOW_TYPE


@workflow.defn(name=WORKFLOW_TYPE)
class StubRun:
    """Input: `{"closing": N, "cut_off": bool, "entry": the journal's only one}`."""

    @workflow.init
    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self._refused = 0
        self._applied: dict[str, int] = data.get("applied", {})
        self._leave = False
        self._stop = False

    @workflow.run
    async def run(self, data: dict[str, Any]) -> dict[str, Any]:
        await workflow.wait_condition(lambda: self._leave or self._stop)
        if self._leave:
            workflow.continue_as_new({"applied": self._applied})
        return {"run": workflow.info().workflow_id, "status": "completed", "new_field": 1}

    @workflow.signal
    def stop(self, data: dict[str, Any]) -> None:
        self._stop = True

    @workflow.update(unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def answer(self, data: dict[str, Any]) -> dict[str, Any]:
        position = self._applied.setdefault(data["id"], len(self._applied) + 1)
        if self._data.get("cut_off"):
            self._leave = True
            await asyncio.sleep(60)  # the execution ends first
        return {"id": data["id"], "position": position, "new_field": 1}

    @workflow.update
    async def change(self, data: dict[str, Any]) -> dict[str, Any]:
        told = {"id": data["id"], "position": 1, "graph_version": 2, "swap": True}
        return {**told, "plan": {"nodes": {}}} if data.get("dry_run") else told

    @answer.validator
    def check(self, data: dict[str, Any]) -> None:
        if self._refused < self._data.get("closing", 0):
            self._refused += 1
            raise ApplicationError("send it again", type=CLOSING)

    @workflow.query
    def status(self) -> dict[str, Any]:
        return {
            "run": workflow.info().workflow_id,
            "crew": "stub",
            "status": "running",
            "graph_version": 1,
            "execution": 1,
            "position": 1,
            "started_at": 1,
            "steps": self._refused,
            "usage": {"calls": 1, "new_field": 1},
            "new_field": 1,
        }

    @workflow.query
    def journal(self, page: dict[str, Any]) -> dict[str, Any]:
        entry = self._data.get("entry", {"kind": "Unheard"})
        return {
            "entries": [{"position": 1, "kind": entry["kind"], "data": entry}],
            "position": 1,
            "new_field": 1,
        }
