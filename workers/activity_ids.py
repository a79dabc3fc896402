"""The names of an encrypted execution's calls: an answer is taken for the call that it names alone.

Whoever reaches the server can read what activities answered, encrypted as it is, and complete
another activity of the run with it: a check that was never made would pass, a payment would be made
twice. So a worker encrypts the activity's id along with its answer (`crewlog.encryption.codec`),
and here it is compared with the call in flight.

Ids that the SDK gives are numbers, which begin anew with every execution. So each has the
execution's random seed besides. A reset gives a new seed, and the calls that come after it have it.
Only executions that were started encrypted do so, as their history says: a replay does the same.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from crewlog.encryption.codec import answers, is_refused, is_unavailable, refused, was_encrypted

if TYPE_CHECKING:
    from temporalio.bridge.proto.workflow_activation import WorkflowActivation
    from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion

NOT_OF_THE_CALL = "it is not what the call in flight was answered"
"""Why an answer is refused."""


class ActivityIds:
    """The calls of an execution that are in flight, by names that no other call has.

    Args:
        seed: The execution's random seed.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._names: dict[int, str] = {}

    def check(self, act: WorkflowActivation) -> None:
        """Replaces results that do not name their calls by what says that they are refused."""
        for job in act.jobs:
            if job.HasField("update_random_seed"):
                self._seed = job.update_random_seed.randomness_seed
            if not job.HasField("resolve_activity") or job.resolve_activity.is_local:
                continue
            name = self._names.pop(job.resolve_activity.seq, "")
            result = job.resolve_activity.result
            if not result.HasField("completed"):
                continue
            answer = result.completed.result  # one without a result names no call either
            if not (is_unavailable(answer) or is_refused(answer) or answers(answer, name)):
                answer.CopyFrom(refused(NOT_OF_THE_CALL))

    def give(self, completion: WorkflowActivationCompletion) -> None:
        """Gives the calls that an execution makes their names."""
        for command in completion.successful.commands:
            if command.HasField("schedule_activity"):
                call = command.schedule_activity
                call.activity_id = f"{call.activity_id}-{_text(self._seed)}"
                self._names[call.seq] = call.activity_id


def call_names(act: WorkflowActivation, seed: int) -> ActivityIds | None:
    """The names of an execution's calls; none where it was started without encryption.

    Args:
        act: Its first activation.
        seed: Its random seed.
    """
    for job in act.jobs:
        if job.HasField("initialize_workflow"):
            sealed = any(map(was_encrypted, job.initialize_workflow.arguments))
            return ActivityIds(seed) if sealed else None
    return None


def _text(seed: int) -> str:
    return base64.urlsafe_b64encode(seed.to_bytes(8, "big")).decode().rstrip("=")
