"""The key file, and the keys in a process.

A key's id is made of the key itself. So a wrong key is an unknown one, which an operator can mend,
and never looks like a value that somebody has tampered with.

The file is read again when it changes, and at once when a value names a key that is not known:
keys are rotated without starting anything anew.
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
from crewlog.validation_errors import faults_of

KEYS = "CREWLOG_ENCRYPTION_KEYS"
"""The variable that turns encryption on."""
ACCEPT_PLAIN = "CREWLOG_ENCRYPTION_ACCEPT_PLAIN"
"""The variable that lets what is not encrypted be read as well."""
LOOK = 1.0
"""Seconds between two looks at whether the file has changed."""
NO_KEY = "this process has no key"
"""How it is said that a key is missing; clients look for it in what workers say."""
NONCE = 12
"""Bytes that begin what is encrypted, and are never the same twice."""
_BITS = 256


class Key(Model):
    """One key of a key file."""

    id: str
    """Made of the key: see `id_of`."""
    key: str
    """The key itself, 32 bytes in base64."""
    made: int = 0
    """When it was made, in milliseconds since the epoch."""


class KeyFile(Model):
    """What is in a key file."""

    keys: tuple[Key, ...]
    """Oldest first."""
    current: str
    """The id of the key that new values are encrypted with."""
    prepared: str = ""
    """The id of a key that is there for all machines to have, before any writes with it."""
    retired: tuple[str, ...] = ()
    """Ids whose values are refused for good: nothing that counts is encrypted with them."""


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
    return Key(id=id_of(key), key=base64.b64encode(key).decode(), made=at)


def read_keys(path: Path) -> KeyFile:
    """Reads and checks a key file.

    Raises:
        UsageError: it cannot be read, others than its owner can read it, or it is no key file.
    """
    remedy = (
        "Correct the path, or restore your copy. Where nothing is encrypted yet, "
        f"`crewlog encryption init {path}` makes one."
    )
    try:
        mode = path.stat().st_mode
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(
            f"the key file cannot be read: {why}", remedy=remedy, place=str(path)
        ) from None
    if os.name == "posix" and mode & 0o077:
        raise UsageError(
            f"the key file can be read by others than its owner (mode {mode & 0o777:04o})",
            remedy=f"`chmod 600 {path}`; who may have read it has the keys: `crewlog encryption "
            "rotate` makes a new one.",
            place=str(path),
        )
    try:
        found = KeyFile.model_validate_json(text)
    except ValidationError as error:
        # What is wrong, and never what is there: it may be a key.
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
                remedy="Copy the file anew from where it is whole.",
                place=str(path),
            )
    ids = {each.id for each in found.keys}
    if found.current not in ids:
        raise UsageError(
            f"the current key {found.current!r} is not in the file",
            remedy="Copy the file anew from where it is whole.",
            place=str(path),
        )
    if both := sorted(ids & set(found.retired)):
        raise UsageError(
            f"the key {both[0]!r} is there, and retired: what it encrypts cannot be both",
            remedy="Take it away from one of `keys` and `retired`.",
            place=str(path),
        )
    return found


def write_keys(path: Path, file: KeyFile) -> None:
    """Writes a key file, so that a reader sees the old one or the new one, and nobody else any."""
    path = path.resolve()  # a link leads to the file still
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(file.model_dump(mode="json"), indent=1)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text + "\n")
        out.flush()
        os.fsync(out.fileno())
    with suppress(OSError):  # whoever may not give it away owns it anyway
        owner = path.stat()
        os.chown(draft, owner.st_uid, owner.st_gid)  # workers may be another user's
    draft.replace(path)


def change_keys(path: Path, change: Callable[[KeyFile], KeyFile]) -> KeyFile:
    """Changes a key file: what it is as it is written, and nobody else changes it between.

    A key that another change had put there, and that is lost again, may have encrypted something.

    Args:
        path: The key file.
        change: Makes the new one of what is there.

    Raises:
        UsageError: it cannot be read, or not written.
    """
    read_keys(path)  # before anything else: it says what is wrong with the path
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
    """The keys of a key file, as a process has them.

    Args:
        path: The key file.
        accept_plain: Whether what is not encrypted is read as well.
    """

    def __init__(self, path: Path, *, accept_plain: bool = False) -> None:
        self.path = path
        self.accept_plain = accept_plain
        self._ciphers: dict[str, AESGCM] = {}
        self._index: dict[str, bytes] = {}
        self._retired: frozenset[str] = frozenset()
        self._current = ""
        self._seen: tuple[int, int, int] | None = None
        self._looked = 0.0
        self._load()

    @property
    def current(self) -> str:
        """The id of the key that new values are encrypted with."""
        self._look()
        return self._current

    def encrypt(self, data: bytes, bound: bytes) -> tuple[str, bytes]:
        """Encrypts; the id of the key, and nonce and ciphertext.

        Args:
            data: What is encrypted.
            bound: What the result is bound to besides the key: it opens with the same only.
        """
        self._look()
        nonce = os.urandom(NONCE)
        cipher = self._ciphers[self._current]
        return self._current, nonce + cipher.encrypt(nonce, data, _bound(self._current, bound))

    def decrypt(self, key: str, data: bytes, bound: bytes) -> bytes:
        """Decrypts what `encrypt` made.

        Raises:
            EncryptionKeyMissing: the process does not have the key.
            DecryptionFailed: it was changed, or is bound to something else; or its key is retired.
        """
        if self.lacks(key) == "retired":
            raise DecryptionFailed(f"it is encrypted with the retired key {key[:40]!r}")
        cipher = self._ciphers.get(key)
        if cipher is None:
            raise key_missing_error(key, str(self.path))
        try:
            return cipher.decrypt(data[:NONCE], data[NONCE:], _bound(key, bound))
        except (InvalidTag, ValueError):
            raise DecryptionFailed("it was changed since it was encrypted") from None

    def index_keys(self) -> list[bytes]:
        """Keys for codes of words, one of each key; the current key's comes first."""
        self._look()
        rest = [secret for key, secret in self._index.items() if key != self._current]
        return [self._index[self._current], *rest]

    def ids(self) -> tuple[str, ...]:
        """The ids of the keys, oldest first."""
        self._look()
        return tuple(self._ciphers)

    def lacks(self, key: str) -> Literal["", "retired", "unknown"]:
        """Why nothing opens that is encrypted with a key; empty where the key is there."""
        self._look(now=key not in self._ciphers and key not in self._retired)
        if key in self._retired:
            return "retired"
        return "" if key in self._ciphers else "unknown"

    def _look(self, *, now: bool = False) -> None:
        """Reads the file again where it has changed; what was read stays where it cannot be."""
        at = time.monotonic()
        if not now and at - self._looked < LOOK:
            return
        self._looked = at
        try:
            if self._stamp() != self._seen:
                self._load()
        except UsageError:
            # It is being copied, or is gone for a moment: the keys at hand are still right.
            return

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None  # whoever reads it says why
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _load(self) -> None:
        # Looked at before it is read: what replaces it meanwhile is seen at the next look.
        seen = self._stamp()
        file = read_keys(self.path)
        self._seen = seen
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
        self._looked = time.monotonic()


