"""Activity ids of encrypted executions: a result is accepted only for the call that it names.

Anyone who reaches the server can copy an encrypted result of a run to another activity of that run:
a check that was never made would pass, a payment would be made twice. So a worker encrypts the id
of the activity with its result (`crewlog.encryption.codec`), and this module compares that id with
the call in flight.

The SDK numbers activities from the start of each execution. So each id also has the random seed of
the execution. A reset gives a new seed, which later calls use. This applies only to executions that
were started encrypted, as their history shows: a replay does the same.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from crewlog.encryption.codec import (
    is_refused,
    is_result_of,
    is_unavailable,
    refused_payload,
    was_encrypted,
)

if TYPE_CHECKING:
    from temporalio.bridge.proto.workflow_activation import WorkflowActivation
    from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion

RESULT_OF_OTHER_CALL = "it is not the result of the call in flight"
"""Why a result is refused."""


class ActivityIds:
    """The calls of an execution that are in flight, by unique activity ids.

    Args:
        seed: The random seed of the execution.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._names: dict[int, str] = {}

    def check(self, act: WorkflowActivation) -> None:
        """Replaces results that do not name their call by refused payloads."""
        for job in act.jobs:
            if job.HasField("update_random_seed"):
                self._seed = job.update_random_seed.randomness_seed
            if not job.HasField("resolve_activity") or job.resolve_activity.is_local:
                continue
            name = self._names.pop(job.resolve_activity.seq, "")
            result = job.resolve_activity.result
            if not result.HasField("completed"):
                continue
            payload = result.completed.result  # an empty result names no call
            if not (is_unavailable(payload) or is_refused(payload) or is_result_of(payload, name)):
                payload.CopyFrom(refused_payload(RESULT_OF_OTHER_CALL))

    def assign(self, completion: WorkflowActivationCompletion) -> None:
        """Assigns activity ids to the calls that an execution schedules."""
        for command in completion.successful.commands:
            if command.HasField("schedule_activity"):
                call = command.schedule_activity
                call.activity_id = f"{call.activity_id}-{_text(self._seed)}"
                self._names[call.seq] = call.activity_id


def create_activity_ids(act: WorkflowActivation, seed: int) -> ActivityIds | None:
    """The activity ids of an execution; None if it was started without encryption.

    Args:
        act: Its first activation.
        seed: Its random seed.
    """
    for job in act.jobs:
        if job.HasField("initialize_workflow"):
            is_encrypted = any(map(was_encrypted, job.initialize_workflow.arguments))
            return ActivityIds(seed) if is_encrypted else None
    return None


def _text(seed: int) -> str:
    return base64.urlsafe_b64encode(seed.to_bytes(8, "big")).decode().rstrip("=")
