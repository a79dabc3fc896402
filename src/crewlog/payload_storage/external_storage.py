"""External storage in a folder: large payloads as files, and references to missing files.

Any client may send a reference. Temporal resolves it before the run sees it, and an error there
would fail the workflow task of the run as long as the signal is in the history. So nothing raises
here. A missing file becomes a replacement payload, see `codec.unavailable_payload`, and the reader
decides:

- For a result or the input of a run, the task fails until the file is there.
- A command is given up. The first attempt of its task notes the request in a file beside the
  missing one, and fails. The next attempt, by any worker, waits for a moment, and then marks the
  reference as given up, in another file. From then on all workers and all replays reject the
  command, even if its file appears later: a run that has recorded the rejection must reach it
  again. A command that a run has accepted is never given up, since a replay notes nothing.

A payload with an unknown key is treated like a reference to a missing file: it is found before
anything is decrypted, and waited for or given up in the same way. Its notes are in a folder of the
key.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1.external_storage_pb2 import ExternalStorageReference
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from crewlog.encryption.codec import (
    ENCRYPTED,
    give_up,
    refused_payload,
    unavailable_payload,
)
from crewlog.encryption.keys import Keyring, key_missing_error, key_of
from crewlog.errors import DecryptionFailed, StoreIncomplete
from crewlog.payload_storage.directory import write_error, write_file
from crewlog.payload_storage.sdk_workarounds import TolerantExternalStorage

GRACE = 2.0
"""Seconds to wait for the file or the key of a command after the first request for it."""
_REQUESTED, _GIVEN_UP = ".requested", ".given-up"
"""The suffixes of the notes of a reference."""
SHA256 = re.compile(r"[0-9a-f]{64}")
_RENAMED = "crewlog-renamed"
"""Metadata that changes the hash of a payload, if the reference to its hash was given up before."""
_KEY_NOTES = "key-"
"""The prefix of folders with notes about unknown keys."""
_CHECK_INTERVAL = 1.0
"""Seconds between two checks for notes about a known key."""
_OF_THIS_PROCESS = secrets.token_hex(16)
"""Marks the claims of this process, since any client may send a reference."""


class DirectoryDriver(StorageDriver):
    """Stores large payloads as files named by their SHA-256, so that a retry writes nothing.

    Args:
        directory: The folder.
        keys: The keys of this process.
    """

    def __init__(self, directory: Path, keys: Keyring | None = None) -> None:
        self.directory = directory
        """The folder of the files."""
        self._keys = keys
        self._checked_at: dict[str, float] = {}
        """The times of checks that found no notes about a known key."""
        self._directory_id = _identity(directory)

    def name(self) -> str:
        """The name of the driver in claims, which is stored."""
        return "crewlog-directory"

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Writes each payload to its file."""
        return [await asyncio.to_thread(self._write, payload) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Reads each payload and checks its hash; replaces an unavailable one."""
        return [await asyncio.to_thread(self._read, claim) for claim in claims]

    def _write(self, payload: Payload) -> StorageDriverClaim:
        data, path = self._serialize(payload)
        try:
            # Any client may have sent a reference to it before, which was given up.
            for number in range(100):
                if not _beside(path, _GIVEN_UP).exists():
                    break
                renamed = Payload()
                renamed.CopyFrom(payload)
                renamed.metadata[_RENAMED] = str(number).encode()
                data, path = self._serialize(renamed)
            if not path.exists():
                write_file(self.directory, path, data)
        except OSError as error:
            raise write_error("payload", len(data), self.directory, error) from error
        return StorageDriverClaim(claim_data={"sha256": path.name})

    def _serialize(self, payload: Payload) -> tuple[bytes, Path]:
        data = payload.SerializeToString(deterministic=True)
        return data, self._file(hashlib.sha256(data).hexdigest())

    def _file(self, key: str) -> Path:
        return self.directory / key[:2] / key

    def _is_same_directory(self) -> bool:
        """Whether the folder is still the same one: an unmounted folder has no files."""
        now = _identity(self.directory)
        if self._directory_id is None:
            if now is None:  # nothing is written yet
                with suppress(OSError):
                    self.directory.mkdir(parents=True, exist_ok=True)
                now = _identity(self.directory)
            self._directory_id = now
        return now is not None and now == self._directory_id

    def keyless_claim(self, payload: Payload) -> StorageDriverClaim | None:
        """The claim for an encrypted payload with an unknown key; None if it can be decrypted.

        Args:
            payload: The payload.
        """
        key = key_of(payload.data)
        if self._keys is not None:
            if not key:
                return None  # the codec refuses it
            if self._knows(key) and not self._has_notes(key):
                return None
        data = payload.SerializeToString(deterministic=True)
        digest = hashlib.sha256(data).hexdigest()
        if self._knows(key) and not _beside(self._notes(key) / digest, _GIVEN_UP).exists():
            return None
        return StorageDriverClaim(claim_data={"sha256": digest, "key": key, "by": _OF_THIS_PROCESS})

    def _has_notes(self, key: str) -> bool:
        now = time.monotonic()
        if now - self._checked_at.get(key, -_CHECK_INTERVAL) < _CHECK_INTERVAL:
            return False
        found = self._notes(key).exists()
        if not found:
            self._checked_at[key] = now
        return found

    def _notes(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        return self.directory / f"{_KEY_NOTES}{name}"

    def _read(self, claim: StorageDriverClaim) -> Payload:
        key = claim.claim_data.get("sha256", "")
        if claim.claim_data.get("by") == _OF_THIS_PROCESS:
            return self._read_without_key(key, claim.claim_data["key"])
        if not SHA256.fullmatch(key):  # it must not name any other file
            return refused_payload(DecryptionFailed("its reference is invalid"))
        path = self._file(key)
        found = _content(path, key)
        if found is None:
            self._wait_or_give_up(path, lambda: _content(path, key) is not None)
            found = _content(path, key)
        if found is not None:
            payload = Payload.FromString(found)
        else:
            error = StoreIncomplete(
                f"the payload {path.name[:12]} is missing or damaged",
                place=str(path),
                remedy="All workers and clients need the same CREWLOG_PAYLOADS directory.",
            )
            payload = unavailable_payload(str(path), error)
        return give_up(payload) if _beside(path, _GIVEN_UP).exists() else payload

    def _read_without_key(self, digest: str, key: str) -> Payload:
        path = self._notes(key) / digest
        file = "" if self._keys is None else str(self._keys.path)
        payload = unavailable_payload(str(path), key_missing_error(key, file))
        if not self._knows(key):
            self._wait_or_give_up(path, lambda: self._knows(key))
        return give_up(payload) if _beside(path, _GIVEN_UP).exists() else payload

    def _knows(self, key: str) -> bool:
        return self._keys is not None and self._keys.key_problem(key) != "unknown"

    def _wait_or_give_up(self, path: Path, found: Callable[[], bool]) -> None:
        """Waits until `GRACE` after the first request; then notes that the payload is given up."""
        is_same_directory = self._is_same_directory()
        if (requested_at := _modified_at(_beside(path, _REQUESTED))) is None:
            return
        deadline = time.monotonic() + GRACE  # the folder may have another clock
        while time.time() < requested_at + GRACE and time.monotonic() < deadline:
            time.sleep(0.05)
            if found():
                return
        if is_same_directory and not found():
            with suppress(OSError):  # then the task keeps waiting
                _beside(path, _GIVEN_UP).touch(mode=0o600)


class DirectoryStorage(TolerantExternalStorage):
    """External storage; an encrypted payload with an unknown key counts as a reference."""

    def find_reference(self, payload: Payload) -> ExternalStorageReference | None:
        """The reference that stands for an encrypted payload with an unknown key."""
        if payload.metadata.get("encoding") != ENCRYPTED:
            return None
        for driver in self.drivers:
            claim = driver.keyless_claim(payload) if isinstance(driver, DirectoryDriver) else None
            if claim is not None:
                return ExternalStorageReference(
                    driver_name=driver.name(), claim_data=claim.claim_data
                )
        return None


def request_payload(file: str) -> None:
    """Notes that the missing content of a command was requested.

    Args:
        file: The missing file, see `codec.missing_file`.
    """
    note = _beside(Path(file), _REQUESTED)
    with suppress(OSError):  # then the task keeps waiting
        note.parent.mkdir(exist_ok=True)
        note.touch(mode=0o600, exist_ok=True)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _modified_at(path: Path) -> float | None:
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
