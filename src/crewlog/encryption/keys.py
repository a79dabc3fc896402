"""The key file, and the keys in a process.

The id of a key is derived from the key. So a wrong key is an unknown key, which an operator can
add, and is never mistaken for a changed value.

The file is read again when it changes, and at once when a value has an unknown key. So keys are
rotated without a restart.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from crewlog.errors import DecryptionFailed, EncryptionKeyMissing, UsageError
from crewlog.model import Model
from crewlog.validation_errors import validation_error_text

KEYS = "CREWLOG_ENCRYPTION_KEYS"
"""The variable that turns encryption on."""
ACCEPT_PLAIN = "CREWLOG_ENCRYPTION_ACCEPT_PLAIN"
"""The variable that also accepts plain values."""
RELOAD_INTERVAL = 1.0
"""Seconds between two checks whether the file has changed."""
NO_KEY = "this process has no key"
"""Part of the message for a missing key; clients search for it in the errors of workers."""
NONCE = 12
"""Bytes at the start of an encrypted value, which are never used twice."""
_BITS = 256


class Key(Model):
    """One key of a key file."""

    id: str
    """Derived from the key, see `id_of`."""
    key: str
    """The key itself, 32 bytes in base64."""
    created_at: int = 0
    """When it was created, in milliseconds since the epoch."""


class KeyFile(Model):
    """The content of a key file."""

    keys: tuple[Key, ...]
    """Oldest first."""
    current: str
    """The id of the key that encrypts new values."""
    prepared: str = ""
    """The id of a key that is distributed to all machines before it becomes current."""
    retired: tuple[str, ...] = ()
    """Ids of keys whose values are always refused: no valid value is encrypted with them."""


def id_of(key: bytes) -> str:
    """The id of a key."""
    digest = hashlib.sha256(b"crewlog key id\0" + key).digest()
    return base64.urlsafe_b64encode(digest[:9]).decode()


def new_key(at: int) -> Key:
    """A new random key.

    Args:
        at: Now, in milliseconds since the epoch.
    """
    key = AESGCM.generate_key(_BITS)
    return Key(id=id_of(key), key=base64.b64encode(key).decode(), created_at=at)


def read_keys(path: Path) -> KeyFile:
    """Reads and checks a key file.

    Raises:
        UsageError: it cannot be read, is readable by others than its owner, or is no key file.
    """
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
        found = KeyFile.model_validate_json(text)
    except ValidationError as error:
        # Without the values, which may be keys.
        fields = sorted({".".join(map(str, each["loc"])) for each in error.errors()})
        raise UsageError(
            f"this is no key file: wrong at {', '.join(filter(None, fields)) or 'its beginning'}",
            remedy=remedy,
            place=str(path),
        ) from None
    for each in found.keys:
        raw = _raw(each)
        if raw is None or id_of(raw) != each.id:
            raise UsageError(
                f"the key {each.id!r} is damaged: its id is not that of its content",
                remedy="Copy the file again from an intact copy.",
                place=str(path),
            )
    ids = {each.id for each in found.keys}
    if found.current not in ids:
        raise UsageError(
            f"the current key {found.current!r} is not in the file",
            remedy="Copy the file again from an intact copy.",
            place=str(path),
        )
    if both := sorted(ids & set(found.retired)):
        raise UsageError(
            f"the key {both[0]!r} is both in `keys` and in `retired`",
            remedy="Remove it from one of them.",
            place=str(path),
        )
    return found


def write_keys(path: Path, file: KeyFile) -> None:
    """Replaces a key file atomically; only its owner can read it."""
    path = path.resolve()  # keeps a symbolic link
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(file.model_dump(mode="json"), indent=1)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text + "\n")
        out.flush()
        os.fsync(out.fileno())
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
        UsageError: it cannot be read or written.
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


def _raw(key: Key) -> bytes | None:
    try:
        raw = base64.b64decode(key.key, validate=True)
    except ValueError:
        return None
    return raw if len(raw) * 8 == _BITS else None


class Keyring:
    """The keys of a process, from its key file.

    Args:
        path: The key file.
        accept_plain: Whether plain values are accepted, too.
    """

    def __init__(self, path: Path, *, accept_plain: bool = False) -> None:
        self.path = path
        self.accept_plain = accept_plain
        self._ciphers: dict[str, AESGCM] = {}
        self._index: dict[str, bytes] = {}
        self._retired: frozenset[str] = frozenset()
        self._current = ""
        self._loaded_version: tuple[int, int, int] | None = None
        self._checked_at = 0.0
        self._load()

    @property
    def current(self) -> str:
        """The id of the key that encrypts new values."""
        self._reload_if_changed()
        return self._current

    def encrypt(self, data: bytes, bound: bytes) -> tuple[str, bytes]:
        """Encrypts a value; returns the id of the key, and nonce and ciphertext.

        Args:
            data: The value.
            bound: The associated data: decryption needs the same.
        """
        self._reload_if_changed()
        nonce = os.urandom(NONCE)
        cipher = self._ciphers[self._current]
        return self._current, nonce + cipher.encrypt(nonce, data, _bound(self._current, bound))

    def decrypt(self, key: str, data: bytes, bound: bytes) -> bytes:
        """Decrypts a value.

        Raises:
            EncryptionKeyMissing: the process does not have the key.
            DecryptionFailed: it was changed, has other associated data, or its key is retired.
        """
        if self.key_problem(key) == "retired":
            raise DecryptionFailed(
                f"it is encrypted with the retired key {key[:40]!r}",
                remedy="Add the key again from a copy of the key file that has it: `crewlog "
                "encryption add COPY KEY`.",
            )
        cipher = self._ciphers.get(key)
        if cipher is None:
            raise key_missing_error(key, str(self.path))
        try:
            return cipher.decrypt(data[:NONCE], data[NONCE:], _bound(key, bound))
        except (InvalidTag, ValueError):
            raise changed_value_error() from None

    def index_keys(self) -> list[bytes]:
        """Keys for codes of words, one for each key; that of the current key comes first."""
        self._reload_if_changed()
        rest = [secret for key, secret in self._index.items() if key != self._current]
        return [self._index[self._current], *rest]

    def ids(self) -> tuple[str, ...]:
        """The ids of the keys, oldest first."""
        self._reload_if_changed()
        return tuple(self._ciphers)

    def key_problem(self, key: str) -> Literal["", "retired", "unknown"]:
        """Why a key cannot decrypt; empty if it can."""
        self._reload_if_changed(now=key not in self._ciphers and key not in self._retired)
        if key in self._retired:
            return "retired"
        return "" if key in self._ciphers else "unknown"

    def _reload_if_changed(self, *, now: bool = False) -> None:
        """Reads the file again if it has changed; if it cannot be read, the keys stay."""
        at = time.monotonic()
        if not now and at - self._checked_at < RELOAD_INTERVAL:
            return
        self._checked_at = at
        try:
            if self._file_version() != self._loaded_version:
                self._load()
        except UsageError:
            # It is being copied or replaced: the loaded keys are still valid.
            return

    def _file_version(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None  # reading it raises an error
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _load(self) -> None:
        # Before it is read, so that the next check finds a file that replaces it meanwhile.
        version = self._file_version()
        file = read_keys(self.path)
        self._loaded_version = version
        known = self._ciphers
        self._ciphers = {
            each.id: known.get(each.id) or AESGCM(base64.b64decode(each.key)) for each in file.keys
        }
        self._index = {
            each.id: hashlib.sha256(b"crewlog words\0" + base64.b64decode(each.key)).digest()
            for each in file.keys
        }
        self._retired = frozenset(file.retired)
        self._current = file.current
        self._checked_at = time.monotonic()


def key_missing_error(key: str, place: str = "") -> EncryptionKeyMissing:
    """The error for a missing key.

    Args:
        key: The id of the key.
        place: The key file of the process; empty: it has none.
    """
    if not place:
        return EncryptionKeyMissing(
            f"a payload is encrypted, and {NO_KEY}s",
            remedy=f"Set {KEYS} to the key file that it was written with.",
        )
    return EncryptionKeyMissing(
        f"{NO_KEY} {key[:40]!r}",
        remedy=f"`crewlog encryption add FILE {key[:40]}` copies it from a key file that has it. "
        "If you have no such key, the value was written by somebody else: `crewlog encryption "
        f"retire {key[:40]} --unknown` makes workers refuse it.",
        place=place,
    )


def changed_value_error() -> DecryptionFailed:
    """The error for an encrypted value that was changed."""
    return DecryptionFailed(
        "it was changed since it was encrypted",
        remedy="Something other than Crewlog changed it: check what else can write to the Temporal "
        "server and the database.",
    )


def _bound(key: str, bound: bytes) -> bytes:
    return b"crewlog/1\0" + key.encode() + b"\0" + bound


def associated_data(kind: Literal["payload", "schedule", "row"], *parts: str) -> bytes:
    """The data that a value is bound to: the JSON of the parts, so that no two lists are equal.

    Without `json.dumps`, which is slower, since every stored or sent value needs it.
    """
    return f"[{','.join(map(encode_basestring_ascii, (kind, *parts)))}]".encode()


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
