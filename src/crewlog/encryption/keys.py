"""The key file, and the keys in a process.

A key file is a key set of Tink in JSON, so that `tinkey` can read it, too: AES-256-GCM keys, of
which the primary one encrypts. Tink does the encryption; this module changes and reloads key sets.

The file is read again when it changes, and at once when a value has an unknown key. So keys are
rotated without a restart.
"""

from __future__ import annotations

import base64
import fcntl
import hmac
import json
import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any, Literal

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from crewlog.errors import DecryptionFailed, EncryptionKeyMissing, UsageError
from crewlog.validation_errors import validation_error_text

KEYS = "CREWLOG_ENCRYPTION_KEYS"
"""The variable that turns encryption on."""
ACCEPT_PLAIN = "CREWLOG_ENCRYPTION_ACCEPT_PLAIN"
"""The variable that also accepts plain values."""
RELOAD_INTERVAL = 1.0
"""Seconds between two checks whether the file has changed."""
UNIQUE_BYTES = 17
"""Bytes at the start of an encrypted value that no other value has: Tink's version, the id of the
key and the nonce."""


@dataclass(frozen=True)
class KeyFile:
    """The content of a key file."""

    current: str
    """The id of the primary key, which encrypts new values."""
    entries: tuple[dict[str, Any], ...]
    """Tink's JSON of the keys, oldest first: `keyId`, `status`, `keyData`, `outputPrefixType`."""

    @property
    def ids(self) -> list[str]:
        """The ids of the keys, oldest first."""
        return [str(each["keyId"]) for each in self.entries if each["status"] == "ENABLED"]

    @property
    def retired(self) -> list[str]:
        """Ids of keys whose values are always refused: no valid value is encrypted with them."""
        return [str(each["keyId"]) for each in self.entries if each["status"] != "ENABLED"]

    @property
    def prepared(self) -> str:
        """The id of a key that is distributed to all machines before it becomes current; or empty.

        `rotate` adds keys at the end, so the last enabled key is either current or prepared.
        Keys that are disabled or destroyed may follow it: `tinkey` adds keys at the end, too.
        """
        newest = self.ids[-1]
        return "" if newest == self.current else newest

    def rotate(self, *, prepare: bool = False) -> KeyFile:
        """Adds a key, unless one is prepared, and makes it current unless it is only prepared."""
        key, entries = self.prepared, self.entries
        if not key:
            added = new_key_file()
            key, entries = added.current, (*entries, *added.entries)
        return KeyFile(self.current if prepare else key, entries)

    def add(self, other: KeyFile, ids: Collection[str]) -> KeyFile:
        """Adds keys of another file, to decrypt with; they are no longer retired."""
        return self._with_entries([e for e in other.entries if str(e["keyId"]) in ids])

    def retire(self, key: str) -> KeyFile:
        """Destroys a key. Its id stays, so that its values are refused."""
        destroyed = {"keyId": int(key), "status": "DESTROYED", "outputPrefixType": "TINK"}
        return self._with_entries([destroyed])

    def _with_entries(self, first: Sequence[dict[str, Any]]) -> KeyFile:
        """Puts entries first, since the last may be prepared, instead of those with their ids."""
        ids = {each["keyId"] for each in first}
        rest = (each for each in self.entries if each["keyId"] not in ids)
        return KeyFile(self.current, (*first, *rest))

    def to_json(self) -> str:
        """The JSON of Tink."""
        return json.dumps({"primaryKeyId": int(self.current), "key": self.entries}, indent=1)

    def code_keys(self) -> list[bytes]:
        """Keys for codes of words, one for each key; that of the current one comes first."""
        enabled = [each for each in self.entries if each["status"] == "ENABLED"]
        enabled.sort(key=lambda each: str(each["keyId"]) != self.current)
        keys = [base64.b64decode(each["keyData"]["value"]) for each in enabled]
        return [HKDF(SHA256(), 32, salt=None, info=b"crewlog codes").derive(k) for k in keys]


def new_key_file() -> KeyFile:
    """A key file with one new key."""
    tink, aead, secret = _tink()
    handle = tink.new_keyset_handle(aead.aead_key_templates.AES256_GCM)
    return _parse(tink.json_proto_keyset_format.serialize(handle, secret))


def _parse(text: str) -> KeyFile:
    keyset = json.loads(text)
    return KeyFile(str(keyset["primaryKeyId"]), tuple(keyset["key"]))


@lru_cache(maxsize=1)
def _tink() -> tuple[Any, Any, Any]:
    """Tink, its AEAD, and its token for secret keys.

    The import takes 40 ms, which a process without keys saves.
    """
    import tink  # noqa: PLC0415
    from tink import aead, secret_key_access  # noqa: PLC0415

    aead.register()
    return tink, aead, secret_key_access.TOKEN


