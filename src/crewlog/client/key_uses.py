"""Which keys open runs need: what their histories are encrypted with, and the files beside them.

A run that is open reads its history from the beginning whenever it comes to another worker. Runs
that have ended are read by people only, and by `rebuild`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError, Message
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from crewlog import wire
from crewlog.encryption.codec import ENCRYPTED, KEY
from crewlog.errors import TemporalUnavailable
from crewlog.payloads import DirectoryDriver

_LIMIT = timedelta(seconds=30)
_CLAIM = re.compile(rb'"sha256" *: *"([0-9a-f]{64})"')
"""What the history has of a payload that lies in the payload folder."""


def payloads_in(message: Message) -> Iterator[Payload]:
    """Every payload in a message, wherever it is; those of search attributes are Temporal's."""
    if isinstance(message, Payload):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None or field.name == "search_attributes":
            continue
        if field.message_type.GetOptions().map_entry:
            items: Any = value.values()
        else:
            items = value if field.is_repeated else (value,)
        for each in items:
            if isinstance(each, Message):
                yield from payloads_in(each)


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
    found: set[str] = set()
    for payload in payloads_in(message):
        if payload.metadata.get("encoding") == ENCRYPTED:
            found.add(payload.metadata.get(KEY, b"").decode("utf-8", "replace"))
        elif folder is not None and (claim := _CLAIM.search(payload.data)):
            name = claim[1].decode()
            try:
                beside = Payload.FromString((folder / name[:2] / name).read_bytes())
            except (OSError, DecodeError):
                continue  # who needs it says so
            found |= keys_of(beside)
    return found


async def open_runs(
    client: Client, folder: Path, tell: Callable[[str], None] = lambda _text: None
) -> dict[str, list[str]]:
    """The open runs of the namespace that need a key, by the key's id.

    Args:
        client: Temporal's client.
        folder: The payload folder.
        tell: Told how far it is.

    Raises:
        TemporalUnavailable: the server does not say.
    """
    needed: dict[str, list[str]] = {}
    count = 0
    query = f"WorkflowType = '{wire.WORKFLOW_TYPE}' AND ExecutionStatus = 'Running'"
    try:
        async for execution in client.list_workflows(query, rpc_timeout=_LIMIT):
            count += 1
            tell(f"reading the histories of open runs: {count}")
            handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
            found: set[str] = set()
            async for event in handle.fetch_history_events(rpc_timeout=_LIMIT):
                found |= keys_of(event, folder)
            for key in found:
                needed.setdefault(key, []).append(execution.id)
        async for listed in await client.list_schedules(rpc_timeout=_LIMIT):
            described = await client.get_schedule_handle(listed.id).describe(rpc_timeout=_LIMIT)
            for key in keys_of(described.raw_description, folder):
                needed.setdefault(key, []).append(f"schedule {listed.id}")
    except RPCError as error:
        raise TemporalUnavailable(
            f"the Temporal server does not say what is open: {error.message}",
            remedy="Nothing was changed. `crewlog doctor` looks closer.",
        ) from error
    return needed
