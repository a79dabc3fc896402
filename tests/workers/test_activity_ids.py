"""The ids of activities: no two of a run are the same, in any of its executions."""

from __future__ import annotations

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion

from crewlog.encryption.codec import CALL, ENCRYPTED_MARK, is_refused
from crewlog.workers.activity_ids import ActivityIds, create_activity_ids


def started(*, encrypted: bool) -> WorkflowActivation:
    act = WorkflowActivation()
    mark = {ENCRYPTED_MARK: b"1"} if encrypted else {}
    act.jobs.add().initialize_workflow.arguments.append(Payload(metadata=mark))
    return act


def names(seed: int) -> ActivityIds:
    found = create_activity_ids(started(encrypted=True), seed)
    assert found is not None
    return found


def scheduled(calls: ActivityIds, seq: int) -> str:
    completion = WorkflowActivationCompletion()
    call = completion.successful.commands.add().schedule_activity
    call.seq, call.activity_id = seq, str(seq)
    calls.assign(completion)
    return completion.successful.commands[0].schedule_activity.activity_id


def taken(calls: ActivityIds, seq: int, answer: Payload | None, *, local: bool = False) -> bool:
    act = WorkflowActivation()
    job = act.jobs.add().resolve_activity
    job.seq, job.is_local = seq, local
    job.result.completed.SetInParent()
    if answer is not None:
        job.result.completed.result.CopyFrom(answer)
    calls.check(act)
    return not is_refused(job.result.completed.result)


def answer(call: str) -> Payload:
    return Payload(metadata={ENCRYPTED_MARK: b"1", CALL: call.encode()})


def reseeded(calls: ActivityIds, seed: int) -> None:
    act = WorkflowActivation()
    act.jobs.add().update_random_seed.randomness_seed = seed
    calls.check(act)


def test_a_result_is_valid_for_its_own_call_only() -> None:
    calls = names(7)
    one, two = scheduled(calls, 1), scheduled(calls, 2)
    assert not taken(calls, 2, answer(one))
    assert taken(calls, 1, answer(one))
    assert taken(names(7), 3, Payload(), local=True)  # its worker alone answers it
    assert one != two


@pytest.mark.parametrize("forged", [None, Payload(), Payload(metadata={ENCRYPTED_MARK: b"1"})])
def test_a_result_without_its_call_is_refused(forged: Payload | None) -> None:
    calls = names(7)
    scheduled(calls, 1)
    assert not taken(calls, 1, forged)


def test_an_unencrypted_result_is_refused() -> None:
    calls = names(7)
    named = Payload(metadata={CALL: scheduled(calls, 1).encode()})
    assert not taken(calls, 1, named)


def test_restarted_numbers_make_other_ids() -> None:
    first, second = names(7), names(2**64 - 1)
    assert scheduled(first, 1) != scheduled(second, 1)
    again = names(7)  # a replay
    before = scheduled(again, 1)
    reseeded(again, 9)  # a reset
    assert scheduled(again, 2) not in (scheduled(names(7), 2), before)
    assert taken(again, 1, answer(before))


def test_a_run_started_without_encryption_is_unchanged() -> None:
    assert create_activity_ids(started(encrypted=False), 7) is None
    assert create_activity_ids(WorkflowActivation(), 7) is None