def _cipher(file: KeyFile) -> Any:
    """Tink's primitive for a key file.

    Raises:
        TinkError: it is no valid key set.
        ValueError: it has a key of another kind than `new_key_file` makes.
    """
    tink, aead, secret = _tink()
    if any(each["outputPrefixType"] != "TINK" for each in file.entries):
        raise ValueError("values would not name their keys")
    handle = tink.json_proto_keyset_format.parse(file.to_json(), secret)
    return handle.primitive(aead.Aead)


def key_of(data: bytes) -> str:
    """The id of the key that an encrypted value names; empty if it names none."""
    return str(int.from_bytes(data[1:5], "big")) if data[:1] == b"\1" and len(data) > 4 else ""


def read_keys(path: Path) -> KeyFile:
    """Reads and checks a key file.

    Raises:
        UsageError: it cannot be read, is readable by others than its owner, or is no key file.
    """
    return _load(path)[0]


def _load(path: Path) -> tuple[KeyFile, Any]:
    """A key file and its primitive; see `read_keys`."""
    remedy = (
        "Correct the path, or restore your copy. If nothing is encrypted yet, "
        f"`crewlog encryption init {path}` creates one."
    )
    try:
        mode = path.stat().st_mode
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(
            f"the key file cannot be read: {reason}", remedy=remedy, place=str(path)
        ) from None
    if os.name == "posix" and mode & 0o077:
        raise UsageError(
            f"the key file is readable by others than its owner (mode {mode & 0o777:04o})",
            remedy=f"`chmod 600 {path}`. If somebody may have read the keys, `crewlog encryption "
            "rotate` creates a new one.",
            place=str(path),
        )
    try:
        file = _parse(text)
        if file.current in file.retired:
            raise UsageError(
                f"the primary key {file.current!r} is not enabled",
                remedy="Enable it, or make an enabled key the primary one: `tinkey enable-key`, "
                "`tinkey promote-key`. Or restore your copy.",
                place=str(path),
            )
        file.code_keys()
        return file, _cipher(file)
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        _tink()[0].TinkError,
    ):
        # Without the reason, which may show keys.
        raise UsageError(
            "this is no key file: it has no valid key set of Tink",
            remedy=remedy,
            place=str(path),
        ) from None


def write_keys(path: Path, file: KeyFile) -> None:
    """Replaces a key file atomically; only its owner can read it.

    Raises:
        UsageError: the key set cannot be loaded; the file is not replaced.
        OSError: the file cannot be written.
    """
    path = path.resolve()  # keeps a symbolic link
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(file.to_json() + "\n")
        out.flush()
        os.fsync(out.fileno())
    try:
        read_keys(draft)
    except UsageError as error:
        draft.unlink()
        raise UsageError(
            f"the changed key set cannot be loaded: {error.message}",
            remedy="Nothing was changed. `crewlog encryption rotate` makes another key the "
            "primary one.",
            place=str(path),
        ) from None
    with suppress(OSError):  # a user without the right to change the owner is the owner
        owner = path.stat()
        os.chown(draft, owner.st_uid, owner.st_gid)  # workers may run as another user
    draft.replace(path)


def change_keys(path: Path, change: Callable[[KeyFile], KeyFile]) -> KeyFile:
    """Changes a key file under a lock.

    Without it a concurrent change could lose a key that has encrypted values.

    Args:
        path: The key file.
        change: Returns the new content for the current one.

    Raises:
        UsageError: it cannot be read or written, or the new content cannot be loaded.
    """
    read_keys(path)  # raises an error if the path is wrong
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            changed = change(read_keys(path))
            write_keys(path, changed)
        finally:
            os.close(folder)
    except OSError as error:
        raise UsageError(
            f"the key file cannot be written: {error.strerror}",
            remedy="Nothing was changed.",
            place=str(path),
        ) from None
    return changed


