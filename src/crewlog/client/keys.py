"""Private keys: where they are, which one signs, and how a command is signed.

A key is a file `NAME.pem` (PKCS #8, as `openssl` makes and reads it) in `~/.config/crewlog/keys`
that only its owner may read. `CREWLOG_KEY` names one, or any other file; `off` signs nothing. Else
the one signs that there is, or of several the one that has the user's name.
"""

from __future__ import annotations

import base64
import os
import re
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from crewlog.authority.principals import signed_text
from crewlog.authority.signatures import APPROVE, SCHEDULE, Signature
from crewlog.client.key_folder import VARIABLE, folder
from crewlog.definition.policy import KEY_PREFIX
from crewlog.errors import UsageError
from crewlog.model import Json

OFF = "off"
"""Its value where nothing is to be signed."""
VALID = 15 * 60
"""Seconds for which a signature holds. A worker that is away for longer finds it expired."""
VALID_CHANGE = 24 * 3600
"""The same of a change: it is sent again until a model has read its prompt."""
VALID_APPROVAL = 3650 * 24 * 3600
"""The same of an approval of a server's tool: it ends with the key's right, or with another."""
VALID_SCHEDULE = 366 * 24 * 3600
"""The same of what a schedule does: after that time it is made anew."""
_VALID = {"change": VALID_CHANGE, SCHEDULE: VALID_SCHEDULE, APPROVE: VALID_APPROVAL}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.@+-]{0,63}")
_SUFFIX = ".pem"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Key:
    """A private key."""

    name: str
    """What its file is called."""
    path: Path
    """The file."""
    public: str
    """The public key, as a policy has it: `ed25519:BASE64`."""
    private: Ed25519PrivateKey = field(repr=False)

    def signed(
        self, run: str, name: str, content: Mapping[str, Json], namespace: str
    ) -> dict[str, Json]:
        """A command as it is sent, with its proof.

        Args:
            run: The run's id.
            name: The command's name, or `start`.
            content: The command as JSON.
            namespace: The run's; empty for an approval, which is of no run.

        Raises:
            UsageError: it has something that cannot be signed.
        """
        valid = _VALID.get(name, VALID)
        expires = int((time.time() + valid) * 1000)
        try:
            text = signed_text(run, name, expires, content, namespace)
        except ValueError as error:
            raise UsageError(
                f"the command {name!r} cannot be signed: {error}",
                remedy="JSON that is signed has no number beyond 2**53 - 1 and no half character.",
            ) from error
        signature = base64.b64encode(self.private.sign(text)).decode()
        proof = Signature(key=self.public, expires=expires, signature=signature)
        return {**content, "proof": proof.to_json()}


def make(name: str, where: Path | None = None) -> Key:
    """Makes a key.

    Raises:
        UsageError: there is one of that name, or it cannot be a name, or the folder not be written.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a key's name",
            remedy="Use a letter, then at most 63 letters, digits or any of _ . @ + -",
        )
    at = where or folder()
    path = at / f"{name}{_SUFFIX}"
    private = Ed25519PrivateKey.generate()
    text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        at.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Never through a file that others can read, nor over one that is there.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(
            f"there is a key {name!r} already",
            remedy="Choose another name; to put another key in its place, move that file away.",
            place=str(path),
        ) from error
    except OSError as error:
        raise UsageError(
            f"the key {name!r} cannot be written: {error.strerror or error}", place=str(path)
        ) from error
    return _key(name, path, private)


def names(where: Path | None = None) -> list[str]:
    """The names of the keys that there are."""
    try:
        return sorted(path.stem for path in (where or folder()).glob(f"*{_SUFFIX}"))
    except OSError:
        return []


def load(name: str, where: Path | None = None) -> Key:
    """The key of that name, or in that file.

    Raises:
        UsageError: there is none, others may read it, or it is no Ed25519 key.
    """
    if _NAME.fullmatch(name) and not name.endswith(_SUFFIX):
        path = (where or folder()) / f"{name}{_SUFFIX}"
    else:
        path = Path(name).expanduser()
    try:
        mode, text = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        known = ", ".join(names(where)) or "none"
        raise UsageError(
            f"there is no key {name!r} that can be read: {error.strerror or error}",
            remedy=f"Keys: {known}. `crewlog keys make NAME` makes one; {VARIABLE} chooses one.",
            place=str(path),
        ) from error
    if mode & _OTHERS:
        raise UsageError(
            f"the key {path.stem!r} may be read by others, and is not used",
            remedy=f"chmod 600 {path}",
            place=str(path),
        )
    try:
        private = load_pem_private_key(text, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _no_key(path) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise _no_key(path)
    return _key(path.stem, path, private)


def chosen(user: str = "", environ: Mapping[str, str] | None = None) -> Key | None:
    """The key that signs; none where none is chosen.

    Args:
        user: The system's user, whose key it is where there are several.
        environ: The environment.

    Raises:
        UsageError: the one that is chosen cannot be used.
    """
    env = os.environ if environ is None else environ
    wanted, where = env.get(VARIABLE, ""), folder(env)
    if wanted:
        return None if wanted == OFF else load(wanted, where)
    found = names(where)
    if len(found) == 1:
        return load(found[0], where)
    return load(user, where) if user in found else None


def _key(name: str, path: Path, private: Ed25519PrivateKey) -> Key:
    raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return Key(name, path, KEY_PREFIX + base64.b64encode(raw).decode(), private)


def _no_key(path: Path) -> UsageError:
    return UsageError(
        "the file has no Ed25519 private key without a passphrase",
        remedy="`crewlog keys make NAME` makes one, as does `openssl genpkey -algorithm ed25519`.",
        place=str(path),
    )
