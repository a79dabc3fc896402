"""Binds the payloads of an encrypted execution to their purposes, and checks those that arrive.

Anyone who reaches the server can read the encrypted payloads of a run and send them again: an
earlier result as that of a later call, an answer under the name of another command. A worker that
takes workflow tasks could schedule a call with an earlier input. So what an execution sends names
its purpose, to which `crewlog.encryption.codec` binds it, and what it receives must have been
encrypted for the job that brings it. Anything else, also a plain payload, is replaced by a refused
one.

The SDK numbers activities from the start of each execution. So each id also has the random seed of
the execution. A reset gives a new seed, which later calls use. Ids and checks apply only to
executions that were started encrypted, as their history shows: a replay does the same.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from temporalio.api.common.v1 import Payload

from crewlog.encryption import purposes
from crewlog.encryption.codec import (
    NOT_ENCRYPTED,
    is_given_up,
    is_not_encrypted,
    is_refused,
    is_unavailable,
    moved_payload_error,
    payloads_in,
    place_of,
    purpose_of,
    refused_payload,
    set_purpose,
    was_encrypted,
)
from crewlog.encryption.purposes import Purpose
from crewlog.errors import DecryptionFailed

if TYPE_CHECKING:
    from temporalio.bridge.proto.workflow_activation import (
        ResolveActivity,
        WorkflowActivation,
        WorkflowActivationJob,
    )
    from temporalio.bridge.proto.workflow_commands import ScheduleActivity, ScheduleLocalActivity
    from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion


class PayloadPlaces:
    """The purposes of the payloads of an execution.

    Args:
        seed: The random seed of the execution.
        is_encrypted: Whether it was started encrypted.
    """

    def __init__(self, seed: int, *, is_encrypted: bool) -> None:
        self._seed = seed
        self._is_encrypted = is_encrypted
        self._results: dict[int, Purpose] = {}
        """The purposes of the results of calls in flight, by sequence number."""

    def check(self, act: WorkflowActivation) -> None:
        """Replaces payloads that were not encrypted for their jobs by refused payloads."""
        if not self._is_encrypted:
            return
        for job in act.jobs:
            self._check_job(job)

    def _check_job(self, job: WorkflowActivationJob) -> None:
        match job.WhichOneof("variant"):
            case "initialize_workflow":
                start = job.initialize_workflow
                is_continued = bool(start.continued_from_execution_run_id)
                _check(start.arguments, (purposes.CARRY,) if is_continued else purposes.STARTS)
            case "signal_workflow":
                signal = job.signal_workflow
                _check(signal.input, [purposes.signal(signal.signal_name)])
            case "do_update":
                _check(job.do_update.input, [purposes.update(job.do_update.name, job.do_update.id)])
            case "resolve_activity":
                self._check_result(job.resolve_activity)
            case "update_random_seed":
                self._seed = job.update_random_seed.randomness_seed
            case _:
                pass  # it has no payload, or the arguments of a query

    def _check_result(self, resolved: ResolveActivity) -> None:
        purpose = self._results.pop(resolved.seq, ("result",))
        outcome = resolved.result
        if outcome.HasField("completed"):
            _check([outcome.completed.result], [purpose])
        elif outcome.HasField("failed"):
            # The failure of a worker without keys is plain. It tells nothing that a run relies on.
            failure = outcome.failed.failure
            found = filter(was_encrypted, payloads_in(failure))
            if moved := next((each for each in found if purpose_of(each) != purpose), None):
                error = moved_payload_error(place_of(moved))
                failure.cause.Clear()
                failure.cause.message = error.message
                failure.cause.application_failure_info.type = DecryptionFailed.__name__
                failure.cause.application_failure_info.non_retryable = True

    def assign(self, completion: WorkflowActivationCompletion) -> None:
        """Assigns ids to the calls that an execution schedules, and purposes to its payloads."""
        for command in completion.successful.commands:
            match command.WhichOneof("variant"):
                case "schedule_activity":
                    self._assign_call(command.schedule_activity)
                case "schedule_local_activity":
                    self._assign_call(command.schedule_local_activity)
                case "signal_external_workflow_execution":
                    sent = command.signal_external_workflow_execution
                    _set_purpose(sent.args, purposes.signal(sent.signal_name))
                case "start_child_workflow_execution":
                    _set_purpose(command.start_child_workflow_execution.input, purposes.START)
                case "continue_as_new_workflow_execution":
                    next_execution = command.continue_as_new_workflow_execution
                    _set_purpose(next_execution.arguments, purposes.CARRY)
                case _:
                    pass

    def _assign_call(self, scheduled: ScheduleActivity | ScheduleLocalActivity) -> None:
        if self._is_encrypted:
            scheduled.activity_id = f"{scheduled.activity_id}-{_text(self._seed)}"
        call = scheduled.activity_type, scheduled.activity_id
        _set_purpose(scheduled.arguments, purposes.call(*call))
        if self._is_encrypted:
            self._results[scheduled.seq] = purposes.result(*call)


def create_payload_places(
    act: WorkflowActivation, seed: int, *, encrypts: bool
) -> PayloadPlaces | None:
    """The payload places of an execution; None if neither it nor this worker encrypts.

    Args:
        act: Its first activation.
        seed: Its random seed.
        encrypts: Whether this worker encrypts.
    """
    for job in act.jobs:
        if job.HasField("initialize_workflow"):
            is_encrypted = any(map(was_encrypted, job.initialize_workflow.arguments))
            if is_encrypted or encrypts:
                return PayloadPlaces(seed, is_encrypted=is_encrypted)
    return None


def _check(payloads: Iterable[Payload], expected: Collection[Purpose]) -> None:
    for payload in payloads:
        if is_unavailable(payload) or is_given_up(payload):
            continue  # its reader decides
        if was_encrypted(payload):
            if purpose_of(payload) not in expected:
                payload.CopyFrom(refused_payload(moved_payload_error(place_of(payload))))
        elif not is_refused(payload) or is_not_encrypted(payload):
            # A worker that accepts plain payloads must decide as one that does not.
            payload.CopyFrom(refused_payload(DecryptionFailed(NOT_ENCRYPTED)))


def _set_purpose(payloads: Iterable[Payload], purpose: Purpose) -> None:
    for payload in payloads:
        set_purpose(payload, purpose)


def _text(seed: int) -> str:
    return base64.urlsafe_b64encode(seed.to_bytes(8, "big")).decode().rstrip("=")