class Keyring:
    """The keys of a process, from its key file.

    Args:
        path: The key file.
        accept_plain: Whether plain values are accepted, too.
    """

    def __init__(self, path: Path, *, accept_plain: bool = False) -> None:
        self.path = path
        self.accept_plain = accept_plain
        self._checked_at = 0.0
        self._load()

    @property
    def current(self) -> str:
        """The id of the key that encrypts new values."""
        self._reload_if_changed()
        return self._file.current

    def encrypt(self, data: bytes, bound: bytes) -> bytes:
        """Encrypts a value.

        Args:
            data: The value.
            bound: The associated data: decryption needs the same.
        """
        self._reload_if_changed()
        return bytes(self._cipher.encrypt(data, bound))

    def decrypt(self, data: bytes, bound: bytes) -> bytes:
        """Decrypts a value.

        Raises:
            EncryptionKeyMissing: the process does not have the key.
            DecryptionFailed: it was changed, has other associated data, or its key is retired.
        """
        key = key_of(data)
        problem = self.key_problem(key)
        if problem == "retired":
            raise DecryptionFailed(
                f"it is encrypted with the retired key {key!r}",
                remedy="Add the key again from a copy of the key file that has it: `crewlog "
                "encryption add COPY KEY`.",
            )
        if problem and key:
            raise key_missing_error(key, str(self.path))
        try:
            return bytes(self._cipher.decrypt(data, bound))
        except _tink()[0].TinkError:
            raise changed_value_error() from None

    def codes(self, data: bytes) -> list[str]:
        """The codes of data, in hex, one for each key; that of the current key comes first."""
        self._reload_if_changed()
        return [_code(each, data) for each in self._code_keys]

    def code(self, data: bytes) -> str:
        """The code of data, in hex, by the current key."""
        self._reload_if_changed()
        return _code(self._code_keys[0], data)

    def key_problem(self, key: str) -> Literal["", "retired", "unknown"]:
        """Why a key cannot decrypt; empty if it can."""
        self._reload_if_changed(now=key not in self._state)
        return self._state.get(key, "unknown")

    def _reload_if_changed(self, *, now: bool = False) -> None:
        """Reads the file again if it has changed; if it cannot be read, the keys stay."""
        at = time.monotonic()
        if not now and at - self._checked_at < RELOAD_INTERVAL:
            return
        self._checked_at = at
        # While it is copied or replaced, the loaded keys are still valid.
        with suppress(UsageError):
            if self._file_version() != self._loaded_version:
                self._load()

    def _file_version(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None  # reading it raises an error
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _load(self) -> None:
        # Before it is read, so that the next check finds a file that replaces it meanwhile.
        version = self._file_version()
        self._file, self._cipher = _load(self.path)
        self._code_keys = self._file.code_keys()
        self._loaded_version = version
        self._state: dict[str, Literal["", "retired"]] = {
            **dict.fromkeys(self._file.retired, "retired"),
            **dict.fromkeys(self._file.ids, ""),
        }
        self._checked_at = time.monotonic()


def _code(key: bytes, data: bytes) -> str:
    return hmac.digest(key, data, "sha256").hex()


def key_missing_error(key: str, place: str = "") -> EncryptionKeyMissing:
    """The error for a missing key.

    Args:
        key: The id of the key.
        place: The key file of the process; empty: it has none.
    """
    if not place:
        return EncryptionKeyMissing(
            "a payload is encrypted, and this process has no keys",
            remedy=f"Set {KEYS} to the key file that it was written with.",
        )
    return EncryptionKeyMissing(
        f"this process has no key {key!r}",
        remedy=f"`crewlog encryption add FILE {key}` copies it from a key file that has it. "
        "If you have no such key, the value was written by somebody else: `crewlog encryption "
        f"retire {key} --unknown` makes workers refuse it.",
        place=place,
    )


def changed_value_error() -> DecryptionFailed:
    """The error for an encrypted value that was changed."""
    return DecryptionFailed(
        "it was changed since it was encrypted",
        remedy="Something other than Crewlog changed it: check what else can write to the Temporal "
        "server and the database.",
    )


def json_list(parts: Sequence[str]) -> str:
    """The JSON list of texts, as `json.dumps` writes it, but faster: every value needs one."""
    return f"[{','.join(map(encode_basestring_ascii, parts))}]"


class EncryptionSettings(BaseSettings):
    """Whether encryption is on; workers, clients and the command line must agree."""

    model_config = SettingsConfigDict(
        env_prefix="CREWLOG_ENCRYPTION_", use_attribute_docstrings=True, extra="ignore"
    )

    keys: Path | None = None
    """The key file. Without one, nothing is encrypted."""
    accept_plain: bool = False
    """Whether plain values are accepted, too: while encryption is being turned on, and runs that
    started without it continue."""


def environment_keyring() -> Keyring | None:
    """The keys that the environment names; None if encryption is off.

    Raises:
        UsageError: the settings are wrong, or the key file cannot be used.
    """
    if not os.environ.get(KEYS):
        return None
    try:
        settings = EncryptionSettings()
    except ValidationError as error:
        raise UsageError(
            f"the settings of encryption are wrong: {validation_error_text(error)}",
            remedy="Correct or unset the variables CREWLOG_ENCRYPTION_...; "
            "docs/authority/encryption.md has them.",
        ) from error
    if settings.keys is None:
        return None
    return _keyring(settings.keys.expanduser().absolute(), settings.accept_plain)


@lru_cache(maxsize=32)
def _keyring(path: Path, accept_plain: bool) -> Keyring:
    return Keyring(path, accept_plain=accept_plain)
