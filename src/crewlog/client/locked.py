"""Why a run's history cannot be read: the key that it needs, and what is encrypted with it.

A worker without a key says what the SDK makes of it: a task that fails, or, where the key is
retired, a history that does not fit, since what is refused is refused for good. So the history is
looked at here, and only once something went wrong.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from crewlog.client.key_uses import folder_of, keys_of
from crewlog.encryption.codec import EncryptionCodec
from crewlog.encryption.keys import ACCEPT_PLAIN, KEYS
from crewlog.errors import CrewlogError, EncryptionKeyMissing, NotEncrypted
from crewlog.ids import RunId

_LIMIT = timedelta(seconds=10)
_NAMED = "EVENT_TYPE_"


async def locked(client: Client, run: RunId, execution: str = "") -> CrewlogError | None:
    """What we or the workers lack to read a run's history; none where that is not the reason.

    Args:
        client: Temporal's client.
        run: The run.
        execution: Temporal's id of one of its executions; by default the current one.
    """
    converter = client.data_converter
    folder, failure = folder_of(converter), Failure()
    handle = client.get_workflow_handle(run, run_id=execution or None)
    try:
        async for event in handle.fetch_history_events(rpc_timeout=_LIMIT):
            for key in sorted(keys_of(event, folder)):
                if (error := _lacking(converter, key, run, event)) is not None:
                    return error
            if event.HasField("workflow_task_completed_event_attributes"):
                failure = Failure()
            elif event.HasField("workflow_task_failed_event_attributes"):
                failure = event.workflow_task_failed_event_attributes.failure
    except RPCError:
        return None  # whoever asks knows already what went wrong
    return worker_problem(failure, run)


def worker_problem(failure: Failure, run: RunId) -> CrewlogError | None:
    """What is wrong with a worker's keys, by a failure of its task; None if nothing is.

    Args:
        failure: The failure of a workflow task or of a query.
        run: The run.
    """
    kind = failure.application_failure_info.type
    if kind == NotEncrypted.__name__:
        return NotEncrypted(
            f"the workers do not go on with the run {run!r}: it began without encryption, which "
            "is on there",
            remedy=f"Set {ACCEPT_PLAIN}=true for workers and clients until it has ended. The run "
            "is safe, and waits. If it began after encryption was turned on everywhere, a client "
            "without the keys has started it.",
            place=f"run {run!r}",
        )
    if kind == EncryptionKeyMissing.__name__:
        return _worker_lacks(failure.message, run)
    return worker_problem(failure.cause, run) if failure.HasField("cause") else None


def _worker_lacks(message: str, run: RunId) -> EncryptionKeyMissing:
    return EncryptionKeyMissing(
        f"the workers cannot go on with the run {run!r}, since they lack a key: {message}",
        remedy="Give them the key file of those who speak to the run: `crewlog encryption status` "
        "names its keys. The run is safe, and goes on a while after.",
        place=f"run {run!r}",
    )


def _lacking(
    converter: DataConverter, key: str, run: RunId, event: HistoryEvent
) -> EncryptionKeyMissing | None:
    codec = converter.payload_codec
    if not isinstance(codec, EncryptionCodec):
        why, remedy = "and this process has no keys", f"Set {KEYS} to the key file of the workers."
    elif not (state := codec.keys.key_problem(key)):
        return None
    else:
        why = "which is retired" if state == "retired" else "which this process does not have"
        remedy = (
            "What the store has of the run is there still: `crewlog log` and `show` tell it. For "
            f"its history take the key back: `crewlog encryption add COPY {key}`, with a copy of "
            f"{codec.keys.path} that has it."
        )
    what = EventType.Name(event.event_type).removeprefix(_NAMED).lower().replace("_", " ")
    return EncryptionKeyMissing(
        f"the history of the run {run!r} cannot be read: it is encrypted with the key {key!r}, "
        f"{why} (event {event.event_id}: {what})",
        remedy=remedy,
        place=f"run {run!r}",
    )
