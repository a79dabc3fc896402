"""The payload folder: large payloads as files, and what becomes of a reference to none.

A reference is a claim that anybody may send. Temporal resolves it before a run sees it, and an
error there fails the run's workflow task for as long as the signal is in the history: for good. So
nothing raises here. A file that is not there becomes a payload that says so, see `codec.lost`, and
whoever reads it decides:

- A result, or what a run was started with, is waited for: the task fails until the file is back.
- A command is given up. The first try of its task notes that one was asked for, in a file beside
  the one that is missing, and fails. The next one, by whichever worker, waits for a moment, and
  then marks the reference as given up, in another file. From then on it is refused as a command, by
  all workers and in each replay, also if its file comes late: a run that has recorded a refusal
  must come to it again. Nothing is given up that a run has once taken: a replay notes nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1.external_storage_pb2 import ExternalStorageReference
from temporalio.converter import (
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from crewlog.encryption.codec import give_up, lost, refused
from crewlog.errors import StoreIncomplete, StoreUnavailable

GRACE = 2.0
"""Seconds that the file of a command is waited for, once a run has asked for it."""
_ASKED, _GIVEN_UP = ".asked", ".given-up"
"""What the names of the files end with that say what became of a reference."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_AGAIN = "crewlog-again"
"""Metadata of a payload whose own name was given up: it has another one by that."""


class DirectoryDriver(StorageDriver):
    """Keeps large payloads as files named by their SHA-256: a retry writes nothing twice.

    Args:
        directory: The folder.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        """Where the files are."""
        self._known = _identity(directory)

    def name(self) -> str:
        """The driver's name in claims; durable data."""
        return "crewlog-directory"

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Writes each payload to its file."""
        return [await asyncio.to_thread(self._write, payload) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Reads each payload and checks it against its hash; see above where it is not there."""
        return [await asyncio.to_thread(self._read, claim) for claim in claims]

    def _write(self, payload: Payload) -> StorageDriverClaim:
        data, path = self._named(payload)
        try:
            # A stranger may have named it before it was there.
            for number in range(100):
                if not _beside(path, _GIVEN_UP).exists():
                    break
                again = Payload()
                again.CopyFrom(payload)
                again.metadata[_AGAIN] = str(number).encode()
                data, path = self._named(again)
            if not path.exists():
                self.directory.mkdir(parents=True, exist_ok=True)
                mode = stat.S_IMODE(self.directory.stat().st_mode)
                path.parent.mkdir(mode=mode, exist_ok=True)
                draft = path.with_name(f"{path.name}.{id(payload):x}.draft")
                # In a private folder the files are private, too; in a shared one, the umask says.
                made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode & 0o666)
                with os.fdopen(made, "wb") as file:
                    file.write(data)
                draft.replace(path)
        except OSError as error:
            raise StoreUnavailable(
                f"a payload of {len(data)} bytes could not be written: {error.strerror}",
                place=str(self.directory),
                remedy="Make room, or point CREWLOG_PAYLOADS at a directory that can be written.",
            ) from error
        return StorageDriverClaim(claim_data={"sha256": path.name})

    def _named(self, payload: Payload) -> tuple[bytes, Path]:
        data = payload.SerializeToString(deterministic=True)
        return data, self._file(hashlib.sha256(data).hexdigest())

    def _file(self, key: str) -> Path:
        return self.directory / key[:2] / key

    def _is_there(self) -> bool:
        """Whether the folder is the one that it was: one that is not mounted has no files."""
        now = _identity(self.directory)
        if self._known is None:
            if now is None:  # nobody has written anything yet
                with suppress(OSError):
                    self.directory.mkdir(parents=True, exist_ok=True)
                now = _identity(self.directory)
            self._known = now
        return now is not None and now == self._known

    def _read(self, claim: StorageDriverClaim) -> Payload:
        key = claim.claim_data.get("sha256", "")
        if not _SHA256.fullmatch(key):  # a stranger's: no other file may be named by it
            return refused("it names no payload")
        path = self._file(key)
        found = _content(path, key)
        there = found is not None or self._is_there()
        if found is None and (asked := _when(_beside(path, _ASKED))) is not None:
            until = time.monotonic() + GRACE  # the folder's clock may be another one
            while found is None and time.time() < asked + GRACE and time.monotonic() < until:
                time.sleep(0.05)
                found = _content(path, key)
            if found is None and there:
                with suppress(OSError):  # then it is waited for, as for any other
                    _beside(path, _GIVEN_UP).touch(mode=0o600)
        given_up = _beside(path, _GIVEN_UP).exists()
        payload = lost(str(path)) if found is None else Payload.FromString(found)
        return give_up(payload) if given_up else payload


class FolderStorage(ExternalStorage):
    """Temporal's, which takes for no reference what only looks like one."""

    def _decode_reference(self, payload: Payload) -> ExternalStorageReference | None:
        """The reference that a payload is; none where it cannot be read, or names another driver.

        The SDK has no public place for this; what is none is read as any other payload.
        """
        try:
            found = super()._decode_reference(payload)
        except Exception:  # noqa: BLE001 - a stranger's may be anything
            return None
        names = {driver.name() for driver in self.drivers}
        return found if found is not None and found.driver_name in names else None


def ask_for(file: str) -> None:
    """Notes that a command's content is asked for, which is not there.

    Args:
        file: Where it would be, as `codec.lost_file` says.
    """
    note = _beside(Path(file), _ASKED)
    with suppress(OSError):  # then it is waited for, as for any other
        note.parent.mkdir(exist_ok=True)
        note.touch(mode=0o600, exist_ok=True)


def is_away(file: str) -> StoreIncomplete:
    """The error of whoever needs a file of the folder that is not there."""
    path = Path(file)
    return StoreIncomplete(
        f"the payload {path.name[:12]} is not there, or damaged",
        place=file,
        remedy="All workers and clients need the same CREWLOG_PAYLOADS directory.",
    )


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _when(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _content(path: Path, key: str) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == key else None
