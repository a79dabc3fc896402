"""Encrypts texts in the tables of the store, each bound to its row.

An encrypted text starts with the id of its key: `crewlog:encrypted:KEY:…`. It is bound to
the namespace, the kind of text, and the key of its row. For bodies and definitions that is the
hash, so that forks share them; for a journal entry its run, position and hash.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from crewlog.encryption.keys import Keyring, changed_value_error, json_list, key_of
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing

PREFIX = "crewlog:encrypted:"
"""The start of an encrypted text; no other text starts so."""

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
        data = self.keys.encrypt(_encoded(text), self._bound(kind, *place))
        return f"{PREFIX}{key_of(data)}:{base64.b64encode(data).decode()}"

    def decrypt(self, text: str, kind: str, *place: str) -> str:
        """Decrypts a text.

        Raises:
            EncryptionKeyMissing: the process does not have the key.
            DecryptionFailed: the text was changed or moved, or is not encrypted.
        """
        if not text.startswith(PREFIX):
            return self._accept_plain(text, kind, place)
        if self.keys is None:
            raise EncryptionKeyMissing(
                f"rows of the store are encrypted, and this process has no keys ({kind})",
                remedy="Set CREWLOG_ENCRYPTION_KEYS to the key file that they were written with.",
            )
        key, _, encoded = text[len(PREFIX) :].partition(":")
        try:
            data = base64.b64decode(encoded, validate=True)
            if key_of(data) != key:
                raise changed_value_error()
            content = self.keys.decrypt(data, self._bound(kind, *place))
        except (binascii.Error, DecryptionFailed) as error:
            reason = getattr(error, "message", changed_value_error().message)
            raise self._rejected_row_error(
                reason.replace("changed", "changed or moved"), kind, place
            ) from None
        return content.decode("utf-8", "surrogatepass")

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
        codes = self.keys.codes(self._bound(kind, *place, key))
        return [f"{KEY_CODE}{code}" for code in codes]

    def word_codes(self, words: Iterable[str]) -> list[str]:
        """The stored form of words: codes derived with the current encryption key."""
        if self.keys is None:
            return list(words)
        return [_short(self.keys.code(_encoded(word))) for word in words]

    def search_word_codes(self, words: Iterable[str]) -> list[str]:
        """The stored forms of words to search for: their codes for each encryption key.

        If plain rows are accepted, also the words themselves.
        """
        if self.keys is None:
            return list(words)
        plain = list(words)
        codes = [_short(code) for word in plain for code in self.keys.codes(_encoded(word))]
        return [*codes, *plain] if self.keys.accept_plain else codes

    def _bound(self, *place: str) -> bytes:
        return b"row" + json_list((self.namespace, *place)).encode()

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


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _short(code: str) -> str:
    return "x" + code[:20]
