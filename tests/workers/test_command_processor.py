"""The command processor without a server: preparation beside the loop, and what closing does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from crewlog.errors import CommandRejected
from crewlog.wire import COMMANDS
from crewlog.workflows import restore
from crewlog.workflows.commands.effects import EFFECTS
from crewlog.workflows.commands.processor import CommandProcessor
from crewlog.workflows.commands.queue import (
    Applied,
    Preparation,
    QueuedCommand,
    RefusedCommand,
    Returned,
)
from crewlog.workflows.context import ExecutionContext
from crewlog.workflows.run_merge import RunMerge
from graph.crews import plan_of
from graph.simulation import Simulation


def no_drain(_: float) -> None:
    """No command of these tests starts a drain."""


async def processor_of(plan: list[Any]) -> tuple[CommandProcessor, ExecutionContext, Simulation]:
    sim = await Simulation.begin(plan_of(plan))
    context = ExecutionContext(sim.engine)
    processor = CommandProcessor(
        context, [], RunMerge(sim.state), has_calls=lambda: False, start_drain=no_drain
    )
    return processor, context, sim


def rollback(id: str) -> QueuedCommand:
    data = {"id": id, "position": 1, "by": "ana"}
    return QueuedCommand("rollback", data, queued_at=2, arrived_at=2, is_update=True)


def test_every_command_has_an_effect() -> None:
    assert {*EFFECTS} == {*COMMANDS} - {"ask", "change"}


def test_other_commands_are_applied_during_a_preparation() -> None:
    async def run(patch: pytest.MonkeyPatch) -> None:
        processor, _, sim = await processor_of(["a"])
        loaded = asyncio.Event()

        async def prepare(_: object, command: object) -> Preparation:
            await loaded.wait()
            return RefusedCommand(CommandRejected("there is no such checkpoint"))

        patch.setattr(restore, "prepare", prepare)
        waiting = rollback("r1")
        pause = QueuedCommand(
            "pause", {"id": "p1", "by": "ana"}, queued_at=3, arrived_at=3, is_update=True
        )
        processor.queue += [waiting, pause]
        await processor.apply_all()
        assert (waiting.outcome, processor.has_work) == (None, False)
        assert isinstance(pause.outcome, Applied)
        loaded.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert processor.has_work
        await processor.apply_all()
        assert str(waiting.error).startswith("there is no such checkpoint")
        assert [e["command"] for e in sim.facts("CommandRejected")] == ["r1"]

    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(run(patch))


def test_a_failed_activity_of_a_preparation_rejects_the_command_alone() -> None:
    async def run(patch: pytest.MonkeyPatch) -> None:
        processor, _, sim = await processor_of(["a"])

        async def prepare(_: object, command: object) -> Preparation:
            raise ApplicationError("the worker is gone")

        patch.setattr(restore, "prepare", prepare)
        waiting = rollback("r1")
        processor.queue.append(waiting)
        await processor.apply_all()
        await asyncio.sleep(0)
        await processor.apply_all()
        assert isinstance(waiting.error, CommandRejected)
        assert "could not be prepared: the worker is gone" in waiting.error.message
        assert [e["command"] for e in sim.facts("CommandRejected")] == ["r1"]

    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(run(patch))


@pytest.mark.parametrize("swallows", [True, False])
def test_closing_returns_a_command_that_is_prepared_and_records_nothing(swallows: bool) -> None:
    """Also where its preparation takes the cancellation for a failure of its activity."""

    async def run(patch: pytest.MonkeyPatch) -> None:
        processor, context, sim = await processor_of(["a"])

        async def prepare(_: object, command: object) -> Preparation:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not swallows:
                    raise
            return RefusedCommand(CommandRejected("the checkpoint could not be loaded"))

        patch.setattr(restore, "prepare", prepare)
        waiting = rollback("r1")
        processor.queue.append(waiting)
        await processor.apply_all()
        await asyncio.sleep(0)
        context.is_closing = True
        assert processor.has_work
        await processor.apply_all()
        assert waiting.outcome == Returned()
        for _ in range(3):
            await asyncio.sleep(0)
        assert (processor.queue, processor.has_work) == ([], False)
        assert sim.facts("CommandRejected") == []

    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(run(patch))
