"""Commands that the server cannot take just now, and those whose run has ended meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from crewlog.client import gateway as module
from crewlog.client.gateway import Gateway
from crewlog.errors import CommandRejected, TemporalUnavailable, WorkerMissing
from crewlog.ids import RunId
from crewlog.model import Json

RUN = RunId("late")
COMMAND: dict[str, Json] = {"id": "r1"}
APPLIED = {"id": "r1", "position": 7, "detail": "it was so"}
PASSING = [RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.FAILED_PRECONDITION]


class Handle:
    """A run: each command, signal or query meets the next trouble, and then the answer."""

    def __init__(self, *troubles: RPCStatusCode, answer: Json = None, state: Json = None) -> None:
        self.troubles = list(troubles)
        self.answer = answer
        self.state = state
        self.asked = 0

    async def _meet(self, *_: Any, **__: Any) -> Json:
        self.asked += 1
        if self.troubles:
            raise RPCError("trouble", self.troubles.pop(0), b"")
        return self.answer

    execute_update = signal = _meet

    async def query(self, *_: Any, **__: Any) -> Json:
        return self.state if self.state is not None else await self._meet()

    async def describe(self, **_: Any) -> Any:
        status = WorkflowExecutionStatus.COMPLETED
        return SimpleNamespace(status=status, task_queue="q", workflow_type="CrewRun")

    async def result(self, **_: Any) -> Json:
        return {"run": RUN, "status": "stopped"}


def gateway(handle: Handle, monkeypatch: pytest.MonkeyPatch, *, polled: bool = True) -> Gateway:
    server = SimpleNamespace(data_converter=DataConverter.default)
    made = Gateway(cast("TemporalClient", server), "here")

    async def asked(*_: Any) -> bool:
        return polled

    async def no_answer(*_: Any) -> WorkerMissing:
        return WorkerMissing("nobody")

    monkeypatch.setattr(made, "handle", lambda run: handle)
    monkeypatch.setattr(made, "_polled", asked)
    monkeypatch.setattr(made, "_no_answer", no_answer)
    return made


@pytest.mark.parametrize("passing", PASSING)
@pytest.mark.parametrize("verb", ["update", "signal", "query"])
async def test_what_passes_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, verb: str, passing: RPCStatusCode
) -> None:
    handle = Handle(passing, passing, answer=APPLIED)
    sent = await getattr(gateway(handle, monkeypatch), verb)(RUN, "answer", COMMAND)
    assert sent == (None if verb == "signal" else APPLIED)
    assert handle.asked == 3


@pytest.mark.parametrize("verb", ["update", "signal", "query"])
async def test_what_does_not_pass_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    handle = Handle(RPCStatusCode.INTERNAL, answer=APPLIED)
    with pytest.raises(TemporalUnavailable, match="the Temporal server refused: trouble"):
        await getattr(gateway(handle, monkeypatch), verb)(RUN, "answer", COMMAND)
    assert handle.asked == 1


async def test_a_command_that_nobody_can_take_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = Handle(RPCStatusCode.FAILED_PRECONDITION, answer=APPLIED)
    with pytest.raises(WorkerMissing):
        await gateway(handle, monkeypatch, polled=False).update(RUN, "answer", COMMAND)
    assert handle.asked == 1


@pytest.mark.parametrize("polled", [True, False])
async def test_a_run_that_is_over_is_asked_again_where_a_worker_polls(
    monkeypatch: pytest.MonkeyPatch, polled: bool
) -> None:
    """It is replayed before it answers, which takes as long as its history."""
    monkeypatch.setattr(module, "ANSWER_LIMIT", 0.05)
    handle = Handle(answer="told")

    async def slow(self: Handle, *_: Any, **__: Any) -> Json:
        self.asked += 1
        if self.asked < 3:
            await asyncio.sleep(60)  # it is not done before the client gives up
        return self.answer

    monkeypatch.setattr(Handle, "query", slow)
    query = gateway(handle, monkeypatch, polled=polled).query(RUN, "status")
    if polled:
        assert (await query, handle.asked) == ("told", 3)
    else:
        with pytest.raises(WorkerMissing):
            await query


async def test_a_repetition_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMAND_LIMIT", 0.05)
    handle = Handle(*[RPCStatusCode.RESOURCE_EXHAUSTED] * 1000)
    with pytest.raises(TemporalUnavailable):
        await gateway(handle, monkeypatch).update(RUN, "answer", COMMAND)
    assert 1 < handle.asked < 50


def ended(**outcomes: Json) -> Handle:
    return Handle(RPCStatusCode.NOT_FOUND, state={"commands": outcomes})


async def test_a_command_that_was_applied_before_the_run_ended_has_its_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = ended(r1={"position": 7, "detail": "it was so"}, r2={"position": 8})
    assert await gateway(handle, monkeypatch).update(RUN, "answer", COMMAND) == APPLIED


async def test_a_command_that_was_refused_before_the_run_ended_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = ended(r1={"ok": False, "detail": "it is not open"})
    with pytest.raises(CommandRejected, match="it is not open"):
        await gateway(handle, monkeypatch).update(RUN, "answer", COMMAND)


async def test_a_command_that_came_after_the_end_has_no_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = ended(r2={"position": 8})
    with pytest.raises(CommandRejected, match=r"has ended \(stopped\): 'answer' has no effect"):
        await gateway(handle, monkeypatch).update(RUN, "answer", COMMAND)