def key_missing_error(key: str, place: str = "") -> EncryptionKeyMissing:
    """The error of a process that lacks the key of a value.

    Args:
        key: The key's id.
        place: The process's key file; empty: it has none.
    """
    if not place:
        return EncryptionKeyMissing(
            f"a payload is encrypted, and {NO_KEY}s",
            remedy=f"Set {KEYS} to the key file of those who wrote it.",
        )
    return EncryptionKeyMissing(
        f"{NO_KEY} {key[:40]!r}",
        remedy=f"`crewlog encryption add FILE {key[:40]}` takes it from a key file that "
        "has it. If no key of yours has that id, it is not from you: `crewlog encryption "
        f"retire {key[:40]} --unknown` has it refused.",
        place=place,
    )


def _bound(key: str, bound: bytes) -> bytes:
    return b"crewlog/1\0" + key.encode() + b"\0" + bound


def associated_data(kind: Literal["payload", "schedule", "row"], *parts: str) -> bytes:
    """What a value is bound to, so that no two lists of parts say the same.

    It is the JSON of the list. Written part by part: `json.dumps` makes an encoder for each, and
    every value that is stored or sent is bound to something.
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
    """Whether what is not encrypted is read as well: while encryption is being turned on, and runs
    go on that began without."""


def environment_keyring() -> Keyring | None:
    """The keys that the environment names; none where encryption is off.

    Raises:
        UsageError: the settings are wrong, or the key file cannot be used.
    """
    if not os.environ.get(KEYS):
        return None
    try:
        settings = EncryptionSettings()
    except ValidationError as error:
        raise UsageError(f"the settings of encryption are wrong: {faults_of(error)}") from error
    if settings.keys is None:
        return None
    return _keyring(settings.keys.expanduser().absolute(), settings.accept_plain)


@lru_cache(maxsize=32)
def _keyring(path: Path, accept_plain: bool) -> Keyring:
    return Keyring(path, accept_plain=accept_plain)
