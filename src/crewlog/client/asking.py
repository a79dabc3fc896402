"""Asking a crew: the run is started if need be, and its result comes in the same round trip.

By update-with-start: the server starts the run, or finds the open one of that id, and delivers the
update `ask` with the run's first task; the update is answered when the run ends. Where the run
continues as new meanwhile, it is asked again by the same id: what was said is not said twice. Where
it ended in between, or too many ask, its result is waited for as anybody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from crewlog import wire
from crewlog.client.gateway import PASSING, SEAM, Gateway, pauses, refusal, update_id
from crewlog.encryption import purposes
from crewlog.encryption.codec import encrypt_for, set_purpose
from crewlog.errors import AnswerRequired, CrewlogError, WaitTimeout
from crewlog.ids import InterruptId, RunId
from crewlog.model import Json
from crewlog.state.excerpt import excerpt
from crewlog.temporal_service.sdk_workarounds import own_cancellation
from crewlog.wire import AskRun, InterruptView, RunResult

POLL = timedelta(seconds=60)
"""For how long one call waits; the server itself answers after twenty seconds at most."""
LOOK = 1.0
"""Seconds between two looks at what a run asks people."""
_OF_THE_RUN = ("CommandRejected", "NotPermitted", "UsageError", "InvalidCommand")
"""Errors of what was said; every other one is how the run ended."""

Tell = Callable[[RunId, Sequence[InterruptView]], None]
"""Told which run asks people what."""

Signed = Callable[[str, str, dict[str, Json]], dict[str, Json]]
"""Signs a command for a run under a name, where there is a key."""

Start = WithStartWorkflowOperation[Any, Any]


class Asked(Protocol):
    """A run that asks people: `Run`, as far as this module reads it."""

    id: RunId

    async def interrupts(self) -> Sequence[InterruptView]:
        """The open interrupts."""
        ...


class Ended(Exception):
    """The run's result must be looked at: it has ended already, or enough others ask."""


def busy(ended: Ended) -> bool:
    """Whether enough others ask, and what was to be said was not said."""
    cause = ended.__cause__
    return isinstance(cause, WorkflowUpdateFailedError) and _kind(cause) == wire.BUSY


def _kind(error: WorkflowUpdateFailedError) -> str:
    return error.cause.type or "" if isinstance(error.cause, ApplicationError) else ""


async def ask(
    temporal: Client,
    gateway: Gateway,
    run: RunId,
    command: AskRun,
    start: Callable[[], Start],
    signed: Signed,
) -> RunResult:
    """Starts a run or joins it, and waits for its result.

    Args:
        temporal: The server.
        gateway: Makes errors of what it says.
        run: The run's id.
        command: What is asked.
        start: Makes the start; each try needs its own.
        signed: Signs a command, by its run and name.

    Raises:
        WorkflowAlreadyStartedError: a run of this id had ended before it was asked.
        Ended: wait for the run's result.
        CommandRejected: what was said cannot be said.
        TemporalUnavailable: the server is away.
    """
    asked = False
    # It is signed anew each time, since signatures expire, and stays the same update.
    update = update_id(signed(run, "ask", command.to_json()))
    for pause in pauses(0.005, 0.25):
        try:
            answer = await _once(temporal, update, signed(run, "ask", command.to_json()), start())
        except WorkflowAlreadyStartedError:
            if asked:
                raise Ended from None
            raise
        except WorkflowUpdateFailedError as error:
            kind = _kind(error)
            if kind in _OF_THE_RUN:
                raise refusal(error, run, "ask") from error
            if kind not in SEAM:
                raise Ended from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and asked:
                raise Ended from error
            if error.status not in PASSING:
                raise await gateway.failed(error, run) from error
        else:
            if answer is not None:
                return RunResult.model_validate(answer, extra="ignore")
        asked = True
        await asyncio.sleep(pause)
    raise AssertionError


async def _once(temporal: Client, id: str, command: dict[str, Json], start: Start) -> Any:
    """One round trip: the answer, or none where it did not come in time."""
    try:
        converter = temporal.data_converter
        [asked] = converter.payload_converter.to_payloads([command])
        if converter.payload_codec is not None:
            set_purpose(asked, purposes.update("ask", id))
        with own_cancellation(), encrypt_for(purposes.START):
            return await temporal.execute_update_with_start_workflow(
                "ask",
                RawValue(asked),
                start_workflow_operation=start,
                id=id,
                rpc_timeout=POLL,
            )
    except WorkflowUpdateRPCTimeoutOrCancelledError:
        return None


async def tell_questions(run: Asked, tell: Tell) -> None:
    """Tells of the questions that a run asks people, for as long as it is not cancelled."""
    told: set[InterruptId] = set()
    while True:
        await asyncio.sleep(LOOK)
        with suppress(CrewlogError):  # it has no worker yet, or the server is away
            asked = [each for each in await run.interrupts() if each.id not in told]
            told |= {each.id for each in asked}
            if asked:
                tell(run.id, asked)


async def late(run: Asked, limit: float) -> WaitTimeout:
    """The error for a run that did not end in time: what it waits for, where people know that."""
    asked: Sequence[InterruptView] = ()
    with suppress(CrewlogError):
        asked = await run.interrupts()
    said = f"the run {run.id!r} did not end within {limit:g} s"
    if not asked:
        return WaitTimeout(
            f"{said}; it goes on",
            remedy=f"Follow it: `crewlog watch {run.id}`, or wait longer.",
            place=f"run {run.id!r}",
        )
    first = asked[0]
    others = f", and for {len(asked) - 1} more answers" if len(asked) > 1 else ""
    return AnswerRequired(
        f"{said}: it waits for an answer to {first.id}: {excerpt(first.question, 200)}{others}",
        remedy=f"`crewlog answer {run.id} {first.id}` gives it.",
        place=f"run {run.id!r}",
    )


def said_by_signal(command: AskRun) -> dict[str, Any]:
    """The `message` that says the same, under the same id."""
    message = wire.MessageCommand(
        id=command.id, by=command.by, reason=command.reason, text=command.text, to=command.to
    )
    return message.to_json()
