"""Which keys open runs need: what their histories are encrypted with, and the files beside them.

A run that is open reads its history from the beginning whenever it comes to another worker. Runs
that have ended are read by people only, and by `rebuild`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from google.protobuf.message import DecodeError, Message
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from crewlog import wire
from crewlog.encryption.codec import ENCRYPTED, payloads_in
from crewlog.encryption.keys import key_of
from crewlog.errors import TemporalUnavailable
from crewlog.payload_storage.external_storage import DirectoryDriver
from crewlog.temporal_service.errors import missing_namespace, namespace_not_found_error

_LIMIT = timedelta(seconds=30)
_CLAIM = re.compile(rb'"sha256" *: *"([0-9a-f]{64})"')
"""What the history has of a payload that lies in the payload folder."""

_PLAIN_EVENTS = {
    "marker_recorded_event_attributes",  # the SDK's own notes are never encrypted
    "workflow_execution_signaled_event_attributes",  # a run that began encrypted refuses them
    "workflow_execution_update_accepted_event_attributes",
    "workflow_execution_update_admitted_event_attributes",
}
"""Events whose plain payloads say nothing of whether their run needs that plain ones are read."""


def folder_of(converter: DataConverter) -> Path | None:
    """The payload folder of a converter; none where it has another place for large payloads."""
    storage = converter.external_storage
    for driver in storage.drivers if storage is not None else ():
        if isinstance(driver, DirectoryDriver):
            return driver.directory
    return None


def keys_of(message: Message, folder: Path | None = None) -> set[str]:
    """The ids of the keys that a message's payloads are encrypted with.

    Args:
        message: An event of a history.
        folder: The payload folder, for what lies there.
    """
    return {key for key in _keys_of(message, folder) if key}


def _keys_of(message: Message, folder: Path | None) -> set[str]:
    """As `keys_of`, with an empty one where a payload is plain."""
    found: set[str] = set()
    for payload in payloads_in(message):
        if payload.metadata.get("encoding") == ENCRYPTED:
            found.add(key_of(payload.data))
        elif folder is not None and (claim := _CLAIM.search(payload.data)):
            name = claim[1].decode()
            try:
                beside = Payload.FromString((folder / name[:2] / name).read_bytes())
            except (OSError, DecodeError):
                continue  # who needs it says so
            found |= _keys_of(beside, folder=None)
        else:
            found.add("")
    return found


async def open_runs(
    client: Client, folder: Path, tell: Callable[[str], None] = lambda _text: None
) -> dict[str, list[str]]:
    """The open runs of the namespace that need a key, by the key's id.

    Under an empty one: those with what is not encrypted, which must be accepted for them.

    Args:
        client: Temporal's client.
        folder: The payload folder.
        tell: Told how far it is.

    Raises:
        NamespaceNotFound: the server does not have the namespace.
        TemporalUnavailable: the server does not say.
    """
    needed: dict[str, list[str]] = {}
    count = 0
    query = f"WorkflowType = '{wire.WORKFLOW_TYPE}' AND ExecutionStatus = 'Running'"
    try:
        async for execution in client.list_workflows(query, rpc_timeout=_LIMIT):
            count += 1
            tell(f"reading the histories of open runs: {count}")
            for key in await _needed(client, execution.id, execution.run_id, folder):
                needed.setdefault(key, []).append(execution.id)
        async for listed in await client.list_schedules(rpc_timeout=_LIMIT):
            described = await client.get_schedule_handle(listed.id).describe(rpc_timeout=_LIMIT)
            for key in _keys_of(described.raw_description, folder):
                needed.setdefault(key, []).append(f"schedule {listed.id}")
    except RPCError as error:
        if (namespace := missing_namespace(error)) is not None:
            address = client.service_client.config.target_host
            raise namespace_not_found_error(namespace, address) from error
        raise TemporalUnavailable(
            f"the Temporal server does not say what is open: {error.message}",
            remedy="Nothing was changed. `crewlog doctor` looks closer.",
        ) from error
    return needed


async def _needed(client: Client, run: str, execution: str, folder: Path) -> set[str]:
    handle = client.get_workflow_handle(run, run_id=execution)
    # What activities told by their last heartbeats is in no history.
    found = keys_of((await handle.describe(rpc_timeout=_LIMIT)).raw_description, folder)
    async for event in handle.fetch_history_events(rpc_timeout=_LIMIT):
        plain_too = event.WhichOneof("attributes") not in _PLAIN_EVENTS
        found |= _keys_of(event, folder) if plain_too else keys_of(event, folder)
    return found
