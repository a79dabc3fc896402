"""The purposes of an execution's payloads: what it accepts for a call, a command, its start."""

from __future__ import annotations

import json
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import (
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion

from crewlog.encryption import purposes
from crewlog.encryption.codec import NOT_ENCRYPTED, ORIGIN, PURPOSE, error_of, is_refused
from crewlog.encryption.purposes import Purpose
from crewlog.workers.payload_places import PayloadPlaces, create_payload_places


def decrypted(purpose: Purpose) -> Payload:
    place = json.dumps(["default", "run-1", *purpose]).encode()
    return Payload(metadata={ORIGIN: b"x" * 17 + place})


PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b"1")


def places(seed: int = 7) -> PayloadPlaces:
    act = WorkflowActivation()
    act.jobs.add().initialize_workflow.arguments.append(decrypted(purposes.START))
    found = create_payload_places(act, seed, encrypts=True)
    assert found is not None
    return found


def schedule(of: PayloadPlaces, seq: int, *, local: bool = False) -> Purpose:
    """Schedules a call; returns the purpose of its result."""
    completion = WorkflowActivationCompletion()
    command = completion.successful.commands.add()
    call = command.schedule_local_activity if local else command.schedule_activity
    call.seq, call.activity_id, call.activity_type = seq, str(seq), "call_tool"
    call.arguments.add()
    of.assign(completion)
    purpose = json.loads(call.arguments[0].metadata[PURPOSE])
    assert purpose == ["call", "call_tool", call.activity_id]
    return purposes.result("call_tool", call.activity_id)


def check(of: PayloadPlaces, job: WorkflowActivationJob) -> WorkflowActivationJob:
    act = WorkflowActivation(jobs=[job])
    of.check(act)
    return act.jobs[0]


def accepts(of: PayloadPlaces, seq: int, answer: Payload, *, local: bool = False) -> bool:
    job = WorkflowActivationJob()
    job.resolve_activity.seq, job.resolve_activity.is_local = seq, local
    job.resolve_activity.result.completed.result.CopyFrom(answer)
    return not is_refused(check(of, job).resolve_activity.result.completed.result)


@pytest.mark.parametrize("local", [False, True])
def test_a_result_is_valid_for_its_own_call_only(local: bool) -> None:
    calls = places()
    one, two = schedule(calls, 1, local=local), schedule(calls, 2, local=local)
    assert one != two
    assert not accepts(calls, 2, decrypted(one), local=local)
    assert accepts(calls, 1, decrypted(one), local=local)


@pytest.mark.parametrize("forged", [Payload(), PLAIN, decrypted(()), decrypted(purposes.START)])
def test_a_result_without_its_call_is_refused(forged: Payload) -> None:
    calls = places()
    schedule(calls, 1)
    assert not accepts(calls, 1, forged)


def test_a_failure_with_the_content_of_another_call_is_replaced() -> None:
    calls = places()
    one, two = schedule(calls, 1), schedule(calls, 2)
    for seq, purpose, text in ((1, one, "it failed"), (2, one, "was read elsewhere")):
        job = WorkflowActivationJob()
        job.resolve_activity.seq = seq
        cause = job.resolve_activity.result.failed.failure.cause
        cause.message = "it failed"
        cause.encoded_attributes.CopyFrom(decrypted(purpose))
        assert text in check(calls, job).resolve_activity.result.failed.failure.cause.message
    assert one != two


def test_restarted_numbers_make_other_ids() -> None:
    assert schedule(places(7), 1) != schedule(places(2**64 - 1), 1)
    again = places(7)  # a replay
    before = schedule(again, 1)
    reset = WorkflowActivationJob()
    reset.update_random_seed.randomness_seed = 9
    check(again, reset)
    assert schedule(again, 2) not in (schedule(places(7), 2), before)
    assert accepts(again, 1, decrypted(before))


@pytest.mark.parametrize("sent", ["signal_workflow", "do_update"])
@pytest.mark.parametrize(
    ("purpose", "is_accepted"),
    [
        (purposes.signal("pause"), True),
        (purposes.signal("stop"), False),
        (purposes.START, False),
        ((), False),
        (purposes.result("call_tool", "1"), False),
    ],
)
def test_a_command_is_accepted_under_its_name_only(
    sent: str, purpose: Purpose, is_accepted: bool
) -> None:
    job = WorkflowActivationJob()
    if sent == "signal_workflow":
        job.signal_workflow.signal_name = "pause"
    else:
        job.do_update.name, job.do_update.id = "pause", "u"
        purpose = purposes.update(purpose[1], "u") if purpose[:1] == ("signal",) else purpose
    command: Any = getattr(job, sent)
    command.input.append(decrypted(purpose))
    found: Any = getattr(check(places(), job), sent)
    assert is_refused(found.input[0]) is not is_accepted


def test_an_update_is_accepted_under_its_id_only() -> None:
    for id in ("u", "another"):
        job = WorkflowActivationJob()
        job.do_update.name, job.do_update.id = "answer", id
        job.do_update.input.append(decrypted(purposes.update("answer", "u")))
        (found,) = check(places(), job).do_update.input
        assert is_refused(found) is (id != "u")


def test_a_plain_command_is_refused_whatever_the_worker_accepts() -> None:
    job = WorkflowActivationJob()
    job.signal_workflow.signal_name = "pause"
    job.signal_workflow.input.append(PLAIN)
    (found,) = check(places(), job).signal_workflow.input
    assert error_of(found).message == NOT_ENCRYPTED


@pytest.mark.parametrize("continued", [False, True])
def test_the_input_of_an_execution_is_a_start_or_a_carry(continued: bool) -> None:
    for purpose in (purposes.START, purposes.SCHEDULE, purposes.CARRY, ()):
        job = WorkflowActivationJob()
        start = job.initialize_workflow
        start.continued_from_execution_run_id = "before" if continued else ""
        start.arguments.append(decrypted(purpose))
        (found,) = check(places(), job).initialize_workflow.arguments
        expected = (purposes.CARRY,) if continued else purposes.STARTS
        assert is_refused(found) is (purpose not in expected)


def test_what_an_execution_sends_names_its_purpose() -> None:
    completion = WorkflowActivationCompletion()
    sent = completion.successful.commands.add().signal_external_workflow_execution
    sent.signal_name = "merge"
    sent.args.add()
    child = completion.successful.commands.add().start_child_workflow_execution.input.add()
    carry = completion.successful.commands.add().continue_as_new_workflow_execution.arguments.add()
    places().assign(completion)
    assert json.loads(sent.args[0].metadata[PURPOSE]) == ["signal", "merge"]
    assert json.loads(child.metadata[PURPOSE]) == ["start"]
    assert json.loads(carry.metadata[PURPOSE]) == ["carry"]


def test_an_execution_that_was_started_plain_keeps_its_ids_and_accepts_plain_payloads() -> None:
    act = WorkflowActivation()
    act.jobs.add().initialize_workflow.arguments.append(PLAIN)
    assert create_payload_places(act, 7, encrypts=False) is None
    assert create_payload_places(WorkflowActivation(), 7, encrypts=True) is None
    begun_plain = create_payload_places(act, 7, encrypts=True)
    assert begun_plain is not None
    assert schedule(begun_plain, 1) == purposes.result("call_tool", "1")
    assert accepts(begun_plain, 1, PLAIN)
