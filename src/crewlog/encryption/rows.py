"""Texts in the store's tables: encrypted one by one, each bound to the place that it stands in.

An encrypted text begins with its format and the id of its key: `encrypted:1:KEY:…`. It is bound to
the namespace, the kind of text, and the key of its row: of a body and a definition the hash, so
that forks share them; of a journal entry its run, position and hash.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable

from crewlog.encryption.keys import Keyring, associated_data
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing

PREFIX = "encrypted:1:"
"""How an encrypted text begins; no JSON text does."""

KEY_CODE = "encrypted:key:"
"""How the code of a row's key begins."""


class RowCipher:
    """Encrypts texts of rows; without keys it leaves them as they are.

    Args:
        keys: The keys; none: encryption is off.
        namespace: The namespace that the rows belong to.
    """

    def __init__(self, keys: Keyring | None, namespace: str) -> None:
        self.keys = keys
        self.namespace = namespace
        """The namespace that texts are bound to."""

    @property
    def on(self) -> bool:
        """Whether texts are encrypted."""
        return self.keys is not None

    def encrypt(self, text: str, kind: str, *place: str) -> str:
        """A text as it is kept.

        Args:
            text: The text.
            kind: What it is: `body`, `entry`.
            place: The key of its row.
        """
        if self.keys is None:
            return text
        bound = associated_data("row", self.namespace, kind, *place)
        key, data = self.keys.encrypt(text.encode("utf-8", "surrogatepass"), bound)
        return f"{PREFIX}{key}:{base64.b64encode(data).decode()}"

    def decrypt(self, text: str, kind: str, *place: str) -> str:
        """The text that `encrypt` made another one from.

        Raises:
            EncryptionKeyMissing: the process does not have its key.
            DecryptionFailed: it was changed, stands elsewhere, or is not encrypted.
        """
        if not text.startswith(PREFIX):
            return self._plain(text, kind, place)
        key, _, rest = text[len(PREFIX) :].partition(":")
        if self.keys is None:
            raise EncryptionKeyMissing(
                f"rows of the store are encrypted, and this process has no keys ({kind})",
                remedy="Set CREWLOG_ENCRYPTION_KEYS to the key file of those who wrote them.",
            )
        bound = associated_data("row", self.namespace, kind, *place)
        try:
            data = self.keys.decrypt(key, base64.b64decode(rest, validate=True), bound)
        except binascii.Error:
            raise self._broken("it was changed since it was encrypted", kind, place) from None
        except DecryptionFailed as error:
            why = error.message.replace("changed", "changed or moved")
            raise self._broken(why, kind, place) from None
        return data.decode("utf-8", "surrogatepass")

    def encrypt_optional(self, text: str | None, kind: str, *place: str) -> str | None:
        """`encrypt`, where there may be nothing."""
        return None if text is None else self.encrypt(text, kind, *place)

    def decrypt_optional(self, text: str | None, kind: str, *place: str) -> str | None:
        """`decrypt`, where there may be nothing."""
        return None if text is None else self.decrypt(text, kind, *place)

    def key(self, key: str, kind: str, *place: str) -> str:
        """A row's key as the table has it: a code that only the current key makes.

        Args:
            key: The key.
            kind: What it is: `memory_key`.
            place: Within what it is a key: no code is that of another place.
        """
        return self.keys_of(key, kind, *place)[0] if self.on else key

    def keys_of(self, key: str, kind: str, *place: str) -> list[str]:
        """The codes that a row's key may have, of any of the keys; none where encryption is off."""
        if self.keys is None:
            return []
        bound = associated_data("row", self.namespace, kind, *place, key)
        return [f"{KEY_CODE}{_digest(each, bound)}" for each in self.keys.index_keys()]

    def words(self, words: Iterable[str]) -> list[str]:
        """Words as they are kept to be found: of each a code that only the current key makes."""
        if self.keys is None:
            return list(words)
        secret = self.keys.index_keys()[0]
        return [_code(secret, word) for word in words]

    def search_word_codes(self, words: Iterable[str]) -> list[str]:
        """Words as they are looked for: a row may have the codes of any key.

        Where plain rows are read, it may have the words themselves.
        """
        if self.keys is None:
            return list(words)
        given = list(words)
        codes = [_code(secret, word) for secret in self.keys.index_keys() for word in given]
        return [*codes, *given] if self.keys.accept_plain else codes

    def _plain(self, text: str, kind: str, place: tuple[str, ...]) -> str:
        if self.keys is None or self.keys.accept_plain:
            return text
        raise DecryptionFailed(
            f"a row of the store is refused: encryption is on, and it is not encrypted ({kind} "
            f"{'/'.join(place)[:120]!r})",
            remedy="A process without keys wrote it since, or somebody past Crewlog. `crewlog "
            "rebuild RUN` makes the rows of a run again from its history; where you know that what "
            "is there is yours, set CREWLOG_ENCRYPTION_ACCEPT_PLAIN=true, and `crewlog encryption "
            "reencrypt` encrypts it.",
        )

    def _broken(self, why: str, kind: str, place: tuple[str, ...]) -> DecryptionFailed:
        return DecryptionFailed(
            f"a row of the store is refused: {why} ({kind} {'/'.join(place)[:120]!r})",
            remedy="Somebody has written to the database past Crewlog, or another namespace "
            "uses it, which needs one of its own. `crewlog rebuild RUN` makes the rows of a run "
            "again from its history.",
        )


def _code(secret: bytes, word: str) -> str:
    return "x" + _digest(secret, word.encode("utf-8", "surrogatepass"))[:20]


def _digest(secret: bytes, data: bytes) -> str:
    return hmac.digest(secret, data, "sha256").hex()
