"""Encrypts texts in the tables of the store, each bound to its row.

An encrypted text starts with its format and the id of its key: `encrypted:1:KEY:…`. It is bound to
the namespace, the kind of text, and the key of its row. For bodies and definitions that is the
hash, so that forks share them; for a journal entry its run, position and hash.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable

from crewlog.encryption.keys import Keyring, associated_data
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing

PREFIX = "encrypted:1:"
"""The start of an encrypted text; no JSON text starts so."""

KEY_CODE = "encrypted:key:"
"""The start of the code of a key."""


class RowCipher:
    """Encrypts texts of rows; without keys it returns them unchanged.

    Args:
        keys: The keys; None: encryption is off.
        namespace: The namespace that the rows belong to.
    """

    def __init__(self, keys: Keyring | None, namespace: str) -> None:
        self.keys = keys
        self.namespace = namespace
        """The namespace that texts are bound to."""

    @property
    def is_enabled(self) -> bool:
        """Whether texts are encrypted."""
        return self.keys is not None

    def encrypt(self, text: str, kind: str, *place: str) -> str:
        """Encrypts a text.

        Args:
            text: The text.
            kind: The kind of text: `body`, `entry`.
            place: The key of its row.
        """
        if self.keys is None:
            return text
        bound = associated_data("row", self.namespace, kind, *place)
        key, data = self.keys.encrypt(text.encode("utf-8", "surrogatepass"), bound)
        return f"{PREFIX}{key}:{base64.b64encode(data).decode()}"

    def decrypt(self, text: str, kind: str, *place: str) -> str:
        """Decrypts a text.

        Raises:
            EncryptionKeyMissing: the process does not have the key.
            DecryptionFailed: the text was changed or moved, or is not encrypted.
        """
        if not text.startswith(PREFIX):
            return self._accept_plain(text, kind, place)
        key, _, rest = text[len(PREFIX) :].partition(":")
        if self.keys is None:
            raise EncryptionKeyMissing(
                f"rows of the store are encrypted, and this process has no keys ({kind})",
                remedy="Set CREWLOG_ENCRYPTION_KEYS to the key file that they were written with.",
            )
        bound = associated_data("row", self.namespace, kind, *place)
        try:
            data = self.keys.decrypt(key, base64.b64decode(rest, validate=True), bound)
        except binascii.Error:
            raise self._rejected_row_error(
                "it was changed since it was encrypted", kind, place
            ) from None
        except DecryptionFailed as error:
            reason = error.message.replace("changed", "changed or moved")
            raise self._rejected_row_error(reason, kind, place) from None
        return data.decode("utf-8", "surrogatepass")

    def encrypt_optional(self, text: str | None, kind: str, *place: str) -> str | None:
        """`encrypt`, or None."""
        return None if text is None else self.encrypt(text, kind, *place)

    def decrypt_optional(self, text: str | None, kind: str, *place: str) -> str | None:
        """`decrypt`, or None."""
        return None if text is None else self.decrypt(text, kind, *place)

    def key_code(self, key: str, kind: str, *place: str) -> str:
        """The stored form of a key: a code derived with the current encryption key.

        Args:
            key: The key.
            kind: The kind of key: `memory_key`.
            place: What the key belongs to; the same key has another code elsewhere.
        """
        return self.key_codes(key, kind, *place)[0] if self.is_enabled else key

    def key_codes(self, key: str, kind: str, *place: str) -> list[str]:
        """The codes of a key, one for each encryption key; empty if encryption is off."""
        if self.keys is None:
            return []
        bound = associated_data("row", self.namespace, kind, *place, key)
        return [f"{KEY_CODE}{_hmac(each, bound)}" for each in self.keys.index_keys()]

    def word_codes(self, words: Iterable[str]) -> list[str]:
        """The stored form of words: codes derived with the current encryption key."""
        if self.keys is None:
            return list(words)
        secret = self.keys.index_keys()[0]
        return [_word_code(secret, word) for word in words]

    def search_word_codes(self, words: Iterable[str]) -> list[str]:
        """The stored forms of words to search for: their codes for each encryption key.

        If plain rows are accepted, also the words themselves.
        """
        if self.keys is None:
            return list(words)
        plain = list(words)
        codes = [_word_code(secret, word) for secret in self.keys.index_keys() for word in plain]
        return [*codes, *plain] if self.keys.accept_plain else codes

    def _accept_plain(self, text: str, kind: str, place: tuple[str, ...]) -> str:
        if self.keys is None or self.keys.accept_plain:
            return text
        raise DecryptionFailed(
            f"a row of the store is refused: encryption is on, and it is not encrypted ({kind} "
            f"{'/'.join(place)[:120]!r})",
            remedy="A process without keys wrote it, or something other than Crewlog. `crewlog "
            "rebuild RUN` makes the rows of a run again from its history. If you trust the plain "
            "rows, set CREWLOG_ENCRYPTION_ACCEPT_PLAIN=true and run `crewlog encryption "
            "reencrypt`.",
        )

    def _rejected_row_error(
        self, reason: str, kind: str, place: tuple[str, ...]
    ) -> DecryptionFailed:
        return DecryptionFailed(
            f"a row of the store is refused: {reason} ({kind} {'/'.join(place)[:120]!r})",
            remedy="Something other than Crewlog wrote to the database, or another namespace uses "
            "it, which needs a database of its own. `crewlog rebuild RUN` makes the rows of a run "
            "again from its history.",
        )


def _word_code(secret: bytes, word: str) -> str:
    return "x" + _hmac(secret, word.encode("utf-8", "surrogatepass"))[:20]


def _hmac(secret: bytes, data: bytes) -> str:
    return hmac.digest(secret, data, "sha256").hex()
