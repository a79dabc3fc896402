"""The threads of workflow tasks use no files and no sockets, and never sleep."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from client import crews
from crewlog.encryption.codec import FILE_MISSING
from shared import LIMIT, Lab

FORBIDDEN = ("open", "os.", "pathlib.", "shutil.", "socket.", "subprocess.", "time.sleep")
"""How the names of audit events begin (https://docs.python.org/3/library/audit_events.html)."""
REFERENCE = {
    "encoding": b"json/protobuf",
    "messageType": b"temporal.api.sdk.v1.ExternalStorageReference",
}
_found: list[list[str]] = []


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _found or not event.startswith(FORBIDDEN):
        return
    is_traceback = event == "open" and str(args[0]).endswith(".py")  # a logged error quotes them
    if threading.current_thread().name.startswith("temporal_workflow_") and not is_traceback:
        _found[-1].append(f"{event}{args!r}")


sys.addaudithook(_audit)  # a hook cannot be removed


@contextmanager
def calls_in_workflow_threads() -> Iterator[list[str]]:
    _found.append([])
    try:
        yield _found[-1]
    finally:
        _found.pop()


async def test_workflow_threads_touch_nothing_outside(lab: Lab) -> None:
    """With a question, a live change, a swap, a query, and a command whose content is missing."""
    crew = crews.asking()
    with calls_in_workflow_threads() as found:
        async with lab.worker():
            run = await lab.start(crew)
            await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
            handle = lab.client.temporal.get_workflow_handle(run.id)
            claim = {"driverName": "crewlog-directory", "claimData": {"sha256": "0" * 64}}
            reference = Payload(metadata=REFERENCE, data=json.dumps(claim).encode())
            await handle.signal("message", RawValue(reference))
            crew["agents"]["checker"] = {"prompt": "Check."}
            crew["flow"].append("checker")
            await run.change(definition=crew)
            await run.state()
            await run.answer("i1", "yes")
            assert (await run.result(LIMIT)).status == "completed"
        entries = [item.data for item in (await run.journal(limit=1000)).entries]
        [refused] = [entry for entry in entries if entry["kind"] == "CommandRejected"]
        assert refused["reason"].endswith(FILE_MISSING)
    assert found == []
