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

What is encrypted with a key that a worker does not know is such a claim as well. It is found where
references are, before anything is decrypted, and waited for or given up in the same way; the notes
are in a folder of the key's.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
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

from crewlog.encryption.codec import ENCRYPTED, KEY, LONGEST_KEY, MissingKey, give_up, lost, refused
from crewlog.encryption.keys import Keyring, key_missing_error
from crewlog.errors import EncryptionKeyMissing, StoreIncomplete
from crewlog.payload_storage.directory import write_error, write_file

GRACE = 2.0
"""Seconds that the file or the key of a command is waited for, once a run has asked for it."""
_ASKED, _GIVEN_UP = ".asked", ".given-up"
"""What the names of the files end with that say what became of a reference."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_AGAIN = "crewlog-again"
"""Metadata of a payload whose own name was given up: it has another one by that."""
_KEY_NOTES = "key-"
"""How folders begin of notes about what is encrypted with keys that were not known."""
_LOOK = 1.0
"""Seconds between two looks at whether there are such notes about a key that is known."""
_OURS = secrets.token_hex(16)
"""What only this process can put into a claim: any client may send a reference."""


class DirectoryDriver(StorageDriver):
    """Keeps large payloads as files named by their SHA-256: a retry writes nothing twice.

    Args:
        directory: The folder.
        keys: The keys of this process.
    """

    def __init__(self, directory: Path, keys: Keyring | None = None) -> None:
        self.directory = directory
        """Where the files are."""
        self._keys = keys
        self._looked: dict[str, float] = {}
        """When it was looked for notes about keys that are known, and there were none."""
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
                write_file(self.directory, path, data)
        except OSError as error:
            raise write_error("payload", len(data), self.directory, error) from error
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

    def keyless_claim(self, payload: Payload) -> StorageDriverClaim | None:
        """The claim that stands for an encrypted payload; none where it can be decrypted.

        Args:
            payload: The payload.
        """
        try:
            key = payload.metadata.get(KEY, b"").decode()
        except UnicodeDecodeError:
            key = ""
        if self._keys is not None:
            if not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
                return None  # the codec refuses it
            if self._knows(key) and not self._has_notes(key):
                return None
        data = payload.SerializeToString(deterministic=True)
        digest = hashlib.sha256(data).hexdigest()
        if self._knows(key) and not _beside(self._notes(key) / digest, _GIVEN_UP).exists():
            return None
        return StorageDriverClaim(claim_data={"sha256": digest, "key": key, "by": _OURS})

    def _has_notes(self, key: str) -> bool:
        now = time.monotonic()
        if now - self._looked.get(key, -_LOOK) < _LOOK:
            return False
        found = self._notes(key).exists()
        if not found:
            self._looked[key] = now
        return found

    def _notes(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        return self.directory / f"{_KEY_NOTES}{name}"

    def _read(self, claim: StorageDriverClaim) -> Payload:
        key = claim.claim_data.get("sha256", "")
        if claim.claim_data.get("by") == _OURS:
            return self._without_key(key, claim.claim_data["key"])
        if not _SHA256.fullmatch(key):  # a stranger's: no other file may be named by it
            return refused("it names no payload")
        path = self._file(key)
        found = _content(path, key)
        if found is None:
            self._await(path, lambda: _content(path, key) is not None)
            found = _content(path, key)
        payload = lost(str(path)) if found is None else Payload.FromString(found)
        return give_up(payload) if _beside(path, _GIVEN_UP).exists() else payload

    def _without_key(self, digest: str, key: str) -> Payload:
        path = self._notes(key) / digest
        file = "" if self._keys is None else str(self._keys.path)
        payload = lost(str(path), MissingKey(key, file))
        if not self._knows(key):
            self._await(path, lambda: self._knows(key))
        return give_up(payload) if _beside(path, _GIVEN_UP).exists() else payload

    def _knows(self, key: str) -> bool:
        return self._keys is not None and self._keys.lacks(key) != "unknown"

    def _await(self, path: Path, found: Callable[[], bool]) -> None:
        """Waits for what was asked for, for a while; then notes that it is given up."""
        there = self._is_there()
        if (asked := _when(_beside(path, _ASKED))) is None:
            return
        until = time.monotonic() + GRACE  # the folder's clock may be another one
        while time.time() < asked + GRACE and time.monotonic() < until:
            time.sleep(0.05)
            if found():
                return
        if there and not found():
            with suppress(OSError):  # then it is waited for, as for any other
                _beside(path, _GIVEN_UP).touch(mode=0o600)


@dataclass(frozen=True)
class DirectoryStorage(ExternalStorage):
    """Temporal's, which takes for no reference what only looks like one."""

    def _decode_reference(self, payload: Payload) -> ExternalStorageReference | None:
        """The reference that a payload is; none where it cannot be read, or names another driver.

        The SDK has no public place for this; what is none is read as any other payload. What is
        encrypted, and cannot be decrypted, is one.
        """
        if payload.metadata.get("encoding") == ENCRYPTED:
            return self._keyless(payload)
        try:
            found = super()._decode_reference(payload)
        except Exception:  # noqa: BLE001 - a stranger's may be anything
            return None
        names = {driver.name() for driver in self.drivers}
        return found if found is not None and found.driver_name in names else None

    def _keyless(self, payload: Payload) -> ExternalStorageReference | None:
        for driver in self.drivers:
            claim = driver.keyless_claim(payload) if isinstance(driver, DirectoryDriver) else None
            if claim is not None:
                return ExternalStorageReference(
                    driver_name=driver.name(), claim_data=claim.claim_data
                )
        return None


def request_payload(file: str) -> None:
    """Notes that a command's content is asked for, which is not there.

    Args:
        file: Where it would be, as `codec.missing_file` says.
    """
    note = _beside(Path(file), _ASKED)
    with suppress(OSError):  # then it is waited for, as for any other
        note.parent.mkdir(exist_ok=True)
        note.touch(mode=0o600, exist_ok=True)


def unavailable_payload_error(
    file: str, key: MissingKey | None = None
) -> StoreIncomplete | EncryptionKeyMissing:
    """The error of whoever needs a file of the folder, or a key, that is not there.

    Args:
        file: The file.
        key: The key; none: it is the file that is missing.
    """
    if key is not None:
        return key_missing_error(key.id, key.keys)
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
