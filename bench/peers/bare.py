"""The floor: a workflow that does nothing but schedule one activity after the other.

No store, no transcript, no routing. An activity's input is a few ids, as the engine's is; its
result is the message of 400 bytes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    from bench.peers.model import TEXT

TYPE = "BareRun"


@dataclass
class Order:
    """What a run does: steps in sequence, then some side by side, then perhaps it waits."""

    steps: int = 0
    beside: int = 0
    waits: bool = False
    continues: int = 0
    """How often it continues as new, when it is told to."""


@dataclass
class Say:
    """One step's input."""

    run: str
    step: str
    call: int
    agent: str
    definition: str
    head: str


@activity.defn(name="say")
async def say(task: Say) -> dict[str, Any]:
    """The message of a step."""
    return {"type": "ai", "content": TEXT, "name": task.agent}


@workflow.defn(name=TYPE)
class BareRun:
    """Runs an order."""

    def __init__(self) -> None:
        self._over = False
        self._left = 0
        self._ready = False
        self._again = False
        self._part = ""

    @workflow.run
    async def run(self, order: Order) -> int:
        """Does what is ordered."""
        for number in range(order.steps):
            await self._say(number)
        if order.beside:
            await asyncio.gather(*(self._say(number) for number in range(order.beside)))
            await self._say(order.beside)
        self._left, self._ready = order.continues, True
        if order.continues:
            await workflow.wait_condition(lambda: self._again)
            await workflow.wait_condition(workflow.all_handlers_finished)
            if self._part:
                await workflow.start_child_workflow(
                    TYPE,
                    Order(waits=True),
                    id=self._part,
                    parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                )
            workflow.continue_as_new(Order(continues=order.continues - 1, waits=True))
        if order.waits:
            await workflow.wait_condition(lambda: self._over)
        return order.steps

    @workflow.signal
    def over(self) -> None:
        """Ends the wait."""
        self._over = True

    @workflow.update
    async def again(self) -> int:
        """Makes it continue as new, where it has to; how often it has to before that."""
        await workflow.wait_condition(lambda: self._ready)
        self._again = True
        return self._left

    @workflow.update
    async def part(self, child: str) -> int:
        """Makes it start a workflow of its own and continue as new; how often it had to."""
        self._part = child
        await workflow.wait_condition(lambda: self._ready)
        self._again = True
        return self._left

    @workflow.query
    def left(self) -> int:
        """How often it has to continue as new."""
        return self._left

    async def _say(self, number: int) -> dict[str, Any]:
        task = Say(
            run=workflow.info().workflow_id,
            step=f"agent{number % 10}#{number // 10 + 1}",
            call=1,
            agent=f"agent{number % 10}",
            definition="0" * 64,
            head="0" * 64,
        )
        return await workflow.execute_activity(
            say, task, start_to_close_timeout=timedelta(seconds=60)
        )
